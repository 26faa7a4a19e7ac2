"""A campaign in memory: its settings, its problem, and a policy that knows the first so many rows of the two logs.

Nothing here is the truth: it can be thrown away at any moment and made again from the database, and two processes that have
followed the same rows hold the same counts.

Who decides? A lot is drawn for each decision, a function of the campaign's seed and the decision's number. A ``holdout`` share
shows any enabled arm, and the policy never hears what it paid; a ``control`` share shows one arm; a ``floor`` share of every
enabled arm shows that arm; the rest is the policy's. So an arm is shown with probability

    holdout / E + control [arm is the control] + floor + (1 - holdout - control - E floor) pi(arm)

where E arms are enabled and pi is the policy's own probability. That is the decision's propensity, whoever the lot fell on.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field
from sqlalchemy import Connection, Row, func, select

from headwater import native
from headwater.errors import HeadwaterError, ProblemError
from headwater.files import build_problem
from headwater.policies import Policy, Spec, from_state, stored_spec
from headwater.problem import Problem
from headwater.service.answers import ServiceError
from headwater.service.tables import campaigns, decisions, rewards
from headwater.service.wire import Settings
from headwater.streams import TRAFFIC, to_open_unit

SKEW = 10.0
"""Seconds by which the clocks of two replicas may differ without anybody looking for deadlines in the wrong order."""
SWEEP = 5.0
CHUNK = 5000
"""Rows of a log that are in memory at once."""

POLICY, FLOOR, CONTROL, HOLDOUT, SHADOW = "policy", "floor", "control", "holdout", "shadow"
PAID, DEFAULT, FORGOTTEN = "paid", "default", "forgotten"
RUNNING, PAUSED, ARCHIVED = "running", "paused", "archived"
PI_DRAWS = 200
"""Draws from which the probabilities of a randomised policy are estimated."""


class Config(Settings):
    """A campaign's settings as they are stored: with the policy that ``auto`` stood for, and the arms that are off."""

    model_config = ConfigDict(extra="ignore")  # an older release may read what a newer one wrote

    spec: dict[str, Any]
    disabled: list[str] = Field(default_factory=list)


class Counters(NamedTuple):
    """The columns of a campaign's row that change all the time; see ``tables``."""

    version: int
    status: str
    decided: int
    settled: int
    expired: int
    refused: int
    next_due: float | None


COUNTERS = [campaigns.c[name] for name in Counters._fields]


def moment(at: float) -> str:
    """A time as ISO 8601, UTC.

    >>> moment(1700000000.25)
    '2023-11-14T22:13:20.250000Z'
    """
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


class Campaign:
    """Settings, problem and policy. Whoever reads or changes the policy holds ``lock``, and waits for nothing else meanwhile.

    ``problem`` is that of the row, with all its tables made where making them may take long: see ``models``.
    """

    def __init__(self, row: Row[Any], problem: Problem | None = None) -> None:
        self.id, self.slug, self.created = row.id, row.slug, row.created
        self.lock = threading.RLock()
        self.config = Config.model_validate_json(row.config)
        self.problem: Problem = problem if problem is not None else build_problem(json.loads(row.problem))
        self.counters = Counters(*(getattr(row, name) for name in Counters._fields))
        self.policy = self._make_policy(row)
        self.policy.quiet = True
        self.snapshot_decided, self.snapshot_settled = self.decided, self.settled
        self.doubted: list[str] = []
        self._seed = self.config.seed
        self._pi: tuple[int, dict[str, float]] = (-1, {})
        self.used = time.monotonic()  # when anybody last asked for it
        self._scanned = 0  # up to here it is known whether deadlines come in order
        self._tangled = 0  # the last whose deadline came before that of the one before it

    def _make_policy(self, row: Row[Any]) -> Policy:
        """From the snapshot where there is one that this release reads, else from nothing; the logs bring the rest."""
        self.decided, self.settled = 0, 0
        fresh = self.fresh_policy()
        if row.snapshot is not None:
            try:
                policy = from_state(json.loads(row.snapshot), self.problem)
                if policy.spec == fresh.spec:
                    self.decided, self.settled = row.snapshot_decided, row.snapshot_settled
                    return policy
            except (HeadwaterError, ValueError, KeyError, TypeError):
                pass  # the logs have everything; it only takes longer
        return fresh

    def fresh_policy(self) -> Policy:
        """The campaign's policy before the first reward."""
        policy = Policy(spec_of(self.config), self.problem, reward_range=self.config.reward_range, seed=self.config.seed)
        policy.quiet = True
        return policy

    # What is known: following the logs.

    def follow(self, connection: Connection, counters: Counters) -> None:
        """Take in what the logs have beyond what is known here, up to these counters. O(rows)."""
        if counters.decided > self.decided:
            query = select(decisions.c.arm, decisions.c.source).order_by(decisions.c.number)
            mine = decisions.c.campaign == self.id
            for low in range(self.decided, counters.decided, CHUNK):
                high = min(low + CHUNK, counters.decided)
                # all of them before the first counts: what fails half-way must not be counted by half
                made = connection.execute(query.where(mine, decisions.c.number.between(low + 1, high))).all()
                for arm, source in made:
                    if source != HOLDOUT:
                        self.policy.expect(arm)
                self.decided = high
        if counters.settled > self.settled:
            query_rewards = select(rewards.c.arm, rewards.c.value, rewards.c.learned).order_by(rewards.c.seq)
            mine = rewards.c.campaign == self.id
            for low in range(self.settled, counters.settled, CHUNK):
                high = min(low + CHUNK, counters.settled)
                paid = connection.execute(query_rewards.where(mine, rewards.c.seq.between(low + 1, high))).all()
                for arm, value, learned in paid:
                    self.learn(arm, value, learned)
                self.settled = high
            self.doubted = self.policy.doubted  # whoever counted those rewards has said so
        self.counters = counters

    def learn(self, arm: int, value: float | None, learned: bool) -> None:
        """Let the policy hear what an arm paid, or (None) that it will never be known."""
        if not learned:
            return
        if value is None:
            self.policy.cancel(arm)
        else:
            self.policy.update(self.names[arm], value)

    def look_for_tangles(self, connection: Connection) -> None:
        """Find out whether deadlines come in the order of decisions, as they do but for clocks that jump and deadlines that are
        made shorter. Amortised O(1)."""
        if self._scanned < self.counters.decided:
            low = max(self.counters.expired, self._scanned)
            mine = (decisions.c.campaign == self.id) & decisions.c.due.is_not(None)
            before = func.lag(decisions.c.due).over(order_by=decisions.c.number).label("before")
            some = select(decisions.c.number, decisions.c.due, before)
            each = some.where(mine, decisions.c.number.between(low, self.counters.decided)).subquery()
            earlier = select(func.max(each.c.number)).where(each.c.due < each.c.before - SKEW)
            self._tangled = max(self._tangled, connection.execute(earlier).scalar_one() or 0)
            self._scanned = self.counters.decided

    @staticmethod
    def next_sweep(at: float) -> float:
        """When deadlines that do not come in order are looked through again."""
        return at + SWEEP

    @property
    def tangled(self) -> bool:
        """Whether, behind the first decision that waits, others may be due before it."""
        return self._tangled > self.counters.expired

    def reconfigure(self, config: Config) -> None:
        """Go on with other settings; what was learned stays."""
        self.config = config
        self.__dict__.pop("enabled", None)
        self._pi = (-1, {})

    # Who decides.

    @property
    def names(self) -> tuple[str, ...]:
        return self.policy.names

    @cached_property
    def enabled(self) -> list[str]:
        return [name for name in self.names if name not in self.config.disabled]

    @property
    def among(self) -> list[str] | None:
        """What the policy may choose from; None for all."""
        return self.enabled if self.config.disabled else None

    @property
    def split(self) -> bool:
        """Whether anybody but the policy decides."""
        return bool(self.config.floor or self.config.holdout or self._control())

    def _control(self) -> float:
        """The control's share; 0 while its arm is off."""
        control = self.config.control
        return control.share if control is not None and control.arm not in self.config.disabled else 0.0

    def lot(self, number: int) -> tuple[str, str | None]:
        """Who makes this decision; and the arm, if it is not the policy's choice."""
        first, second = native.uniforms(seed=self._seed, replication=0, block=number, purpose=TRAFFIC, lane=0)
        u, arms = to_open_unit(first), self.enabled
        by_lot = arms[min(int(to_open_unit(second) * len(arms)), len(arms) - 1)]
        shares = ((HOLDOUT, self.config.holdout), (CONTROL, self._control()), (FLOOR, self.config.floor * len(arms)))
        for source, share in shares:
            if u < share:
                return source, self.config.control.arm if source == CONTROL and self.config.control is not None else by_lot
            u -= share
        return POLICY, None

    def propensity(self, arm: str, pi: float) -> float:
        """How likely an arm is to be shown, where the policy itself would show it with probability ``pi``."""
        if not self.split:
            return pi
        count, control = len(self.enabled), self._control()
        at_control = control if self.config.control is not None and arm == self.config.control.arm else 0.0
        left = max(1.0 - self.config.holdout - control - count * self.config.floor, 0.0)
        return min(self.config.holdout / count + at_control + self.config.floor + left * pi, 1.0)

    def pi(self, arm: str, choice: str) -> float:
        """The policy's own probability of an arm, where it has just chosen ``choice``."""
        if not self.policy.randomised:
            return float(arm == choice)
        if self._pi[0] != self.settled:
            self._pi = (self.settled, self.policy.propensities(self.among, PI_DRAWS))
        # an estimate from draws; what was chosen had some chance
        return max(self._pi[1].get(arm, 0.0), 0.5 / PI_DRAWS if arm == choice else 0.0)

    def decide(self, count: int, units: Sequence[str | None], shown: str | None, at: float) -> list[dict[str, Any]]:
        """Rows of new decisions; the policy counts them as pending. ``count`` is the number of ``units``."""
        first, due = self.decided + 1, None if self.config.reward_deadline is None else at + self.config.reward_deadline
        if self.config.mode == "shadow":
            assert shown is not None
            made = [self._by_lot(SHADOW, shown) for _ in range(count)]
        elif self.split:
            made = [self._by_lot(*self.lot(first + i)) for i in range(count)]
        else:
            made = [(arm, arm, self.pi(arm, arm), POLICY) for arm in self.policy.select_many(count, self.among)]
        numbers = {name: k for k, name in enumerate(self.names)} if count > len(self.names) else None
        index = numbers.__getitem__ if numbers is not None else self.problem.index
        self.decided += count
        return [
            {
                "campaign": self.id,
                "number": first + i,
                "at": at,
                "arm": index(arm),
                "choice": index(choice),
                "propensity": propensity,
                "source": source,
                "version": self.counters.version,
                "known": self.settled,
                "due": due,
                "unit": unit,
            }
            for i, ((arm, choice, propensity, source), unit) in enumerate(zip(made, units, strict=True))
        ]

    def _by_lot(self, source: str, arm: str | None) -> tuple[str, str, float | None, str]:
        """One decision that the policy may not make: the arm, what the policy would have shown, propensity, source."""
        choice = self.policy.select(self.among)
        if arm is None:
            arm = choice
        else:
            self.policy.cancel(choice)
            if source != HOLDOUT:
                self.policy.expect(arm)
        return arm, choice, None if source == SHADOW else self.propensity(arm, self.pi(arm, choice)), source

    # In words.

    def reason(self, row: Mapping[str, Any]) -> str:
        """Why a decision is what it is, in a sentence."""
        source, known = row["source"], f"{row['known']:,} reward{'' if row['known'] == 1 else 's'}"
        choice = self.names[row["choice"]]
        if source == POLICY:
            return f"{self.policy.spec.title} chose it, knowing {known}."
        if source == SHADOW:
            return f"Shown by you; {self.policy.spec.title} would have shown {choice}, knowing {known}."
        why = {
            FLOOR: f"By lot: every enabled arm gets at least {self.config.floor:.2%} of the decisions.",
            CONTROL: f"By lot: the control arm gets {self._control():.2%} of the decisions.",
            HOLDOUT: "By lot: a holdout, which the policy does not learn from.",
        }
        return f"{why[source]} {self.policy.spec.title} would have shown {choice}."

    def answer(self, row: Mapping[str, Any], *, repeated: bool = False) -> dict[str, Any]:
        """A decision as it goes over HTTP."""
        return {
            "id": f"{self.slug}.{row['number']}",
            "arm": self.names[row["arm"]],
            "propensity": row["propensity"],
            "policy": self.policy.spec.title,
            "version": row["version"],
            "source": row["source"],
            "reason": self.reason(row),
            "choice": self.names[row["choice"]],
            "unit": row["unit"],
            "repeated": repeated,
            "at": moment(row["at"]),
        }

    def view(self) -> dict[str, Any]:
        """The campaign as it goes over HTTP."""
        counters = self.counters._replace(decided=self.decided, settled=self.settled)
        return view_of(self.slug, self.created, self.config, counters, self.names, self.policy.spec)


def view_of(slug: str, created: float, config: Config, counters: Counters, names: Sequence[str], spec: Spec) -> dict[str, Any]:
    """A campaign as it goes over HTTP, from what its row says."""
    settings = config.model_dump(
        include={"name", "mode", "floor", "control", "holdout", "reward_deadline", "default_reward", "reward_range", "seed"}
    )
    return {
        "id": slug,
        "status": counters.status,
        "version": counters.version,
        "policy": spec.title,
        "created": moment(created),
        "arms": {name: name not in config.disabled for name in names},
        "decisions": counters.decided,
        "rewards": counters.settled,
        "pending": counters.decided - counters.settled,
        "refused": counters.refused,
        **settings,
    }


def spec_of(config: Config) -> Spec:
    """The policy that a campaign was made with."""
    return stored_spec(config.spec)


def warm_up(spec: Spec, problem: Problem, reward_range: float | None, *, explain: bool = True) -> None:
    """Decide and learn once with a policy like that, so that its functions are compiled before anybody waits for them."""
    scratch = Policy(spec, problem, reward_range=reward_range)
    scratch.quiet = True
    for among in (None, problem.names[:1]):
        arm = scratch.select_many(2, among)[0]
        k = problem.index(arm)
        low = scratch.table.levels[k][0] if scratch.table is not None and scratch.many is None else scratch.model.ranges[k][0]
        scratch.update(arm, float(low))
    if explain:
        scratch.propensities()
        scratch.explain()


def check_settings(config: Config, problem: Problem, policy: Policy) -> None:
    """Refuse settings that do not fit the problem or each other, all at once."""
    found: list[str] = []
    enabled = [name for name in problem.names if name not in config.disabled]
    control = config.control
    if control is not None and control.arm not in problem.arms:
        found.append(f'control.arm: got "{control.arm}"; expected one of {", ".join(problem.names[:20])}')
    total = config.floor * len(enabled) + (control.share if control is not None else 0.0) + config.holdout
    if total > 1 + 1e-12:
        found.append(f"floor × {len(enabled)} arms + control + holdout: got {total:.6g}; expected at most 1")
    if config.default_reward is not None:
        if config.reward_deadline is None:
            found.append("default_reward: got no reward_deadline; expected one, for when the default is to count")
        for name in problem.names:
            try:
                policy.check(name, config.default_reward)
            except HeadwaterError as error:
                found.append(f"default_reward: {name} cannot pay it: {error}")
    if not enabled:
        found.append("arms: got none enabled; expected at least one")
    if found:
        raise ProblemError(found)


def paused(campaign: Campaign) -> ServiceError | None:
    """Why a campaign makes no decisions now, if it does not."""
    status = campaign.counters.status
    if status == RUNNING:
        return None
    hint = "resume it first" if status == PAUSED else "archived campaigns make no more decisions"
    return ServiceError(409, f"{campaign.slug}: the campaign is {status}; {hint}", code=status)
