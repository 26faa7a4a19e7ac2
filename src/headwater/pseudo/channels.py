"""Every arm as a channel from X to its rewards, on a listed support: what joint evidence on the law of X is read through.

Row i = ``offset[k] + m`` stands for "arm k paid its m-th reward", and ``A[i, j]`` is its probability at the j-th point. Columns
are kept sparse: a deterministic arm has one entry in each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.problem import Problem, Random
from headwater.pseudo.finite import find_channel, find_levels

KNOWN: Floats = np.zeros((0, 0))
STATED = 1.96
"""Standard errors from a mean to the end of its interval (95 %), which ``mean_high`` is."""


class Channels(NamedTuple):
    """``values[k]`` (M_k,): arm k's rewards, ascending. ``g`` (K, J): its mean at each point. ``offset`` (K + 1,).

    Column j holds the rows ``row[start[j]:start[j + 1]]`` with probabilities ``weight`` of the same places, by ascending row.
    ``error`` (K, J) is the standard error of ``g``, and ``strain`` (K, J) how much likelihood it costs a reward on average, 0
    where arms are known; ``observations`` (K, J) is how many rewards each law rests on, inf where it is known. All three are
    ``KNOWN`` where all arms are. ``raw`` lists the learned arms that do not say what their means are at most: those whose laws
    may be frequencies as they were counted, not shrunk as ``headwater fit`` does.
    """

    values: list[Floats]
    g: Floats
    offset: Ints
    start: Ints
    row: Ints
    weight: Floats
    error: Floats = KNOWN
    strain: Floats = KNOWN
    observations: Floats = KNOWN
    raw: tuple[int, ...] = ()

    def matrix(self, k: int) -> Floats:
        """Arm k's channel in full, shape (M_k, J): its columns sum to 1."""
        low, high = self.offset[k : k + 2]
        mine = (self.row >= low) & (self.row < high)
        out = np.zeros((high - low, len(self.start) - 1))
        column = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        out[self.row[mine] - low, column[mine]] = self.weight[mine]
        return out


def channels_of(problem: Problem) -> Channels:
    """The problem's channels, made on first use and kept with it. O(K J log J) for deterministic arms.

    >>> import headwater as hw
    >>> ads = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"sure": [1, 2], "coin": {"outcomes": [0, 1],
    ...                  "probabilities": [[0.9, 0.1], [0.2, 0.8]]}})
    >>> channels_of(ads).matrix(1)
    array([[0.9, 0.2],
           [0.1, 0.8]])
    """
    return problem.remember("channels", lambda: _build(problem))


def _build(problem: Problem) -> Channels:
    g = problem.rewards
    values, found, columns, weights, offset = [], [], [], [], [0]
    for k, arm in enumerate(problem.arms.values()):
        if isinstance(arm, Random):
            value, matrix = find_channel(arm)
            values.append(value)
            m, j = np.nonzero(matrix)
            weights.append(matrix[m, j])
        else:
            levels = find_levels(g[k])
            values.append(levels.value)
            m, j = levels.level, np.arange(g.shape[1])
            weights.append(np.ones(len(j)))
        found.append(m + offset[-1])
        columns.append(j)
        offset.append(offset[-1] + len(values[-1]))
    row, column, weight = np.concatenate(found), np.concatenate(columns), np.concatenate(weights)
    order = np.lexsort((row, column))
    start = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=g.shape[1]))])
    offsets, starts, rows = np.array(offset), start.astype(np.int64), row[order].astype(np.int64)
    return Channels(values, g, offsets, starts, rows, weight[order], *_errors(problem))


def _errors(problem: Problem) -> tuple[Floats, Floats, Floats, tuple[int, ...]]:
    """What channels that were learned may be wrong by, see :class:`Channels`.

    Under a Dirichlet prior that weighs as much as one observation, n of them leave the mean with a variance of v / (n + 2), v
    that of the reward. And the law of M rewards, learned so, is (M - 1) / (2 n) from the truth, as divergences go.
    """
    arms = list(problem.arms.values())
    if not any(isinstance(arm, Random) and arm.observations is not None for arm in arms):
        return KNOWN, KNOWN, KNOWN, ()
    error, strain = np.zeros_like(problem.rewards), np.zeros_like(problem.rewards)
    observations = np.full_like(problem.rewards, np.inf)
    for k, arm in enumerate(arms):
        if isinstance(arm, Random) and arm.observations is not None:
            n, size = arm.observations, len(arm.outcomes)
            law = (arm.probabilities * n[:, None] + 1.0 / size) / (n + 1.0)[:, None]
            mean = law @ arm.outcomes
            error[k] = np.sqrt(np.sum(law * (arm.outcomes - mean[:, None]) ** 2, axis=1) / (n + 2.0))
            if arm.mean_high is not None:  # rewards too rare to have been seen say nothing about their own spread
                error[k] = np.maximum(error[k], (arm.mean_high - arm.probabilities @ arm.outcomes) / STATED)
            strain[k] = (size - 1) / (2.0 * (n + 1.0))
            observations[k] = n
    rows = enumerate(arms)
    raw = tuple(k for k, a in rows if isinstance(a, Random) and a.observations is not None and a.mean_high is None)
    return error, strain, observations, raw
