r"""The shape of the posterior of p, the law of X on J atoms, given how often each arm paid each of its rewards. Compiled.

Prior Dirichlet(alpha, ..., alpha), likelihood :math:`\prod_i (A p)_i^{n_i}` over the rows i of the channels. ``prepare``
finds, from the counts alone, along which lines ``sampler`` walks:

*Collapse.* Atoms whose columns agree on every row seen so far are told apart by nothing but the prior: within such a group
the shares are Dirichlet(alpha) exactly, drawn afresh, and the chain walks over the groups' masses q alone, whose prior
exponents are a = alpha times the group's size. What one arm cannot see is so sampled over its whole range at once.

*Conjugate directions.* The centre c is the argmax of :math:`\sum n_i \log (B q)_i + \sum a_g \log q_g` (B: one column for
each group), the mean of q wherever the posterior is a Dirichlet or a gamma law, and H its negative Hessian on the plane of
constant sum. With H = U'U the columns of the inverse of U, atoms in ascending order of c, are directions of unit scale: long
where the counts say little, of the order 1/sqrt(n) where they say much. In a normal law one sweep over these G - 1
directions forgets the start entirely. They depend on the counts alone, so every move leaves the posterior as it is.

The workspace is one float64 array of ``workspace_size(J, R)``, zeros at first:

========  ==========  ==========================================================================
head      HEAD        groups G, rows kept, terms, alpha (0: not prepared)
group     J           the group of each atom
size      J           atoms in each group (of G)
first     J           the first atom of each group, whose column stands for all
order     J           groups by ascending centre; the last is the one that balances the others
a, c, q   3 J         prior exponents, centre, the chain's masses
term      J           where the group's prior term stands among the terms, or -1 (exponent 1: none)
place     R           the row among the rows kept; -1: never seen; -2: the same at every atom, so no evidence
kept      R           the rows kept
seen      R           the counts that were prepared for
w, z, r   4 (R + J)   terms: weights, values, pairs of slope and weight. Rows kept first, then groups with a != 1
buffer    R + 4 J     scratch
U         J J         the factor of H, later its inverse
D         J J         directions, one in a row
V         J (R + J)   slopes of the terms along each direction
========  ==========  ==========================================================================
"""

from __future__ import annotations

import math

from headwater.arrays import Floats, Ints
from headwater.policies.compile import compiled, inlined

__all__ = [
    "GROUPS",
    "HEAD",
    "ROWS",
    "SMALLEST",
    "TERMS",
    "Sparse",
    "offsets",
    "prepare",
    "prepared_counts",
    "stale",
    "values",
    "workspace_size",
]

GROUPS, ROWS, TERMS, ALPHA, HEAD = range(5)
UNSEEN, CONSTANT = -1.0, -2.0
GROWTH, SLACK = 1.5, 2.0  # prepare again when a row's count has grown by this factor and this number
NEWTON_STEPS, EM_STEPS = 60, 20
DECREMENT = 1e-4  # the centre may be off by a hundredth of a standard deviation
SMALLEST = 1e-300


def workspace_size(atoms: int, rows: int) -> int:
    """Floats that ``prepare`` and ``walk`` need: about 3 J^2 + J R."""
    return HEAD + 16 * atoms + 8 * rows + atoms * (3 * atoms + rows)


Sparse = tuple[Ints, Ints, Floats, Floats, Floats]
"""B: start, row and weight of the atoms' columns, the place of each row, and the first atom of each group."""


def prepared_counts(work: Floats, atoms: int, rows: int) -> Floats:
    """The counts (R,) that the workspace was prepared for; zeros before the first time."""
    _, terms, *_ = offsets.py_func(atoms, rows)  # type: ignore[attr-defined]
    return work[terms - rows : terms]


@inlined
def offsets(atoms: int, rows: int) -> tuple[int, int, int, int]:
    """Where place, w, buffer and U begin. Rows are then indexed, not unpacked: unpacked, numba forgets they are contiguous."""
    place = HEAD + 8 * atoms
    terms = place + 3 * rows
    buffer = terms + 4 * (rows + atoms)
    return place, terms, buffer, buffer + rows + 4 * atoms


@compiled
def stale(start: Ints, n: Floats | Ints, alpha: float, work: Floats) -> bool:
    """Whether ``prepare`` must run before a walk: a row was seen for the first time, or its count grew by half. O(R)."""
    if work[ALPHA] != alpha:
        return True
    _, o_terms, _, _ = offsets(start.size - 1, n.size)
    seen = work[o_terms - n.size : o_terms]
    # a loop, because numba has no any() of a generator
    for i in range(n.size):
        first = seen[i] == 0.0 and n[i] > 0
        if first or n[i] < seen[i] or n[i] > GROWTH * seen[i] + SLACK:
            return True
    return False


@compiled
def _place_rows(start: Ints, row: Ints, weight: Floats, n: Floats | Ints, place: Floats, kept: Floats, least: Floats) -> int:
    """Number the rows that are evidence: seen, and not of one probability everywhere. Returns how many. O(R + nnz)."""
    atoms = start.size - 1
    for i in range(n.size):
        place[i] = 0.0
        least[i] = -1.0
    for j in range(start[atoms]):  # place counts the atoms whose weight is that of the row's first one
        i = row[j]
        if least[i] < 0.0:
            least[i] = weight[j]
        if weight[j] == least[i]:
            place[i] += 1.0
    rows = 0
    for i in range(n.size):
        if n[i] <= 0:
            place[i] = UNSEEN
        elif place[i] == atoms or place[i] == 0.0:  # or nowhere possible, which no p explains
            place[i] = CONSTANT
        else:
            place[i] = rows
            kept[rows] = i
            rows += 1
    return rows


@compiled
def _same_evidence(one: int, other: int, start: Ints, row: Ints, weight: Floats, place: Floats) -> bool:
    """Whether two atoms' columns agree on the rows kept. O(their length)."""
    e, f = start[one], start[other]
    while True:
        while e < start[one + 1] and place[row[e]] < 0.0:
            e += 1
        while f < start[other + 1] and place[row[f]] < 0.0:
            f += 1
        if e == start[one + 1] or f == start[other + 1]:
            return bool(e == start[one + 1] and f == start[other + 1])
        if row[e] != row[f] or weight[e] != weight[f]:
            return False
        e += 1
        f += 1


@compiled
def _group_atoms(
    start: Ints, row: Ints, weight: Floats, place: Floats, group: Floats, size: Floats, first: Floats, mark: Floats
) -> int:
    """Put atoms of the same evidence into one group; returns how many groups. O(nnz + J G), by a hash of each column first."""
    groups = 0
    for j in range(start.size - 1):
        total = 0.0
        for e in range(start[j], start[j + 1]):
            if place[row[e]] >= 0.0:
                total += weight[e] * math.sqrt(row[e] + 2.0)
        g = 0
        while g < groups and not (mark[g] == total and _same_evidence(j, int(first[g]), start, row, weight, place)):
            g += 1
        if g == groups:
            mark[g], first[g], size[g] = total, j, 0.0
            groups += 1
        group[j] = g
        size[g] += 1.0
    return groups


@compiled
def values(groups: int, sparse: Sparse, q: Floats, z: Floats) -> None:
    """z = B q, for the rows kept; z holds zeros before. O(nnz)."""
    start, row, weight, place, first = sparse
    for g in range(groups):
        j = int(first[g])
        for e in range(start[j], start[j + 1]):
            i = int(place[row[e]])
            if i >= 0:
                z[i] += weight[e] * q[g]


@compiled
def _slope(groups: int, sparse: Sparse, rate: Floats, out: Floats) -> None:
    """out = B' rate. O(nnz)."""
    start, row, weight, place, first = sparse
    for g in range(groups):
        j = int(first[g])
        total = 0.0
        for e in range(start[j], start[j + 1]):
            i = int(place[row[e]])
            if i >= 0:
                total += weight[e] * rate[i]
        out[g] = total


@compiled
def _hessian(
    groups: int, rows: int, sparse: Sparse, order: Floats, bend: Floats, dense: Floats, h: Floats, out: Floats
) -> None:
    """The upper triangle of the negative Hessian on the plane of constant sum, the last group in order balancing the others.

    ``out[i, l]`` for the i-th and l-th group in order; ``bend``: w / z^2 of the rows; ``h`` (J,): a / c^2 of the groups, in
    order; ``dense`` (R,) is scratch. O(G nnz).
    """
    start, row, weight, place, first = sparse
    last = groups - 1
    for step in range(groups):
        at = last if step == 0 else step - 1  # the balancing group's row in full, first
        j = int(first[int(order[at])])
        for i in range(rows):
            dense[i] = 0.0
        for e in range(start[j], start[j + 1]):
            i = int(place[row[e]])
            if i >= 0:
                dense[i] = weight[e] * bend[i]
        for other in range(at if step else 0, groups):
            j = int(first[int(order[other])])
            total = 0.0
            for e in range(start[j], start[j + 1]):
                i = int(place[row[e]])
                if i >= 0:
                    total += weight[e] * dense[i]
            out[at, other] = total
        out[at, at] += h[at]
    for at in range(last):
        for other in range(at, last):
            out[at, other] += out[last, last] - out[last, at] - out[last, other]


@compiled
def _factor(m: int, least: Floats, u: Floats) -> None:
    """Cholesky, in place: the upper triangle of a positive definite matrix becomes U with U'U equal to it. O(m^3).

    ``least``: bounds that the squared pivots have in exact arithmetic (the prior's part, a / c^2), kept against rounding.
    """
    for k in range(m):
        u[k, k] = root = math.sqrt(max(u[k, k], least[k]))
        for i in range(k + 1, m):
            u[k, i] /= root
        for i in range(k + 1, m):
            x = u[k, i]
            if x != 0.0:
                for col in range(i, m):
                    u[i, col] -= x * u[k, col]


@compiled
def _solve(m: int, u: Floats, x: Floats) -> None:
    """x becomes the solution of U'U y = x. O(m^2)."""
    for k in range(m):
        x[k] /= u[k, k]
        for i in range(k + 1, m):
            x[i] -= u[k, i] * x[k]
    for k in range(m - 1, -1, -1):
        for i in range(k + 1, m):
            x[k] -= u[k, i] * x[i]
        x[k] /= u[k, k]


@compiled
def _invert(m: int, u: Floats, scratch: Floats) -> None:
    """U becomes its inverse. O(m^3)."""
    for k in range(m - 1, -1, -1):
        scale = 1.0 / u[k, k]
        for col in range(k + 1, m):
            scratch[col] = 0.0
        for i in range(k + 1, m):
            x = u[k, i] * scale
            if x != 0.0:
                for col in range(i, m):
                    scratch[col] -= x * u[i, col]
        for col in range(k + 1, m):
            u[k, col] = scratch[col]
        u[k, k] = scale


@compiled
def _objective(groups: int, rows: int, a: Floats, w: Floats, q: Floats, z: Floats) -> float:
    total = 0.0
    for i in range(rows):
        total += w[i] * math.log(z[i])
    for g in range(groups):
        total += a[g] * math.log(q[g])
    return total


@compiled
def _sort_groups(groups: int, c: Floats, order: Floats) -> None:
    """Groups by ascending centre: insertion sort of what is nearly in order. O(G^2) at worst."""
    for i in range(1, groups):
        g, k = order[i], i
        while k > 0 and c[int(order[k - 1])] > c[int(g)]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = g


@compiled
def _expect(
    groups: int, rows: int, sparse: Sparse, a: Floats, w: Floats, z: Floats, rate: Floats, slope: Floats, c: Floats
) -> None:
    """Steps of EM towards the centre: cheap ones from far away, before Newton's exact ones. O(nnz) each."""
    for _ in range(EM_STEPS):
        z[:rows] = 0.0
        values(groups, sparse, c, z)
        for i in range(rows):
            rate[i] = w[i] / z[i]
        _slope(groups, sparse, rate, slope)
        mass = 0.0
        for g in range(groups):
            c[g] = c[g] * slope[g] + a[g]
            mass += c[g]
        for g in range(groups):
            c[g] /= mass


@compiled
def _search(
    groups: int,
    rows: int,
    sparse: Sparse,
    order: Floats,
    a: Floats,
    w: Floats,
    z: Floats,
    gain: float,
    step: Floats,
    trial: Floats,
    c: Floats,
) -> None:
    """Move the centre along ``step`` (in order, the last balancing), as far as the objective rises enough and c stays inside.

    ``gain`` is the rise that the slope promises for a whole step; z are the values at c.
    """
    m = groups - 1
    step[m] = 0.0
    for i in range(m):
        step[m] -= step[i]
    s = 1.0
    for i in range(groups):
        if step[i] < 0.0:
            s = min(s, -0.95 * c[int(order[i])] / step[i])
    before = _objective(groups, rows, a, w, c, z)
    for _ in range(40):
        for i in range(groups):
            trial[int(order[i])] = c[int(order[i])] + s * step[i]
        z[:rows] = 0.0
        values(groups, sparse, trial, z)
        if _objective(groups, rows, a, w, trial, z) >= before + 0.1 * s * gain:
            break
        s *= 0.5
    mass = 0.0
    for g in range(groups):
        mass += trial[g]
    for g in range(groups):
        c[g] = trial[g] / mass


@compiled
def prepare(start: Ints, row: Ints, weight: Floats, n: Floats | Ints, alpha: float, work: Floats) -> int:
    """Groups, centre and directions for these counts, into the workspace; returns Newton's steps.

    A function of the counts and alpha alone. O(J^3 + J nnz) for each step, of which there are mostly fewer than 10.
    """
    atoms, r_all = start.size - 1, n.size
    o_place, o_terms, o_buffer, o_square = offsets(atoms, r_all)
    part = work[HEAD:o_place].reshape((8, atoms))
    group, size, first, order, a, c = part[0], part[1], part[2], part[3], part[4], part[5]
    part = work[o_place:o_terms].reshape((3, r_all))
    place, kept, seen = part[0], part[1], part[2]
    part = work[o_terms:o_buffer].reshape((4, r_all + atoms))
    w, z, rate, bend = part[0], part[1], part[2], part[3]
    dense = work[o_buffer : o_buffer + r_all]
    part = work[o_buffer + r_all : o_square].reshape((4, atoms))
    slope, h, step, trial = part[0], part[1], part[2], part[3]
    u = work[o_square : o_square + atoms * atoms].reshape((atoms, atoms))
    rows = _place_rows(start, row, weight, n, place, kept, dense)
    groups = _group_atoms(start, row, weight, place, group, size, first, slope)
    sparse = (start, row, weight, place, first)
    work[GROUPS], work[ROWS], work[ALPHA] = groups, rows, alpha
    for i in range(r_all):
        seen[i] = n[i]
    for i in range(rows):
        w[i] = n[int(kept[i])]
    for g in range(groups):
        a[g], c[g], order[g] = alpha * size[g], size[g] / atoms, g
    _expect(groups, rows, sparse, a, w, z, rate, slope, c)
    m, iterations = groups - 1, 0
    while iterations < NEWTON_STEPS:
        iterations += 1
        _sort_groups(groups, c, order)
        z[:rows] = 0.0
        values(groups, sparse, c, z)
        for i in range(rows):
            rate[i] = w[i] / z[i]
            bend[i] = rate[i] / z[i]
        _slope(groups, sparse, rate, slope)
        for i in range(groups):
            g = int(order[i])
            slope[g] += a[g] / c[g]
            h[i] = a[g] / (c[g] * c[g])
        _hessian(groups, rows, sparse, order, bend, dense, h, u)
        _factor(m, h, u)
        for i in range(m):
            h[i] = slope[int(order[i])] - slope[int(order[m])]
            step[i] = h[i]
        _solve(m, u, step)
        gain = 0.0
        for i in range(m):
            gain += h[i] * step[i]
        if not gain > DECREMENT:
            break
        _search(groups, rows, sparse, order, a, w, z, gain, step, trial, c)
    _invert(m, u, h)
    _set_directions(sparse, r_all, work)
    return iterations


@compiled
def _set_directions(sparse: Sparse, r_all: int, work: Floats) -> None:
    """The directions, each from a column of the inverse factor, and the slopes of the terms along them. O(G (G + nnz))."""
    atoms = sparse[0].size - 1
    o_place, _, _, o_square = offsets(atoms, r_all)
    part = work[HEAD:o_place].reshape((8, atoms))
    order, a, term = part[3], part[4], part[7]
    square = work[o_square : o_square + 2 * atoms * atoms].reshape((2, atoms, atoms))
    u, d = square[0], square[1]
    v = work[o_square + 2 * atoms * atoms :].reshape((atoms, atoms + r_all))
    groups, rows = int(work[GROUPS]), int(work[ROWS])
    terms = rows
    for g in range(groups):
        term[g] = -1.0
        if a[g] != 1.0:
            term[g] = terms
            terms += 1
    work[TERMS] = terms
    m = groups - 1
    for k in range(m):
        rest = 0.0
        for g in range(groups):
            d[k, g] = 0.0
        for i in range(k + 1):
            d[k, int(order[i])] = u[i, k]
            rest -= u[i, k]
        d[k, int(order[m])] = rest
        for i in range(rows):
            v[k, i] = 0.0
        values(groups, sparse, d[k], v[k])
        for g in range(groups):
            if term[g] >= 0.0:
                v[k, int(term[g])] = d[k, g]
