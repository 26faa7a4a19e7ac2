"""How claims are checked: each kind by a problem or run on which it holds, and one on which it does not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.claims import Check, Claim, check, exploitation
from headwater.paper import CASES as ALL
from headwater.paper import INVERTIBLE, LINEAR, SEED, Case

CASES = {case.id: case for case in ALL}


def checked(claim: Claim, problem: hw.Problem, run: hw.Simulation | None = None) -> Check:
    found = check(claim, problem, hw.analyze(problem), run)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def runs() -> dict[str, hw.Simulation]:
    """As many rounds and runs as ``headwater reproduce`` has: the criteria are made for them."""
    return {id_: simulated(CASES[id_]) for id_ in ("discrete-2", "continuous-2", "example-1")}


def simulated(case: Case) -> hw.Simulation:
    how: dict[str, Any] = {"horizon": case.horizon, "replications": case.replications, "seed": SEED}
    return hw.simulate(case.problem, policies=["ucb1", "c-ucb"], **how)


def test_a_claim_about_a_run_waits_for_one() -> None:
    case = CASES["discrete-2"]
    assert check(Claim("", "scales", "arm 2"), case.problem, hw.analyze(case.problem), None) is None


def test_pulls_that_settle_and_pulls_that_scale(runs: dict[str, hw.Simulation]) -> None:
    """In discrete case 2, C-UCB stops pulling arm 1 and goes on with arm 2; the opposite claims fail."""
    run = runs["discrete-2"]
    for about, arm, agrees in (
        ("settles", "arm 1", True),
        ("scales", "arm 1", False),
        ("scales", "arm 2", True),
        ("settles", "arm 2", False),
    ):
        found = checked(Claim("", about, arm), run.problem, run)  # type: ignore[arg-type]
        assert found.agrees == agrees, (about, arm)
    half = int(np.searchsorted(run.rounds, run.horizon // 2))
    pulls = run.outcomes["c-ucb"].pulls[:, :, 1]
    added = float((pulls[:, -1] - pulls[:, half]).mean())
    assert f"C-UCB pulls it {added:.1f} times" in checked(Claim("", "scales", "arm 2"), run.problem, run).computed


@pytest.mark.parametrize(
    ("policy", "arms", "agrees"),
    [
        ("c-ucb", ["arm 2"], True),
        ("c-ucb", ["arm 2", "arm 3"], False),
        ("ucb1", ["arm 2", "arm 3"], True),
        ("ucb1", ["arm 1", "arm 2"], False),
    ],
)
def test_which_arms_are_explored(policy: str, arms: list[str], agrees: bool, runs: dict[str, hw.Simulation]) -> None:
    """ERRATA's fourth: in the second continuous case UCB1 explores arms 2 and 3, C-UCB arm 2."""
    run = runs["continuous-2"]
    found = checked(Claim("", "explores", (policy, arms)), run.problem, run)
    assert found.agrees == agrees and "arm 1 is best" in found.computed


def test_samples_are_exact_only_where_x_is_revealed() -> None:
    claim = Claim("", "samples")
    assert checked(claim, INVERTIBLE.problem).agrees
    assert not checked(claim, CASES["discrete-1"].problem).agrees


def test_where_pseudo_rewards_exceed_rewards() -> None:
    problem = hw.Problem(latent=hw.Discrete([1, 2, 3]), arms={"a": [0, 1, 1], "b": [5, 1, 0]}, distribution=[0.2, 0.3, 0.5])
    assert checked(Claim("", "exceeds", ("b", "a", 0)), problem).agrees
    found = checked(Claim("", "exceeds", ("b", "a", 1)), problem)
    assert not found.agrees and found.computed == "s(r) is above r at 0, equal at 1"


def test_what_a_reward_identifies() -> None:
    problem = CASES["vector-1"].problem
    assert checked(Claim("", "identifies", ("arm 1", 2, "(1, 1)")), problem).agrees
    found = checked(Claim("", "identifies", ("arm 1", 1, "(1, 0)")), problem)
    assert not found.agrees and found.computed == "arm 1 pays 1 at (0, 1) and (1, 0)"


def test_the_linear_programme_of_the_appendix() -> None:
    """Also in closed form: arm 2 pays most where x2 is as large as arm 1's reward r allows."""
    (claim,) = LINEAR.claims
    assert checked(claim, LINEAR.problem).agrees
    r = np.linspace(0, 1.1, 23)
    s = hw.pseudo_reward(LINEAR.problem, target="arm 2", observed="arm 1", reward=r)
    np.testing.assert_allclose(s, 0.99 * np.minimum(1, 10 * r) + 0.1 * r, atol=1e-9)
    wrong = dataclasses.replace(claim, value=("arm 2", "arm 1", [(1, 0.1), (0.1, 0.9)]))
    assert not checked(wrong, LINEAR.problem).agrees


def test_pure_exploitation(runs: dict[str, hw.Simulation]) -> None:
    run = runs["example-1"]
    assert checked(Claim("", "exploits"), run.problem, run).agrees
    # with a gap of 1e-3 it has not settled after 2,000 rounds
    law = [0.2001, 0.2, 0.2, 0.2, 0.1999]
    close = hw.Problem(latent=INVERTIBLE.problem.latent, arms=dict(INVERTIBLE.problem.arms), distribution=law)
    short = hw.simulate(close, policies=["ucb1", "c-ucb"], horizon=2000, replications=20, seed=1)
    assert not checked(Claim("", "exploits"), close, short).agrees


def test_exploitation_pulls_what_would_have_paid_most() -> None:
    """By the same draws, round by round."""
    problem = INVERTIBLE.problem
    law = np.array([0.1, 0.2, 0.25, 0.25, 0.2])
    x = np.random.default_rng(5).choice(5, size=40, p=law)
    g = problem.rewards
    gap = (g @ law).max() - g @ law
    total, regret = np.zeros(3), 0.0
    for t, value in enumerate(x):
        regret += gap[int(np.argmax(total))] if t else gap[0]
        total += g[:, value]
    assert exploitation(problem, 40, 1, seed=5)[0, -1] == pytest.approx(regret)
