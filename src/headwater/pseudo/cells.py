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
"""Where the support is looked at. A combination of bins that occurs between two of these points only is not seen."""


class Cells(NamedTuple):
    """``channels`` from atoms to bins, and how rewards become bins: arm k has ``bins[k]``, number m starts at ``low[k] + m
    * width[k]``.
    """

    channels: Channels
    low: Floats
    width: Floats
    bins: Ints

    def bin(self, k: int, rewards: Floats) -> Ints:
        """The bins of arm k's rewards."""
        at = np.floor((rewards - self.low[k]) / self.width[k])
        return np.asarray(np.clip(at, 0, self.bins[k] - 1), dtype=np.int64)


def cells_of(problem: Problem, model: ScalarModel) -> Cells:
    """The problem's atoms and bins, made on first use and kept with it."""
    return problem.remember("cells", lambda: _build(problem, model))


def _build(problem: Problem, model: ScalarModel) -> Cells:
    low, high = model.ranges.T
    widest = max(float(np.max(high - low)), 1e-300)
    count = np.maximum(np.ceil(BINS * (high - low) / widest), 1).astype(np.int64)
    width = np.where(high > low, high - low, 1.0) / count
    cells = Cells(Channels([], np.empty((0, 0)), count, count, count, low), low, width, count)
    rewards = model.values(probes(problem.latent, POINTS))
    level = np.stack([cells.bin(k, rewards[k]) for k in range(model.count)])
    atoms = np.unique(level, axis=1)
    offset = np.concatenate([[0], np.cumsum(count)])
    upper = np.minimum(low[:, None] + (atoms + 1) * width[:, None], high[:, None])
    start = np.arange(atoms.shape[1] + 1) * model.count
    row = (atoms + offset[:-1, None]).T.ravel()
    values = [low[k] + (np.arange(count[k]) + 0.5) * width[k] for k in range(model.count)]
    return cells._replace(channels=Channels(values, upper, offset, start, row, np.ones(len(row))))
