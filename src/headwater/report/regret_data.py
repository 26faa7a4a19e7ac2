"""What the picture of a simulation shows: regret over rounds with bands, pulls per arm, and the least regret possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.arrays import Floats
from headwater.regret_bounds import Bounds
from headwater.report.style import Look, look, short
from headwater.simulation import Simulation


@dataclass(frozen=True)
class Curve:
    """One policy: mean regret at ``rounds``, its 95 % interval, the 5 % to 95 % range of runs, and mean pulls per arm."""

    policy: str
    look: Look
    replications: int
    mean: Floats
    interval_low: Floats
    interval_high: Floats
    run_low: Floats
    run_high: Floats
    pulls: Floats


@dataclass(frozen=True)
class Bound:
    """The Graves-Lai bound as a line: ``constant`` · log t, which would be 0 at t = 1. Only its slope means anything.

    It says nothing of early rounds: ``line`` is NaN until the pulls it asks for, also in proportion to log t, fit in half of
    the rounds. ``constant`` 0 says that bounded regret is possible; there is then nothing to draw.
    """

    constant: float
    line: Floats

    @property
    def drawn(self) -> bool:
        return self.constant > 0 and bool(np.isfinite(self.line[-1]))

    @property
    def label(self) -> str:
        if self.constant == 0:
            return "bound: constant regret possible"
        return f"Graves–Lai bound, slope {short(self.constant)} log t"

    @property
    def note(self) -> str:
        """The label for where there is room, with what the line does not show."""
        if self.constant == 0:
            return self.label
        return self.label + (" (0 at round 1; only its slope counts)" if self.drawn else ": shows only in longer runs")


def _bound(found: Bounds, rounds: Floats) -> Bound:
    log = np.log(rounds)
    fits = sum(found.exploration.values()) * log <= rounds / 2
    fits &= rounds > rounds[0]
    fits &= ~(np.cumsum(~fits[::-1])[::-1] > 0)  # from the last misfit on: log t is small at first, too
    return Bound(found.graves_lai, np.where(fits, found.graves_lai * log, np.nan))


@dataclass(frozen=True)
class RegretFigure:
    """Several policies on one problem, in the order of their families."""

    title: str
    rounds: Floats
    arms: tuple[str, ...]
    best: tuple[bool, ...]
    replications: int
    curves: tuple[Curve, ...]
    bound: Bound | None = None

    @property
    def runs(self) -> str:
        """How many runs, in words: one number, or from which to which."""
        counts = {curve.replications for curve in self.curves}
        return f"{min(counts):,} to {max(counts):,} runs" if len(counts) > 1 else f"{self.replications:,} runs"


def regret_figure(simulation: Simulation, title: str = "", *, limits: Bounds | None = None) -> RegretFigure:
    """Compute curves and bands, and the line of the bound where ``limits`` has it."""
    curves = []
    for policy, outcome in simulation.outcomes.items():
        regret = simulation.regret(policy)
        mean = regret.mean(axis=0)
        error = regret.std(axis=0, ddof=1) / np.sqrt(len(regret)) if len(regret) > 1 else np.zeros_like(mean)
        low, high = np.quantile(regret, [0.05, 0.95], axis=0)
        pulls = outcome.pulls[:, -1].mean(axis=0)
        band = (mean - 1.96 * error, mean + 1.96 * error, low, high)
        curves.append(Curve(policy, look(policy), len(regret), mean, *band, pulls))
    rounds = simulation.rounds.astype(float)
    return RegretFigure(
        title or simulation.problem.name,
        rounds,
        simulation.problem.names,
        tuple(bool(gap == 0) for gap in simulation.gaps),
        simulation.replications,
        tuple(sorted(curves, key=lambda curve: curve.look.family)),
        None if limits is None else _bound(limits, rounds),
    )


def spread_labels(values: Floats, least: float) -> Floats:
    """Places for labels at ``values``, moved as little as need be until neighbours are ``least`` apart, none below 0.

    >>> spread_labels(np.array([0.0, 0.1, 5.0]), 1.0)
    array([0., 1., 5.])
    """
    order = np.argsort(values, kind="stable")
    # with i * least taken off, "at least that far apart" is "not decreasing": the nearest such numbers pool neighbours
    pools: list[tuple[float, int]] = []
    for i, value in enumerate(values[order]):
        pools.append((float(value) - i * least, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (a, m), (b, n) = pools[-2:]
            pools[-2:] = [((a * m + b * n) / (m + n), m + n)]
    flat = np.concatenate([np.full(n, max(v, 0.0)) for v, n in pools]) if pools else np.zeros(0)
    out = np.empty(len(values))
    out[order] = flat + least * np.arange(len(values))
    return out
