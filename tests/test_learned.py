"""Channels that were learned from data: what they may be wrong by, and what policies make of that."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import headwater as hw
from headwater import native
from headwater.arms import Random
from headwater.arrays import Floats
from headwater.evaluation.guard import turned_round
from headwater.files import parse_problem
from headwater.policies.channel_view import channel_view
from headwater.policies.evidence import evidence_of
from headwater.policies.rules import LatentThompson, Spec, make_spec
from headwater.pseudo import model_of
from headwater.pseudo.channels import KNOWN, channels_of
from headwater.simulation.atoms import atoms_of
from headwater.simulation.engine import make_model, simulate_counts
from headwater.streams import NORMAL
from oracle import uniform

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
nothing = pytest.importorskip("learned_from_nothing")

OUTCOMES = [0.0, 1.0, 2.0]


def made(rows: Floats, observations: Floats | None) -> hw.Problem:
    """A problem from ``rows`` (K, J, M), each resting on ``observations`` (K, J)."""
    arms: dict[str, Any] = {}
    for k, row in enumerate(rows):
        arms[f"arm {k}"] = {"outcomes": OUTCOMES, "probabilities": row.tolist()}
        if observations is not None:
            arms[f"arm {k}"]["observations"] = observations[k].tolist()
    names = [f"kind {j}" for j in range(rows.shape[1])]
    return hw.Problem(latent=hw.Discrete(names), arms=arms)


def truth_and_model(seed: int, count: int, arms: int = 3, kinds: int = 4) -> tuple[Floats, Floats, Floats]:
    """True rows (K, J, M), the same as learned from ``count`` rewards each, and how many those were (K, J)."""
    rng = np.random.default_rng(seed)
    true = rng.dirichlet(np.full(3, 2.0), (arms, kinds))
    counts = np.array([[rng.multinomial(count, row) for row in rows] for rows in true])
    return true, (counts + 0.5) / (count + 1.5), np.full((arms, kinds), float(count))


def regret(truth: hw.Problem, model: hw.Problem, spec: Spec, p: Floats, horizon: int, runs: int) -> Floats:
    """Regret at the horizon (runs,) of a policy that believes ``model`` while ``truth`` pays."""
    truth = hw.Problem(latent=truth.latent, arms=truth.arms, distribution=p)
    assert truth.distribution is not None
    atoms = atoms_of(truth, truth.distribution)
    laid = make_model(atoms, scale=model_of(truth).reward_range, evidence=evidence_of(model))
    counts = simulate_counts(laid, spec, checkpoints=np.array([horizon]), replications=runs, seed=7)
    gap = hw.analyze(truth).gap
    assert gap is not None
    out: Floats = counts.pulls[:, -1] @ gap
    return out


def test_the_error_of_a_mean_is_that_of_its_posterior() -> None:
    _, rows, observations = truth_and_model(1, 12)
    error = channels_of(made(rows, observations)).error
    for k in range(3):
        for j in range(4):
            posterior = stats.dirichlet(observations[k, j] * rows[k, j] + 1 / 3)
            assert error[k, j] ** 2 == pytest.approx(np.array(OUTCOMES) @ posterior.cov() @ np.array(OUTCOMES))


def test_known_channels_have_no_error() -> None:
    _, rows, observations = truth_and_model(1, 12)
    assert channels_of(made(rows, None)).error is KNOWN
    mixed = hw.Problem(latent=hw.Discrete(list("abcd")), arms={**made(rows, observations).arms, "sure": [1, 2, 0, 1]})
    assert np.all(channels_of(mixed).error[-1] == 0) and np.all(channels_of(mixed).error[:-1] > 0)


def test_observations_are_kept_in_a_file() -> None:
    _, rows, observations = truth_and_model(1, 12)
    problem = made(rows, observations)
    again = parse_problem(problem.to_toml())
    assert again == problem and again.digest == problem.digest != made(rows, None).digest
    assert hw.Problem(latent=problem.latent, arms=problem.arms) == problem
    sure = {"outcomes": [0, 1], "probabilities": [[1, 0], [0, 1]], "observations": [3, 4]}
    few = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"arm": sure, "other": [1, 2]})
    assert channels_of(few).error[0].min() > 0, "three rewards that are alike do not make a channel known"


def test_upper_ends_of_means_are_kept_in_a_file_and_by_other_problems() -> None:
    _, rows, observations = truth_and_model(1, 12)
    plain = made(rows, observations)
    arms = plain.to_dict()["arms"]
    for body in arms.values():
        body["mean_high"] = [1.75] * rows.shape[1]
    problem = hw.Problem(latent=plain.latent, arms=arms)
    again = parse_problem(problem.to_toml())
    assert again == problem and again.digest == problem.digest != plain.digest
    assert hw.Problem(latent=plain.latent, arms=problem.arms) == problem
    arm = again.arms["arm 0"]
    assert isinstance(arm, Random) and arm.mean_high is not None and arm.mean_high.tolist() == [1.75] * rows.shape[1]
    other = plain.arms["arm 0"]
    assert isinstance(other, Random) and other.mean_high is None
    turned = turned_round(problem, 0, 0.3).arms["arm 0"]
    assert isinstance(turned, Random) and turned.mean_high is not None
    assert np.all(turned.probabilities @ turned.outcomes <= turned.mean_high + 1e-9) and turned.mean_high.max() <= 2


def test_the_index_is_the_smaller_of_its_own_and_the_models_with_its_error() -> None:
    _, rows, observations = truth_and_model(3, 30)
    channels = channels_of(made(rows, observations))
    counts = np.random.default_rng(0).integers(5, 30, 9).astype(float)
    found = []
    for tolerance, own in ((0.0, np.inf), (2.0, np.inf), (2.0, 0.63)):
        state = native.FitState(channel_view(channels, 0.0, 2.0, tolerance), eager=True)
        state.recall(counts, np.zeros(3, dtype=bool))
        state.own = np.full(3, own)
        state.decide(3.0)
        found.append(state.bound)
    law = state.likeliest()
    bound = found[0] + 2.0 * np.sqrt(np.sum((law * channels.error / 2.0) ** 2, axis=1))
    np.testing.assert_allclose(found[1], bound, atol=1e-7)
    np.testing.assert_allclose(found[2], np.minimum(bound, 0.63), atol=1e-7)
    assert bound.min() < 0.63 < bound.max()


def test_an_explanation_names_the_errors_it_allows_for() -> None:
    _, rows, observations = truth_and_model(3, 30)
    for tolerance, named in ((2.0, True), (0.0, False)):
        policy = hw.make_policy("joint-ucb", made(rows, observations), tolerance=tolerance)
        policy.update("arm 0", 1.0)
        assert (f", {tolerance:g} standard errors of the learned means included" in str(policy.explain())) == named


@pytest.mark.parametrize("name", ["joint-ucb", "latent-ts", "graves-lai"])
def test_without_tolerance_learned_channels_are_trusted(name: str) -> None:
    true, rows, observations = truth_and_model(5, 30)
    spec = make_spec(name, **({} if name == "graves-lai" else {"tolerance": 0.0}))
    args = (spec, np.full(4, 0.25), 300, 4)
    one, other = (regret(made(true, None), made(rows, n), *args) for n in (observations, None))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("name", ["joint-ucb", "latent-ts"])
def test_where_the_model_has_two_arms_the_wrong_way_round_their_own_rewards_decide(name: str) -> None:
    """The model is wrong by two thirds of what its observations allow, and would never find out by itself."""
    true = np.array([[[0.3, 0.4, 0.3]] * 2, [[0.35, 0.4, 0.25]] * 2])
    rows = np.array([[[0.35, 0.4, 0.25]] * 2, [[0.3, 0.4, 0.3]] * 2])
    args = (np.array([0.5, 0.5]), 20_000, 16)
    spec = make_spec(name, audit=0.0, guard=0.0)
    trusting = regret(made(true, None), made(rows, None), spec, *args)
    tolerant = regret(made(true, None), made(rows, np.full((2, 2), 100.0)), spec, *args)
    assert trusting.min() > 0.9 * 0.1 * 20_000, "pulls the worse arm nearly always"
    assert tolerant.mean() < 0.5 * trusting.mean()


def test_the_guard_allows_for_what_was_learned() -> None:
    """Against many of 20 models learned from 20 rewards a row it speaks, told nothing of that; told, against none."""
    spoke = np.zeros(2, dtype=int)
    for seed in range(20):
        true, rows, observations = truth_and_model(seed, 20)
        rng = np.random.default_rng(seed)
        laws = [row.mean(axis=0) for row in true]
        counts = np.array([rng.multinomial(3000, law) for law in laws])
        for i, given in enumerate((None, observations)):
            state = native.FitState(channel_view(channels_of(made(rows, given)), 0.0, 2.0, 2.0))
            state.recall(counts.ravel().astype(float), np.zeros(3, dtype=bool))
            spoke[i] += state.contradiction(1e-3) >= 0
    assert spoke[0] >= 5 and spoke[1] == 0


def test_a_deviation_is_drawn_from_its_posterior() -> None:
    """Of the mean under the draw of X's law, which the chain goes on from, and of the arm's own rewards."""
    _, rows, observations = truth_and_model(3, 30)
    policy = hw.make_policy("latent-ts", made(rows, observations), guard=0.0, audit=0.0, seed=5)
    assert isinstance(policy.spec.rule, LatentThompson) and policy.evidence is not None
    channels, low, span = policy.evidence.channels, policy.evidence.low, policy.evidence.span
    error = channels.error * policy.spec.rule.tolerance / span
    for rewards in (0, 1000):
        policy.update(["arm 0"] * rewards, [1.0, 2.0] * (rewards // 2))
        t, pulls, seen = policy.rounds + 1, policy.known.pulls.copy(), policy.seen.copy()
        chosen = policy.select()
        found = policy.known.ranks.copy()
        policy.update(chosen, 1.0)
        law = policy._native.course()["particle"]
        for k in range(3):
            before, mean = float(np.sum((law * error[k]) ** 2)), float(law @ channels.g[k] - low) / span
            own = seen[k] @ channels.values[k] / max(pulls[k], 1)
            noise = (1 / 12 + seen[k] @ (channels.values[k] - own) ** 2 / span**2) / (pulls[k] + 1)
            precision = 1 / before + pulls[k] / noise
            expected = (mean / before + pulls[k] / noise * (own - low) / span) / precision
            normal = special.ndtri((uniform(5, 0, t, NORMAL, k, 0) + 0.5) * 2.0**-53)
            assert (found[k] - low) / span == pytest.approx(expected + normal / np.sqrt(precision))


@pytest.mark.parametrize("name", ["joint-ucb", "latent-ts"])
@pytest.mark.parametrize("tolerance", [-1, float("inf"), "two"])
def test_a_tolerance_is_refused(name: str, tolerance: object) -> None:
    with pytest.raises(hw.ProblemError, match=r"tolerance: got .*; expected a number of standard errors, from 0"):
        make_spec(name, tolerance=tolerance)


@pytest.mark.parametrize("policy", ["auto", "latent-ts", "graves-lai", "c-kl-ucb"])
def test_what_was_learned_from_nothing_is_not_believed_for_ever(policy: str) -> None:
    """Ten arms at 0.5 %, the best at 1 % but with 0 of 300 in the log: beside Thompson sampling that starts from the same log.

    Over three runs of 30,000 rounds a policy that follows the fit loses 150 in each, by lot one loses 135.
    """
    runs, horizon = 3, 30_000
    logs = [nothing.control(run) for run in range(runs)]
    mine = [nothing.lost(nothing.learn(log), policy, horizon, run) for run, log in enumerate(logs)]
    theirs = [nothing.thompson(log, horizon, run) for run, log in enumerate(logs)]
    assert np.mean(mine) <= 1.5 * np.mean(theirs) and np.mean(mine) < 0.75 * 135
