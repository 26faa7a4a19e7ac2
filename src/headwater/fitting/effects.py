r"""What an arm's effect and a segment's effect together let expect of each cell, and how large they are.

The law of cell (k, j) is expected to be that of arm k, tilted by segment j:

.. math:: q_{kj}(m) \propto \pi_k(m)\, \tau_j(m)

the multinomial logit of main effects. Arms are alike to a degree, and so are segments: :math:`\pi_k` is pulled towards what all
arms pay, as if that many more rewards of it had been seen (``arm_strength``), and :math:`\tau_j` towards no effect
(``segment_strength``); both degrees are those under which the counts are likeliest (empirical Bayes). The fit is iterative
proportional scaling: O(K J M) a sweep, and nothing becomes infinite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from headwater.arrays import Bools, Floats

MOST_ALIKE = 10_000.0
"""No effect is pulled harder than by so many rewards."""
_GRID = np.linspace(0.0, np.log(MOST_ALIKE), 47)
_DOUBT = 4.0
"""The spread of log strength before the data are looked at: two arms that came out alike by chance are not made one."""
_SWEEPS, _STILL = 200, 1e-7


class Effects(NamedTuple):
    """``base`` (K, M): the arms' laws at no tilt. ``expected`` (K, J, M): what arm and segment let expect of each cell."""

    base: Floats
    expected: Floats
    arm_strength: float
    segment_strength: float


class Sizes(NamedTuple):
    """How far mean rewards differ by arm, by segment, and by what is special to an arm and a segment together: standard
    deviations over arms and over the segments' shares.
    """

    arms: float
    segments: float
    together: float

    @property
    def parts(self) -> tuple[float, float, float]:
        """The shares of the variance."""
        squares = np.square(self)
        total = float(squares.sum())
        return (0.0, 0.0, 0.0) if total == 0 else tuple((squares / total).tolist())


def find_effects(counts: Floats, possible: Bools, common: Floats) -> Effects:
    """The effects behind counts (K, J, M). ``possible`` (K, M): the levels an arm can pay; ``common`` (M,): all arms' law.

    The old click more than the young on every banner, so they will on the one they were never shown:

    >>> counts = np.array([[[900.0, 100.0], [800.0, 200.0]], [[950.0, 50.0], [900.0, 100.0]], [[900.0, 100.0], [0.0, 0.0]]])
    >>> found = find_effects(counts, np.ones((3, 2), dtype=bool), np.array([0.88, 0.12]))
    >>> found.expected[2].round(2)
    array([[0.9 , 0.1 ],
           [0.81, 0.19]])
    """
    n = counts.sum(axis=2)
    prior = np.where(possible, common, 0.0)
    prior /= prior.sum(axis=1, keepdims=True)
    by_arm, by_segment = counts.sum(axis=1), counts.sum(axis=0)
    arm_strength = likeliest_strength(by_arm, prior)
    base = (by_arm + arm_strength * prior) / (n.sum(axis=1, keepdims=True) + arm_strength)
    shown = n + 1e-9  # a segment without rewards: as if it had seen every arm alike
    average = shown.T @ base / shown.sum(axis=0)[:, None]
    segment_strength = likeliest_strength(by_segment, average)
    tilt, told = np.ones_like(average), segment_strength * average
    for _ in range(_SWEEPS):
        before = tilt
        rate = (n / (base @ tilt.T)).T @ base
        rate += told / np.sum(average * tilt, axis=1, keepdims=True)
        tilt = np.divide(by_segment + told, rate, out=np.ones_like(rate), where=rate > 0)
        tilt /= np.sum(average * tilt, axis=1, keepdims=True)
        rate = n / (base @ tilt.T) @ tilt + arm_strength
        base = np.where(possible, (by_arm + arm_strength * prior) / rate, 0.0)
        base /= base.sum(axis=1, keepdims=True)
        if np.max(abs(np.log(tilt / before))) < _STILL:
            break
    expected = base[:, None] * tilt
    return Effects(base, expected / expected.sum(axis=2, keepdims=True), arm_strength, segment_strength)


def likeliest_strength(counts: Floats, laws: Floats) -> float:
    """How many rewards' worth rows of counts (R, M) are pulled towards their laws (R, M): the likeliest, roughly.

    >>> alike, apart = np.full((20, 2), 50.0), np.repeat([[90.0, 10.0], [10.0, 90.0]], 10, axis=0)
    >>> likeliest_strength(alike, np.full((20, 2), 0.5)) > 1000, likeliest_strength(apart, np.full((20, 2), 0.5)) < 3
    (True, True)
    """
    found = [log_likelihood(counts, laws, np.exp(x)) - (x / _DOUBT) ** 2 / 2 for x in _GRID]
    return float(f"{np.exp(_GRID[int(np.argmax(found))]):.3g}")


def log_likelihood(counts: Floats, laws: Floats, s: float) -> float:
    """log of the Dirichlet-multinomial probability of rows of counts (R, M) whose laws scatter around ``laws`` (R, M) with the
    strength s, up to what does not depend on s.
    """
    a = s * np.maximum(laws, 1e-300)
    whole = gammaln(s) - gammaln(s + counts.sum(axis=1))
    return float(whole.sum() + np.where(laws > 0, gammaln(a + counts) - gammaln(a), 0.0).sum())


def effect_sizes(means: Floats, shares: Floats) -> Sizes:
    """How large the effects are that means (K, J) show, segments weighted by their shares.

    >>> effect_sizes(np.array([[1.0, 3.0], [2.0, 4.0]]), np.array([0.5, 0.5]))
    Sizes(arms=0.5, segments=1.0, together=0.0)
    """
    centre = float(np.mean(means @ shares))
    arm, segment = means @ shares - centre, means.mean(axis=0) - centre
    rest = means - centre - arm[:, None] - segment
    spread = (np.mean(arm**2), segment**2 @ shares, np.mean(rest**2 @ shares))
    return Sizes(*(float(np.sqrt(part)) for part in spread))
