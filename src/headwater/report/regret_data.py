"""What the picture of a simulation shows: regret over rounds with bands, and pulls per arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.arrays import Floats
from headwater.report.style import policy_colour
from headwater.simulation import Simulation


@dataclass(frozen=True)
class Curve:
    """One policy: mean regret at ``rounds``, its 95 % interval, the 5 % to 95 % range of runs, and mean pulls per arm."""

    policy: str
    colour: str
    mean: Floats
    interval_low: Floats
    interval_high: Floats
    run_low: Floats
    run_high: Floats
    pulls: Floats


@dataclass(frozen=True)
class RegretFigure:
    """Several policies on one problem."""

    title: str
    rounds: Floats
    arms: tuple[str, ...]
    best: tuple[bool, ...]
    replications: int
    curves: tuple[Curve, ...]


def regret_figure(simulation: Simulation, title: str = "") -> RegretFigure:
    """Compute curves and bands."""
    curves = []
    for policy, outcome in simulation.outcomes.items():
        regret = simulation.regret(policy)
        mean = regret.mean(axis=0)
        error = regret.std(axis=0, ddof=1) / np.sqrt(len(regret)) if len(regret) > 1 else np.zeros_like(mean)
        low, high = np.quantile(regret, [0.05, 0.95], axis=0)
        pulls = outcome.pulls[:, -1].mean(axis=0)
        curves.append(Curve(policy, policy_colour(policy), mean, mean - 1.96 * error, mean + 1.96 * error, low, high, pulls))
    return RegretFigure(
        title or simulation.problem.name,
        simulation.rounds.astype(float),
        simulation.problem.names,
        tuple(bool(gap == 0) for gap in simulation.gaps),
        simulation.replications,
        tuple(curves),
    )
