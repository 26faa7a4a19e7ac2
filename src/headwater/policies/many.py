"""What a live policy reads where there are so many arms and rewards that a table of all pairs would not fit into memory."""

from __future__ import annotations

import numpy as np

from headwater import native
from headwater.arrays import SAME
from headwater.errors import SizeError
from headwater.policies.rules import KLUCB, Spec
from headwater.policies.table import FRUGAL, Columns
from headwater.pseudo.finite import FiniteModel

__all__ = ["Many", "check_many"]


def check_many(spec: Spec, arms: int) -> None:
    """Refuse a policy that reads more than one row of sums, or every arm's levels."""
    if spec.learns or spec.reference == "well-pulled" or spec.rule == KLUCB("empirical"):
        raise SizeError(f"policy: got {spec.title}, which needs a table of all pairs of {arms:,} arms; use {FRUGAL}")


class Many:
    """The rewards by column; a reward stands for the first atom at which the arm pays it."""

    def __init__(self, columns: Columns, model: FiniteModel) -> None:
        self.columns, self.model = columns, model

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

    def counts(self, known: native.Live) -> dict[int, list[tuple[float, int]]]:
        """For each arm that was pulled, its rewards, ascending, and how often it paid each."""
        out: dict[int, list[tuple[float, int]]] = {}
        keys, counts = known.seen()
        for key, n in zip(keys.tolist(), counts.tolist(), strict=True):
            k, atom = divmod(key, len(self.columns.up))
            out.setdefault(k, []).append((float(self.columns.g[k, atom]), n))
        return {k: sorted(rows) for k, rows in out.items()}

    def units(self, k: int, atom: int) -> int:
        """What arm k pays at an atom, in units."""
        less = int(self.columns.less[k, atom]) if self.columns.less.size else 0
        return int(self.columns.up[atom, k]) - less
