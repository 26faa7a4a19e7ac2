"""What each arm pays to each segment: a law per cell, shrunk towards what arm and segment let expect, with intervals.

Cell (k, j) has counts c (M,). Its law is the mean of a Dirichlet posterior, (c + s q) / (n + s), where q is what the effect of
the arm and that of the segment let expect (:mod:`headwater.fitting.effects`) and s, in rewards' worth, is how well the arm's
cells follow it: the value under which all its counts are likeliest (empirical Bayes), held near the one that all arms share. A
cell with too few rewards is not estimated: it gets q, and a flag.

Intervals are exact and rest on the cell's own rewards (:mod:`headwater.fitting.cells`). A law is shrunk only as far as they
allow: a segment that is unlike anything expected stays so (Efron and Morris, 1971).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from headwater.arrays import Bools, Floats, Ints
from headwater.fitting.cells import Ends
from headwater.fitting.effects import log_likelihood

STRONGEST = 1000.0
_MISSED = 10.0
"""A level that an arm never paid stays possible unless so many rewards of it were to be expected from the other arms' law."""


class Channel(NamedTuple):
    """One arm: ``outcomes`` (M,) ascending, ``level`` (M,) which of the common levels each is, and per segment and outcome
    (J, M) ``counts``, ``probabilities`` and the ends ``low`` and ``high`` of their intervals; per segment (J,) its mean
    reward with ``mean_low`` and ``mean_high``, how many independent rewards its own are worth (``effective``), and whether the
    cell was ``pooled`` for want of data. ``law`` (M,) is the arm's law apart from segments, ``expected`` (J, M) what arm and
    segment together let expect, and ``strength`` is s.
    """

    outcomes: Floats
    level: Ints
    counts: Floats
    law: Floats
    expected: Floats
    strength: float
    probabilities: Floats
    low: Floats
    high: Floats
    effective: Floats
    mean: Floats
    mean_low: Floats
    mean_high: Floats
    pooled: Bools


def possible_levels(n: Floats, *, exact: bool = True) -> tuple[Bools, Floats]:
    """Which levels each arm can pay, (K, M), and all arms' law, (M,), from counts ``n`` (K, M).

    Where levels are values (``exact``) and all arms' law says that ten or more rewards of one should have been seen of an arm
    that never paid it, the arm does not pay it; but an arm that always paid the same may pay anything.

    >>> possible_levels(np.array([[90.0, 10.0, 0.0], [0.0, 3.0, 20.0], [50.0, 0.0, 0.0]]))[0]
    array([[ True,  True, False],
           [False,  True,  True],
           [ True,  True,  True]])
    """
    seen = n.sum(axis=0) + (0.0 if exact else 0.5)  # a range that nothing fell into may still be hit
    common = seen / seen.sum()
    possible = (n > 0) | (n.sum(axis=1, keepdims=True) * common < _MISSED) | (not exact)
    return possible | (possible.sum(axis=1, keepdims=True) < 2), common


def arm_laws(n: Floats, *, exact: bool = True) -> Floats:
    """Each arm's law over the common levels, (K, M), from counts ``n`` (K, M).

    A level that the arm never paid is possible, with the weight that one reward split by all arms' law gives it.

    >>> arm_laws(np.array([[90.0, 10.0, 0.0], [0.0, 3.0, 1.0]])).round(3)
    array([[0.9  , 0.1  , 0.   ],
           [0.173, 0.625, 0.202]])
    """
    possible, common = possible_levels(n, exact=exact)
    prior = np.where(possible, common, 0.0)
    prior /= prior.sum(axis=1, keepdims=True)
    return np.asarray((n + prior) / (n.sum(axis=1, keepdims=True) + 1))


def find_strengths(counts: Floats, laws: Floats) -> Floats:
    """s for each arm, (K,), from counts (K, J, M) and the laws of arms (K, M) or of cells (K, J, M) that they are pulled to."""
    laws = np.broadcast_to(laws if laws.ndim == 3 else laws[:, None], counts.shape)
    grid = np.linspace(0, np.log(STRONGEST), 24)
    table = np.array([[log_likelihood(c, law, s) for s in np.exp(grid)] for c, law in zip(counts, laws, strict=True)])
    centre = grid[int(np.argmax(table.sum(axis=0)))]
    out = np.empty(len(counts))
    for k, (c, law) in enumerate(zip(counts, laws, strict=True)):
        best = minimize_scalar(
            lambda log_s, c=c, law=law: (log_s - centre) ** 2 / 2 - log_likelihood(c, law, np.exp(log_s)),
            bounds=(0, np.log(STRONGEST)), method="bounded", options={"xatol": 1e-3},
        )  # fmt: skip
        out[k] = float(f"{np.exp(best.x):.3g}")
    return out


def make_channel(
    counts: Floats,
    law: Floats,
    expected: Floats,
    strength: float,
    outcomes: Floats,
    ends: Ends,
    *,
    effective: Floats,
    least: int,
) -> Channel:
    """The channel of one arm from counts (J, M) on the common levels.

    ``outcomes`` (M,) are the levels' rewards, ``ends`` this arm's intervals, ``effective`` (J,) how many rewards each cell's
    are worth (fewer than counted when they depend, or when it is uncertain who belongs to the segment).
    """
    kept = law > 0
    counts, law, expected, outcomes = counts[:, kept], law[kept], expected[:, kept], outcomes[kept]
    low, high = ends.low[:, kept], ends.high[:, kept]
    n = counts.sum(axis=1)
    pooled = n < least
    effective = np.minimum(effective, n)
    weight = np.where(pooled, 0.0, effective)[:, None]
    own = np.divide(counts, n[:, None], out=expected.copy(), where=n[:, None] > 0)
    p = (weight * own + strength * expected) / (weight + strength)
    p = _held(own, p, outcomes, low, high, ends.mean_low, ends.mean_high)
    mean = p @ outcomes
    # levels that stand for ranges can move a mean out of its interval, which is then made to hold it
    return Channel(
        outcomes, np.flatnonzero(kept), counts, law, expected, strength, p, np.minimum(low, p), np.maximum(high, p), effective,
        mean, np.minimum(ends.mean_low, mean), np.maximum(ends.mean_high, mean), pooled,
    )  # fmt: skip


def _held(
    own: Floats, shrunk: Floats, outcomes: Floats, low: Floats, high: Floats, mean_low: Floats, mean_high: Floats
) -> Floats:
    """The laws (J, M) on the way from the cells' own to the shrunk ones, as far as their own intervals go.

    >>> own, shrunk = np.array([[0.2, 0.8]]), np.array([[0.6, 0.4]])
    >>> _held(own, shrunk, np.array([0.0, 1.0]), own - 0.1, own + 0.1, np.array([0.7]), np.array([0.9])).round(3)
    array([[0.3, 0.7]])
    """
    mean = own @ outcomes
    at = np.concatenate([own, mean[:, None]], axis=1)
    way = np.concatenate([shrunk, (shrunk @ outcomes)[:, None]], axis=1) - at
    # where levels moved the cell's own mean out of its interval, that mean is no reason not to shrink
    bound = (
        np.concatenate([low, np.minimum(mean_low, mean)[:, None]], axis=1),
        np.concatenate([high, np.maximum(mean_high, mean)[:, None]], axis=1),
    )
    room = np.where(way > 0, bound[1] - at, at - bound[0])
    share = np.divide(np.maximum(room, 0), abs(way), out=np.ones_like(way), where=abs(way) > room)
    return np.asarray(own + share.min(axis=1, keepdims=True) * (shrunk - own))
