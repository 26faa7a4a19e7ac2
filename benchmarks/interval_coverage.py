"""How often stated intervals hold, over a designed grid, and how wide they are beside the best honest method: tables in docs/.

Each cell is run 2,000 times, or fewer where a run is dear: the share of intervals that hold the truth, their median width, and
that of other methods on the same data. A cell fails where its coverage is below the stated level less one point by more than
chance allows over all cells of all tables (Holm, 1 %). Honest is a method that fails in no cell; the best of them is the
narrowest in that cell.

``python benchmarks/interval_coverage.py`` runs everything (an hour and a half of processor time; ``--processes 16``) and writes
the tables between their markers. What each cell came to is kept in a file (``--keep``) as soon as it is known, and
``--resume`` runs only what is not in it: tables are written once all cells are there. ``--only TEXT`` runs those cells whose
group or name has the text, ``--quick`` a hundredth, which is not kept; ``--dry`` writes no tables. Modules register cells in
``interval_cells.GRID``; they are named in ``MODULES``, and the page of each group in ``PAGES``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from interval_cells import GRID, OURS, Cell, Outcome

ROOT = Path(__file__).parent.parent
MODULES = ["interval_logs", "interval_fits"]
PAGES = {
    "evaluate": ROOT / "docs" / "evaluate.md",
    "fit": ROOT / "docs" / "fit.md",
    "mix": ROOT / "docs" / "policies.md",  # which coverage_mix.py writes by itself
}
SLACK, RISK, WIDEST, MOST_CELLS = 0.01, 0.01, 1.3, 60
USUAL = ("normal", "t")
"""What release 0.1 or a textbook would state."""


class Line(NamedTuple):
    """One kind of interval in one cell: of each method how many hold, of how many, and their median width."""

    group: str
    name: str
    kind: str
    level: float
    refused: int
    held: dict[str, int]
    number: dict[str, int]
    widths: dict[str, float]

    @property
    def coverage(self) -> float:
        return self.held[OURS] / self.number[OURS]

    def chance(self, method: str) -> float:
        """How likely so few hits are for coverage at the level less a point."""
        return float(stats.binom.cdf(self.held[method], self.number[method], self.level - SLACK))


def line_of(cell: Cell, kind: str, outcome: Outcome) -> Line:
    return Line(
        cell.group, cell.name, kind, cell.level, outcome.refused,
        {method: int(hits.sum()) for method, hits in outcome.hits.items()},
        {method: len(hits) for method, hits in outcome.hits.items()},
        {method: float(np.median(widths)) for method, widths in outcome.widths.items()},
    )  # fmt: skip


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
    methods = {method for line in lines for method in line.held}
    return {m for m in methods if not any(failing([x.chance(m) for x in lines if m in x.held]))}


def best_honest(line: Line, honest: set[str]) -> str:
    """The narrowest honest method in a cell."""
    there = [method for method in line.widths if method in honest]
    return min(there, key=line.widths.__getitem__) if there else OURS


def ratio_of(line: Line, honest: set[str]) -> float:
    """Our median width over the best honest one's."""
    its = line.widths[best_honest(line, honest)]
    return line.widths[OURS] / its if its > 0 else 1.0


def luckiest(lines: Sequence[Line]) -> tuple[float, str, Line]:
    """The largest ratio of our width to that of a method that holds in the very cell, whether or not in others."""
    found = [
        (line.widths[OURS] / line.widths[method], method, line)
        for line in lines
        for method in line.widths
        if line.held[method] >= (line.level - SLACK) * line.number[method] and line.widths[method] > 0
    ]
    return max(found, key=lambda entry: entry[0], default=(1.0, OURS, lines[0]))


def measure(cell: Cell, runs: int) -> list[Line]:
    """A cell's lines."""
    return [line_of(cell, kind, outcome) for kind, outcome in cell.run(runs).items() if len(outcome.hits.get(OURS, ()))]


def table(group: str, lines: Sequence[Line]) -> list[str]:
    """A markdown table, a row per cell and kind of interval of a group; what fails and who is honest is over all groups."""
    out = [
        "| cell | interval | number | hold | width | best honest | its width | ratio | normal held |",
        "|---|---|---:|---:|---:|---|---:|---:|---:|",
    ]
    honest = honest_methods(lines)
    for line, bad in zip(lines, failing([line.chance(OURS) for line in lines]), strict=True):
        if line.group != group:
            continue
        best = best_honest(line, honest)
        old = next((f"{line.held[m] / line.number[m]:.1%}" for m in USUAL if m in line.held), "–")
        number = f"{line.number[OURS]:,}" + (f" ({line.refused:,} refused)" if line.refused else "")
        held = f"{line.coverage:.1%}" + (" (fails)" if bad else "")
        out.append(
            f"| {line.name} | {line.kind} | {number} | {held} | {line.widths[OURS]:.3g} | {'ours' if best == OURS else best} | "
            f"{line.widths[best]:.3g} | {ratio_of(line, honest):.2f} | {old} |"
        )
    return out


def summary(group: str, lines: Sequence[Line]) -> str:
    """What a table comes to, in sentences."""
    honest, mine = honest_methods(lines), [line for line in lines if line.group == group]
    failed = failing([line.chance(OURS) for line in lines])
    here = sum(bad for line, bad in zip(lines, failed, strict=True) if line.group == group)
    lowest = min(mine, key=lambda line: line.coverage)
    methods = {m for line in mine for m in line.held} - {OURS}
    wide = [line for line in mine if ratio_of(line, honest) > WIDEST]
    cells = {(line.group, line.name) for line in lines}
    words = f"; above {WIDEST}: " + ", ".join(f"{line.name} ({line.kind})" for line in wide) if wide else ""
    most, method, where = luckiest(mine)
    hold, miss = (", ".join(sorted(some)) or "none" for some in (methods & honest, methods - honest))
    return (
        f"{here} of {len(mine)} lines fail, {sum(failed)} of all {len(lines)} of the whole grid of {len(cells)} cells; the "
        f"lowest coverage here is {lowest.coverage:.1%} ({lowest.name}, {lowest.kind}). Other methods that hold in every cell "
        f"of the grid: {hold}; that do not: {miss}. Our median width is at most "
        f"{max(ratio_of(line, honest) for line in mine):.2f} times the best honest one's{words}. Beside "
        f"methods that hold in the very cell, but not in every other, it is at most {most:.2f} times as wide ({method}: "
        f"{where.name}, {where.kind})."
    )


def write(group: str, text: str) -> None:
    """Between the markers of the group's page."""
    page, begin, end = PAGES[group], f"<!-- coverage: {group} -->\n", "<!-- end of coverage -->"
    head, rest = page.read_text(encoding="utf-8").split(begin, 1)
    page.write_text(f"{head}{begin}{text}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")


def _measured(job: tuple[str, str, int]) -> list[Line]:
    """One cell in a process of its own, which knows it by name."""
    load()
    cell = next(cell for cell in GRID.cells if (cell.group, cell.name) == job[:2])
    return measure(cell, job[2])


def load() -> None:
    """Register all cells."""
    for module in MODULES:
        importlib.import_module(module)
    if len(GRID.cells) > MOST_CELLS:
        raise SystemExit(f"the grid has {len(GRID.cells)} cells; expected at most {MOST_CELLS}")


def kept_lines(path: Path, cells: Sequence[Cell], runs: int | None) -> list[Line]:
    """What is known of these cells, from earlier calls, each with so many runs."""
    if not path.exists():
        return []
    told = {(entry["group"], entry["name"]): entry for entry in json.loads(path.read_text(encoding="utf-8"))}
    entries = [told.get((cell.group, cell.name)) for cell in cells]
    return [
        Line(**line)
        for cell, entry in zip(cells, entries, strict=True)
        if entry is not None and entry["runs"] >= min(runs or cell.runs, cell.runs)
        for line in entry["lines"]
    ]


def known_cells(path: Path) -> set[tuple[str, str]]:
    """The group and the name of every cell in the file."""
    return (
        {(entry["group"], entry["name"]) for entry in json.loads(path.read_text(encoding="utf-8"))} if path.exists() else set()
    )


def keep(path: Path, group: str, name: str, runs: int, lines: Sequence[Line]) -> None:
    """Add a cell to the file, or put it in the place of what was known of it."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    known = [entry for entry in known if (entry["group"], entry["name"]) != (group, name)]
    known.append({"group": group, "name": name, "runs": runs, "lines": [line._asdict() for line in lines]})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, help="at most so many runs a cell")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the runs, not kept")
    parser.add_argument("--only", default="", help="cells whose group or name has this text")
    parser.add_argument("--dry", action="store_true", help="print, write no tables")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=ROOT / "results" / "intervals.json")
    parser.add_argument("--resume", action="store_true", help="run only what is not kept yet")
    options = parser.parse_args()
    load()
    cells = [cell for cell in GRID.cells if options.only in f"{cell.group}: {cell.name}"]
    known = kept_lines(options.keep, cells, options.runs) if options.resume else []
    there = {(line.group, line.name) for line in known}
    jobs = [
        (cell.group, cell.name, max(cell.runs // 100, 2) if options.quick else min(options.runs or cell.runs, cell.runs))
        for cell in cells
        if (cell.group, cell.name) not in there
    ]
    fresh: list[Line] = []
    with ProcessPoolExecutor(options.processes) as pool:
        asked = {pool.submit(_measured, job): job for job in jobs}
        for done in as_completed(asked):
            fresh += done.result()
            if not options.quick:
                keep(options.keep, *asked[done], done.result())
            for line in done.result():
                print(f"{line.group}: {line.name}, {line.kind}: {line.coverage:.1%}", flush=True)
    if options.quick:
        place = {(cell.group, cell.name): n for n, cell in enumerate(GRID.cells)}
        lines = sorted(fresh, key=lambda line: place[line.group, line.name])
    else:
        lines = kept_lines(options.keep, GRID.cells, 1)
    whole = not options.quick and known_cells(options.keep) >= {(cell.group, cell.name) for cell in GRID.cells}
    for group in dict.fromkeys(line.group for line in lines):
        text = "\n".join([*table(group, lines), "", summary(group, lines)])
        print(f"\n{text}")
        if whole and not options.dry:
            write(group, text)
    if not whole:
        print("\nNot every cell of the grid is known: no tables were written.")
    sys.exit(any(failing([line.chance(OURS) for line in lines])))


if __name__ == "__main__":
    main()
