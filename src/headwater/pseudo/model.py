r"""What every kind of X must answer about a problem, so that nothing below asks which kind it is.

The mathematics, once:

.. math::
    s_{\ell,k}(r) = \max\{g_\ell(x) : g_k(x) = r\}, \qquad
    \phi_{\ell,k} = \mathbb{E}[s_{\ell,k}(g_k(X))] \ge \mu_\ell = \mathbb{E}[g_\ell(X)].

A random arm's :math:`g_\ell(x)` is its mean reward at x, and :math:`s_{\ell,k}(r)` is the maximum over the x at which arm k can
pay r. :math:`\phi` is then at most the expectation of s: the most :math:`\mathbb{E}[g_\ell(X')]` can be over all X' that give
arm k the same law of rewards (``explained``). For rewards that are not random the two are one.

The target :math:`\ell` always comes first, the observed arm k second. An underestimated :math:`s` can exclude the best arm
forever; an overestimated one only costs some regret. So every approximation errs upward.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from headwater.arrays import Floats, union
from headwater.distributions import Distribution, Named
from headwater.errors import RewardError
from headwater.problem import FAR, Problem
from headwater.pseudo.box import Bound
from headwater.quadrature import Estimate

PAD = 2.5e-13
"""Half the width, as a part of arm k's reward range, of the band of rewards taken as equal to r on a continuous support.

Inverting g_k near a peak is ill-conditioned: the band keeps the answer from falling below the truth, and keeps it below
the maximum over |g_k(x) - r| <= 1e-12 of the range."""


class Model(ABC):
    """A compiled problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.count = len(problem.arms)

    @property
    @abstractmethod
    def ranges(self) -> Floats:
        """The least and the largest reward of each arm, shape (K, 2)."""

    @property
    def reward_range(self) -> float:
        """B: the problem's own, or the largest width of any one arm's reward range."""
        if self.problem.reward_range is not None:
            return self.problem.reward_range
        return float(np.max(self.ranges[:, 1] - self.ranges[:, 0]))

    @abstractmethod
    def payable(self, k: int) -> Floats:
        """The rewards arm k can pay, as disjoint ascending intervals (points have equal ends), shape (P, 2)."""

    def width(self, k: int) -> float:
        """How far from a payable reward an observed one may be and still count as it: half a bin, for noise in bins."""
        return 0.0

    @abstractmethod
    def pseudo(self, k: int, rewards: Floats) -> Floats:
        """``s[ell, i]`` for observed arm k and payable ``rewards`` (R,): shape (K, R). Never below the truth."""

    def upward(self, k: int, rewards: Floats) -> Floats:
        """As ``pseudo``, for many rewards at once: may err upward where exactness would cost too much."""
        return self.pseudo(k, rewards)

    def bounds(self, k: int, rewards: Floats) -> Bound:
        """As ``pseudo``, with what is attained beside it: the same, unless a search stopped early. Both (K, R)."""
        s = self.pseudo(k, rewards)
        return Bound(s, s)

    @abstractmethod
    def means(self, distribution: Distribution) -> Estimate:
        """``mu`` (K,)."""

    @abstractmethod
    def phi(self, k: int, distribution: Distribution) -> Estimate:
        """``phi[ell]`` for observed arm k, shape (K,)."""

    @abstractmethod
    def invertible(self) -> list[bool]:
        """For each arm, whether its reward always reveals X."""

    def snap(self, k: int, rewards: Floats, tolerance: float) -> Floats:
        """Each reward, moved to the nearest one that arm k can pay if that is at most ``tolerance`` × its range away.

        Half a bin is added to that where the arm's noise is kept in bins. A reward farther off is refused with a list of what
        the arm can pay.
        """
        lo, hi = self.payable(k).T
        at = np.clip(np.searchsorted(lo, rewards, side="right") - 1, 0, len(lo) - 1)
        near = np.clip(rewards, lo[at], hi[at])
        after = np.minimum(at + 1, len(lo) - 1)
        near = np.where(abs(lo[after] - rewards) < abs(near - rewards), lo[after], near)
        scale = max(float(hi[-1] - lo[0]), 1e-3 * float(np.max(abs(hi))), 1e-300)
        half = self.width(k)
        bad = ~(abs(near - rewards) <= tolerance * scale + half)
        if bad.any():
            lo, hi = union(lo - half, hi + half * (1 + 1e-9)).T if half else (lo, hi)  # bins that touch are one interval
            raise RewardError(
                f"reward: got {rewards[np.argmax(bad)]:.12g}; arm {self.problem.names[k]} can pay {listing(lo, hi)}"
            )
        return np.asarray(near)


def draw(law: Named, u: Floats) -> Floats:
    """``law.quantile``, kept within ``FAR``: beyond it functions are only bounded, and at infinity many are NaN."""
    return np.clip(law.quantile(u), -FAR, FAR)


def listing(lo: Floats, hi: Floats, most: int = 12) -> str:
    """Intervals and points in words.

    >>> listing(np.array([0.0, 1.0]), np.array([0.5, 1.0]))
    '0 to 0.5, or 1'
    """
    words = [f"{a:.6g}" if a == b else f"{a:.6g} to {b:.6g}" for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]
    if len(words) > most:
        words = [*words[: most - 1], f"… ({len(words)} in all, the last is {words[-1]})"]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + ", or " + words[-1]
