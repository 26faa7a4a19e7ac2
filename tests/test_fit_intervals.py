"""Intervals of a fit hold: where clicks are rare, segments small, and people come more than once. Laws are only shrunk."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import headwater as hw
from headwater.arms import Random
from headwater.arrays import Floats, Ints
from headwater.fitting import cells
from headwater.fitting.cells import Units, effective_rewards, exact_ends
from headwater.fitting.channels import Channel, possible_levels
from headwater.fitting.counts import Counts, count_arrays
from headwater.fitting.effects import effect_sizes, find_effects
from headwater.fitting.levels import Levels
from headwater.fitting.pipeline import make_channels
from headwater.fitting.segments import Segmented
from headwater.intervals import mean_intervals

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import interval_fits
from interval_cells import OURS

LONG: dict[str, Any] = {"arm": "arm", "reward": "reward"}


def fewest(number: int, share: float = 0.95, alarm: float = 1e-4) -> int:
    """So many of ``number`` intervals hold at least, if each does with its share, but in one of 10,000 tests."""
    return int(stats.binom.ppf(alarm, number, share))


def clicks(seed: int, rate: float = 0.0046, arms: int = 34, events: int = 10_000) -> tuple[dict[str, Any], Floats]:
    """A log of clicks and the arms' true rates, which differ by a quarter."""
    rng = np.random.default_rng(seed)
    truth = rate * np.exp(0.25 * rng.normal(size=arms))
    arm = rng.integers(0, arms, events)
    return {"arm": arm, "reward": (rng.random(events) < truth[arm]).astype(int), "who": ["everyone"] * events}, truth


def tabulated(counts: Floats | Ints, least: int = 10) -> list[Channel]:
    """Channels of a table of counts (K, J, M) of rewards 0, 1, …"""
    values = np.arange(float(counts.shape[2]))
    names = [[f"{word}{i}" for i in range(size)] for word, size in zip("as", counts.shape, strict=False)]
    binned = Counts(names[0], names[1], counts, counts * values, values[1:] - 0.5, values)
    levels = Levels(binned.edges, np.arange(len(values)), True, 0.0, 0.0)
    n = counts.sum(axis=2)
    found = Segmented(binned, n.sum(axis=0) / n.sum(), levels, counts.astype(float), n.astype(float), "segment column")
    return make_channels(found, least, 0.95, least=0.0, most=values[-1])[0]


# ------------------------------------------------------------------ real situations


def test_a_log_of_rare_clicks() -> None:
    """0.46 % of 10,000 events, 34 arms: 10 logs, 340 means, a third of those of arms that nobody clicked."""
    held: list[bool] = []
    silent: list[bool] = []
    for seed in range(10):
        rows, truth = clicks(seed)
        fit = hw.fit(rows, **LONG, segment="who")
        for name, channel in zip(fit.arms, fit.channels, strict=True):
            rate, n = truth[int(name)], int(channel.counts.sum())
            inside = bool(channel.mean_low[0] <= rate <= channel.mean_high[0])
            held.append(inside)
            assert channel.mean_low[0] <= channel.mean[0] <= channel.mean_high[0]
            arm = fit.problem.arms[name]
            assert isinstance(arm, Random) and arm.observations is not None and arm.mean_high is not None
            assert arm.observations[0] == n, "shrinkage is no data"
            if channel.counts[0, 1] == 0:
                silent.append(inside)
                exact = stats.beta.ppf(0.975, 1, n)
                assert channel.mean_high[0] == pytest.approx(exact, rel=1e-6) and arm.mean_high[0] == pytest.approx(
                    exact, rel=1e-5
                )
                assert 0.0005 < channel.mean[0] < exact, "what other arms pay is to be expected of this one, too"
    assert sum(held) >= fewest(len(held)) and len(silent) > 50
    assert sum(silent) >= fewest(len(silent))


def test_a_rare_segment_keeps_an_effect_of_its_own() -> None:
    """2 % of people are ill, and cost twice as much as the others; what they cost differs between arms as for all."""
    held: list[bool] = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        mean = np.array([3.0, 3.5, 4.0, 3.2])[:, None] * np.array([1.0, 1.1, 2.1])
        arm, ill = rng.integers(0, 4, 6000), rng.choice(3, 6000, p=[0.5, 0.48, 0.02])
        visits = np.minimum(rng.poisson(mean[arm, ill]), 12)
        truth = np.array([[np.minimum(np.arange(200), 12) @ stats.poisson.pmf(np.arange(200), m) for m in row] for row in mean])
        fit = hw.fit({"arm": arm, "reward": visits, "ill": ill}, **LONG, segment="ill")
        for k, channel in enumerate(fit.channels):
            held.append(bool(channel.mean_low[2] <= truth[k, 2] <= channel.mean_high[2]))
            assert abs(channel.mean[2] - truth[k, 2]) < 1.5
            assert channel.mean[2] > channel.mean[0] + 1
        sizes = fit.effect_sizes()
        assert sizes.segments > 3 * sizes.together
    assert sum(held) >= fewest(len(held))


def people(seed: int, largest: int = 30) -> tuple[dict[str, Any], Floats]:
    """Ratings 1 to 5 of 3 arms by 80 people, each of a temper: up to ``largest`` ratings a person and arm."""
    rng = np.random.default_rng(seed)
    temper = rng.integers(0, 2, 80)
    count = rng.integers(1, largest + 1, (80, 3))
    who, arm = (np.repeat(axis, count.ravel()) for axis in (np.indices((80, 3)).reshape(2, -1)))
    laws = np.array([[[0.1, 0.2, 0.3, 0.2, 0.2], [0.4, 0.3, 0.1, 0.1, 0.1]]] * 3) @ np.eye(5)
    reward = 1 + (rng.random(len(who))[:, None] > laws[arm, temper[who]].cumsum(axis=1)[:, :-1]).sum(axis=1)
    truth = laws.mean(axis=1) @ np.arange(1.0, 6.0)
    return {"arm": arm, "reward": reward, "who": who, "all": ["everyone"] * len(who)}, truth


def test_people_with_several_rows_each_are_counted_as_people() -> None:
    held: dict[bool, list[bool]] = {True: [], False: []}
    for seed in range(25):
        rows, truth = people(seed)
        for known in held:
            fit = hw.fit(rows, **LONG, segment="all", unit="who" if known else None)
            for k, channel in enumerate(fit.channels):
                held[known].append(bool(channel.mean_low[0] <= truth[k] <= channel.mean_high[0]))
                assert (channel.effective[0] < 0.8 * channel.counts.sum()) == known
            assert ("correlation_within_units" in fit.origin) == known
            assert fit.intervals_in_words().endswith("over units." if known else "over rewards.")
    assert sum(held[True]) >= fewest(75)
    assert np.mean(held[False]) < 0.75, "without units nobody can know"


def test_units_with_one_row_a_cell_change_nothing() -> None:
    rows, _ = clicks(3, 0.1, 5, 800)
    rows["unit"] = np.arange(800)
    plain, named = (hw.fit(rows, **LONG, segment="who", unit=unit) for unit in (None, "unit"))
    assert plain.problem.digest == named.problem.digest
    twice = {key: np.repeat(column, 2) for key, column in rows.items()}
    again = hw.fit(twice, **LONG, segment="who", unit="unit")
    for one, two in zip(plain.channels, again.channels, strict=True):
        assert np.allclose(one.mean_high, two.mean_high, rtol=1e-6) and np.allclose(one.low, two.low, atol=1e-9)
        assert np.allclose(one.effective, two.effective) and np.allclose(2 * one.counts, two.counts)


def test_units_count_in_segments_found_from_features_too() -> None:
    rows, _ = people(2)
    rows["age"] = 20 + 30 * (rows["who"] % 2) + np.random.default_rng(0).normal(0, 2, 80)[rows["who"]]
    fit = hw.fit(rows, **LONG, features=["age"], unit="who", segments=2)
    assert fit.origin["most_rewards_of_a_unit_in_a_cell"] > 20 and fit.origin["correlation_within_units"] > 0.02
    known = hw.fit(rows | {"half": rows["who"] % 2}, **LONG, segment="half", unit="who")
    order = [0, 1] if abs(fit.shares[0] - known.shares[0]) < 1e-9 else [1, 0]
    for one, other in zip(fit.channels, known.channels, strict=True):
        assert np.allclose(one.mean_high[order], other.mean_high, rtol=1e-5)


def test_a_sample_of_units_says_how_much_rows_are_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many units for all their sums, those of some tell how alike the rewards of one are."""
    rows, _ = people(1)
    whole = hw.fit(rows, **LONG, segment="all", unit="who")
    monkeypatch.setattr(cells, "MOST_SUMS", 900)
    part = hw.fit(rows, **LONG, segment="all", unit="who")
    for one, other in zip(whole.channels, part.channels, strict=True):
        assert np.allclose(one.effective, other.effective, rtol=0.6) and np.all(other.effective < 0.6 * other.counts.sum())
        width = [channel.mean_high[0] - channel.mean_low[0] for channel in (one, other)]
        assert 0.5 < width[1] / width[0] < 1.6


# ------------------------------------------------------------------ tables of counts


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 5), st.integers(2, 5), st.sampled_from([0.3, 3.0, 40.0]))
def test_what_is_stated_never_contradicts_itself(seed: int, arms: int, segments: int, levels: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(size * rng.dirichlet(np.ones(levels), (arms, segments)) * rng.random((arms, segments, 1)) * levels)
    counts[0, 0, :2] += 1  # rewards differ
    counts[:, 0, 0] += 1
    for channel in tabulated(counts):
        n = channel.counts.sum(axis=1)
        assert np.all(channel.low <= channel.probabilities) and np.all(channel.probabilities <= channel.high)
        assert np.all(channel.mean_low <= channel.mean) and np.all(channel.mean <= channel.mean_high)
        assert np.allclose(channel.probabilities.sum(axis=1), 1) and np.all(channel.probabilities > 0)
        assert np.all(channel.effective <= n)
        exact = special.betaincinv(channel.counts + 1, np.maximum(n[:, None] - channel.counts, 1e-9), 0.975)
        assert np.all(channel.high >= np.where(channel.counts < n[:, None], exact, 1.0) - 1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_relabelling_arms_and_segments_relabels_the_laws(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(20 * rng.dirichlet(np.ones(3), (4, 3)))
    counts[:, :, 0] += 1
    arms, segments = rng.permutation(4), rng.permutation(3)
    before, after = tabulated(counts), tabulated(counts[arms][:, segments])
    for k, channel in zip(arms, after, strict=True):
        assert np.allclose(channel.probabilities, before[k].probabilities[segments], rtol=1e-4)
        assert np.allclose(channel.mean_high, before[k].mean_high[segments], rtol=1e-9)


def test_effects_that_add_up_are_expected_in_cells_never_seen() -> None:
    """Counts that a law without interaction makes, of size: what it says of a cell that was left out."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(8, 1, 4)) + rng.normal(size=(1, 6, 4))
    law = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    counts = 1e6 * law
    counts[2, 3] = 0
    found = find_effects(counts, *possible_levels(counts.sum(axis=1)))
    assert np.allclose(found.expected, law, atol=1e-3)
    assert found.arm_strength < 50 and found.segment_strength < 50


def test_arms_that_are_alike_are_drawn_together_and_others_are_not() -> None:
    """Ten arms at 0.005 of which one was never clicked; and two arms of which one always pays."""
    counts = np.array([[[299.0, 1.0]], [[298.0, 2.0]], [[299.0, 1.0]], [[298.0, 2.0]], [[300.0, 0.0]]] * 2)
    alike = tabulated(counts)
    assert 0.002 < alike[4].mean[0] < 0.005 and alike[4].mean_high[0] == pytest.approx(0.01222, abs=1e-4)
    apart = tabulated(np.array([[[290.0, 10.0]], [[10.0, 290.0]]]))
    assert apart[0].mean[0] < 0.04 and apart[1].mean[0] > 0.96


def test_an_arm_that_always_paid_the_same_may_pay_otherwise() -> None:
    """0 of 5,000 clicks where others have 1 %: no click was seen, and yet one is possible."""
    channels = tabulated(np.array([[[5000.0, 0.0]], [[4950.0, 50.0]], [[4940.0, 60.0]]]))
    assert channels[0].outcomes.tolist() == [0, 1]
    assert 0 < channels[0].mean[0] < channels[0].mean_high[0] == pytest.approx(stats.beta.ppf(0.975, 1, 5000), rel=1e-6)


def test_sizes_of_effects() -> None:
    means = np.array([[1.0, 3.0], [2.0, 4.0], [3.0, 5.0]])
    sizes = effect_sizes(means, np.array([0.5, 0.5]))
    assert sizes.together == pytest.approx(0) and sizes.segments == pytest.approx(1)
    assert sizes.arms == pytest.approx(np.sqrt(2 / 3)) and sum(sizes.parts) == pytest.approx(1)
    assert effect_sizes(np.ones((2, 2)), np.array([0.5, 0.5])).parts == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("number", "runs"), [(1, 20), (2, 20), (4, 30), (10, 30), (11, 20), (17, 10), (21, 20), (24, 5)])
def test_a_small_part_of_the_grid(number: int, runs: int) -> None:
    """Cells of benchmarks/interval_fits.py, few runs of each: a right 94 % would be below once in 10,000 times a cell."""
    cell = interval_fits.CELLS[number]
    tally: dict[str, interval_fits.Tally] = {}
    interval_fits.way_of(cell)(cell, tally, np.random.default_rng(number), runs)
    for kind, found in tally.items():
        hits = found.outcome().hits[OURS]
        assert stats.binom.cdf(hits.sum(), len(hits), 0.94) > 1e-4, (cell.name(), kind, hits.mean())


# ------------------------------------------------------------------ bins and units


def test_two_values_for_a_bin_keep_its_mean_and_variance() -> None:
    rng = np.random.default_rng(2)
    rewards = rng.lognormal(3, 1, 5000)
    arm = rng.integers(0, 2, 5000)
    counts = count_arrays(arm, 0 * arm, rewards, ["a", "b"], ["all"])
    assert counts.values is None
    values, weights = cells.spread_out(counts)
    for k in range(2):
        mine = rewards[arm == k]
        assert weights[k, 0].sum() == len(mine)
        mean = np.average(values[k, 0], weights=weights[k, 0])
        assert mean == pytest.approx(mine.mean(), rel=1e-9)
        assert np.average((values[k, 0] - mean) ** 2, weights=weights[k, 0]) == pytest.approx(mine.var(), rel=1e-3)


def test_bins_state_what_single_rewards_would() -> None:
    """The interval of a mean from bins against the same from every reward."""
    rng = np.random.default_rng(3)
    rewards = np.where(rng.random(3000) < 0.1, rng.gamma(2, 30, 3000), 0.0)
    arm = rng.integers(0, 3, 3000)
    counts = count_arrays(arm, 0 * arm, rewards, ["a", "b", "c"], ["all"])
    n = counts.n.sum(axis=2).astype(float)
    levels = Levels(np.array([]), np.array([0]), False, 0.0, 0.0)
    ends = exact_ends(counts, levels, n, None, least=0.0, most=float(rewards.max()), confidence=0.95)
    for k in range(3):
        mine = rewards[arm == k]
        single = mean_intervals(mine, np.ones(len(mine)), low=0.0, high=float(rewards.max()))
        assert ends.mean_low[k, 0] == pytest.approx(float(single[0]), rel=2e-3)
        assert ends.mean_high[k, 0] == pytest.approx(float(single[1]), rel=2e-3)


def test_units_that_are_all_alike_leave_room() -> None:
    """30 units that were each paid one of two times: that none was paid otherwise is not known for sure."""
    size, total = np.full(30, 2.0), np.ones(30)
    units = Units(np.zeros(30, dtype=np.int64), size, total, np.stack([total, total], axis=1), np.ones(30), 1.0)
    n = np.array([[[30, 30]]])
    values = np.array([0.0, 1.0])
    counts = Counts(["a"], ["all"], n, n * values, np.array([0.5]), values)
    levels = Levels(counts.edges, np.array([0, 1]), True, 0.0, 0.0)
    ends = exact_ends(counts, levels, np.array([[60.0]]), units, least=0.0, most=1.0, confidence=0.95)
    assert ends.mean_low[0, 0] < 0.46 and ends.mean_high[0, 0] > 0.54
    assert np.all(ends.low < 0.46) and np.all(ends.high > 0.54)


def test_how_alike_the_rewards_of_a_unit_are() -> None:
    """Beta-binomial units of 10 rows: the correlation is what it was drawn with."""
    rng = np.random.default_rng(4)
    rate = rng.beta(0.2 * 4, 0.8 * 4, 4000)  # correlation 1 / (1 + 4)
    size = rng.integers(1, 20, 4000).astype(float)
    hits = rng.binomial(size.astype(int), rate).astype(float)
    where = rng.integers(0, 2, 4000)
    units = Units(where, size, hits, np.stack([size - hits, hits], axis=1), np.ones(4000), 1.0)
    worth, alike = effective_rewards(units, (2, 1))
    assert alike == pytest.approx(0.2, abs=0.03)
    sizes = size[where == 0]
    assert worth[0, 0] == pytest.approx(1 / (1 + alike * ((sizes**2).sum() / sizes.sum() - 1)))


def test_given_edges_are_kept_and_means_stay_exact() -> None:
    rng = np.random.default_rng(5)
    rows = {"arm": rng.integers(0, 3, 2000), "reward": rng.gamma(2, 10, 2000), "who": rng.integers(0, 2, 2000)}
    fit = hw.fit(rows, **LONG, segment="who", edges=[5, 20.5, 1000])
    assert fit.levels.edges.tolist() == [5, 20.5, 1000]
    channel = fit.channels[1]
    mine = rows["reward"][(rows["arm"] == 1) & (rows["who"] == 0)]
    assert channel.counts[0].tolist() == [np.sum(mine < 5), np.sum((mine >= 5) & (mine < 20.5)), np.sum(mine >= 20.5), 0]
    assert channel.mean_low[0] < mine.mean() < channel.mean_high[0]
    half = 1.96 * mine.std() / np.sqrt(len(mine))
    assert channel.mean_high[0] - channel.mean_low[0] == pytest.approx(2 * half, rel=0.15), "not as wide as the ranges are"


def test_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    from headwater.tables import print_fit

    rows, _ = clicks(1, 0.2, 3, 600)
    fit = hw.fit(rows, **LONG, segment="who")
    print_fit(fit)
    said = " ".join(capsys.readouterr().out.split())
    channel = fit.channels[0]
    assert "95 % interval" in said and f"{channel.mean_low[0]:.3g} to {channel.mean_high[0]:.3g}" in said
    assert "Mean rewards differ by" in said and "from arm to arm (a standard deviation)" in said
    assert "Intervals are stated at 95 %, each by itself: Gaffke's of means" in said and "over rewards." in said
    rows["who"] = ["x", "y"] * 300
    two = hw.fit(rows, **LONG, segment="who")
    assert "in what is special to an arm and a segment together" in two.effects_in_words()
    assert set(two.evidence()["effects"]) == {"arms", "segments", "together", "arm_strength", "segment_strength"}
