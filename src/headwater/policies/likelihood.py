r"""Which laws of X the counts allow: the maximum of their likelihood, tilted towards one arm or not, on the simplex.

Row i of the channels was seen :math:`n_i` times, N in all. With :math:`z = A p`,

.. math::
    L(p) = \sum_i n_i \log z_i, \qquad \Phi_\theta(p) = L(p) + \theta\, g \cdot p .

:math:`\theta = 0` gives the law of X that explains the counts best; as :math:`\theta` grows, its maximiser walks along the
laws with the largest :math:`g \cdot p` among all that are at least as likely. With :math:`\gamma = \nabla \Phi_\theta(p)`, no
law is better than p by more than :math:`\max_j \gamma_j - \gamma \cdot p`, which certifies a solution whatever way it was
found.

Sequential quadratic programming: the quadratic model of :math:`\Phi_\theta` at p is maximised over the simplex by an active set
of atoms (the solution uses few), then a line search. Self-concordance makes that converge from anywhere, quadratically in the
end. A step costs O(nnz + |S|² c + |S|³), S the atoms in use and c the entries of a column: K for deterministic arms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headwater.arrays import AnyInts, Bools, Floats, Ints
from headwater.policies.compile import compiled
from headwater.policies.vectors import backsolve, dot, put
from headwater.pseudo.channels import KNOWN, Channels

__all__ = [
    "Lens",
    "approach",
    "climb",
    "follow",
    "log_likelihood",
    "make_lens",
    "maximise_likelihood",
    "slope",
    "spread",
    "through",
    "tilt_slope",
]

STEPS = 200
PIVOTS = 60
"""Atoms taken in or dropped in one quadratic problem, beyond four for each in use: atoms that look alike may take turns."""
ALONG = 0.3
"""Atoms are taken in along with the one asked for most if they are asked for this part as much."""
HOPEFUL = 32
"""Atoms that one quadratic problem may take in."""
RIDGE = 1e-10
"""What is added to the curvature, as a part of its largest entry: atoms that all rows see alike make it singular."""


class Lens(NamedTuple):
    """The channels as kernels read them (see :class:`Channels`), means scaled to [0, 1] over all arms, and scratch space.

    Row i is paid at the atoms ``atom[begin[i]:begin[i + 1]]``, with the probabilities ``chance`` of the same places, which are
    all 1 if ``sure[i]``.
    ``g[k, j]`` is ``(mean - low) / span``. ``active`` (J,) and ``slot`` (J,) list the atoms in use, in the order of ``entry``;
    ``curve`` holds the curvature by entry, ``square`` (J, J) its factor by slot; ``error`` and ``strain`` are what the channels
    may be wrong by, at the tolerance's number of standard errors; the rest are vectors over atoms or rows.
    """

    start: Ints
    row: Ints
    weight: Floats
    begin: Ints
    atom: AnyInts
    sure: Bools
    chance: Floats
    g: Floats
    offset: Ints
    active: Ints
    slot: Ints
    entry: Ints
    curve: Floats
    square: Floats
    atoms: Floats  # (9, J)
    rows: Floats  # (5, R)
    hopeful: Ints  # (HOPEFUL,)
    first: Ints  # (R,)
    last: Ints  # (R,)
    who: AnyInts  # (nnz,)
    value: Floats  # (nnz,)
    error: Floats  # (K, J), or (0, 0)
    strain: Floats  # as error


def make_lens(channels: Channels, low: float, span: float, tolerance: float = 0.0) -> Lens:
    """Channels and room to work in: O(J²) memory, so that two threads need two of them.

    ``tolerance``: how many of their standard errors the channels may be wrong by.
    """
    error, strain = (channels.error, channels.strain) if tolerance > 0.0 else (KNOWN, KNOWN)
    j, r = channels.g.shape[1], int(channels.offset[-1])
    g = np.ascontiguousarray((channels.g - low) / (span if span > 0 else 1.0))
    by_row = np.argsort(channels.row, kind="stable")
    sure = np.ones(r, dtype=np.bool_)
    sure[channels.row[channels.weight != 1.0]] = False
    begin = np.concatenate([[0], np.cumsum(np.bincount(channels.row, minlength=r))]).astype(np.int64)
    return Lens(
        channels.start,
        channels.row,
        channels.weight,
        begin,
        np.repeat(np.arange(j), np.diff(channels.start))[by_row].astype(np.int32),
        sure,
        channels.weight[by_row],
        g,
        channels.offset,
        np.zeros(j, dtype=np.int64),
        np.zeros(j, dtype=np.int64),
        np.zeros(j, dtype=np.int64),
        np.zeros((j + PIVOTS, j + PIVOTS)),
        np.zeros((j, j)),
        np.zeros((9, j)),
        np.zeros((5, r)),
        np.zeros(HOPEFUL, dtype=np.int64),
        np.zeros(r, dtype=np.int64),
        np.zeros(r, dtype=np.int64),
        np.zeros(len(channels.row), dtype=np.int32),
        np.zeros(len(channels.row)),
        error * (tolerance / (span if span > 0 else 1.0)),
        strain * tolerance**2,
    )


@compiled
def through(lens: Lens, p: Floats, z: Floats) -> None:
    """``z = A p``: how likely each row is under p. O(nnz of the atoms p uses)."""
    z[:] = 0.0
    for j in range(p.size):
        if p[j] != 0.0:
            for e in range(lens.start[j], lens.start[j + 1]):
                z[lens.row[e]] += lens.weight[e] * p[j]


@compiled
def log_likelihood(n: Floats, z: Floats) -> float:
    """``sum n log z`` over the rows that were seen; -inf where one of them is impossible."""
    total = 0.0
    for i in range(n.size):
        if n[i] > 0:
            if z[i] <= 0.0:
                return -np.inf
            total += n[i] * math.log(z[i])
    return total


@compiled
def spread(lens: Lens, n: Floats, p: Floats, z: Floats) -> bool:
    """Make every row that was seen possible: give some mass to the likeliest atom of each that is not. Leaves ``z = A p``.

    Few atoms, not all: a law that uses few stays cheap to improve. Returns whether p was changed.
    """
    through(lens, p, z)
    missing = 0
    for i in range(n.size):
        missing += 1 if n[i] > 0 and not z[i] > 1e-13 else 0
    if missing == 0:
        return False
    for j in range(p.size):
        p[j] *= 0.9
    for i in range(n.size):
        if n[i] > 0 and not z[i] > 1e-13:
            likely, most = 0, -1.0
            for e in range(lens.begin[i], lens.begin[i + 1]):
                if lens.chance[e] > most:
                    likely, most = lens.atom[e], lens.chance[e]
            p[likely] += 0.1 / missing
    through(lens, p, z)
    return True


@compiled
def _add_row(lens: Lens, i: int, x: float, out: Floats) -> None:
    """``out += x A[i]``, over atoms (J,). A row without zeros is read straight through, one of zeros and ones by its atoms."""
    first, last = lens.begin[i], lens.begin[i + 1]
    if lens.sure[i]:
        for e in range(first, last):
            out[lens.atom[e]] += x
    elif last - first == out.size:
        for j in range(out.size):
            out[j] += lens.chance[first + j] * x
    else:
        for e in range(first, last):
            out[lens.atom[e]] += lens.chance[e] * x


@compiled
def _bend_last(lens: Lens, size: int, bend: Floats, scatter: Floats) -> None:
    """The curvature between the last atom in use and all, as its entry's line of ``lens.curve``. ``scatter`` (R,) is 0 and
    stays 0.
    """
    j, line = lens.active[size - 1], lens.curve[lens.entry[size - 1]]
    for e in range(lens.start[j], lens.start[j + 1]):
        scatter[lens.row[e]] = lens.weight[e] * bend[lens.row[e]]
    for a in range(size):
        h = lens.active[a]
        x = 0.0
        for e in range(lens.start[h], lens.start[h + 1]):
            x += lens.weight[e] * scatter[lens.row[e]]
        line[lens.entry[a]] = x
    for e in range(lens.start[j], lens.start[j + 1]):
        scatter[lens.row[e]] = 0.0


@compiled
def _bend(lens: Lens, size: int, bend: Floats) -> None:
    """The curvature of the first ``size`` of ``lens.active``, into ``lens.curve``. ``lens.square`` is scratch.

    Row by row, each an outer product over the atoms in use that pay it: a fraction of all pairs where rewards are
    deterministic.
    """
    square, first, last, who, value = lens.square, lens.first, lens.last, lens.who, lens.value
    first[:] = 0
    for a in range(size):
        j = lens.active[a]
        for b in range(a + 1):
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
    for i in range(bend.size):
        if bend[i] <= 0.0:
            continue
        low, full = first[i], last[i] - first[i] == size
        for x in range(low, last[i]):
            factor, line = bend[i] * value[x], square[who[x]]
            if full:
                for b in range(x - low + 1):
                    line[b] += factor * value[low + b]
            else:
                for y in range(low, x + 1):
                    line[who[y]] += factor * value[y]
    for a in range(size):
        lens.entry[a] = a
        for b in range(a + 1):
            lens.curve[a, b] = square[a, b]


@compiled
def _factor(lens: Lens, first: int, size: int, ridge: float) -> None:
    """Cholesky of the curvature of the atoms in use, a ridge added, into ``lens.square``; a vanishing pivot becomes the ridge.

    An atom of more curvature than those that the ridge was made for has its own: else rounding would swamp it. Row by row,
    so that the rows before ``first`` may stay: to take in an atom costs O(size²).
    """
    square = lens.square
    for a in range(first, size):
        line, curve = square[a], lens.curve[lens.entry[a]]  # atoms in use stand in the order of their entries
        for b in range(a):
            other = square[b]
            line[b] = (curve[lens.entry[b]] - dot(line, other, b)) / other[b]
        own = max(ridge, RIDGE * curve[lens.entry[a]])
        line[a] = math.sqrt(max(curve[lens.entry[a]] + own - dot(line, line, a), own))


@compiled
def _leave(square: Floats, size: int, slot: int, sine: Floats, cosine: Floats) -> None:
    """Take the atom at ``slot`` out of the factor of ``size``: what its column explained goes back, by rotations. O(size²).

    Row by row: each finds its own rotation after those of the rows above. ``sine`` and ``cosine`` (J,) are scratch.
    """
    for a in range(slot + 1, size):
        old, new, rest = square[a], square[a - 1], square[a, slot]
        for c in range(slot):
            new[c] = old[c]
        for c in range(slot, a - 1):
            x = old[c + 1]
            new[c] = cosine[c] * x + sine[c] * rest
            rest = cosine[c] * rest - sine[c] * x
        pivot = math.sqrt(old[a] * old[a] + rest * rest)
        sine[a - 1], cosine[a - 1] = rest / pivot, old[a] / pivot
        new[a - 1] = pivot


@compiled
def _ridge(lens: Lens, size: int) -> float:
    largest = 1.0
    for a in range(size):
        largest = max(largest, lens.curve[lens.entry[a], lens.entry[a]])
    return RIDGE * largest


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
    """The atom at slot ``a`` loses its ``mass``: what it paid goes to ``gone`` (R,), and the others, the first ``kept`` slots
    and those from a + 1 on, feel it in ``pull`` (J,).
    """
    j, entry = lens.active[a], lens.entry[a]
    for e in range(lens.start[j], lens.start[j + 1]):
        gone[lens.row[e]] += lens.weight[e] * mass
    for b in range(size):
        if b < kept or b > a:
            other = lens.entry[b]
            pull[lens.active[b]] += mass * lens.curve[max(entry, other), min(entry, other)]


@compiled
def _best_quadratic(lens: Lens, p: Floats, grad: Floats, mean: float, bend: Floats, d: Floats) -> int:
    """Maximise ``grad·d - d'Hd/2``, H = A' diag(bend) A, over the steps d (J,) that stay in the simplex.

    Primal active set: solve on the atoms in use, walk there until one runs out of mass, drop it; when none does, take in the
    atom that the multipliers ask for most, among the few of largest gradient: what they miss, the next step's gradient shows.
    Solved for the step, not for where it leads, and with ``mean`` (grad·p) taken off the gradient, so that errors vanish with
    the step. Returns how many atoms are in use then, the first of ``lens.active``, their factor in ``lens.square``; 0 if it
    gave up.
    """
    u, v, pull, scatter, z, gone = lens.atoms[5], lens.atoms[6], lens.atoms[7], lens.rows[2], lens.rows[3], lens.rows[4]
    size, spent = 0, 0.0
    gone[:] = 0.0  # what the atoms that were dropped paid, row by row
    for j in range(p.size):
        d[j] = 0.0
        pull[j] = grad[j] - mean  # and what their going adds
        lens.slot[j] = -1
        if p[j] > 0.0:
            lens.active[size] = j
            lens.slot[j] = size
            size += 1
    worth = lens.atoms[8]
    hopeful = _hopefuls(p, grad, lens.hopeful, worth)
    _bend(lens, size, bend)
    ridge, first, entries = _ridge(lens, size), 0, size
    for _ in range(PIVOTS + 4 * size):
        _factor(lens, first, size, ridge)
        for a in range(size):
            u[a] = pull[lens.active[a]]
            v[a] = 1.0
        backsolve(lens.square, size, u)
        backsolve(lens.square, size, v)
        above, below = -spent, 0.0
        for a in range(size):
            above += u[a]
            below += v[a]
        if not 0.0 < below < np.inf:
            return 0
        level = above / below
        step = 1.0
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
                _leave(lens.square, size - (a - kept), kept, lens.atoms[3], lens.atoms[4])
            else:
                lens.active[kept], lens.entry[kept] = j, lens.entry[a]
                lens.slot[j] = kept
                kept += 1
        first = kept  # the factor of what is left stands
        if kept < size:
            size = kept
            continue
        through(lens, d, z)
        for i in range(z.size):
            z[i] *= bend[i]
        most = least = 1e-12 * (abs(mean) + 1.0)
        for a in range(hopeful):
            j = lens.hopeful[a]
            worth[a] = 0.0
            if lens.slot[j] < 0:
                worth[a] = grad[j] - mean - level
                for e in range(lens.start[j], lens.start[j + 1]):
                    worth[a] -= lens.weight[e] * z[lens.row[e]]
                most = max(most, worth[a])
        if most == least:
            return size
        for a in range(hopeful):
            if worth[a] >= max(ALONG * most, least) and size < p.size and entries < lens.curve.shape[0]:
                j = lens.hopeful[a]
                lens.active[size], lens.entry[size] = j, entries
                lens.slot[j] = size
                pull[j] = grad[j] - mean
                for e in range(lens.start[j], lens.start[j + 1]):
                    pull[j] += lens.weight[e] * bend[lens.row[e]] * gone[lens.row[e]]
                size += 1
                entries += 1
                _bend_last(lens, size, bend, scatter)
        if entries == lens.curve.shape[0]:
            break
    return 0


@compiled
def follow(lens: Lens, n: Floats, before: Floats, old: Floats, z: Floats) -> None:
    """``old`` (J,), the gradient when the counts were ``before`` (R,), as the gradient now. O(J) for each row that changed."""
    grad, bend = lens.atoms[0], lens.rows[0]
    put(old, grad)
    for i in range(n.size):
        bend[i] = n[i] / (z[i] * z[i]) if n[i] > 0 else 0.0
        if n[i] != before[i]:
            _add_row(lens, i, (n[i] - before[i]) / z[i], grad)


@compiled
def slope(lens: Lens, n: Floats, g: Floats, theta: float, p: Floats, z: Floats) -> tuple[float, float]:
    """The gradient at p, into ``lens.atoms[0]``; the curvature of each row, into ``lens.rows[0]``. Returns the gradient's
    largest entry and its mean under p.
    """
    grad, bend = lens.atoms[0], lens.rows[0]
    grad[:] = 0.0
    for i in range(n.size):
        bend[i] = 0.0
        if n[i] > 0:
            price = n[i] / z[i]
            bend[i] = price / z[i]
            _add_row(lens, i, price, grad)
    most, mean = -np.inf, 0.0
    for j in range(p.size):
        grad[j] += theta * g[j]
        most = max(most, grad[j])
        mean += p[j] * grad[j]
    return most, mean


@compiled
def _move(lens: Lens, n: Floats, d: Floats, dz: Floats, step: float, p: Floats, z: Floats) -> None:
    """``p += step d``, on the simplex whatever rounding does, and ``z = A p``, given ``dz = A d``."""
    mass = 0.0
    for j in range(p.size):
        if d[j] != 0.0:
            p[j] = max(p[j] + step * d[j], 0.0)
            if p[j] < 1e-15 and d[j] < 0.0:
                p[j] = 0.0
        mass += p[j]
    for j in range(p.size):
        p[j] /= mass
    possible = True
    for i in range(z.size):
        z[i] = max(z[i] + step * dz[i], 0.0) / mass
        possible = possible and (n[i] <= 0 or z[i] > 1e-9)
    if not possible:  # small differences: better counted anew
        spread(lens, n, p, z)


@compiled
def _ascend(lens: Lens, n: Floats, g: Floats, theta: float, mean: float, p: Floats, z: Floats) -> int:
    """One step of sequential quadratic programming from p, whose gradient, of that ``mean``, ``slope`` has left.

    Returns what ``_best_quadratic`` does.
    """
    grad, d, bend, dz = lens.atoms[0], lens.atoms[1], lens.rows[0], lens.rows[1]
    size = _best_quadratic(lens, p, grad, mean, bend, d)
    through(lens, d, dz)
    rise, tilt, step, total = 0.0, 0.0, 1.0, 0.0
    for j in range(p.size):
        rise += (grad[j] - mean) * d[j]
        tilt += theta * g[j] * d[j]
    for i in range(n.size):
        total += n[i]
        if n[i] > 0 and dz[i] < -0.95 * z[i]:  # keep every row that was seen well away from impossible
            step = min(step, -0.95 * z[i] / dz[i])
    for _ in range(40):
        gain = step * tilt
        for i in range(n.size):
            if n[i] > 0:
                gain += n[i] * math.log1p(step * dz[i] / z[i])
        if gain >= 0.1 * step * rise or step * rise <= 1e-13 * (total + theta):
            break
        step *= 0.5
    _move(lens, n, d, dz, step, p, z)
    return size


@compiled
def climb(lens: Lens, n: Floats, g: Floats, theta: float, tolerance: float, p: Floats, z: Floats) -> float:
    """Maximise ``L(p) + theta g·p`` from p, in place; leaves ``z = A p`` and the gradient in ``lens.atoms[0]``.

    Returns how much better any other law could be: at most ``tolerance``, or what rounding allows.
    """
    spread(lens, n, p, z)
    total = 0.0
    for i in range(n.size):
        total += n[i]
    gap = np.inf
    for _ in range(STEPS):
        most, mean = slope(lens, n, g, theta, p, z)
        before, gap = gap, most - mean
        if gap <= tolerance or (gap <= 1e-10 * (total + theta) and gap > 0.5 * before):
            return gap
        _ascend(lens, n, g, theta, mean, p, z)
    return gap


@compiled
def tilt_slope(lens: Lens, n: Floats, g: Floats, p: Floats, z: Floats) -> float:
    """How fast ``g·p`` grows with theta at a maximiser p: ``g' H⁻¹ g`` within the simplex, on the atoms that p uses."""
    bend = lens.rows[0]
    size, middle = 0, 0.0
    for i in range(n.size):
        bend[i] = n[i] / (z[i] * z[i]) if n[i] > 0 else 0.0
    for j in range(p.size):
        if p[j] > 0.0:
            lens.active[size] = j
            size += 1
            middle += g[j] * p[j]
    _bend(lens, size, bend)
    _factor(lens, 0, size, _ridge(lens, size))
    return _tilt(lens, size, g, middle)


@compiled
def _tilt(lens: Lens, size: int, g: Floats, middle: float) -> float:
    """Where the maximiser moves with theta, over the ``size`` atoms in use, into ``lens.atoms[5]``; returns how fast ``g·p``
    grows. Wants their factor. ``middle``: what g is nearly, so that errors vanish with the rest.
    """
    u, v = lens.atoms[5], lens.atoms[6]
    for a in range(size):
        u[a] = g[lens.active[a]] - middle
        v[a] = 1.0
    backsolve(lens.square, size, u)
    backsolve(lens.square, size, v)
    above, below = 0.0, 0.0
    for a in range(size):
        above += u[a]
        below += v[a]
    out = 0.0
    for a in range(size):
        u[a] -= above / below * v[a]
        out += (g[lens.active[a]] - middle) * u[a]
    return out


@compiled
def approach(
    lens: Lens, n: Floats, g: Floats, delta: float, best: float, theta: float, limit: float, p: Floats, z: Floats
) -> tuple[float, float]:
    """One step towards the largest ``g·p`` among laws whose likelihood is at most delta below ``best``.

    p and theta move together: a step of ``climb`` at theta, then along the path of maximisers to the theta at which the
    likelihood should be right, by Newton's method on the square root of its drop, which is nearly linear in theta. Wants
    ``z = A p``, every seen row possible, and what ``slope`` leaves; leaves all that. Returns theta, at most ``limit``, and the
    gradient's largest entry.
    """
    d, dz, mean = lens.atoms[1], lens.rows[1], 0.0
    for j in range(p.size):
        mean += p[j] * lens.atoms[0, j]
    size = _ascend(lens, n, g, theta, mean, p, z)
    if size > 0:
        middle = 0.0
        for j in range(p.size):
            middle += g[j] * p[j]
            d[j] = 0.0
        bend = theta * _tilt(lens, size, g, middle)
        root = math.sqrt(max(best - log_likelihood(n, z), 0.0))
        further = 30.0 * theta
        if bend > 0.0 and root > 0.0:
            further = theta + 2.0 * root * (math.sqrt(delta) - root) / bend
        further = min(max(further, theta / 30.0), 30.0 * theta, limit)
        step = further - theta
        for a in range(size):
            j = lens.active[a]
            d[j] = step * lens.atoms[5, a]
        step = 1.0
        for j in range(p.size):
            if d[j] < -p[j]:
                step = min(step, p[j] / -d[j])
        through(lens, d, dz)
        for i in range(n.size):
            if n[i] > 0 and step * dz[i] < -0.5 * z[i]:
                step = -0.5 * z[i] / dz[i]
        _move(lens, n, d, dz, step, p, z)
        theta = further
    most, _ = slope(lens, n, g, theta, p, z)
    return theta, most


def maximise_likelihood(channels: Channels, counts: Floats | Ints, start: Floats | None = None) -> tuple[Floats, float]:
    """The law of X (J,) that makes the counts (R,) of the channels' rows most likely, and how far from the maximum it may be.

    >>> import headwater as hw
    >>> from headwater.pseudo.channels import channels_of
    >>> ads = hw.Problem(latent=hw.Discrete(["a", "b", "c"]), arms={"one": [0, 1, 1], "two": [2, 2, 5]})
    >>> p, gap = maximise_likelihood(channels_of(ads), np.array([10, 30, 0, 20]))
    >>> p.round(3).tolist(), gap < 1e-6
    ([0.167, 0.0, 0.833], True)
    """
    lens = make_lens(channels, 0.0, 1.0)
    size = channels.g.shape[1]
    p = np.full(size, 1.0 / size) if start is None else np.array(start, dtype=float)
    z = np.zeros(len(counts))
    gap = climb(lens, np.asarray(counts, dtype=float), lens.g[0], 0.0, 1e-9, p, z)
    return p, gap
