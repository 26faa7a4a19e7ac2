"""A policy that makes live decisions: ``select`` an arm, ``update`` with the reward it paid.

The decision is the native function that the simulators run; there is no second implementation. What was learned is a table of
whole numbers (how often each arm paid each of its rewards; sums of them where there are infinitely many), so a stored policy
continues bit for bit, and two replicas merge by adding.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from headwater import native
from headwater.arrays import Floats, Ints
from headwater.complaints import is_number, shown
from headwater.errors import ModelWarning, ProblemError, RewardError, SizeError
from headwater.latent import Continuous
from headwater.policies.auto import is_learned
from headwater.policies.core import model_of_rewards, settings_of
from headwater.policies.evidence import evidence_of
from headwater.policies.explanation import Explanation, explain, explain_learner
from headwater.policies.inference import Holds, LatentLaw, check_holds, latent_law
from headwater.policies.many import Many, check_many
from headwater.policies.rules import (
    AUDIT,
    KLUCB,
    EpsilonGreedy,
    LatentThompson,
    Reference,
    Rule,
    Spec,
    Thompson,
    Uniform,
    check_positive,
)
from headwater.policies.states import stored_learner, sums_of_squares
from headwater.policies.suspects import blame, suspects_of
from headwater.policies.table import LevelTable, bounds, has_levels, table_of, units_of
from headwater.problem import Problem
from headwater.pseudo import TOLERANCE, model_of
from headwater.pseudo.finite import FiniteModel
from headwater.streams import seed_words

FORMAT, VERSION = "headwater-policy", 2

_FAR = 1e308
_NUMPY = frozenset(np.dtype(code).type for code in "bhilqBHILQefd")
"""numpy's single numbers that are Python's when asked for: whole ones, and all but the longest of the others."""
_EVERYONE = np.empty(0, dtype=np.int64)
SHOWN = 40
"""Values of X up to which an explanation says what is known of its law."""


class Counts(NamedTuple):
    """The native state's arrays, sharing its memory: ``pulls``, their ``total`` in units, ``successes``, ``pending`` (K,), by
    how much the likeliest law's total differs from the one paid where rewards are random (``shift``), squared rewards in two
    words; the means, and what ranks the arms (``ranks``); ``sums`` (K, K) of the filter, ``seen`` (K, M) rewards by level. The
    last two are empty where nothing reads them.
    """

    pulls: Ints
    total: Ints
    successes: Ints
    squares: Ints
    rest: Ints
    pending: Ints
    shift: Ints
    mean: Floats
    root: Floats
    ranks: Floats
    sums: Ints
    seen: Ints


class Policy:
    """One learner on one problem. Never reads the problem's distribution.

    ``reward_range`` overrides B, which scales the exploration bonus. ``tolerance`` is how far an observed reward may be from
    one the arm can pay, as a part of the arm's range. Randomised policies draw from ``seed``; the same seed decides the same.

    >>> import headwater as hw
    >>> ads = hw.Problem(latent=hw.Discrete(["student", "worker", "retiree"]),
    ...                  arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]})
    >>> policy = hw.make_policy("c-ucb", ads)
    >>> policy.select()
    'banner'
    >>> policy.update("banner", 2)
    >>> policy.competitive()  # video could not have paid more than 1.5
    ['banner']
    """

    def __init__(
        self,
        spec: Spec,
        problem: Problem,
        *,
        reward_range: float | None = None,
        tolerance: float = TOLERANCE,
        seed: int = 0,
        replication: int = 0,
    ) -> None:
        if not isinstance(problem, Problem):
            raise ProblemError(f"problem: got {shown(problem)}; expected a Problem")
        if type(spec) is not Spec:  # what a subclass overrides would not be stored with it
            raise ProblemError(f"spec: got {shown(spec)}; expected a Spec itself, as make_spec makes it")
        self.spec, self.problem, self.tolerance = spec, problem, tolerance
        self.model = model_of(problem)
        self.names = problem.names
        check_positive("reward_range", reward_range)
        if not is_number(tolerance) or not 0 <= tolerance < 1:
            raise ProblemError(f"tolerance: got {shown(tolerance)}; expected a number from 0 to below 1")
        self.scale = self.model.reward_range if reward_range is None else float(reward_range)
        self.table: LevelTable | None = table_of(problem) if has_levels(self.model) else None
        self.units = units_of(self.model) if self.table is None else self.table.units
        if self.table is None and spec.rule == KLUCB("empirical"):
            raise ProblemError('form: got "empirical"; expected "bernoulli", because these arms have infinitely many rewards')
        self.evidence = evidence_of(problem) if spec.learns else None
        self.many = self._make_many()
        self.seed, self.replication = _seed(seed), replication
        self._begin()
        self._numbers = {name: k for k, name in enumerate(self.names)}
        levels = self.table.levels if self.table is not None and self.many is None else []
        self._levels = {
            name: (k, {float(v): m for m, v in enumerate(row)})
            for k, (name, row) in enumerate(zip(self.names, levels, strict=False))
        }
        self._off = (self.names, np.zeros(len(self.names), dtype=np.int64))  # the last choice of arms, and which are off then
        self._warned: set[str] = set()
        self.quiet = False
        """Whether whoever runs it reads ``doubted`` by itself and wants no warning."""

    def _begin(self) -> None:
        """Know nothing yet."""
        self._native = self._start()
        self.known = Counts(*self._native.arrays(False).values())
        self._ahead = Counts(*self._native.arrays(True).values())
        self.sums, self.seen = self.known.sums, self.known.seen

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: what was learned goes as what is stored of it."""
        native_ones = ("_native", "known", "_ahead", "sums", "seen")
        rest = {name: value for name, value in self.__dict__.items() if name not in native_ones}
        return {"rest": rest, "learned": self._stored()}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        from headwater.policies.states import add_state

        self.__dict__.update(kept["rest"])
        self._begin()
        add_state(self, kept["learned"])

    def _start(self) -> native.Live:
        """The native policy, which knows nothing; ``cells`` and ``bins`` are what it reads of rewards."""
        count, spec, table = len(self.names), self.spec, self.table
        low, span = bounds(self.model)
        self.cells = np.zeros((count, 1, count + 1), dtype=np.int64)
        self.bins = np.zeros((count, 1), dtype=np.int64)
        if self.many is not None:
            self.cells = np.zeros((count, 0, count + 1), dtype=np.int64)
        elif table is not None:
            self.cells = np.ascontiguousarray(table.cells)
            self.bins = self.bins if self.evidence is None else self.evidence.bins(table.levels)
        model = model_of_rewards(
            spec,
            self.cells,
            self.units.unit,
            low,
            span,
            bins=self.bins,
            evidence=self.evidence,
            random=table.random if table is not None and self.many is None and spec.reference != "none" else None,
            columns=None if self.many is None else self.many.columns,
        )
        return native.Live(model, settings_of(spec, scale=self.scale, seed=self.seed), self.replication)

    def _expect_own(self, doing: str, *verbs: str) -> None:
        """Refuse what would go round a verb that a subclass (or this object) overrides."""
        for verb in verbs:
            if getattr(getattr(self, verb), "__func__", None) is not getattr(Policy, verb):
                raise ProblemError(
                    f"{doing}: {type(self).__name__} has its own {verb}, which {doing} would ignore; expected a Policy as it "
                    "is: keep one in an object of your own instead"
                )

    def _make_many(self) -> Many | None:
        columns = None if self.table is None else self.table.columns
        if columns is None:
            return None
        check_many(self.spec, len(self.names))
        assert isinstance(self.model, FiniteModel)
        return Many(columns, self.model)

    def __repr__(self) -> str:
        return f"<Policy {self.spec.title} on {self.problem.name or 'a problem'}: {self.rounds} rewards>"

    @property
    def rounds(self) -> int:
        """How many rewards were counted."""
        return self._native.rounds

    @property
    def pulls(self) -> dict[str, int]:
        return dict(zip(self.names, self.known.pulls.tolist(), strict=True))

    @property
    def pending(self) -> list[int]:
        """How many pulls of each arm have not paid yet."""
        return [int(n) for n in self.known.pending]

    @property
    def waiting(self) -> int:
        """How many pulls have not paid yet."""
        return self._native.waiting

    @property
    def memory(self) -> int:
        """How many bytes it keeps beside its problem, but for what grows with the rewards."""
        return self._native.bytes + self.bins.nbytes

    @property
    def randomised(self) -> bool:
        """Whether its decisions are drawn (from ``seed``), so that others might have been made from the same rewards."""
        return isinstance(self.spec.rule, (Thompson, LatentThompson, Uniform, EpsilonGreedy))

    def select(self, among: Sequence[str] | None = None) -> str:
        """The arm to pull next; it counts as pending until its reward comes (or ``cancel``). O(K).

        ``among``: choose one of these arms, the others being switched off. All rewards still count as evidence on X; but an arm
        that is off excludes nobody, and where a policy does not learn the law of X, its rounds do not count.
        """
        if among is None and not self.spec.learns:
            return self.names[self._native.select()]
        off = None if among is None else self._switched_off(among)
        return self._select_waiting(1, off)[0] if off is not None or self._native.waiting else self._select_first()

    def _select_first(self) -> str:
        """The next arm, where no pull is pending and every arm is on."""
        self._native.decide()
        self._warn()  # before anything is changed, for whoever makes errors of warnings
        return self.names[self._native.select()]

    def select_many(self, count: int, among: Sequence[str] | None = None) -> list[str]:
        """The next ``count`` arms, as that many calls of ``select`` would choose them, one after the other; all are pending."""
        self._expect_own("select_many", "select")
        if type(count) is not int or count < 0:
            raise ProblemError(f"count: got {shown(count)}; expected a whole number from 0")
        off = self._switched_off(among)
        if count and off is None and not self._native.waiting:  # the first as select makes it, which may set a course
            return [self._select_first(), *self._select_waiting(count - 1, None)]
        return self._select_waiting(count, off)

    def _select_waiting(self, count: int, off: Ints | None) -> list[str]:
        """The next arms, where pulls are pending or arms are switched off."""
        if count == 0:
            return []
        out = np.empty(count, dtype=np.int64)
        self._decide(out, off)
        self._warn()
        self._native.expect(out)
        return [self.names[arm] for arm in out.tolist()]

    def propensities(self, among: Sequence[str] | None = None, draws: int = 200) -> dict[str, float]:
        """The probability with which each arm would be selected next, given what is known now; changes nothing.

        Estimated from ``draws`` draws, which are none of those that decide, where the policy is ``randomised``; else 0 or 1.
        ``latent-ts`` walks on through the laws of X from where it is, so that its draws are nearly independent.
        """
        self._expect_own("propensities", "select")
        if type(draws) is not int or not 1 <= draws <= 2**31:
            raise ProblemError(f"draws: got {shown(draws)}; expected a whole number from 1")
        off = self._switched_off(among)
        shares = np.zeros(len(self.names), dtype=np.int64)
        if self.randomised:
            self._decide(shares, off, draws=draws)
        else:
            draws, out = 1, np.empty(1, dtype=np.int64)
            if self._native.waiting or off is not None:
                self._decide(out, off)
            else:  # as select would
                out[0] = self._native.decide()
            shares[out[0]] = 1
        return {name: n / draws for name, n in zip(self.names, shares.tolist(), strict=True)}

    def update(self, arm: str | int | Sequence[str | int], reward: float | Sequence[float]) -> None:
        """Count the reward that an arm paid, or many at once; late and out of order is fine. All or nothing."""
        # The common case in as few steps as it takes. The exact type, because True would be found as 1.0.
        kind = type(reward)
        if kind is not float and kind in _NUMPY:
            reward = reward.item()  # type: ignore[union-attr]
            kind = type(reward)
        if type(arm) is str and (kind is float or kind is int) and arm in self._levels:
            k, levels = self._levels[arm]
            m = levels.get(reward)  # type: ignore[arg-type]
            if m is not None:
                self._native.pay(k, m)
                return
        for k, level in self._checked(arm, reward):
            self._observe(k, level)

    def check(self, arm: str | int | Sequence[str | int], reward: float | Sequence[float]) -> None:
        """Raise what ``update`` would raise, and change nothing."""
        self._expect_own("check", "update")
        self._checked(arm, reward)

    def cancel(self, arm: str | int) -> None:
        """Forget one pending pull of an arm: its reward will never come."""
        k = self.problem.index(arm)
        if self.known.pending[k] == 0:
            raise ProblemError(f"arm: got {shown(arm)}; expected an arm with a pending pull")
        self._native.cancel(k)

    def expect(self, arm: str | int) -> None:
        """Count one more pending pull of an arm that somebody else chose: another replica, or a lot."""
        self._native.expect(np.array([self.problem.index(arm)]))

    def forget_choice(self) -> None:
        """What is known changed from outside: the next arm must be decided anew."""
        self._native.forget_choice()

    def competitive(self) -> list[str]:
        """The arms still in the running, by what is known now."""
        return [line.name for line in self.explain().arms if line.excluded_by is None]

    @property
    def doubted(self) -> list[str]:
        """Arms that fit worst where rewards contradict the model: they are judged by their own rewards alone."""
        return [self.names[k] for k in self._native.doubted()] if self.spec.learns else []

    @property
    def suspects(self) -> list[str]:
        """The arms that the model may be wrong about, where rewards contradict it: those doubted, and any that may be it."""
        if self.evidence is None or not (doubted := self._native.doubted()):
            return []
        return [self.names[k] for k in suspects_of(self.evidence, self.spec, doubted, self.seen)]

    def latent(self, confidence: float = 0.95, holds: Holds = "each") -> LatentLaw:
        """What the rewards say about the law of X: likeliest probabilities, intervals, and what no pulled arm tells apart.

        ``holds`` says what has the confidence: "each" value's interval by itself, at this moment; "all" of them at once, at
        this moment; or all of them at once "always", whenever one looks (where channels are known).
        """
        check_holds(holds)
        if not is_number(confidence) or not 0 < confidence < 1:
            raise ProblemError(f"confidence: got {shown(confidence)}; expected a number between 0 and 1")
        if self.table is None or not isinstance(self.model, FiniteModel):
            kind = self.problem.latent.kind
            raise ProblemError(f"latent: got {kind} X that is not listed; expected a list of values, each with a probability")
        if self.many is not None:
            raise SizeError(f"latent: {len(self.names):,} arms are too many to infer the law of X from; leave some out")
        known, latent = evidence_of(self.problem), self.problem.latent
        assert not isinstance(latent, Continuous)
        labels = [latent.label(j) for j in range(latent.size)]
        doubted = np.array([name in self.doubted for name in self.names], dtype=np.int64)
        law = latent_law(known, self.seen, labels, doubted, confidence, holds, arms=self.names)
        others = [name for name in self.suspects if name not in self.doubted]
        if law.contradicted or not others:
            return law
        note = f"That holds if the model is wrong about {' and '.join(self.doubted)}; it may be {' or '.join(others)} instead."
        return replace(law, notes=(*law.notes, note))

    def explain(self, among: Sequence[str] | None = None) -> Explanation:
        """For every arm its mean, index and pseudo-reward, whether and by which arm it is excluded, in words.

        ``among``: as in ``select``; the other arms are said to be switched off.
        """
        self._expect_own("explain", "select")
        off, out = self._switched_off(among), np.empty(1, dtype=np.int64)
        absent = np.zeros(len(self.names), dtype=np.int64) if off is None else off
        if self.evidence is not None:
            twin = self._native.copy()  # what it finds out leaves no trace here
            twin.look_closely()  # at every index, also those that need not be known to decide
            twin.decide_ahead(out, _EVERYONE if off is None else off, 0)
            law = self.latent() if isinstance(self.model, FiniteModel) and self.model.g.shape[1] <= SHOWN else None
            ahead = Counts(*twin.arrays(True).values())
            told = explain_learner(self.spec, self.names, ahead, twin, self.evidence, int(out[0]), self.rounds, law, absent)
            return replace(told, suspects=tuple(self.suspects))
        self._decide(out, off)
        if self.spec.rule == KLUCB():
            self._complete(absent)
        most = self._native.most_pulled(True)
        sums = self.sums if self.many is None else {most: self._native.row(most)}
        return explain(self.spec, self.names, self.known, sums, self.units.unit, self._ahead, int(out[0]), self.rounds, absent)

    def state(self) -> dict[str, Any]:
        """Everything needed to go on, as JSON-ready data."""
        self._expect_own("state", "select", "update")
        return self._stored()

    def _stored(self) -> dict[str, Any]:
        learned: dict[str, Any]
        if self.table is None:
            learned = {
                "pulls": self._named(self.known.pulls),
                "total": self._named(self.known.total),
                "sums": {
                    name: self._named(self.sums[k] if len(self.sums) else 0 * self.known.pulls)
                    for k, name in enumerate(self.names)
                },
            }
            if self._estimates:
                learned["squares"] = self._named(sums_of_squares(self.known.squares, self.known.rest))
        elif self.many is not None:
            counts = self.many.counts(self._native)
            learned = {"counts": {name: [list(row) for row in counts.get(k, [])] for k, name in enumerate(self.names)}}
        else:
            levels = self.table.levels
            learned = {
                "counts": {
                    name: [[float(v), int(n)] for v, n in zip(levels[k], self.seen[k], strict=False) if n]
                    for k, name in enumerate(self.names)
                }
            }
        if self.spec.learns:
            learned |= stored_learner(self._native, self.names, self.seen if self.table is None else None)
        return {
            "format": FORMAT,
            "version": VERSION,
            "policy": self.spec.to_dict(),
            "problem": self.problem.digest,
            "reward_range": self.scale,
            "seed": self.seed,
            "replication": self.replication,
            "tolerance": self.tolerance,
            "successes": self._named(self.known.successes),
            "pending": self._named(self.pending),
            **learned,
        }

    @property
    def _estimates(self) -> bool:
        """Whether it estimates how much rewards deviate."""
        return self.spec.rule.code == "ts-estimated"

    def merge(self, other: Policy | Mapping[str, Any]) -> None:
        """Add what another replica of the same policy learned: the result is as if all of it had been counted here."""
        from headwater.policies.states import add_state

        self._expect_own("merge", "update")
        add_state(self, other.state() if isinstance(other, Policy) else other)

    def _named(self, values: Iterable[Any]) -> dict[str, int]:
        return {name: int(v) for name, v in zip(self.names, values, strict=True)}

    def _switched_off(self, among: Sequence[str] | None) -> Ints | None:
        """1 for every arm that is not ``among`` these (K,); None where all are."""
        if among is None:
            return None
        if isinstance(among, str) or not isinstance(among, Iterable):
            raise ProblemError(f"among: got {shown(among)}; expected a list of arms")
        some = tuple(among)
        if some != self._off[0]:
            if not some:
                raise ProblemError("among: got no arm; expected at least one")
            off = np.ones(len(self.names), dtype=np.int64)
            off[[self.problem.index(arm, "among") for arm in some]] = 0
            self._off = some, off
        return self._off[1] if self._off[1].any() else None

    def _decide(self, out: Ints, off: Ints | None, *, draws: int = 0) -> None:
        """Fill ``out`` with the next decisions, nothing having been paid between them; see native/engines/live.h."""
        self._native.decide_ahead(out, _EVERYONE if off is None else off, draws)

    def _checked(self, arm: object, reward: Any) -> list[tuple[int, Any]]:
        """Arms and what ``_observe`` needs of their rewards; refuses what is wrong with any of them."""
        if isinstance(arm, (str, int, np.integer)) or not isinstance(arm, Iterable):
            k = self.problem.index(arm)  # type: ignore[arg-type]
            return [(k, self._level(k, reward))]
        arms, rewards = list(arm), list(np.atleast_1d(np.asarray(reward, dtype=object)))
        if len(arms) != len(rewards):
            raise RewardError(f"reward: got {len(rewards)} rewards for {len(arms)} arms; expected as many")
        return [(k, self._level(k, r)) for k, r in zip(map(self.problem.index, arms), rewards, strict=True)]

    def _level(self, k: int, reward: Any) -> Any:
        """What ``_observe`` needs of a reward: its level, the atom that stands for it where there are very many, or its row of
        units when there are infinitely many."""
        if type(reward) in _NUMPY:  # a narrow one cannot be compared with what is far beyond it
            reward = reward.item()
        if not is_number(reward) or not -_FAR < reward < _FAR:  # an int may be too large to become a float
            raise RewardError(f"reward: got {shown(reward)}; expected a finite number")
        if self.many is not None and (atom := self.many.exact(k, float(reward))) is not None:
            return atom
        value = self.model.snap(k, np.array([float(reward)]), self.tolerance)
        if self.many is not None:
            return self.many.atom(k, float(value[0]))
        if self.table is not None:
            return int(np.argmin(abs(self.table.levels[k] - value[0])))
        row = np.zeros(len(self.names) + 1, dtype=np.int64)
        if self.spec.reference != "none":
            row[:-1] = self.units.excesses(value, self.model.pseudo(k, value))[:, 0]
        row[k], row[-1] = 0, self.units.rewards(value)[0]
        if self.evidence is not None:
            row[0] = self.evidence.bin(k, value)[0]  # in a place that only a filter would read
        return row

    def _observe(self, k: int, level: Any) -> None:
        if self.table is None:
            self.cells[k, 0] = level
            if self.evidence is not None:
                self.bins[k, 0] = level[0]
            level = 0
        self._native.pay(k, level)

    def _complete(self, off: Ints) -> None:
        """The true index of every arm in the running: a decision leaves out those that certainly do not win."""
        low, span = bounds(self.model)
        ahead = self._ahead
        n = ahead.pulls + ahead.pending
        log_t = math.log(1 + int(n[off == 0].sum()))
        running = ahead.ranks > -np.inf
        index = native.kl_ucb_index(ahead.mean[running], n[running].astype(float), log_t, low, span)
        ahead.ranks[running] = index

    def _warn(self) -> None:
        """Say once for each arm that its rewards contradict the model."""
        for name in () if self.quiet or not self.spec.learns else self.doubted:
            if name not in self._warned:
                self._warned.add(name)
                whom = blame([name], self.suspects)
                warnings.warn(
                    f"the rewards contradict the model, whatever the law of X: it is wrong about {whom}; "
                    f"{name}, which fits worst, is now judged by its own rewards alone",
                    ModelWarning,
                    stacklevel=4,
                )

    def hush(self) -> None:
        """What is doubted now was said before."""
        self._warned.update(self.doubted)


def _seed(seed: object) -> int:
    low, high = seed_words(seed)
    return high << 32 | low


class Correlated(Policy):
    """The paper's filter over an index rule: ``Correlated(UCB1(), problem)`` is C-UCB.

    ``reference``: the most-pulled arm (the paper), or all "well-pulled" arms, those with at least t/K pulls. ``audit``: as in
    ``Spec``; unless given, 0 for the paper, but ``AUDIT`` where what arms pay was learned from data.
    """

    def __init__(
        self, rule: Rule, problem: Problem, *, reference: Reference = "most-pulled", audit: float | None = None, **options: Any
    ) -> None:
        if audit is None:
            audit = AUDIT if is_learned(problem) else 0.0
        super().__init__(Spec(rule, reference, audit), problem, **options)
