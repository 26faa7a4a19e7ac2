r"""The quadratic model of the tilted likelihood, maximised over the simplex by an active set of atoms: the solution uses few.

The curvature of the atoms in use, :math:`H = A^\top \mathrm{diag}(b) A`, is kept as its upper Cholesky factor U, row by row in
``lens.square``: to take an atom in, or drop one, costs O(size²), in loops along rows, which vectorise.
"""

from __future__ import annotations

import math

import numpy as np

from headwater.arrays import AnyInts, Floats, Ints
from headwater.policies.compile import compiled
from headwater.policies.lens import HOPEFUL, Lens, through
from headwater.policies.vectors import dot

__all__ = ["best_step", "start", "tilt"]

PIVOTS = 60
"""Atoms taken in or dropped in one quadratic problem, beyond four for each in use: atoms that look alike may take turns."""
ALONG = 0.3
"""Atoms are taken in along with the one asked for most if they are asked for this part as much."""
RIDGE = 1e-10
"""What is added to the curvature, as a part of its largest entry: atoms that all rows see alike make it singular."""


# --- the factor ------------------------------------------------------------------------------------------------------


@compiled
def _bend(lens: Lens, size: int, bend: Floats) -> None:
    """The curvature of the first ``size`` of ``lens.active``, into the upper half of ``lens.square``.

    Row by row of the channels, each an outer product over the atoms in use that pay it: a fraction of all pairs where rewards
    are deterministic.
    """
    square, first, last, who, value = lens.square, lens.first, lens.last, lens.who, lens.value
    first[:] = 0
    for a in range(size):
        j = lens.active[a]
        for b in range(a, size):
            square[a, b] = 0.0
        for e in range(lens.start[j], lens.start[j + 1]):
            first[lens.row[e]] += 1
    place = 0
    for i in range(bend.size):
        place, first[i] = place + first[i], place
        last[i] = first[i]
    for a in range(size):
        j = lens.active[a]
        for e in range(lens.start[j], lens.start[j + 1]):
            i = lens.row[e]
            who[last[i]], value[last[i]] = a, lens.weight[e]
            last[i] += 1
    full = 0
    for i in range(bend.size):
        low, high = first[i], last[i]
        if bend[i] <= 0.0:
            continue
        if lens.sure[i]:
            _outer(bend[i], who[low:high], square)
        elif high - low == size:
            last[full] = i  # row i's own place is not needed any more
            full += 1
        else:
            for x in range(low, high):
                factor, line = bend[i] * value[x], square[who[x]]
                for y in range(x, high):
                    line[who[y]] += factor * value[y]
    _full_rows(bend, first, last[:full], value, size, square)


@compiled
def _full_rows(bend: Floats, first: Ints, rows: Ints, value: Floats, size: int, square: Floats) -> None:
    """Add the outer products of the ``rows`` that all atoms in use pay. Four at a time: one by one, each would read and write
    the whole square.
    """
    r = 0
    while r + 3 < rows.size:
        h, i, k, m = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
        w, x, y, z = value[first[h] :], value[first[i] :], value[first[k] :], value[first[m] :]
        for a in range(size):
            line, ww, xx, yy, zz = square[a], bend[h] * w[a], bend[i] * x[a], bend[k] * y[a], bend[m] * z[a]
            for b in range(a, size):
                line[b] += (ww * w[b] + xx * x[b]) + (yy * y[b] + zz * z[b])
        r += 4
    while r < rows.size:
        h = rows[r]
        w = value[first[h] :]
        for a in range(size):
            line, ww = square[a], bend[h] * w[a]
            for b in range(a, size):
                line[b] += ww * w[b]
        r += 1


@compiled
def _outer(x: float, who: AnyInts, square: Floats) -> None:
    """Add x to the upper half where line and column are both in ``who``, which ascends. Two lines at a time, as both look up
    the same columns.
    """
    a = 0
    while a + 1 < who.size:
        line, below = square[who[a]], square[who[a + 1]]
        line[who[a]] += x
        for b in range(a + 1, who.size):
            line[who[b]] += x
            below[who[b]] += x
        a += 2
    if a < who.size:
        square[who[a], who[a]] += x


@compiled
def _factor(square: Floats, size: int) -> float:
    """Cholesky in place, a ridge added; a vanishing pivot becomes the ridge. Returns the ridge. O(size³)."""
    largest = 1.0
    for a in range(size):
        largest = max(largest, square[a, a])
    ridge = RIDGE * largest
    for b in range(size):
        top, c = square[b], 0
        own = _own_ridge(top[b], ridge)
        while c + 3 < b:  # four at a time: one alone would read and write the row for each
            w, x, y, z = square[c], square[c + 1], square[c + 2], square[c + 3]
            ww, xx, yy, zz = w[b], x[b], y[b], z[b]
            for a in range(b, size):
                top[a] -= (ww * w[a] + xx * x[a]) + (yy * y[a] + zz * z[a])
            c += 4
        while c < b:
            w = square[c]
            ww = w[b]
            for a in range(b, size):
                top[a] -= ww * w[a]
            c += 1
        top[b] = math.sqrt(max(top[b] + own, own))
        scale = 1.0 / top[b]
        for a in range(b + 1, size):
            top[a] *= scale
    return ridge


@compiled
def _own_ridge(curvature: float, ridge: float) -> float:
    """An atom of more curvature than those that the ridge was made for has its own: else rounding would swamp it."""
    return max(ridge, RIDGE * curvature)


@compiled
def _column(lens: Lens, j: int, x: Floats) -> float:
    """``A[:, j]·x``, x (R,). Four sums side by side: one alone would wait for each addition."""
    row, weight, e, last = lens.row, lens.weight, lens.start[j], lens.start[j + 1]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    while e + 3 < last:
        a += weight[e] * x[row[e]]
        b += weight[e + 1] * x[row[e + 1]]
        c += weight[e + 2] * x[row[e + 2]]
        d += weight[e + 3] * x[row[e + 3]]
        e += 4
    while e < last:
        a += weight[e] * x[row[e]]
        e += 1
    return (a + b) + (c + d)


@compiled
def _append(lens: Lens, size: int, bend: Floats, ridge: float) -> None:
    """The factor's column for the last of ``size`` atoms in use. O(size²), and what its curvature with the others takes."""
    square, h, scatter, last = lens.square, lens.atoms[3], lens.rows[2], size - 1
    j = lens.active[last]
    for e in range(lens.start[j], lens.start[j + 1]):
        scatter[lens.row[e]] = lens.weight[e] * bend[lens.row[e]]
    for a in range(size):
        h[a] = _column(lens, lens.active[a], scatter)
    for e in range(lens.start[j], lens.start[j + 1]):
        scatter[lens.row[e]] = 0.0
    own = _own_ridge(h[last], ridge)
    for c in range(last):
        line = square[c]
        x = h[c] / line[c]
        line[last] = x
        for a in range(c + 1, last):
            h[a] -= x * line[a]
        h[last] -= x * x
    square[last, last] = math.sqrt(max(h[last] + own, own))


@compiled
def _remove(square: Floats, size: int, slot: int) -> None:
    """Take the atom at ``slot`` out of the factor of ``size``: what its column explained goes back, by rotations. O(size²)."""
    for c in range(slot):
        line = square[c]
        for b in range(slot + 1, size):
            line[b - 1] = line[b]
    for c in range(slot, size - 1):
        line, below = square[c], square[c + 1]
        x, y = line[c + 1], below[c + 1]
        pivot = math.sqrt(x * x + y * y)
        cosine, sine = x / pivot, y / pivot
        for b in range(c + 1, size):
            x, y = line[b], below[b]
            line[b - 1] = cosine * x + sine * y
            below[b] = cosine * y - sine * x


@compiled
def _solve(square: Floats, size: int, u: Floats, v: Floats) -> None:
    """u and v (size,) become H⁻¹u and H⁻¹v: together, as reading the factor takes longest. O(size²)."""
    for i in range(size):
        line = square[i]
        scale = 1.0 / line[i]
        u[i] *= scale
        v[i] *= scale
        x, y = u[i], v[i]
        for m in range(i + 1, size):
            u[m] -= line[m] * x
            v[m] -= line[m] * y
    for i in range(size - 1, -1, -1):
        rest, others, first = square[i, i + 1 :], size - i - 1, i + 1
        u[i] = (u[i] - dot(rest, u[first:], others)) / square[i, i]
        v[i] = (v[i] - dot(rest, v[first:], others)) / square[i, i]


@compiled
def start(lens: Lens, p: Floats, bend: Floats) -> tuple[int, float]:
    """The atoms that p uses, with their factor: how many, and the ridge."""
    size = 0
    for j in range(p.size):
        lens.slot[j] = -1
        if p[j] > 0.0:
            lens.active[size], lens.slot[j] = j, size
            size += 1
    _bend(lens, size, bend)
    return size, _factor(lens.square, size)


# --- the problem -----------------------------------------------------------------------------------------------------


@compiled
def _hopefuls(p: Floats, grad: Floats, places: Ints, worth: Floats) -> int:
    """List the atoms without mass of largest gradient, best first, ``HOPEFUL`` at most; returns how many."""
    count = 0
    for j in range(p.size):
        if p[j] > 0.0 or (count == HOPEFUL and grad[j] <= worth[count - 1]):
            continue
        at = count if count < HOPEFUL else count - 1
        count = at + 1
        while at > 0 and worth[at - 1] < grad[j]:
            places[at], worth[at] = places[at - 1], worth[at - 1]
            at -= 1
        places[at], worth[at] = j, grad[j]
    return count


@compiled
def _let_go(lens: Lens, kept: int, a: int, size: int, mass: float, gone: Floats, pull: Floats) -> None:
    """The atom at slot ``a``, now the factor's column ``kept``, loses its ``mass``: what it paid goes to ``gone`` (R,), and the
    others, the first ``kept`` slots and those from a + 1 on, feel it in ``pull`` (J,). O(size²).
    """
    j, columns, h = lens.active[a], size - (a - kept), lens.atoms[3]
    for e in range(lens.start[j], lens.start[j + 1]):
        gone[lens.row[e]] += lens.weight[e] * mass
    for b in range(columns):
        h[b] = 0.0
    for c in range(kept + 1):
        line = lens.square[c]
        x = mass * line[kept]
        for b in range(c, columns):
            h[b] += x * line[b]
    for b in range(columns):
        if b != kept:
            pull[lens.active[b if b < kept else a + b - kept]] += h[b]


@compiled
def best_step(lens: Lens, p: Floats, grad: Floats, mean: float, bend: Floats, d: Floats, dz: Floats) -> int:
    """Maximise ``grad·d - d'Hd/2``, H = A' diag(bend) A, over the steps d (J,) that stay in the simplex.

    Primal active set: solve on the atoms in use, walk there until one runs out of mass, drop it; when none does, take in the
    atoms that the multipliers ask for most, among the few of largest gradient: what they miss, the next step's gradient shows.
    Solved for the step, not for where it leads, and with ``mean`` (grad·p) taken off the gradient, so that errors vanish with
    the step. Leaves ``dz = A d`` (R,) and returns how many atoms are in use then, their factor in ``lens.square``; 0 if it
    gave up, on a step that may not be the best.
    """
    u, v, pull, worth = lens.atoms[5], lens.atoms[6], lens.atoms[7], lens.atoms[8]
    z, gone, spent = lens.rows[3], lens.rows[4], 0.0
    size, ridge = start(lens, p, bend)
    gone[:] = 0.0  # what the atoms that were dropped paid, row by row
    for j in range(p.size):
        d[j] = 0.0
        pull[j] = grad[j] - mean  # and what their going adds
    hopeful = _hopefuls(p, grad, lens.hopeful, worth)
    for _ in range(PIVOTS + 4 * size):
        for a in range(size):
            u[a] = pull[lens.active[a]]
            v[a] = 1.0
        _solve(lens.square, size, u, v)
        above, below = -spent, 0.0
        for a in range(size):
            above += u[a]
            below += v[a]
        if not 0.0 < below < np.inf:
            break
        level, step = above / below, 1.0
        for a in range(size):
            u[a] -= level * v[a]
            j = lens.active[a]
            if p[j] + u[a] < 0.0 and p[j] + d[j] < step * (d[j] - u[a]):
                step = (p[j] + d[j]) / (d[j] - u[a])
        kept = 0
        for a in range(size):
            j = lens.active[a]
            d[j] += step * (u[a] - d[j])
            if step < 1.0 and p[j] + u[a] < 0.0 and p[j] + d[j] <= 1e-15:
                d[j] = -p[j]
                lens.slot[j] = -1
                if p[j] > 0.0:
                    spent += p[j]
                    _let_go(lens, kept, a, size, p[j], gone, pull)
                _remove(lens.square, size - (a - kept), kept)
            else:
                lens.active[kept], lens.slot[j] = j, kept
                kept += 1
        if kept < size:
            size = kept
            continue
        through(lens, d, dz)
        for i in range(z.size):
            z[i] = bend[i] * dz[i]
        most = least = 1e-12 * (abs(mean) + 1.0)
        for a in range(hopeful):
            j = lens.hopeful[a]
            worth[a] = 0.0
            if lens.slot[j] < 0:
                worth[a] = grad[j] - mean - level - _column(lens, j, z)
                most = max(most, worth[a])
        if most == least:
            return size
        for i in range(z.size):
            z[i] = bend[i] * gone[i]
        for a in range(hopeful):
            if worth[a] >= max(ALONG * most, least) and size < p.size:
                j = lens.hopeful[a]
                lens.active[size], lens.slot[j] = j, size
                pull[j] = grad[j] - mean + (_column(lens, j, z) if spent > 0.0 else 0.0)
                size += 1
                _append(lens, size, bend, ridge)
    through(lens, d, dz)
    return 0


@compiled
def tilt(lens: Lens, size: int, g: Floats, middle: float) -> float:
    """Where the maximiser moves with theta, over the ``size`` atoms in use, into ``lens.atoms[5]``; returns how fast ``g·p``
    grows. Wants their factor. ``middle``: what g is nearly, so that errors vanish with the rest.
    """
    u, v = lens.atoms[5], lens.atoms[6]
    for a in range(size):
        u[a] = g[lens.active[a]] - middle
        v[a] = 1.0
    _solve(lens.square, size, u, v)
    above, below = 0.0, 0.0
    for a in range(size):
        above += u[a]
        below += v[a]
    out = 0.0
    for a in range(size):
        u[a] -= above / below * v[a]
        out += (g[lens.active[a]] - middle) * u[a]
    return out
