r"""What an arm of random rewards implies about the others, compiled.

From counts n_m of the rewards of an arm with channel A (M, J): the likeliest law f among {A p}, which is the empirical one
where some p explains it, and the most that another arm ell may pay under it,

.. math:: \hat\phi_\ell = \max\{g_\ell \cdot p : A p = f,\ p \ge 0\}.

Nothing here may fall below the truth, because that would exclude an arm wrongly. Any y whatever bounds a programme over laws p:
:math:`c\cdot p \le y\cdot f + \max_j (c_j - y\cdot A_j)^+`, so rounding in y costs nothing. The likeliest law f* is
only approached: if no :math:`\sum_m q_m A_{mj}/f_m` exceeds :math:`1 + \delta` (q the empirical law), then
:math:`\sum_m q_m h(f^*_m/f_m) \le \delta` with h(u) = u - 1 - log u, which bounds every :math:`|f^*_m - f_m|` by some r_m, and
:math:`\sum_m |y_m| r_m` is added.
"""

from __future__ import annotations

import math

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies.compile import compiled
from headwater.policies.simplex import FEASIBLE, INFEASIBLE, OPTIMAL, maximise, solve_size
from headwater.policies.vectors import backsolve, largest, put

__all__ = ["imply", "likeliest", "likeliest_size", "work_size"]

SHARP = 1e-14  # the certificate delta at which the likeliest law is good enough
CLEAR = 1e-8  # above it, a variable or reduced cost is certainly not 0
_NEWTON = 80


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
    backsolve(square, m, right)
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
    return largest(slope) - 1.0


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
    put(p, best)
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
            put(p, best)
    put(best, p)
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
            put(a[i], packed[m])
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
            put(g[ell], c)
            status, bound[ell] = _bound(a, b, near, c, bases[ell, :rows], spare[points + 2 * rows :])
            if status == INFEASIBLE:
                _project(k, a, g, seen, bases, bound, packed, spare)
                return False
    return True
