"""What a policy that reads all evidence at once keeps of it, the likeliest law of X, and the guard against a wrong model.

Let a forecaster who knows nothing of X predict each arm's rewards from its own past, a reward seen n of m
times with probability (n + 1/2) / (m + M/2), M the number of rewards the arm can pay. Under the true law the ratio of the
forecast's likelihood to the truth's is a martingale of mean 1, however arms are chosen, so that but for a chance of alpha it
never reaches 1/alpha. When it does even against the likeliest law, the model contradicts the rewards: the arm that fits worst
is doubted. Its rewards no longer count as evidence on X, and its index is its own. The laws that the forecast has not refuted
at level alpha are a confidence region for the law of X that holds at all times at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies.address import by_address
from headwater.policies.compile import compiled
from headwater.policies.lens import Lens, through
from headwater.policies.likelihood import climb, log_likelihood

__all__ = [
    "BASE",
    "BEST",
    "BOUND",
    "EAGER",
    "EXACT",
    "FLOOR",
    "FORECAST",
    "FRESH",
    "LIKE",
    "MOST",
    "PEAK",
    "PRICED",
    "SPENT",
    "SUM",
    "THETA",
    "TOP",
    "TOTAL",
    "TRIES",
    "Mind",
    "contradiction",
    "doubt",
    "freshen",
    "likeliest",
    "make_mind",
    "relearn",
    "witness",
    "xlogx",
]

DENSE = 64
"""Atoms up to which the first law tried uses all; beyond, one: solutions use few, and atoms are dropped one at a time."""

# columns of mind.arms
THETA, PEAK, SPENT, LIKE, TOP, BASE, MOST, BOUND, FLOOR, EXACT, TRIES, FIELDS = range(12)
# entries of mind.whole
BEST, SUM, TOTAL, PRICED, FORECAST, FRESH, EAGER, SIZES = range(8)


@by_address
class Mind(NamedTuple):
    """What a joint policy keeps, all of it derived from the counts ``n`` (R,).

    ``laws`` (K + 1, J): each arm's last solution, and the likeliest law; with the counts ``counted`` (K, R) and the likeliest
    law's z ``then`` (K, R) of that time; ``now`` (R,) is its z now. ``seen`` and ``price`` (R, K + 1): the logarithms of z and
    y at those solutions, -inf for rows not seen then. ``arms`` (K, FIELDS): for each arm its tilt theta, the maximum in
    the bound, the sum in it, the likelihood of its law, ``g·p`` of its law and of the likeliest, the largest g, the bounds,
    whether they are exact. ``whole`` (SIZES,): the likelihood of the likeliest law, the sum of n log n, N, the sum of n log
    of the likeliest law's prices, the forecast's likelihood, whether the likeliest law is up to date. ``doubted`` (K,) marks
    arms the guard spoke against: their rewards are not in ``n`` and ``pulls`` (K,), and their index is ``own`` (K,), which
    caps every other arm's too (inf: no cap). ``share`` (K,) is the part of the threshold delta that an arm's index goes by: 1,
    or less while pulls of it are pending; below 0 marks an arm that may not be chosen. Where channels were learned, ``slack``
    (K,) is what an arm's mean may be above the model's, and ``leeway`` (K,) what a reward may lose in likelihood.
    """

    n: Floats
    pulls: Floats
    doubted: Ints
    own: Floats
    share: Floats
    slack: Floats
    leeway: Floats
    laws: Floats
    counted: Floats
    then: Floats
    now: Floats
    seen: Floats
    price: Floats
    arms: Floats
    whole: Floats
    z: Floats


def make_mind(lens: Lens, *, eager: bool = False) -> Mind:
    """A mind that knows nothing. ``eager`` solves every arm in every round: slow, for comparison."""
    k, j = lens.g.shape
    r = int(lens.offset[-1])
    mind = Mind(
        np.zeros(r),
        np.zeros(k),
        np.zeros(k, dtype=np.int64),
        np.full(k, np.inf),
        np.ones(k),
        np.zeros(k),
        np.zeros(k),
        np.zeros((k + 1, j)),
        np.zeros((k, r)),
        np.zeros((k, r)),
        np.zeros(r),
        np.zeros((r, k + 1)),
        np.zeros((r, k + 1)),
        np.zeros((k, FIELDS)),
        np.zeros(SIZES),
        np.zeros(r),
    )
    mind.whole[EAGER] = eager
    relearn(lens, mind)
    return mind


@compiled
def relearn(lens: Lens, mind: Mind) -> None:
    """Forget every solution: the counts, or what is doubted, were changed from outside. Takes doubted arms' rows out."""
    count, size = lens.g.shape
    used = size if size <= DENSE else 1
    mind.laws[:] = 0.0
    mind.laws[:, :used] = 1.0 / used
    mind.seen[:] = -np.inf
    mind.price[:] = -np.inf
    mind.whole[SUM] = mind.whole[TOTAL] = mind.whole[FORECAST] = 0.0
    for k in range(count):
        mind.pulls[k] = 0.0
        for i in range(lens.offset[k], lens.offset[k + 1]):
            if mind.doubted[k]:
                mind.n[i] = 0.0
            mind.whole[SUM] += xlogx(mind.n[i])
            mind.pulls[k] += mind.n[i]
        mind.whole[TOTAL] += mind.pulls[k]
        if mind.pulls[k] > 0.0:
            half = 0.5 * (lens.offset[k + 1] - lens.offset[k])
            mind.whole[FORECAST] += math.lgamma(half) - math.lgamma(mind.pulls[k] + half)
            for i in range(lens.offset[k], lens.offset[k + 1]):
                mind.whole[FORECAST] += math.lgamma(mind.n[i] + 0.5) - math.lgamma(0.5)
    mind.whole[FRESH] = -1.0
    for ell in range(count):
        most = -np.inf
        for j in range(size):
            most = max(most, lens.g[ell, j])
        mind.arms[ell] = 0.0
        mind.arms[ell, MOST] = most


@compiled
def xlogx(x: float) -> float:
    return x * math.log(x) if x > 0 else 0.0


@compiled
def witness(lens: Lens, mind: Mind, k: int, i: int) -> None:
    """Count that row i, one of arm k's, was seen once more, and move every bound along. O(K)."""
    if mind.doubted[k]:
        return
    before = xlogx(mind.n[i])
    mind.n[i] += 1.0
    more = xlogx(mind.n[i]) - before
    half = 0.5 * (lens.offset[k + 1] - lens.offset[k])
    mind.whole[FORECAST] += math.log((mind.n[i] - 0.5) / (mind.pulls[k] + half))
    mind.pulls[k] += 1.0
    count = mind.arms.shape[0]
    for ell in range(count):
        if mind.price[i, ell] > -np.inf:
            mind.arms[ell, SPENT] += more - 1.0 - mind.price[i, ell]
        mind.arms[ell, LIKE] += mind.seen[i, ell]
    mind.whole[SUM] += more
    mind.whole[TOTAL] += 1.0
    if mind.price[i, count] > -np.inf:
        mind.whole[BEST] += mind.seen[i, count]
        mind.whole[PRICED] += mind.price[i, count]
        mind.whole[FRESH] = min(mind.whole[FRESH], 0.0)
    else:
        mind.whole[FRESH] = -1.0  # a reward that the likeliest law calls impossible: nothing is known of L* from below


@compiled
def _solve_likeliest(lens: Lens, mind: Mind) -> None:
    """The likeliest law anew, with its prices, and every arm's mean under it. One climb, O(R + K J)."""
    count = mind.arms.shape[0]
    p, z, whole = mind.laws[count], mind.z, mind.whole
    gap = climb(lens, mind.n, lens.g[0], 0.0, 1e-9, p, z)
    peak = math.log(whole[TOTAL] + max(gap, 0.0))
    whole[BEST] = log_likelihood(mind.n, z)
    whole[PRICED] = 0.0
    for i in range(z.size):
        mind.now[i] = z[i]
        if mind.n[i] > 0:
            mind.seen[i, count] = math.log(z[i])
            mind.price[i, count] = math.log(mind.n[i]) - mind.seen[i, count] - peak
            whole[PRICED] += mind.n[i] * mind.price[i, count]
    for ell in range(count):
        mean = 0.0
        for j in range(p.size):
            mean += lens.g[ell, j] * p[j]
        mind.arms[ell, BASE] = mean
    if lens.error.size > 0:
        _allow(lens, mind, p)
    whole[FRESH] = 1.0


@compiled
def _allow(lens: Lens, mind: Mind, p: Floats) -> None:
    """By how much each arm's learned channel may be wrong where X has law p: in its mean, and in what a reward loses."""
    for ell in range(mind.slack.size):
        square, loss = 0.0, 0.0
        for j in range(p.size):
            square += (p[j] * lens.error[ell, j]) ** 2
            loss += p[j] * p[j] * lens.strain[ell, j]
        mind.slack[ell], mind.leeway[ell] = math.sqrt(square), loss


@compiled
def freshen(lens: Lens, mind: Mind) -> None:
    """Bring the likeliest law, ``mind.laws[-1]``, up to date."""
    if mind.whole[FRESH] <= 0.0 and mind.whole[TOTAL] > 0.0:
        _solve_likeliest(lens, mind)


def likeliest(lens: Lens, mind: Mind) -> Floats:
    """The law (J,) that makes the counts most likely: a view, up to date until the next reward. Uniform before the first."""
    freshen(lens, mind)
    law: Floats = mind.laws[-1]
    return law


@compiled
def contradiction(lens: Lens, mind: Mind, rate: float) -> int:
    """The arm to doubt, or -1: see the module's words. O(1) while the evidence is far from speaking."""
    whole, limit = mind.whole, -math.log(rate)
    if whole[TOTAL] == 0.0 or (whole[FRESH] >= 0.0 and whole[FORECAST] - whole[BEST] <= limit):
        return -1
    if whole[FRESH] <= 0.0:
        _solve_likeliest(lens, mind)
    for k in range(mind.pulls.size):
        limit += mind.pulls[k] * mind.leeway[k]
    if whole[FORECAST] - whole[BEST] <= limit:
        return -1
    through(lens, mind.laws[mind.pulls.size], mind.z)
    worst, most = -1, -np.inf
    for k in range(mind.pulls.size):
        misfit = -xlogx(mind.pulls[k]) - mind.pulls[k] * mind.leeway[k]
        for i in range(lens.offset[k], lens.offset[k + 1]):
            if mind.n[i] > 0.0:
                misfit += xlogx(mind.n[i]) - mind.n[i] * math.log(mind.z[i])
        if mind.pulls[k] > 0.0 and misfit > most:
            worst, most = k, misfit
    return worst


@compiled
def doubt(lens: Lens, mind: Mind, k: int) -> None:
    """No longer take arm k's rewards as evidence on X."""
    mind.doubted[k] = 1
    relearn(lens, mind)
