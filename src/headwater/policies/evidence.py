"""How a problem's rewards bear on the law of X: what policies that learn it read. Made once and kept with the problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headwater import native
from headwater.arrays import Bools, Floats, Ints, nearest
from headwater.errors import ProblemError
from headwater.policies.channel_view import channel_view
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.pseudo.cells import Cells, cells_of
from headwater.pseudo.channels import Channels, channels_of
from headwater.pseudo.finite import FiniteModel
from headwater.pseudo.scalar import ScalarModel

__all__ = ["Evidence", "evidence_of"]

MAX_ENTRIES = 30_000_000
"""Rows × (arms + 1), and points squared: 0.24 GB for each of the tables a learner keeps."""


class Evidence(NamedTuple):
    """How a problem's rewards bear on its law: channels to bins, the scale of means, and ``cells`` where X is continuous."""

    channels: Channels
    low: float
    span: float
    cells: Cells | None

    def core(self, bins: Ints, tolerance: float) -> native.Evidence:
        """As the native core reads it; ``bins`` (K, M), and by how many standard errors channels may be wrong."""
        span = self.span if self.span > 0 else 1.0
        view = channel_view(self.channels, self.low, span, tolerance)
        return native.Evidence(view, self.rewards(), bins, binned=self.cells is not None, zero=self.low, width=span)

    def bin(self, k: int, rewards: Floats) -> Ints:
        """The bins of arm k's rewards."""
        if self.cells is not None:
            return self.cells.bin(k, rewards)
        return nearest(self.channels.values[k], rewards)

    def possible(self, k: int, size: int) -> Bools:
        """Which of ``size`` bins arm k pays into somewhere."""
        low, high = self.channels.offset[k : k + 2]
        out = np.zeros(size, dtype=bool)
        rows = self.channels.row[(self.channels.row >= low) & (self.channels.row < high)]
        out[rows - low] = True
        return out

    def rewards(self) -> Floats:
        """The bins' rewards (K, M), rows padded; the upper ends of bins that hold many."""
        channels = self.channels
        out = np.zeros((len(channels.values), max(map(len, channels.values))))
        for k, row in enumerate(channels.values):
            out[k, : len(row)] = row
        if self.cells is not None:
            arm = np.searchsorted(channels.offset, channels.row, side="right") - 1
            atom = np.repeat(np.arange(channels.g.shape[1]), np.diff(channels.start))
            out[arm, channels.row - channels.offset[arm]] = channels.g[arm, atom]
        return out

    def bins(self, values: Sequence[Floats]) -> Ints:
        """The bins of every arm's rewards ``values[k]`` (M_k,), shape (K, M), rows padded."""
        out = np.zeros((len(values), max(map(len, values))), dtype=np.int64)
        for k, row in enumerate(values):
            out[k, : len(row)] = self.bin(k, row)
        return out


def evidence_of(problem: Problem) -> Evidence:
    """What joint policies read, made on first use and kept with the problem; refuses supports that are too large."""
    return problem.remember("evidence", lambda: _evidence(problem))


def _evidence(problem: Problem) -> Evidence:
    model, cells = model_of(problem), None
    if isinstance(model, FiniteModel):
        _check_size(*model.g.shape)  # each arm pays something: channels may not even fit
        channels = channels_of(problem)
    elif isinstance(model, ScalarModel):
        cells = cells_of(problem, model)
        channels = cells.channels
    else:
        raise ProblemError(
            "policy: joint policies need a support that is listed, or a continuous scalar X; use c-ucb for this vector, "
            "or give its components values instead of intervals"
        )
    count, points = channels.g.shape
    _check_size(count, points, int(channels.offset[-1]))
    low = float(channels.g.min())
    return Evidence(channels, low, float(channels.g.max()) - low, cells)


def _check_size(count: int, points: int, rows: int | None = None) -> None:
    if max((rows or count) * (count + 1), points * points) > MAX_ENTRIES:
        different = "" if rows is None else f" with {rows:,} different rewards"
        raise ProblemError(
            f"policy: {count} arms{different} on {points:,} points are too many for joint policies; "
            "use c-ucb, or merge points or rewards that are alike"
        )
