r"""Scalar mathematics of the index policies, undecorated.

Every function here takes and returns plain numbers, so that one text serves the live object (one decision), the CPU
engine (numba) and CUDA. None of them may allocate, raise, or call anything but :mod:`math` (a compiled function cannot
call an undecorated one).

The round convention: the t-th decision, t = 1, 2, ..., is made from the first t - 1 rewards, and ``log_t`` is the
natural logarithm of that t. An arm never pulled has mean :math:`+\infty` and ``rsqrt_n`` 0, which makes every
index below :math:`+\infty` without a branch, also at t = 1 where the width is 0 (``0 * inf`` would be NaN).

======== =======================================================================================================
ucb1     :math:`\hat\mu + B\sqrt{2\log t}\cdot n^{-1/2}`
kl-ucb   :math:`\max\{q : n\,\mathrm{kl}((\hat\mu-a)/B, (q-a)/B) \le \log t\}`, kl of two Bernoulli laws
ts       a draw of :math:`N(\hat\mu, (B/2)^2/n)`, or of Beta(1 + successes, 1 + failures) after binarisation; with the
         standard deviation estimated: of :math:`N(\hat\mu, ((B/2)^2 + \sum(r - \hat\mu)^2)/n^2)`
======== =======================================================================================================
"""

from __future__ import annotations

import math
from typing import Any

__all__ = [
    "beta_index",
    "binarised",
    "empirical_mean",
    "estimated_error",
    "gamma_candidate",
    "gamma_parameters",
    "kl_empirical_index",
    "kl_needed",
    "kl_ucb_index",
    "kl_ucb_reaches",
    "normal_index",
    "normal_quantile",
    "reciprocal_root",
    "ucb1_index",
    "ucb1_width",
]


def empirical_mean(total: float, n: float, unit: float) -> float:
    """Mean reward of an arm that paid ``total`` units over ``n`` pulls; +inf when it was never pulled."""
    return math.inf if n == 0 else total * unit / n


def reciprocal_root(n: float) -> float:
    """``1 / sqrt(n)``, and 0 when n is 0 (see the module's note on +inf)."""
    return 0.0 if n == 0 else 1.0 / math.sqrt(n)


def estimated_error(n: int, total: int, squares: int, rest: int, unit: float, sd: float) -> float:
    r"""The standard error of an arm's mean, its variance estimated from its rewards and one pseudo-observation, ``sd`` squared.

    That is :math:`\sqrt{(sd^2 + \sum(r - \hat\mu)^2)/n}/\sqrt n`, and ``sd`` when n is 0. The n rewards sum to ``total`` units,
    their squares to ``squares`` 2**31 + ``rest``, 0 <= rest < 2**31; a reward is at most 2**31 units, the total below 2**62.
    The sum of squares about m, the mean rounded down, is exact: :math:`\sum r^2 - m(2 total - n m)` in two words. So nothing
    cancels, however far from 0 the rewards are.
    """
    n = max(n, 1)
    m = total // n
    over = total - m * n
    both = total + over
    rest = rest - m * (both & 0x7FFFFFFF)
    about = float(squares - m * (both >> 31) + (rest >> 31)) * 2147483648.0 + float(rest & 0x7FFFFFFF)
    spread = max(about - float(over) * (float(over) / float(n)), 0.0)
    wide = sd / unit
    return unit * math.sqrt(spread + wide * wide) / float(n)


def ucb1_width(log_t: float, scale: float) -> float:
    """The factor of the bonus that all arms share in a round: ``B sqrt(2 log t)``."""
    return scale * math.sqrt(2.0 * log_t)


def ucb1_index(mean: float, rsqrt_n: float, width: float) -> float:
    """UCB1. ``rsqrt_n`` changes only when the arm is pulled, so a round costs one product and one sum per arm."""
    return mean + width * rsqrt_n


def kl_ucb_index(mean: float, n: float, log_t: float, low: float, scale: float) -> float:
    """KL-UCB in its Bernoulli form, for rewards in ``[low, low + scale]``.

    Newton's method on the convex q -> kl(p, q) - log(t)/n from the right end of a bracket descends monotonically to the
    root; the bracket starts at Pinsker's bound p + sqrt(log(t) / 2n), and a step that leaves it is replaced by
    bisection. Typically 3 to 5 evaluations; the count is bounded, and the result is above the root by rounding only.
    """
    if n == 0 or mean == math.inf:
        return math.inf
    if scale <= 0.0:
        return mean
    p = min(max((mean - low) / scale, 0.0), 1.0)
    budget = log_t / n
    if budget <= 0.0 or p >= 1.0:
        return low + scale * p
    if p == 0.0:
        return low - scale * math.expm1(-budget)
    entropy = -p * math.log(p) - (1.0 - p) * math.log1p(-p)
    left = p
    # 1 - q >= exp(-(budget + entropy) / (1 - p)) keeps q off 1, where kl is infinite and Newton useless.
    right = min(p + math.sqrt(0.5 * budget), -math.expm1(-(budget + entropy) / (1.0 - p)))
    if right >= 1.0:
        return low + scale
    if right <= p:
        return low + scale * p
    q = right
    for _ in range(64):
        gap = -entropy - p * math.log(q) - (1.0 - p) * math.log1p(-q) - budget
        if gap > 0.0:
            right = q
        else:
            left = q
        following = q - gap * q * (1.0 - q) / (q - p)
        if following <= left or following >= right:
            following = 0.5 * (left + right)
        if abs(following - q) <= 1e-15 * q:
            break
        q = following
    return low + scale * q


def kl_ucb_reaches(mean: float, n: float, other: float, log_t: float, low: float, scale: float) -> bool:
    """Whether KL-UCB's index of an arm may be ``other`` or more: one evaluation of kl instead of a search for its root.

    Errs towards yes by more than rounding, that of the index included: near 1 by moving q, elsewhere by widening the budget.
    So a no is certain.
    """
    if n == 0 or scale <= 0.0 or other <= mean:
        return True
    p = min(max((mean - low) / scale, 0.0), 1.0)
    q = (other - low - 4e-15 * (abs(low) + abs(other) + scale)) / scale
    if q <= p or q >= 1.0 or p >= 1.0:
        return True
    kl = -(1.0 - p) * (math.log1p(-q) - math.log1p(-p))
    if p > 0.0:
        kl += p * math.log(p / q)
    return n * kl <= log_t * (1.0 + 1e-9) + 4e-15 * n + 1e-12


def kl_empirical_index(seen: Any, pays: Any, n: int, log_t: float) -> float:
    r"""KL-UCB on the arm's own levels, in units: the largest mean of a law q with n KL(observed law, q) <= log t.

    ``seen[m]`` of the pulls paid ``pays[m]``, at least one; n may also count pulls that have not paid yet. The largest level
    may get mass although it was never seen. With
    :math:`f(\nu) = \sum_m p_m \log(\nu - v_m) + \log \sum_m p_m/(\nu - v_m)`, which falls from :math:`\nu = v_{max}`
    on, the best q is proportional to :math:`p_m/(\nu - v_m)` where f meets the budget; if f stays below it, the rest of the
    mass goes to
    :math:`v_{max}`. About 60 steps of O(M).
    """
    top, seen_top, paid = -math.inf, 0, 0
    for m in range(len(seen)):
        paid += seen[m]
        if pays[m] > top:
            top, seen_top = pays[m], 0
        if pays[m] == top:
            seen_top += seen[m]
    if seen_top == paid:
        return float(top)
    budget = log_t / n
    if budget <= 0.0:
        total = 0.0
        for m in range(len(seen)):
            total += seen[m] * pays[m]
        return total / paid
    # the excess w of nu over the top: 0 first, if that is possible; then doubled until f is below the budget; then bisected
    low, high, w, inverse = 0.0, 1.0, 0.0, 0.0
    expanding = True
    for step in range(200):
        w = 0.0 if step == 0 else high if expanding else 0.5 * (low + high)
        if step > 0 or seen_top == 0:
            logs, inverse = 0.0, 0.0
            for m in range(len(seen)):
                if seen[m] > 0:
                    gap = top + w - pays[m]
                    logs += seen[m] * math.log(gap)
                    inverse += seen[m] / gap
            value = logs / paid + math.log(inverse / paid)
            if value > budget:
                low = w
                high = 2.0 * high if expanding and step > 0 else high
            elif step == 0:
                return float(top - math.exp(value - budget) * paid / inverse)
            else:
                high, expanding = w, False
            if not expanding and high - low <= 1e-14 * (abs(top) + high):
                break
    return float(top + w - paid / inverse)


def kl_needed(seen: Any, pays: Any, target: float) -> tuple[float, float]:
    r"""How much n KL(observed law, q) it takes for a law q on the arm's rewards to have mean ``target``, 0 where the observed
    has; and how fast that grows with the target.

    ``seen[m]`` of the n pulls paid ``pays[m]``. The least is :math:`\max_\lambda \sum_m seen_m \log(1 - \lambda (v_m -
    target))` over
    :math:`0 \le \lambda \le 1/(v_{max} - target)`, concave in :math:`\lambda`: bisection on its slope. Infinite where no reward
    reaches the target. The rate is :math:`\lambda n`, and as the least is convex in the target, it is nowhere below its
    tangent. About 50 steps of O(M).
    """
    top, total, n = -math.inf, 0.0, 0
    for m in range(len(seen)):
        top = max(top, pays[m])
        total += seen[m] * pays[m]
        n += seen[m]
    if total >= n * target:
        return 0.0, 0.0
    if top <= target:
        return math.inf, math.inf
    low, high = 0.0, 1.0 / (top - target)
    for _ in range(50):
        middle, slope = 0.5 * (low + high), 0.0
        for m in range(len(seen)):
            if seen[m] > 0:
                slope += seen[m] * (target - pays[m]) / (1.0 - middle * (pays[m] - target))
        if slope > 0.0:
            low = middle
        else:
            high = middle
    value = 0.0
    for m in range(len(seen)):
        if seen[m] > 0:
            value += seen[m] * math.log(1.0 - low * (pays[m] - target))
    return value, low * n


def normal_index(mean: float, rsqrt_n: float, sd: float, z: float) -> float:
    """Thompson sampling with a normal posterior: the standard normal draw ``z``, moved and scaled."""
    return mean + sd * rsqrt_n * z


def beta_index(x: float, y: float, low: float, scale: float) -> float:
    """Thompson sampling with a Beta posterior, from its two gamma draws, on the scale of the rewards."""
    return low + scale * (x / (x + y))


def binarised(reward: float, low: float, scale: float, u: float) -> float:
    """1 with probability (reward - low) / scale, else 0; ``u`` is uniform on [0, 1)."""
    return 1.0 if u * scale < reward - low else 0.0


def gamma_parameters(shape: float) -> tuple[float, float]:
    """Marsaglia and Tsang's d and c for a gamma law of shape >= 1."""
    d = shape - 1.0 / 3.0
    return d, 1.0 / math.sqrt(9.0 * d)


def gamma_candidate(d: float, c: float, z: float, u: float) -> float:
    """One attempt of Marsaglia and Tsang's method: a gamma draw, or -1 when it is rejected (under 5 % of the time).

    ``z`` is standard normal and ``u`` uniform on (0, 1).
    """
    v = 1.0 + c * z
    if v <= 0.0:
        return -1.0
    v = v * v * v
    if math.log(u) < 0.5 * z * z + d - d * v + d * math.log(v):
        return d * v
    return -1.0


def normal_quantile(u: float) -> float:
    """Standard normal quantile of 0 < u < 1: Wichura's AS 241 (PPND16), relative error about 1e-16.

    Inversion rather than Box-Muller: one uniform gives one deviate, so arm k's draw depends on nothing else.
    """
    q = u - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        num = 2509.0809287301226727
        num = num * r + 33430.575583588128105
        num = num * r + 67265.770927008700853
        num = num * r + 45921.953931549871457
        num = num * r + 13731.693765509461125
        num = num * r + 1971.5909503065514427
        num = num * r + 133.14166789178437745
        num = num * r + 3.387132872796366608
        den = 5226.495278852545925
        den = den * r + 28729.085735721942674
        den = den * r + 39307.89580009271061
        den = den * r + 21213.794301586595867
        den = den * r + 5394.1960214247511077
        den = den * r + 687.1870074920579083
        den = den * r + 42.313330701600911252
        den = den * r + 1.0
        return q * num / den
    r = math.sqrt(-math.log(u if q < 0.0 else 1.0 - u))
    if r <= 5.0:
        r -= 1.6
        num = 7.7454501427834140764e-4
        num = num * r + 0.0227238449892691845833
        num = num * r + 0.24178072517745061177
        num = num * r + 1.27045825245236838258
        num = num * r + 3.64784832476320460504
        num = num * r + 5.7694972214606914055
        num = num * r + 4.6303378461565452959
        num = num * r + 1.42343711074968357734
        den = 1.05075007164441684324e-9
        den = den * r + 5.475938084995344946e-4
        den = den * r + 0.0151986665636164571966
        den = den * r + 0.14810397642748007459
        den = den * r + 0.68976733498510000455
        den = den * r + 1.6763848301838038494
        den = den * r + 2.05319162663775882187
        den = den * r + 1.0
    else:
        r -= 5.0
        num = 2.01033439929228813265e-7
        num = num * r + 2.71155556874348757815e-5
        num = num * r + 0.0012426609473880784386
        num = num * r + 0.026532189526576123093
        num = num * r + 0.29656057182850489123
        num = num * r + 1.7848265399172913358
        num = num * r + 5.4637849111641143699
        num = num * r + 6.6579046435011037772
        den = 2.04426310338993978564e-15
        den = den * r + 1.4215117583164458887e-7
        den = den * r + 1.8463183175100546818e-5
        den = den * r + 7.868691311456132591e-4
        den = den * r + 0.0148753612908506148525
        den = den * r + 0.13692988092273580531
        den = den * r + 0.59983220655588793769
        den = den * r + 1.0
    return -num / den if q < 0.0 else num / den
