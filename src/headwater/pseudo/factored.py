"""Pseudo-rewards on a product of finite components that is too large to list.

Arms are sums of terms, each of a few components (``x1 + 2*x7``, ``x1*x2 - x3``; the classical bandit is the case g_k = X_k).
Components that share a term of the observed or the target arm form a *block*, which is listed; blocks are combined one after
the other, keeping for each attainable partial sum of the observed arm the best partial sum of the target. The cost is the
number of distinct partial sums, not the number of points; past ``MAX_POINTS`` of either it is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from headwater.arrays import Floats, level_starts, nearest
from headwater.distributions import Distribution, Independent, Sample
from headwater.errors import ProblemError, SizeError
from headwater.expressions import Expression
from headwater.latent import MAX_POINTS, Interval, Vector, grid
from headwater.problem import Formula, Problem
from headwater.pseudo.model import Model
from headwater.quadrature import Estimate


class FactoredModel(Model):
    """A finite vector, arms given by expressions, and the product support never listed."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        assert isinstance(problem.latent, Vector)
        self.axes = [np.array(part) for part in problem.latent.parts if not isinstance(part, Interval)]
        self.arms: list[Expression] = []
        for name, arm in problem.arms.items():
            if not isinstance(arm, Formula):
                raise SizeError(
                    f"arms.{name}: a Python function on {_power(problem.latent.size)} points cannot be taken apart; "
                    "write it as an expression"
                )
            self.arms.append(arm.expression)
        self._sums: dict[int, tuple[Floats, Floats]] = {}

    @cached_property
    def ranges(self) -> Floats:
        rows = [np.concatenate([[v[0]], [v[-1]]]) for v in (self.values(k) for k in range(self.count))]
        return np.array(rows)

    def values(self, k: int) -> Floats:
        """Arm k's distinct rewards, ascending."""
        if k not in self._sums:
            self._sums[k] = self._combine(k, None)
        return self._sums[k][0]

    def payable(self, k: int) -> Floats:
        return np.stack([self.values(k)] * 2, axis=1)

    def pseudo(self, k: int, rewards: Floats) -> Floats:
        s = np.empty((self.count, len(rewards)))
        for ell in range(self.count):
            value, best = self._combine(k, ell) if ell != k else (self.values(k),) * 2
            s[ell] = best[nearest(value, rewards)]
        return s

    def means(self, distribution: Distribution) -> Estimate:
        if isinstance(distribution, Sample):
            return Estimate(np.stack([arm(*distribution.points) for arm in self.arms]) @ distribution.weights, 0.0)
        mu = [sum(f * self._mean_term(arm, i, distribution) for f, i in arm.terms()) for arm in self.arms]
        return Estimate(np.array(mu), 0.0)

    def phi(self, k: int, distribution: Distribution) -> Estimate:
        if isinstance(distribution, Sample):
            return Estimate(self.pseudo(k, self.arms[k](*distribution.points)) @ distribution.weights, 0.0)
        return Estimate(self.pseudo(k, self.values(k)) @ self.law(k, distribution), 0.0)

    def invertible(self) -> list[bool]:
        """A reward that reveals more than ``MAX_POINTS`` points would need as many levels: never here."""
        return [False] * self.count

    def _mean_term(self, arm: Expression, root: int, distribution: Distribution) -> float:
        value, weight = self._block(sorted(arm.scope(root)), [(arm, [(1.0, root)])], _parts(distribution))
        return float(value[0] @ weight)

    def law(self, k: int, distribution: Distribution) -> Floats:
        """The probability of each of arm k's rewards, in the order of ``values``."""
        if isinstance(distribution, Sample):
            at = nearest(self.values(k), self.arms[k](*distribution.points))
            return np.asarray(np.bincount(at, weights=distribution.weights, minlength=len(self.values(k))), dtype=float)
        value, weight = np.zeros(1), np.ones(1)
        for terms, scope in _blocks([self.arms[k]]):
            v, w = self._block(scope, [(self.arms[k], terms[0])], _parts(distribution))
            value, weight = _merge(value, weight, v[0], w, self.names_of(k), add=False)
        return weight

    def _combine(self, k: int, ell: int | None) -> tuple[Floats, Floats]:
        """Arm k's rewards, and for each the largest reward of arm ell (zeros when ell is None)."""
        arms = [self.arms[k]] if ell is None else [self.arms[k], self.arms[ell]]
        value, best = np.zeros(1), np.zeros(1)
        for terms, scope in _blocks(arms):
            parts = list(zip(arms, terms, strict=True))
            v, _ = self._block(scope, parts, None)
            value, best = _merge(value, best, v[0], v[1] if len(v) > 1 else np.zeros_like(v[0]), self.names_of(k), add=True)
        return value, best

    def names_of(self, k: int) -> str:
        return f"arms.{self.problem.names[k]}"

    def _block(
        self,
        scope: Sequence[int],
        parts: Sequence[tuple[Expression, Sequence[tuple[float, int]]]],
        law: Sequence[Floats] | None,
    ) -> tuple[Floats, Floats]:
        """List a block's points: the sum of each arm's terms there, shape (arms, n), and the points' probabilities (n,)."""
        size = math.prod(len(self.axes[i]) for i in scope)
        if size > MAX_POINTS:
            raise SizeError(
                f"{len(scope)} components stand together in one term, which needs listing {_power(size)} points; at most "
                f"{MAX_POINTS:,} are listed. Split the term into a sum, or use fewer values per component."
            )
        points = grid([self.axes[i] for i in scope])
        variables = [np.zeros(1)] * len(self.axes)
        for row, i in enumerate(scope):
            variables[i] = points[row]
        out = np.zeros((len(parts), points.shape[1]))
        for row, (arm, terms) in enumerate(parts):
            for factor, root in terms:
                out[row] += factor * arm.run(root, variables)
        weight = np.ones(1)
        for i in scope:
            weight = np.outer(weight, law[i] if law is not None else np.ones(len(self.axes[i]))).ravel()
        return out, weight


def _power(size: int) -> str:
    """A count in words, however large."""
    return f"{float(size):.3g}" if size < 1e300 else f"more than 1e{len(str(size)) - 2}"


def _parts(distribution: Distribution) -> list[Floats]:
    if not isinstance(distribution, Independent):
        raise ProblemError("distribution: expected probabilities per component; the joint support is too large to list")
    return [p for p in distribution.parts if isinstance(p, np.ndarray)]


def _blocks(arms: Sequence[Expression]) -> Iterable[tuple[list[list[tuple[float, int]]], list[int]]]:
    """Terms grouped so that two groups share no component: for each, every arm's terms in it, and its components."""
    terms = [(n, factor, root, set(arm.scope(root))) for n, arm in enumerate(arms) for factor, root in arm.terms()]
    groups: list[tuple[set[int], list[tuple[int, float, int]]]] = []
    for n, factor, root, scope in terms:
        touching = [g for g in groups if g[0] & scope or (not g[0] and not scope)]
        merged = (scope.union(*(g[0] for g in touching)), [t for g in touching for t in g[1]] + [(n, factor, root)])
        groups = [g for g in groups if not any(g is t for t in touching)] + [merged]
    for scope, members in groups:
        yield [[(f, root) for n, f, root in members if n == m] for m in range(len(arms))], sorted(scope)


def _merge(v: Floats, w: Floats, v2: Floats, w2: Floats, place: str, *, add: bool) -> tuple[Floats, Floats]:
    """Sums of two independent parts: values add; equal values keep the best of w + w2, or the total of w * w2."""
    v2, w2 = _reduce(v2, w2, maximum=add)
    if len(v) * len(v2) > MAX_POINTS:
        raise SizeError(
            f"{place}: its rewards are sums with at least {len(v) * len(v2):,} combinations; at most {MAX_POINTS:,} are "
            "followed. Use coefficients with a common step (0.1, 0.2, …), so that sums coincide, or fewer components."
        )
    value = (v[:, None] + v2).ravel()
    weight = (w[:, None] + w2).ravel() if add else (w[:, None] * w2).ravel()
    return _reduce(value, weight, maximum=add)


def _reduce(value: Floats, weight: Floats, *, maximum: bool) -> tuple[Floats, Floats]:
    order = np.argsort(value, kind="stable")
    ordered = value[order]
    starts = level_starts(ordered, float(np.max(abs(value), initial=0.0)))
    ufunc = np.maximum if maximum else np.add
    return ordered[starts], ufunc.reduceat(weight[order], starts)
