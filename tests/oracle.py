"""The corrected algorithm of ERRATA.md 5 to 11, as written: lists of rewards, fractions, nothing incremental, nothing shared.

Slow on purpose. Pseudo-rewards come from a function that each test writes by hand, indices from scipy's solvers.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special

from headwater import streams

Pseudo = Callable[[int, int, Fraction], Fraction]


class World(NamedTuple):
    """What a policy may know: ``pseudo(ell, k, r)``, every arm's rewards (None: infinitely many), B and the reward interval."""

    size: int
    pseudo: Pseudo
    levels: list[list[Fraction]] | None
    scale: float
    low: float
    span: float


def exact(x: float) -> Fraction:
    """The decimal that a float was written as."""
    return Fraction(Decimal(repr(float(x))))


def finite_world(table: Sequence[Sequence[float]], scale: float | None = None) -> World:
    """``table[k][j]``: arm k's reward at the j-th value of X."""
    g = [[exact(x) for x in row] for row in table]

    @cache
    def pseudo(ell: int, k: int, r: Fraction) -> Fraction:
        return max(y for x, y in zip(g[k], g[ell], strict=True) if x == r)

    levels = [sorted(set(row)) for row in g]
    width = max(float(row[-1] - row[0]) for row in levels)
    low, high = min(row[0] for row in levels), max(row[-1] for row in levels)
    return World(len(g), pseudo, levels, width if scale is None else scale, float(low), float(high) - float(low))


class Oracle:
    """A learner. ``rule``: ucb1, kl-ucb, kl-ucb-empirical, ts, ts-estimated; ``reference``: none, most-pulled, well-pulled."""

    def __init__(self, world: World, rule: str, reference: str, *, seed: int = 0, replication: int = 0) -> None:
        self.world, self.rule, self.reference = world, rule, reference
        self.seed, self.replication = seed, replication
        self.arms = range(world.size)
        self.seen: list[list[Fraction]] = [[] for _ in self.arms]

    @property
    def t(self) -> int:
        """The number of the decision that comes next."""
        return 1 + sum(map(len, self.seen))

    def mean(self, k: int) -> Fraction:
        return sum(self.seen[k], Fraction(0)) / len(self.seen[k])

    def phi(self, ell: int, k: int) -> Fraction:
        """The empirical pseudo-reward of ell from the rewards of k."""
        parts = (n * self.world.pseudo(ell, k, r) for r, n in Counter(self.seen[k]).items())
        return sum(parts, Fraction(0)) / len(self.seen[k])

    def competitive(self, slack: Fraction = Fraction(0)) -> list[int]:
        """The arms that are not excluded by more than ``slack``."""
        if self.reference == "none" or self.t == 1:
            return list(self.arms)
        if self.reference == "most-pulled":
            k = max(self.arms, key=lambda i: (len(self.seen[i]), -i))
            return [ell for ell in self.arms if ell == k or self.mean(k) <= self.phi(ell, k) + slack]
        well = [k for k in self.arms if len(self.seen[k]) * self.world.size >= self.t - 1]
        best = max(well, key=lambda i: (self.mean(i), -i))
        return [
            ell
            for ell in self.arms
            if ell == best or all(self.phi(ell, k) + slack >= self.mean(best) for k in well if k != ell)
        ]

    def index(self, k: int) -> float:
        n = len(self.seen[k])
        if n == 0:
            return math.inf
        mean, log_t, world = self.mean(k), math.log(self.t), self.world
        if self.rule == "ucb1":
            return float(mean) + world.scale * math.sqrt(2 * log_t / n)
        if self.rule == "kl-ucb":
            if world.span == 0:
                return float(mean)
            p = min(max((float(mean) - world.low) / world.span, 0.0), 1.0)
            return world.low + world.span * bernoulli_index(p, n, log_t)
        if self.rule == "kl-ucb-empirical":
            assert world.levels is not None
            values = [float(r) for r in self.seen[k]]
            return empirical_index(values, float(world.levels[k][-1]), log_t)
        sd = world.scale / 2
        if self.rule == "ts-estimated":
            spread = sum(((r - mean) ** 2 for r in self.seen[k]), Fraction(0))
            sd = math.sqrt((spread + Fraction(sd) ** 2) / n)
        return float(mean) + sd / math.sqrt(n) * normal_draw(self.seed, self.replication, self.t, k)

    def choose(self) -> int:
        """The lowest-numbered arm of largest index among the competitive ones."""
        return max(self.competitive(), key=lambda k: (self.index(k), -k))

    def check(self, arm: int, *, slack: float, tie: float) -> None:
        """That ``arm`` may be chosen: exclusions and indices agree up to rounding, and whoever certainly stays is beaten."""
        value = {k: self.index(k) for k in self.competitive(exact(slack))}
        assert arm in value, f"round {self.t}: arm {arm} is excluded"
        rivals = {k: value[k] for k in self.competitive()}
        most = max(rivals.values())
        assert value[arm] >= most - (tie if math.isfinite(most) else 0), f"round {self.t}: {arm} does not lead {value}"
        if math.isinf(value[arm]):
            assert all(k >= arm for k in rivals if math.isinf(rivals[k])), f"round {self.t}: a lower arm was never pulled"

    def observe(self, arm: int, reward: Fraction) -> None:
        self.seen[arm].append(reward)


def bernoulli_index(p: float, n: float, log_t: float) -> float:
    """The largest q with n kl(p, q) <= log t, by a bracketing solver."""

    def over(q: float) -> float:
        return n * float(special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q)) - log_t

    top = 1 - 1e-16
    if p >= 1 or over(top) <= 0:
        return 1.0
    return p if log_t <= 0 else float(optimize.brentq(over, p, top, xtol=1e-15, maxiter=500))


def empirical_index(values: Sequence[float], top: float, log_t: float) -> float:
    """The largest mean of a law on values up to ``top`` within the budget, by the dual formula of K_inf.

    K_inf(mu) = max over 0 <= lambda <= 1/(top - mu) of the average of log(1 - lambda (v - mu)).
    """
    v, n = np.array(values), len(values)
    mean = float(v.mean())
    if mean >= top or log_t <= 0:
        return mean

    def k_inf(mu: float) -> float:
        def slope(x: float) -> float:
            return float(np.mean((mu - v) / (1 - x * (v - mu))))

        if slope(0.0) <= 0:  # mu is the mean, rounding aside
            return 0.0
        most = (1 - 1e-13) / (top - mu)
        at = most if slope(most) >= 0 else float(optimize.brentq(slope, 0.0, most, xtol=1e-300, rtol=1e-15, maxiter=500))
        return float(np.mean(np.log1p(-at * (v - mu))))

    high = top - 1e-13 * (top - mean)
    if n * k_inf(high) <= log_t:
        return top
    return float(optimize.brentq(lambda mu: n * k_inf(mu) - log_t, mean, high, xtol=1e-14 * max(1.0, abs(top)), maxiter=500))


def uniform(seed: int, replication: int, block: int, purpose: int, lane: int, half: int) -> int:
    """A 53-bit uniform of the streams, by Python's integers alone."""
    words = streams.philox(*streams.counter_words(block, replication, purpose, lane), seed & 0xFFFFFFFF, seed >> 32)
    return (words[2 * half] << 21) | (words[2 * half + 1] >> 11)


def normal_draw(seed: int, replication: int, t: int, arm: int) -> float:
    """The standard normal deviate of an arm in a round, by scipy's quantile."""
    u = uniform(seed, replication, t, streams.NORMAL, arm // 2, arm % 2)
    return float(special.ndtri((u + 0.5) * 2.0**-53))


@lru_cache(maxsize=64)
def _cuts(probability: bytes) -> list[Fraction]:
    """P(X <= x_i) for every i but the last: floats are fractions, summed as such."""
    p = [Fraction(float(x)) for x in np.frombuffer(probability)]
    below = list(accumulate(p))
    return [x / below[-1] for x in below[:-1]]


def drawn_atoms(probability: Any, seed: int, replication: int, horizon: int) -> list[int]:
    """x_1, ..., x_T as numbers of atoms."""
    cuts = _cuts(np.ascontiguousarray(probability, dtype=float).tobytes())
    u = [Fraction(uniform(seed, replication, t // 2, streams.LATENT, 0, t % 2), 2**53) for t in range(horizon)]
    return [bisect_right(cuts, x) for x in u]
