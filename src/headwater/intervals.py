r"""Intervals for the mean of bounded rewards that hold: at a click rate of one in a thousand, and where nobody clicked at all.

The upper end at confidence 1 - a, one-sided, is Gaffke's (2005; Learned-Miller and Thomas, 2019): the (1 - a) quantile of the
mean of the observations *and one more that pays the most there is*, weighted at random,

.. math::
    \frac{\sum_i G_i x_i + G_0\, b}{\sum_i G_i + G_0}, \qquad G_i \sim \text{Exponential}(1) \text{ independently};

the lower end likewise, with one more observation that pays the least there is. Of rewards of 0 and 1 it is exactly Clopper and
Pearson's interval. In general no law is known that it does not hold for, and no proof that there is none; to the second order
of a large sample there is one: the added observation is worth at least what skewness costs.
``benchmarks/interval_coverage.py`` counts.

Where observations come in clusters (the rewards of one person; events with weights) they are pairs of a ``total`` and a
``size``, the mean is the ratio of the sums, and what is weighted at random are clusters. The one more is as large as the
largest of them.

Nothing is drawn. An end is the root in m of :math:`P(\sum_i G_i\,(t_i - m s_i) > 0) = a`, a sum of independent gamma variables,
of which Lugannani and Rice's saddlepoint formula gives all but a few parts in a thousand and an inversion of the characteristic
function along a line through the saddlepoint the rest. It takes O(N) for N different observations, a few hundred passes;
2,000 cells of 12 levels take about half a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from headwater.arrays import Bools, Floats, Ints
from headwater.errors import ProblemError

__all__ = ["binomial_intervals", "mean_intervals", "ratio_interval", "ratio_intervals"]

_ROOT = 1e-9
"""An end is found to this fraction of the distance between the least and the greatest observation."""
_STEP, _NODES = 0.125, 72
"""The trapezoidal rule for the inversion: ends agree with the closed forms to one in a million."""
_DEAD = 40.0
"""The integrand is left off once it is below e^-40 of what it is at the saddlepoint."""
_MOST = 200_000
"""So many different observations are corrected by inversion; the saddlepoint formula alone is right to 1e-4 for more."""


class _Sums(NamedTuple):
    """Weighted sums of gamma variables, one after the other: ``total``, ``size``, ``times`` (N,), cell c from ``start[c]``."""

    total: Floats
    size: Floats
    times: Floats
    start: Ints

    def of(self, cells: Bools) -> _Sums:
        """Some of the cells."""
        length = np.diff(np.append(self.start, len(self.total)))
        rows = np.repeat(cells, length)
        start = np.concatenate([[0], np.cumsum(length[cells])[:-1]]).astype(np.int64)
        return _Sums(self.total[rows], self.size[rows], self.times[rows], start)

    def spread(self, per_cell: Any) -> Any:
        """Numbers for each cell, (..., cells), as numbers for each of its observations, (..., N)."""
        return np.repeat(per_cell, np.diff(np.append(self.start, len(self.total))), axis=-1)


def binomial_intervals(hits: Any, trials: Any, *, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Clopper and Pearson's interval for a probability, for arrays of hits and trials.

    >>> low, high = binomial_intervals([0, 3], [302, 302])
    >>> low.round(4), high.round(4)
    (array([0.    , 0.0021]), array([0.0121, 0.0288]))
    """
    tail = _tail(confidence)
    k, n = np.broadcast_arrays(np.asarray(hits, dtype=float), np.asarray(trials, dtype=float))
    if np.any((k < 0) | (k > n)):
        raise ProblemError("hits: expected from 0 to as many as trials")
    low = np.where(k > 0, special.betaincinv(np.maximum(k, 1e-300), n - k + 1, tail), 0.0)
    high = np.where(k < n, special.betaincinv(k + 1, np.maximum(n - k, 1e-300), 1 - tail), 1.0)
    return low, high


def mean_intervals(values: Any, counts: Any, *, low: Any, high: Any, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Intervals for the means of independent rewards that are counted by value.

    ``counts[..., l]`` rewards paid ``values[..., l]``; counts may be worth less than whole numbers. ``low`` and ``high``, one
    for all or one for each cell, are the least and the most that can be paid. A cell without rewards may be anywhere between.

    >>> lower, upper = mean_intervals([0, 1, 5], [[302, 0, 0], [280, 20, 2]], low=0, high=5)
    >>> lower.round(3), upper.round(3)
    (array([0.   , 0.057]), array([0.061, 0.188]))
    """
    counts = np.asarray(counts, dtype=float)
    values = np.broadcast_to(np.asarray(values, dtype=float), counts.shape)
    shape = counts.shape[:-1]
    ends = [np.broadcast_to(np.asarray(end, dtype=float), shape).ravel() for end in (low, high)]
    cell = np.repeat(np.arange(max(int(np.prod(shape)), 0)), counts.shape[-1])
    found = ratio_intervals(
        cell, values.ravel(), np.ones(counts.size), counts.ravel(), cells=len(ends[0]), low=ends[0], high=ends[1],
        confidence=confidence,
    )  # fmt: skip
    return found[0].reshape(shape), found[1].reshape(shape)


def ratio_interval(
    total: Any, size: Any, *, low: float, high: float, count: Any = None, worst: Any = None, confidence: float = 0.95
) -> tuple[float, float]:
    """The interval of one ratio of sums; see :func:`ratio_intervals`.

    People who gave 1, 2 and 5 rewards of 0 or 1:

    >>> lower, upper = ratio_interval([1, 0, 2, 1] * 10, [1, 2, 5, 2] * 10, low=0, high=1)
    >>> round(lower, 3), round(upper, 3)
    (0.309, 0.518)
    """
    total = np.asarray(total, dtype=float)
    n = np.ones(total.shape) if count is None else count
    found = ratio_intervals(
        np.zeros(total.shape, dtype=np.int64), total, size, n, cells=1, low=low, high=high,
        worst=None if worst is None else tuple((np.array([a]), np.array([b])) for a, b in worst), confidence=confidence,
    )  # fmt: skip
    return float(found[0][0]), float(found[1][0])


def ratio_intervals(
    cell: Any,
    total: Any,
    size: Any,
    count: Any,
    *,
    cells: int,
    low: Any,
    high: Any,
    worst: Any = None,
    confidence: float = 0.95,
) -> tuple[Floats, Floats]:
    """Intervals for E[total] / E[size] in each of ``cells`` cells.

    ``count[i]`` independent clusters of cell ``cell[i]`` had rewards that sum to ``total[i]`` and were ``size[i]`` many (or had
    weights that sum to it). A reward is worth between ``low`` and ``high``. ``worst``: the ``(total, size)`` of the cluster
    that is added for the lower end and for the upper end, each of shape (cells,); by default one as large as the largest, all
    of whose rewards are the least or the greatest.
    """
    tail = _tail(confidence)
    cell = np.asarray(cell, dtype=np.int64)
    arrays = [np.asarray(a, dtype=float) for a in (total, size, count)]
    if any(a.shape != cell.shape or not np.isfinite(a).all() for a in arrays):
        raise ProblemError(f"total, size and count: expected {len(cell)} finite numbers each")
    if min((float(a.min(initial=0)) for a in arrays[1:]), default=0.0) < 0:
        raise ProblemError("size and count: expected none below 0")
    least, most = (np.broadcast_to(np.asarray(end, dtype=float), (cells,)) for end in (low, high))
    if np.any(least > most):
        raise ProblemError("low: got more than high; expected the least reward there is")
    keep = (arrays[1] > 0) & (arrays[2] > 0)
    cell, (t, s, n) = cell[keep], (a[keep] for a in arrays)
    largest = np.zeros(cells)
    np.maximum.at(largest, cell, s)
    largest = np.where(largest > 0, largest, 1.0)
    added = ((least * largest, largest), (most * largest, largest)) if worst is None else worst
    lower = -_upper_ends(cell, -t, s, n, cells, (-added[0][0], added[0][1]), tail)
    upper = _upper_ends(cell, t, s, n, cells, added[1], tail)
    sums, sizes = np.bincount(cell, n * t, cells), np.bincount(cell, n * s, cells)
    mean = np.divide(sums, sizes, out=np.full(cells, np.nan), where=sizes > 0)
    lower, upper = np.fmin(lower, mean), np.fmax(upper, mean)
    seen = sizes > 0
    return np.where(seen, np.clip(lower, least, most), least), np.where(seen, np.clip(upper, least, most), most)


def _tail(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ProblemError(f"confidence: got {confidence}; expected a number between 0 and 1")
    return (1 - confidence) / 2


def _upper_ends(
    cell: Ints, total: Floats, size: Floats, count: Floats, cells: int, added: tuple[Floats, Floats], tail: float
) -> Floats:
    """The quantile at 1 - ``tail`` of each cell's randomly weighted ratio with the added cluster in it."""
    place = np.concatenate([cell, np.arange(cells)])
    t, s = np.concatenate([total, added[0]]), np.concatenate([size, added[1]])
    n = np.concatenate([count, np.ones(cells)])
    order = np.argsort(place, kind="stable")
    sums = _Sums(t[order], s[order], n[order], np.searchsorted(place[order], np.arange(cells)))
    ratio = sums.total / sums.size
    low, high = np.minimum.reduceat(ratio, sums.start), np.maximum.reduceat(ratio, sums.start)
    out, near = high.copy(), abs(np.stack([low, high])).max(axis=0) * 1e-14
    todo = high - low > near
    two = todo & _two_valued(sums, ratio, low, high)
    out[two] = _beta_ends(sums, ratio, low, high, tail)[two]
    todo &= ~two
    if todo.any():
        out[todo] = _roots(sums.of(todo), low[todo], high[todo], tail)
    return out


def _two_valued(sums: _Sums, ratio: Floats, low: Floats, high: Floats) -> Bools:
    """The cells where clusters are of one size and pay one of two ratios."""
    end = (ratio == sums.spread(low)) | (ratio == sums.spread(high))
    smallest, largest = np.minimum.reduceat(sums.size, sums.start), np.maximum.reduceat(sums.size, sums.start)
    return np.asarray(np.logical_and.reduceat(end, sums.start) & (smallest == largest))


def _beta_ends(sums: _Sums, ratio: Floats, low: Floats, high: Floats, tail: float) -> Floats:
    top = np.add.reduceat(np.where(ratio == sums.spread(high), sums.times, 0.0), sums.start)
    rest = np.add.reduceat(sums.times, sums.start) - top
    share = special.betaincinv(np.maximum(top, 1e-300), np.maximum(rest, 1e-300), 1 - tail)
    return np.asarray(low + (high - low) * share)


def _roots(sums: _Sums, low: Floats, high: Floats, tail: float) -> Floats:
    """Where the probability is ``tail``: first by the saddlepoint formula, then corrected by inversion.

    Both steps run in z, the normal deviate of the probability, in which it is nearly a line in m.
    """
    z = -float(special.ndtri(tail))
    size = np.add.reduceat(sums.times * sums.size, sums.start)
    centre = np.add.reduceat(sums.times * sums.total, sums.start) / size
    square = np.add.reduceat(sums.times * (sums.total - sums.spread(centre) * sums.size) ** 2, sums.start)
    slope = size / np.sqrt(square)
    m, off = centre, np.zeros(len(centre))
    for _ in range(4):

        def deviate(part: _Sums, m: Floats, which: Ints, off: Floats = off) -> Floats:
            return _saddle_deviate(part, m) - off[which]

        m = _secant(deviate, sums, m, slope, low, high, z)
        if len(sums.total) > _MOST:
            break
        before, off = off, _saddle_deviate(sums, m) - _inverted_deviate(sums, m)  # this hardly changes with m
        off = np.where(abs(off) < 0.5, off, 0.0)  # the formula is never so wrong: what rounding has spoilt is not used
        if np.all(abs(off - before) < 1e-6):
            break
    return m


def _secant(
    deviate: Callable[[_Sums, Floats, Any], Floats], sums: _Sums, m: Floats, slope: Floats, low: Floats, high: Floats, z: float
) -> Floats:
    """The root of ``deviate(m) = z``, which increases from ``low`` to ``high``: secants within a bracket that shrinks.

    ``deviate(part, m, which)`` is for the cells ``which`` that are still open, whose sums ``part`` has.
    """
    left, right, close = low.copy(), high.copy(), _ROOT * (high - low)
    m = _inside(m, left + 1e-3 * (right - left), right - 1e-3 * (right - left))
    last, seen, which, part = m.copy(), np.full(len(m), np.nan), np.arange(len(m)), sums
    for _ in range(100):
        at = m[which]
        found = deviate(part, at, which) - z
        left[which], right[which] = np.where(found < 0, at, left[which]), np.where(found < 0, right[which], at)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = found * np.where(at == last[which], 1 / slope[which], (at - last[which]) / (found - seen[which]))
        last[which], seen[which] = at, found
        still = ~((abs(step) < close[which]) | (right[which] - left[which] < close[which]))
        m[which] = np.where(still, _inside(at - step, left[which], right[which]), at)
        if not still.any():
            break
        if not still.all():
            which, part = which[still], part.of(still)
    return m


def _inside(m: Floats, left: Floats, right: Floats) -> Floats:
    """m, or the middle where it has left the bracket (or is no number)."""
    return np.where((m > left) & (m < right), m, (left + right) / 2)


def _saddle(sums: _Sums, d: Floats) -> tuple[Floats, Floats]:
    """The saddlepoint s of each sum's cumulant function, and the end on the right of the interval that it lies in.

    The root of K'(s) = sum of n d / (1 - s d), an increasing function with a pole at both ends; Newton's steps run on its
    product with (1 - s d_max)(1 - s d_min), which has none.
    """
    top, bottom = np.maximum.reduceat(d, sums.start), np.minimum.reduceat(d, sums.start)
    left, right, s = 1 / bottom, 1 / top, np.zeros(len(top))
    which, part = np.arange(len(top)), _Sums(d, d, sums.times, sums.start)
    for _ in range(100):
        at, up, down = s[which], top[which], bottom[which]
        ratio = part.total / (1 - part.spread(at) * part.total)
        first = np.add.reduceat(part.times * ratio, part.start)
        second = np.add.reduceat(part.times * ratio**2, part.start)
        left[which], right[which] = np.where(first < 0, at, left[which]), np.where(first < 0, right[which], at)
        p, dp = (1 - at * up) * (1 - at * down), 2 * at * up * down - up - down
        with np.errstate(divide="ignore", invalid="ignore"):
            s[which] = _inside(at - p * first / (dp * first + p * second), left[which], right[which])
        still = abs(s[which] - at) > 1e-8 * (right[which] - left[which] + abs(at))
        if not still.any():
            break
        if not still.all():
            which, part = which[still], part.of(still)
    return s, 1 / top


def _saddle_deviate(sums: _Sums, m: Floats) -> Floats:
    """The normal deviate of P(sum <= 0) by Lugannani and Rice's formula, r* in Barndorff-Nielsen's form."""
    d = sums.total - sums.spread(m) * sums.size
    s, _ = _saddle(sums, d)
    rest = 1 - sums.spread(s) * d
    k = -np.add.reduceat(sums.times * np.log(rest), sums.start)
    second = np.add.reduceat(sums.times * (d / rest) ** 2, sums.start)
    third = 2 * np.add.reduceat(sums.times * (d / rest) ** 3, sums.start)
    w, u = np.sign(s) * np.sqrt(np.maximum(-2 * k, 0.0)), s * np.sqrt(second)
    near = abs(u) < 1e-4  # there u / w is 1 and both are 0: the limit
    with np.errstate(divide="ignore", invalid="ignore"):
        r = w + np.log(u / w) / w
    return np.where(near, u + third / (6 * second**1.5), r)


def _inverted_deviate(sums: _Sums, m: Floats) -> Floats:
    """The normal deviate of P(sum <= 0) by inversion: P(sum > 0) is the integral of M(s) / (2 pi i s) up a line right of 0.

    The path is the hyperbola s = c + w (i sinh(x) + bend (cosh(x) - 1)) through the saddlepoint that has the curvature of
    steepest descent there; poles lie on the real line, which it crosses once. Along it the integrand hardly oscillates, decays
    exponentially in x and is analytic in a strip, so that the trapezoidal rule converges geometrically. Where it has died away
    the path turns upwards, along which it only decreases: far out on the hyperbola it could rise again.
    """
    d = sums.total - sums.spread(m) * sums.size
    s, right = _saddle(sums, d)
    deviation = 1 / np.sqrt(np.add.reduceat(sums.times * d**2, sums.start))
    c = np.clip(np.maximum(s, 0.3 * deviation), None, 0.98 * right)
    w = np.minimum(c, right - c)
    near = d / (1 - sums.spread(c) * d)
    second, third = (np.add.reduceat(sums.times * near**r, sums.start) for r in (2, 3))
    bend = np.clip(2 * third / (3 * second) * w, -1, 1)
    at_c = -np.add.reduceat(sums.times * np.log1p(-sums.spread(c) * d), sums.start)
    out, alive, block = np.zeros(len(m)), np.ones(len(m), dtype=bool), max(1, 500_000 // len(d))
    for first in range(0, _NODES, block):
        x = (np.arange(first, min(first + block, _NODES))[:, None] + 0.5) * _STEP
        there = c + w * (1j * np.sinh(x) + bend * (np.cosh(x) - 1))
        speed = w * (1j * np.cosh(x) + bend * np.sinh(x))
        every = (np.arange(len(x))[:, None] * len(d) + sums.start).ravel()  # reduceat over rows of a table would be slow
        log_m = -np.add.reduceat((sums.times * np.log(1 - sums.spread(there) * d)).ravel(), every).reshape(there.shape) - at_c
        still = np.logical_and.accumulate(alive & (log_m.real > -_DEAD), axis=0)
        out += np.imag(np.exp(np.where(still, log_m, -_DEAD)) / there * speed).sum(axis=0, where=still)
        alive = still[-1]
        if not alive.any():
            break
    tail = out * _STEP / np.pi * np.exp(at_c)
    return np.asarray(-special.ndtri(np.clip(tail, 1e-300, 1 - 1e-16)))
