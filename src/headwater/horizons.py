"""The paper's discrete cases over ten thousand million rounds: whether regret is flat, and how fast it grows where it is not.

A curve of C log t is a straight line on a log axis of rounds, and a bounded one is flat; at the horizons that can be stepped
through, one cannot tell them apart. The leap engine can be asked for horizons that can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headwater.paper import CASES, SEED, Case
from headwater.regret_bounds import Bounds, bounds
from headwater.simulation import Simulation, simulate

HORIZON = 10**10
FIRST = 100
"""The first round that is shown: before it, all policies still try every arm."""
PER_DECADE = 6
RUNS = {
    "discrete-1": {"ucb1": 50, "c-ucb": 200},
    "discrete-2": {"ucb1": 50, "c-ucb": 200},
    "discrete-3": {"ucb1": 50, "c-ucb": 50},
}
"""Fewer where a run takes longer: the time goes into pulls of other arms, one by one."""
LONG = tuple(case for case in CASES if case.id in RUNS)


class Growth(NamedTuple):
    """What regret adds from round ``since`` on, each time the rounds grow by a factor e; with its standard error."""

    since: int
    slope: float
    standard_error: float


@dataclass(frozen=True)
class LongRun:
    """A case over a horizon that cannot be stepped through."""

    case: Case
    simulation: Simulation
    bounds: Bounds

    def growth(self, policy: str, decades: float = 4.0) -> Growth:
        """Over the last ``decades``: in the long run, no good policy's is below ``bounds.graves_lai``."""
        run = self.simulation
        start = min(int(np.searchsorted(run.rounds, run.horizon / 10**decades)), len(run.rounds) - 2)
        regret, since = run.regret(policy), int(run.rounds[start])
        added = (regret[:, -1] - regret[:, start]) / math.log(run.horizon / since)
        return Growth(since, float(added.mean()), float(added.std(ddof=1)) / math.sqrt(len(added)))

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.case.title,
            "graves_lai": self.bounds.graves_lai,
            "simulation": self.simulation.to_dict(),
            "growth": {policy: self.growth(policy)._asdict() for policy in self.simulation.outcomes},
        }


def long_runs(
    cases: Sequence[Case] = LONG, *, scale: float = 1.0, progress: Callable[[str, float], None] | None = None
) -> list[LongRun]:
    """UCB1 and C-UCB on each case, over ``HORIZON`` rounds times ``scale``."""
    horizon = max(int(HORIZON * scale), 10 * FIRST)
    count = round(PER_DECADE * math.log10(horizon / FIRST)) + 1
    checkpoints = np.rint(np.geomspace(FIRST, horizon, count)).astype(np.int64)
    out = []
    for n, case in enumerate(cases):
        runs = []
        for stage, (policy, replications) in enumerate(RUNS[case.id].items()):

            def report(done: int, total: int, before: float = n + stage / 2, title: str = case.title) -> None:
                if progress is not None:
                    progress(f"{title}, {horizon:,} rounds", (before + done / total / 2) / len(cases))

            how: dict[str, Any] = {"horizon": horizon, "replications": replications, "seed": SEED, "checkpoints": checkpoints}
            runs.append(simulate(case.problem, policies=[policy], engine="leap", progress=report, **how))
        out.append(LongRun(case, runs[0].with_more(runs[1]), bounds(case.problem)))
    return out
