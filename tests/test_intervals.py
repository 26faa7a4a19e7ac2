"""Intervals for means of bounded rewards: what they are in closed form, what they may not depend on, and whether they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from headwater.errors import ProblemError
from headwater.intervals import (
    _inverted_deviate,
    _roots,
    _saddle_deviate,
    _Sums,
    binomial_intervals,
    mean_intervals,
    ratio_interval,
    ratio_intervals,
)

CONFIDENCES = st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.9999])
COUNTS = st.lists(st.integers(0, 400), min_size=1, max_size=6)


@st.composite
def counted(draw: Any) -> tuple[np.ndarray, np.ndarray]:
    """Different values from 0 to 1 and how often each was seen."""
    counts = np.array(draw(COUNTS))
    values = draw(st.lists(st.integers(0, 100), min_size=len(counts), max_size=len(counts), unique=True))
    return np.array(values) / 100, counts


@given(st.integers(0, 3000), st.integers(0, 3000), CONFIDENCES)
def test_hits_and_misses_get_clopper_and_pearsons(hits: int, misses: int, confidence: float) -> None:
    low, high = mean_intervals([0, 1], [misses, hits], low=0, high=1, confidence=confidence)
    lower, upper = binomial_intervals(hits, hits + misses, confidence=confidence)
    if hits + misses:
        exact = stats.binomtest(hits, hits + misses).proportion_ci(confidence)
        assert np.allclose([low, high], exact, rtol=1e-9, atol=1e-300) and np.allclose([lower, upper], exact, rtol=1e-9)
    else:
        assert [float(end) for end in (low, high, lower, upper)] == [0, 1, 0, 1]


@given(st.integers(1, 2000), st.integers(1, 2000), CONFIDENCES)
@settings(deadline=None, max_examples=40)
def test_the_general_solver_finds_the_closed_form(hits: int, misses: int, confidence: float) -> None:
    sums = _Sums(np.array([0.0, 1.0]), np.ones(2), np.array([misses, hits], dtype=float), np.array([0]))
    tail = (1 - confidence) / 2
    found = _roots(sums, np.zeros(1), np.ones(1), tail)[0]
    assert found == pytest.approx(stats.beta.ppf(1 - tail, hits, misses), rel=1e-5)


@given(counted(), CONFIDENCES)
@settings(deadline=None, max_examples=40)
def test_an_interval_holds_the_mean_and_stays_within_the_bounds(seen: Any, confidence: float) -> None:
    values, counts = seen
    low, high = mean_intervals(values, counts, low=0, high=1, confidence=confidence)
    mean = values @ counts / counts.sum() if counts.any() else 0.5
    assert 0 <= low <= mean + 1e-12 and mean - 1e-12 <= high <= 1
    assert high - low > 0


@given(counted(), st.sampled_from([(0.5, 0.8), (0.8, 0.95), (0.95, 0.999)]))
@settings(deadline=None, max_examples=40)
def test_more_confidence_is_a_wider_interval(seen: Any, pair: tuple[float, float]) -> None:
    (a, b), (c, d) = (mean_intervals(*seen, low=0, high=1, confidence=confidence) for confidence in pair)
    assert c <= a + 1e-9 and b <= d + 1e-9


@given(counted(), st.floats(0.01, 100), st.floats(-50, 50))
@settings(deadline=None, max_examples=40)
def test_units_of_reward_do_not_matter_nor_which_way_is_up(seen: Any, scale: float, shift: float) -> None:
    values, counts = seen
    low, high = mean_intervals(values, counts, low=0, high=1)
    a, b = mean_intervals(scale * values + shift, counts, low=shift, high=scale + shift)
    assert np.allclose([a, b], scale * np.array([low, high]) + shift, rtol=0, atol=1e-5 * scale + 1e-9 * abs(shift))
    c, d = mean_intervals(-values, counts, low=-1, high=0)
    assert np.allclose([-d, -c], [low, high], rtol=0, atol=1e-5)


@given(counted(), st.integers(1, 7))
@settings(deadline=None, max_examples=40)
def test_clusters_of_one_size_are_rewards_and_their_order_is_nothing(seen: Any, size: int) -> None:
    values, counts = seen
    want = mean_intervals(values, counts, low=0, high=1)
    each = np.repeat(values, counts)[::-1] if counts.any() else np.zeros(0)
    found = ratio_interval(size * each, np.full(len(each), size), low=0, high=1)
    assert np.allclose(found, want, rtol=0, atol=1e-6)


def test_what_stands_together_is_solved_as_if_alone() -> None:
    """Many cells in one call, clusters of many sizes: each has its own ends, and a cell without any spans its bounds."""
    rng = np.random.default_rng(1)
    cell, size = rng.integers(0, 5, 300), rng.integers(1, 9, 300).astype(float)
    total, count = rng.binomial(size.astype(int), 0.2) * 1.0, rng.integers(1, 4, 300).astype(float)
    low, high = ratio_intervals(cell, total, size, count, cells=6, low=-1, high=np.full(6, 2))
    for c in range(5):
        mine = cell == c
        one = ratio_interval(total[mine], size[mine], count=count[mine], low=-1, high=2)
        assert np.allclose(one, (low[c], high[c]), rtol=0, atol=1e-6)
    assert (low[5], high[5]) == (-1, 2)
    given_worst = ratio_interval(total, size, count=count, low=-1, high=2, worst=((-8, 8), (16, 8)))
    assert np.allclose(given_worst, ratio_interval(total, size, count=count, low=-1, high=2), rtol=0, atol=1e-9)


def test_an_end_is_the_quantile_of_the_weighted_mean() -> None:
    """Against 200,000 draws of the weights, the tail within 4.5 standard errors: a false alarm in one of 100,000."""
    rng = np.random.default_rng(2)
    total, size = np.array([0.0, 1.0, 0.0, 3.0, 2.5]), np.array([1.0, 2.0, 7.0, 4.0, 3.0])
    draws = rng.exponential(size=(200_000, 6))
    for low, high, end in ((0.0, 2.0, 1), (-0.5, 1.5, 0)):
        found = ratio_interval(total, size, low=low, high=high, confidence=0.9)[end]
        bound = (low, high)[end]
        mean = (draws[:, :5] @ total + draws[:, 5] * 7 * bound) / (draws[:, :5] @ size + draws[:, 5] * 7)
        assert abs(np.mean(mean <= found) - (0.05, 0.95)[end]) < 4.5 * np.sqrt(0.05 * 0.95 / 200_000)


def test_many_observations_are_near_normal_and_few_say_little() -> None:
    rng = np.random.default_rng(3)
    many = rng.random(300_000)
    low, high = ratio_interval(many, np.ones(300_000), low=0, high=1)
    half = 1.959964 * many.std() / np.sqrt(300_000)
    assert (low, high) == pytest.approx((many.mean() - half, many.mean() + half), abs=0.02 * half)
    assert ratio_interval([], [], low=0, high=3) == (0, 3)
    assert ratio_interval([2.0], [1], low=0, high=3) == pytest.approx((0.05, 2.975), abs=1e-6)
    assert ratio_interval([3.0] * 5, [1] * 5, low=0, high=3) == pytest.approx((3 * 0.025**0.2, 3), abs=1e-9)


def test_the_saddlepoint_formula_alone_is_close() -> None:
    """What is used alone for more than 200,000 different rewards is right to one in a thousand of the tail for 50 of them."""
    rng = np.random.default_rng(4)
    x = np.append(rng.random(50), 1.0)
    sums = _Sums(x, np.ones(51), np.ones(51), np.array([0]))
    m = _roots(sums, np.array([x.min()]), np.array([1.0]), 0.025)
    assert stats.norm.sf(_saddle_deviate(sums, m)[0]) == pytest.approx(0.025, rel=1e-3)


@given(
    st.lists(st.tuples(st.floats(-60, 60), st.floats(0.5, 2000)), min_size=2, max_size=6, unique_by=lambda pair: pair[0]),
    st.floats(0.02, 0.98),
)
@settings(deadline=None, max_examples=60)
def test_formula_and_inversion_agree_on_the_worst_of_sums(pairs: list[tuple[float, float]], where: float) -> None:
    """Few large terms beside thousands of small ones, of either sign, as doubly robust terms are."""
    total, count = np.array(pairs).T
    sums = _Sums(np.round(total, 3), np.ones(len(total)), np.round(count, 1), np.array([0]))
    low, high = sums.total.min(), sums.total.max()
    if high - low < 0.01:
        return
    centre = float(sums.total @ sums.times / sums.times.sum())
    m = np.array([centre + where * min(high - centre, 4 * np.std(sums.total) / np.sqrt(sums.times.sum()))])
    if m[0] >= high:
        return
    a, b = _saddle_deviate(sums, m)[0], _inverted_deviate(sums, m)[0]
    assert abs(a - b) < 0.05 or min(a, b) > 5, (a, b)


LAWS: dict[str, tuple[list[float], list[float], int]] = {
    "rate 0.001": ([0, 1], [0.999, 0.001], 500),
    "rate 0.3, a hundred": ([0, 1], [0.7, 0.3], 100),
    "amounts with zeros": ([0, 1, 3, 10, 100], [0.9, 0.05, 0.03, 0.015, 0.005], 300),
    "skewed to the left": ([0, 0.9, 1], [0.01, 0.09, 0.9], 150),
    "five rewards": ([0, 0.4, 1], [0.6, 0.2, 0.2], 5),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_intervals_hold(law: tuple[list[float], list[float], int]) -> None:
    """2,000 samples of each law: an interval that holds with 95 % falls below this bound once in 10,000."""
    values, p, n = np.array(law[0], dtype=float), np.array(law[1]), law[2]
    counts = np.random.default_rng([5, n]).multinomial(n, p, size=2000)
    low, high = mean_intervals(values, counts, low=values.min(), high=values.max())
    hits = int(np.sum((low <= values @ p) & (values @ p <= high)))
    assert hits >= stats.binom.ppf(1e-4, 2000, 0.95)


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_intervals_over_people_hold(rate: float) -> None:
    """60 people with 1 to 50 rewards each and rates of their own: as before, while rewards as if independent hold far less."""
    rng = np.random.default_rng(6)
    size = rng.geometric(0.1, (1000, 60)).clip(1, 50)
    total = rng.binomial(size, rng.beta(2 * rate, 2 * (1 - rate), (1000, 60)))
    cell = np.repeat(np.arange(1000), 60)
    low, high = ratio_intervals(cell, total.ravel(), size.ravel(), np.ones(60_000), cells=1000, low=0, high=1)
    assert np.sum((low <= rate) & (rate <= high)) >= stats.binom.ppf(1e-4, 1000, 0.95)
    low, high = binomial_intervals(total.sum(axis=1), size.sum(axis=1))
    assert np.mean((low <= rate) & (rate <= high)) < 0.75


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_intervals([0, 1], [1, 1], low=0, high=1, confidence=1), "confidence: got 1; expected a number between"),
        (lambda: mean_intervals([0, 1], [1, 1], low=1, high=0), "low: got more than high; expected the least reward there is"),
        (lambda: ratio_interval([1, np.nan], [1, 1], low=0, high=1), "total, size and count: expected 2 finite numbers each"),
        (lambda: ratio_interval([1, 1], [1, -1], low=0, high=1), "size and count: expected none below 0"),
        (lambda: binomial_intervals(3, 2), "hits: expected from 0 to as many as trials"),
    ],
)
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        call()
