r"""Draws from the posterior of p, the law of X on J atoms, given how often each arm paid each of its rewards. Compiled.

Prior Dirichlet(alpha, ..., alpha), likelihood :math:`\prod_i (A p)_i^{n_i}` over the rows i of the channels. Three ideas:

*Collapse.* Atoms whose columns agree on every row seen so far are told apart by nothing but the prior: within such a group
the shares are Dirichlet(alpha) exactly, drawn afresh, and the chain walks over the groups' masses q alone, whose prior
exponents are a = alpha times the group's size. What one arm cannot see is so sampled over its whole range at once.

*Conjugate directions.* The centre c is the argmax of :math:`\sum n_i \log (B q)_i + \sum a_g \log q_g` (B: one column for
each group), the mean of q wherever the posterior is a Dirichlet or a gamma law, and H its negative Hessian on the plane of
constant sum. With H = U'U the columns of the inverse of U, atoms in ascending order of c, are directions of unit scale: long
where the counts say little, of the order 1/sqrt(n) where they say much. In a normal law one sweep over these G - 1
directions forgets the start entirely. They depend on the counts alone, so every move leaves the posterior as it is.

*Slices on a line.* Along q + s d a point is drawn by slice sampling (Neal 2003): a bracket of fixed width placed at random,
cut at the simplex, shrunk until a point is accepted. :math:`\sum w_i \log(1 + s r_i)` is read from the power sums of r where
their remainder's bound decides, from logarithms otherwise: the decision is that of the exact sum. Where alpha < 1 the density
is infinite at the ends of the chord: x, the place between them, is then walked through as y with b = 1 / alpha and
x = y^b / (y^b + (1 - y)^b), in which the density is bounded. Below alpha = 1/2, where most of the mass may sit in a few spikes,
every other step moves mass between two groups at random. With alpha at 0.1 and less the chain is still right, but slow.

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

import numpy as np

from headwater import streams
from headwater.arrays import Floats, Ints
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.policies import indices
from headwater.policies.compile import compiled, inlined
from headwater.policies.kernel import uniforms
from headwater.pseudo.channels import Channels

__all__ = ["posterior_draws", "prepare", "prepared_counts", "recommended_steps", "stale", "walk", "workspace_size"]

GROUPS, ROWS, TERMS, ALPHA, HEAD = range(5)
UNSEEN, CONSTANT = -1.0, -2.0
GROWTH, SLACK = 1.5, 2.0  # prepare again when a row's count has grown by this factor and this number
WIDTH = 10.0  # of a bracket, in units of the conditional standard deviation
POOLED = 0.25  # relative slopes below this are read from power sums
SHRINKS = 200  # each halves the bracket or better on average: never met
NEWTON_STEPS, EM_STEPS = 60, 20
DECREMENT = 1e-4  # the centre may be off by a hundredth of a standard deviation
SPARSE = 0.5  # below this alpha, every other step moves mass between two groups, from spike to spike
SMALLEST = 1e-300
BURN_IN = 50  # rounds before the first draw of posterior_draws

_open_unit = inlined(streams.to_open_unit)
_gamma_parameters = compiled(indices.gamma_parameters)
_gamma_candidate = compiled(indices.gamma_candidate)
_quantile = compiled(indices.normal_quantile)


def workspace_size(atoms: int, rows: int) -> int:
    """Floats that ``prepare`` and ``walk`` need: about 3 J^2 + J R."""
    return HEAD + 16 * atoms + 8 * rows + atoms * (3 * atoms + rows)


def recommended_steps(atoms: int) -> int:
    """Steps for each round: about two sweeps.

    The mean reward of any arm is then forgotten in 1 to 2 rounds (integrated autocorrelation time) on the paper's problems, in
    2 to 5 with 50 atoms and in 4 to 14 with 300 or 1,000.
    """
    return 2 * atoms


Sparse = tuple[Ints, Ints, Floats, Floats, Floats]
"""B: start, row and weight of the atoms' columns, the place of each row, and the first atom of each group."""
Stream = tuple[int, int, int, int]
"""Round, replication and the seed's two words."""


def prepared_counts(work: Floats, atoms: int, rows: int) -> Floats:
    """The counts (R,) that the workspace was prepared for; zeros before the first time."""
    _, terms, *_ = _offsets.py_func(atoms, rows)  # type: ignore[attr-defined]
    return work[terms - rows : terms]


@inlined
def _offsets(atoms: int, rows: int) -> tuple[int, int, int, int]:
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
    _, o_terms, _, _ = _offsets(start.size - 1, n.size)
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
def _values(groups: int, sparse: Sparse, q: Floats, z: Floats) -> None:
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
        _values(groups, sparse, c, z)
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
        _values(groups, sparse, trial, z)
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
    o_place, o_terms, o_buffer, o_square = _offsets(atoms, r_all)
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
        _values(groups, sparse, c, z)
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
    o_place, _, _, o_square = _offsets(atoms, r_all)
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
        _values(groups, sparse, d[k], v[k])
        for g in range(groups):
            if term[g] >= 0.0:
                v[k, int(term[g])] = d[k, g]


@compiled
def _power(x: float, b: float) -> float:
    """x^b, quickly for the exponents of alpha = 1/2."""
    if b == 2.0:
        return x * x
    return math.sqrt(x) if b == 0.5 else x**b


@compiled
def _spike(y: float, b: float, a_low: float, a_high: float) -> tuple[float, float, float]:
    """x, 1 - x and the logarithm of x^(a_low - 1) (1 - x)^(a_high - 1) dx/dy, for x = y^b / (y^b + (1 - y)^b)."""
    low, high = _power(y, b), _power(1.0 - y, b)
    value = -(a_low + a_high) * math.log(low + high)
    if a_low * b != 1.0:
        value += (a_low * b - 1.0) * math.log(y)
    if a_high * b != 1.0:
        value += (a_high * b - 1.0) * math.log(1.0 - y)
    return low / (low + high), high / (low + high), value


@compiled
def _unspike(x: float, rest: float, b: float) -> float:
    """The y of an x, ``rest`` being 1 - x; kept off the ends."""
    low, high = _power(x, 1.0 / b), _power(rest, 1.0 / b)
    return min(max(low / (low + high), SMALLEST), 1.0 - 2.0**-53)


@compiled
def _move(
    groups: int,
    terms: int,
    d: Floats,
    v: Floats,
    a: Floats,
    term: Floats,
    q: Floats,
    w: Floats,
    z: Floats,
    r: Floats,
    lane: int,
    stream: Stream,
) -> int:
    """One draw along q + s d; q and z move with it. Returns the next unused lane. O(G + terms), about one logarithm."""
    t, replication, k0, k1 = stream
    low, high, g_low, g_high = -np.inf, np.inf, 0, 0
    for g in range(groups):
        if d[g] > 0.0:
            s = -q[g] / d[g]
            if s > low:
                low, g_low = s, g
        elif d[g] < 0.0:
            s = -q[g] / d[g]
            if s < high:
                high, g_high = s, g
    a_low, a_high = a[g_low], a[g_high]
    spiky = a_low < 1.0 or a_high < 1.0
    t_low, t_high = (int(term[g_low]), int(term[g_high])) if spiky else (-1, -1)
    m1 = m2 = m3 = m4 = m5 = bound = steepest = 0.0
    steep = 0
    for i in range(terms):  # steep slopes to the front of r, in pairs with their weights
        x = v[i] / z[i]
        y = w[i]
        if i in (t_low, t_high):
            continue
        if abs(x) < POOLED:
            y *= x
            m1 += y
            y *= x
            m2 += y
            y *= x
            m3 += y
            y *= x
            m4 += y
            y *= x
            m5 += y
            bound += abs(y * x)
            steepest = max(steepest, abs(x))
        else:
            r[2 * steep] = x
            r[2 * steep + 1] = y
            steep += 1
    m2 *= -1.0 / 2.0
    m3 *= 1.0 / 3.0
    m4 *= -1.0 / 4.0
    m5 *= 1.0 / 5.0
    bound *= 1.0 / 6.0
    one, two = uniforms(t, replication, streams.WALK, lane, k0, k1)
    lane += 1
    level = math.log(_open_unit(one))
    left = -WIDTH * _open_unit(two)
    right = min(left + WIDTH, high)
    left = max(left, low)
    length = high - low
    b = x = rest = y = 0.0
    y_left, y_right, y_now = left, right, 0.0
    if spiky:
        b = 1.0 / min(a_low, a_high)
        y_now = _unspike(-low / length, high / length, b)
        y_left = _unspike((left - low) / length, (high - left) / length, b)
        y_right = _unspike((right - low) / length, (high - right) / length, b)
        level += _spike(y_now, b, a_low, a_high)[2]
    s = 0.0
    for shrink in range(SHRINKS):
        if shrink % 2 == 0:
            one, two = uniforms(t, replication, streams.WALK, lane, k0, k1)
            lane += 1
        else:
            one = two
        y = y_left + (y_right - y_left) * _open_unit(one)
        s, value = y, 0.0
        if spiky:
            x, rest, value = _spike(y, b, a_low, a_high)
            s = low + length * x if x < 0.5 else high - length * rest
        for i in range(steep):
            value += r[2 * i + 1] * math.log(max(1.0 + s * r[2 * i], SMALLEST))
        about = value + s * (m1 + s * (m2 + s * (m3 + s * (m4 + s * m5))))
        s2 = s * s
        slack = (1.0 - abs(s) * steepest) * abs(about - level) - bound * s2 * s2 * s2
        if slack > 0.0 and abs(s) * steepest < 1.0:
            inside = about > level
        else:
            for i in range(terms):
                if i not in (t_low, t_high) and abs(v[i] / z[i]) < POOLED:
                    value += w[i] * math.log(max(1.0 + s * (v[i] / z[i]), SMALLEST))
            inside = value > level
        if inside:
            break
        if y < y_now:
            y_left = y
        else:
            y_right = y
        s = 0.0
    if s == 0.0:
        return lane
    for g in range(groups):
        q[g] = max(q[g] + s * d[g], SMALLEST)
    if spiky:
        q[g_low] = max(d[g_low] * length * x, SMALLEST)
        q[g_high] = max(-d[g_high] * length * rest, SMALLEST)
    for i in range(terms):
        z[i] = max(z[i] + s * v[i], SMALLEST)
    if t_low >= 0:
        z[t_low] = q[g_low]
    if t_high >= 0:
        z[t_high] = q[g_high]
    return lane


@compiled
def _set_pair(groups: int, g: int, h: int, sparse: Sparse, term: Floats, q: Floats, d: Floats, v: Floats) -> None:
    """The direction that moves mass from group h to group g, all they hold being one unit, and the terms' slopes. O(G + R)."""
    d[:groups] = 0.0
    v[:] = 0.0
    d[g] = q[g] + q[h]  # the same all along the line
    d[h] = -d[g]
    start, row, weight, place, first = sparse
    for one in (g, h):
        j = int(first[one])
        for e in range(start[j], start[j + 1]):
            i = int(place[row[e]])
            if i >= 0:
                v[i] += weight[e] * d[one]
        if term[one] >= 0.0:
            v[int(term[one])] = d[one]


@compiled
def _share(alpha: float, p: Floats, rows: int, work: Floats, lane: int, stream: Stream) -> int:
    """Split every group's mass over its atoms by a fresh Dirichlet(alpha). Returns the next unused lane. O(J)."""
    t, replication, k0, k1 = stream
    atoms, groups = p.size, int(work[GROUPS])
    o_place, _, o_buffer, o_square = _offsets(atoms, rows)
    part = work[HEAD:o_place].reshape((8, atoms))
    group, size, q = part[0], part[1], part[6]
    part = work[o_buffer + rows : o_square].reshape((4, atoms))
    top, total = part[0], part[1]
    for g in range(groups):
        top[g], total[g] = -np.inf, 0.0
    d, c = _gamma_parameters(alpha if alpha >= 1.0 else alpha + 1.0)
    for j in range(atoms):  # logarithms of gamma draws, into p
        g = int(group[j])
        if size[g] > 1.0:
            one, two = uniforms(t, replication, streams.WALK, lane, k0, k1)
            lane += 1
            if alpha == 1.0:
                p[j] = math.log(-math.log(_open_unit(one)))
            else:
                x = _gamma_candidate(d, c, _quantile(_open_unit(one)), _open_unit(two))
                while x <= 0.0:
                    one, two = uniforms(t, replication, streams.WALK, lane, k0, k1)
                    lane += 1
                    x = _gamma_candidate(d, c, _quantile(_open_unit(one)), _open_unit(two))
                p[j] = math.log(x)
                if alpha < 1.0:
                    one, two = uniforms(t, replication, streams.WALK, lane, k0, k1)
                    lane += 1
                    p[j] += math.log(_open_unit(one)) / alpha
            top[g] = max(top[g], p[j])
    for j in range(atoms):
        g = int(group[j])
        if size[g] > 1.0:
            p[j] = math.exp(p[j] - top[g])
            total[g] += p[j]
    for j in range(atoms):
        g = int(group[j])
        p[j] = max(q[g] * (p[j] / total[g]), SMALLEST) if size[g] > 1.0 else q[g]
    return lane


@compiled
def walk(
    steps: int,
    start: Ints,
    row: Ints,
    weight: Floats,
    n: Floats | Ints,
    alpha: float,
    p: Floats,
    work: Floats,
    t: int,
    replication: int,
    k0: int,
    k1: int,
) -> int:
    """Advance the chain p (J,) by ``steps`` moves along a line, and draw anew the shares that no count tells apart.

    Its random numbers are those of round t of the stream (seed words k0 and k1, replication): the same call from the same p
    makes the same moves. Prepares the workspace when it is stale. Returns the number of lanes used, about 2 for each
    step and 1 for each atom, which must stay below 2**24. O(nnz + steps (R + J)).
    """
    if stale(start, n, alpha, work):
        prepare(start, row, weight, n, alpha, work)
    atoms, r_all = start.size - 1, n.size
    o_place, o_terms, o_buffer, o_square = _offsets(atoms, r_all)
    part = work[HEAD:o_place].reshape((8, atoms))
    group, first, a, q, term = part[0], part[2], part[4], part[6], part[7]
    part = work[o_place:o_terms].reshape((3, r_all))
    place, kept = part[0], part[1]
    part = work[o_terms : o_terms + 2 * (r_all + atoms)].reshape((2, r_all + atoms))
    w, z = part[0], part[1]
    r = work[o_terms + 2 * (r_all + atoms) : o_buffer]
    d = work[o_square + atoms * atoms : o_square + 2 * atoms * atoms].reshape((atoms, atoms))
    v = work[o_square + 2 * atoms * atoms :].reshape((atoms, atoms + r_all))
    groups, rows, terms = int(work[GROUPS]), int(work[ROWS]), int(work[TERMS])
    q[:groups] = 0.0
    total = 0.0
    for j in range(atoms):
        q[int(group[j])] += p[j]
        total += p[j]
    for g in range(groups):
        q[g] /= total
        if term[g] >= 0.0:
            w[int(term[g])] = a[g] - 1.0
            z[int(term[g])] = q[g]
    for i in range(rows):
        w[i] = n[int(kept[i])]
        z[i] = 0.0
    sparse = (start, row, weight, place, first)
    _values(groups, sparse, q, z)
    m, stream = groups - 1, (t, replication, k0, k1)
    one, _ = uniforms(t, replication, streams.WALK, 0, k0, k1)
    lane, k = m - groups + 2, one % max(m, 1)  # lane 1; the literal would have numba compile every move twice
    for step in range(steps if m > 0 else 0):
        if alpha < SPARSE and step % 2 == 1:
            one, two = uniforms(t, replication, streams.WALK, lane, k0, k1)
            g = one % groups
            h = (g + 1 + two % m) % groups
            _set_pair(groups, g, h, sparse, term, q, d[m], v[m])
            lane = _move(groups, terms, d[m], v[m], a, term, q, w, z, r, lane + 1, stream)
            continue
        lane = _move(groups, terms, d[k], v[k], a, term, q, w, z, r, lane, stream)
        k = k + 1 if k + 1 < m else 0
    return _share(alpha, p, r_all, work, lane, stream)


def posterior_draws(
    channels: Channels, counts: Ints, *, alpha: float = 1.0, draws: int, thin: int | None = None, seed: int = 0
) -> Floats:
    """Draws of p, shape (draws, J), from its posterior given ``counts`` (R,) of the channels' rows.

    The chain starts at the centre, is burnt in, and keeps every ``thin``-th step (by default enough for nearly independent
    draws).

    >>> import headwater as hw
    >>> from headwater.pseudo.channels import channels_of
    >>> ads = hw.Problem(latent=hw.Discrete(["a", "b", "c"]), arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]})
    >>> p = posterior_draws(channels_of(ads), np.array([300, 700, 0, 0]), draws=1000)
    >>> p.shape, [round(float(x), 1) for x in (p[:, 0].mean(), p[:, 1].min(), p[:, 1].max())]
    ((1000, 3), [0.3, 0.0, 0.7])
    """
    atoms, rows = len(channels.start) - 1, int(channels.offset[-1])
    n = np.asarray(counts)
    if n.shape != (rows,) or n.dtype.kind not in "iu" or (n < 0).any():
        raise ProblemError(f"counts: got {shown(n)}; expected {rows} whole numbers >= 0, one for each row of the channels")
    if not (0 < alpha < math.inf):
        raise ProblemError(f"alpha: got {shown(alpha)}; expected a number > 0")
    thin = recommended_steps(atoms) * 4 if thin is None else thin
    if draws < 0 or thin < 1:
        raise ProblemError(f"draws, thin: got {draws}, {thin}; expected draws >= 0 and thin >= 1")
    k0, k1 = streams.seed_words(seed)
    n, work = n.astype(np.int64), np.zeros(workspace_size(atoms, rows))
    prepare(channels.start, channels.row, channels.weight, n, float(alpha), work)
    group, size = work[HEAD : HEAD + 2 * atoms].reshape((2, atoms)).astype(np.int64)
    p = work[HEAD + 5 * atoms : HEAD + 6 * atoms][group] / size[group]
    out = np.empty((draws, atoms))
    arguments = (channels.start, channels.row, channels.weight, n, float(alpha))
    for t in range(BURN_IN):
        walk(recommended_steps(atoms), *arguments, p, work, t, 0, k0, k1)
    _fill(thin, *arguments, p, work, 0, k0, k1, out)
    return out


@compiled
def _fill(
    thin: int,
    start: Ints,
    row: Ints,
    weight: Floats,
    n: Floats | Ints,
    alpha: float,
    p: Floats,
    work: Floats,
    replication: int,
    k0: int,
    k1: int,
    out: Floats,
) -> None:
    for i in range(len(out)):
        walk(thin, start, row, weight, n, alpha, p, work, BURN_IN + i, replication, k0, k1)
        out[i] = p
