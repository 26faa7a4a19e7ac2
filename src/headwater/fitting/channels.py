"""What each arm pays to each segment, from counts: a law per cell, shrunk towards the arm's own law, with intervals.

Cell (k, j) has counts c (M,). Its law is the mean of a Dirichlet posterior, (c + s π) / (n + s), where π is the arm's law over
all segments and s, in rewards' worth, is how alike the arm's segments are: the value under which all its counts are likeliest
(empirical Bayes), held near the one that all arms share and at 100 at most. A cell with too few rewards is not estimated: it
gets π, and a flag; its interval is as wide as the arm's segments differ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betaincinv, gammaln, ndtri

from headwater.arrays import Bools, Floats, Ints

STRONGEST = 100.0
_MISSED = 10.0
"""A level that an arm never paid stays possible unless so many rewards of it were to be expected from the other arms' law."""


class Channel(NamedTuple):
    """One arm: ``outcomes`` (M,) ascending, ``level`` (M,) which of the common levels each is, and per segment and outcome
    (J, M) ``counts``, ``probabilities`` and the ends ``low`` and ``high`` of their intervals; per segment (J,) its mean
    reward with ``mean_low`` and ``mean_high``, how many rewards the interval is worth (``effective``), and whether the cell
    was ``pooled`` for want of data. ``law`` (M,) is the arm's law over all segments, ``strength`` is s.
    """

    outcomes: Floats
    level: Ints
    counts: Floats
    law: Floats
    strength: float
    probabilities: Floats
    low: Floats
    high: Floats
    effective: Floats
    mean: Floats
    mean_low: Floats
    mean_high: Floats
    pooled: Bools


def arm_laws(n: Floats, *, exact: bool = True) -> Floats:
    """Each arm's law over the common levels, (K, M), from counts ``n`` (K, M).

    A level that the arm never paid is possible, with the weight that one reward split by all arms' law gives it. Where levels
    are values (``exact``) and all arms' law says that ten or more rewards of it should have been seen, the arm does not pay it.

    >>> arm_laws(np.array([[90.0, 10.0, 0.0], [0.0, 3.0, 1.0]])).round(3)
    array([[0.9 , 0.1 , 0.  ],
           [0.173, 0.625, 0.202]])
    """
    seen = n.sum(axis=0) + (0.0 if exact else 0.5)  # a range that nothing fell into may still be hit
    common = seen / seen.sum()
    possible = (n > 0) | (n.sum(axis=1, keepdims=True) * common < _MISSED) | (not exact)
    prior = np.where(possible, common, 0.0)
    prior /= prior.sum(axis=1, keepdims=True)
    return np.asarray((n + prior) / (n.sum(axis=1, keepdims=True) + 1))


def find_strengths(counts: Floats, laws: Floats) -> Floats:
    """s for each arm, (K,): counts (K, J, M), laws (K, M)."""
    grid = np.linspace(0, np.log(STRONGEST), 24)
    table = np.array([[_likelihood(c, law, s) for s in np.exp(grid)] for c, law in zip(counts, laws, strict=True)])
    centre = grid[int(np.argmax(table.sum(axis=0)))]
    out = np.empty(len(counts))
    for k, (c, law) in enumerate(zip(counts, laws, strict=True)):
        best = minimize_scalar(
            lambda log_s, c=c, law=law: (log_s - centre) ** 2 / 2 - _likelihood(c, law, np.exp(log_s)),
            bounds=(0, np.log(STRONGEST)), method="bounded", options={"xatol": 1e-3},
        )  # fmt: skip
        out[k] = float(f"{np.exp(best.x):.3g}")
    return out


def _likelihood(counts: Floats, law: Floats, s: float) -> float:
    """log of the Dirichlet-multinomial probability of an arm's counts (J, M), up to what does not depend on s."""
    a = s * law[law > 0]
    c = counts[:, law > 0]
    whole = gammaln(s) - gammaln(s + c.sum(axis=1))
    return float(whole.sum() + (gammaln(a + c) - gammaln(a)).sum())


def make_channel(
    counts: Floats, law: Floats, strength: float, outcomes: Floats, *, effective: Floats, least: int, confidence: float
) -> Channel:
    """The channel of one arm from counts (J, M) on the common levels.

    ``outcomes`` (M,) are the levels' rewards, ``effective`` (J,) how many rewards each cell's are worth (fewer than counted
    when it is uncertain who belongs to the segment).
    """
    kept = law > 0
    counts, law, outcomes, level = counts[:, kept], law[kept], outcomes[kept], np.flatnonzero(kept)
    n = counts.sum(axis=1)
    pooled = n < least
    worth = np.where(pooled, 0.0, np.minimum(effective, n)) + strength
    weight = (worth - strength)[:, None]
    share = np.divide(counts, n[:, None], out=np.tile(law, (len(n), 1)), where=n[:, None] > 0)
    p = (weight * share + strength * law) / (weight + strength)
    tail = (1 - confidence) / 2
    a, b = worth[:, None] * p, worth[:, None] * (1 - p)
    low, high = (betaincinv(a, np.maximum(b, 1e-12), q) for q in (tail, 1 - tail))
    mean = p @ outcomes
    half = -ndtri(tail) * np.sqrt(np.maximum(p @ outcomes**2 - mean**2, 0) / (worth + 1))
    ends = outcomes[0], outcomes[-1]
    return Channel(
        outcomes, level, counts, law, strength, p, low, high, worth - strength, mean,
        np.clip(mean - half, *ends), np.clip(mean + half, *ends), pooled,
    )  # fmt: skip
