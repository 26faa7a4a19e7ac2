"""Policies and their problems through pickle, as processes hand them on: what was learned, and all that follows."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import headwater as hw
from channel_strategies import random_problem
from headwater.errors import ProblemError
from headwater.policies import Policy
from headwater.policies.rules import NAMES

PROBLEMS = {
    "sure": random_problem(3, 4, 6, noisy=0),
    "random": random_problem(4, 4, 5, noisy=1),
    "continuous": hw.Problem(latent=hw.Continuous([0, 1]), arms={"up": "x", "down": "1 - x**2"}),
}


def reward(policy: Policy, arm: str, rng: np.random.Generator) -> float:
    """Something that the arm can pay."""
    k = policy.problem.index(arm)
    levels = [0.25, 0.5] if policy.table is None else policy.table.levels[k]
    return float(rng.choice(levels))


def play(policy: Policy, rounds: int, seed: int) -> list[str]:
    rng, chosen = np.random.default_rng(seed), []
    for _ in range(rounds):
        chosen.append(policy.select())
        policy.update(chosen[-1], reward(policy, chosen[-1], rng))
    return chosen


@pytest.mark.filterwarnings("ignore::headwater.ModelWarning")
@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("name", NAMES)
def test_a_policy_that_was_pickled_or_copied_goes_on(name: str, kind: str) -> None:
    try:
        policy = hw.make_policy(name, PROBLEMS[kind], seed=5)
    except ProblemError:
        return  # where X is continuous, some do not exist
    play(policy, 60, seed=1)
    policy.select()
    others: list[Any] = [pickle.loads(pickle.dumps(policy)), copy.deepcopy(policy)]
    for other in others:
        assert other.state() == policy.state() and other.explain() == policy.explain()
        assert other.problem == policy.problem and other.waiting == 1
    assert [play(other, 40, seed=2) for other in others] == 2 * [play(policy, 40, seed=2)]


def test_an_own_policy_keeps_its_class() -> None:
    class Mine(Policy):
        def select(self, among: Any = None) -> str:
            return self.names[0]

    mine: Any = Mine(hw.policies.make_spec("ucb1"), PROBLEMS["sure"])
    mine.colour = "red"
    mine.update(mine.select(), reward(mine, mine.names[0], np.random.default_rng(0)))
    other = copy.deepcopy(mine)
    assert other.colour == "red" and other.pulls == mine.pulls and type(other) is Mine


def test_memory_grows_with_the_problem() -> None:
    small, large = (hw.make_policy("joint-ucb", random_problem(1, 5, points)) for points in (5, 200))
    assert 0 < small.memory < large.memory and large.memory > 8 * 200 * 200
