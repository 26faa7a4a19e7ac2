"""``graves-lai``: exploit the likeliest law's best arm until a plausible law favours another, then explore where it is
cheapest.
"""

from __future__ import annotations

import math

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies import kernel, programme
from headwater.policies.compile import compiled
from headwater.policies.learner import WIDTH, ZERO, Learner
from headwater.policies.lens import Lens
from headwater.policies.likelihood import climb, log_likelihood, tilt_slope
from headwater.policies.mind import BEST, EAGER, FRESH, TOTAL, freshen
from headwater.policies.vectors import put

__all__ = ["explore", "plan"]


@compiled
def _plausible(lens: Lens, n: Floats, h: Floats, limit: float, best: float, p: Floats, z: Floats) -> bool:
    """Whether some law with ``h·p >= 0`` has a likelihood less than ``limit`` below ``best``.

    That drop is the largest D(theta) = best - max_p (L + theta h·p), whose slope is -h·p at the maximiser: Newton's method on
    the slope, until D settles it one way or p does it the other. From the uniform law, so that the answer is that of the
    counts; p (J,) and z (R,) are scratch.
    """
    size = h.size
    p[:] = 1.0 / size
    low, high, theta = 0.0, np.inf, 1.0
    for _ in range(60):
        climb(lens, n, h, theta, 1e-7, p, z)
        lead = 0.0
        for j in range(size):
            lead += h[j] * p[j]
        likelihood = log_likelihood(n, z)
        if best - likelihood - theta * lead >= limit:
            return False
        if lead >= 0.0 and best - likelihood < limit:
            return True
        if lead < 0.0:
            low = theta
        else:
            high = theta
        slope = tilt_slope(lens, n, h, p, z)
        following = theta - lead / slope if slope > 0.0 else 4.0 * theta
        if not low < following < high or following > 30.0 * theta:
            following = 0.5 * (low + high) if high < np.inf else 8.0 * theta
        if abs(following - theta) <= 1e-12 * theta or theta > 1e15:
            break
        theta = following
    return False


@compiled
def plan(learner: Learner) -> None:
    """The exploration rates at the law ``planned``."""
    lens = learner.lens
    programme.rates(lens.start, lens.row, lens.weight, lens.offset, lens.g, learner.planned, learner.rates, learner.plan)


@compiled
def _recall_plan(learner: Learner) -> None:
    """As ``plan``, from memory if it is the law of the last call: with pulls pending, one law is planned for many times."""
    law, rates = learner.memory[: learner.planned.size], learner.memory[learner.planned.size :]
    same = True
    for j in range(law.size):
        same = same and law[j] == learner.planned[j]
    if same:
        put(rates, learner.rates)
        return
    plan(learner)
    put(learner.planned, law)
    put(learner.rates, rates)


@compiled
def explore(meta: Ints, counts: Ints, learner: Learner, index: Floats) -> int:
    """``graves-lai``: the likeliest law's best arm, unless a plausible law favours a rival; then an arm short of its rate.

    Plausible: a likelihood less than f = log(1 + t/(1 + E)) below the largest, E the pulls of arms other than the best. The
    rates are those at the likeliest law with half a reward spread over all points, solved anew when that law moved. An arm
    that was pulled more often than the best is not explored: an early, tiny gap would ask for it without end. Nor is one that
    is doubted, which is judged by its own rewards.

    Several laws may be likeliest. The one found from the uniform law is taken, so that the choice is that of the counts.
    Pending pulls count as pulls, but are no evidence. Arms that are switched off (``mind.share`` below 0) are neither best
    nor rivals nor explored; the rates are those of all arms.
    """
    lens, mind, arms, size = learner.lens, learner.mind, index.size, learner.planned.size
    t, waiting = meta[kernel.ROUND], 0
    held = t < learner.held[0] and mind.share[int(learner.held[1])] >= 0.0
    if held and mind.whole[EAGER] == 0.0:
        return int(learner.held[1])
    mind.laws[arms] = 1.0 / size
    mind.whole[FRESH] = -1.0
    freshen(lens, mind)
    law = mind.laws[arms]
    best, z, h = -1, mind.z, learner.spare[0]
    for k in range(arms):
        x = 0.0
        for j in range(size):
            x += lens.g[k, j] * law[j]
        index[k] = mind.own[k] if mind.doubted[k] else x
        if mind.share[k] >= 0.0 and (best < 0 or index[k] > index[best]):
            best = k
        waiting += counts[kernel.PENDING, k]
    pulled = counts[kernel.PULLS, best] + counts[kernel.PENDING, best]
    limit = math.log1p(t / (1.0 + t - pulled))
    settled = True
    for k in range(arms):
        rival = k != best and mind.share[k] >= 0.0 and not mind.doubted[k]
        if rival and settled and mind.whole[TOTAL] > 0.0 and not mind.doubted[best]:
            for j in range(size):
                h[j] = lens.g[k, j] - lens.g[best, j]
            settled = not _plausible(lens, mind.n, h, limit, mind.whole[BEST], learner.spare[1], z)
    chosen = best
    if not settled:
        share, moved = min(0.5 / (t - waiting + 1.0), 0.5 / size), 0.0
        for j in range(size):
            h[j] = (1.0 - size * share) * law[j] + share
            moved = max(moved, abs(h[j] - learner.planned[j]))
        if moved > 0.005:
            put(h, learner.planned)
            _recall_plan(learner)
        most = 0.0
        for k in range(arms):
            n, due = counts[kernel.PULLS, k] + counts[kernel.PENDING, k], learner.rates[k] * limit
            heard = mind.share[k] >= 0.0 and not mind.doubted[k]  # what a doubted arm pays would settle nothing
            if k != best and heard and n < due and n <= pulled and due / (n + 0.5) > most:
                chosen, most = k, due / (n + 0.5)
    for k in range(arms):
        index[k] = learner.knobs[ZERO] + learner.knobs[WIDTH] * index[k]
    if held:
        return int(learner.held[1])
    if chosen == best:
        learner.held[0], learner.held[1] = t + max(1.0, 0.02 * t), best
    return chosen
