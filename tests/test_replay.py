"""Replays on held-out people: levels, memberships, populations, and regret against a slow obvious run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.errors import ProblemError
from headwater.evaluation.people import as_they_are, at_random, by_label, make_people, of_mix
from headwater.evaluation.replay import YARDSTICK, named_specs, replay, replay_model, replay_started
from headwater.policies import Policy, make_spec, parse_spec
from headwater.pseudo.channels import channels_of
from headwater.simulation.engine import simulate_counts
from oracle import drawn_atoms

SEGMENTS = ["low", "middle", "high"]


def synthetic(seed: int = 5, arms: int = 4, count: int = 600) -> tuple[hw.Problem, np.ndarray, np.ndarray]:
    """Three segments, rewards on five levels; the truth is the problem's own channels. Returns rewards (U, K) and segments."""
    rng = np.random.default_rng(seed)
    levels = np.linspace(0, 1, 5)
    channels = [rng.dirichlet(np.full(5, 0.7), 3) * 0.96 + 0.008 for _ in range(arms)]
    table = {f"arm {k}": {"outcomes": levels.tolist(), "probabilities": a.tolist()} for k, a in enumerate(channels)}
    problem = hw.Problem(latent=hw.Discrete(SEGMENTS), arms=table, distribution=[0.5, 0.3, 0.2])
    x = rng.choice(3, count, p=[0.5, 0.3, 0.2])
    rewards = np.stack([levels[(rng.random(count)[:, None] > np.cumsum(a[x], axis=1)).sum(axis=1)] for a in channels], axis=1)
    return problem, rewards, x


PROBLEM, REWARDS, X = synthetic()
LABELS = [SEGMENTS[j] for j in X]
PEOPLE = make_people(PROBLEM, REWARDS, segments=LABELS)


# --- people and populations ------------------------------------------------------------------------------------------


def test_rewards_become_the_levels_they_are_nearest_to() -> None:
    off = make_people(PROBLEM, np.clip(REWARDS + 0.1, None, 1.0), segments=LABELS)
    assert np.array_equal(off.level, PEOPLE.level)
    assert np.allclose(PEOPLE.counted(), REWARDS.T)


def test_edges_decide_where_an_arm_has_some() -> None:
    arm = {"outcomes": [0, 1, 2], "edges": [0.3, 1.9], "probabilities": [[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]}
    problem = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"bins": arm, "sure": [1, 2]})
    people = make_people(problem, np.tile([[0.29], [0.3], [1.8], [1.9], [50]], (1, 2)))
    assert people.level.tolist() == [[0, 1, 1, 2, 2], [0, 0, 1, 1, 1]]


def test_membership_is_the_posterior_of_the_channels() -> None:
    people = make_people(PROBLEM, REWARDS)
    a = [channels_of(PROBLEM).matrix(k) for k in range(4)]
    for u in (0, 7, 100):
        odds = np.array([0.5, 0.3, 0.2])
        for k in range(4):
            odds = odds * a[k][people.level[k, u]]
        assert np.allclose(people.membership[u], odds / odds.sum())
    assert not people.known and PEOPLE.known
    # segments are recovered on average: the posterior of a random person averages to the mix, 4 standard errors apart
    error = np.std(people.membership, axis=0) / np.sqrt(people.count)
    assert np.all(abs(people.membership.mean(axis=0) - np.bincount(X) / len(X)) < 4 * error + 0.03)


def test_people_the_channels_call_impossible_belong_everywhere() -> None:
    sure = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"one": [0, 1], "two": [1, 0]}, distribution=[0.25, 0.75])
    people = make_people(sure, [[0, 1], [1, 1]])
    assert people.membership.tolist() == [[1.0, 0.0], [0.25, 0.75]]


def test_a_mix_gives_segments_their_shares() -> None:
    population = of_mix(PEOPLE, {"high": 3, "low": 1})
    assert np.allclose(population.mix, [0.25, 0, 0.75]) and population.name == "75 % high, 25 % low"
    assert np.isclose(population.weights.sum(), 1) and not population.weights[X == 1].any()
    assert np.allclose(population.effective, 1 / (0.25**2 / (X == 0).sum() + 0.75**2 / (X == 2).sum()))
    assert of_mix(PEOPLE, [0.4, 0.3, 0.3], "mine").name == "mine"
    assert as_they_are(PEOPLE).effective == pytest.approx(600)


def test_random_markets_are_functions_of_seed_and_number() -> None:
    three, five = at_random(PEOPLE, count=3, seed=4), at_random(PEOPLE, count=5, seed=4)
    assert all(np.array_equal(a.weights, b.weights) for a, b in zip(three, five, strict=False))
    assert not np.array_equal(three[0].weights, at_random(PEOPLE, count=1, seed=5)[0].weights)
    alike = at_random(PEOPLE, count=20, concentration=1e6)
    assert all(np.allclose(market.mix, 1 / 3, atol=0.01) for market in alike)
    # almost no concentration: one segment each
    assert all(market.mix.max() > 0.99 for market in at_random(PEOPLE, count=20, concentration=1e-8))


def test_labels_make_a_population_each() -> None:
    north = np.arange(600) % 3 == 0
    found = by_label(PEOPLE, ["north" if here else "south" for here in north], "region")
    assert [p.name for p in found] == ["region = north", "region = south"]
    assert np.allclose(found[0].weights, north / north.sum())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_people(PROBLEM, [["x"] * 4]), "rewards: got .*; expected a table of numbers"),
        (lambda: make_people(PROBLEM, [[1.0, 2.0]]), r"rewards: got shape \(1, 2\); expected \(people, 4\)"),
        (lambda: make_people(PROBLEM, np.zeros((0, 4))), r"rewards: got shape \(0, 4\)"),
        (lambda: make_people(PROBLEM, [[1, 1, np.nan, 1]]), r"rewards\[0\]: arm 2 is missing; a replay needs"),
        (lambda: make_people(PROBLEM, REWARDS, segments=["low"]), "segments: got 1 labels; expected 600"),
        (lambda: make_people(PROBLEM, REWARDS, segments=["tall"] * 600), 'segments: got "tall"; expected one of low, middle'),
        (lambda: of_mix(PEOPLE, {"tall": 1}), 'mix: got "tall"; expected one of low, middle, high'),
        (lambda: of_mix(PEOPLE, [1, 2]), r"mix: got \[1, 2\]; expected 3 shares"),
        (lambda: of_mix(PEOPLE, [0, 0, 0]), "expected 3 shares of 0 or more that are not all 0"),
        (lambda: of_mix(PEOPLE, [1, -1, 1]), "expected 3 shares of 0 or more"),
        (
            lambda: of_mix(make_people(PROBLEM, REWARDS[:1], segments=["low"]), [0, 1, 0]),
            "mix: got 1 of middle, where nobody is",
        ),
        (lambda: at_random(PEOPLE, count=1, concentration=0), "concentration: got 0; expected a number above 0"),
        (lambda: by_label(PEOPLE, ["a"], "region"), "region: got 1 values; expected 600"),
        (lambda: named_specs([], PROBLEM), r"policies: got \[\]; expected a list of at least one policy"),
        (lambda: named_specs(["ts", "ts"], PROBLEM), "policies: got ts twice; expected each policy once"),
    ],
)
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        call()


def test_a_continuous_x_is_refused() -> None:
    wave = hw.Problem(latent=hw.Continuous([0, 1]), arms={"a": "x", "b": "1 - x"})
    with pytest.raises(ProblemError, match="problem: got continuous X; expected one whose values are listed"):
        make_people(wave, [[0.1, 0.9]])


# --- replays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ucb1", "c-ucb", "ts", "c-ts", "joint-ucb", "latent-ts"])
def test_a_replay_is_a_live_policy_shown_the_same_people(name: str) -> None:
    """Draw people as the streams say, hand the live policy their real rewards: the same pulls, round by round."""
    population = of_mix(PEOPLE, [0.1, 0.2, 0.7])
    horizon, seed = 120, 11
    counts = simulate_counts(
        replay_model(PEOPLE, population), make_spec(name), checkpoints=np.array([horizon]), replications=2, seed=seed
    )
    for replication in range(2):
        policy = Policy(make_spec(name), PROBLEM, seed=seed, replication=replication)
        for u in drawn_atoms(population.weights, seed, replication, horizon):
            arm = policy.select()
            policy.update(arm, float(REWARDS[u, PROBLEM.index(arm)]))
        assert list(policy.pulls.values()) == counts.pulls[replication, -1].tolist()


def test_regret_is_that_of_the_real_rewards() -> None:
    """Real rewards that differ from their levels' values: gaps are the real ones, what policies see is the levels."""
    rng = np.random.default_rng(3)
    real = REWARDS + rng.uniform(-0.1, 0.1, REWARDS.shape)
    people = make_people(PROBLEM, real, segments=LABELS)
    population = of_mix(people, [0.2, 0.3, 0.5])
    market = replay(people, population, policies=["ts", "auto", "joint-ucb"], horizon=200, replications=5, checkpoints=[50])
    weights = population.weights
    assert np.allclose(market.means, weights @ real) and np.allclose(market.counted, weights @ REWARDS)
    assert np.allclose(market.modelled, PROBLEM.rewards @ [0.2, 0.3, 0.5])
    run = market.simulation
    assert np.allclose(run.regret("ts"), run.outcomes["ts"].pulls @ (market.means.max() - market.means))
    growth = run.regret("ts").mean(axis=0)
    assert market.growth("ts", 50) == pytest.approx(growth[-1] - growth[0])
    assert market.ratio("ts", "ts") == 1
    with pytest.raises(ProblemError, match="since: got 51; expected a checkpoint, such as 50"):
        market.growth("ts", 51)
    found = market.to_dict()
    assert found["best"] == PROBLEM.names[market.best] and found["policies"]["auto"]["rounds"] == [50, 200]


@pytest.mark.parametrize("seed", [3, 2**40 + 1])
def test_a_policy_started_from_nothing_is_the_one_that_is_replayed(seed: int) -> None:
    """The same people in the same rounds, decided live and by the engine: pull for pull."""
    population = of_mix(PEOPLE, [0.2, 0.3, 0.5])
    market = replay(PEOPLE, population, policies=[YARDSTICK], horizon=301, replications=3, seed=seed, checkpoints=[7, 100])
    nothing = np.empty((4, 0), dtype=np.int64)
    both = replay_started(PEOPLE, market, parse_spec(YARDSTICK), nothing, title="started")
    one, other = both.simulation.outcomes.values()
    assert np.array_equal(one.pulls, other.pulls) and np.allclose(one.reward, other.reward)


def test_a_started_policy_believes_the_control_group() -> None:
    """2,000 people who all liked one arm most are believed against the 300 of this market."""
    market = replay(PEOPLE, as_they_are(PEOPLE), policies=[YARDSTICK], horizon=300, replications=3)
    control = np.tile([[2], [3], [4], [3]], (1, 2000))
    both = replay_started(PEOPLE, market, parse_spec(YARDSTICK), control, title="started").simulation
    assert both.outcomes["started"].pulls[:, -1, 2].tolist() == [300] * 3
    assert np.all(both.outcomes["ts (estimated)"].pulls[:, -1, 2] < 300)


def test_auto_keeps_its_name_beside_what_it_stands_for() -> None:
    assert list(named_specs(["auto", "joint-ucb", "ts"], PROBLEM)) == ["auto", "joint-ucb", "ts"]


def test_more_replications_and_threads_change_nothing() -> None:
    population = as_they_are(PEOPLE)
    few = replay(PEOPLE, population, policies=["auto"], horizon=80, replications=3, seed=2, threads=1)
    many = replay(PEOPLE, population, policies=["auto"], horizon=80, replications=6, seed=2, threads=2)
    assert np.array_equal(few.simulation.regret("auto"), many.simulation.regret("auto")[:3])


def test_progress_reaches_the_end() -> None:
    told: list[tuple[int, int]] = []
    replay(PEOPLE, as_they_are(PEOPLE), policies=["ucb1", "ts"], horizon=50, replications=2, progress=lambda *x: told.append(x))
    assert told[-1][1] == 200 and told[-1][0] <= 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "horizon: got 0; expected a whole number from 1 to 1,000,000,000"),
        ({"replications": 0}, "replications: got 0"),
        ({"seed": -1}, "seed: got -1"),
        ({"checkpoints": [51]}, r"checkpoints: got \[51\]"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"policies": ["ucb1"], "horizon": 50, "replications": 2}
    with pytest.raises(ProblemError, match=message):
        replay(PEOPLE, as_they_are(PEOPLE), **(good | change))
