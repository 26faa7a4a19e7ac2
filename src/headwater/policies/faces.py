"""Where an arm draws level with the best: laws that the best arms cannot tell from p, and an interior one among them, compiled.

The geometry under ``programme``: which equations are independent, and whether a face has an inside.
"""

from __future__ import annotations

import math

import numpy as np

from headwater.arrays import Floats
from headwater.policies.compile import allocating
from headwater.policies.vectors import backsolve, put

__all__ = ["LEAD", "factor", "independent", "reach", "scaled"]

LEAD = 1e-7
"""An arm that can lead by no more than this part of the largest difference asks for nothing."""
DEPENDENT = 1e-13
"""A row whose remainder is a smaller part of it than this depends on the others."""
_RIDGE = 1e-13
STEPS = 200


@allocating
def factor(a: Floats, n: int) -> None:
    """Cholesky in place, lower; a pivot lost to rounding is raised: the step is then shorter, still downhill."""
    for i in range(n):
        floor = _RIDGE * a[i, i] + 1e-300
        for j in range(i + 1):
            total = a[i, j]
            for m in range(j):
                total -= a[i, m] * a[j, m]
            if i == j:
                a[i, i] = math.sqrt(max(total, floor))
            else:
                a[i, j] = total / a[j, j]


@allocating
def _excess(a: Floats, p: Floats, x: int) -> float:
    """``a[x] - a·p`` without cancellation: where a[x] is the value of nearly all of p, what is left is exact."""
    total = 0.0
    for y in range(p.size):
        total += (a[x] - a[y]) * p[y]
    return total


@allocating
def independent(full: Floats, best: Floats, owner: Floats, inner: Floats, rows: Floats, spare: Floats, size: Floats) -> int:
    """Fill ``rows`` with independent ones among the best arms' A_i - (A p)_i 1 and say how many: at most J - 1.

    Chosen by the largest remainder (Gram-Schmidt with pivoting) relative to p, as steps are, and kept as they are: of rows that
    depend on each other, those of tiny probability must stay, clean of the others.
    """
    n, j = full.shape
    count = 0
    for i in range(n):
        size[i] = 0.0
        if best[int(owner[i])] > 0:
            for x in range(j):
                spare[i, x] = _excess(full[i], inner, x) * inner[x]
            size[i] = math.sqrt(np.dot(spare[i], spare[i]))
            if size[i] > 0:
                spare[i] /= size[i]
                size[i] = 1.0
    while count < j - 1:
        at = int(np.argmax(size))
        if size[at] < DEPENDENT:
            break
        for x in range(j):
            rows[count, x] = _excess(full[at], inner, x)
        count += 1
        spare[at] /= size[at]
        size[at] = 0.0
        for i in range(n):
            if size[i] >= DEPENDENT:
                along = np.dot(spare[i], spare[at])
                for x in range(j):
                    spare[i, x] -= along * spare[at, x]
                size[i] = math.sqrt(np.dot(spare[i], spare[i]))
    return count


@allocating
def scaled(rows: Floats, count: int, q: Floats, out: Floats, size: Floats) -> None:
    """The first ``count`` rows times q, each of length 1; ``size`` keeps the lengths."""
    for i in range(count):
        total = 0.0
        for x in range(q.size):
            out[i, x] = rows[i, x] * q[x]
            total += out[i, x] * out[i, x]
        size[i] = max(math.sqrt(total), 1e-300)
        for x in range(q.size):
            out[i, x] /= size[i]


@allocating
def _gain(h: Floats, q: Floats, d: Floats, t: float, step: float) -> float:
    """What t h·q + sum log q gains with q (1 + step d)."""
    gain = 0.0
    for x in range(q.size):
        gain += t * h[x] * q[x] * step * d[x] + math.log1p(step * d[x])
    return gain


@allocating
def reach(rows: Floats, count: int, h: Floats, p: Floats, q: Floats, unit: Floats, gram: Floats, more: Floats) -> bool:
    """Find an interior law q with ``rows @ q = 0`` and ``h @ q = 0``, from p, where h is below; False if there is none.

    Follows the central path of max h·q until h·q is positive or its upper bound max_j (h - rows' lam)_j shows that it stays
    at ``LEAD`` or below.
    """
    n = q.size
    lam, size, d, last = more[0], more[1], more[2], more[3]
    rows[count, :] = 1.0  # the mass
    put(p, q)
    t = n / max(-np.dot(h, p), 1e-3)
    for turn in range(STEPS):
        scaled(rows, count + 1, q, unit, size)
        for i in range(count + 1):
            lam[i] = 0.0
            for x in range(n):
                lam[i] += unit[i, x] * (t * h[x] * q[x] + 1)
            if i < count:  # d also removes what rounding has left of rows @ q
                for x in range(n):
                    lam[i] += unit[i, x]
            for m in range(i + 1):
                gram[i, m] = np.dot(unit[i], unit[m])
        factor(gram, count + 1)
        backsolve(gram, count + 1, lam)
        bound, down, shrink = -math.inf, 0.0, 0.0
        for x in range(n):
            d[x] = t * h[x] * q[x] + 1
            above = h[x]
            for i in range(count + 1):
                d[x] -= unit[i, x] * lam[i]
                if i < count:
                    above -= rows[i, x] * lam[i] / (size[i] * t)
            bound = max(bound, above)
            down += d[x] * (t * h[x] * q[x] + 1)
            shrink = max(shrink, -d[x])
        if bound <= LEAD:
            return False
        most = 0.95 / max(shrink, 1e-300)
        step = min(1.0, most)
        gain = _gain(h, q, d, t, step)
        while gain < 0.1 * step * down and step > 1e-12:
            step *= 0.5
            gain = _gain(h, q, d, t, step)
        while 1 <= 4 * step < most and _gain(h, q, d, t, 4 * step) > gain + 0.1:
            step *= 4
            gain = _gain(h, q, d, t, step)
        put(q, last)
        before, after = np.dot(h, q), 0.0
        for x in range(n):
            q[x] *= 1 + step * d[x]
            after += h[x] * q[x]
        if after > LEAD:
            part = -before / (after - before)
            for x in range(n):
                q[x] = last[x] + part * (q[x] - last[x])
            return True
        if down < 0.3 or turn % 12 == 11:
            if n / t < 0.01 * LEAD:
                return False
            t *= 8
    return False
