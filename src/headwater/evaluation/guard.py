"""How wrong may a model be before the guard should speak, and does it?

The model is made wrong by degrees: a share of what it says of the arm that is truly best is turned round, so that its good
rewards look rare and its bad ones common. The people stay as they are. At each degree policies that believe the wrong model are
replayed: as they come, and trusting: without guard, audit and tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from headwater.complaints import is_number, normalised, shown
from headwater.errors import ProblemError
from headwater.evaluation.people import People, Population
from headwater.evaluation.replay import replay_model
from headwater.policies.auto import spec_for
from headwater.policies.rules import Spec, make_spec
from headwater.problem import Problem, Random
from headwater.simulation.engine import simulate_counts
from headwater.simulation.minds import simulate_minds

__all__ = ["DEGREES", "Degree", "guard_curve", "turned_round"]

DEGREES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)


class Degree(NamedTuple):
    """One degree of wrongness: what it would cost to believe the model for ever (``harm`` a round), in what share of runs the
    guard spoke (of any arm, and of the arm in question), and mean regret at the horizon with its standard error."""

    degree: float
    harm: float
    spoke: float
    spoke_rightly: float
    regret: float
    regret_se: float
    trusting: float
    trusting_se: float
    ucb1: float

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


def turned_round(problem: Problem, k: int, degree: float) -> Problem:
    """The problem with a share ``degree`` of arm k's law turned round, level by level: the likeliest becomes the least likely.

    >>> import headwater as hw
    >>> coin = {"outcomes": [0, 1], "probabilities": [[0.9, 0.1], [0.2, 0.8]]}
    >>> ads = hw.Problem(latent=hw.Discrete(["young", "old"]), arms={"banner": coin, "video": [0.2, 0.4]})
    >>> turned_round(ads, 0, 0.5).rewards[0].tolist()
    [0.5, 0.5]
    """
    if not is_number(degree) or not 0 <= degree <= 1:
        raise ProblemError(f"degree: got {shown(degree)}; expected a number from 0 to 1")
    name, arm = problem.names[k], list(problem.arms.values())[k]
    if not isinstance(arm, Random) or len(arm.outcomes) < 2:
        raise ProblemError(f"guard: {name}'s reward is not random; expected an arm with outcomes and probabilities")
    order, p = np.argsort(arm.outcomes), arm.probabilities
    wrong = (1 - degree) * p
    wrong[:, order] += degree * p[:, order[::-1]]
    wrong = np.stack([normalised(row) for row in wrong])
    # whoever had learned it so would have stated as wide an interval around it
    high = None if arm.mean_high is None else np.minimum(arm.mean_high + (wrong - p) @ arm.outcomes, arm.outcomes.max())
    arms = {**problem.arms, name: replace(arm, probabilities=wrong, mean_high=high, written=None)}
    law = problem.distribution
    return Problem(latent=problem.latent, arms=arms, distribution=law, name=problem.name, reward_range=problem.reward_range)


def guard_curve(
    people: People,
    population: Population,
    *,
    policy: str | Spec = "auto",
    degrees: Sequence[float] = DEGREES,
    horizon: int = 5000,
    runs: int = 20,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Degree]:
    """Replay a policy that believes ever more wrong models of the truly best arm."""
    spec = spec_for(policy, people.problem)
    if not spec.learns:
        raise ProblemError(f"policy: got {spec.title}; expected one that learns the law of X, such as joint-ucb")
    means = people.rewards @ population.weights
    best, gap = int(np.argmax(means)), means.max() - means
    doubts = {"guard": 0.0, "audit": 0.0} | ({"tolerance": 0.0} if hasattr(spec.rule, "tolerance") else {})
    trusting = make_spec(spec.name, **doubts)
    rounds = np.array([horizon])

    def regret(model: Any, chosen: Spec) -> tuple[float, float]:
        found = simulate_counts(model, chosen, checkpoints=rounds, replications=runs, seed=seed, threads=threads)
        values = found.pulls[:, -1] @ gap
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(runs)) if runs > 1 else 0.0

    out: list[Degree] = []
    for degree in degrees:
        believed = turned_round(people.problem, best, degree)
        model = replay_model(people, population, believed=believed)
        minds = simulate_minds(model, spec, horizon=horizon, replications=runs, seed=seed, threads=threads)
        mine = minds.pulls @ gap
        error = float(mine.std(ddof=1) / np.sqrt(runs)) if runs > 1 else 0.0
        said = minds.doubted.astype(bool)
        out.append(
            Degree(
                float(degree),
                float(gap[int(np.argmax(believed.rewards @ population.mix))]),
                float(said.any(axis=1).mean()),
                float(said[:, best].mean()),
                float(mine.mean()),
                error,
                *regret(model, trusting),
                regret(model, make_spec("ucb1"))[0],
            )
        )
        if progress is not None:
            progress(len(out), len(degrees))
    return out
