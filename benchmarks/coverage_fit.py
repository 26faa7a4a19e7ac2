"""How often the intervals of ``headwater fit`` hold: its part of the designed grid of ``interval_coverage.py``.

Logs are made up from laws that are known. Rows, arms and segments are those of a cell; in a *rare* cell one segment has 2 % of
the rows, and it is the one that is looked at. What is checked are the functions that ``fit`` states intervals with, on
tables of counts: 2,000 logs a cell, 200 to 1,000 where a log holds many cells or takes long. Beside them stand other intervals,
for their width.

    python benchmarks/coverage_fit.py [--quick] [--dry]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special, stats

from headwater.arrays import Bools, Floats, Ints
from headwater.fitting.cells import Units, exact_ends
from headwater.fitting.counts import Counts, count_arrays
from headwater.fitting.levels import Levels
from interval_cells import GRID, OURS, Outcome

PAGE = Path(__file__).parent.parent / "docs" / "fit.md"
LEVEL = 0.95
AMOUNTS = np.append(0.0, np.round(np.exp(stats.norm.ppf((np.arange(60) + 0.5) / 60) * 0.8 + 3), 2))
"""Nothing, or an amount: 60 of them, as a lognormal law has them."""


@dataclass(frozen=True)
class Cell:
    """What rewards are, at which ``rate`` above zero, and how many rows, arms and segments. ``largest``: rows of a unit.

    ``even``: all arms have one rate, so that what a method misses there is not made good elsewhere.
    """

    kind: str
    rate: float
    rows: int
    arms: int
    segments: int
    rare: bool = False
    largest: int = 1
    even: bool = False
    runs: int = 2000

    def name(self) -> str:
        units = f", 1 to {self.largest} of a unit" if self.largest > 1 else ""
        many = f"{self.segments} segments{', a rare one' if self.rare else ''}" if self.segments > 1 else "1 segment"
        alike = " of one rate" if self.even else ""
        return f"{self.kind}, {100 * self.rate:g} %, {self.rows:,} rows{units}, {self.arms} arms{alike}, {many}"


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

    def held(self, method: str = OURS) -> Bools:
        return np.concatenate(self.hits[method])

    def coverage(self, method: str = OURS) -> float:
        return float(self.held(method).mean())

    def width(self, method: str = OURS) -> float:
        return float(np.median(np.concatenate(self.widths[method])))

    def chance(self, method: str = OURS) -> float:
        """How likely so few would hold if one in a hundred fewer than stated did."""
        held = self.held(method)
        return float(stats.binom.cdf(int(held.sum()), len(held), LEVEL - 0.01))


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
    counts = rng.multinomial(n, laws)
    values = values_of(cell)
    table = Counts([], [], counts, counts * values, np.array([]), values)
    levels = Levels(np.array([]), np.array([0, 1]), True, 0.0, 0.0)  # nothing, or something
    ends = exact_ends(table, levels, n.astype(float), None, least=0.0, most=values[-1], confidence=LEVEL)
    means = tally.setdefault("means", Tally())
    means.add(OURS, (ends.mean_low, ends.mean_high), laws @ values)
    for method, other in others(counts, values).items():
        means.add(method, other, laws @ values)
    if cell.kind != "binary":  # there the mean is the probability
        tally.setdefault("probabilities", Tally()).add(OURS, (ends.low[..., 1], ends.high[..., 1]), 1 - laws[..., 0])


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
        "empirical Bernstein": (np.maximum(mean - bernstein, 0), np.minimum(mean + bernstein, top)),
    }
    if len(values) == 2:
        tails = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        k = counts[..., 1]
        out["Jeffreys"] = special.betaincinv(k + 0.5, n - k + 0.5, tails[0]), special.betaincinv(k + 0.5, n - k + 0.5, tails[1])
        z = stats.norm.ppf(tails[1])
        centre, width = (k + z * z / 2) / (n + z * z), z * np.sqrt(n * mean * (1 - mean) + z * z / 4) / (n + z * z)
        out["Wilson"] = centre - width, centre + width
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
        means.add("t over units", clustered(sizes, hits @ values), laws @ values)
        means.add("rows as if independent", others(counts, values)["t"], laws @ values)
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
    """The same as ``interval_coverage.py`` takes it."""
    return {
        of: Outcome({m: tally.held(m) for m in tally.hits}, {m: np.concatenate(w) for m, w in tally.widths.items()})
        for of, tally in measure(number, runs).items()
    }


for _number, _cell in enumerate(CELLS):
    GRID.add("fit", _cell.name(), partial(outcomes, _number), runs=_cell.runs)


def holm(chances: list[float], alarm: float = 0.01) -> list[bool]:
    """Which of the cells fail, by Holm's procedure: the chance that any right one does is at most ``alarm``.

    >>> holm([0.001, 0.5, 0.004])
    [True, False, True]
    """
    out = [False] * len(chances)
    for rank, i in enumerate(np.argsort(chances).tolist()):
        if chances[i] > alarm / (len(chances) - rank):
            break
        out[i] = True
    return out


def honest_methods(tallies: list[Tally]) -> set[str]:
    """The methods that fail nowhere, each over the cells that it stands in."""
    methods = {method for tally in tallies for method in tally.hits}
    return {m for m in methods if not any(holm([tally.chance(m) for tally in tallies if m in tally.hits]))}


def table(lines: list[tuple[Cell, str, Tally]]) -> list[str]:
    """A row for each cell and what is estimated; other methods with the part of our width that theirs is."""
    tallies = [tally for _, _, tally in lines]
    failed, honest = holm([tally.chance() for tally in tallies]), honest_methods(tallies)
    out = ["| rewards, rate, rows | intervals of | number | hold | others: how many hold, at which part of our width |"]
    out.append("|---|---|---:|---:|---|")
    for (cell, of, tally), bad in zip(lines, failed, strict=True):
        rest = ", ".join(
            f"{name} {tally.coverage(name):.1%} at {tally.width(name) / tally.width():.2f}"
            for name in tally.hits if name != OURS
        )  # fmt: skip
        number, held = len(tally.held()), f"{tally.coverage():.1%}{' **too few**' if bad else ''}"
        out.append(f"| {cell.name()} | {of} | {number:,} | {held} | {rest} |")
    ratios = [tally.width() / min(tally.width(m) for m in tally.hits if m in honest | {OURS}) for tally in tallies]
    lowest = min(tally.coverage() for tally in tallies)
    beside = ", ".join(sorted(honest - {OURS})) or "none"
    words = f"{sum(failed)} of {len(lines)} lines have too few; the lowest share is {lowest:.1%}. Of the other methods"
    wide = f"Our median width is at most {max(ratios):.2f} times that of the narrowest honest method."
    out += ["", f"{words} honest everywhere: {beside}. {wide}"]
    return out


def main() -> None:
    lines: list[tuple[Cell, str, Tally]] = []
    for number, cell in enumerate(CELLS):
        for of, tally in measure(number, cell.runs // 20 if "--quick" in sys.argv else cell.runs).items():
            lines.append((cell, of, tally))
            print(cell.name(), of, f"{tally.coverage():.1%}", f"{time.process_time():.0f} s", flush=True)
    text = "\n".join(table(lines))
    print(text)
    if not {"--dry", "--quick"} & set(sys.argv):
        head, rest = PAGE.read_text(encoding="utf-8").split("<!-- coverage: fit -->\n", 1)
        tail = rest.split("<!-- end of coverage -->", 1)[1]
        PAGE.write_text(f"{head}<!-- coverage: fit -->\n{text}\n<!-- end of coverage -->{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
