"""The registry of what ``interval_coverage.py`` counts: cells of a designed grid, each with a function that runs it.

A cell is registered by decorating its function, which takes how many runs and returns an :class:`Outcome`. Modules that
register cells are listed in ``interval_coverage.MODULES``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.arrays import Bools, Floats

OURS = "headwater"


@dataclass(frozen=True)
class Outcome:
    """Of one kind of interval in one cell: ``hits[method]`` (R,) whether it held the truth in each run, ``widths[method]``.

    ``OURS`` is among the methods. A rival may have been run less often.
    """

    hits: dict[str, Bools]
    widths: dict[str, Floats]
    refused: int = 0


@dataclass(frozen=True)
class Cell:
    """A line of the table: ``group`` says which table, ``run(runs)`` gives an outcome for each kind of interval.

    ``runs`` is how many are run at full length; ``level`` what the intervals state.
    """

    group: str
    name: str
    run: Callable[[int], dict[str, Outcome]]
    runs: int = 2000
    level: float = 0.95


@dataclass
class Registry:
    """All cells, in order."""

    cells: list[Cell] = field(default_factory=list)

    def add(self, group: str, name: str, run: Callable[[int], dict[str, Outcome]], *, runs: int = 2000) -> None:
        self.cells.append(Cell(group, name, run, runs))


GRID = Registry()
