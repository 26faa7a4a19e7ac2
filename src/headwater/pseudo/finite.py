"""Pseudo-rewards on a listed support: each arm's rewards group the points into levels.

Nothing of size K×K×M is ever built. The row of an observed arm, ``s[:, k, :]`` of shape (K, M), costs O(K J) when it is first
needed; a few rows are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints, level_starts, nearest
from headwater.distributions import Distribution, Finite, Independent, Sample
from headwater.latent import Vector
from headwater.problem import Problem
from headwater.pseudo.model import Model
from headwater.quadrature import Estimate

KEPT_BYTES = 256_000_000


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


class FiniteModel(Model):
    """A problem whose support is listed: ``g[k, j]``, shape (K, J)."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.g = problem.rewards
        self._levels: dict[int, Levels] = {}
        self._rows: OrderedDict[int, Floats] = OrderedDict()

    @cached_property
    def ranges(self) -> Floats:
        return np.stack([self.g.min(axis=1), self.g.max(axis=1)], axis=1)

    def levels(self, k: int) -> Levels:
        if k not in self._levels:
            self._levels[k] = find_levels(self.g[k])
        return self._levels[k]

    def row(self, k: int) -> Floats:
        """``s[ell, m]``: the most arm ell could have paid when arm k paid its m-th reward, shape (K, M)."""
        if k not in self._rows:
            self._rows[k] = self._build_row(k, self.levels(k))
            while len(self._rows) > 1 and sum(row.nbytes for row in self._rows.values()) > KEPT_BYTES:
                self._rows.popitem(last=False)
        self._rows.move_to_end(k)
        return self._rows[k]

    def _build_row(self, k: int, levels: Levels) -> Floats:
        s = np.empty((self.count, len(levels.value)))
        for part in range(0, self.count, 64):  # blocks, so that the reordered copy of g stays small
            block = self.g[part : part + 64, levels.order]
            s[part : part + 64] = np.maximum.reduceat(block, levels.starts, axis=1)
        s[k] = levels.value
        return s

    def payable(self, k: int) -> Floats:
        value = self.levels(k).value
        return np.stack([value, value], axis=1)

    def pseudo(self, k: int, rewards: Floats) -> Floats:
        return self.row(k)[:, nearest(self.levels(k).value, rewards)]

    def probabilities(self, distribution: Distribution) -> Floats:
        """The distribution on the listed points, shape (J,)."""
        if isinstance(distribution, Independent):
            return distribution.joint()
        if isinstance(distribution, Finite):
            return distribution.p
        assert isinstance(distribution, Sample) and isinstance(self.problem.latent, Vector)
        at = self.problem.latent.number(distribution.points)
        return np.asarray(np.bincount(at, weights=distribution.weights, minlength=self.g.shape[1]), dtype=float)

    def means(self, distribution: Distribution) -> Estimate:
        return Estimate(self.g @ self.probabilities(distribution), 0.0)

    def phi(self, k: int, distribution: Distribution) -> Estimate:
        levels = find_levels(self.g[k])  # not kept: an expectation over every observed arm must not hold K rows
        weight = np.add.reduceat(self.probabilities(distribution)[levels.order], levels.starts)
        return Estimate(self._build_row(k, levels) @ weight, 0.0)

    def invertible(self) -> list[bool]:
        scale = np.max(abs(self.ranges), axis=1)
        return [len(level_starts(np.sort(row), float(most))) == len(row) for row, most in zip(self.g, scale, strict=True)]
