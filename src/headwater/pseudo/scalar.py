"""Pseudo-rewards for a continuous scalar X: exact preimages through monotone pieces, expectations by quadrature."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from headwater.arrays import Floats
from headwater.distributions import Distribution, Named, Sample
from headwater.latent import Continuous
from headwater.problem import Formula, Function, Problem
from headwater.pseudo.model import PAD, Model, draw
from headwater.pseudo.pieces import Pieces, from_expression, from_function
from headwater.quadrature import Estimate, integrate

PRECISION = 1e-10
"""The error, as a part of the reward range, at which quadrature stops."""
MAX_BREAKS = 4_000
MAX_BRACKETS = 1_000_000
"""Preimage brackets inverted at once: bounds memory."""
MAX_WORK = 1_500_000
"""Brackets inverted for one expectation; a function with many pieces gets fewer points, and an error that says so."""


class ScalarModel(Model):
    """A problem on an interval. Compiling costs milliseconds per arm; a pseudo-reward about 60 evaluations per piece."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        assert isinstance(problem.latent, Continuous)
        low, high = problem.latent.support
        self.pieces: list[Pieces] = []
        for name, arm in problem.arms.items():
            place = f"arms.{name}"
            if isinstance(arm, Formula):
                self.pieces.append(from_expression(place, arm.expression, low, high))
            else:
                assert isinstance(arm, Function)
                self.pieces.append(from_function(place, arm, low, high))

    @cached_property
    def ranges(self) -> Floats:
        return np.array([[p.minimum, p.maximum] for p in self.pieces])

    def payable(self, k: int) -> Floats:
        return self.pieces[k].payable()

    def band(self, k: int, rewards: Floats) -> float:
        """How far apart rewards of arm k may be and still count as one: see ``PAD``; at least some units of rounding."""
        return max(PAD * self.pieces[k].width, 4 * float(np.spacing(np.max(abs(rewards), initial=0.0))))

    def pseudo(self, k: int, rewards: Floats) -> Floats:
        unique, back = np.unique(rewards, return_inverse=True)
        block = max(MAX_BRACKETS // len(self.pieces[k].cells.lo), 1)
        s = [self._pseudo(k, unique[i : i + block]) for i in range(0, len(unique), block)]
        return np.concatenate(s, axis=1)[:, back]

    def _pseudo(self, k: int, unique: Floats) -> Floats:
        which, a, b = self.pieces[k].preimage(unique, self.band(k, unique))
        s = np.full((self.count, len(unique)), -np.inf)
        for ell, target in enumerate(self.pieces):
            if ell == k:
                s[ell] = unique
            else:
                np.maximum.at(s[ell], which, target.largest(a, b))
        return s

    def values(self, points: Floats) -> Floats:
        """Every arm's reward at ``points`` (1, n), shape (K, n)."""
        return np.stack([p.function(points[0]) for p in self.pieces])

    def means(self, distribution: Distribution) -> Estimate:
        if isinstance(distribution, Sample):
            return Estimate(self.values(distribution.points) @ distribution.weights, 0.0)
        assert isinstance(distribution, Named)
        breaks = distribution.position(np.unique(np.concatenate([p.breaks() for p in self.pieces])))
        return self._integrate(lambda u: self.values(draw(distribution, u)[None]), breaks)

    def phi(self, k: int, distribution: Distribution) -> Estimate:
        if isinstance(distribution, Sample):
            s = self.pseudo(k, self.pieces[k].function(distribution.points[0]))
            return Estimate(s @ distribution.weights, 0.0)
        assert isinstance(distribution, Named)

        def integrand(u: Floats) -> Floats:
            return self.pseudo(k, self.pieces[k].function(draw(distribution, u)))

        budget = max(MAX_WORK // len(self.pieces[k].cells.lo), 90)
        return self._integrate(integrand, distribution.position(self._breaks(k)), budget)

    def _integrate(self, f: Callable[[Floats], Floats], breaks: Floats, budget: int = 400_000) -> Estimate:
        if 30 * len(breaks) > budget:  # as many panels as can be afforded, wherever they fall
            breaks = np.linspace(0, 1, budget // 60 + 2)
        return integrate(f, breaks, tolerance=PRECISION * max(self.reward_range, 1e-300), budget=budget)

    def _breaks(self, k: int) -> Floats:
        """Where x ↦ s(g_k(x)) may jump: ends of pieces, and the other points that pay what those points pay."""
        ends = np.unique(np.concatenate([p.breaks() for p in self.pieces]))
        if len(ends) > MAX_BREAKS:
            return ends
        rewards = np.unique(self.pieces[k].function(ends))
        _, a, b = self.pieces[k].preimage(rewards, self.band(k, rewards))
        every = np.unique(np.concatenate([ends, a, b]))
        return every if len(every) <= MAX_BREAKS else ends

    def invertible(self) -> list[bool]:
        return [p.invertible for p in self.pieces]
