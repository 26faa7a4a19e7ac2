r"""The joint index: the most an arm can pay on average under any law of X that the whole table of counts allows.

.. math::
    U_\ell = \max\{g_\ell \cdot p : L(p) \ge L^* - \delta\}, \qquad L^* = \max_p L(p), \quad \delta = \log t .

**Bounds that cost O(1).** For any tilt :math:`\theta > 0` and prices :math:`y > 0` of the rows seen, Fenchel's inequality
:math:`n \log z \le y z + n \log(n/y) - n` gives

.. math::
    U_\ell \le \frac{1}{\theta}\Bigl[\max_j (\theta g_{\ell j} + (A^\top y)_j)
        + \sum_i \bigl(n_i \log \tfrac{n_i}{y_i} - n_i\bigr) + \delta - L^*\Bigr],

with equality at the solution, where :math:`y_i = n_i / z_i`. Rows without a price are left out: their logarithm is negative.
Once y is known, a new reward changes one term of the sum, so that the bound of every arm follows the counts at the cost of an
addition, exact to first order. From below, mixtures of the likeliest law and the arm's old solution are feasible, as L is
concave. :math:`L^*` itself is enclosed the same way.

**A bound that costs O(R).** Rows never seen before have no price, which is what the first bound misses most. But each point of
the support pays something for every arm: to raise the prices of all of arm k's rows by s > 0 raises the maximum by just s. The
best s makes the probabilities n / y that the prices stand for add up to 1 over arm k's rows.

**A bound that costs O(J).** The likeliest law is solved anew in any case, and how *its* prices moved since an arm was solved,
:math:`\Delta`, is nearly how the arm's own have to move. So y + c Δ is tried for a few c <= 1: with :math:`A^\top y` and the
likeliest law's :math:`A^\top \Delta` at hand, the maximum in the bound takes one sweep over the support.

**A step that lands.** A row seen once or twice is where log z bends most, and a step by its curvature falls short. If its
probability is going to be z', the curvature :math:`n / (z z')` of the secant is right. The likeliest law tells by which factor
the row's probability has changed since the arm was solved: about the same is expected of the arm's own law.

An arm is solved anew only while these bounds leave open which arm is
best: the choice is the one that solving every arm in every round would make (indices closer than ``TIE`` of the span count as
equal, and go to the lowest-numbered arm).

**The guard.** Let a forecaster who knows nothing of X predict each arm's rewards from its own past, a reward seen n of m
times with probability (n + 1/2) / (m + M/2), M the number of rewards the arm can pay. Under the true law the ratio of the
forecast's likelihood to the truth's is a martingale of mean 1, however arms are chosen, so that but for a chance of alpha it
never reaches 1/alpha. When it does even against the likeliest law, the model contradicts the rewards: the arm that fits worst
is doubted. Its rewards no longer count as evidence on X, and its index is its own. The laws that the forecast has not refuted
at level alpha are a confidence region for the law of X that holds at all times at once.

**Learned channels.** Where the channels are estimates, a mean may be wrong by a few of its standard errors e_l at the likeliest
law: the index is the smaller of :math:`U_\ell` + tolerance · :math:`e_\ell` and the arm's own, so that where the model is too
coarse to tell arms apart their own rewards decide. And the guard allows each reward the likelihood that estimates cost.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies.compile import compiled
from headwater.policies.likelihood import Lens, approach, climb, follow, log_likelihood, slope, spread, through, tilt_slope
from headwater.policies.vectors import put

__all__ = [
    "BOUND",
    "TIE",
    "Mind",
    "contradiction",
    "decide",
    "doubt",
    "freshen",
    "lift",
    "likeliest",
    "make_mind",
    "reaches",
    "relearn",
    "witness",
]

TIE = 1e-7
DENSE = 64
"""Atoms up to which the first law tried uses all; beyond, one: solutions use few, and atoms are dropped one at a time."""
CLOSE = 1e-4
"""How near, as a part of delta, the likelihood must come to its limit: the index is then exact to the square of that."""
PATIENCE = 13
"""Steps after which an arm that is still open is solved by the slower, safer way."""
RAISES = 6
"""Newton steps towards the best raise of an arm's prices."""
TRIALS = 5
"""Parts of a move of prices that are tried."""
SECANT = 8.0
"""The most that the curvature of a row is changed by what is expected of its probability."""
FLAT = 1e9
"""A tilt this many times the number of rewards: the best point of the support is allowed, up to 1/FLAT."""

# columns of mind.arms
THETA, PEAK, SPENT, LIKE, TOP, BASE, MOST, BOUND, FLOOR, EXACT, TRIES, FIELDS = range(12)
# entries of mind.whole
BEST, SUM, TOTAL, PRICED, FORECAST, FRESH, EAGER, SIZES = range(8)


class Mind(NamedTuple):
    """What a joint policy keeps, all of it derived from the counts ``n`` (R,).

    ``laws`` (K + 1, J): each arm's last solution, and the likeliest law; ``slopes`` (K + 1, J) the gradients there, with the
    counts ``counted`` (K, R) of that time, and the likeliest law's z ``then`` (K, R) and gradient ``level`` (K, J) of that
    time; ``now`` (R,) is its z now. ``seen`` and ``price`` (R, K + 1): the logarithms of
    z and y at those solutions, -inf for rows not seen then. ``arms`` (K, FIELDS): for each arm its tilt theta, the maximum in
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
    slopes: Floats
    counted: Floats
    then: Floats
    level: Floats
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
        np.zeros((k + 1, j)),
        np.zeros((k, r)),
        np.zeros((k, r)),
        np.zeros((k, j)),
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
            mind.whole[SUM] += _xlogx(mind.n[i])
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
def _xlogx(x: float) -> float:
    return x * math.log(x) if x > 0 else 0.0


@compiled
def witness(lens: Lens, mind: Mind, k: int, i: int) -> None:
    """Count that row i, one of arm k's, was seen once more, and move every bound along. O(K)."""
    if mind.doubted[k]:
        return
    before = _xlogx(mind.n[i])
    mind.n[i] += 1.0
    more = _xlogx(mind.n[i]) - before
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
    put(lens.atoms[0], mind.slopes[count])
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
def first_tilt(lens: Lens, n: Floats, total: float, g: Floats, delta: float, p: Floats, z: Floats) -> float:
    """The theta that a parabola would give, from the likeliest law p (J,)."""
    bend = tilt_slope(lens, n, g, p, z)
    theta = math.sqrt(2.0 * delta / bend) if bend > 0.0 else total
    return min(max(theta, 1e-3 * math.sqrt(total)), FLAT * total)


@compiled
def lift(
    lens: Lens, n: Floats, total: float, g: Floats, delta: float, best: float, theta: float, p: Floats, z: Floats
) -> float:
    """Tilt p (J,) towards g until its likelihood is delta below ``best``, or the largest g is reached; returns theta.

    The square root of the drop is nearly linear in theta: Newton's method on it, kept in a bracket, from the theta given (0:
    none yet).
    """
    if theta <= 0.0:
        climb(lens, n, g, 0.0, 1e-9, p, z)
        theta = first_tilt(lens, n, total, g, delta, p, z)
    low, high = 0.0, np.inf
    for _ in range(100):
        climb(lens, n, g, theta, 1e-10 * theta + 1e-9, p, z)
        drop = best - log_likelihood(n, z)
        if abs(drop - delta) <= CLOSE * delta or (drop < delta and theta >= FLAT * total):
            break
        if drop < delta:
            low = theta
        else:
            high = theta
        bend = theta * tilt_slope(lens, n, g, p, z)
        root = math.sqrt(max(drop, 0.0))
        guess = theta + 2.0 * root * (math.sqrt(delta) - root) / bend if bend > 0.0 and root > 0.0 else 30.0 * theta
        guess = min(max(guess, theta / 30.0), 30.0 * theta)
        if not low < guess < high:
            guess = math.sqrt(low * high) if low > 0.0 and high < np.inf else 30.0 * theta if high == np.inf else theta / 30.0
        if high < np.inf and high - low <= 1e-13 * high:
            break
        theta = min(guess, 2.0 * FLAT * total)
    return theta


@compiled
def _foresee(lens: Lens, mind: Mind, ell: int) -> None:
    """Turn the curvature of each row, in ``lens.rows[0]``, into the secant's: see the module's words on a step that lands."""
    for i in range(mind.now.size):
        if mind.n[i] > 0.0 and mind.then[ell, i] > 0.0:
            lens.rows[0, i] /= min(max(mind.now[i] / mind.then[ell, i], 1.0 / SECANT), SECANT)


@compiled
def _improve(lens: Lens, mind: Mind, ell: int, delta: float) -> None:
    """Arm ell's law one step nearer to its solution, with its prices; from then on the bounds enclose it more closely."""
    p, z, arm, total, best = mind.laws[ell], mind.z, mind.arms[ell], mind.whole[TOTAL], mind.whole[BEST]
    g, theta = lens.g[ell], arm[THETA]
    if theta <= 0.0:
        put(mind.laws[mind.arms.shape[0]], p)
    changed = spread(lens, mind.n, p, z)
    if theta <= 0.0 or changed:
        theta = theta if theta > 0.0 else first_tilt(lens, mind.n, total, g, delta, p, z)
        slope(lens, mind.n, g, theta, p, z)
    else:
        follow(lens, mind.n, mind.counted[ell], mind.slopes[ell], z)
        _foresee(lens, mind, ell)
    arm[TRIES] += 1.0
    if arm[TRIES] > PATIENCE:
        theta = lift(lens, mind.n, total, g, delta, best, theta, p, z)
        peak = -np.inf
        for j in range(p.size):
            peak = max(peak, lens.atoms[0, j])
    else:
        theta, peak = approach(lens, mind.n, g, delta, best, theta, FLAT * total, p, z)
    put(lens.atoms[0], mind.slopes[ell])
    put(mind.n, mind.counted[ell])
    put(mind.now, mind.then[ell])
    put(mind.slopes[mind.arms.shape[0]], mind.level[ell])
    top = 0.0
    for j in range(p.size):
        top += g[j] * p[j]
    arm[THETA], arm[PEAK], arm[TOP] = theta, peak, top
    arm[LIKE] = log_likelihood(mind.n, z)
    arm[SPENT] = arm[LIKE] - total
    for i in range(z.size):
        if mind.n[i] > 0:
            mind.seen[i, ell] = math.log(z[i])
            mind.price[i, ell] = math.log(mind.n[i]) - mind.seen[i, ell]
        else:
            mind.seen[i, ell] = math.log(z[i]) if z[i] > 0.0 else -np.inf
    if arm[TRIES] > PATIENCE:
        arm[BOUND] = min(min((peak + arm[SPENT] + delta - best) / theta, arm[MOST]) + mind.slack[ell], mind.own[ell])
        arm[FLOOR] = arm[BOUND]
        arm[EXACT] = 1.0


@compiled
def _tighten(lens: Lens, mind: Mind, ell: int, target: float) -> None:
    """Move arm ell's prices as the likeliest law's, which must be up to date, have moved since it was solved. O(J + R).

    By a part of that move which makes the bound smallest: bisection on the slope of a convex function, until the numerator of
    the bound's fraction, less delta and plus L*, is below ``target``.
    """
    arm, n, y, move, now = mind.arms[ell], mind.n, lens.rows[0], lens.rows[1], mind.now
    old, level, new = mind.slopes[ell], mind.level[ell], mind.slopes[mind.arms.shape[0]]
    low, high, constant = 0.0, 1.0, 0.0
    for i in range(n.size):
        y[i] = mind.counted[ell, i] * math.exp(-mind.seen[i, ell]) if mind.counted[ell, i] > 0 else 0.0
        move[i] = (n[i] / now[i] if n[i] > 0 else 0.0) - (
            mind.counted[ell, i] / mind.then[ell, i] if mind.counted[ell, i] > 0 else 0.0
        )
        if move[i] < -0.7 * y[i]:
            high = min(high, -0.7 * y[i] / move[i])
        constant += _xlogx(n[i]) - n[i]
    best, least = 0.0, arm[PEAK] + arm[SPENT]
    for _ in range(TRIALS):
        part = 0.5 * (low + high)
        peak, at, spent, rise = -np.inf, 0, constant, 0.0
        for j in range(old.size):
            x = old[j] + part * (new[j] - level[j])
            if x > peak:
                peak, at = x, j
        for i in range(n.size):
            if n[i] > 0:
                x = y[i] + part * move[i]
                spent -= n[i] * math.log(x)
                rise -= n[i] * move[i] / x
        if peak + spent < least:
            best, least = part, peak + spent
            arm[PEAK], arm[SPENT] = peak, spent
        if least < target:
            break
        if rise + new[at] - level[at] > 0.0:
            high = part
        else:
            low = part
    if best > 0.0:
        for i in range(n.size):
            if n[i] > 0:
                mind.price[i, ell] = math.log(y[i] + best * move[i])


@compiled
def _raise(lens: Lens, mind: Mind, ell: int) -> None:
    """For each arm with rewards since arm ell was solved, raise the prices of its rows together as far as that helps.

    Newton's method on a convex decreasing function, from the left. O(R).
    """
    arm, n, price, y = mind.arms[ell], mind.n, mind.price, lens.rows[0]
    for k in range(mind.pulls.size):
        low, high = lens.offset[k], lens.offset[k + 1]
        changed, more = False, 0.0
        for i in range(low, high):
            changed = changed or n[i] != mind.counted[ell, i]
        if not changed:
            continue
        for i in range(low, high):
            y[i] = math.exp(price[i, ell])
            if n[i] > 0:
                more = max(more, n[i] - y[i])  # no probability is above 1
        for _ in range(RAISES):
            over, fall = -1.0, 0.0
            for i in range(low, high):
                if n[i] > 0:
                    z = n[i] / (y[i] + more)
                    over += z
                    fall += z / (y[i] + more)
            if over <= 1e-6:
                break
            more += over / fall
        if more > 0.0:
            arm[PEAK] += more
            for i in range(low, high):
                if n[i] > 0:
                    new = math.log(y[i] + more)
                    arm[SPENT] += n[i] * (price[i, ell] - new) if y[i] > 0.0 else _xlogx(n[i]) - n[i] - n[i] * new
                    price[i, ell] = new


@compiled
def _sharpen(lens: Lens, mind: Mind, ell: int, delta: float, x: float) -> None:
    """Lower arm ell's bound without solving it, below x if that can be; the likeliest law must be up to date. O(J + R)."""
    arm = mind.arms[ell]
    target = (x - mind.slack[ell]) * arm[THETA] - delta * mind.share[ell] + mind.whole[BEST]
    _raise(lens, mind, ell)
    if arm[PEAK] + arm[SPENT] >= target:
        _tighten(lens, mind, ell, target)
        _raise(lens, mind, ell)


@compiled
def _enclose(mind: Mind, delta: float) -> None:
    """Both bounds of every arm that is not exact. O(K)."""
    whole, arms = mind.whole, mind.arms
    known = whole[FRESH] >= 0.0
    slack = np.inf  # how far the likeliest law at hand may be below L*
    if known:
        slack = max(whole[SUM] - _xlogx(whole[TOTAL]) - whole[PRICED] - whole[BEST], 0.0)
    for ell in range(arms.shape[0]):
        arm = arms[ell]
        if arm[EXACT] > 0.0:
            continue
        d = delta * mind.share[ell]
        arm[BOUND], arm[FLOOR] = min(arm[MOST] + mind.slack[ell], mind.own[ell]), -np.inf
        if not known:
            continue
        if arm[THETA] > 0.0:
            arm[BOUND] = min(arm[BOUND], (arm[PEAK] + arm[SPENT] + d - whole[BEST]) / arm[THETA] + mind.slack[ell])
        if slack <= d:
            arm[FLOOR] = arm[BASE]
            below = whole[BEST] - arm[LIKE]
            if arm[THETA] > 0.0 and below < np.inf and arm[TOP] > arm[BASE]:
                part = min((d - slack) / below, 1.0) if below > 0.0 else 1.0
                arm[FLOOR] = arm[BASE] + part * (arm[TOP] - arm[BASE])
            arm[FLOOR] = min(arm[FLOOR] + mind.slack[ell], mind.own[ell])
        if arm[BOUND] - arm[FLOOR] <= 0.1 * TIE:
            arm[EXACT] = 1.0


@compiled
def decide(lens: Lens, mind: Mind, delta: float) -> int:
    """The arm of largest index; the bounds it was decided by are left in ``mind.arms``. O(K), unless something must be
    solved.
    """
    arms, whole = mind.arms, mind.whole
    count = arms.shape[0]
    eager = whole[EAGER] > 0.0
    for ell in range(count):
        arms[ell, EXACT] = arms[ell, TRIES] = 0.0
        if whole[TOTAL] == 0.0 or delta <= 0.0:
            arms[ell, BOUND] = arms[ell, FLOOR] = min(arms[ell, MOST], mind.own[ell])
            arms[ell, EXACT] = 1.0
        if mind.doubted[ell]:
            arms[ell, BOUND] = arms[ell, FLOOR] = mind.own[ell]
            arms[ell, EXACT] = 1.0
        if mind.share[ell] < 0.0:
            arms[ell, BOUND] = arms[ell, FLOOR] = -np.inf
            arms[ell, EXACT] = 1.0
    while True:
        _enclose(mind, delta)
        leader, floor, open_arm, highest, most = 0, -np.inf, -1, -np.inf, -np.inf
        for ell in range(count):
            if arms[ell, FLOOR] > floor:
                leader, floor = ell, arms[ell, FLOOR]
        rivals = 0
        for ell in range(count):
            # a later arm that can at most tie with the leader loses to it whatever its index
            may_win = arms[ell, BOUND] >= floor - TIE and (ell <= leader or arms[ell, BOUND] > floor + 0.5 * TIE)
            rivals += 1 if may_win and ell != leader else 0
            most = max(most, arms[ell, BOUND])
            if (may_win or eager) and arms[ell, EXACT] == 0.0 and arms[ell, BOUND] > highest:
                open_arm, highest = ell, arms[ell, BOUND]
        if rivals == 0 and not eager and floor > -np.inf:
            return leader
        if open_arm < 0:
            for ell in range(count):
                if arms[ell, BOUND] >= most - TIE:
                    return ell
        if whole[FRESH] <= 0.0:
            _solve_likeliest(lens, mind)
        elif arms[open_arm, TRIES] == 0.0 and arms[open_arm, THETA] > 0.0:
            _sharpen(lens, mind, open_arm, delta, floor - TIE)
            arms[open_arm, TRIES] = 1.0
        else:
            _improve(lens, mind, open_arm, delta * mind.share[open_arm])


@compiled
def reaches(lens: Lens, mind: Mind, ell: int, delta: float, x: float) -> bool:
    """Whether arm ell's index is at least x, solved anew only if the bounds leave it open."""
    arm = mind.arms[ell]
    if arm[BOUND] < x or arm[FLOOR] >= x:
        return bool(arm[BOUND] >= x)
    if mind.whole[FRESH] <= 0.0:
        _solve_likeliest(lens, mind)
        _enclose(mind, delta)
    while arm[EXACT] == 0.0 and arm[FLOOR] < x <= arm[BOUND]:
        _improve(lens, mind, ell, delta * mind.share[ell])
        _enclose(mind, delta)
    return bool(arm[BOUND] >= x)


@compiled
def contradiction(lens: Lens, mind: Mind, rate: float) -> int:
    """The arm to doubt, or -1: see the module's words on the guard. O(1) while the evidence is far from speaking."""
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
        misfit = -_xlogx(mind.pulls[k]) - mind.pulls[k] * mind.leeway[k]
        for i in range(lens.offset[k], lens.offset[k + 1]):
            if mind.n[i] > 0.0:
                misfit += _xlogx(mind.n[i]) - mind.n[i] * math.log(mind.z[i])
        if mind.pulls[k] > 0.0 and misfit > most:
            worst, most = k, misfit
    return worst


@compiled
def doubt(lens: Lens, mind: Mind, k: int) -> None:
    """No longer take arm k's rewards as evidence on X."""
    mind.doubted[k] = 1
    relearn(lens, mind)


@compiled
def _play(lens: Lens, mind: Mind, level: Ints, x: Ints, pulls: Ints, chosen: Ints) -> None:
    for t in range(x.size):
        arm = decide(lens, mind, math.log(t + 1.0))
        chosen[t] = arm
        pulls[arm] += 1
        witness(lens, mind, arm, lens.offset[arm] + level[arm, x[t]])
