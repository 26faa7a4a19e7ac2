"""How long one live decision of joint-ucb takes, with the update before it: few arms, and many on a large support. And how long
a simulated round takes, of all policies that learn the law of X; and one live round with rewards in numpy's types.

Rewards are drawn from a random law of X. A short run comes first, which warms up. Processor time, which other work on the
machine changes less than the clock. And how many arms were solved anew for a decision: the bounds of the others sufficed.
"""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np

import headwater as hw
from headwater.arrays import Bools, Floats

CUTS = (0, 10, 100, 400, 1000)


def random_problem(arms: int, points: int, *, noisy: bool) -> tuple[hw.Problem, Floats]:
    """Rewards of five levels, or three random outcomes with a law for each point; and a law of X."""
    rng = np.random.default_rng(0)
    rewards: dict[str, Any] = {}
    for k in range(arms):
        if noisy:
            rewards[f"arm {k}"] = {"outcomes": [0, 0.5, 1], "probabilities": rng.dirichlet(np.ones(3), points).tolist()}
        else:
            rewards[f"arm {k}"] = (rng.integers(0, 5, points) / 4).tolist()
    latent = hw.Discrete([f"x{j}" for j in range(points)])
    return hw.Problem(latent=latent, arms=rewards), rng.dirichlet(np.ones(points))


def play(arms: int, points: int, rounds: int, *, noisy: bool) -> tuple[Floats, Floats, Bools]:
    """Milliseconds of each round, arms solved anew for its decision, and whether its reward was that arm's first of the kind;
    each (rounds,).
    """
    problem, law = random_problem(arms, points, noisy=noisy)
    policy, rng = hw.make_policy("joint-ucb", problem), np.random.default_rng(1)
    x, u, out = rng.choice(points, rounds, p=law), rng.random(rounds), np.zeros(rounds)
    solved, first, seen = np.zeros(rounds), np.zeros(rounds, dtype=bool), set[tuple[str, float]]()
    for t in range(rounds):
        start = time.thread_time()
        name = policy.select()
        out[t] = time.thread_time() - start
        solved[t] = np.sum(policy._native.tries() > 1)  # 1: its prices were raised
        arm: Any = problem.arms[name]
        if noisy:
            m = int(np.searchsorted(np.cumsum(arm.probabilities[x[t]]), u[t]))
            reward = float(arm.outcomes[min(m, 2)])
        else:
            reward = float(arm.rewards[x[t]])
        start = time.thread_time()
        policy.update(name, reward)
        out[t] += time.thread_time() - start
        first[t] = (name, reward) not in seen
        seen.add((name, reward))
    return 1e3 * out, solved, first


def simulated(problem: hw.Problem, law: Floats, policy: str) -> float:
    """Microseconds a round on one thread, over 8 runs of 50,000 rounds; a short run comes first, which warms up."""
    for runs, horizon in ((1, 10), (8, 50_000)):
        start = time.process_time()
        hw.simulate(problem, law, policies=[policy], horizon=horizon, replications=runs, seed=1, threads=1)
        spent = time.process_time() - start
    return 1e6 * spent / (8 * 50_000)


def rounds() -> None:
    policies = ("c-ucb", "joint-ucb", "latent-ts", "graves-lai")
    print("microseconds a simulated round, 50,000 rounds\n" + " " * 26 + "".join(f"{name:>13}" for name in policies))
    for arms, points, noisy in ((3, 5, False), (3, 5, True), (20, 50, False), (20, 50, True)):
        problem, law = random_problem(arms, points, noisy=noisy)
        # graves-lai's programme takes milliseconds with many arms
        cells = ["–" if name == "graves-lai" and arms > 3 else f"{simulated(problem, law, name):.3g}" for name in policies]
        text = "".join(f"{cell:>13}" for cell in cells)
        print(f"K = {arms}, J = {points:,}{', random' if noisy else '':<8}".ljust(26) + text, flush=True)


def types() -> None:
    """One select and one update with two arms, by the type of the reward: the best mean of five runs of 5,000."""
    problem = hw.Problem(latent=hw.Discrete(["a", "b", "c"]), arms={"one": [1, 2, 2], "other": [2, 0, 2]})
    kinds: tuple[Any, ...] = (float, np.float64, np.float32, np.int64)
    print("microseconds a live round, by the type of the reward\n" + " " * 26 + "".join(f"{k.__name__:>13}" for k in kinds))
    for name in ("ucb1", "c-ucb", "joint-ucb"):
        cells = []
        for kind in kinds:
            policy, reward, best = hw.make_policy(name, problem), kind(2), math.inf
            for _ in range(5):
                start = time.thread_time()
                for _ in range(5000):
                    policy.update(policy.select(), reward)
                best = min(best, time.thread_time() - start)
            cells.append(f"{1e6 * best / 5000:>13.3g}")
        print(name.ljust(26) + "".join(cells), flush=True)


def main() -> None:
    head = "".join(f"{f'rounds {a + 1} to {b}':>24}" for a, b in itertools.pairwise(CUTS))
    print(f"milliseconds a decision: mean, 95th percentile\n{'':<26}{head}")
    for arms, points, noisy in ((3, 5, False), (3, 5, True), (100, 1000, False), (100, 1000, True)):
        play(arms, points, 5, noisy=noisy)
        spent, solved, first = play(arms, points, CUTS[-1], noisy=noisy)
        parts = [spent[a:b] for a, b in itertools.pairwise(CUTS)]
        text = "".join(f"{part.mean():>15.3g}, {np.quantile(part, 0.95):>7.3g}" for part in parts)
        print(f"K = {arms}, J = {points:,}{', random' if noisy else '':<8}".ljust(26) + text, flush=True)
        if arms > 3:
            after, usual = solved[101:][first[100:-1]].mean(), solved[101:][~first[100:-1]].mean()
            told = f"after round 100, {after:.0f} where an arm had just paid what it never paid before, else {usual:.0f}"
            print(f"{'':<26}arms solved anew: {told}", flush=True)
    print()
    rounds()
    print()
    types()


if __name__ == "__main__":
    main()
