"""How often stated intervals hold, over a designed grid, and how wide they are beside the best honest method: tables in docs/.

Each cell is run 2,000 times (``--runs`` for fewer): the share of intervals that hold the truth, their median width, and that of
other methods on the same data. A cell fails where its coverage is below the stated level less one point by more than chance
allows over all cells (Holm, 1 %). Honest is a method that fails in no cell; the best of them is the narrowest in that cell.

``python benchmarks/interval_coverage.py`` runs everything and writes the tables between their markers; ``--dry`` only prints;
``--quick`` runs a hundredth; ``--only TEXT`` those cells whose group or name has the text. Other modules register cells of
their own in ``interval_cells.GRID``; they are named in ``MODULES``, and the page of each group in ``PAGES``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from interval_cells import GRID, OURS, Cell, Outcome

DOCS = Path(__file__).parent.parent / "docs"
MODULES = ["interval_logs"]
PAGES = {"evaluate": DOCS / "evaluate.md"}
SLACK, RISK, WIDEST = 0.01, 0.01, 1.3


class Line(NamedTuple):
    """One kind of interval in one cell."""

    cell: Cell
    kind: str
    outcome: Outcome

    def chance(self, method: str) -> float:
        """How likely so few hits are for coverage at the level less a point."""
        hits = self.outcome.hits[method]
        return float(stats.binom.cdf(int(hits.sum()), len(hits), self.cell.level - SLACK))

    @property
    def coverage(self) -> float:
        return float(self.outcome.hits[OURS].mean())

    def width(self, method: str) -> float:
        return float(np.median(self.outcome.widths[method]))


def failing(chances: Sequence[float], risk: float = RISK) -> list[bool]:
    """Holm's step-down test: which hypotheses are rejected at a joint risk.

    >>> failing([0.004, 0.5, 0.0001], 0.01)
    [True, False, True]
    """
    order, out = np.argsort(chances), [False] * len(chances)
    for n, i in enumerate(order.tolist()):
        if chances[i] > risk / (len(chances) - n):
            break
        out[i] = True
    return out


def honest_methods(lines: Sequence[Line]) -> set[str]:
    """The methods that fail nowhere, each tested over the cells that it applies in."""
    methods = {method for line in lines for method in line.outcome.hits}
    return {m for m in methods if not any(failing([x.chance(m) for x in lines if m in x.outcome.hits]))}


def best_honest(line: Line, honest: set[str]) -> str:
    """The narrowest honest method in a cell."""
    there = [method for method in line.outcome.widths if method in honest]
    return min(there, key=line.width) if there else OURS


def measure(cell: Cell, runs: int) -> list[Line]:
    """A cell's lines."""
    return [Line(cell, kind, outcome) for kind, outcome in cell.run(runs).items() if len(outcome.hits.get(OURS, ()))]


def table(lines: Sequence[Line]) -> list[str]:
    """A markdown table, a row per cell and kind of interval."""
    out = [
        "| cell | interval | runs | holds | width | best honest | its width | ratio | normal held |",
        "|---|---|---:|---:|---:|---|---:|---:|---:|",
    ]
    honest = honest_methods(lines)
    failed = failing([line.chance(OURS) for line in lines])
    for line, bad in zip(lines, failed, strict=True):
        best = best_honest(line, honest)
        mine, its = line.width(OURS), line.width(best)
        ratio = f"{mine / its:.2f}" if its > 0 else "–"
        old = f"{line.outcome.hits['normal'].mean():.1%}" if "normal" in line.outcome.hits else "–"
        runs, held = len(line.outcome.hits[OURS]), f"{line.coverage:.1%}" + (" (fails)" if bad else "")
        words = "ours" if best == OURS else best
        out.append(
            f"| {line.cell.name} | {line.kind} | {runs:,} | {held} | {mine:.3g} | {words} | {its:.3g} | {ratio} | {old} |"
        )
    return out


def summary(lines: Sequence[Line]) -> str:
    """What the table comes to, in two sentences."""
    honest = honest_methods(lines)
    ratios = [line.width(OURS) / line.width(best_honest(line, honest)) for line in lines if line.width(OURS) > 0]
    failed = failing([line.chance(OURS) for line in lines])
    lowest = min(lines, key=lambda line: line.coverage)
    others = ", ".join(sorted(honest - {OURS})) or "none"
    dropped = sorted({m for line in lines for m in line.outcome.hits} - honest)
    return (
        f"{sum(failed)} of {len(lines)} lines fail; the lowest coverage is {lowest.coverage:.1%} ({lowest.cell.name}, "
        f"{lowest.kind}). Beside ours honest are: {others}; not: {', '.join(dropped) or 'none'}. The median width is at most "
        f"{max(ratios):.2f} times the best honest one's."
    )


def write(group: str, text: str) -> None:
    """Between the markers of the group's page."""
    page, begin, end = PAGES[group], f"<!-- coverage: {group} -->\n", "<!-- end of coverage -->"
    head, rest = page.read_text(encoding="utf-8").split(begin, 1)
    page.write_text(f"{head}{begin}{text}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")


def _measured(job: tuple[str, str, int]) -> list[tuple[str, Outcome]]:
    """One cell in a process of its own, which knows it by name."""
    _load()
    cell = next(cell for cell in GRID.cells if (cell.group, cell.name) == job[:2])
    return [(line.kind, line.outcome) for line in measure(cell, job[2])]


def _load() -> None:
    for module in MODULES:
        importlib.import_module(module)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, help="runs a cell; by default each cell's own")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the runs")
    parser.add_argument("--only", default="", help="cells whose group or name has this text")
    parser.add_argument("--dry", action="store_true", help="print, write nothing")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    _load()
    cells = [cell for cell in GRID.cells if options.only in f"{cell.group}: {cell.name}"]
    jobs = [(cell.group, cell.name, options.runs or (cell.runs // 100 if options.quick else cell.runs)) for cell in cells]
    lines: list[Line] = []
    with ProcessPoolExecutor(options.processes) as pool:
        for cell, found in zip(cells, pool.map(_measured, jobs), strict=True):
            lines += [Line(cell, kind, outcome) for kind, outcome in found]
            for line in lines[-len(found) :]:
                print(f"{cell.group}: {cell.name}, {line.kind}: {line.coverage:.1%}", flush=True)
    for group in dict.fromkeys(cell.group for cell in cells):
        mine = [line for line in lines if line.cell.group == group]
        text = "\n".join([*table(mine), "", summary(mine)])
        print(f"\n{text}")
        if not (options.dry or options.quick or options.only):
            write(group, text)
    sys.exit(any(failing([line.chance(OURS) for line in lines])))


if __name__ == "__main__":
    main()
