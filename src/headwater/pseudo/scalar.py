"""Pseudo-rewards for a continuous scalar X: exact preimages through monotone pieces, expectations by quadrature."""

from __future__ import annotations

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
        which, a, b = self.pieces[k].preimage(unique, self.band(k, unique))
        s = np.full((self.count, len(unique)), -np.inf)
        for ell, target in enumerate(self.pieces):
            if ell == k:
                s[ell] = unique
            else:
                np.maximum.at(s[ell], which, target.largest(a, b))
        return s[:, back]

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

        return self._integrate(integrand, distribution.position(self._breaks(k)))

    def _integrate(self, f: object, breaks: Floats) -> Estimate:
        assert callable(f)
        return integrate(f, breaks, tolerance=PRECISION * max(self.reward_range, 1e-300))

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
