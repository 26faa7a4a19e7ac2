"""Cells of the grid for ``headwater evaluate`` on logs: what is estimated of "always this arm" and "each segment its best arm".

Events are made up as a log would hold them, estimates are those of the product, and rivals get the same terms.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import headwater as hw
from headwater.arrays import Floats, Ints
from headwater.errors import ProblemError
from headwater.evaluation.estimates import METHODS, Asked, answer, ask
from headwater.evaluation.events import Events, make_events
from interval_cells import GRID, OURS, Outcome
from interval_rivals import RIVALS, Terms, clipped

FEWER = 10
"""Rivals are run in one of so many runs: they only say how wide an honest interval may be."""
SLOW = 20_000
"""Terms above which betting, likelihood and bootstrap are left out: all intervals are alike there."""


@dataclass(frozen=True)
class World:
    """Two kinds of people and K arms; ``law`` (2, K, M) are the probabilities of ``rewards`` (M,), ``shown`` (2, K) says what
    the log showed whom. ``logged``: its propensities are in the log. ``adaptive``: most of the log is what paid best so far.

    ``people``: events come from people, with 1 to ``people`` events each, who differ in how much they pay by ``spread``.
    """

    rewards: Floats
    law: Floats
    shown: Floats
    events: int
    logged: bool = False
    adaptive: bool = False
    people: int = 0
    spread: float = 0.0
    by_segment: bool = False

    @property
    def problem(self) -> hw.Problem:
        arms = {f"arm {k}": {"outcomes": self.rewards, "probabilities": self.law[:, k]} for k in range(self.law.shape[1])}
        return hw.Problem(latent=hw.Discrete(["x", "y"]), arms=arms)

    @property
    def means(self) -> Floats:
        """Of every arm for either kind, (2, K); half of the people are of each."""
        return np.asarray(self.law @ self.rewards)

    def choice(self, target: int) -> tuple[Floats, float]:
        """The choice that is estimated, and what it truly pays."""
        if self.by_segment:
            best = self.means.argmax(axis=1)
            return np.eye(self.law.shape[1])[best], float(self.means.max(axis=1).mean())
        return np.eye(self.law.shape[1])[target], float(self.means[:, target].mean())

    def draw(self, problem: hw.Problem, rng: np.random.Generator) -> Events:
        """One log."""
        who, x = self._people(rng)
        arm, chance = _adaptive(self, x, rng) if self.adaptive else self._by_lot(x, rng)
        level = (rng.random(len(x))[:, None] > self.law[x, arm].cumsum(axis=1)[:, :-1]).sum(axis=1)
        if self.spread and who is not None:  # some people never pay, the others so much more often
            level = np.where(rng.random(who.max() + 1)[who] < self.spread, 0, level)
        columns: dict[str, Any] = {"propensity": chance} if self.logged or self.adaptive else {}
        columns |= {"segment": np.array(["x", "y"])[x]} if self.by_segment else {}
        names = np.array(problem.names)
        return make_events(problem, names[arm].tolist(), self.rewards[level], unit=who, **columns)

    def _people(self, rng: np.random.Generator) -> tuple[Ints | None, Ints]:
        if not self.people:
            return None, rng.integers(0, 2, self.events)
        size = rng.integers(1, self.people + 1, 2 * self.events // (self.people + 1) + 1)
        who = np.repeat(np.arange(len(size)), size)
        return who, rng.integers(0, 2, len(size))[who]

    def _by_lot(self, x: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        arm = (rng.random(len(x))[:, None] > self.shown[x].cumsum(axis=1)[:, :-1]).sum(axis=1)
        return arm, self.shown[x, arm]


def _adaptive(world: World, x: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Twenty batches; in each, seven tenths of the events show the arm that has paid best so far."""
    count = world.law.shape[1]
    arm, chance = np.empty(len(x), dtype=np.int64), np.empty(len(x))
    paid, shown = np.zeros(count), np.zeros(count)
    for batch in np.array_split(np.arange(len(x)), 20):
        p = np.full(count, 0.3 / count)
        p[int(np.argmax(np.where(shown > 0, paid / np.maximum(shown, 1), np.inf)))] += 0.7
        mine = rng.choice(count, len(batch), p=p)
        arm[batch], chance[batch] = mine, p[mine]
        shown += np.bincount(mine, minlength=count)
        paid += np.bincount(mine, rng.binomial(1, np.clip(world.means[x[batch], mine], 0, 1)), count)
    return arm, chance


def run_world(world: World, target: int, seed: int) -> Callable[[int], dict[str, Outcome]]:
    """Estimates of one choice in many logs, each method beside its rivals."""
    problem = world.problem
    choice, truth = world.choice(target)
    if world.spread:
        truth *= 1 - world.spread

    def run(runs: int) -> dict[str, Outcome]:
        asked: dict[str, list[Asked]] = {method: [] for method in METHODS}
        refused = 0
        for n in range(runs):
            events = world.draw(problem, np.random.default_rng([seed, n]))
            try:
                for one in ask(events, {"it": choice}).asked:
                    asked[one.row.method].append(one)
            except ProblemError:
                refused += 1
        return {method: _outcome(rows, truth, refused) for method, rows in asked.items()}

    return run


def _outcome(asked: list[Asked], truth: float, refused: int) -> Outcome:
    if not asked:
        return Outcome({}, {}, refused)
    rows = answer(asked, 0.95)
    ends = {OURS: [(row.low, row.high) for row in rows]}
    some = asked[:: FEWER if len(asked) >= 100 * FEWER else 1]
    for n, one in enumerate(some):
        reach = (float((one.least / one.size).min()), float((one.most / one.size).max()))
        terms = Terms(one.total, one.size, one.ends, reach, seed=n)
        for name, rival in RIVALS.items():
            if len(terms.total) <= SLOW or name in ("normal", "wilson", "blaker", "bernstein"):
                found = clipped(rival(terms), terms)
                ends.setdefault(name, []).extend([] if found is None else [found])
    whole = {OURS: len(rows)}  # a rival that applies in some runs alone would be compared by those
    tables = {name: np.array(pairs) for name, pairs in ends.items() if len(pairs) == whole.get(name, len(some))}
    hits = {name: (pairs[:, 0] <= truth + 1e-12) & (truth - 1e-12 <= pairs[:, 1]) for name, pairs in tables.items()}
    return Outcome(hits, {name: pairs[:, 1] - pairs[:, 0] for name, pairs in tables.items()}, refused)


def _clicks(rates: Any) -> tuple[Floats, Floats]:
    """Rewards of 0 and 1, (2,), and their law by kind and arm."""
    rate = np.asarray(rates, dtype=float)
    return np.array([0.0, 1.0]), np.stack([1 - rate, rate], axis=-1)


def _paid(share: float, amounts: Any, parts: Any, arms: int) -> tuple[Floats, Floats]:
    """Amounts that ``share`` of the events pay, in these parts; all others pay nothing."""
    law = np.concatenate([[1 - share], share * np.asarray(parts, dtype=float)])
    return np.concatenate([[0.0], np.asarray(amounts, dtype=float)]), np.tile(law, (2, arms, 1))


def _even(arms: int) -> Floats:
    return np.full((2, arms), 1 / arms)


def _rare(arms: int, share: float) -> Floats:
    out = np.full(arms, (1 - share) / (arms - 1))
    out[0] = share
    return np.stack([out, out])


def _add(name: str, world: World, target: int = 0) -> None:
    GRID.add("evaluate", name, run_world(world, target, zlib.crc32(name.encode())))


AMOUNTS = ([2, 5, 10, 30, 100], [0.4, 0.3, 0.2, 0.08, 0.02])
TILTED = np.array([[0.30, 0.20, 0.50], [0.02, 0.38, 0.60]])

_add("0.1 % clicks, 2 arms, 500 events", World(*_clicks(np.full((2, 2), 0.001)), _even(2), 500))
_add("0.1 % clicks, 2 arms, 50,000 events", World(*_clicks(np.full((2, 2), 0.001)), _even(2), 50_000))
_add("0.46 % clicks, 34 arms, 10,000 events", World(*_clicks(np.full((2, 34), 0.0046)), _even(34), 10_000))
_add("5 % clicks, 10 arms, 2,000 events", World(*_clicks(np.full((2, 10), 0.05)), _even(10), 2000))
_add("50 % clicks, 2 arms, 500 events", World(*_clicks(np.full((2, 2), 0.5)), _even(2), 500))
_add("20 % clicks, 50 arms, 20,000 events", World(*_clicks(np.full((2, 50), 0.2)), _even(50), 20_000))
_add("3 % clicks, an arm shown to 3 %, 10,000 events", World(*_clicks(np.full((2, 5), 0.03)), _rare(5, 0.03), 10_000))
_add("1 % clicks, propensities by segment, 20,000 events",
     World(*_clicks([[0.02, 0.01, 0.01], [0.001, 0.01, 0.02]]), TILTED, 20_000, logged=True))  # fmt: skip
_add("30 % clicks, propensities by segment, 5,000 events",
     World(*_clicks([[0.5, 0.3, 0.3], [0.1, 0.3, 0.4]]), TILTED, 5000, logged=True))  # fmt: skip
_add("2 % clicks, each segment its best arm, 10,000 events",
     World(*_clicks([[0.03, 0.02, 0.01], [0.01, 0.02, 0.03]]), TILTED, 10_000, logged=True, by_segment=True))  # fmt: skip
_add("counts 0 to 3, 10 arms, 2,000 events", World(*_paid(0.4, [1, 2, 3], [0.6, 0.3, 0.1], 10), _even(10), 2000))
_add("amounts, 10 % pay, 5 arms, 2,000 events", World(*_paid(0.1, *AMOUNTS, 5), _even(5), 2000))
_add("amounts, 1 % pay, 10 arms, 20,000 events", World(*_paid(0.01, *AMOUNTS, 10), _even(10), 20_000))
_add("1 % clicks, adaptive, 5 arms, 5,000 events",
     World(*_clicks(np.full((2, 5), 0.01)), _even(5), 5000, adaptive=True))  # fmt: skip
_add("50 % clicks, adaptive, 2 arms, 1,000 events",
     World(*_clicks(np.array([[0.5, 0.4], [0.5, 0.4]])), _even(2), 1000, adaptive=True), 1)  # fmt: skip
_add("5 % clicks, people of 1 to 50 events, 4,000 events",
     World(*_clicks(np.full((2, 4), 0.1)), _even(4), 4000, people=50, spread=0.5))  # fmt: skip
_add("40 % clicks, people of 1 to 10 events, 1,000 events",
     World(*_clicks(np.full((2, 2), 0.5)), _even(2), 1000, people=10, spread=0.2))  # fmt: skip
_add("amounts, people of 1 to 20 events, 5,000 events",
     World(*_paid(0.2, *AMOUNTS, 4), _even(4), 5000, people=20, spread=0.5))  # fmt: skip
