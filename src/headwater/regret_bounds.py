r"""What regret is possible and what is guaranteed: the theorems' numbers, and the Graves-Lai programme.

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
from threadpoolctl import threadpool_limits

from headwater.analysis import Analysis, analyze, read_distribution
from headwater.arrays import Bools, Floats, Ints
from headwater.errors import ProblemError, SizeError
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.pseudo.finite import FiniteModel

MAX_POINTS = 2_000
"""Points of a support: each Newton step solves a dense system of this size."""
GAP = 1e-8
"""The relative distance between the certified ends at which the cutting planes stop; after 40 rounds ``ENOUGH`` will do."""
ENOUGH = 1e-6
LEAD = 1e-7
"""An arm that can lead by no more than this part of the largest difference asks for nothing: C is then a little too small."""
ROUNDS, STEPS = 200, 100
HIGHS: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Guarantee(NamedTuple):
    """At most ``constant + log * log T``: pulls of an arm (Theorems 1 and 2), or regret (Theorem 3), under C-UCB.

    ``t0`` is the smallest whole number from 3 on that satisfies the theorem's condition, None where it has none.
    """

    theorem: int
    t0: int | None
    log: float
    constant: float


class Confusing(NamedTuple):
    """A law of X, ``q`` (J,), under which ``arm`` draws level with the best, and which pulls of the best arms cannot reveal.

    ``weight`` is its multiplier: the weights sum to the Graves-Lai constant.
    """

    arm: str
    weight: float
    q: Floats


@dataclass(frozen=True)
class Bounds:
    """What :func:`bounds` found, for rewards in the problem's own units.

    ``lower`` and ``upper`` are certified to enclose the Graves-Lai constant. ``exploration`` is feasible and costs ``upper``;
    the ``best`` arms are not in it: their pulls are free. ``theorem4`` is the paper's constant, for two arms only: with more
    it is not valid. ``pulls`` and ``regret`` are empty when best arms tie: the theorems then say nothing.
    """

    best: tuple[str, ...]
    lower: float
    upper: float
    exploration: dict[str, float]
    confusing: tuple[Confusing, ...]
    theorem4: float | None
    pulls: dict[str, Guarantee]
    regret: Guarantee | None

    @property
    def graves_lai(self) -> float:
        """The constant before log T that no policy's regret can beat: the lower of its certified ends."""
        return self.lower

    @property
    def gap(self) -> float:
        """How far the certified ends are apart, as a part of the upper."""
        return max(1 - self.lower / self.upper, 0.0) if self.upper else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The bounds under their fixed JSON keys."""
        return {
            "best": list(self.best),
            "unique": len(self.best) == 1,
            "graves_lai": self.graves_lai,
            "lower": self.lower,
            "upper": self.upper,
            "gap": self.gap,
            "exploration": dict(self.exploration),
            "confusing": [{"arm": c.arm, "weight": c.weight, "distribution": c.q.tolist()} for c in self.confusing],
            "theorem4": self.theorem4,
            "theorems": {
                "pulls": {arm: guarantee._asdict() for arm, guarantee in self.pulls.items()},
                "regret": None if self.regret is None else self.regret._asdict(),
            },
        }


def bounds(problem: Problem, distribution: Any = None) -> Bounds:
    """The theorems' numbers and the Graves-Lai constant under ``distribution`` (default: the problem's own).

    For listed supports. A cutting-plane round costs O(K J³); 5 to 30 are usual. 20 arms on 100 points: a few seconds.

    >>> import headwater as hw
    >>> coins = hw.Problem(latent=hw.Discrete(["a", "b", "c"]), arms={"safe": [1, 1, 1], "risky": [0, 1, 2]})
    >>> found = bounds(coins, [0.5, 0.25, 0.25])
    >>> round(found.graves_lai, 3), {arm: round(c, 2) for arm, c in found.exploration.items()}
    (5.886, {'risky': 23.54})
    """
    model = model_of(problem)
    if not isinstance(model, FiniteModel):
        raise ProblemError(f"latent: got {problem.latent.kind} X that is not listed; expected a listed support; quantise it")
    analysis = analyze(problem, distribution)
    law = problem.distribution if distribution is None else read_distribution(problem, distribution)
    if law is None or analysis.gap is None or analysis.mu is None:
        raise ProblemError("distribution: got none; expected the distribution of X, on which every bound depends")
    if (size := model.g.shape[1]) > MAX_POINTS:
        raise SizeError(f"bounds: got {size:,} latent values; expected at most {MAX_POINTS:,}. Merge values that pay alike")
    best = analysis.gap == 0
    channels = [_channel(model, k) for k in range(model.count)]
    programme = _programme(channels, model.g, model.probabilities(law), best)
    with threadpool_limits(1):  # many small systems: threads that wait for each other made it a hundred times slower
        found = _solve(programme)
    if not math.isfinite(found.upper):
        raise ProblemError("distribution: its probabilities are too extreme for certified bounds; drop what hardly occurs")
    others = [name for name, top in zip(problem.names, best, strict=True) if not top]
    pulls, regret = _guarantees(analysis, best)
    return Bounds(
        tuple(name for name, top in zip(problem.names, best, strict=True) if top),
        found.lower,
        found.upper,
        dict(zip(others, found.c.tolist(), strict=True)),
        tuple(Confusing(others[ell], weight, q) for ell, weight, q in found.confusing),
        _theorem4(programme) if model.count == 2 else None,
        pulls,
        regret,
    )


def _channel(model: FiniteModel, k: int) -> Floats:
    """Deterministic rewards as a channel of zeros and ones, shape (M, J)."""
    levels = model.levels(k)
    return np.asarray(np.arange(len(levels.value))[:, None] == levels.level, dtype=float)


# The theorems of the paper, corrected.


def _guarantees(analysis: Analysis, best: Bools) -> tuple[dict[str, Guarantee], Guarantee | None]:
    r"""Theorems 1 to 3 for :math:`T \to \infty` in the terms that converge. With :math:`\Delta` the gaps divided by B:

    - 1, a non-competitive arm: :math:`K t_0 + 3 K (K-1) \sum_{t \ge K t_0} (K/t)^2 + \sum_t t^{-3}` pulls, given
      :math:`\tilde\Delta_k \ge 2\sqrt{2 K \log t_0 / t_0}` and :math:`\Delta_{\min} \ge 4\sqrt{K \log t_0 / t_0}`;
    - 2, a competitive arm: :math:`8 \log T / \Delta_k^2 + 1 + \pi^2/3 + (K-1) \sum_t t \exp(-t \Delta_{\min}^2 / 2K)` pulls.
      The paper lacks K-1. Theorem 1 does not need it: its condition makes that term :math:`(K-1) t^{-7} \le t^{-3}`;
    - 3, the regret: the sum of :math:`\Delta_k` (undivided) times these, with one :math:`t_0` for all non-competitive arms.
    """
    assert analysis.gap is not None and analysis.pseudo_gap is not None
    if best.sum() > 1:
        return {}, None
    count, scale = len(best), max(analysis.reward_range, 1e-300)
    # in [0, 1] no gap is above 1; arms whose ranges lie apart may have larger ones, of which 1 is a true lower bound
    gap, pseudo_gap = (np.minimum(x, scale) / scale for x in (analysis.gap, analysis.pseudo_gap))
    least = float(np.min(gap[~best]))
    tail = (count - 1) / (4 * math.sinh(least**2 / (4 * count)) ** 2)  # sum of t exp(-a t) is 1 / (4 sinh(a/2)²)
    index = {name: k for k, name in enumerate(analysis.arms)}
    starts = {name: _first_round(count, least, float(pseudo_gap[index[name]])) for name in analysis.non_competitive}
    latest = max(starts.values(), default=None)
    pulls: dict[str, Guarantee] = {}
    log = constant = 0.0
    for name in (arm for arm, top in zip(analysis.arms, best, strict=True) if not top):
        k, t0 = index[name], starts.get(name)
        if t0 is None or latest is None:
            pull = worst = Guarantee(2, None, 8 / float(gap[k]) ** 2, 1 + math.pi**2 / 3 + tail)
        else:
            pull, worst = (Guarantee(1, t, 0.0, _bounded_pulls(count, t)) for t in (t0, latest))
        pulls[name] = pull
        log, constant = (
            total + float(analysis.gap[k]) * more for total, more in ((log, worst.log), (constant, worst.constant))
        )
    return pulls, Guarantee(3, latest, log, constant)


def _first_round(count: int, gap: float, pseudo_gap: float) -> int:
    """The smallest whole t0 >= 3 with t0 / log t0 at least 16 K / gap² and 8 K / pseudo_gap²: both grow from 3 on.

    >>> 3 * _first_round(3, 0.325 / 4, 0.325 / 4)
    246882
    """
    need = count * max(16 / gap**2, 8 / pseudo_gap**2)
    low, high = 2, 3
    while high < need * math.log(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle < need * math.log(middle) else (low, middle)
    return high


def _bounded_pulls(count: int, t0: int) -> float:
    from scipy.special import zeta

    return count * t0 + 3 * count**3 * (count - 1) * float(zeta(2, count * t0)) + float(zeta(3))


# The Graves-Lai programme. Below, "others" are the L arms that are not best, numbered from 0.


class _Face(NamedTuple):
    """The laws under which arm ``ell`` of the others ties with the best: ``rows`` (r, n), orthonormal, are constant on it.

    ``start`` (n,) is in it, and positive wherever any law in it is.
    """

    ell: int
    rows: Floats
    start: Floats


@dataclass(frozen=True)
class _Programme:
    """``channel`` (N, n): the others' channels stacked, at the n of J ``points`` a confusing law can use.

    ``arm`` (N,) says whose row it is, ``law`` (N,) its probability under p; ``gap`` is (L,).
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


class _Solution(NamedTuple):
    lower: float
    upper: float
    c: Floats
    confusing: list[tuple[int, float, Floats]]


def _programme(channels: Sequence[Floats], g: Floats, p: Floats, best: Bools) -> _Programme:
    """Set up the programme for channels A[k] (M_k, J) with mean rewards ``g`` (K, J), a law ``p`` (J,), ``best`` arms (K,)."""
    others, tops = np.flatnonzero(~best).tolist(), np.flatnonzero(best).tolist()
    known = np.vstack([channels[k] for k in tops])
    h = g[others] - g[tops[0]]
    h /= np.max(abs(h), axis=1, keepdims=True)
    inside = _interior(known, p, h)
    points = inside > 0
    _, size, vt = np.linalg.svd(known[:, points], full_matrices=False)
    base = vt[size > 1e-10 * size[0]]
    tries = [_face(ell, known[:, points], base, h[ell, points], inside[points]) for ell in range(len(others))]
    stack = np.vstack([np.empty((0, len(p))), *(channels[k] for k in others)])
    arm = np.array([ell for ell, k in enumerate(others) for _ in channels[k]], dtype=np.int64)
    seen = stack[:, points].any(axis=1)  # a level that no law here pays tells nothing
    gap = g[tops[0]] @ p - g[others] @ p
    faces = tuple(face for face in tries if face is not None)
    return _Programme(stack[seen][:, points], arm[seen], stack[seen] @ p, gap, points, faces)


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


def _face(ell: int, known: Floats, base: Floats, h: Floats, inside: Floats) -> _Face | None:
    """Where ``h @ q = 0`` among the laws with ``known @ q = known @ inside``; None if h stays below 0 there."""
    b = known @ inside
    v = _maximise(h, A_eq=known, b_eq=b)
    used = v > 0
    v[used] = np.maximum(np.linalg.lstsq(known[:, used], b)[0], 0.0)  # the vertex, free of the solver's tolerance
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


def _least(programme: _Programme, face: _Face, c: Floats, tolerance: float = 1e-9) -> tuple[Floats, float]:
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


def _theorem4(programme: _Programme) -> float:
    """The largest Δ_k / KL(A_k p || A_k q) over arms k and laws q that favour k. A lower bound on regret for K = 2 only:

    with more arms q changes other arms' laws too, so that pulls of those tell it from p as well.
    """
    constant = 0.0
    for face in programme.faces:
        q, _ = _least(programme, face, np.eye(len(programme.gap))[face.ell])
        constant = max(constant, float(programme.gap[face.ell] / programme.information(q)[face.ell]))
    return constant


def _solve(programme: _Programme) -> _Solution:
    """Cutting planes. Each round asks about a point most of the way from the best c so far to the master's.

    That keeps c positive, so that every cut is finite, and needs fewer rounds than asking about the master's own.
    """
    gap, faces = programme.gap, programme.faces
    if not faces:
        return _Solution(0.0, 0.0, np.zeros(len(gap)), [])
    out = _Solution(0.0, math.inf, np.zeros(len(gap)), [])
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
    programme: _Programme, cuts: list[tuple[int, Floats]], weights: Floats
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
