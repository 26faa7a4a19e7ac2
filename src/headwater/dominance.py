"""What holds whatever the distribution of X is: arms that can never be best, and arms that always are.

Arm ℓ can be best when some distribution p gives it at least every other arm's mean: a linear programme,
max over p of min over k of (g_ℓ - g_k)·p >= 0. Its dual is a mixture of other arms that beats arm ℓ at every x, which is the
proof when the answer is no. On a support that is not listed, the programme runs on sample points, which proves "can"; "never"
is claimed only when the mixture is shown to win everywhere by interval arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats
from headwater.errors import ExpressionError, HeadwaterError
from headwater.expressions import parse
from headwater.latent import Continuous, Interval, Latent, Vector
from headwater.problem import Formula, Problem, probes
from headwater.pseudo import model_of
from headwater.pseudo.box import unconstrained_maximum
from headwater.pseudo.finite import FiniteModel
from headwater.pseudo.scalar import ScalarModel

EDGE = 1e-9
"""Differences below this part of the largest reward decide nothing."""
MAX_WORK = 200_000_000
"""Entries of all linear programmes together; arms beyond it are left undecided."""
MAX_PROGRAMME = 20_000_000
"""Entries of one linear programme: larger ones do not fit into memory."""
POINTS = 1025


class Dominance(NamedTuple):
    """Arm numbers. ``never[ell]`` is the mixture {k: weight} that beats arm ell at every x; ``undecided`` may be either."""

    always: list[int]
    never: dict[int, dict[int, float]]
    undecided: list[int]


def dominance(problem: Problem) -> Dominance:
    """Which arms are best for every distribution, and which for none. O(K J) plus a programme for each doubtful arm."""
    exact = isinstance(model_of(problem), FiniteModel)
    g = problem.rewards if exact else _sampled(problem)
    edge = EDGE * max(float(g.max()), -float(g.min()), 1e-300)
    top = g.max(axis=0)
    always = [k for k in np.flatnonzero(np.all(g >= top - edge, axis=1)).tolist() if exact or _always(problem, k, edge)]
    doubtful = np.flatnonzero(~np.any(g >= top - edge, axis=1)).tolist()
    never: dict[int, dict[int, float]] = {}
    undecided: list[int] = []
    work = 0
    for ell in doubtful:
        work += g.size
        late = work > MAX_WORK
        mixture = None if late else _beating_mixture(g, ell, edge)
        if mixture is None:
            undecided += [ell] if late or g.size > MAX_PROGRAMME else []
        elif exact or _certify(problem, ell, mixture, -edge):
            never[ell] = mixture
        else:
            undecided.append(ell)
    return Dominance(always, never, undecided)


def _sampled(problem: Problem) -> Floats:
    points = probes(problem.latent, POINTS)
    if isinstance(problem.latent, Continuous):
        model = model_of(problem)
        assert isinstance(model, ScalarModel)
        return model.values(np.unique(np.concatenate([points[0], *(p.breaks() for p in model.pieces)]))[None])
    return np.stack([arm.expression(*points) for arm in problem.arms.values() if isinstance(arm, Formula)])


def _beating_mixture(g: Floats, ell: int, edge: float) -> dict[int, float] | None:
    """A mixture of other arms that beats arm ell at every point by more than ``edge``; None when there is none.

    In a table of more than ``MAX_PROGRAMME`` entries only single arms are tried.
    """
    strictly = np.flatnonzero(np.all(g > g[ell] + edge, axis=1))
    if len(strictly):
        return {int(strictly[0]): 1.0}
    if g.size > MAX_PROGRAMME:
        return None
    from scipy.optimize import linprog

    others = np.delete(np.arange(len(g)), ell)
    k, j = len(others), g.shape[1]
    # maximise t subject to sum_x p(x) (g_k(x) - g_ell(x)) + t <= 0 for every other k, p a distribution
    matrix = np.column_stack([g[others] - g[ell], np.ones(k)])
    total = np.append(np.ones(j), 0.0)[None]
    bounds = [(0, None)] * j + [(None, None)]
    result = linprog(np.append(np.zeros(j), -1.0), A_ub=matrix, b_ub=np.zeros(k), A_eq=total, b_eq=[1.0], bounds=bounds)
    if result.status != 0 or result.fun is None or result.fun <= edge:
        return None
    weights = np.asarray(-result.ineqlin.marginals)
    weights = np.where(weights > 1e-9, weights, 0.0)
    weights /= weights.sum()
    if not np.all(weights @ g[others] > g[ell]):
        return None
    return {int(others[i]): float(weights[i]) for i in np.flatnonzero(weights)}


def _always(problem: Problem, ell: int, edge: float) -> bool:
    return all(_certify(problem, k, {ell: 1.0}, 10 * edge) for k in range(len(problem.arms)) if k != ell)


def _certify(problem: Problem, ell: int, mixture: dict[int, float], below: float) -> bool:
    """Whether arm ell minus the mixture is certainly at most ``below`` on the whole support."""
    arms = list(problem.arms.values())
    texts = []
    for k in (ell, *mixture):
        arm = arms[k]
        if not isinstance(arm, Formula):
            return False  # a Python function cannot be bounded
        texts.append(arm.expression.text.strip())
    mixed = " - ".join(f"{w!r}*({text})" for w, text in zip(mixture.values(), texts[1:], strict=True))
    try:
        difference = parse(f"({texts[0]}) - {mixed}", problem.latent.names)
        lo, hi = _hull(problem.latent)
        upper, _ = unconstrained_maximum(difference, lo, hi, tolerance=abs(below) / 4, budget=20_000)
    except (ExpressionError, HeadwaterError):
        return False  # too long, or not bounded: no proof
    return upper <= below


def _hull(latent: Latent) -> tuple[Floats, Floats]:
    """The support as one box; finite components become intervals, which can only make a proof harder."""
    if isinstance(latent, Continuous):
        return latent.low[:, None], latent.high[:, None]
    assert isinstance(latent, Vector)
    ends = [(p.low, p.high) if isinstance(p, Interval) else (min(p), max(p)) for p in latent.parts]
    return np.array(ends)[:, :1], np.array(ends)[:, 1:]
