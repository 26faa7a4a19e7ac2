"""Pseudo-rewards for a vector with interval components: linear arms exactly, other expressions by certified upper bounds.

Finite components among the intervals are listed: each combination of their values is one starting box. Expectations over
several continuous components are by quasi-Monte Carlo with an error estimate; everything else here is certain.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from headwater.arrays import Bools, Floats, union
from headwater.distributions import Distribution, Independent, Named, Sample
from headwater.errors import ProblemError, SizeError
from headwater.expressions import Expression, parse
from headwater.latent import Interval, Vector, grid
from headwater.problem import FAR, Formula, Problem, spread
from headwater.pseudo.box import Bound, bounded_maximum, linear_maximum, unconstrained_maximum
from headwater.pseudo.model import PAD, Model, draw
from headwater.pseudo.pieces import from_expression
from headwater.quadrature import Estimate, integrate

MAX_BOXES = 100_000
"""Combinations of finite components that are listed beside the intervals."""
PRECISION = 1e-8
"""The gap, as a part of the target's range, at which branch and bound stops."""
BUDGET = 40_000
"""Boxes per reward; past that the bound reached is returned."""
SCRAMBLES, DRAWS = 8, 4096
POLE = 1e9
"""A reward this many times larger than at sample points is a pole."""
UNBOUNDED = "could not be shown to stay finite on the support; shrink it or bound it"
BINS = 160


class Boxes(NamedTuple):
    """Starting boxes, ends of shape (d, N); ``interval`` (d,) says which sides are intervals."""

    lo: Floats
    hi: Floats
    interval: Bools


class BoxModel(Model):
    """A problem with at least one interval component."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        assert isinstance(problem.latent, Vector)
        self.parts = problem.latent.parts
        self.arms: list[Expression] = []
        for name, arm in problem.arms.items():
            if not isinstance(arm, Formula):
                raise ProblemError(f"arms.{name}: a Python function of intervals cannot be bounded; write it as an expression")
            self.arms.append(arm.expression)

    def boxes(self, *arms: int) -> Boxes:
        """The support as far as these arms can see it; components they do not read stand still."""
        scope = frozenset().union(*(self.arms[k].scope() for k in arms))
        axes = []
        for i, part in enumerate(self.parts):
            if isinstance(part, Interval):
                axes.append(np.zeros(1))
            else:
                axes.append(np.array(part if i in scope else part[:1]))
        size = math.prod(len(axis) for axis in axes)
        if size > MAX_BOXES:
            raise SizeError(
                f"the finite components of {', '.join(f'arms.{self.problem.names[k]}' for k in arms)} have {size:,} "
                f"combinations beside the intervals; at most {MAX_BOXES:,} are listed. Use fewer values per component."
            )
        lo = np.stack([np.full(size, axis[0]) for axis in axes])
        moving = [i for i, axis in enumerate(axes) if len(axis) > 1]
        lo[moving] = grid([axes[i] for i in moving])
        hi = lo.copy()
        interval = np.zeros(len(self.parts), dtype=bool)
        for i, part in enumerate(self.parts):
            if isinstance(part, Interval) and i in scope:
                lo[i], hi[i], interval[i] = part.low, part.high, True
        return Boxes(lo, hi, interval)

    @cached_property
    def ranges(self) -> Floats:
        return np.array([self.payable(k)[[0, -1], [0, 1]] for k in range(self.count)])

    @cached_property
    def _payable(self) -> dict[int, Floats]:
        return {}

    def payable(self, k: int) -> Floats:
        if k not in self._payable:
            self._payable[k] = union(*self._extremes(k, self.boxes(k)))
        return self._payable[k]

    def _extremes(self, k: int, boxes: Boxes) -> tuple[Floats, Floats]:
        """The least and largest reward on each box, or certain bounds on them."""
        arm = self.arms[k]
        place = f"arms.{self.problem.names[k]}"
        if arm.linear is not None:
            a, a0 = arm.linear
            with np.errstate(invalid="ignore"):
                ends = np.where(a[:, None] == 0, 0.0, a[:, None] * np.stack([boxes.lo, boxes.hi]))
            lo, hi = ends.min(axis=0).sum(axis=0) + a0, ends.max(axis=0).sum(axis=0) + a0
        else:
            minus = parse(f"-({arm.text.strip()})", arm.names)
            # many combinations: one hull for all of them is certain too, and enough
            groups = np.array_split(np.arange(boxes.lo.shape[1]), min(boxes.lo.shape[1], 50))
            rough = self._rough(arm, boxes)
            self._refuse_growth(place, arm, boxes, rough)
            options = {"tolerance": 1e-9 * rough, "budget": BUDGET}
            top = [unconstrained_maximum(arm, boxes.lo[:, g], boxes.hi[:, g], **options)[0] for g in groups]  # type: ignore[arg-type]
            low = [-unconstrained_maximum(minus, boxes.lo[:, g], boxes.hi[:, g], **options)[0] for g in groups]  # type: ignore[arg-type]
            lo, hi = np.array(low), np.array(top)
            if not np.max(hi - lo) < POLE * rough:
                hi = np.full_like(hi, math.inf)  # between two floating-point numbers a pole looks like a finite peak
        if not np.isfinite(hi - lo).all():
            raise ProblemError(f"{place}: the reward {UNBOUNDED}")
        return lo, hi

    def _refuse_growth(self, place: str, arm: Expression, boxes: Boxes, rough: float) -> None:
        """Refuse at once what plainly grows without bound along an infinite side, before a search tries to bound it."""
        for side, end in ((boxes.lo, -FAR), (boxes.hi, FAR)):
            for i in np.flatnonzero(np.isinf(side).any(axis=1)):
                inner = np.where(np.isinf(boxes.lo), np.minimum(boxes.hi - 1, 0), boxes.lo)
                points = np.where(
                    np.isinf(boxes.lo) & np.isinf(boxes.hi), 1.0, np.maximum(inner, np.minimum(boxes.hi, inner + 1))
                )
                points[i] = end
                if not np.all(abs(arm(*points)) < POLE * rough):
                    raise ProblemError(f"{place}: the reward {UNBOUNDED}")

    def _rough(self, arm: Expression, boxes: Boxes) -> float:
        """The size of an arm's range, from some points; only tolerances hang on it."""
        rng = np.random.default_rng(0)
        at = rng.integers(boxes.lo.shape[1], size=512)
        sides = zip(boxes.interval, boxes.lo, boxes.hi, rng.random((len(boxes.lo), 512)), strict=True)
        values = arm(*(spread(float(lo[0]), float(hi[0]), u) if free else lo[at] for free, lo, hi, u in sides))
        return float(np.ptp(values)) or float(np.max(abs(values))) or 1.0

    def pseudo(self, k: int, rewards: Floats) -> Floats:
        return self.bounds(k, rewards).upper

    def values(self, points: Floats) -> Floats:
        """Every arm's reward at ``points`` (d, n), shape (K, n)."""
        return np.stack([arm(*points) for arm in self.arms])

    def upward(self, k: int, rewards: Floats) -> Floats:
        """Linear pairs exactly; the others from a table over bins of rewards, each entry the most over its bin."""
        edges = np.unique(np.quantile(rewards, np.linspace(0, 1, 3 * BINS + 1)))
        at = np.clip(np.searchsorted(edges, rewards, side="right") - 1, 0, max(len(edges) - 2, 0))
        out = np.empty((self.count, len(rewards)))
        for ell in range(self.count):
            if ell == k:
                out[ell] = rewards
            elif self.arms[ell].linear is not None and self.arms[k].linear is not None:
                out[ell] = self._linear(ell, k, rewards).upper
            else:
                out[ell] = (
                    self._search(ell, k, edges[:-1], edges[1:], rough=True).upper[at]
                    if len(edges) > 1
                    else self.pseudo(k, rewards)[ell]
                )
        return out

    def spread_points(self, distribution: Distribution, size: int) -> Floats:
        """``size`` (a power of two) well-spread points of the latent vector, equally likely: shape (d, size)."""
        return self._sobol(self._independent(distribution), 0, size)

    def bounds(self, k: int, rewards: Floats) -> Bound:
        """As ``pseudo``, with what a feasible point pays beside it: both (K, R)."""
        unique, back = np.unique(rewards, return_inverse=True)
        pad = PAD * (self.ranges[k, 1] - self.ranges[k, 0]) + 4 * np.spacing(np.max(abs(unique), initial=0.0))
        upper, lower = np.empty((2, self.count, len(unique)))
        for ell in range(self.count):
            if ell == k:
                upper[ell] = lower[ell] = unique
            elif self.arms[ell].linear is not None and self.arms[k].linear is not None:
                upper[ell], lower[ell] = self._linear(ell, k, unique)
            else:
                upper[ell], lower[ell] = self._search(ell, k, unique - pad, unique + pad)
        return Bound(upper[:, back], lower[:, back])

    def _linear(self, ell: int, k: int, rewards: Floats) -> Bound:
        target, observed = self.arms[ell].linear, self.arms[k].linear
        assert target is not None and observed is not None
        boxes = self.boxes(ell, k)
        free = boxes.interval
        upper, lower = np.full((2, len(rewards)), -np.inf)
        for point in np.unique(boxes.lo[~free], axis=1).T if (~free).any() else np.zeros((1, 0)):
            c0 = target[1] + float(target[0][~free] @ point)
            a0 = observed[1] + float(observed[0][~free] @ point)
            ends = boxes.lo[free, 0], boxes.hi[free, 0]
            bound = linear_maximum(target[0][free], c0, observed[0][free], a0, *ends, rewards)
            upper, lower = np.maximum(upper, bound.upper), np.maximum(lower, bound.lower)
        return Bound(upper, lower)

    def _search(self, ell: int, k: int, lo: Floats, hi: Floats, *, rough: bool = False) -> Bound:
        """Branch and bound for rewards in ``[lo, hi]``; ``rough`` suits tables over bins, which err by more anyway."""
        boxes = self.boxes(ell, k)
        width = max(float(self.ranges[ell, 1] - self.ranges[ell, 0]), 1e-300)
        options = (
            {"tolerance": 1e-4 * width, "budget": BUDGET // 40} if rough else {"tolerance": PRECISION * width, "budget": BUDGET}
        )
        bound = bounded_maximum(self.arms[ell], self.arms[k], lo, hi, boxes.lo, boxes.hi, **options)  # type: ignore[arg-type]
        # a payable reward that every box lost to rounding: the largest reward of all is a bound that cannot fail
        return Bound(np.where(np.isneginf(bound.upper), self.ranges[ell, 1], bound.upper), bound.lower)

    def means(self, distribution: Distribution) -> Estimate:
        if isinstance(distribution, Sample):
            return Estimate(self.values(distribution.points) @ distribution.weights, 0.0)
        parts = self._independent(distribution)
        mu, error = np.zeros(self.count), 0.0
        for k, arm in enumerate(self.arms):
            misses = 0.0
            for factor, root in arm.terms():
                value, miss = self._mean_term(k, root, parts)
                mu[k] += factor * value
                misses += abs(factor) * miss
            error = max(error, misses)
        return Estimate(mu, error)

    def _mean_term(self, k: int, root: int, parts: tuple[Floats | Named, ...]) -> tuple[float, float]:
        """The expectation of one term: a sum or an integral when it reads one component, else by quasi-Monte Carlo."""
        arm = self.arms[k]
        scope = sorted(arm.scope(root))
        if len(scope) <= 1:
            part = parts[scope[0]] if scope else np.ones(1)
            alone = _alone(arm, root)
            if isinstance(part, Named):
                return _integral(f"arms.{self.problem.names[k]}", alone, part)
            return float(alone(np.array(self.parts[scope[0]] if scope else [0.0])) @ part), 0.0
        means = [float(np.mean(arm.run(root, list(x)))) for x in self._draw(parts)]
        return float(np.mean(means)), 3 * float(np.std(means, ddof=1)) / math.sqrt(len(means))

    def phi(self, k: int, distribution: Distribution) -> Estimate:
        if isinstance(distribution, Sample):
            return Estimate(self.pseudo(k, self.arms[k](*distribution.points)) @ distribution.weights, 0.0)
        draws = [self.arms[k](*x) for x in self._draw(self._independent(distribution))]
        exact = [ell == k or (a.linear is not None and self.arms[k].linear is not None) for ell, a in enumerate(self.arms)]
        mu, miss = self.means(distribution)
        out, error = np.empty(self.count), miss
        for ell in range(self.count):
            if ell == k:
                out[ell] = mu[k]
                continue
            if exact[ell]:
                means = [float(np.mean(self._linear(ell, k, r).upper)) for r in draws]
                out[ell], slack = float(np.mean(means)), 0.0
            else:
                means, slack = self._binned(ell, k, draws)
                out[ell] = float(np.mean(means))
            error = max(error, slack + 3 * float(np.std(means, ddof=1)) / math.sqrt(len(means)))
        return Estimate(out, error)

    def _binned(self, ell: int, k: int, draws: list[Floats]) -> tuple[list[float], float]:
        """Expectations through a table of s on bins of rewards, each entry the most over its bin: errs upward.

        The second number is by how much, from the table's own steps.
        """
        value, back, count = np.unique(np.concatenate(draws), return_inverse=True, return_counts=True)
        # bins of about equal probability; a reward that has as much by itself has a bin by itself
        size = count.sum() / BINS
        heavy = count >= size
        new = np.diff((np.cumsum(count) - count) // size, prepend=-1) > 0
        new |= heavy | np.append(False, heavy[:-1])
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(value)) - 1
        top = self._search(ell, k, value[first], value[last], rough=True).upper
        middle = value[(first + last) // 2]
        inside = np.minimum(self._search(ell, k, middle, middle, rough=True).upper, top)
        at = np.split((np.cumsum(new) - 1)[back], len(draws))
        slack = 2 * float(np.mean((top - inside)[np.concatenate(at)]))  # the middle of a bin is one point of it
        return [float(np.mean(top[i])) for i in at], slack

    def _draw(self, parts: tuple[Floats | Named, ...]) -> list[Floats]:
        """Scrambled Sobol points of the latent vector, each (d, DRAWS); the scatter between them estimates the error."""
        return [self._sobol(parts, seed, DRAWS) for seed in range(SCRAMBLES)]

    def _sobol(self, parts: tuple[Floats | Named, ...], seed: int, size: int) -> Floats:
        from scipy.stats import qmc

        rows = []
        u = qmc.Sobol(len(parts), rng=np.random.default_rng(seed)).random(size).T
        for part, values, v in zip(parts, self.parts, u, strict=True):
            if isinstance(part, Named):
                rows.append(part.quantile(v))
            else:
                at = np.minimum(np.searchsorted(np.cumsum(part), v, side="right"), len(part) - 1)
                rows.append(np.array(values)[at])
        return np.stack(rows)

    def _independent(self, distribution: Distribution) -> tuple[Floats | Named, ...]:
        assert isinstance(distribution, Independent)
        return distribution.parts

    def invertible(self) -> list[bool]:
        """One number reveals one interval component at most, and only where nothing else is hidden."""
        return [False] * self.count


def _alone(arm: Expression, root: int) -> Expression:
    """The operation ``root``, which reads one variable at most, as an expression in that variable."""
    tape = (replace(op, value=0.0) if op.code == "var" else op for op in arm.tape[: root + 1])
    return Expression(arm.text, ("x",), tuple(tape))


def _integral(place: str, term: Expression, law: Named) -> tuple[float, float]:
    """The expectation of a function of one interval component, split where it turns or jumps, and its error."""
    pieces = from_expression(place, term, law.low, law.high)
    tolerance = 1e-11 * max(pieces.width, 1e-300)
    value, error = integrate(lambda u: term(draw(law, u))[None], law.position(pieces.breaks()), tolerance=tolerance)
    return float(value[0]), error
