"""A policy that makes live decisions: ``select`` an arm, ``update`` with the reward it paid.

The decision is the compiled function that the simulators run; there is no second implementation. What was learned is a table
of whole numbers (how often each arm paid each of its rewards; sums of them where there are infinitely many), so a stored policy
continues bit for bit, and two replicas merge by adding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.complaints import is_number, shown
from headwater.errors import ProblemError, RewardError
from headwater.policies import kernel
from headwater.policies.explanation import Explanation, explain
from headwater.policies.indices import kl_ucb_index
from headwater.policies.rules import Reference, Rule, Spec, check_positive
from headwater.policies.table import LevelTable, bounds, has_levels, table_of, units_of
from headwater.problem import Problem
from headwater.pseudo import TOLERANCE, model_of, require_deterministic
from headwater.streams import seed_words

FORMAT, VERSION = "headwater-policy", 1
_step, _SELECT, _OBSERVE, _BOTH = (
    kernel.step,
    kernel.SELECT,
    kernel.OBSERVE,
    kernel.BOTH,
)  # a look-up less, a million times a second

_FAR = 1e308


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
        require_deterministic(problem)
        self.spec, self.problem, self.tolerance = spec, problem, tolerance
        self.model = model_of(problem)
        self.names = problem.names
        self.units = units_of(self.model)
        check_positive("reward_range", reward_range)
        if not is_number(tolerance) or not 0 <= tolerance < 1:
            raise ProblemError(f"tolerance: got {shown(tolerance)}; expected a number from 0 to below 1")
        self.scale = self.model.reward_range if reward_range is None else float(reward_range)
        self.table: LevelTable | None = table_of(problem) if has_levels(self.model) else None
        if self.table is None and kernel.RULES[spec.rule.code] == kernel.KL_EMPIRICAL:
            raise ProblemError('form: got "empirical"; expected "bernoulli", because these arms have infinitely many rewards')
        count, most = len(self.names), 1 if self.table is None else self.table.cells.shape[1]
        low, span = bounds(self.model)
        self.whole = np.zeros(kernel.META + kernel.COUNTS * count, dtype=np.int64)
        self.real = np.zeros(kernel.PARAMS + 3 * count)
        self.meta, self.counts, self.params, self.mean, self.root, self.index = kernel.unpack(self.whole, self.real, count)
        self.meta[kernel.POLICY] = kernel.RULES[spec.rule.code]
        self.meta[kernel.REFERENCE] = kernel.FILTERS[spec.reference]
        self.meta[kernel.SEED_LOW], self.meta[kernel.SEED_HIGH] = seed_words(seed)
        self.meta[kernel.REPLICATION] = replication
        self.params[:] = self.units.unit, self.scale, spec.sd(self.scale), low, span
        self.mean[:] = math.inf
        self.sums = np.zeros((count, count), dtype=np.int64)
        self.seen = np.zeros((count, most), dtype=np.int64)
        self.cells = np.zeros((count, 1, count + 1), dtype=np.int64) if self.table is None else self.table.cells
        self.pending = [0] * count  # a list: numpy's single elements are slow to count with
        self.waiting = 0
        self._next, self._asked = -1, False  # the next arm where it is known already; whether an arm was asked for since
        self._numbers = {name: k for k, name in enumerate(self.names)}
        levels = [] if self.table is None else self.table.levels
        self._levels = {name: {float(v): m for m, v in enumerate(row)} for name, row in zip(self.names, levels, strict=False)}
        self._state = (self.whole, self.real, self.sums, self.seen, self.cells)

    def __repr__(self) -> str:
        return f"<Policy {self.spec.title} on {self.problem.name or 'a problem'}: {self.rounds} rewards>"

    @property
    def rounds(self) -> int:
        """How many rewards were counted."""
        return int(self.meta[kernel.ROUND])

    @property
    def pulls(self) -> dict[str, int]:
        return dict(zip(self.names, self.counts[kernel.PULLS].tolist(), strict=True))

    def select(self) -> str:
        """The arm to pull next; it counts as pending until its reward comes (or ``cancel``). O(K)."""
        if self.waiting:
            arm = _step(_SELECT, 0, 0, *self._with_pending())
        elif self._next >= 0:
            arm = self._next
        else:
            arm = _step(_SELECT, 0, 0, *self._state)
        self._next, self._asked = -1, True
        self.pending[arm] += 1
        self.waiting += 1
        return self.names[arm]

    def update(self, arm: str | int | Sequence[str | int], reward: float | Sequence[float]) -> None:
        """Count the reward that an arm paid, or many at once; late and out of order is fine. All or nothing."""
        # The common case in as few steps as it takes. The exact type, because True would be found as 1.0.
        if type(arm) is str and (type(reward) is float or type(reward) is int) and arm in self._levels:
            m = self._levels[arm].get(reward)
            if m is not None:
                k = self._numbers[arm]
                if self.pending[k]:
                    self.pending[k] -= 1
                    self.waiting -= 1
                if self._asked and not self.waiting:
                    # Whoever asks and tells in turn will ask again: decide now, in the same call, and remember it.
                    self._next, self._asked = _step(_BOTH, k, m, *self._state), False
                else:
                    _step(_OBSERVE, k, m, *self._state)
                    self._next = -1
                return
        if isinstance(arm, (str, int, np.integer)) or not isinstance(arm, Iterable):
            k = self.problem.index(arm)
            self._observe(k, self._level(k, reward))
            return
        arms, rewards = list(arm), list(np.atleast_1d(np.asarray(reward, dtype=object)))
        if len(arms) != len(rewards):
            raise RewardError(f"reward: got {len(rewards)} rewards for {len(arms)} arms; expected as many")
        checked = [(k, self._level(k, r)) for k, r in zip(map(self.problem.index, arms), rewards, strict=True)]
        for k, m in checked:
            self._observe(k, m)

    def cancel(self, arm: str | int) -> None:
        """Forget one pending pull of an arm: its reward will never come."""
        k = self.problem.index(arm)
        if self.pending[k] == 0:
            raise ProblemError(f"arm: got {shown(arm)}; expected an arm with a pending pull")
        self._settle(k)

    def forget_choice(self) -> None:
        """What is known changed from outside: the next arm must be decided anew."""
        self._next = -1

    def competitive(self) -> list[str]:
        """The arms still in the running, by what is known now."""
        return [line.name for line in self.explain().arms if line.excluded_by is None]

    def explain(self) -> Explanation:
        """For every arm its mean, index and pseudo-reward, whether and by which arm it is excluded, in words."""
        state = self._with_pending()
        chosen = kernel.step(kernel.SELECT, 0, 0, *state)
        views = kernel.unpack(state[0], state[1], len(self.names))
        if self.meta[kernel.POLICY] == kernel.KL_UCB:
            self._complete(views)
        return explain(self.spec, self.names, self.counts, self.sums, self.units.unit, views.ranks, chosen, self.rounds)

    def state(self) -> dict[str, Any]:
        """Everything needed to go on, as JSON-ready data."""
        learned: dict[str, Any]
        if self.table is None:
            learned = {
                "pulls": self._named(self.counts[kernel.PULLS]),
                "total": self._named(self.counts[kernel.TOTAL]),
                "sums": {name: self._named(self.sums[k]) for k, name in enumerate(self.names)},
            }
        else:
            levels = self.table.levels
            learned = {
                "counts": {
                    name: [[float(v), int(n)] for v, n in zip(levels[k], self.seen[k], strict=False) if n]
                    for k, name in enumerate(self.names)
                }
            }
        return {
            "format": FORMAT,
            "version": VERSION,
            "policy": self.spec.to_dict(),
            "problem": self.problem.digest,
            "reward_range": self.scale,
            "seed": int(self.meta[kernel.SEED_LOW]) | int(self.meta[kernel.SEED_HIGH]) << 32,
            "replication": int(self.meta[kernel.REPLICATION]),
            "tolerance": self.tolerance,
            "successes": self._named(self.counts[kernel.SUCCESSES]),
            "pending": self._named(self.pending),
            **learned,
        }

    def merge(self, other: Policy | Mapping[str, Any]) -> None:
        """Add what another replica of the same policy learned: the result is as if all of it had been counted here."""
        from headwater.policies.states import add_state

        add_state(self, other.state() if isinstance(other, Policy) else other)

    def _named(self, values: Iterable[Any]) -> dict[str, int]:
        return {name: int(v) for name, v in zip(self.names, values, strict=True)}

    def _level(self, k: int, reward: Any) -> Any:
        """What ``_observe`` needs of a reward: its level, or its row of units when there are infinitely many levels."""
        if not is_number(reward) or not -_FAR < reward < _FAR:  # an int may be too large to become a float
            raise RewardError(f"reward: got {shown(reward)}; expected a finite number")
        value = self.model.snap(k, np.array([float(reward)]), self.tolerance)
        if self.table is not None:
            return int(np.argmin(abs(self.table.levels[k] - value[0])))
        row = np.zeros(len(self.names) + 1, dtype=np.int64)
        row[:-1] = self.units.excesses(value, self.model.pseudo(k, value))[:, 0]
        row[k], row[-1] = 0, self.units.rewards(value)[0]
        return row

    def _observe(self, k: int, level: Any) -> None:
        if self.table is None:
            self.cells[k, 0] = level
            level = 0
        _step(_OBSERVE, k, level, *self._state)
        self._next = -1
        if self.pending[k]:
            self._settle(k)

    def _settle(self, k: int) -> None:
        self.pending[k] -= 1
        self.waiting -= 1

    def _complete(self, views: kernel.Views) -> None:
        """The true index of every arm in the running: a decision leaves out those that certainly do not win."""
        log_t, low, span = math.log(views.meta[kernel.ROUND] + 1.0), self.params[kernel.LOW], self.params[kernel.SPAN]
        n = views.counts[kernel.PULLS] + views.counts[kernel.PENDING]
        for k in np.flatnonzero(~np.isneginf(views.ranks)):
            views.ranks[k] = kl_ucb_index(views.mean[k], n[k], log_t, low, span)

    def _with_pending(self) -> tuple[Ints, Floats, Ints, Ints, Ints]:
        """A copy of the state, as if pending pulls had already paid the mean (never paid: the middle of the rewards), so that
        other arms get a turn. Pulls and sums stay what was paid: an exclusion never rests on a reward that has not come."""
        whole, real = self.whole.copy(), self.real.copy()
        meta, counts, params, mean, root, _ = kernel.unpack(whole, real, len(self.names))
        meta[kernel.ROUND] += self.waiting
        pending, paid = np.array(self.pending), counts[kernel.PULLS]
        counts[kernel.PENDING] = pending
        share = np.where(paid > 0, counts[kernel.SUCCESSES] / np.maximum(paid, 1), 0.5)
        counts[kernel.SUCCESSES] += np.rint(pending * share).astype(np.int64)
        mean[np.isinf(mean) & (pending > 0)] = params[kernel.LOW] + 0.5 * params[kernel.SPAN]
        n = paid + pending
        root[:] = np.where(n > 0, 1.0 / np.sqrt(np.maximum(n, 1)), 0.0)
        return whole, real, self.sums, self.seen, self.cells


class Correlated(Policy):
    """The paper's filter over an index rule: ``Correlated(UCB1(), problem)`` is C-UCB.

    ``reference``: the most-pulled arm (the paper), or all "well-pulled" arms, those with at least t/K pulls.
    """

    def __init__(self, rule: Rule, problem: Problem, *, reference: Reference = "most-pulled", **options: Any) -> None:
        super().__init__(Spec(rule, reference), problem, **options)
