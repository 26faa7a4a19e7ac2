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

from headwater.arrays import Floats, Ints
from headwater.policies.compile import compiled
from headwater.policies.vectors import backsolve
from headwater.pseudo.channels import Channels

__all__ = ["Lens", "climb", "log_likelihood", "make_lens", "maximise_likelihood", "spread", "through", "tilt_slope"]

STEPS = 200
PIVOTS = 60
"""Atoms taken in or dropped in one quadratic problem, beyond four for each in use: atoms that look alike may take turns."""
RIDGE = 1e-10
"""What is added to the curvature, as a part of its largest entry: atoms that all rows see alike make it singular."""


class Lens(NamedTuple):
    """The channels as kernels read them (see :class:`Channels`), means scaled to [0, 1] over all arms, and scratch space.

    Row i is paid at the atoms ``atom[begin[i]:begin[i + 1]]``, with the probabilities ``chance`` of the same places.
    ``g[k, j]`` is ``(mean - low) / span``. ``active`` (J,) and ``slot`` (J,) list the atoms in use; ``curve`` (J, J) holds the
    curvature by atom, ``square`` (J, J) its factor by slot; the rest are vectors over atoms or rows.
    """

    start: Ints
    row: Ints
    weight: Floats
    begin: Ints
    atom: Ints
    chance: Floats
    g: Floats
    offset: Ints
    active: Ints
    slot: Ints
    curve: Floats
    square: Floats
    atoms: Floats  # (9, J)
    rows: Floats  # (4, R)


def make_lens(channels: Channels, low: float, span: float) -> Lens:
    """Channels and room to work in: O(J²) memory, so that two threads need two of them."""
    j, r = channels.g.shape[1], int(channels.offset[-1])
    g = np.ascontiguousarray((channels.g - low) / (span if span > 0 else 1.0))
    by_row = np.argsort(channels.row, kind="stable")
    begin = np.concatenate([[0], np.cumsum(np.bincount(channels.row, minlength=r))]).astype(np.int64)
    return Lens(
        channels.start,
        channels.row,
        channels.weight,
        begin,
        np.repeat(np.arange(j), np.diff(channels.start))[by_row].astype(np.int64),
        channels.weight[by_row],
        g,
        channels.offset,
        np.zeros(j, dtype=np.int64),
        np.zeros(j, dtype=np.int64),
        np.zeros((j, j)),
        np.zeros((j, j)),
        np.zeros((9, j)),
        np.zeros((4, r)),
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
def spread(lens: Lens, n: Floats, p: Floats, z: Floats) -> None:
    """Make every row that was seen possible: give some mass to the likeliest atom of each that is not. Leaves ``z = A p``.

    Few atoms, not all: a law that uses few stays cheap to improve.
    """
    through(lens, p, z)
    missing = 0
    for i in range(n.size):
        missing += 1 if n[i] > 0 and not z[i] > 1e-13 else 0
    if missing == 0:
        return
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


@compiled
def _bend_atom(lens: Lens, size: int, j: int, bend: Floats, scatter: Floats) -> None:
    """Row j of the curvature ``A' diag(bend) A`` against the atoms in use, into ``lens.curve``. ``scatter`` (R,) is 0 and
    stays 0.
    """
    for e in range(lens.start[j], lens.start[j + 1]):
        scatter[lens.row[e]] = lens.weight[e] * bend[lens.row[e]]
    for a in range(size):
        h = lens.active[a]
        x = 0.0
        for e in range(lens.start[h], lens.start[h + 1]):
            x += lens.weight[e] * scatter[lens.row[e]]
        lens.curve[j, h] = x
        lens.curve[h, j] = x
    for e in range(lens.start[j], lens.start[j + 1]):
        scatter[lens.row[e]] = 0.0


@compiled
def _factor(lens: Lens, size: int) -> None:
    """Cholesky of the curvature of the atoms in use, a ridge added, into ``lens.square``; a vanishing pivot becomes the
    ridge.
    """
    square, column, largest = lens.square, lens.atoms[2], 1.0
    for a in range(size):
        largest = max(largest, lens.curve[lens.active[a], lens.active[a]])
    ridge = RIDGE * largest
    for a in range(size):
        for b in range(a + 1):
            square[a, b] = lens.curve[lens.active[a], lens.active[b]]
    for c in range(size):
        pivot = math.sqrt(max(square[c, c] + ridge, ridge))
        square[c, c] = pivot
        for a in range(c + 1, size):
            square[a, c] /= pivot
            column[a] = square[a, c]
        for a in range(c + 1, size):  # row by row, so that the inner loop vectorises
            x = column[a]
            for b in range(c + 1, a + 1):
                square[a, b] -= x * column[b]


@compiled
def _best_quadratic(lens: Lens, p: Floats, grad: Floats, mean: float, bend: Floats, d: Floats) -> None:
    """Maximise ``grad·d - d'Hd/2``, H = A' diag(bend) A, over the steps d (J,) that stay in the simplex.

    Primal active set: solve on the atoms in use, walk there until one runs out of mass, drop it; when none does, take in the
    atom that the multipliers ask for most. Solved for the step, not for where it leads, and with ``mean`` (grad·p) taken off
    the gradient, so that errors vanish with the step.
    """
    u, v, rest, scatter, z = lens.atoms[5], lens.atoms[6], lens.atoms[7], lens.rows[2], lens.rows[3]
    more = lens.atoms[8]
    size, spent = 0, 0.0
    for j in range(p.size):
        d[j] = 0.0
        rest[j] = 0.0  # minus the mass of atoms that were dropped
        lens.slot[j] = -1
        if p[j] > 0.0:
            lens.active[size] = j
            lens.slot[j] = size
            size += 1
    for a in range(size):
        _bend_atom(lens, a + 1, lens.active[a], bend, scatter)
    for _ in range(PIVOTS + 4 * size):
        _factor(lens, size)
        if spent > 0.0:
            through(lens, rest, z)
        for a in range(size):
            j = lens.active[a]
            u[a] = grad[j] - mean
            v[a] = 1.0
            if spent > 0.0:
                for e in range(lens.start[j], lens.start[j + 1]):
                    u[a] -= lens.weight[e] * bend[lens.row[e]] * z[lens.row[e]]
        backsolve(lens.square, size, u)
        backsolve(lens.square, size, v)
        above, below = -spent, 0.0
        for a in range(size):
            above += u[a]
            below += v[a]
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
                d[j] = rest[j] = -p[j]
                spent += p[j]
                lens.slot[j] = -1
            else:
                lens.active[kept] = j
                lens.slot[j] = kept
                kept += 1
        if kept < size:
            size = kept
            continue
        through(lens, d, z)
        for j in range(p.size):
            more[j] = grad[j] - mean - level
        for i in range(bend.size):
            if bend[i] > 0.0:  # few rows were seen when the choice is widest
                for e in range(lens.begin[i], lens.begin[i + 1]):
                    more[lens.atom[e]] -= lens.chance[e] * bend[i] * z[i]
        worst, most = -1, 1e-12 * (abs(mean) + 1.0)
        for j in range(p.size):
            if lens.slot[j] < 0 and more[j] > most:
                worst, most = j, more[j]
        if worst < 0:
            return
        lens.active[size] = worst
        lens.slot[worst] = size
        spent = max(spent + rest[worst], 0.0)
        rest[worst] = 0.0
        size += 1
        _bend_atom(lens, size, worst, bend, scatter)


@compiled
def climb(lens: Lens, n: Floats, g: Floats, theta: float, tolerance: float, p: Floats, z: Floats) -> float:
    """Maximise ``L(p) + theta g·p`` from p, in place; leaves ``z = A p`` and the gradient in ``lens.atoms[0]``.

    Returns how much better any other law could be: at most ``tolerance``, or what rounding allows.
    """
    grad, d, bend, dz = lens.atoms[0], lens.atoms[1], lens.rows[0], lens.rows[1]
    spread(lens, n, p, z)
    total = 0.0
    for i in range(n.size):
        total += n[i]
    gap = np.inf
    for _ in range(STEPS):
        for i in range(n.size):
            dz[i] = n[i] / z[i] if n[i] > 0 else 0.0
            bend[i] = dz[i] / z[i] if n[i] > 0 else 0.0
        most, mean = -np.inf, 0.0
        grad[:] = 0.0
        for i in range(n.size):
            if n[i] > 0:
                for e in range(lens.begin[i], lens.begin[i + 1]):
                    grad[lens.atom[e]] += lens.chance[e] * dz[i]
        for j in range(p.size):
            grad[j] += theta * g[j]
            most = max(most, grad[j])
            mean += p[j] * grad[j]
        before, gap = gap, most - mean
        if gap <= tolerance or (gap <= 1e-10 * (total + theta) and gap > 0.5 * before):
            return gap
        _best_quadratic(lens, p, grad, mean, bend, d)
        through(lens, d, dz)
        rise, tilt, step = 0.0, 0.0, 1.0
        for j in range(p.size):
            rise += (grad[j] - mean) * d[j]
            tilt += theta * g[j] * d[j]
        for i in range(n.size):
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
        mass = 0.0
        for j in range(p.size):
            p[j] = max(p[j] + step * d[j], 0.0)
            if p[j] < 1e-15 and d[j] < 0.0:
                p[j] = 0.0
            mass += p[j]
        for j in range(p.size):
            p[j] /= mass
        spread(lens, n, p, z)
    return gap


@compiled
def tilt_slope(lens: Lens, n: Floats, g: Floats, p: Floats, z: Floats) -> float:
    """How fast ``g·p`` grows with theta at a maximiser p: ``g' H⁻¹ g`` within the simplex, on the atoms that p uses."""
    u, v, bend, scatter = lens.atoms[5], lens.atoms[6], lens.rows[0], lens.rows[2]
    size, middle = 0, 0.0
    for i in range(n.size):
        bend[i] = n[i] / (z[i] * z[i]) if n[i] > 0 else 0.0
    for j in range(p.size):
        if p[j] > 0.0:
            lens.active[size] = j
            size += 1
            middle += g[j] * p[j]
    for a in range(size):
        _bend_atom(lens, a + 1, lens.active[a], bend, scatter)
    _factor(lens, size)
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
        out += (g[lens.active[a]] - middle) * (u[a] - above / below * v[a])
    return out


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
