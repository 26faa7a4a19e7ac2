"""Pseudo-rewards on a listed support: each arm's rewards group the points into levels.

A random arm's rewards do not: the points at which reward m is possible overlap. One of its rewards says that X is one of those,
and the law of its rewards what ``explained`` makes of it.

Nothing of size K×K×M is ever built. The row of an observed arm, ``s[:, k, :]`` of shape (K, M), costs O(K J) when it is first
needed (O(K J M) for a random arm); a few rows are kept, and as many arms' levels as fit. A row that is too large to be kept is
never built either: only the rewards that are asked for are looked up.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints, level_starts, nearest
from headwater.distributions import Distribution, Finite, Independent, Sample
from headwater.latent import Vector
from headwater.problem import Problem, Random
from headwater.pseudo.explained import expected_bounds
from headwater.pseudo.model import Model
from headwater.quadrature import Estimate

KEPT_BYTES = 256_000_000
"""What is kept of rows, and again of levels."""


class Levels(NamedTuple):
    """Arm k's distinct rewards ``value`` (M,), ascending, and ``level`` (J,): which of them each point pays.

    ``order`` (J,) sorts the points by level, ``starts`` (M,) says where each level begins in that order.
    """

    value: Floats
    level: Ints
    order: Ints
    starts: Ints


def find_levels(rewards: Floats) -> Levels:
    """Group the points of one arm by reward, rounding aside. O(J log J).

    >>> find_levels(np.array([1.0, 2.0, 2.0])).level
    array([0, 1, 1])
    """
    order = np.argsort(rewards, kind="stable")
    ordered = rewards[order]
    starts = level_starts(ordered, float(np.max(abs(rewards), initial=0.0)))
    level = np.empty(len(rewards), dtype=np.int64)
    level[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rewards))))
    return Levels(ordered[starts], level, order, starts)


def distinct(rewards: Floats) -> Floats:
    """``find_levels(rewards).value``, several times quicker: the points need not be told apart.

    >>> distinct(np.array([2.0, 1.0, 2.0]))
    array([1., 2.])
    """
    ordered = np.sort(rewards)
    return ordered[level_starts(ordered, float(np.max(abs(ordered[[0, -1]]))))]


class Channel(NamedTuple):
    """A random arm's possible rewards ``value`` (M,), ascending, and ``matrix[m, j]``: the probability of each at point j."""

    value: Floats
    matrix: Floats


def find_channel(arm: Random) -> Channel:
    """A random arm's outcomes in order, those that never occur left out, and those that are equal but for rounding merged.

    >>> find_channel(Random(np.array([2.0, 0.0, 7.0]), np.array([[0.9, 0.1, 0.0], [1.0, 0.0, 0.0]])))
    Channel(value=array([0., 2.]), matrix=array([[0.1, 0. ],
           [0.9, 1. ]]))
    """
    possible = np.flatnonzero(arm.probabilities.max(axis=0) > 0)
    levels = find_levels(arm.outcomes[possible])
    return Channel(levels.value, np.add.reduceat(arm.probabilities.T[possible][levels.order], levels.starts, axis=0))


class FiniteModel(Model):
    """A problem whose support is listed: ``g[k, j]``, shape (K, J), the mean reward where rewards are random.

    One reward r of a random arm k gives ``s[ell]`` = the largest g_ell(x) over the x at which r is possible. Arm ell's own
    reward may be random too: s is then the most it can pay on average, given X.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.g = problem.rewards
        self.random = {k: arm for k, arm in enumerate(problem.arms.values()) if isinstance(arm, Random)}
        self._levels: OrderedDict[int, Levels] = OrderedDict()
        self._channels: dict[int, Channel] = {}
        self._rows: OrderedDict[int, Floats] = OrderedDict()

    @cached_property
    def ranges(self) -> Floats:
        """Of a random arm, from its outcomes: its means lie closer together."""
        out = np.stack([self.g.min(axis=1), self.g.max(axis=1)], axis=1)
        for k in self.random:
            out[k] = self.values(k)[[0, -1]]
        return out

    def values(self, k: int) -> Floats:
        """Arm k's possible rewards, ascending, (M_k,)."""
        return self.channel(k).value if k in self.random else self.levels(k).value

    def channel(self, k: int) -> Channel:
        """A random arm's channel, kept."""
        if k not in self._channels:
            self._channels[k] = find_channel(self.random[k])
        return self._channels[k]

    def levels(self, k: int) -> Levels:
        """Which reward each point pays, for an arm whose reward is not random."""
        assert k not in self.random, f"arm {k} has a random reward: its points have no levels"
        if k not in self._levels:
            self._levels[k] = find_levels(self.g[k])
            if len(self._levels) > 1 and len(self._levels) * 32 * self.g.shape[1] > KEPT_BYTES:
                self._levels.popitem(last=False)
        self._levels.move_to_end(k)
        return self._levels[k]

    def row(self, k: int) -> Floats:
        """``s[ell, m]``: the most arm ell could have paid when arm k paid its m-th reward, shape (K, M)."""
        if k not in self._rows:
            self._rows[k] = self._random_row(k) if k in self.random else self._build_row(k, self.levels(k))
            while len(self._rows) > 1 and sum(row.nbytes for row in self._rows.values()) > KEPT_BYTES:
                self._rows.popitem(last=False)
        self._rows.move_to_end(k)
        return self._rows[k]

    def _build_row(self, k: int, levels: Levels) -> Floats:
        s = np.empty((self.count, len(levels.value)))
        for part, block in self._maxima(levels):
            s[part : part + len(block)] = block
        s[k] = levels.value
        return s

    def _maxima(self, levels: Levels) -> Iterator[tuple[int, Floats]]:
        """For some arms at a time, so that the reordered copy of g stays small: the most that each pays at each level."""
        for part in range(0, self.count, 64):
            yield part, np.maximum.reduceat(self.g[part : part + 64, levels.order], levels.starts, axis=1)

    def _random_row(self, k: int) -> Floats:
        value, matrix = self.channel(k)
        s = np.stack([self.g[:, line > 0].max(axis=1) for line in matrix], axis=1)
        s[k] = value
        return s

    def payable(self, k: int) -> Floats:
        value = self.values(k)
        return np.stack([value, value], axis=1)

    def width(self, k: int) -> float:
        return self.random[k].width if k in self.random else 0.0

    def snap(self, k: int, rewards: Floats, tolerance: float) -> Floats:
        arm = self.random.get(k)
        if arm is not None and arm.edges is not None:  # every reward is of some bin
            rewards = arm.outcomes[np.searchsorted(arm.edges, rewards, side="right")]
        return super().snap(k, rewards, tolerance)

    def pseudo(self, k: int, rewards: Floats) -> Floats:
        wanted = nearest(self.values(k), rewards)
        if k in self.random or 8 * self.count * len(self.values(k)) <= KEPT_BYTES:
            return self.row(k)[:, wanted]
        levels = self.levels(k)
        ends = np.append(levels.starts, len(levels.order))
        s = np.stack([self.g[:, levels.order[ends[m] : ends[m + 1]]].max(axis=1) for m in wanted], axis=1)
        s[k] = levels.value[wanted]
        return s

    def probabilities(self, distribution: Distribution) -> Floats:
        """The distribution on the listed points, shape (J,)."""
        if isinstance(distribution, Independent):
            return distribution.joint()
        if isinstance(distribution, Finite):
            return distribution.p
        assert isinstance(distribution, Sample) and isinstance(self.problem.latent, Vector)
        at = self.problem.latent.number(distribution.points)
        return np.asarray(np.bincount(at, weights=distribution.weights, minlength=self.g.shape[1]), dtype=float)

    @cached_property
    def rounding(self) -> float:
        """The most by which bins of noise move any mean."""
        return max((arm.rounding for arm in self.random.values()), default=0.0)

    def means(self, distribution: Distribution) -> Estimate:
        return Estimate(self.g @ self.probabilities(distribution), self.rounding)

    def phi(self, k: int, distribution: Distribution) -> Estimate:
        p = self.probabilities(distribution)
        if k in self.random:
            return Estimate(expected_bounds(self.channel(k).matrix, p, self.g), self.rounding)
        levels = find_levels(self.g[k])  # not kept: an expectation over every observed arm must not hold K rows
        weight = np.add.reduceat(p[levels.order], levels.starts)
        out = np.concatenate([block @ weight for _, block in self._maxima(levels)])
        out[k] = levels.value @ weight
        return Estimate(out, self.rounding)

    def invertible(self) -> list[bool]:
        """A random arm reveals X when no reward is possible at two points."""
        scale = np.max(abs(self.ranges), axis=1)
        return [
            bool(np.all(np.sum(self.channel(k).matrix > 0, axis=1) == 1))
            if k in self.random
            else len(level_starts(np.sort(row), float(most))) == len(row)
            for k, (row, most) in enumerate(zip(self.g, scale, strict=True))
        ]
