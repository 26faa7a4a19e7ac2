"""A continuous X, seen through bins of every arm's rewards: finitely many atoms, on which joint evidence is exact.

Each arm's reward range is cut into equal bins. Points of the support where every arm pays into the same bins are one atom:
whatever the law of X, the atom decides the bin, so that counts of bins are evidence on the atoms' probabilities without any
error of quantising. What is rounded are only the means: an atom is taken to pay the upper end of its bin, so that no arm is
ever underrated; it is overrated by at most the width of a bin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.problem import Problem, probes
from headwater.pseudo.channels import Channels
from headwater.pseudo.scalar import ScalarModel

BINS = 24
"""Bins of the widest arm; narrower ones get as many as make the bins about as wide."""
POINTS = 1 << 15
"""Where the support is looked at besides the places where some arm's reward passes from one bin to the next."""
MAX_PASSES = 1 << 20
"""Pieces × bins of an arm: beyond, a combination of bins that occurs between two of the POINTS only is not seen."""


class Cells(NamedTuple):
    """``channels`` from atoms to bins, and how rewards become bins: arm k has ``bins[k]``, number m starts at ``low[k] + m
    * width[k]``.
    """

    channels: Channels
    low: Floats
    width: Floats
    bins: Ints

    def bin(self, k: int, rewards: Floats) -> Ints:
        """The bins of arm k's rewards; where no atom pays into that bin, the next one up that some atom pays into."""
        at = np.floor((rewards - self.low[k]) / self.width[k])
        found = np.asarray(np.clip(at, 0, self.bins[k] - 1), dtype=np.int64)
        low, high = self.channels.offset[k : k + 2]
        paid = np.unique(self.channels.row[(self.channels.row >= low) & (self.channels.row < high)] - low)
        return paid[np.minimum(np.searchsorted(paid, found), len(paid) - 1)] if len(paid) else found


def cells_of(problem: Problem, model: ScalarModel) -> Cells:
    """The problem's atoms and bins, made on first use and kept with it."""
    return problem.remember("cells", lambda: _build(problem, model))


def _build(problem: Problem, model: ScalarModel) -> Cells:
    low, high = model.ranges.T
    widest = max(float(np.max(high - low)), 1e-300)
    count = np.maximum(np.ceil(BINS * (high - low) / widest), 1).astype(np.int64)
    width = np.where(high > low, high - low, 1.0) / count
    none = np.empty(0, dtype=np.int64)  # no atoms yet
    cells = Cells(Channels([], np.empty((0, 0)), np.zeros(model.count + 1, np.int64), none, none, low), low, width, count)
    rewards = model.values(_points(problem, model, cells))
    level = np.stack([cells.bin(k, rewards[k]) for k in range(model.count)])
    atoms = np.unique(level, axis=1)
    offset = np.concatenate([[0], np.cumsum(count)])
    upper = np.minimum(low[:, None] + (atoms + 1) * width[:, None], high[:, None])
    start = np.arange(atoms.shape[1] + 1) * model.count
    row = (atoms + offset[:-1, None]).T.ravel()
    values = [low[k] + (np.arange(count[k]) + 0.5) * width[k] for k in range(model.count)]
    return cells._replace(channels=Channels(values, upper, offset, start, row, np.ones(len(row))))


def _points(problem: Problem, model: ScalarModel, cells: Cells) -> Floats:
    """Points (1, n) in every combination of bins: between any two neighbours among the ends of pieces and the places where an
    arm's reward passes from one bin to the next, all rewards stay in their bins. O(pieces × bins) for each arm."""
    ends = [probes(problem.latent, POINTS)[0]]
    for k, pieces in enumerate(model.pieces):
        edges = cells.low[k] + np.arange(1, cells.bins[k]) * cells.width[k]
        ends.append(pieces.breaks())
        if len(edges) and len(edges) * len(pieces.cells.lo) <= MAX_PASSES:
            _, a, b = pieces.preimage(edges, model.band(k, edges))
            ends += [a, b]
    low, high = probes(problem.latent, 2)[0]
    x = np.unique(np.clip(np.concatenate(ends), low, high))
    return np.unique(np.concatenate([x, x[:-1] + 0.5 * np.diff(x)]))[None]
