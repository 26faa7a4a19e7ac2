"""Learning a problem from a log: known truths are found, the same log gives the same file, bad logs are refused in words."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from fit_logs import Log, make_log
from headwater.arms import Random
from headwater.fitting.counts import count_arrays, count_log
from headwater.fitting.levels import choose_levels
from headwater.fitting.logs import Columns, read_log
from headwater.fitting.sources import open_source

LONG: dict[str, Any] = {"arm": "arm", "reward": "reward"}


@pytest.fixture(scope="module")
def log() -> Log:
    return make_log()


@pytest.fixture(scope="module")
def noisy() -> Log:
    return make_log(1, noise=1.0)


def taken(rows: dict[str, Any], order: Any) -> dict[str, Any]:
    return {name: [column[i] for i in order] for name, column in rows.items()}


def without_origin(fit: hw.Fit) -> str:
    """The file but for the lines that say where the log was."""
    return re.sub(r"^(# Learned from|name =|source =|command =).*$", "", fit.to_toml(), flags=re.MULTILINE)


def nearest_order(found: Any, truth: Any) -> list[int]:
    """The order of the truth's kinds that is nearest to what was found; both (K, J, M)."""
    orders = itertools.permutations(range(truth.shape[1]))
    return list(min(orders, key=lambda order: abs(found - truth[:, list(order)]).sum()))


# ------------------------------------------------------------------ known truths


def test_intervals_hold_as_often_as_they_say() -> None:
    """Of 600 intervals of a cell's mean reward at 95 %, fewer than 91.5 % hold in one of 10,000 tests (binomial)."""
    held = []
    for seed in range(40):
        log = make_log(seed, units=800)
        fit = hw.fit(log.rows, **LONG, segment="kind")
        for k, channel in enumerate(fit.channels):
            truth = log.law[k][:, channel.level] @ channel.outcomes
            held += ((channel.mean_low <= truth) & (truth <= channel.mean_high)).tolist()
    assert len(held) == 600
    assert np.mean(held) > 0.915


def test_the_intervals_of_probabilities_hold_too() -> None:
    held = []
    for seed in range(40):
        log = make_log(100 + seed, units=800)
        fit = hw.fit(log.rows, **LONG, segment="kind", confidence=0.8)
        for k, channel in enumerate(fit.channels):
            held += ((channel.low[:, 0] <= log.law[k][:, 0]) & (log.law[k][:, 0] <= channel.high[:, 0])).tolist()
    assert abs(np.mean(held) - 0.8) < 3.9 * (0.8 * 0.2 / 600) ** 0.5 + 0.01  # one in 10,000; 1 % for counts being whole


def test_hidden_kinds_are_found_with_their_channels() -> None:
    log = make_log(5, units=3000, arms=10, seen=0.8)
    fit = hw.fit(log.rows, **LONG, unit="unit")
    assert len(fit.segments) == 3
    assert fit.choice is not None and fit.stability is not None
    assert fit.stability.agreement > 0.8
    assert fit.warnings == []
    found = np.stack([channel.probabilities for channel in fit.channels])
    order = nearest_order(found, log.law)
    assert abs(fit.shares - log.p[order]).max() < 0.05
    truth = log.law[:, order]
    assert abs(found - truth).max() < 0.1
    low, high = (np.stack([getattr(channel, key) for channel in fit.channels]) for key in ("low", "high"))
    assert np.mean((low <= truth) & (truth <= high)) > 0.85  # 90 dependent cells at 95 %
    unit = np.unique(log.rows["unit"], return_inverse=True)[1]
    arm = np.array([fit.arms.index(name) for name in log.rows["arm"]])
    guess = np.argmax(fit.assign(unit, arm, np.array(log.rows["reward"], float)), axis=1)
    number = np.unique(np.array([int(name[1:]) for name in log.rows["unit"]]))
    assert np.mean(np.array(order)[guess] == log.kind[number]) > 0.9


@pytest.mark.parametrize("features", [["age"], ["city", "job", "pet"]])
def test_segments_from_features_are_the_kinds(features: list[str]) -> None:
    log = make_log(6, units=4000)
    fit = hw.fit(log.rows, **LONG, unit="unit", features=features, segments=3)
    assert fit.method == ("features (gaussian)" if features == ["age"] else "features (categorical)")
    assert fit.stability is not None and fit.stability.agreement > 0.8
    found = np.stack([channel.probabilities for channel in fit.channels])
    truth = log.law[:, nearest_order(found, log.law)]
    assert abs(found - truth).max() < (0.06 if features == ["age"] else 0.12)
    assert len(fit.profiles) == 3 and all(any(name in words for name in features) for words in fit.profiles)


def test_features_that_tell_nothing_give_one_segment(log: Log) -> None:
    rng = np.random.default_rng(0)
    rows = log.rows | {"dice": rng.integers(1, 7, len(log.rows["unit"]))}
    fit = hw.fit(rows, **LONG, features=["dice"])
    assert fit.segments == ["segment 1"]
    assert "there is one segment only" in fit.warnings[0]


# ------------------------------------------------------------------ one log, one problem


def test_csv_parquet_and_a_database_file_give_the_same_file(noisy: Log, tmp_path: Path) -> None:
    import duckdb

    table = pa.table(noisy.rows)
    pa.csv.write_csv(table, tmp_path / "log.csv")
    pa.parquet.write_table(table, tmp_path / "log.parquet", row_group_size=500)
    with duckdb.connect(str(tmp_path / "log.db")) as connection:
        connection.sql(f"create table log as from '{tmp_path / 'log.parquet'}'")
    for how in ({"segment": "kind"}, {"unit": "unit", "segments": 2}, {"features": ["age", "city"], "segments": 2}):
        texts = [without_origin(hw.fit(tmp_path / name, **LONG, **how)) for name in ("log.csv", "log.parquet")]
        texts.append(without_origin(hw.fit("log", database=str(tmp_path / "log.db"), **LONG, **how)))
        texts.append(without_origin(hw.fit(table, **LONG, **how)))
        assert len(set(texts)) == 1


def test_a_csv_without_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (50, 3))
    (tmp_path / "log.csv").write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n", encoding="utf-8")
    fit = hw.fit(tmp_path / "log.csv", wide=True, segments=1)
    assert fit.arms == ["column0", "column1", "column2"] and fit.origin["rows"] == 150
    assert fit.warnings[0] == ("the first line holds numbers only and was read as a row; columns are named column0, column1, …")


def test_several_files_are_one_log(noisy: Log, tmp_path: Path) -> None:
    table = pa.table(noisy.rows)
    pa.parquet.write_table(table.slice(0, 700), tmp_path / "a.parquet")
    pa.parquet.write_table(table.slice(700), tmp_path / "b.parquet")
    whole = hw.fit(table, **LONG, segment="kind")
    assert without_origin(hw.fit(tmp_path / "*.parquet", **LONG, segment="kind")) == without_origin(whole)


def test_long_and_wide_are_equal() -> None:
    log = make_log(2, units=400)
    units = sorted(set(log.rows["unit"]))
    arms = sorted(set(log.rows["arm"]))
    paid = dict(zip(zip(log.rows["unit"], log.rows["arm"], strict=True), log.rows["reward"], strict=True))
    kind = dict(zip(log.rows["unit"], log.rows["kind"], strict=True))
    wide = {"who": units, "kind": [kind[u] for u in units]}
    wide |= {arm: [float(paid.get((u, arm), 99)) for u in units] for arm in arms}
    for how in ({"segments": 2}, {"segment": "kind"}):
        long = hw.fit(log.rows, **LONG, unit="unit", **how)
        taken_out = {name: column for name, column in wide.items() if name != "kind" or "segment" in how}
        other = hw.fit(taken_out, wide=True, unit="who", missing=99, **how)
        assert other.problem.digest == long.problem.digest
    nameless = {arm: wide[arm] for arm in arms}
    assert (
        hw.fit(nameless, wide=arms, missing="99", segments=2).problem.digest
        == hw.fit(log.rows, **LONG, unit="unit", segments=2).problem.digest
    )


def test_the_order_of_rows_and_the_names_of_units_change_nothing(noisy: Log) -> None:
    order = np.random.default_rng(0).permutation(len(noisy.rows["unit"]))
    mixed = taken(noisy.rows, order)
    mixed["unit"] = [name[::-1] for name in mixed["unit"]]
    for how in ({"segment": "kind"}, {"unit": "unit", "segments": 3}):
        assert without_origin(hw.fit(mixed, **LONG, **how)) == without_origin(hw.fit(noisy.rows, **LONG, **how))


def test_other_names_of_arms_and_segments_rename_the_problem(noisy: Log) -> None:
    swap = {"arm 0": "arm 1", "arm 1": "arm 0", "kind 0": "kind 2", "kind 2": "kind 0"}
    rows = {name: [swap.get(v, v) if isinstance(v, str) else v for v in column] for name, column in noisy.rows.items()}
    before, after = hw.fit(noisy.rows, **LONG, segment="kind"), hw.fit(rows, **LONG, segment="kind")
    assert np.allclose(after.channels[0].probabilities, before.channels[1].probabilities[::-1], rtol=1e-12)
    assert np.allclose(after.channels[3].mean, before.channels[3].mean[::-1], rtol=1e-12)


def test_the_same_seed_gives_the_same_file_another_may_not(noisy: Log) -> None:
    fits = [hw.fit(noisy.rows, **LONG, unit="unit", segments=3, seed=seed).to_toml() for seed in (1, 1, 2)]
    assert fits[0] == fits[1] != fits[2]


def test_a_sample_of_units_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log(7, units=4000, arms=8, seen=0.9)
    fit = hw.fit(log.rows, **LONG, unit="unit", segments=3, sample=1000)
    assert 500 <= fit.origin["units_used"] <= 1100
    assert fit.origin["share_of_units"] == 0.25
    found = np.stack([channel.probabilities for channel in fit.channels])
    assert abs(found - log.law[:, nearest_order(found, log.law)]).max() < 0.15


def test_the_file_is_read_by_every_command(noisy: Log, tmp_path: Path) -> None:
    fit = hw.fit(noisy.rows, **LONG, segment="kind", name="made up")
    fit.save(tmp_path / "p.toml")
    problem = hw.load_problem(tmp_path / "p.toml")
    assert problem == fit.problem and problem.name == "made up"
    data = tomllib.loads((tmp_path / "p.toml").read_text(encoding="utf-8"))
    assert data == tomllib.loads(fit.to_toml())
    assert data["evidence"]["rows"] == len(noisy.rows["unit"])
    assert list(data["evidence"]["arms"]) == fit.arms
    counts = np.array([body["counts"] for body in data["evidence"]["arms"].values()])
    assert counts.sum() == len(noisy.rows["unit"])
    arm = problem.arms["arm 0"]
    assert isinstance(arm, Random) and arm.observations is not None
    assert np.allclose(arm.observations, fit.channels[0].effective, rtol=1e-5)
    run = hw.simulate(problem, policies=["ucb1", "joint-ucb"], horizon=50, replications=4, seed=1)
    assert set(run.outcomes) == {"ucb1", "joint-ucb"}
    policy = hw.make_policy("auto", problem)
    for reward in noisy.rows["reward"][:20]:
        policy.update(policy.select(), float(reward))  # a raw reward, never seen before, is of some level


def test_duckdb_draws_no_progress_over_the_output() -> None:
    source = open_source({"a": [1]})
    assert source.backend.con.execute("select current_setting('enable_progress_bar')").fetchone() == (False,)
    source.close()


# ------------------------------------------------------------------ counting and levels


@pytest.mark.parametrize("shape", ["values", "uniform", "lognormal", "zeros", "far", "tiny"])
def test_counts_in_the_database_are_those_at_hand(shape: str) -> None:
    rng = np.random.default_rng(4)
    n = 4000
    rewards = {
        "values": rng.integers(0, 40, n).astype(float),
        "uniform": rng.uniform(-10, 10, n),
        "lognormal": np.exp(3 * rng.normal(size=n)),
        "zeros": np.where(rng.random(n) < 0.9, 0.0, rng.gamma(2, 30, n)),
        "far": 1e9 + rng.normal(size=n),
        "tiny": 1e-12 * rng.normal(size=n),
    }[shape]
    arm, segment = rng.integers(0, 3, n), rng.integers(0, 2, n)
    rows = {"arm": arm, "kind": segment, "reward": rewards}
    log = read_log(open_source(rows), Columns(arm="arm", reward="reward", segment="kind"))
    there = count_log(log)
    here = count_arrays(arm, segment, rewards, ["0", "1", "2"], ["0", "1"])
    assert np.array_equal(there.n, here.n) and np.array_equal(there.total, here.total)
    assert np.array_equal(there.edges, here.edges)
    assert there.n.sum() == n
    assert np.allclose(there.total.sum(axis=2)[1, 1], rewards[(arm == 1) & (segment == 1)].sum(), rtol=1e-9, atol=1e-15)
    largest = there.n.sum(axis=(0, 1)).max() / n
    assert shape == "values" or largest < (0.95 if shape == "zeros" else 0.04)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=6, max_size=40), st.integers(2, 8), st.integers(0, 1000))
def test_levels_are_the_best_of_all_merges(rewards: list[int], wanted: int, seed: int) -> None:
    """The dynamic programme against every way to cut."""
    from headwater.fitting.levels import _costs

    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 2, len(rewards))
    counts = count_arrays(arm, 0 * arm, np.array(rewards, float), ["a", "b"], ["all"])
    bins = counts.n.shape[2]
    levels = choose_levels(counts, wanted)
    if bins <= wanted:
        assert levels.exact and levels.size == bins
        return
    cost = np.add(*_costs(counts))
    best = min(
        sum(cost[a, b - 1] for a, b in itertools.pairwise((0, *cut, bins)))
        for cut in itertools.combinations(range(1, bins), wanted - 1)
    )
    mine = [*levels.first.tolist(), bins]
    assert sum(cost[a, b - 1] for a, b in itertools.pairwise(mine)) == pytest.approx(best, abs=1e-12)


def test_levels_keep_what_separates_arms() -> None:
    """Rewards around 0.2 and 0.3 tell the arms apart, those around 0.8 do not."""
    rng = np.random.default_rng(0)
    arm = rng.integers(0, 2, 20_000)
    low = np.where(arm == 0, 0.2, 0.3) + 0.02 * rng.uniform(-1, 1, 20_000)
    rewards = np.where(rng.random(20_000) < 0.5, low, 0.8 + 0.05 * rng.uniform(-1, 1, 20_000))
    counts = count_arrays(arm, 0 * arm, rewards, ["a", "b"], ["all"])
    edges = choose_levels(counts, 3).edges
    assert 0.22 <= edges[0] <= 0.285 and 0.32 <= edges[1] <= 0.755


def test_levels_of_many_rewards_keep_every_arms_mean(noisy: Log) -> None:
    fit = hw.fit(noisy.rows, **LONG, segment="kind")
    assert not fit.levels.exact and 2 <= fit.levels.size <= 12 and fit.levels.spread_lost <= 0.02
    rewards, arm = np.array(noisy.rows["reward"]), np.array(noisy.rows["arm"])
    for k, name in enumerate(fit.arms):
        channel = fit.channels[k]
        assert channel.counts.sum(axis=0) @ channel.outcomes / channel.counts.sum() == pytest.approx(
            rewards[arm == name].mean()
        )
        assert fit.mean_loss[k].max() < 0.06
    few = hw.fit(noisy.rows, **LONG, segment="kind", levels=2)
    assert few.levels.size == 2
    assert any("cutting rewards into 2 levels moves the mean of" in line for line in few.warnings)
    fixed = hw.fit(noisy.rows, **LONG, segment="kind", edges=[0.5, 1.5, 7])
    assert fixed.levels.edges.tolist() == [0.5, 1.5, 7] and len(fixed.channels[0].outcomes) == 4


def test_an_arm_that_never_pays_a_value_does_not() -> None:
    rows = {"arm": ["a", "b"] * 200, "reward": [0, 0, 1, 5] * 100, "kind": ["x", "y", "y", "x"] * 100}
    fit = hw.fit(rows, **LONG, segment="kind")
    assert [channel.outcomes.tolist() for channel in fit.channels] == [[0, 1], [0, 5]]
    thin = taken(rows, range(12))
    assert [len(channel.outcomes) for channel in hw.fit(thin, **LONG, segment="kind").channels] == [3, 3]
