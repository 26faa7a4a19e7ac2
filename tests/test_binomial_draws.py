"""Binomial and hypergeometric numbers against their exact laws. Every test of a law has an error rate of at most 1e-6."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from headwater import native, streams

Ints = NDArray[np.int64]
DRAWS = 200_000


def binomials(n: int, p: float, *, seed: int = 1, count: int = DRAWS) -> Ints:
    out = np.zeros(count, dtype=np.int64)
    native.Draws(seed).binomial(n, p, out)
    return out


def hypergeometrics(good: int, bad: int, taken: int, *, seed: int = 1, count: int = DRAWS) -> Ints:
    out = np.zeros(count, dtype=np.int64)
    native.Draws(seed).hypergeometric(good, bad, taken, out)
    return out


def p_value(found: Ints, law: Any) -> float:
    """Chi-square in up to 40 bins of about equal width over the middle, the tails in bins of their own."""
    edges = np.unique(np.floor(np.linspace(law.ppf(1e-4), law.ppf(1 - 1e-4), 40)))
    chance = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    seen = np.histogram(found, np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]
    wanted = chance * len(found)
    enough = wanted > 5
    assert seen[wanted == 0].sum() == 0
    return float(stats.chi2.sf(((seen - wanted)[enough] ** 2 / wanted[enough]).sum(), enough.sum() - 1))


@pytest.mark.parametrize("n", [1, 5, 40, 100, 1_000, 10**6, 10**10, 10**12])
@pytest.mark.parametrize("p", [1e-9, 1e-5, 0.01, 0.3, 0.5, 0.77, 0.999])
def test_binomial_numbers(n: int, p: float) -> None:
    found = binomials(n, p)
    assert found.min() >= 0 and found.max() <= n
    law = stats.binom(n, p)
    if law.std() < 0.01:
        assert found.sum() <= stats.binom(n * DRAWS, p).isf(1e-6) if p < 0.5 else True
    else:
        assert p_value(found, law) > 1e-6


@pytest.mark.parametrize(
    ("good", "bad", "taken"),
    [
        (1, 1, 1),
        (5, 9, 4),
        (5, 9, 12),
        (300, 700, 500),
        (1_000, 1_040, 1_020),
        (1_500, 3_000, 2_250),
        (3, 5_000, 2_500),
        (3_000, 100_000, 50_000),
        (100_000, 3_000, 50_001),
        (10**6, 2 * 10**6, 10),
        (10**6, 2 * 10**6, 1_500_000),
    ],
)
def test_hypergeometric_numbers(good: int, bad: int, taken: int) -> None:
    found = hypergeometrics(good, bad, taken)
    assert found.min() >= max(0, taken - bad) and found.max() <= min(good, taken)
    assert p_value(found, stats.hypergeom(good + bad, good, taken)) > 1e-6


@pytest.mark.parametrize(("good", "bad"), [(4 * 10**9, 6 * 10**9), (10**6, 10**12), (7 * 10**11, 3 * 10**11)])
def test_half_of_a_huge_urn(good: int, bad: int) -> None:
    """Too large for scipy's own; the law is normal to within 1e-3, and 200,000 draws cannot tell."""
    whole = good + bad
    sd = math.sqrt(good / whole * (bad / whole) * (whole / 4))
    found = hypergeometrics(good, bad, whole // 2)
    assert p_value(found, stats.norm(good / 2, sd)) > 1e-6


def test_certain_outcomes() -> None:
    assert [binomials(7, p, count=1)[0] for p in (0.0, 1.0)] == [0, 7] and binomials(0, 0.4, count=1)[0] == 0
    assert [hypergeometrics(*urn, count=1)[0] for urn in ((0, 9, 4), (9, 0, 4), (3, 4, 7), (3, 4, 0))] == [0, 4, 3, 0]


def log_chance(x: float, good: float, bad: float, taken: float) -> float:
    def log_choose(n: float, k: float) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    return log_choose(good, x) + log_choose(bad, taken - x) - log_choose(good + bad, taken)


def test_the_mode_is_hardly_likelier_than_the_mean() -> None:
    """What the rejection counts on: by a factor of at most exp(1 / (8 variance))."""
    rng, tried = np.random.default_rng(2), 0
    while tried < 3_000:
        good, bad = (int(x) for x in 10 ** rng.uniform(1.5, 5, 2))
        whole = good + bad
        taken = int(rng.integers(1, whole))
        mean, mode = good * taken / whole, (taken + 1) * (good + 1) // (whole + 2)
        variance = mean * (bad / whole) * ((whole - taken) / (whole - 1))
        if variance > native.NARROW_VARIANCE:
            tried += 1
            assert log_chance(mode, good, bad, taken) - log_chance(mean, good, bad, taken) <= 0.25 / variance


def test_splitting_counts() -> None:
    whole, out = np.array([2, 0, 3, 4]), np.zeros((DRAWS, 4), dtype=np.int64)
    native.Draws(4).split(whole, 5, out)
    assert np.all(out.sum(axis=1) == 5) and np.all(out <= whole)
    law = stats.multivariate_hypergeom([2, 3, 4], 5)
    kinds, seen = np.unique(out[:, [0, 2, 3]], axis=0, return_counts=True)
    wanted = law.pmf(kinds) * DRAWS
    assert wanted.sum() == pytest.approx(DRAWS), "every possible split came"
    assert stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(kinds) - 1) > 1e-6


def test_taking_one_by_one_makes_every_order_alike() -> None:
    out = np.zeros((DRAWS, 5), dtype=np.int64)
    native.Draws(5).take(np.array([2, 0, 1, 2]), out)
    kinds, seen = np.unique(out, axis=0, return_counts=True)
    assert len(kinds) == 30, "5! / (2! 2!)"
    assert stats.chisquare(seen).pvalue > 1e-6


def test_rooms_of_a_wrong_size_are_refused() -> None:
    whole, draws = np.array([2, 0, 3, 4]), native.Draws(4)
    with pytest.raises(ValueError, match="out: the last axis: got length 3; expected 4"):
        draws.split(whole, 5, np.zeros((1, 3), dtype=np.int64))
    with pytest.raises(ValueError, match="out: the last axis: got length 3; expected 9"):
        draws.take(whole, np.zeros((1, 3), dtype=np.int64))


def test_a_stream_is_a_function_of_its_key() -> None:
    one, two = native.Draws(6), native.Draws(6)
    first = [one.unit() for _ in range(500)]
    assert first == [two.unit() for _ in range(500)] and len(set(first)) == 500
    two.rewind(1)
    other = [two.unit() for _ in range(500)]
    assert not set(first) & set(other)
    two.rewind(0)
    assert [two.unit() for _ in range(500)] == first


def test_the_stream_is_the_generators() -> None:
    """Block by block of 64 calls: the first uniforms of all, then the second ones."""
    found, (low, high) = native.Draws(6, 2**33 + 5), streams.seed_words(6)
    for start in (0, 64):
        words = [streams.philox(*streams.counter_words(start + i, 2**33 + 5, streams.LEAP, 0), low, high) for i in range(64)]
        pairs = [(streams.join(a, b), streams.join(c, d)) for a, b, c, d in words]
        wanted = [streams.to_open_unit(pair[half]) for half in range(2) for pair in pairs]
        assert [found.unit() for _ in range(128)] == wanted
