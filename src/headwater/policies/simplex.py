r"""Small dense linear programmes, compiled, and what an arm of random rewards implies about the others.

The programme: maximise c·x subject to A x = b, x >= 0, by the revised simplex method with an explicit inverse. ``basis[i]`` is
the column that is basic in place i, -1 where none is: the artificial variable of row i stands there, which must be 0. So
redundant rows are allowed, and all -1 is a cold start. A basis that was optimal for another b is optimal again if it is still
feasible; if not, dual pivots repair it.

What an arm of channel A (M, J) implies, from counts n_m of its rewards: the likeliest law f among {A p}, which is the empirical
one where some p explains it, and the most that another arm ell may pay under it,

.. math:: \hat\phi_\ell = \max\{g_\ell \cdot p : A p = f,\ p \ge 0\}.

Nothing here may fall below the truth, because that would exclude an arm wrongly. Any y whatever bounds a programme over laws p:
:math:`c\cdot p \le y\cdot f + \max_j (c_j - y\cdot A_j)^+`, so rounding in y costs nothing. The likeliest law f* is
only approached: if no :math:`\sum_m q_m A_{mj}/f_m` exceeds :math:`1 + \delta` (q the empirical law), then
:math:`\sum_m q_m h(f^*_m/f_m) \le \delta` with h(u) = u - 1 - log u, which bounds every :math:`|f^*_m - f_m|` by some r_m, and
:math:`\sum_m |y_m| r_m` is added.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies.compile import compiled

__all__ = ["INFEASIBLE", "OPTIMAL", "STALLED", "UNBOUNDED", "Solution", "imply", "likeliest", "maximise", "solve", "work_size"]

OPTIMAL, INFEASIBLE, UNBOUNDED, STALLED = range(4)

FEASIBLE = 1e-10  # below 0 by less is 0, as a part of the largest |b|
REDUCED = 1e-10  # a reduced cost up to this part of the largest |c| is none
PIVOT = 1e-9  # as a part of the largest |A|
SHARP = 1e-14  # the certificate delta at which the likeliest law is good enough
CLEAR = 1e-8  # above it, a variable or reduced cost is certainly not 0
_ATTEMPTS = 8
_NEWTON = 80


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
    size, near = np.max(np.abs(c)), FEASIBLE * max(1.0, np.max(np.abs(b)))
    for _ in range(_ATTEMPTS):
        below, artificial, most = _look(a, b, c, basis, inverse, square, x, y, d)
        optimal = most <= 2.0 * REDUCED * size
        status = STALLED
        if below <= near and artificial <= near:
            if optimal:
                return OPTIMAL
            status = _primal(a, c, basis, inverse, 2, size, x, y, d, column)
        elif optimal:
            status = _dual(a, c, basis, inverse, near, x, y, d, column)
        elif below <= near:
            status = _first(a, c, basis, inverse, near, x, y, d, column)
        if status in (UNBOUNDED, INFEASIBLE):
            return status
        if status == STALLED:
            basis[:] = -1
    return STALLED


# --- the likeliest law -----------------------------------------------------------------------------------------------


@compiled
def _cholesky(square: Floats, right: Floats) -> bool:
    """Solve a symmetric positive definite system in place, ``right`` becoming the solution; False where it is not. O(m³)."""
    m = right.size
    for i in range(m):
        for p in range(i + 1):
            total = square[i, p]
            for q in range(p):
                total -= square[i, q] * square[p, q]
            if i == p:
                if not total > 0.0:
                    return False
                square[i, i] = math.sqrt(total)
            else:
                square[i, p] = total / square[p, p]
    for i in range(m):
        for q in range(i):
            right[i] -= square[i, q] * right[q]
        right[i] /= square[i, i]
    for i in range(m - 1, -1, -1):
        for q in range(i + 1, m):
            right[i] -= square[q, i] * right[q]
        right[i] /= square[i, i]
    return True


@compiled
def _certify(a: Floats, q: Floats, p: Floats, f: Floats, slope: Floats) -> float:
    """f = a p, and delta: by how much the largest sum_m q_m a_mj / f_m exceeds 1, for the law p / sum(p). O(m n)."""
    m, n = a.shape
    total = 0.0
    for j in range(n):
        total += p[j]
        slope[j] = 0.0
    for i in range(m):
        f[i] = 0.0
        for j in range(n):
            f[i] += a[i, j] * p[j]
        share = q[i] * total / f[i]
        for j in range(n):
            slope[j] += share * a[i, j]
    return float(np.max(slope)) - 1.0


@compiled
def _direct(
    a: Floats, q: Floats, p: Floats, s: Floats, w: Floats, f: Floats, mu: float, square: Floats, dw: Floats, ds: Floats
) -> bool:
    """Newton's direction: (f/w + a (p/s) a') dw = q/w - a (mu/s), ds = -a'dw; False where rounding spoils it. O(m² n + m³)."""
    m, n = a.shape
    ds[:] = 0.0
    for i in range(m):
        dw[i] = q[i] / w[i]
        for h in range(i + 1):
            square[i, h] = f[i] / w[i] if h == i else 0.0
        for j in range(n):
            dw[i] -= a[i, j] * (mu / s[j])
            weight = a[i, j] * p[j] / s[j]
            if weight != 0.0:
                for h in range(i + 1):
                    square[i, h] += weight * a[h, j]
    if not _cholesky(square, dw):
        return False
    for i in range(m):
        for j in range(n):
            ds[j] -= dw[i] * a[i, j]
    return True


@compiled
def _move(p: Floats, s: Floats, w: Floats, mu: float, dw: Floats, ds: Floats) -> None:
    """Step along the direction, so far that p, s and w stay above 0."""
    long, wide = 1.0, 1.0
    for j in range(p.size):
        dp = (mu - p[j] * ds[j]) / s[j] - p[j]
        if dp < 0.0:
            long = min(long, -0.995 * p[j] / dp)
        if ds[j] < 0.0:
            wide = min(wide, -0.995 * s[j] / ds[j])
    for i in range(w.size):
        if dw[i] < 0.0:
            wide = min(wide, -0.995 * w[i] / dw[i])
    for j in range(p.size):
        p[j] += long * ((mu - p[j] * ds[j]) / s[j] - p[j])
        s[j] += wide * ds[j]
    for i in range(w.size):
        w[i] += wide * dw[i]


@compiled
def likeliest(a: Floats, q: Floats, f: Floats, work: Floats) -> float:
    r"""The law f = a p that maximises :math:`\sum_m q_m \log f_m`; every q_m > 0. Returns delta of the module's certificate.

    Newton's method on the optimality conditions w f = q, s = 1 - a'w >= 0, p s = mu with mu falling: about 20 steps of
    O(m² n + m³). ``work`` has ``likeliest_size`` floats.
    """
    m, n = a.shape
    p, s, ds, best = work[:n], work[n : 2 * n], work[2 * n : 3 * n], work[3 * n : 4 * n]
    w, dw = work[4 * n : 4 * n + m], work[4 * n + m : 4 * n + 2 * m]
    square = work[4 * n + 2 * m : 4 * n + 2 * m + m * m].reshape((m, m))
    p[:] = 1.0 / n
    delta = _certify(a, q, p, f, ds)
    best[:] = p
    for i in range(m):
        w[i] = 0.9 * q[i] / (f[i] * (1.0 + delta))
    for j in range(n):
        s[j] = 1.0 - 0.9 * ds[j] / (1.0 + delta)
    for _ in range(_NEWTON):
        if delta <= SHARP:
            break
        gap = 0.0
        for j in range(n):
            gap += p[j] * s[j]
        mu = 0.1 * gap / n
        if not _direct(a, q, p, s, w, f, mu, square, dw, ds):
            break
        _move(p, s, w, mu, dw, ds)
        now = _certify(a, q, p, f, ds)
        if delta < 1e-11 and now > 0.5 * delta:  # rounding is all that is left
            break
        if now < delta:
            delta = now
            best[:] = p
    p[:] = best
    total = np.sum(p)
    for i in range(m):
        f[i] = 0.0
        for j in range(n):
            f[i] += a[i, j] * (p[j] / total)
    return float(max(delta, 2e-16 * m))


def likeliest_size(m: int, n: int) -> int:
    """How many floats ``likeliest`` works in."""
    return 4 * n + 2 * m + m * m


# --- what one arm implies about the others ---------------------------------------------------------------------------


def work_size(m: int, n: int) -> int:
    """How many floats ``imply`` works in, for channels of up to m rewards on n points."""
    return (m + 1) * n + n + 3 * (m + 1) + max(solve_size(m + 1, n), likeliest_size(m, n))


@compiled
def _alone(basis: Ints, x: Floats, d: Floats) -> bool:
    """Whether no other basis is optimal: every basic variable clearly above 0, all other reduced costs below. O(m + n)."""
    for p in range(basis.size):
        if basis[p] < 0 or x[p] <= CLEAR:
            return False
    zeros = 0
    for j in range(d.size):
        zeros += 1 if d[j] >= -CLEAR else 0
    return zeros == basis.size


@compiled
def _order(basis: Ints) -> bool:
    """Sort a basis; whether it was not. O(m²), but O(m) where it was."""
    moved = False
    for i in range(1, basis.size):
        j, at = basis[i], i
        while at > 0 and basis[at - 1] > j:
            basis[at] = basis[at - 1]
            at -= 1
        basis[at] = j
        moved = moved or at < i
    return moved


@compiled
def _canonical(a: Floats, b: Floats, c: Floats, basis: Ints, work: Floats) -> int:
    """As ``maximise``, from wherever ``basis`` is, and yet the same to the last bit as from nowhere.

    So two replicas of a policy that merge, or one that is restored, decide as the one that counted everything itself. A basis
    that alone is optimal is used in the order of its columns; where several are, the one that a cold start finds.
    """
    m, n = a.shape
    status = maximise(a, b, c, basis, work)
    if status != OPTIMAL:
        return status
    if not _alone(basis, work[:m], work[3 * m : 3 * m + n]):
        basis[:] = -1
    elif not _order(basis):
        return status
    return maximise(a, b, c, basis, work)


@compiled
def _bound(a: Floats, b: Floats, near: Floats, c: Floats, basis: Ints, work: Floats) -> tuple[int, float]:
    """A status, and a number that no c·p exceeds for laws p with a p within ``near`` of b: the dual's, rounding included."""
    m, n = a.shape
    status = _canonical(a, b, c, basis, work)
    total, over, most = 0.0, 0.0, c[0]
    for i in range(m):
        total += work[m + i] * b[i] + abs(work[m + i]) * near[i]
    for j in range(n):
        over = max(over, work[3 * m + j])
        most = max(most, c[j])
    return status, min(total + over, most) if status == OPTIMAL else most


@compiled
def _project(k: int, a: Floats, g: Floats, seen: Ints, bases: Ints, bound: Floats, packed: Floats, work: Floats) -> None:
    """``imply`` where no law of X explains the rewards: bounds under the likeliest laws there are.

    Where some reward was never seen, these may differ in its probability. All of them count: its row is left out, and one that
    says that they sum to 1 comes in.
    """
    rows, points = a.shape
    c, b, near = work[:points], work[points : points + rows + 1], work[points + rows + 1 : points + 2 * rows + 2]
    q, rest = work[points + 2 * rows + 2 : points + 3 * rows + 3], work[points + 3 * rows + 3 :]
    n, m = np.sum(seen), 0
    for i in range(rows):
        if seen[i] > 0:
            q[m] = seen[i] / n
            packed[m, :] = a[i]
            m += 1
    delta = likeliest(packed[:m], q[:m], b[:m], rest)
    for i in range(m):
        room = delta / q[i]
        near[i] = b[i] * (room + math.sqrt(room * (room + 2.0))) + FEASIBLE
    size = m
    if m < rows:
        packed[m, :] = 1.0
        b[m], near[m] = 1.0, 0.0
        size = m + 1
    bases[:] = -1  # an edge of what laws of X can explain has many optimal bases: a warm start would not serve
    for ell in range(g.shape[0]):
        sign = -1.0 if ell == k else 1.0
        for j in range(points):
            c[j] = sign * g[ell, j]
        _, bound[ell] = _bound(packed[:size], b[:size], near[:size], c, bases[ell, :size], rest)
    bound[k] = -bound[k]
    if m < rows:
        bases[:] = -1


@compiled
def imply(k: int, a: Floats, g: Floats, seen: Ints, bases: Ints, bound: Floats, work: Floats) -> bool:
    """What arm k's rewards imply: ``bound[ell]``, the most that arm ell may pay on average under the likeliest law, or more.

    ``a`` (M, J) is arm k's channel, ``g`` (K, J), ``seen`` (M,) how often it paid each reward, ``bases`` (K, at least M + 1)
    where to start from. Returns whether some law of X explains the rewards seen exactly; if none does, ``bound[k]`` is the
    least mean of arm k itself that the likeliest laws allow. O(K M³ + K M J) when the old bases serve, as they mostly do.
    """
    rows, points = a.shape
    packed, spare = work[: (rows + 1) * points].reshape((rows + 1, points)), work[(rows + 1) * points :]
    c, b, near = spare[:points], spare[points : points + rows], spare[points + rows : points + 2 * rows]
    n = np.sum(seen)
    for m in range(rows):
        b[m], near[m] = seen[m] / n, FEASIBLE
    for ell in range(g.shape[0]):
        if ell != k:
            c[:] = g[ell]
            status, bound[ell] = _bound(a, b, near, c, bases[ell, :rows], spare[points + 2 * rows :])
            if status == INFEASIBLE:
                _project(k, a, g, seen, bases, bound, packed, spare)
                return False
    return True
