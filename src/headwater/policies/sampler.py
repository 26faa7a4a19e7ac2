r"""Draws from the posterior of p, the law of X on J atoms, given how often each arm paid each of its rewards. Compiled.

``centre`` says which atoms count as one and along which directions to walk; here is the walk.

*Slices on a line.* Along q + s d a point is drawn by slice sampling (Neal 2003): a bracket of fixed width placed at random,
cut at the simplex, shrunk until a point is accepted. :math:`\sum w_i \log(1 + s r_i)` is read from the power sums of r where
their remainder's bound decides, from logarithms otherwise: the decision is that of the exact sum. Where alpha < 1 the density
is infinite at the ends of the chord: x, the place between them, is then walked through as y with b = 1 / alpha and
x = y^b / (y^b + (1 - y)^b), in which the density is bounded. Below alpha = 1/2, where most of the mass may sit in a few spikes,
every other step moves mass between two groups at random. With alpha at 0.1 and less the chain is still right, but slow.
"""

from __future__ import annotations

import math

import numpy as np

from headwater import streams
from headwater.arrays import Floats, Ints
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.policies import indices
from headwater.policies.centre import (
    GROUPS,
    HEAD,
    ROWS,
    SMALLEST,
    TERMS,
    Sparse,
    offsets,
    prepare,
    stale,
    values,
    workspace_size,
)
from headwater.policies.compile import compiled, inlined
from headwater.policies.kernel import uniforms
from headwater.policies.vectors import put
from headwater.pseudo.channels import Channels

__all__ = ["posterior_draws", "recommended_steps", "walk"]

WIDTH = 10.0  # of a bracket, in units of the conditional standard deviation
POOLED = 0.25  # relative slopes below this are read from power sums
SHRINKS = 200  # each halves the bracket or better on average: never met
SPARSE = 0.5  # below this alpha, every other step moves mass between two groups, from spike to spike
BURN_IN = 50  # rounds before the first draw of posterior_draws

Stream = tuple[int, int, int, int]
"""Round, replication and the seed's two words."""


_open_unit = inlined(streams.to_open_unit)
_gamma_parameters = compiled(indices.gamma_parameters)
_gamma_candidate = compiled(indices.gamma_candidate)
_quantile = compiled(indices.normal_quantile)


def recommended_steps(atoms: int) -> int:
    """Steps for each round: about two sweeps.

    The mean reward of any arm is then forgotten in 1 to 2 rounds (integrated autocorrelation time) on the paper's problems, in
    2 to 5 with 50 atoms and in 4 to 14 with 300 or 1,000.
    """
    return 2 * atoms


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
    o_place, _, o_buffer, o_square = offsets(atoms, rows)
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
    o_place, o_terms, o_buffer, o_square = offsets(atoms, r_all)
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
    values(groups, sparse, q, z)
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
        put(p, out[i])
