"""UCB1 in other people's libraries, beside ours, in one run: thousands of rounds a second.

Libraries that are not installed are skipped, and said so. To measure them: pip install river pymab SMPyBandits
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

import numpy as np

import headwater as hw
from headwater.paper import CASES

ROUNDS = 20_000
PROBLEM = next(case.problem for case in CASES if case.id == "discrete-3")
REWARDS = PROBLEM.rewards
DRAWS = np.random.default_rng(3).choice(5, ROUNDS, p=[0.05, 0.3, 0.3, 0.05, 0.3]).tolist()


def live() -> float:
    """Our live policy, one select and one update a round."""
    policy, number = hw.make_policy("ucb1", PROBLEM), {name: k for k, name in enumerate(PROBLEM.names)}
    policy.update(policy.select(), 0)
    table = REWARDS.tolist()
    start = time.perf_counter()
    for x in DRAWS:
        arm = policy.select()
        policy.update(arm, table[number[arm]][x])
    return ROUNDS / (time.perf_counter() - start)


def engine() -> float:
    """Our simulator, on every core."""
    options = {"policies": ["ucb1"], "horizon": ROUNDS, "seed": 1}
    hw.simulate(PROBLEM, replications=2, **options)  # type: ignore[arg-type]
    run = hw.simulate(PROBLEM, replications=500, **options)  # type: ignore[arg-type]
    return 500 * ROUNDS / run.seconds


def river() -> float:
    """river.bandit.UCB: pull and update."""
    bandit = importlib.import_module("river.bandit")
    policy = bandit.UCB(delta=1, reward_scaler=None)
    arms, table = [0, 1, 2], REWARDS.tolist()
    start = time.perf_counter()
    for x in DRAWS:
        arm = policy.pull(arms)
        policy.update(arm, table[arm][x])
    return ROUNDS / (time.perf_counter() - start)


def pymab() -> float:
    """pymab's UCBPolicy: select_action and update."""
    policy = importlib.import_module("pymab.policies.ucb").UCBPolicy(n_arms=3, reward_scale=4.0)
    rng, table = np.random.default_rng(1), REWARDS.tolist()
    start = time.perf_counter()
    for x in DRAWS:
        arm = policy.select_action(rng=rng)
        policy.update(action=arm, reward=table[arm][x])
    return ROUNDS / (time.perf_counter() - start)


def smpybandits() -> float:
    """SMPyBandits' UCB: choice and getReward."""
    policy = importlib.import_module("SMPyBandits.Policies").UCB(3)
    policy.startGame()
    table = (REWARDS / 4).tolist()
    start = time.perf_counter()
    for x in DRAWS:
        arm = policy.choice()
        policy.getReward(arm, table[arm][x])
    return ROUNDS / (time.perf_counter() - start)


def main() -> None:
    rates: dict[str, float] = {}
    peers: dict[str, Callable[[], float]] = {"river": river, "pymab": pymab, "SMPyBandits": smpybandits}
    for name, measure in {"headwater, live": live, "headwater, simulator": engine, **peers}.items():
        try:
            rates[name] = max(measure() for _ in range(3))
        except ImportError as error:
            print(f"{name}: skipped, {error}")
    ours = rates["headwater, live"]
    for name, rate in rates.items():
        print(f"{name:<24}{rate / 1e3:>12,.0f} thousand rounds a second, {rate / ours:.3g} × our live policy")


if __name__ == "__main__":
    main()
