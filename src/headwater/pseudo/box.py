r"""Pseudo-rewards when the latent vector has interval components: the most arm ell pays where arm k pays r.

With target :math:`f = g_\ell`, observed :math:`g = g_k` and a box B, the number wanted is
:math:`s(r) = \max\{f(x) : x \in B,\ g(x) = r\}`. For every real lam, each x with g(x) = r obeys

.. math:: f(x) = \lambda r + (f - \lambda g)(x) \le \lambda r + \max_B (f - \lambda g),

so any lam gives an upper bound. Linear arms: the best lam is among the ratios of coefficients and closes the gap.
General arms: on a small box :math:`f - \lambda g` is bounded through its slopes. At the constrained maximum the
gradients are parallel, the right lam cancels them, and the bound errs by the *square* of the width. Without lam it errs
by the width, and the boxes needed near the maximum multiply without end (the "cluster effect").

Every approximation errs upward: too high a pseudo-reward costs regret, too low a one can exclude the best arm forever.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwater.arrays import SAME, Bools, Floats, Ints
from headwater.enclosures import Enclosure, Interval, add, enclose, multiply, negate
from headwater.errors import ProblemError
from headwater.expressions import Expression, parse

_EPS = float(np.finfo(float).eps)
_HUGE = 1e100  # stands for infinity where products must stay finite
_REWARDS = 128  # rewards searched side by side
_BLOCK = 16_384  # boxes bounded in one sweep: keeps the working set to some tens of MB
_SHARE = 512  # boxes split in one round, over all rewards
_SAMPLED = 8  # boxes per reward and round in which feasible points are looked for
_ROOT_STEPS = 100


class Bound(NamedTuple):
    """``lower[i] <= s(r_i) <= upper[i]``, both (R,). A feasible point pays ``lower``; both -inf: no x pays r_i."""

    upper: Floats
    lower: Floats


def linear_maximum(c: Floats, c0: float, a: Floats, a0: float, lo: Floats, hi: Floats, rewards: Floats) -> Bound:
    r"""Maximise ``c @ x + c0`` subject to ``a @ x + a0 == r`` over a box, for every r of ``rewards`` (R,).

    ``c, a, lo, hi`` have shape (d,); ends may be infinite where both coefficients are 0. The dual function
    :math:`D(\lambda; r) = \lambda (r - a_0) + c_0 + \sum_i \max_{x_i} (c_i - \lambda a_i) x_i` is least at one of
    :math:`\lambda = c_i / a_i`; ``lower`` is the fractional knapsack's value, the same number but for rounding.
    A reward outside the payable range by rounding counts as the nearest end. Cost: O(d² + d R).

    >>> c, a, r = np.array([0.1, 1.0]), np.array([1.0, 0.1]), np.array([1.0])
    >>> both = linear_maximum(c, 0.0, a, 0.0, np.zeros(2), np.ones(2), r)
    >>> both.upper.round(12), both.lower.round(12)
    (array([1.09]), array([1.09]))
    """
    idle = (c == 0) & (a == 0)
    lo, hi = np.where(idle, 0.0, lo), np.where(idle, 0.0, hi)
    if not np.all(np.isfinite([lo, hi])):
        raise ProblemError(f"box: got the ends {lo} and {hi}; expected finite ends wherever a coefficient is not 0")
    with np.errstate(all="ignore"):
        path = _climb(c[:, None], a[:, None], lo[:, None], hi[:, None])[:, :, 0]
        pays, earns = np.maximum.accumulate(path @ a + a0), path @ c + c0
        slack = SAME * (abs(a) @ np.maximum(abs(lo), abs(hi)) + abs(a0))
        payable = (rewards >= pays[0] - slack) & (rewards <= pays[-1] + slack)
        r = np.clip(rewards, pays[0], pays[-1])
        lower = np.interp(r, pays, earns)
        upper = np.maximum(_dual(c, c0, a, a0, lo, hi, r), lower)
    return Bound(np.where(payable, upper, -np.inf), np.where(payable, lower, -np.inf))


def _dual(c: Floats, c0: float, a: Floats, a0: float, lo: Floats, hi: Floats, r: Floats) -> Floats:
    """The least of the dual function over its breakpoints, for every r (R,), plus all that rounding can take away."""
    lam = np.unique(np.append(c[a != 0] / a[a != 0], 0.0))[:, None]
    slope = c - lam * a
    best = np.where(slope > 0, hi, lo)
    fixed = c0 - lam * a0 + np.sum(slope * best, axis=1, keepdims=True)
    # a slope lost in its own rounding may have either sign, so that either end may be the best
    blur = _EPS * (abs(c) + abs(lam * a))
    loss = np.sum(blur * np.where(abs(slope) <= blur, abs(lo) + abs(hi), abs(best)), axis=1, keepdims=True)
    size = abs(lam * r) + abs(c0) + abs(lam * a0) + np.sum(abs(slope * best), axis=1, keepdims=True)
    bounds = lam * r + fixed + loss + (len(c) + 4) * _EPS / 2 * size
    least: Floats = np.min(np.where(np.isnan(bounds), np.inf, bounds), axis=0)
    return least


def unconstrained_maximum(target: Expression, lo: Floats, hi: Floats, *, tolerance: float, budget: int) -> tuple[float, float]:
    """Bound the most ``target`` pays on the boxes ``lo, hi`` (d, N0) from above and below, as :func:`bounded_maximum`.

    >>> hill = parse("x*(1-x)", ["x"])
    >>> upper, lower = unconstrained_maximum(hill, np.zeros((1, 1)), np.ones((1, 1)), tolerance=1e-9, budget=999)
    >>> [round(upper, 8), round(lower, 8)]
    [0.25, 0.25]
    """
    anything = np.array([np.inf])
    free = parse("0", target.names)
    bound = bounded_maximum(target, free, -anything, anything, lo, hi, tolerance=tolerance, budget=budget)
    return float(bound.upper[0]), float(bound.lower[0])


def bounded_maximum(
    target: Expression,
    observed: Expression,
    rewards_lo: Floats,
    rewards_hi: Floats,
    lo: Floats,
    hi: Floats,
    *,
    tolerance: float,
    budget: int,
) -> Bound:
    """Maximise ``target`` where ``rewards_lo[i] <= observed <= rewards_hi[i]``, for each i: interval branch and bound.

    The search starts from the N0 boxes ``lo, hi`` (d, N0); sides may be points or infinite intervals. It ends for
    reward i when ``upper - lower <= tolerance`` or after ``budget`` boxes; the bounds hold either way. Reward
    intervals (R,) narrower than ``SAME`` of the observed rewards are widened to that: rewards so close are one reward.

    >>> circle, total = parse("x*x + y*y", ["x", "y"]), parse("x + y", ["x", "y"])
    >>> r = np.array([0.5, 3.0])
    >>> bound = bounded_maximum(total, circle, r, r, np.zeros((2, 1)), np.ones((2, 1)), tolerance=1e-9, budget=9999)
    >>> bound.upper.round(8).tolist()
    [1.0, -inf]
    """
    if target.names != observed.names:
        raise ProblemError(f"observed: got the variables {observed.names}; expected {target.names}, like target")
    if lo.shape != hi.shape or lo.ndim != 2 or len(lo) != len(target.names):
        raise ProblemError(f"boxes: got shapes {lo.shape} and {hi.shape}; expected ({len(target.names)}, N) twice")
    upper, lower = np.full((2, len(rewards_lo)), -np.inf)
    with np.errstate(all="ignore"):
        seen = _enclose_blocks(observed, lo, hi)
        low, high, pad = _windows(observed(*_middle(lo, hi)), rewards_lo, rewards_hi)
        step = int(np.clip(2 * _BLOCK // max(lo.shape[1], 1), 1, _REWARDS))
        for first in range(0, len(low), step):
            part = slice(first, first + step)
            search = _Search(target, observed, low[part], high[part], pad[part], tolerance, budget)
            upper[part], lower[part] = search.run(lo, hi, seen)
    return Bound(upper, lower)


def _windows(typical: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Reward intervals wide enough to be met in floating point, and how far inside their ends (R,) to aim."""
    scale = float(np.max(abs(typical[np.isfinite(typical)]), initial=0.0))
    middle = np.where(np.isfinite(low) & np.isfinite(high), low / 2 + high / 2, low)
    pad = SAME * np.where(np.isfinite(middle), np.maximum(abs(middle), scale), 0.0)
    low, high = np.minimum(low, middle - pad), np.maximum(high, middle + pad)
    return low, high, np.minimum(pad, (high - low) / 2)


class _Boxes(NamedTuple):
    """N boxes in d variables: sides ``lo, hi`` (d, N); then (N,) each: the reward, a bound, the axis to split."""

    lo: Floats
    hi: Floats
    owner: Ints
    upper: Floats
    axis: Ints

    def take(self, w: Bools | Ints) -> _Boxes:
        return _Boxes(self.lo[:, w], self.hi[:, w], self.owner[w], self.upper[w], self.axis[w])


class _Search:
    """One branch and bound over R rewards at once: the boxes of different rewards share each numpy call."""

    def __init__(
        self, f: Expression, g: Expression, low: Floats, high: Floats, pad: Floats, tolerance: float, budget: int
    ) -> None:
        self.target, self.observed = f, g
        self.low, self.high, self.pad = low, high, pad
        self.tolerance, self.budget = tolerance, budget
        self.spent = np.zeros(len(low), dtype=np.int64)
        self.lower = np.full(len(low), -np.inf)  # the best feasible value so far
        self.settled = np.full(len(low), -np.inf)  # the highest bound among boxes that were put aside
        self.scope = sorted(f.scope() | g.scope())
        self.width = np.ones((len(f.names), 1))  # of the largest starting box

    def run(self, lo: Floats, hi: Floats, seen: Enclosure) -> tuple[Floats, Floats]:
        """Search from the boxes ``lo, hi`` (d, N0), on which the observed arm is known to obey ``seen``."""
        width = np.where(np.isfinite(hi - lo), hi - lo, 1.0).max(axis=1, initial=0.0, keepdims=True)
        self.width = np.where(width > 0, width, 1.0)
        miss = (seen.lo > self.high[:, None]) | (seen.hi < self.low[:, None])
        owner, start = np.nonzero(~(miss & seen.defined))
        unknown = np.full(len(owner), np.inf)
        pool = self.settle(self.explore(_Boxes(lo[:, start], hi[:, start], owner, unknown, np.zeros_like(owner))))
        while len(pool.owner):
            pick = self.choose(pool)
            children = self.explore(_halve(pool.take(pick)))
            rest = pool.take(~pick)
            pool = self.settle(_Boxes(*(np.concatenate(pair, axis=-1) for pair in zip(rest, children, strict=True))))
        return np.maximum(self.settled, self.lower), self.lower

    def settle(self, pool: _Boxes) -> _Boxes:
        """Put aside what cannot matter, cannot be split, or cannot be paid for; remember how high it reaches."""
        live = pool.upper > self.lower[pool.owner] + self.tolerance
        live &= (pool.axis >= 0) & (self.spent < self.budget)[pool.owner]
        np.maximum.at(self.settled, pool.owner[~live], pool.upper[~live])
        # nothing better than what is put aside already can be promised: boxes below that need no more work
        live &= pool.upper > self.settled[pool.owner]
        return pool.take(live)

    def choose(self, pool: _Boxes) -> Bools:
        """The most promising boxes of every reward, a bounded number each."""
        share = max(_SHARE // len(np.unique(pool.owner)), 16)
        return _rank(pool) < np.minimum(share, 1 + (self.budget - self.spent) // 2)[pool.owner]

    def explore(self, boxes: _Boxes) -> _Boxes:
        """Bound new boxes, drop those that cannot pay their reward, and look for feasible points in the best."""
        self.spent += np.bincount(boxes.owner, minlength=len(self.spent))
        every = np.arange(len(boxes.owner))
        parts = [self.assess(boxes.take(every[i : i + _BLOCK])) for i in range(0, max(len(every), 1), _BLOCK)]
        return parts[0] if len(parts) == 1 else _Boxes(*(np.concatenate(x, axis=-1) for x in zip(*parts, strict=True)))

    def assess(self, boxes: _Boxes) -> _Boxes:
        """Tighten the bounds of boxes and their sides, choose where to split them, and sample them."""
        n = len(boxes.owner)
        centre = _middle(boxes.lo, boxes.hi)
        lo, hi = np.concatenate([boxes.lo, centre], axis=1), np.concatenate([boxes.hi, centre], axis=1)
        both = [enclose(e, lo, hi) for e in (self.target, self.observed)]
        (f, f_mid), (g, g_mid) = ([_part(e, slice(n)), _part(e, slice(n, None))] for e in both)
        low, high = self.low[boxes.owner], self.high[boxes.owner]
        shift = _contract(g, g_mid, low, high, Interval(_down(boxes.lo - centre), _up(boxes.hi - centre)))
        new_lo = np.maximum(boxes.lo, _down(centre + shift.lo))
        new_hi = np.minimum(boxes.hi, _up(centre + shift.hi))
        bound = np.where(f.defined, np.minimum(f.hi, _lagrange(f, f_mid, g, g_mid, low, high, shift)), f.hi)
        keep = ~g.defined | ((g.lo <= high) & (g.hi >= low) & np.all(new_lo <= new_hi, axis=0))
        out = _Boxes(new_lo, new_hi, boxes.owner, np.minimum(bound, boxes.upper), boxes.axis)
        out, f, g = out.take(keep), _part(f, keep), _part(g, keep)
        ripe = out.upper > self.lower[out.owner] + self.tolerance
        ripe[ripe] = _rank(out.take(ripe)) < _SAMPLED
        self.sample(out.take(ripe), _slope(_part(f, ripe), 0.0), _slope(_part(g, ripe), 1.0))
        return self.resolve(out._replace(axis=self.split_axis(out, f, g)), f, g)

    def split_axis(self, boxes: _Boxes, f: Enclosure, g: Enclosure) -> Ints:
        """The side with the largest share in the uncertainty of both arms; -1 where no side can be split to any use."""
        width = np.minimum(boxes.hi - boxes.lo, _HUGE)
        score = np.zeros_like(width)
        excess = np.minimum(boxes.upper - self.lower[boxes.owner], _HUGE)
        inside = (g.lo >= self.low[boxes.owner]) & (g.hi <= self.high[boxes.owner]) & g.defined
        blur = np.where(inside, _HUGE, 2 * self.pad[boxes.owner])
        for say, e, expression, enough in ((2.0, f, self.target, excess), (1.0, g, self.observed, blur)):
            steep = np.maximum(abs(e.dlo), abs(e.dhi))
            smooth = np.all(np.isfinite(steep), axis=0) & e.defined
            share = np.minimum(e.dhi - e.dlo + 0.1 * steep, _HUGE) * width
            if not smooth.all():
                share[:, ~smooth] = self.jump_share(expression, boxes.lo[:, ~smooth], boxes.hi[:, ~smooth])
            # little say: a target that varies less than it must fall, an observed arm that varies within its reward
            varies = np.where(smooth, np.minimum(steep * width, _HUGE).sum(axis=0), np.inf)
            weight = say * np.maximum(1 / (1 + (enough / varies) ** 2), _EPS)
            score += np.nan_to_num(share / share.sum(axis=0) * weight)
        score[boxes.lo >= boxes.hi] = 0.0
        return np.where(score.max(axis=0) > 0, score.argmax(axis=0), -1)

    def jump_share(self, expression: Expression, lo: Floats, hi: Floats) -> Floats:
        """How much to split each side (d, N) where an arm may jump: first one across which, alone, it jumps."""
        share = np.minimum((hi - lo) / self.width, _HUGE)
        middle = _middle(lo, hi)
        for i in range(len(lo)):
            if i not in expression.scope():
                share[i] = 0.0
                continue
            flat_lo, flat_hi = lo.copy(), hi.copy()
            flat_lo[i] = flat_hi[i] = middle[i]
            e = enclose(expression, flat_lo, flat_hi)
            cured = np.all(np.isfinite(e.dhi - e.dlo), axis=0) & e.defined & (share[i] > _EPS**2)
            share[i] *= np.where(cured, 1 / _EPS**2, 1.0)
        return share

    def resolve(self, boxes: _Boxes, f: Enclosure, g: Enclosure) -> _Boxes:
        """Single points at which a bound tells nothing, or both sides of a jump: there the arms are evaluated."""
        sure = np.all(np.isfinite([f.dlo, f.dhi, g.dlo, g.dhi]), axis=(0, 1)) & f.defined & g.defined
        point = np.all((boxes.lo == boxes.hi)[self.scope], axis=0)
        stuck = np.flatnonzero(point & ~sure)
        value, pays = self.target(*boxes.lo[:, stuck]), self.observed(*boxes.lo[:, stuck])
        owner = boxes.owner[stuck]
        fits = (pays >= self.low[owner]) & (pays <= self.high[owner]) & np.isfinite(value)
        boxes.upper[stuck] = np.where(fits, np.minimum(boxes.upper[stuck], value), -np.inf)
        return boxes

    def sample(self, boxes: _Boxes, df: Floats, dg: Floats) -> None:
        """Raise ``lower`` by feasible points on the edges a linear arm would use, and between those and the middle."""
        centre = _middle(boxes.lo, boxes.hi)
        reach = 1.0 + abs(centre)
        lo = np.where(np.isfinite(boxes.lo), boxes.lo, centre - reach)
        hi = np.where(np.isfinite(boxes.hi), boxes.hi, centre + reach)
        path = _climb(df, dg, lo, hi)
        self.accept(np.concatenate([path, centre[None]]), boxes.owner)
        start = np.concatenate([path[:-1], centre[None], centre[None]])
        end = np.concatenate([path[1:], path[:1], path[-1:]])
        owner = np.broadcast_to(boxes.owner, (len(start), len(boxes.owner)))
        low, high, pad = (x[owner] for x in (self.low, self.high, self.pad))
        aims = [low + pad] if np.all(high - low <= 2.5 * pad) else [low + pad, high - pad]
        for aim in aims:  # the highest target often lies at one end of a wide reward interval
            u, v = np.moveaxis(start, 1, 0), np.moveaxis(end, 1, 0)
            below, above = self.observed(*u) - aim, self.observed(*v) - aim
            cross = (below * above <= 0) & np.isfinite(below - above)
            if cross.any():
                roots = self.roots(u[:, cross], v[:, cross], below[cross], above[cross], aim[cross], pad[cross])
                self.accept(roots, owner[cross])

    def roots(self, u: Floats, v: Floats, fu: Floats, fv: Floats, aim: Floats, pad: Floats) -> Floats:
        """Points (3, d, M) near where the observed arm pays ``aim`` between u and v (d, M), by secant and bisection."""
        s, t = np.zeros(len(aim)), np.ones(len(aim))
        at = s
        for step in range(_ROOT_STEPS):
            secant = s + (t - s) * np.where(fu == fv, 0.5, fu / (fu - fv))
            at = np.clip(secant, s, t) if step % 3 < 2 else (s + t) / 2
            value = self.observed(*(u + at * (v - u))) - aim
            left = (value > 0) == (fu > 0)
            s, fu = np.where(left, at, s), np.where(left, value, fu)
            t, fv = np.where(left, t, at), np.where(left, fv, value)
            if np.all((abs(value) <= pad) | (t - s <= _EPS)):
                break
        return np.stack([np.clip(u + z * (v - u), np.minimum(u, v), np.maximum(u, v)) for z in (s, at, t)])

    def accept(self, points: Floats, owner: Ints) -> None:
        """Let ``points`` (P, d, M) of the rewards ``owner`` (M,) raise the lower bounds where they pay the reward."""
        x = np.moveaxis(points, 1, 0)
        pays, value = self.observed(*x), self.target(*x)
        fits = (pays >= self.low[owner]) & (pays <= self.high[owner]) & np.isfinite(value)
        np.maximum.at(self.lower, np.broadcast_to(owner, fits.shape)[fits], value[fits])


def _enclose_blocks(expression: Expression, lo: Floats, hi: Floats) -> Enclosure:
    starts = range(0, max(lo.shape[1], 1), _BLOCK)
    blocks = [enclose(expression, lo[:, i : i + _BLOCK], hi[:, i : i + _BLOCK]) for i in starts]
    return Enclosure(*(np.concatenate(fields, axis=-1) for fields in zip(*blocks, strict=True)))


def _part(e: Enclosure, which: slice | Bools) -> Enclosure:
    return Enclosure(e.lo[which], e.hi[which], e.dlo[:, which], e.dhi[:, which], e.defined[which])


def _up(x: Floats) -> Floats:
    return np.nextafter(x, np.inf)


def _down(x: Floats) -> Floats:
    return np.nextafter(x, -np.inf)


def _middle(lo: Floats, hi: Floats) -> Floats:
    """A finite point of every interval, where it is split: the midpoint, 0, or twice as far out as the finite end."""
    inner = np.clip(lo / 2 + hi / 2, lo, hi)
    outer = np.where(np.isfinite(lo), np.where(lo < 0, 0.0, 2 * lo + 1), np.where(hi > 0, 0.0, 2 * hi - 1))
    outer = np.where(np.isfinite(lo) | np.isfinite(hi), np.clip(outer, -1e300, 1e300), 0.0)
    return np.where(np.isfinite(lo) & np.isfinite(hi), inner, np.clip(outer, lo, hi))


def _halve(boxes: _Boxes) -> _Boxes:
    """Both halves of every box along its axis; a side between neighbouring floats falls into its two ends."""
    at = (boxes.axis, np.arange(len(boxes.axis)))
    cut = _middle(boxes.lo, boxes.hi)[at]
    left, right = boxes.hi.copy(), boxes.lo.copy()
    neighbours = _up(boxes.lo[at]) >= boxes.hi[at]
    left[at] = np.where(neighbours, boxes.lo[at], cut)
    right[at] = np.where(neighbours, boxes.hi[at], cut)
    return _Boxes(
        np.concatenate([boxes.lo, right], axis=1),
        np.concatenate([left, boxes.hi], axis=1),
        *(np.concatenate([x, x]) for x in (boxes.owner, boxes.upper, boxes.axis)),
    )


def _rank(boxes: _Boxes) -> Ints:
    """Each box's place among those of its reward, the highest bound first."""
    order = np.lexsort((-boxes.upper, boxes.owner))
    count = np.bincount(boxes.owner, minlength=1)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    return rank


def _slope(e: Enclosure, unknown: float) -> Floats:
    """One typical slope per side (d, N), to choose directions by; ``unknown`` where a jump hides it."""
    return np.where(np.isfinite(e.dlo - e.dhi) & e.defined, (e.dlo + e.dhi) / 2, unknown)


def _climb(c: Floats, a: Floats, lo: Floats, hi: Floats) -> Floats:
    """Corners (d+1, d, N) of boxes (d, N) from the least a·x to the most, each step along the side that gains most c·x.

    The solutions of ``max c·x subject to a·x = r``, for every r, are the points of this path (the fractional knapsack).
    """
    down = np.where(a > 0, lo, np.where(a < 0, hi, np.where(c < 0, lo, hi)))
    up = np.where(a > 0, hi, np.where(a < 0, lo, down))
    order = np.argsort(np.where(a == 0, np.inf, -c / np.where(a == 0, 1.0, a)), axis=0, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(len(a))[:, None], order.shape), axis=0)
    return np.where(rank < np.arange(len(a) + 1)[:, None, None], up, down)


def _contract(g: Enclosure, g_mid: Enclosure, low: Floats, high: Floats, shift: Interval) -> Interval:
    """Narrow each side to where ``g_mid + slopes · shift`` can still reach [low, high]; an empty side has lo > hi."""
    slopes = [Interval(*x) for x in zip(g.dlo, g.dhi, strict=True)]
    sides = [Interval(*x) for x in zip(*shift, strict=True)]
    gap = add(Interval(low, high), Interval(-g_mid.hi, -g_mid.lo))
    for i, slope in enumerate(slopes):
        rest = gap
        for j, other in enumerate(slopes):
            if j != i:
                rest = add(rest, negate(multiply(other, sides[j])))
        inverse = Interval(_down(1 / slope.hi), _up(1 / slope.lo))
        quotient = multiply(rest, inverse)
        sure = ((slope.lo > 0) | (slope.hi < 0)) & g.defined & ~np.isnan(quotient.lo + quotient.hi)
        lo, hi = np.maximum(sides[i].lo, quotient.lo), np.minimum(sides[i].hi, quotient.hi)
        hi = np.where(lo <= hi, hi, -np.inf)
        sides[i] = Interval(np.where(sure, lo, sides[i].lo), np.where(sure, hi, sides[i].hi))
    return Interval(np.stack([x.lo for x in sides]), np.stack([x.hi for x in sides]))


def _lagrange(
    f: Enclosure, f_mid: Enclosure, g: Enclosure, g_mid: Enclosure, low: Floats, high: Floats, shift: Interval
) -> Floats:
    r"""Bound f by :math:`\lambda r + (f - \lambda g)(c) + \sum_i (f_i' - \lambda g_i')(x_i - c_i)` for the best of some lam."""
    df, dg = _slope(f, 0.0), _slope(g, 0.0)
    lam = np.vstack([np.zeros(len(low)), df / dg, np.sum(df * dg, axis=0) / np.sum(dg * dg, axis=0)])
    lam = np.where(np.isfinite(lam) & g.defined, lam, 0.0)
    factor = Interval(-lam, -lam)
    start = multiply(factor, Interval(g_mid.lo, g_mid.hi)).hi
    reward = multiply(Interval(lam, lam), Interval(low, high)).hi
    wide = Interval(factor.lo[:, None], factor.hi[:, None])
    slope = add(Interval(f.dlo, f.dhi), multiply(wide, Interval(g.dlo, g.dhi)))
    rise = multiply(slope, shift).hi
    slack = (len(df) + 3) * _EPS * (abs(f_mid.hi) + abs(start) + abs(reward) + np.sum(abs(rise), axis=1))
    bound = f_mid.hi + start + reward + np.sum(rise, axis=1) + slack
    least: Floats = np.min(np.where(np.isnan(bound), np.inf, bound), axis=0)
    return least
