r"""The Graves-Lai exploration rates at an estimated law of X, compiled: what the policy ``graves-lai`` tracks.

Arm k is a channel :math:`A_k`, p a law of X, O the best arms under it, :math:`\Delta_k` the gaps. The rates solve

.. math::
    C = \min_{c \ge 0} \sum_{k \notin O} c_k \Delta_k \quad\text{such that}\quad
        \sum_{k \notin O} c_k \,\mathrm{KL}(A_k p \,\|\, A_k q) \ge 1 \text{ for every confusing } q,

where q is confusing when :math:`A_k q = A_k p` for the best arms and some other arm :math:`\ell` draws level with them under q.
In place of cutting planes: the dual is one smooth convex programme. With a measure :math:`Q_\ell = w_\ell q_\ell` of mass
:math:`w_\ell` for every arm :math:`\ell` that can draw level,

.. math::
    C = \max_{Q \ge 0} \sum_\ell w_\ell \quad\text{such that}\quad
        G_k(Q) = \sum_\ell w_\ell \,\mathrm{KL}(A_k p \,\|\, A_k Q_\ell / w_\ell) \le \Delta_k,
        \qquad (A_i - (A_i p) 1^\top) Q_\ell = 0 \;(i \in O), \quad (g_\ell - g_{k^*})^\top Q_\ell = 0.

A logarithmic barrier with parameter t is minimised by a primal-dual Newton method, each step taken relative to Q so that
entries may vanish; the blocks :math:`\ell` are coupled by the K slacks alone, so that a step costs O(K J³ + K² J²). Their
multipliers are the rates, :math:`c_k = 1 / (t (\Delta_k - G_k))` on the central path. They are certified whatever was
rounded: :math:`f_\ell(Q) = \sum_k c_k G_k` is convex and homogeneous, so that with its gradient u at any Q and any multipliers
:math:`\lambda` of the equations E, :math:`F_\ell(c) \ge \min_j (u - E^\top \lambda)_j`. Dividing c by the least of these makes
it feasible; the masses bound its cost from below.

p may lie on the simplex's edge: it is mixed with ``MIXED`` of the uniform law first, so that every law near it is reachable.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies.compile import allocating
from headwater.policies.divergence import curvature, gradients, pays, used
from headwater.policies.faces import factor, independent, reach, scaled
from headwater.policies.vectors import backsolve, put

__all__ = ["NOTHING", "SOLVED", "STALLED", "rates", "workspace_size"]

SOLVED, NOTHING, STALLED = range(3)
"""What :func:`rates` returns: c is optimal; no arm needs to be explored, c = 0; or rounding got in the way."""

TIED = 1e-9
"""Arms whose means differ by less than this part of the range of all rewards are best together."""
MIXED = 1e-9
ACCURACY = 5e-4
"""The relative gap between certified rates and the bound below them at which the barrier stops; t rises to ``CENTRED``."""
CENTRED = 2e-4
LOST = 3
STEPS = 200


class _Space(NamedTuple):
    """The programme and what is worked on, as views of one array. L arms are not best, n = J points, N rows in their channels.

    ``channel`` (N, n) with each row's arm ``owner`` and probability ``law``; ``gap`` (L,); ``rows``: the equations that all
    faces share, with room for one more; ``h`` (L, n): the arm's mean less the best's, one row for each face found. For each
    face: ``q`` the measure, ``trial`` another, ``pay`` (N) and ``mass`` what it pays, ``b`` (L, n) the gradients of G relative
    to Q, ``solved`` (L + 1, n) and ``nu`` the steps and multipliers, ``size`` the lengths of its equations. ``line``: vectors
    of room for n or L; 2 to 5 are beta and the rates proposed, the cheapest rates so far, the rates c, and 1 / (t c).
    """

    channel: Floats
    owner: Floats
    law: Floats
    gap: Floats
    rows: Floats
    h: Floats
    q: Floats
    trial: Floats
    pay: Floats
    mass: Floats
    slack: Floats
    fresh: Floats
    b: Floats
    solved: Floats
    nu: Floats
    size: Floats
    unit: Floats
    more: Floats
    hessian: Floats
    gram: Floats
    system: Floats
    line: Floats


@allocating
def workspace_size(count: int, points: int, rows: int) -> int:
    """How many float64 :func:`rates` needs for K arms, J points and N channel rows: O(K N + N J + K² J + J²).

    >>> workspace_size(3, 5, 11)
    763
    """
    arms, n, wide = count, points, points + 4
    shared = 2 * rows * n + 3 * rows + wide * n + n + arms
    faces = arms * (3 * n + rows + arms * n + (arms + 1) * (n + wide) + wide)
    return shared + faces + 4 * arms + 4 * wide * n + arms * arms + 6 * (n + arms)


@allocating
def _block(
    hessian: Floats,
    unit: Floats,
    count: int,
    gradient: Floats,
    right: Floats,
    solved: Floats,
    nu: Floats,
    more: Floats,
    gram: Floats,
) -> None:
    """Solve M d + unit' nu = -v, unit d = -e for v the gradient (with e = unit 1: back onto the face) and each of ``right``.

    Fills ``solved[0], nu[0]`` for the gradient and ``solved[1 + k], nu[1 + k]`` (with e = 0) for ``right[k]``.
    """
    n = gradient.size
    factor(hessian, n)
    for i in range(count):
        put(unit[i], more[i, :n])
        backsolve(hessian, n, more[i, :n])
        for m in range(i + 1):
            gram[i, m] = np.dot(unit[m], more[i, :n])
    factor(gram, count)
    for k in range(right.shape[0] + 1):
        d, v = solved[k], nu[k, :count]
        for x in range(n):
            d[x] = -gradient[x] if k == 0 else -right[k - 1, x]
        backsolve(hessian, n, d)
        for i in range(count):
            v[i] = np.dot(unit[i], d)
            if k == 0:
                v[i] += np.sum(unit[i])
        backsolve(gram, count, v)
        for i in range(count):
            for x in range(n):
                d[x] -= v[i] * more[i, x]


@allocating
def _couple(b: Floats, solved: Floats, nu: Floats, metric: Floats, faces: int, system: Floats, beta: Floats) -> None:
    """Add to each face's step its answer to the slacks, which alone couple the faces: (s / tc - B d) beta = B d0.

    Leaves the whole step in ``solved[f, 0]`` and the multipliers in ``nu[f, 0]``.
    """
    size = metric.size
    for k in range(size):
        beta[k] = 0.0
        for m in range(k + 1):
            system[k, m] = metric[k] if k == m else 0.0
        for f in range(faces):
            beta[k] += np.dot(b[f, k], solved[f, 0])
            for m in range(k + 1):
                system[k, m] -= np.dot(b[f, k], solved[f, 1 + m])
    factor(system, size)
    backsolve(system, size, beta)
    for f in range(faces):
        for k in range(size):
            for x in range(b.shape[2]):
                solved[f, 0, x] += beta[k] * solved[f, 1 + k, x]
            for i in range(nu.shape[2]):
                nu[f, 0, i] += beta[k] * nu[f, 1 + k, i]


@allocating
def _slacks(s: _Space, q: Floats, faces: int, slack: Floats) -> float:
    """Fill ``pay``, ``mass`` and ``slack`` = gap - G(Q); returns the least slack as a part of its gap."""
    slack[:] = 0.0
    for f in range(faces):
        s.mass[f] = pays(s.channel, q[f], s.pay[f])
        used(s.owner, s.law, s.pay[f], s.mass[f], slack)
    least = math.inf
    for k in range(slack.size):
        slack[k] = s.gap[k] - slack[k]
        least = min(least, slack[k] / s.gap[k])
    return least


@allocating
def _direction(s: _Space, count: int, faces: int, t: float) -> float:
    """Newton's step from Q, relative to it, into ``solved[:, 0]``; returns the squared decrement: what it promises, doubled."""
    n, gradient, reach = s.q.shape[1], s.line[0], s.line[5, : s.gap.size]
    for k in range(s.gap.size):
        reach[k] = 1 / (t * s.line[4, k])
    for f in range(faces):
        q = s.q[f]
        put(s.h[f], s.rows[count])
        scaled(s.rows, count + 1, q, s.unit, s.size[f])
        gradients(s.channel, s.owner, s.law, s.pay[f], s.mass[f], s.b[f])
        for x in range(n):
            gradient[x] = -t * q[x] - 1
        for k in range(s.gap.size):
            for x in range(n):
                s.b[f, k, x] *= q[x]
                gradient[x] += s.b[f, k, x] / s.slack[k]
        put(gradient[:n], s.trial[f])
        curvature(s.channel, s.owner, s.law, s.pay[f], s.mass[f], reach, q, s.line[1, :n], s.hessian)
        _block(s.hessian, s.unit, count + 1, s.trial[f], s.b[f], s.solved[f], s.nu[f], s.more, s.gram)
    for k in range(s.gap.size):
        s.fresh[k] = s.slack[k] * reach[k]
    _couple(s.b, s.solved, s.nu, s.fresh, faces, s.system, s.line[2])
    down = 0.0
    for f in range(faces):
        down -= np.dot(s.trial[f], s.solved[f, 0])
    return down


@allocating
def _change(s: _Space, faces: int, t: float, step: float) -> float:
    """How the barrier changes with Q (1 + step d), which goes to ``trial`` and its slacks to ``fresh``.

    Infinite where a slack would lose most of what it has: close to their edge, the path would be slow to follow.
    """
    change, mass = 0.0, 0.0
    for f in range(faces):
        for x in range(s.q.shape[1]):
            s.trial[f, x] = s.q[f, x] * (1 + step * s.solved[f, 0, x])
            mass += s.q[f, x] * step * s.solved[f, 0, x]
            change -= math.log1p(step * s.solved[f, 0, x])
    _slacks(s, s.trial, faces, s.fresh)
    for k in range(s.gap.size):
        if not s.fresh[k] > 0.2 * s.slack[k]:
            return math.inf
        change -= math.log(s.fresh[k] / s.slack[k])
    return change - t * mass


@allocating
def _descend(s: _Space, faces: int, t: float, down: float) -> bool:
    """Move Q along the step until the barrier has fallen enough, with ``pay``, ``mass`` and ``slack``; False if it will not.

    Entries that start near 0 at most double in a whole step: longer ones are tried.
    """
    shrink, grow = 0.0, 0.0
    for f in range(faces):
        for x in range(s.q.shape[1]):
            shrink, grow = max(shrink, -s.solved[f, 0, x]), max(grow, s.solved[f, 0, x])
    most = 0.95 / max(shrink, 1e-300)
    step = min(1.0, most)
    change = _change(s, faces, t, step)
    enough = math.inf if max(shrink, grow) < 0.05 else 1e-6  # so near, Newton's step is right and the change is all rounding
    while not change < -0.1 * step * down + enough:
        step *= 0.5
        if step < 1e-12:
            return False
        change = _change(s, faces, t, step)
    if step == 1:
        while 4 * step < most:
            further = _change(s, faces, t, 4 * step)
            if not further < change - 0.1:
                break
            step, change = 4 * step, further
        _change(s, faces, t, step)
    for f in range(faces):
        put(s.trial[f], s.q[f])
    put(s.fresh, s.slack)
    return True


@allocating
def _certificate(s: _Space, count: int, faces: int, t: float) -> float:
    """A lower bound of min_ell F_ell at the rates Newton's step proposes: the least entry of u - E' lam over the faces.

    Those rates, (1 / slack + beta) / t, are left in ``line[2]``.
    """
    least, rate = math.inf, s.line[2]
    for k in range(s.gap.size):
        rate[k] = max((1 / s.slack[k] + rate[k]) / t, 0.1 * s.line[4, k])
    for f in range(faces):
        for x in range(s.q.shape[1]):
            u = s.h[f, x] * s.nu[f, 0, count] / s.size[f, count]
            for i in range(count):
                u += s.rows[i, x] * s.nu[f, 0, i] / s.size[f, i]
            u /= t
            for k in range(s.gap.size):
                u += rate[k] * s.b[f, k, x] / s.q[f, x]
            least = min(least, u)
    return least


@allocating
def _optimise(s: _Space, count: int, faces: int) -> int:
    """Follow the central path until certified rates cost little more than the masses prove; the cheapest go to ``fresh``."""
    _slacks(s, s.q, faces, s.slack)
    barriers = faces * s.q.shape[1] + s.gap.size
    t, least_cost, status = 0.03 * barriers / np.sum(s.mass[:faces]), math.inf, STALLED  # from well inside
    rate, kept, dual = s.line[2], s.line[3], s.line[4]
    for k in range(s.gap.size):
        dual[k] = 1 / (t * s.slack[k])
    for _ in range(STEPS):
        lower = np.sum(s.mass[:faces])
        down = _direction(s, count, faces, t)
        certificate = _certificate(s, count, faces, t)
        cost = 0.0
        for k in range(s.gap.size):
            cost += s.gap[k] * rate[k]
        if certificate > 0 and cost / certificate < least_cost:
            least_cost = cost / certificate
            for k in range(s.gap.size):
                kept[k] = rate[k] / certificate
        if least_cost <= (1 + ACCURACY) * lower:
            status = SOLVED
            break
        if not down < math.inf or not _descend(s, faces, t, down):
            break
        for k in range(s.gap.size):
            dual[k] = min(rate[k], 10 * dual[k])
        if down < 1.0:
            t = max(min(10 * t, barriers / (CENTRED * lower)), t)
    for k in range(s.gap.size):
        s.fresh[k] = kept[k]
    return status if least_cost < math.inf else LOST


@allocating
def _faces(s: _Space, g: Floats, best: Floats, inner: Floats, count: int) -> int:
    """Find the arms that can draw level, mark them -1 in ``best``, and put a measure on each's face; how many there are.

    The measures are small enough to leave every slack positive.
    """
    faces, top = 0, int(np.argmax(best))
    for k in range(best.size):
        if best[k] > 0:
            continue
        most = 0.0
        for x in range(inner.size):
            s.h[faces, x] = g[k, x] - g[top, x]
            most = max(most, abs(s.h[faces, x]))
        s.h[faces] /= most
        if reach(s.rows, count, s.h[faces], inner, s.q[faces], s.unit, s.gram, s.more):
            best[k] = -1.0
            faces += 1
    for f in range(faces):
        s.slack[:] = 0.0
        used(s.owner, s.law, s.pay[f], pays(s.channel, s.q[f], s.pay[f]), s.slack)
        room = math.inf
        for k in range(s.gap.size):
            if s.slack[k] > 0:
                room = min(room, s.gap[k] / s.slack[k])
        s.q[f] *= 0.5 / faces * room
    return faces


@allocating
def _lay_out(
    start: Ints, row: Ints, weight: Floats, offset: Ints, p: Floats, full: Floats, owner: Floats, law: Floats, inner: Floats
) -> None:
    """Write the channels out in full, (N, J), with each row's arm; mix p into ``inner``, and the rows' law under that."""
    n, mass = p.size, 0.0
    for x in range(n):
        inner[x] = max(p[x], 0.0)
        mass += inner[x]
    full[:, :] = 0.0
    law[:] = 0.0
    for x in range(n):
        inner[x] = (1 - MIXED) * (inner[x] / mass) + MIXED / n
        for i in range(start[x], start[x + 1]):
            full[row[i], x] = weight[i]
            law[row[i]] += weight[i] * inner[x]
    for k in range(offset.size - 1):
        for i in range(offset[k], offset[k + 1]):
            owner[i] = k


@allocating
def _compare(g: Floats, inner: Floats, best: Floats, gap: Floats) -> int:
    """Fill every arm's ``gap``, mark the best arms (2: one of them, 1: those level with it); how many others there are."""
    low, high, others = math.inf, -math.inf, 0
    for k in range(gap.size):
        gap[k] = np.dot(g[k], inner)
        low, high = min(low, np.min(g[k])), max(high, np.max(g[k]))
    most = np.max(gap)
    for k in range(gap.size):
        gap[k] = most - gap[k]
        best[k] = 1.0 if gap[k] <= TIED * (high - low) else 0.0
        if best[k] == 0:
            others += 1
    best[np.argmin(gap)] = 2.0
    return others


@allocating
def _keep_others(full: Floats, best: Floats, owner: Floats, law: Floats) -> int:
    """Drop the best arms' rows, and those that no law pays; number the other arms from 0. How many rows are left."""
    kept, number, last = 0, -1, -1
    for i in range(law.size):
        k = int(owner[i])
        if best[k] > 0:
            continue
        if k != last:
            number, last = number + 1, k
        if law[i] > 0:
            full[kept] = full[i]
            law[kept], owner[kept] = law[i], number
            kept += 1
    return kept


@allocating
def _unpack(channel: Floats, owner: Floats, law: Floats, rows: Floats, others: int, work: Floats) -> _Space:
    """Views of what :func:`workspace_size` counts, apart from what the channels take."""
    total, n, wide = law.size, rows.shape[1], rows.shape[0]
    e1, e2, e3 = others * n, 2 * others * n, 3 * others * n
    e4 = e3 + others * total
    e5 = e4 + 4 * others
    e6 = e5 + others * others * n
    e7 = e6 + others * (others + 1) * n
    e8 = e7 + others * (others + 1) * wide
    e9 = e8 + others * wide
    e10 = e9 + 4 * wide * n
    e11 = e10 + others * others
    e12 = e11 + 6 * (n + others)
    vectors = work[e4:e5].reshape((4, others))
    squares = work[e9:e10].reshape((4, wide, n))
    return _Space(
        channel,
        owner,
        law,
        vectors[0],
        rows,
        work[:e1].reshape((others, n)),
        work[e1:e2].reshape((others, n)),
        work[e2:e3].reshape((others, n)),
        work[e3:e4].reshape((others, total)),
        vectors[1],
        vectors[2],
        vectors[3],
        work[e5:e6].reshape((others, others, n)),
        work[e6:e7].reshape((others, others + 1, n)),
        work[e7:e8].reshape((others, others + 1, wide)),
        work[e8:e9].reshape((others, wide)),
        squares[0],
        squares[1],
        squares[2],
        squares[3],
        work[e10:e11].reshape((others, others)),
        work[e11:e12].reshape((6, n + others)),
    )


@allocating
def rates(start: Ints, row: Ints, weight: Floats, offset: Ints, g: Floats, p: Floats, c: Floats, work: Floats) -> int:
    """Fill ``c`` (K,) with the optimal exploration rates at the law ``p`` (J,), 0 for the best arms; returns a status.

    ``start``, ``row``, ``weight``, ``offset`` and ``g`` (K, J) are the arms' sparse channels. ``SOLVED``: c is feasible and
    costs at most ``ACCURACY`` more than the least. ``NOTHING``: no law is confusing (or all arms are best), c = 0. ``STALLED``:
    rounding got in the way (tiny gaps); c is then the cheapest that was certified feasible or, where there was none, a rule of
    thumb: (range of the arm's means)² / (2 gap²) for every arm that some confusing law favours.

    A function of its arguments alone: ``work``, of at least :func:`workspace_size`, carries nothing from call to call. About 40
    Newton steps of O(K J³ + K² J²).
    """
    arms, n = g.shape
    total, wide = offset[arms], n + 4
    cells = total * n
    full, spare = work[:cells].reshape((total, n)), work[cells : 2 * cells].reshape((total, n))
    at = 2 * cells
    owner, law = work[at : at + total], work[at + total : at + 2 * total]
    at += 2 * total
    rows = work[at : at + wide * n].reshape((wide, n))
    at += wide * n
    inner, best = work[at : at + n], work[at + n : at + n + arms]
    at += n + arms
    _lay_out(start, row, weight, offset, p, full, owner, law, inner)
    others = _compare(g, inner, best, c)
    if others == 0:
        c[:] = 0.0
        return NOTHING
    count = independent(full, best, owner, inner, rows, spare, work[at : at + total])
    kept = _keep_others(full, best, owner, law)
    s = _unpack(full[:kept], owner[:kept], law[:kept], rows, others, work[at:])
    number = 0
    for k in range(arms):
        if best[k] == 0:
            s.gap[number] = c[k]
            number += 1
    faces = _faces(s, g, best, inner, count)
    if faces == 0:
        c[:] = 0.0
        return NOTHING
    status = _optimise(s, count, faces)
    number = 0
    for k in range(arms):
        if best[k] > 0:
            c[k] = 0.0
            continue
        if status != LOST:
            c[k] = s.fresh[number]
        else:
            c[k] = 0.5 * ((np.max(g[k]) - np.min(g[k])) / c[k]) ** 2 if best[k] < 0 else 0.0
        number += 1
    return SOLVED if status == SOLVED else STALLED
