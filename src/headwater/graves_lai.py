r"""The least regret any policy can have: the Graves-Lai programme, solved with certificates.

Arm k is a channel :math:`A_k`, of shape (M_k, J): :math:`A_k p` is the law of its rewards when X has law p. Let O be the best
arms under p (one, unless there are ties) and :math:`\Delta_k` the gaps. A law q is *confusing* in favour of an arm
:math:`\ell \notin O` when no pull of a best arm tells it from p, yet :math:`\ell` is better under it:

.. math::
    A_k q = A_k p \;(k \in O), \qquad \mu_\ell(q) > \mu^*(p).

Every policy whose regret is sub-polynomial whatever the law of X has regret at least :math:`C \log T` asymptotically, where

.. math::
    C = \min_{c \ge 0} \sum_{k \notin O} c_k \Delta_k \quad\text{such that}\quad
        \sum_{k \notin O} c_k \,\mathrm{KL}(A_k p \,\|\, A_k q) \ge 1 \text{ for every confusing } q.

:math:`c_k \log T` is how often an optimal policy pulls arm k. Pulls of a best arm cost nothing, so that with ties every best
arm's law is taken as known. Write :math:`F_\ell(c)` for the least left side over the q that favour :math:`\ell`. It is concave
in c and :math:`F_\ell(sc) = s F_\ell(c)`. As the left side is convex in q and 0 at p, where :math:`\ell` is worse, its least
value lies where :math:`\mu_\ell(q) = \mu^*`: a polytope :math:`P_\ell = \{q \ge 0 : E q = E p + e\}`, empty (or on the
edge: no q is *strictly* better) exactly when :math:`\ell` is non-competitive. Then :math:`\ell` asks for nothing.

*Cutting planes.* Any q in :math:`P_\ell` gives a true constraint on c; a linear programme over those found so far (the master)
proposes c; minimising over each :math:`P_\ell` finds the constraints it breaks most. Both ends are certified, whatever the
solvers' tolerances:

- from above: :math:`c / \min_\ell F_\ell(c)` is feasible. A lower bound of :math:`F_\ell(c)` needs no optimal q: for the
  gradient v at any q, any multipliers and :math:`u = v - E^\top\lambda`, convexity gives
  :math:`F_\ell \ge f(q) - u \cdot q + \min_j u_j`;
- from below: for any weights w and :math:`q_\ell \in P_\ell` with
  :math:`\sum_\ell w_\ell \mathrm{KL}(A_k p \| A_k q_\ell) \le \Delta_k` for every k, :math:`C \ge \sum_\ell w_\ell`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import Bools, Floats, Ints

GAP = 1e-8
"""The relative distance between the certified ends at which the cutting planes stop; after 40 rounds ``ENOUGH`` will do."""
ENOUGH = 1e-6
LEAD = 1e-7
"""An arm that can lead by no more than this part of the largest difference asks for nothing: C is then a little too small."""
ROUNDS, STEPS = 200, 100
HIGHS: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class _Face(NamedTuple):
    """The laws under which arm ``ell`` of the others ties with the best: ``rows`` (r, n), orthonormal, are constant on it.

    ``start`` (n,) is in it, and positive wherever any law in it is.
    """

    ell: int
    rows: Floats
    start: Floats


@dataclass(frozen=True)
class Programme:
    """The programme over the others: the L arms that are not best, numbered from 0.

    ``channel`` (N, n) are their channels stacked, at the n of J ``points`` that a confusing law can use; ``arm`` (N,) says
    whose row it is, ``law`` (N,) its probability under p; ``gap`` is (L,).
    """

    channel: Floats
    arm: Ints
    law: Floats
    gap: Floats
    points: Bools
    faces: tuple[_Face, ...]

    def terms(self, q: Floats) -> Floats:
        """What each row adds to its arm's KL(A p || A q), (N,): p (t - log(1 + t)), t = (r - p)/p, exact also for q near p."""
        r, base = self.channel @ q, np.where(self.law > 0, self.law, 1.0)
        t = (r - self.law) / base
        log = np.where(t < -0.5, np.log(r / base), np.log1p(np.maximum(t, -0.5)))
        return np.where(self.law > 0, self.law * (t - log), r)

    def information(self, q: Floats) -> Floats:
        """KL(A_k p || A_k q) for each of the others, (L,)."""
        return np.asarray(np.bincount(self.arm, self.terms(q), len(self.gap)), dtype=float)


class Solution(NamedTuple):
    """Certified ends of C, rates ``c`` (L,) that cost ``upper``, and the laws (arm, weight, q) that prove ``lower``."""

    lower: float
    upper: float
    c: Floats
    confusing: list[tuple[int, float, Floats]]


def set_up(channels: Sequence[Floats], g: Floats, p: Floats, best: Bools) -> Programme:
    """Set up the programme for channels A[k] (M_k, J) with mean rewards ``g`` (K, J), a law ``p`` (J,), ``best`` arms (K,)."""
    others, tops = np.flatnonzero(~best).tolist(), np.flatnonzero(best).tolist()
    known = np.vstack([channels[k] for k in tops])
    h = g[others] - g[tops[0]]
    h /= np.max(abs(h), axis=1, keepdims=True)
    inside = _interior(known, p, h)
    points = inside > 0
    _, size, vt = np.linalg.svd(known[:, points], full_matrices=False)
    base = vt[size > 1e-10 * size[0]]  # what smooth noise tells with less weight than this counts as not told
    tries = [_face(ell, base, h[ell, points], inside[points]) for ell in range(len(others))]
    stack = np.vstack([np.empty((0, len(p))), *(channels[k] for k in others)])
    arm = np.array([ell for ell, k in enumerate(others) for _ in channels[k]], dtype=np.int64)
    seen = stack[:, points].any(axis=1)  # a level that no law here pays tells nothing
    gap = g[tops[0]] @ p - g[others] @ p
    faces = tuple(face for face in tries if face is not None)
    return Programme(stack[seen][:, points], arm[seen], stack[seen] @ p, gap, points, faces)


def _interior(known: Floats, p: Floats, h: Floats) -> Floats:
    """A law q (J,) with ``known @ q = known @ p`` that is positive wherever any such law is, and under which no arm leads."""
    zero = np.flatnonzero(p == 0)
    if not len(zero) or not len(h):
        return p
    # directions d with known @ d = 0; as d may be scaled up, the most of sum min(d, 1) is positive wherever it can be
    j, z = len(p), len(zero)
    below = np.hstack([-np.eye(j)[zero], np.eye(z)])
    fixed = np.hstack([known, np.zeros((len(known), z))])
    limits = [(None if x > 0 else 0.0, None) for x in p.tolist()] + [(0.0, 1.0)] * z
    aim = np.append(np.zeros(j), np.ones(z))
    x = _maximise(aim, A_ub=below, b_ub=np.zeros(z), A_eq=fixed, b_eq=np.zeros(len(known)), bounds=limits)
    d = x[:j]
    d[zero[x[j:] < 0.5]] = 0.0
    rise = h @ d
    step = min([1.0, *(p[d < 0] / -d[d < 0]), *(-(h @ p)[rise > 0] / rise[rise > 0])])
    return np.asarray(p + 0.5 * step * d)


def _face(ell: int, base: Floats, h: Floats, inside: Floats) -> _Face | None:
    """Where ``h @ q = 0`` among the laws with ``base @ q = base @ inside``; None if h stays below 0 there.

    ``base`` (r, n) spans the rows of the known channels: orthonormal, it cannot contradict itself by rounding.
    """
    b = base @ inside
    v = _maximise(h, A_eq=base, b_eq=b)
    used = v > 0
    v[used] = np.maximum(np.linalg.lstsq(base[:, used], b)[0], 0.0)  # the vertex, free of the solver's tolerance
    lead, behind = float(h @ v), float(h @ inside)
    if lead <= LEAD:
        return None
    across = h - base.T @ (base @ h)
    start = inside + behind / (behind - lead) * (v - inside)
    return _Face(ell, np.vstack([base, across / np.linalg.norm(across)]), start)


def _maximise(aim: Floats, **constraints: Any) -> Floats:
    """A linear programme that has a solution; variables are not negative unless ``bounds`` say otherwise."""
    from scipy.optimize import linprog

    result = linprog(-aim, options=HIGHS, **constraints)
    assert result.x is not None, result.message
    return np.maximum(result.x, 0.0) if "bounds" not in constraints else np.asarray(result.x, dtype=float)


def _least(programme: Programme, face: _Face, c: Floats, tolerance: float = 1e-9) -> tuple[Floats, float]:
    """Minimise sum_k c_k KL_k(q) over a face by a primal-dual interior-point method: q, and a lower bound of the minimum.

    z (n,) are the multipliers of q >= 0, z q = mu on the central path. O((N + n) n²) a step, 20 to 30 steps.
    """
    x, weight, law, n = programme.channel, c[programme.arm], programme.law, len(face.start)
    q, lam, lower, shrink = face.start, np.zeros(len(face.rows)), -np.inf, 0.2
    z = float(weight @ programme.terms(q)) / n / q
    for _ in range(STEPS):
        pay, value = x @ q, float(weight @ programme.terms(q))
        u = x.T @ (weight * (pay - law) / pay) - face.rows.T @ lam
        lower = max(lower, value - float(q @ (u - u.min())))
        if value - lower <= tolerance * value or z @ q <= 1e-24 * value:
            break
        mu = shrink * float(z @ q) / n
        try:
            d, turn = _newton(x * q, weight * law / pay**2, z * q, face.rows * q, mu - q * u)
        except np.linalg.LinAlgError:  # the bound at hand is true all the same
            break
        dz = mu / q - z * d - z
        primal, dual = (min(1.0, 0.98 / max(-float(ratio.min()), 1e-300)) for ratio in (d, dz / z))
        q, z, lam = q * (1 + primal * d), z + dual * dz, lam + dual * turn
        shrink = 0.05 if min(primal, dual) > 0.9 else 0.2 if min(primal, dual) > 0.5 else 0.5
    return q, lower


def _newton(x: Floats, curve: Floats, ridge: Floats, rows: Floats, right: Floats) -> tuple[Floats, Floats]:
    """The step d = dq / q (n,) and the multipliers' (r,): (x' diag(curve) x + diag(ridge)) d - rows' turn = right, rows d = 0.

    Taken relative to q, with rows of length 1, the system stays well scaled as entries of q vanish.
    """
    n, r = len(right), len(rows)
    size = np.linalg.norm(rows, axis=1)
    unit = rows / size[:, None]
    system = np.zeros((n + r, n + r))
    system[:n, :n] = (x.T * curve) @ x + np.diag(ridge)
    system[:n, n:], system[n:, :n] = -unit.T, unit
    step = np.asarray(np.linalg.solve(system, np.append(right, np.zeros(r))), dtype=float)
    return step[:n], step[n:] / size


def theorem4(programme: Programme) -> float:
    """The largest Δ_k / KL(A_k p || A_k q) over arms k and laws q that favour k. A lower bound on regret for K = 2 only:

    with more arms q changes other arms' laws too, so that pulls of those tell it from p as well.
    """
    constant = 0.0
    for face in programme.faces:
        q, _ = _least(programme, face, np.eye(len(programme.gap))[face.ell])
        constant = max(constant, float(programme.gap[face.ell] / programme.information(q)[face.ell]))
    return constant


def solve(programme: Programme) -> Solution:
    """Cutting planes. Each round asks about a point most of the way from the best c so far to the master's.

    That keeps c positive, so that every cut is finite, and needs fewer rounds than asking about the master's own.
    """
    gap, faces = programme.gap, programme.faces
    if not faces:
        return Solution(0.0, 0.0, np.zeros(len(gap)), [])
    out = Solution(0.0, math.inf, np.zeros(len(gap)), [])
    cuts: list[tuple[int, Floats]] = []
    c = 1 / gap
    for turn in range(ROUNDS):
        worst = math.inf
        for i, face in enumerate(faces):
            q, least = _least(programme, face, c)
            worst = min(worst, least)
            cuts.append((i, q))
        if worst > 0 and float(c @ gap) / worst < out.upper:
            out = out._replace(upper=float(c @ gap) / worst, c=c / worst)
        master, weights = _master(np.array([programme.information(q) for _, q in cuts]), gap)
        lower, confusing = _mix(programme, cuts, weights)
        if lower > out.lower:
            out = out._replace(lower=lower, confusing=confusing)
        if out.lower >= (1 - (GAP if turn < 40 else ENOUGH)) * out.upper:
            break
        c = 0.9 * master + 0.1 * out.c
    return out


def _master(information: Floats, gap: Floats) -> tuple[Floats, Floats]:
    """Minimise c·gap with ``information @ c >= 1``: c (L,), and each cut's multiplier. Scaled: all numbers are at most 1."""
    from scipy.optimize import linprog

    a = information / gap
    most = a.max(axis=1)
    unit = 1 / most.min()
    for options in (HIGHS, None):  # nearly equal cuts may be too much for tight tolerances
        result = linprog(np.ones(len(gap)), A_ub=-a / most[:, None], b_ub=-1 / (most * unit), options=options)
        if result.status == 0:
            break
    assert result.x is not None, result.message
    return result.x * unit / gap, np.maximum(-result.ineqlin.marginals, 0.0) / most


def _mix(
    programme: Programme, cuts: list[tuple[int, Floats]], weights: Floats
) -> tuple[float, list[tuple[int, float, Floats]]]:
    """Average the cuts of each face (KL is convex: that cuts no less) and scale the weights until they prove a bound."""
    mixed: list[tuple[int, float, Floats]] = []
    total = np.zeros_like(programme.gap)
    for i, face in enumerate(programme.faces):
        mine = [(w, q) for (at, q), w in zip(cuts, weights.tolist(), strict=True) if at == i and w > 0]
        if mine and (weight := sum(w for w, _ in mine)) > 1e-9 * weights.sum():
            q = np.zeros(len(programme.points))
            q[programme.points] = sum(w / weight * q for w, q in mine)
            mixed.append((face.ell, weight, q))
            total += weight * programme.information(q[programme.points])
    scale = float(np.min(programme.gap / np.maximum(total, 1e-300)))
    return scale * sum(w for _, w, _ in mixed), [(ell, scale * w, q) for ell, w, q in mixed]
