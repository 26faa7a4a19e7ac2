"""What a live policy keeps where there are so many arms and rewards that a table of all pairs would not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from headwater.arrays import SAME, Floats, Ints
from headwater.errors import SizeError
from headwater.policies import contenders, kernel, leaders
from headwater.policies.rules import KLUCB, Spec
from headwater.policies.table import FRUGAL, Columns
from headwater.pseudo.finite import FiniteModel

__all__ = ["Many", "check_many"]


def check_many(spec: Spec, arms: int) -> None:
    """Refuse a policy that reads more than one row of sums, or every arm's levels."""
    if spec.learns or spec.reference == "well-pulled" or spec.rule == KLUCB("empirical"):
        raise SizeError(f"policy: got {spec.title}, which needs a table of all pairs of {arms:,} arms; use {FRUGAL}")


class Many:
    """The rewards by column, the rows of arms that led, and how often each arm paid at each atom.

    A reward stands for the first atom at which the arm pays it.
    """

    def __init__(self, columns: Columns, model: FiniteModel, *, filtered: bool) -> None:
        self.columns, self.model, self.filtered = columns, model, filtered
        atoms, arms = columns.up.shape
        self.leaders = leaders.make_leaders(arms if filtered else 1, atoms if filtered else 1)
        self.crowd = contenders.make_crowd(arms, atoms if filtered else 1)
        self.seen = leaders.make_seen()

    def step(self, mode: int, arm: int, atom: int, whole: Ints, real: Floats, lazy: bool = False) -> int:
        """One step; ``lazy`` with the state that is observed, not with a copy, nor where every index is wanted."""
        if mode != kernel.SELECT:
            self._make_room()
        return contenders.step(mode, arm, atom, whole, real, lazy, self.crowd, self.leaders, self.columns, self.seen)

    def select(
        self,
        draws: int,
        off: Ints,
        pending: Ints,
        whole: Ints,
        real: Floats,
        copy_whole: Ints,
        copy_real: Floats,
        out: Ints,
    ) -> None:
        """As ``waiting.select``."""
        tables = (self.crowd, self.leaders, self.columns, self.seen)
        contenders.select(draws, off, pending, whole, real, *tables, copy_whole, copy_real, out)

    def atom(self, k: int, reward: float) -> int:
        """The atom that stands for one of arm k's rewards, or for the one nearest to it."""
        levels = self.model.levels(k)
        return int(levels.order[levels.starts[np.argmin(abs(levels.value - reward))]])

    def exact(self, k: int, reward: float) -> int | None:
        """As ``atom``, without sorting the arm's rewards; None for what is not exactly one of them, the least of its level."""
        row = self.columns.g[k]
        here, below = np.flatnonzero(row == reward), row[row < reward]
        apart = SAME * float(np.max(abs(self.model.ranges[k])))
        if len(here) == 0 or (len(below) and reward - below.max() <= apart):
            return None
        return int(here[0])

    def counts(self) -> dict[int, list[tuple[float, int]]]:
        """For each arm that was pulled, its rewards, ascending, and how often it paid each."""
        out: dict[int, list[tuple[float, int]]] = {}
        for k, atom, n in self._items():
            out.setdefault(k, []).append((float(self.columns.g[k, atom]), n))
        return {k: sorted(rows) for k, rows in out.items()}

    def add(self, found: Iterable[tuple[int, int, int]]) -> None:
        """Count more rewards: an arm, an atom, how often. Rows of sums are made anew when they are needed."""
        for k, atom, n in found:
            self._make_room()
            leaders.see(self.seen, k, atom, len(self.columns.up), n)
        leaders.forget_rows(self.leaders)
        contenders.scatter(self.crowd)

    def units(self, k: int, atom: int) -> int:
        """What arm k pays at an atom, in units."""
        return int(leaders.pays(self.columns, k, atom))

    def row(self, k: int) -> Ints:
        """The sums of arm k's rewards less each arm's pseudo-rewards, (K,), as of the last step that was not lazy; without a
        filter, zeros."""
        if not self.filtered:
            return np.zeros(self.model.count, dtype=np.int64)
        if self.leaders.slot[k] < 0:
            leaders.lead(k, self.leaders, self.columns, self.seen)
        return np.asarray(self.leaders.rows[self.leaders.slot[k]])

    def _items(self) -> Iterator[tuple[int, int, int]]:
        atoms = len(self.columns.up)
        for at in np.flatnonzero(self.seen.keys).tolist():
            k, atom = divmod(int(self.seen.keys[at]) - 1, atoms)
            yield k, atom, int(self.seen.counts[at])

    def _make_room(self) -> None:
        if 2 * (self.seen.used[0] + 1) > len(self.seen.keys):
            self.seen = leaders.roomy(self.seen, 1)
