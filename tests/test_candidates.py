"""Decisions among very many arms: every one has the largest index, by the plain definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import headwater as hw
from headwater import native
from headwater.policies.table import Columns, LevelTable, Units, make_columns, units_of
from headwater.pseudo.finite import FiniteModel

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
KINDS = ("coarse", "decimal", "continuous", "equal", "near")
BOUNDED = ("ucb1", "kl-ucb")
SEED = 0x1234_5678_9ABC


def random_rewards(rng: np.random.Generator, kind: str, arms: int, points: int) -> Array:
    """ "equal" arms share values that are no multiples of a unit; "near" ones but for rounding."""
    g: Array = rng.normal(size=(arms, points))
    if kind == "coarse":
        g = rng.integers(-2, 4, (arms, points)) / 10
    elif kind == "decimal":
        g = g.round(2)
    elif kind in ("equal", "near"):
        g = rng.choice(g[:, 0], (arms, points))
        g[-1] = g[0]
        g *= 1 + rng.integers(-2, 3, (arms, points)) * 1e-14 if kind == "near" else 1
    return np.ascontiguousarray(g)


def laid_out(g: Array) -> tuple[hw.Problem, Units, Columns]:
    problem = hw.Problem(latent=hw.Discrete(np.arange(float(g.shape[1]))), arms={f"arm {k}": row for k, row in enumerate(g)})
    units = units_of(FiniteModel(problem))
    return problem, units, make_columns(g, units)


def make(rule: str, units: Units, columns: Columns, *, scale: float, filtered: bool, **limits: int) -> native.Live:
    """A learner; ``limits`` say how much it keeps."""
    short = columns.less if columns.less.size else None
    small = short is not None and short.dtype == np.uint8
    less = {"less": short if small else None, "much_less": None if small else short}
    core = native.Columns(columns.up, g=columns.g, top=columns.top, **less, **limits)  # type: ignore[arg-type]
    none = np.zeros((len(columns.g), 0, len(columns.g) + 1), dtype=np.int64)
    rewards = native.Rewards(none, units.unit, float(columns.g.min()), float(np.ptp(columns.g)))
    settings = native.Settings(rule=native.RULES[rule], seed=SEED, scale=scale, sd=0.4, filtered=int(filtered))
    return native.Live(native.Model(rewards, columns=core), settings, 0)


def kl_index(mean: float, n: int, log_t: float, low: float, span: float) -> float:
    """By bisection on kl of two Bernoulli laws."""
    p, left, right = (mean - low) / span, (mean - low) / span, 1.0

    for _ in range(50):
        q = 0.5 * (left + right)
        kl = (p * math.log(p / q) if p > 0 else 0.0) + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 and q < 1 else 0.0)
        left, right = (q, right) if q < 1.0 and n * kl <= log_t else (left, q)
    return low + span * left


class Plain:
    """The policy as it is defined: a table of excesses of all pairs, and an index for every arm in every round."""

    def __init__(self, problem: hw.Problem, rule: str, scale: float, *, filtered: bool) -> None:
        table = LevelTable(problem)
        self.cells, self.rule, self.scale, self.filtered = table.cells, rule, scale, filtered
        self.unit, self.low, self.span = table.units.unit, table.low, table.span
        pairs = zip(table.levels, problem.rewards, strict=True)
        self.levels = [np.argmin(abs(level[:, None] - row), axis=0) for level, row in pairs]
        arms = len(self.cells)
        self.sums, self.n, self.total = np.zeros((arms, arms), dtype=int), np.zeros(arms, dtype=int), np.zeros(arms, dtype=int)

    def index(self) -> Array:
        reference, log_t = int(np.argmax(self.n)), math.log(self.n.sum() + 1)
        out = np.full(len(self.n), np.inf)
        for k in np.flatnonzero(self.n):
            mean = self.total[k] * self.unit / self.n[k]
            if self.rule == "ucb1":
                out[k] = mean + self.scale * math.sqrt(2 * log_t / self.n[k])
            else:
                out[k] = kl_index(mean, self.n[k], log_t, self.low, self.span)
        if self.filtered and self.n[reference]:
            out[self.sums[reference] > 0] = -np.inf
        return out

    def observe(self, arm: int, atom: int) -> None:
        cell = self.cells[arm, self.levels[arm][atom]]
        self.sums[arm] += cell[:-1]
        self.total[arm] += cell[-1]
        self.n[arm] += 1


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("rule", BOUNDED)
@pytest.mark.parametrize("kind", KINDS)
def test_every_decision_has_the_largest_index(kind: str, rule: str, filtered: bool) -> None:
    """Room for little and for all; now and then another arm pays."""
    rng = np.random.default_rng([*kind.encode(), *rule.encode()])
    for case in range(6):
        limits = {"rows": [1, 2, 128][case % 3], "kept": [0, 2**24][case % 2]}
        limits |= {"least": [-12, 0, 8][case % 3], "debts": [1, 4096][case % 2]}
        g = random_rewards(rng, kind, int(rng.integers(2, 60)), int(rng.integers(2, 20)))
        problem, units, columns = laid_out(g)
        assert bool(columns.less.size) == (kind in ("continuous", "equal", "near"))
        scale = float(rng.uniform(0.02, 2.0))
        ours = make(rule, units, columns, scale=scale, filtered=filtered, **limits)
        plain = Plain(problem, rule, scale, filtered=filtered)
        for _ in range(120):
            arm, index = ours.decide(), plain.index()
            assert index[arm] >= index.max() - 1e-9
            arm, atom = int(rng.integers(len(g))) if rng.random() < 0.02 else arm, int(rng.integers(g.shape[1]))
            ours.pay(arm, atom)
            plain.observe(arm, atom)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_sums_made_late_is_that_of_all_rewards(kind: str) -> None:
    """With one row alone: the arms that lead take it from each other, and each makes it anew from what was seen."""
    rng = np.random.default_rng(3)
    g = random_rewards(rng, kind, 25, 40)
    problem, units, columns = laid_out(g)
    ours = make("ucb1", units, columns, scale=0.3, filtered=True, rows=1, kept=0)
    plain, led = Plain(problem, "ucb1", 0.3, filtered=True), set()
    for t in range(300):
        arm, atom = (t + 1).bit_length() % 5, int(rng.integers(40))  # for twice as long as the one before
        ours.decide()
        leader = int(np.argmax(plain.n))
        led.add(leader)
        np.testing.assert_array_equal(ours.row(leader), plain.sums[leader])
        ours.pay(arm, atom)
        plain.observe(arm, atom)
    assert led == set(range(5))


def test_the_table_of_what_was_seen_grows() -> None:
    rng = np.random.default_rng(6)
    g = random_rewards(rng, "continuous", 90, 80)
    _, units, columns = laid_out(g)
    ours, counts = make("ucb1", units, columns, scale=0.3, filtered=False), np.zeros((90, 80), dtype=int)
    for _ in range(4000):
        arm, atom = int(rng.integers(90)), int(rng.integers(80))
        ours.pay(arm, atom)
        counts[arm, atom] += 1
    keys, times = ours.seen()
    assert len(keys) == np.count_nonzero(counts) > 2048
    found = np.zeros(90 * 80, dtype=int)
    found[keys] = times
    np.testing.assert_array_equal(found.reshape(90, 80), counts)


def test_a_rule_that_reads_levels_is_refused() -> None:
    _, units, columns = laid_out(random_rewards(np.random.default_rng(1), "coarse", 4, 5))
    with pytest.raises(ValueError, match="rule: this one reads every level of every arm"):
        make("kl-ucb-empirical", units, columns, scale=0.3, filtered=True)
    with pytest.raises(ValueError, match="rows, kept, debts: expected rows >= 1, kept >= 0, debts >= 1"):
        make("ucb1", units, columns, scale=0.3, filtered=True, rows=0)


def test_what_is_owed_is_paid_before_a_row_is_read() -> None:
    rng = np.random.default_rng(12)
    g = random_rewards(rng, "continuous", 400, 30)
    problem, units, columns = laid_out(g)
    ours = make("ucb1", units, columns, scale=1.0, filtered=True, least=-30)
    plain, owed = Plain(problem, "ucb1", 1.0, filtered=True), 0
    for t in range(3000):
        arm, atom = ours.decide(), int(rng.integers(30))
        ours.pay(arm, atom)
        plain.observe(arm, atom)
        owed += ours.debts > 0
        if t % 200 == 199:
            leader = int(np.argmax(plain.n))
            np.testing.assert_array_equal(ours.row(leader), plain.sums[leader])
            assert ours.debts == 0
    assert owed > 100
