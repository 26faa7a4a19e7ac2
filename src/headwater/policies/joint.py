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

**A bound that costs a step.** One step towards the arm's solution leaves prices (``likelihood.approach``) under which the bound
is mostly exact.

**A step that lands.** A row seen once or twice is where log z bends most, and a step by its curvature falls short. If its
probability is going to be z', the curvature :math:`n / (z z')` of the secant is right. The likeliest law tells by which factor
the row's probability has changed since the arm was solved: about the same is expected of the arm's own law.

An arm is solved anew only while these bounds leave open which arm is
best: the choice is the one that solving every arm in every round would make (indices closer than ``TIE`` of the span count as
equal, and go to the lowest-numbered arm).

**Learned channels.** Where the channels are estimates, a mean may be wrong by a few of its standard errors e_l at the likeliest
law: the index is the smaller of :math:`U_\ell` + tolerance · :math:`e_\ell` and the arm's own, so that where the model is too
coarse to tell arms apart their own rewards decide. The guard (``mind``) allows each reward the likelihood that estimates cost.
"""

from __future__ import annotations

import math

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies.compile import compiled
from headwater.policies.lens import Lens
from headwater.policies.likelihood import approach, climb, log_likelihood, slope, spread, tilt_slope, worth
from headwater.policies.mind import (
    BASE,
    BEST,
    BOUND,
    EAGER,
    EXACT,
    FLOOR,
    FRESH,
    LIKE,
    MOST,
    PEAK,
    PRICED,
    SPENT,
    SUM,
    THETA,
    TOP,
    TOTAL,
    TRIES,
    Mind,
    freshen,
    witness,
    xlogx,
)
from headwater.policies.vectors import put

__all__ = ["TIE", "decide", "lift", "reaches"]

TIE = 1e-7
CLOSE = 1e-4
"""How near, as a part of delta, the likelihood must come to its limit: the index is then exact to the square of that."""
PATIENCE = 13
"""Steps after which an arm that is still open is solved by the slower, safer way."""
RAISES = 6
"""Newton steps towards the best raise of an arm's prices."""
SECANT = 8.0
"""The most that the curvature of a row is changed by what is expected of its probability."""
FLAT = 1e9
"""A tilt this many times the number of rewards: the best point of the support is allowed, up to 1/FLAT."""


@compiled
def first_tilt(lens: Lens, n: Floats, total: float, g: Floats, delta: float, p: Floats, z: Floats) -> float:
    """The theta that a parabola would give, from the likeliest law p (J,)."""
    bend = tilt_slope(lens, n, g, p, z)
    theta = math.sqrt(2.0 * delta / bend) if bend > 0.0 else total
    return min(max(theta, 1e-3 * math.sqrt(total)), FLAT * total)


@compiled
def lift(lens: Lens, n: Floats, total: float, g: Floats, delta: float, best: float, p: Floats, z: Floats) -> float:
    """Tilt p (J,), to begin with the likeliest law or near it, towards g until its likelihood is delta below ``best``, or the
    largest g is reached; returns theta.

    The square root of the drop is nearly linear in theta: Newton's method on it, kept in a bracket, which every eighth turn
    halves (in logarithms) in case that method creeps.
    """
    climb(lens, n, g, 0.0, 1e-9, p, z)
    theta = first_tilt(lens, n, total, g, delta, p, z)
    low, high = 0.0, np.inf
    for turn in range(100):
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
        if not low < guess < high or turn % 8 == 7:
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
    changed, y = spread(lens, mind.n, p, z), lens.rows[5]
    new = theta <= 0.0
    if new:
        theta = first_tilt(lens, mind.n, total, g, delta, p, z)
    slope(lens, mind.n, g, theta, p, z)
    if not (new or changed):
        _foresee(lens, mind, ell)
    arm[TRIES] += 1.0
    if arm[TRIES] > PATIENCE:  # from the likeliest law: where those steps led need not be anywhere near
        put(mind.laws[mind.arms.shape[0]], p)
        theta = lift(lens, mind.n, total, g, delta, best, p, z)
        slope(lens, mind.n, g, theta, p, z)
    else:
        theta = approach(lens, mind.n, g, delta, best, theta, FLAT * total, p, z, y)
    peak = worth(lens, y, g, theta, lens.atoms[0])
    put(mind.n, mind.counted[ell])
    put(mind.now, mind.then[ell])
    top = 0.0
    for j in range(p.size):
        top += g[j] * p[j]
    arm[THETA], arm[PEAK], arm[TOP] = theta, peak, top
    arm[LIKE], arm[SPENT] = 0.0, mind.whole[SUM] - total
    for i in range(z.size):
        if mind.n[i] > 0:
            mind.seen[i, ell], mind.price[i, ell] = math.log(z[i]), math.log(y[i])
            arm[LIKE] += mind.n[i] * mind.seen[i, ell]
            arm[SPENT] -= mind.n[i] * mind.price[i, ell]
        else:
            mind.seen[i, ell] = math.log(z[i]) if z[i] > 0.0 else -np.inf
    if arm[TRIES] > PATIENCE:
        arm[BOUND] = min(min((peak + arm[SPENT] + delta - best) / theta, arm[MOST]) + mind.slack[ell], mind.own[ell])
        arm[FLOOR] = arm[BOUND]
        arm[EXACT] = 1.0


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
                    arm[SPENT] += n[i] * (price[i, ell] - new) if y[i] > 0.0 else xlogx(n[i]) - n[i] - n[i] * new
                    price[i, ell] = new


@compiled
def _enclose(mind: Mind, delta: float) -> None:
    """Both bounds of every arm that is not exact. O(K)."""
    whole, arms = mind.whole, mind.arms
    known = whole[FRESH] >= 0.0
    slack = np.inf  # how far the likeliest law at hand may be below L*
    if known:
        slack = max(whole[SUM] - xlogx(whole[TOTAL]) - whole[PRICED] - whole[BEST], 0.0)
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
            freshen(lens, mind)
        elif arms[open_arm, TRIES] == 0.0 and arms[open_arm, THETA] > 0.0:
            _raise(lens, mind, open_arm)
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
        freshen(lens, mind)
        _enclose(mind, delta)
    while arm[EXACT] == 0.0 and arm[FLOOR] < x <= arm[BOUND]:
        _improve(lens, mind, ell, delta * mind.share[ell])
        _enclose(mind, delta)
    return bool(arm[BOUND] >= x)


@compiled
def _play(lens: Lens, mind: Mind, level: Ints, x: Ints, pulls: Ints, chosen: Ints) -> None:
    for t in range(x.size):
        arm = decide(lens, mind, math.log(t + 1.0))
        chosen[t] = arm
        pulls[arm] += 1
        witness(lens, mind, arm, lens.offset[arm] + level[arm, x[t]])
