"""Other intervals for a mean, or a ratio of sums, of bounded terms: what ``headwater.intervals`` is compared with.

Each takes :class:`Terms` and returns a lower and an upper end, or None where it does not apply. ``normal`` is what
``headwater evaluate`` stated in release 0.1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

from headwater.arrays import Floats

LEVEL = 0.95
Z = float(stats.norm.ppf(0.5 + LEVEL / 2))
DRAWS = 199


class Terms(NamedTuple):
    """Sums of ``total`` by ``size`` over independent events or units, (G,). ``ends``: what the ratio may be; ``reach``: what a
    total per size may be, which weights make wider. ``seed`` is for those that draw."""

    total: Floats
    size: Floats
    ends: tuple[float, float]
    reach: tuple[float, float]
    seed: int = 0

    @property
    def value(self) -> float:
        return float(self.total.sum() / self.size.sum())

    @property
    def alike(self) -> bool:
        """Whether all have one size, so that the ratio is a mean."""
        return bool(np.ptp(self.size) <= 1e-12 * self.size.max())


Interval = tuple[float, float] | None


def normal(terms: Terms) -> Interval:
    residual = terms.total - terms.value * terms.size
    half = Z * float(np.sqrt(np.sum(residual**2))) / float(terms.size.sum())
    return terms.value - half, terms.value + half


def wilson(terms: Terms) -> Interval:
    """For rewards of two values alone."""
    if not terms.alike:
        return None
    low, high = terms.ends
    share = (terms.total / terms.size - low) / (high - low)
    if np.any((share != 0) & (share != 1)):
        return None
    n, p = len(share), float(share.mean())
    middle, half = (p + Z**2 / (2 * n)) / (1 + Z**2 / n), Z * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    return low + (high - low) * (middle - half), low + (high - low) * (middle + half)


def blaker(terms: Terms) -> Interval:
    """The narrowest exact one that is nested in its level, for rewards of two values alone."""
    low, high = terms.ends
    share = (terms.total / terms.size - low) / (high - low)
    if not terms.alike or np.any((share != 0) & (share != 1)):
        return None
    ends = blakers(int(share.sum()), len(share))
    return low + (high - low) * ends[0], low + (high - low) * ends[1]


@cache
def blakers(hits: int, trials: int) -> tuple[float, float]:
    """Blaker's interval for a probability, within Clopper and Pearson's.

    >>> blakers(0, 302)[1] < stats.binomtest(0, 302).proportion_ci().high
    True
    """
    exact, value = stats.binomtest(hits, trials).proportion_ci(LEVEL), hits / trials

    def end(outer: float) -> float:
        inner = value
        for _ in range(2):  # from the outside in, two hundred steps, and two hundred of the last of those
            p = np.linspace(outer, inner, 201)
            first = int(np.flatnonzero(acceptable(p, hits, trials) >= 1 - LEVEL)[0])
            outer, inner = float(p[max(first - 1, 0)]), float(p[first])
        return outer

    return (end(exact.low) if hits else 0.0), (end(exact.high) if hits < trials else 1.0)


def acceptable(p: Floats, hits: int, trials: int) -> Floats:
    """How likely what is as unlikely as so few or so many hits is, by the smaller tail of each."""
    few, many = stats.binom.cdf(hits, trials, p), stats.binom.sf(hits - 1, trials, p)
    opposite = np.where(
        few < many,
        stats.binom.sf(stats.binom.isf(few * (1 + 1e-12), trials, p), trials, p),
        stats.binom.cdf(stats.binom.ppf(many * (1 + 1e-12), trials, p) - 1, trials, p),
    )
    return np.minimum(few, many) + opposite


def empirical_bernstein(terms: Terms) -> Interval:
    """Maurer and Pontil's, each side at half of the error."""
    if not terms.alike or len(terms.total) < 2:
        return None
    x, n = terms.total / terms.size, len(terms.total)
    log = np.log(4 / (1 - LEVEL))
    width = terms.reach[1] - terms.reach[0]
    half = np.sqrt(2 * x.var(ddof=1) * log / n) + 7 * width * log / (3 * (n - 1))
    return float(x.mean() - half), float(x.mean() + half)


def betting(terms: Terms) -> Interval:
    """Waudby-Smith and Ramdas's hedged capital for a fixed number of terms, in their order."""
    if not terms.alike:
        return None
    low, high = terms.reach
    x = (terms.total / terms.size - low) / (high - low)
    n, log = len(x), 2 * np.log(2 / (1 - LEVEL))
    t = np.arange(1, n + 1)
    mean = (0.5 + np.cumsum(x)) / (t + 1)
    spread = np.concatenate([[0.25], ((0.25 + np.cumsum((x - mean) ** 2)) / (t + 1))[:-1]])
    bet = np.sqrt(log / (n * spread))

    def gain(m: float, side: float) -> float:
        stake = np.minimum(bet, 0.75 / (m if side > 0 else 1 - m)) * side
        return float(np.sum(np.log1p(stake * (x - m))) - np.log(2 / (1 - LEVEL)))

    middle = float(np.clip(x.mean(), 1e-9, 1 - 1e-9))
    ends = []
    for side, edge in ((1.0, 1e-12), (-1.0, 1 - 1e-12)):  # rewards above a small m make the first bet rich
        rich = gain(edge, side) > 0 > gain(middle, side)
        ends.append(
            optimize.brentq(gain, min(edge, middle), max(edge, middle), args=(side,), xtol=1e-7) if rich else round(edge)
        )
    return low + (high - low) * ends[0], low + (high - low) * ends[1]


def empirical_likelihood(terms: Terms) -> Interval:
    """Owen's, calibrated by chi-squared: the means whose likeliest reweighting of the terms is likely enough."""
    ratio = terms.total / terms.size
    low, high = float(ratio.min()), float(ratio.max())
    if high - low <= 0:
        return low, high

    def excess(m: float) -> float:
        d = terms.total - m * terms.size
        edge = 1 - 1e-10
        s = optimize.brentq(lambda s: float(np.sum(d / (1 - s * d))), edge / d.min(), edge / d.max(), xtol=1e-14)
        return float(-2 * np.sum(np.log(1 / (1 - s * d)))) - Z**2

    slack, value = 1e-6 * (high - low), terms.value
    return (
        optimize.brentq(excess, low + slack, value, xtol=1e-9) if excess(low + slack) > 0 else low,
        optimize.brentq(excess, value, high - slack, xtol=1e-9) if excess(high - slack) > 0 else high,
    )


def bootstrap_t(terms: Terms) -> Interval:
    """The ratio studentised by its linearised error, over ``DRAWS`` resamples of events or units."""
    n, rng = len(terms.total), np.random.default_rng(terms.seed)
    times = rng.multinomial(n, np.full(n, 1 / n), size=DRAWS)
    size = times @ terms.size
    value = times @ terms.total / size
    square = times @ terms.total**2 - 2 * value * (times @ (terms.total * terms.size)) + value**2 * (times @ terms.size**2)
    error = np.sqrt(np.maximum(square, 0)) / size
    own = float(np.sqrt(np.sum((terms.total - terms.value * terms.size) ** 2)) / terms.size.sum())
    if own == 0:
        return terms.value, terms.value
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, (value - terms.value) / error, np.sign(value - terms.value) * np.inf)
    t = np.nan_to_num(t, nan=0.0, posinf=1e9, neginf=-1e9)
    below, above = np.quantile(t, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return terms.value - above * own, terms.value - below * own


RIVALS: dict[str, Callable[[Terms], Interval]] = {
    "normal": normal,
    "wilson": wilson,
    "blaker": blaker,
    "betting": betting,
    "bernstein": empirical_bernstein,
    "likelihood": empirical_likelihood,
    "bootstrap-t": bootstrap_t,
}


def clipped(interval: Interval, terms: Terms) -> Interval:
    """An interval without what cannot be."""
    if interval is None:
        return None
    low, high = terms.ends
    return min(max(interval[0], low), high), min(max(interval[1], low), high)
