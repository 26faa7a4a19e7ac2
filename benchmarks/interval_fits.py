"""Cells of the grid for ``headwater fit``: the interval of every arm and segment, or of those of a rare segment.

Logs are made up from laws that are known. Rows, arms and segments are those of a cell; in a *rare* cell one segment has 2 % of
the rows, and it is the one that is looked at. What is checked are the functions that ``fit`` states intervals with, on
tables of counts: 2,000 logs a cell, 200 to 1,000 where a log holds many cells or takes long. Beside them stand other intervals,
for their width; those that take long on ``SOME`` of the arms and segments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import special, stats

from headwater.arrays import Bools, Floats, Ints
from headwater.fitting.cells import Units, exact_ends
from headwater.fitting.counts import Counts, count_arrays
from headwater.fitting.levels import Levels
from interval_cells import GRID, OURS, Outcome
from interval_rivals import RIVALS, Terms, clipped

LEVEL = 0.95
SOME = 400
SLOW = ("blaker", "betting", "likelihood", "bootstrap-t")
"""Methods that take long, the first of them for rewards of two values."""
AMOUNTS = np.append(0.0, np.round(np.exp(stats.norm.ppf((np.arange(60) + 0.5) / 60) * 0.8 + 3), 2))
"""Nothing, or an amount: 60 of them, as a lognormal law has them."""


@dataclass(frozen=True)
class Cell:
    """What rewards are, at which ``rate`` above zero, and how many rows, arms and segments. ``largest``: rows of a unit.

    ``even``: all arms have one rate, so that what a method misses there is not made good elsewhere. ``adaptive``: most of the
    log is what paid best so far.
    """

    kind: str
    rate: float
    rows: int
    arms: int
    segments: int
    rare: bool = False
    largest: int = 1
    even: bool = False
    adaptive: bool = False
    runs: int = 2000

    def name(self) -> str:
        units = f", 1 to {self.largest} of a unit" if self.largest > 1 else ""
        many = f"{self.segments} segments{', a rare one' if self.rare else ''}" if self.segments > 1 else "1 segment"
        alike = " of one rate" if self.even else ""
        how = ", adaptive" if self.adaptive else ""
        return f"{self.kind}, {100 * self.rate:g} %, {self.rows:,} rows{units}{how}, {self.arms} arms{alike}, {many}"


CELLS = (
    Cell("binary", 0.001, 50_000, 34, 1),
    Cell("binary", 0.0046, 10_000, 34, 1),
    Cell("binary", 0.0046, 10_000, 34, 5, rare=True),
    Cell("binary", 0.001, 5_000, 34, 1, even=True),
    Cell("binary", 0.01, 8_000, 10, 3, even=True),
    Cell("binary", 0.01, 5_000, 10, 3),
    Cell("binary", 0.05, 2_000, 5, 3),
    Cell("binary", 0.05, 50_000, 50, 40, rare=True),
    Cell("binary", 0.2, 50_000, 50, 40, runs=200),
    Cell("binary", 0.5, 500, 2, 1),
    Cell("binary", 0.02, 5_000, 10, 1, even=True, adaptive=True),
    Cell("counts", 0.05, 5_000, 10, 3),
    Cell("counts", 0.2, 2_000, 5, 5),
    Cell("counts", 0.5, 500, 2, 3),
    Cell("counts", 0.9, 10_000, 6, 8, rare=True),
    Cell("amounts", 0.01, 50_000, 10, 1, runs=300),
    Cell("amounts", 0.05, 5_000, 5, 3, runs=1000),
    Cell("amounts", 0.2, 10_000, 5, 10, rare=True, runs=1000),
    Cell("amounts", 0.5, 500, 2, 1, runs=2000),
    Cell("binary", 0.01, 20_000, 10, 1, largest=10, runs=300),
    Cell("binary", 0.05, 10_000, 5, 3, largest=50, runs=300),
    Cell("binary", 0.2, 2_000, 5, 1, largest=10, runs=300),
    Cell("binary", 0.5, 500, 2, 1, largest=10, runs=300),
    Cell("counts", 0.5, 10_000, 10, 1, largest=50, runs=300),
    Cell("amounts", 0.2, 5_000, 5, 2, largest=10, runs=300),
)


@dataclass
class Tally:
    """Which intervals of each method held the truth, and their widths."""

    hits: dict[str, list[Bools]] = field(default_factory=dict)
    widths: dict[str, list[Floats]] = field(default_factory=dict)

    def add(self, method: str, ends: tuple[Floats, Floats], truth: Floats) -> None:
        low, high = ends
        self.hits.setdefault(method, []).append(((low <= truth + 1e-12) & (truth <= high + 1e-12)).ravel())
        self.widths.setdefault(method, []).append((high - low).ravel().astype(np.float32))

    def outcome(self) -> Outcome:
        hits = {method: np.concatenate(parts) for method, parts in self.hits.items()}
        return Outcome(hits, {method: np.concatenate(parts) for method, parts in self.widths.items()})

    def slow(self) -> int:
        """How many intervals of those that take long are still to be made."""
        return SOME - sum(len(part) for part in self.hits.get("likelihood", ()))

    def add_slow(self, kind: str, total: Floats, size: Floats, most: float, truth: float) -> None:
        """Intervals of one mean by each method that takes long, rewards or units one by one."""
        terms = Terms(total, size, (0.0, most), (0.0, most), seed=self.slow())
        for name in SLOW if kind == "binary" else SLOW[1:]:
            found = clipped(RIVALS[name](terms), terms) if len(total) > 1 else None
            if found is not None:
                self.add(name, (np.array(found[:1]), np.array(found[1:])), np.array(truth))


def values_of(cell: Cell) -> Floats:
    return {"binary": np.array([0.0, 1.0]), "counts": np.arange(7.0), "amounts": AMOUNTS}[cell.kind]


def laws_of(cell: Cell, rng: np.random.Generator) -> Floats:
    """P(value), (K, J, V): rates that differ by a quarter between cells, and the shape above zero as the kind has it."""
    spread = 0.0 if cell.even else 0.25
    rate = np.clip(cell.rate * np.exp(spread * rng.normal(size=(cell.arms, cell.segments))), 0, 0.98)
    values = values_of(cell)
    if cell.kind == "counts":
        mean = 1.0 + rng.random((cell.arms, cell.segments, 1)) * 2
        above = mean ** values[1:] / special.gamma(values[1:] + 1)
    else:
        above = np.exp(0.3 * rng.normal(size=(cell.arms, cell.segments, len(values) - 1)))
    above /= above.sum(axis=2, keepdims=True)
    return np.concatenate([1 - rate[..., None], rate[..., None] * above], axis=2)


def shares_of(cell: Cell) -> Floats:
    if not cell.rare:
        return np.full(cell.segments, 1 / cell.segments)
    return np.append(0.02, np.full(cell.segments - 1, 0.98 / (cell.segments - 1)))


def looked_at(cell: Cell, array: Any) -> Any:
    """Only the rare segment's, where there is one: along the second axis."""
    return array[:, :1] if cell.rare else array


def by_rows(cell: Cell, tally: dict[str, Tally], rng: np.random.Generator, runs: int) -> None:
    """Rows that are independent, all runs at once: an arm of each run is an arm."""
    laws = np.concatenate([laws_of(cell, rng) for _ in range(runs)])
    n = rng.binomial(cell.rows // cell.arms, np.tile(shares_of(cell), (len(laws), 1)))
    n, laws = looked_at(cell, n), looked_at(cell, laws)
    counts = adaptive_counts(cell, laws, rng) if cell.adaptive else rng.multinomial(n, laws)
    n = counts.sum(axis=2)
    values = values_of(cell)
    table = Counts([], [], counts, counts * values, np.array([]), values)
    levels = Levels(np.array([]), np.array([0, 1]), True, 0.0, 0.0)  # nothing, or something
    ends = exact_ends(table, levels, n.astype(float), None, least=0.0, most=values[-1], confidence=LEVEL)
    means = tally.setdefault("means", Tally())
    means.add(OURS, (ends.mean_low, ends.mean_high), laws @ values)
    for method, other in others(counts, values).items():
        means.add(method, other, laws @ values)
    truth, each = (laws @ values).ravel(), counts.reshape(-1, len(values))
    for i in rng.permutation(len(each))[: means.slow()].tolist():
        rewards = np.repeat(values, each[i])
        means.add_slow(cell.kind, rewards, np.ones(len(rewards)), float(values[-1]), float(truth[i]))
    if cell.kind != "binary":  # there the mean is the probability
        tally.setdefault("probabilities", Tally()).add(OURS, (ends.low[..., 1], ends.high[..., 1]), 1 - laws[..., 0])


def adaptive_counts(cell: Cell, laws: Floats, rng: np.random.Generator) -> Ints:
    """Counts of clicks, (N, 1, 2), of logs in twenty batches: seven tenths of each show the arm that paid best so far."""
    rate = laws[:, 0, 1].reshape(-1, cell.arms)
    shown, paid = np.zeros((2, *rate.shape), dtype=np.int64)
    for _ in range(20):
        seems = np.divide(paid, shown, out=np.full(rate.shape, np.inf), where=shown > 0)
        chance = 0.3 / cell.arms + 0.7 * (np.arange(cell.arms) == seems.argmax(axis=1)[:, None])
        now = rng.multinomial(cell.rows // 20, chance)
        shown, paid = shown + now, paid + rng.binomial(now, rate)
    return np.stack([shown - paid, paid], axis=-1).reshape(-1, 1, 2)


def others(counts: Ints, values: Floats) -> dict[str, tuple[Floats, Floats]]:
    """Other intervals for means of counted rewards, by name."""
    n = counts.sum(axis=-1)
    mean = counts @ values / np.maximum(n, 1)
    spread = np.maximum(counts @ values**2 / np.maximum(n, 1) - mean**2, 0) * n / np.maximum(n - 1, 1)
    top = values[-1]
    half = stats.t.ppf((1 + LEVEL) / 2, np.maximum(n - 1, 1)) * np.sqrt(spread / np.maximum(n, 1))
    log = np.log(4 / (1 - LEVEL))
    bernstein = np.sqrt(2 * spread * log / np.maximum(n, 1)) + 7 * top * log / (3 * np.maximum(n - 1, 1))
    out = {
        "t": (mean - half, mean + half),
        "bernstein": (np.maximum(mean - bernstein, 0), np.minimum(mean + bernstein, top)),
    }
    if len(values) == 2:
        tails = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        k = counts[..., 1]
        out["jeffreys"] = special.betaincinv(k + 0.5, n - k + 0.5, tails[0]), special.betaincinv(k + 0.5, n - k + 0.5, tails[1])
        z = stats.norm.ppf(tails[1])
        centre, width = (k + z * z / 2) / (n + z * z), z * np.sqrt(n * mean * (1 - mean) + z * z / 4) / (n + z * z)
        out["wilson"] = centre - width, centre + width
    return out


def by_units(cell: Cell, tally: dict[str, Tally], rng: np.random.Generator, runs: int) -> None:
    """Units with several rows in a cell, alike to each other: a tenth of a unit's variance is its own."""
    values = values_of(cell)
    for _ in range(runs):
        laws = laws_of(cell, rng)
        per_unit = (1 + cell.largest) / 2
        units = max(int(cell.rows / per_unit / cell.arms / cell.segments), 2)
        sizes = rng.integers(1, cell.largest + 1, (cell.arms, cell.segments, units))
        concentration = 9.0
        own = rng.standard_gamma(np.maximum(concentration * laws[:, :, None], 1e-9), (*sizes.shape, len(values)))
        own = np.maximum(own, 1e-300)
        hits = rng.multinomial(sizes, own / own.sum(axis=-1, keepdims=True))
        where = np.repeat(np.arange(cell.arms * cell.segments), units)
        size, total = sizes.ravel().astype(float), (hits @ values).ravel()
        positive = (sizes - hits[..., 0]).ravel().astype(float)
        pairs = np.stack([size - positive, positive], axis=1)
        seen = Units(where, size, total, pairs, np.ones(len(size)), 1.0)
        counts = hits.sum(axis=2)
        table = Counts([], [], counts, counts * values, np.array([]), values)
        levels = Levels(np.array([]), np.array([0, 1]), True, 0.0, 0.0)
        most = float(values[counts.sum(axis=(0, 1)) > 0].max())
        ends = exact_ends(
            table, levels, counts.sum(axis=2).astype(float), seen, least=0.0, most=max(most, 1.0), confidence=LEVEL
        )
        means = tally.setdefault("means", Tally())
        means.add(OURS, (ends.mean_low, ends.mean_high), laws @ values)
        means.add("t", clustered(sizes, hits @ values), laws @ values)
        means.add("t of rows as if independent", others(counts, values)["t"], laws @ values)
        each = zip(sizes.reshape(-1, units), (hits @ values).reshape(-1, units), (laws @ values).ravel(), strict=True)
        for mine, sums, truth in list(each)[: min(means.slow(), 1 + SOME // runs)]:
            means.add_slow(cell.kind, sums, mine.astype(float), max(most, 1.0), float(truth))
        if cell.kind != "binary":
            tally.setdefault("probabilities", Tally()).add(OURS, (ends.low[..., 1], ends.high[..., 1]), 1 - laws[..., 0])


def clustered(sizes: Ints, totals: Floats) -> tuple[Floats, Floats]:
    """The usual interval of a ratio of units' sums, with Student's t."""
    units, rewards = sizes.shape[-1], sizes.sum(axis=-1)
    mean = totals.sum(axis=-1) / rewards
    error = np.sqrt(np.sum((totals - mean[..., None] * sizes) ** 2, axis=-1) * units / (units - 1)) / rewards
    half = stats.t.ppf((1 + LEVEL) / 2, units - 1) * error
    return mean - half, mean + half


def by_log(cell: Cell, tally: dict[str, Tally], rng: np.random.Generator, runs: int) -> None:
    """Amounts that take any value, one log after the other: bins, and the largest of the log for the largest there can be."""
    for _ in range(runs):
        rate = cell.rate * np.exp(0.25 * rng.normal(size=(cell.arms, cell.segments)))
        scale = 20 * np.exp(0.3 * rng.normal(size=(cell.arms, cell.segments)))
        arm = rng.integers(0, cell.arms, cell.rows)
        segment = rng.choice(cell.segments, cell.rows, p=shares_of(cell))
        paid = rng.random(cell.rows) < rate[arm, segment]
        rewards = paid * rng.gamma(2.0, scale[arm, segment])
        if not paid.any():
            continue
        names = [str(k) for k in range(max(cell.arms, cell.segments))]
        counts = count_arrays(arm, segment, rewards, names[: cell.arms], names[: cell.segments])
        levels = Levels(np.array([]), np.array([0]), False, 0.0, 0.0)
        n = counts.n.sum(axis=2).astype(float)
        ends = exact_ends(counts, levels, n, None, least=0.0, most=float(rewards.max()), confidence=LEVEL)
        truth = 2 * rate * scale
        means = tally.setdefault("means", Tally())
        means.add(OURS, (looked_at(cell, ends.mean_low), looked_at(cell, ends.mean_high)), looked_at(cell, truth))
        first, second = (np.zeros(n.shape) for _ in range(2))
        np.add.at(first, (arm, segment), rewards)
        np.add.at(second, (arm, segment), rewards**2)
        mean = first / np.maximum(n, 1)
        spread = np.maximum(second / np.maximum(n, 1) - mean**2, 0) * n / np.maximum(n - 1, 1)
        half = stats.t.ppf((1 + LEVEL) / 2, np.maximum(n - 1, 1)) * np.sqrt(spread / np.maximum(n, 1))
        means.add("t", (looked_at(cell, mean - half), looked_at(cell, mean + half)), looked_at(cell, truth))
        for k in range(min(cell.arms, means.slow(), 1 + SOME // runs)):
            mine = rewards[(arm == k) & (segment == 0)]
            means.add_slow(cell.kind, mine, np.ones(len(mine)), float(rewards.max()), float(truth[k, 0]))


def way_of(cell: Cell) -> Callable[[Cell, dict[str, Tally], np.random.Generator, int], None]:
    """How a cell's logs are made."""
    if cell.largest > 1:
        return by_units
    return by_log if cell.kind == "amounts" else by_rows


def measure(number: int, runs: int) -> dict[str, Tally]:
    """A cell's tallies, of means and of probabilities."""
    cell, rng, tally = CELLS[number], np.random.default_rng([18, number]), {}  # type: ignore[var-annotated]
    way = way_of(cell)
    part = max(1, 60_000 // (cell.arms * cell.segments)) if way is by_rows else runs
    for done in range(0, runs, part):
        way(cell, tally, rng, min(part, runs - done))
    return tally


def outcomes(number: int, runs: int) -> dict[str, Outcome]:
    """A cell as the grid takes it."""
    return {of: tally.outcome() for of, tally in measure(number, runs).items()}


for _number, _cell in enumerate(CELLS):
    GRID.add("fit", _cell.name(), partial(outcomes, _number), runs=_cell.runs)
