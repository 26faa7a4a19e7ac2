r"""Small dense linear programmes, compiled: maximise c·x subject to A x = b, x >= 0.

The revised simplex method with an explicit inverse. ``basis[i]`` is the column that is basic in place i, -1 where none is: the
artificial variable of row i stands there, which must be 0. So redundant rows are allowed, and all -1 is a cold start. A basis
that was optimal for another b is optimal again if it is still feasible; if not, dual pivots repair it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies.compile import compiled
from headwater.policies.vectors import size

__all__ = ["FEASIBLE", "INFEASIBLE", "OPTIMAL", "STALLED", "UNBOUNDED", "Solution", "maximise", "solve", "solve_size"]

OPTIMAL, INFEASIBLE, UNBOUNDED, STALLED = range(4)

FEASIBLE = 1e-10  # below 0 by less is 0, as a part of the largest |b|
REDUCED = 1e-10  # a reduced cost up to this part of the largest |c| is none
PIVOT = 1e-9  # as a part of the largest |A|
_ATTEMPTS = 8


class Solution(NamedTuple):
    """``status``; ``x`` (n,); ``dual`` (m,): at an optimum A'y >= c and b·y = c·x, where infeasible A'y >= 0 and b·y < 0."""

    status: int
    value: float
    x: Floats
    dual: Floats
    basis: Ints


def solve(a: Floats, b: Floats, c: Floats, basis: Ints | None = None) -> Solution:
    """Maximise c·x subject to a x = b, x >= 0, from a basis (m,) if there is one. O(m³ + m n) and O(m² + m n) a pivot.

    >>> solve(np.array([[1.0, 1.0, 1.0]]), np.array([2.0]), np.array([1.0, 3.0, 2.0])).x
    array([0., 2., 0.])
    """
    m, n = a.shape
    at = np.full(m, -1, dtype=np.int64) if basis is None else np.array(basis, dtype=np.int64)
    work, x = np.zeros(solve_size(m, n)), np.zeros(n)
    status = maximise(np.ascontiguousarray(a, dtype=float), b.astype(float), c.astype(float), at, work)
    x[at[at >= 0]] = work[:m][at >= 0]
    return Solution(status, float(c @ x), x, work[m : 2 * m].copy(), at)


def solve_size(m: int, n: int) -> int:
    """How many floats ``maximise`` works in; it leaves the basic variables in the first m, the dual in the next m."""
    return 3 * m + n + 2 * m * m


@compiled
def _invert(a: Floats, basis: Ints, square: Floats, inverse: Floats) -> bool:
    """The inverse of the basis by Gauss-Jordan elimination; False where it is singular. O(m³)."""
    m = basis.size
    for i in range(m):
        for p in range(m):
            inverse[i, p] = 1.0 if i == p else 0.0
            square[i, p] = a[i, basis[p]] if basis[p] >= 0 else inverse[i, p]
    for p in range(m):
        best = p
        for i in range(p + 1, m):
            if abs(square[i, p]) > abs(square[best, p]):
                best = i
        scale = square[best, p]
        if abs(scale) <= 1e-13:
            return False
        for q in range(m):
            square[p, q], square[best, q] = square[best, q], square[p, q]
            inverse[p, q], inverse[best, q] = inverse[best, q], inverse[p, q]
        for q in range(m):
            square[p, q] /= scale
            inverse[p, q] /= scale
        for i in range(m):
            factor = square[i, p]
            if i != p and factor != 0.0:
                for q in range(m):
                    square[i, q] -= factor * square[p, q]
                    inverse[i, q] -= factor * inverse[p, q]
    return True


@compiled
def _price(a: Floats, c: Floats, basis: Ints, inverse: Floats, phase: int, y: Floats, d: Floats) -> None:
    """The dual y of a basis and the reduced costs d. O(m² + m n).

    In phase 1 the objective is to hold little in artificial variables.
    """
    m, n = a.shape
    y[:] = 0.0
    for p in range(m):
        free = basis[p] < 0
        cost = c[basis[p]] if phase == 2 and not free else -1.0 if phase == 1 and free else 0.0
        if cost != 0.0:
            for i in range(m):
                y[i] += cost * inverse[p, i]
    for j in range(n):
        d[j] = c[j] if phase == 2 else 0.0
    for i in range(m):
        if y[i] != 0.0:
            for j in range(n):
                d[j] -= y[i] * a[i, j]


@compiled
def _pivot(r: int, j: int, basis: Ints, inverse: Floats, x: Floats, column: Floats) -> None:
    """Column j becomes basic in place r. ``column`` (m,) is inverse @ a[:, j]. O(m²)."""
    m = basis.size
    for i in range(m):
        inverse[r, i] /= column[r]
    x[r] /= column[r]
    for p in range(m):
        if p != r and column[p] != 0.0:
            for i in range(m):
                inverse[p, i] -= column[p] * inverse[r, i]
            x[p] -= column[p] * x[r]
    basis[r] = j


@compiled
def _across(a: Floats, j: int, inverse: Floats, column: Floats) -> None:
    """``column`` = inverse @ a[:, j]. O(m²)."""
    m = column.size
    for p in range(m):
        column[p] = 0.0
        for i in range(m):
            column[p] += inverse[p, i] * a[i, j]


@compiled
def _primal(
    a: Floats, c: Floats, basis: Ints, inverse: Floats, phase: int, size: float, x: Floats, y: Floats, d: Floats, column: Floats
) -> int:
    """Pivots from a feasible basis. The largest reduced cost enters; after many steps of length 0, Bland's rule: no cycles."""
    m, n = a.shape
    still = 0
    enough = REDUCED * (size if phase == 2 else 1.0)
    for _ in range(100 + 50 * (m + n)):
        _price(a, c, basis, inverse, phase, y, d)
        bland = still > m + n
        j, most = -1, enough
        for h in range(n):
            if d[h] > most and not (bland and j >= 0):
                j, most = h, d[h]
        if j < 0:
            return OPTIMAL
        _across(a, j, inverse, column)
        r, length = _leaving(basis, x, column, phase == 2, bland)
        if r < 0:
            return UNBOUNDED
        still = 0 if length > 1e-12 else still + 1
        _pivot(r, j, basis, inverse, x, column)
    return STALLED


@compiled
def _leaving(basis: Ints, x: Floats, column: Floats, settled: bool, bland: bool) -> tuple[int, float]:
    """Which place is the first to reach 0 as a column enters, and how far that is; -1 if none ever does. O(m)."""
    r, length = -1, np.inf
    for p in range(basis.size):
        # An artificial variable of a feasible basis is 0 and stays so: it leaves at once, whichever way it would move.
        fixed = settled and basis[p] < 0
        if column[p] > PIVOT or (fixed and column[p] < -PIVOT):
            ratio = 0.0 if fixed else max(x[p], 0.0) / column[p]
            better = basis[p] < basis[r] if bland else abs(column[p]) > abs(column[r])
            if r < 0 or ratio < length - 1e-13 or (ratio <= length + 1e-13 and better):
                r, length = p, min(ratio, length)
    return r, length


@compiled
def _worst(basis: Ints, x: Floats, near: float, bland: bool) -> int:
    """The place that is farthest from feasible, or the lowest-numbered variable of those that are not; -1 if all are. O(m)."""
    r, most = -1, near
    for p in range(basis.size):
        short = abs(x[p]) if basis[p] < 0 else -x[p]
        if short > near and (r < 0 or (basis[p] < basis[r] if bland else short > most)):
            r, most = p, short
    return r


@compiled
def _dual(
    a: Floats, c: Floats, basis: Ints, inverse: Floats, near: float, x: Floats, y: Floats, d: Floats, column: Floats
) -> int:
    """Pivots from a basis of no positive reduced cost until it is feasible; where that is impossible, y says why.

    In the second half of the steps allowed by Bland's rule, lest it cycle.
    """
    m, n = a.shape
    steps = 100 + 20 * (m + n)
    for step in range(steps):
        bland = 2 * step > steps
        r = _worst(basis, x, near, bland)
        if r < 0:
            return OPTIMAL
        sign = -1.0 if x[r] > 0.0 else 1.0  # an artificial variable above 0 is as wrong as one below
        _price(a, c, basis, inverse, 2, y, d)
        j, least, largest = -1, np.inf, 0.0
        for h in range(n):
            across = 0.0
            for i in range(m):
                across += inverse[r, i] * a[i, h]
            across *= sign
            if across < -PIVOT:
                ratio = min(d[h], 0.0) / across
                if j < 0 or ratio < least - 1e-13 or (ratio <= least and not bland and -across > largest):
                    j, least, largest = h, min(ratio, least), -across
        if j < 0:
            for i in range(m):
                y[i] = sign * inverse[r, i]
            return INFEASIBLE
        _across(a, j, inverse, column)
        _pivot(r, j, basis, inverse, x, column)
    return STALLED


@compiled
def _first(
    a: Floats, c: Floats, basis: Ints, inverse: Floats, near: float, x: Floats, y: Floats, d: Floats, column: Floats
) -> int:
    """Phase 1: pivots until artificial variables hold nothing; INFEASIBLE where they must hold something."""
    m = basis.size
    for p in range(m):
        if basis[p] < 0 and x[p] < 0.0:  # the same variable with the other sign
            x[p] = -x[p]
            for i in range(m):
                inverse[p, i] = -inverse[p, i]
    status = _primal(a, c, basis, inverse, 1, 1.0, x, y, d, column)
    held = 0.0
    for p in range(m):
        held += x[p] if basis[p] < 0 else 0.0
    return INFEASIBLE if status == OPTIMAL and held > near * m else status


@compiled
def _look(
    a: Floats, b: Floats, c: Floats, basis: Ints, inverse: Floats, square: Floats, x: Floats, y: Floats, d: Floats
) -> tuple[float, float, float]:
    """Invert a basis (a singular one is forgotten) and price it. O(m³ + m n).

    Returns how far below 0 a basic variable is, how far off 0 an artificial one, and the largest reduced cost.
    """
    m, n = a.shape
    if not _invert(a, basis, square, inverse):
        basis[:] = -1
        _invert(a, basis, square, inverse)
    below, artificial, most = 0.0, 0.0, -np.inf
    for p in range(m):
        x[p] = 0.0
        for i in range(m):
            x[p] += inverse[p, i] * b[i]
        if basis[p] < 0:
            artificial = max(artificial, abs(x[p]))
        else:
            below = max(below, -x[p])
    _price(a, c, basis, inverse, 2, y, d)
    for j in range(n):
        most = max(most, d[j])
    return below, artificial, most


@compiled
def maximise(a: Floats, b: Floats, c: Floats, basis: Ints, work: Floats) -> int:
    """The kernel of ``solve``: returns a status, leaves the basis, and x, y and the reduced costs in ``work`` (``solve_size``).

    Each phase starts from a fresh inverse, and so does the check of the answer: it is feasible, and no reduced cost is left.
    """
    m, n = a.shape
    x, y, column, d = work[:m], work[m : 2 * m], work[2 * m : 3 * m], work[3 * m : 3 * m + n]
    inverse = work[3 * m + n : 3 * m + n + m * m].reshape((m, m))
    square = work[3 * m + n + m * m : 3 * m + n + 2 * m * m].reshape((m, m))
    scale, near = size(c), FEASIBLE * max(1.0, size(b))
    for _ in range(_ATTEMPTS):
        below, artificial, most = _look(a, b, c, basis, inverse, square, x, y, d)
        optimal = most <= 2.0 * REDUCED * scale
        status = STALLED
        if below <= near and artificial <= near:
            if optimal:
                return OPTIMAL
            status = _primal(a, c, basis, inverse, 2, scale, x, y, d, column)
        elif optimal:
            status = _dual(a, c, basis, inverse, near, x, y, d, column)
        elif below <= near:
            status = _first(a, c, basis, inverse, near, x, y, d, column)
        if status in (UNBOUNDED, INFEASIBLE):
            return status
        if status == STALLED:
            basis[:] = -1
    return STALLED
