"""Which engine simulates a run, and why: every round (``step``), stretches of rounds (``leap``), or a GPU (``cuda``).

``step`` draws the same x_t for every policy. ``cuda`` draws them, too. ``leap`` draws from the same law, but not the same
numbers, so policies are compared as independent runs: it is for horizons that cannot be stepped through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from headwater import native
from headwater.arrays import Floats, Ints
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.policies.rules import Spec
from headwater.simulation.engine import Counts, Model, expected_rewards, oracle_rewards, simulate_counts, simulate_leaps

__all__ = ["ENGINES", "Choice", "Which", "best_rewards", "choose_engine", "leap_reason", "run_engine"]

ENGINES = ("auto", "step", "leap", "cuda")
LONG = 10_000_000
"""Rounds from which on ``auto`` leaps: below, stepping is quick, and policies that see the same x_t compare more sharply."""
LEVELS = 64
"""Rewards an arm up to which ``auto`` leaps: a stretch costs as many binomial numbers."""


class Choice(NamedTuple):
    engine: str
    reason: str


class Which(TypedDict):
    """Which replications an engine runs."""

    checkpoints: Ints
    replications: int
    seed: int
    first: int


def leap_reason(model: Model, spec: Spec) -> str | None:
    """Why a policy on a problem cannot leap, in one sentence; None if it can."""
    if spec.rule.code not in native.LASTING:
        return f"policy: got {spec.title}; expected ucb1, kl-ucb, c-ucb or c-kl-ucb, which decide by counts alone"
    if model.columns is not None:
        return f"arms: got {len(model.level):,} with so many rewards; expected few enough for a table of all pairs"
    if spec.reference == "well-pulled" or spec.audit:
        return f"policy: got {spec.title}; expected the most-pulled reference and no audit"
    if model.random is not None and spec.reference != "none":
        return f"policy: got {spec.title} with random rewards; expected ucb1 or kl-ucb, or rewards that X decides"
    return None


def choose_engine(wanted: str, model: Model, specs: Sequence[Spec], horizon: int) -> Choice:
    """The engine to use; refuses one that cannot do what is asked of it."""
    if wanted not in ENGINES:
        raise ProblemError(f"engine: got {shown(wanted)}; expected one of {', '.join(ENGINES)}")
    if wanted == "step":
        return Choice(wanted, "as asked for")
    if wanted == "cuda":
        from headwater.simulation.cuda import cuda_reason, missing_gpu

        for spec in specs:
            if (reason := cuda_reason(model, spec)) is not None:
                raise ProblemError(f"engine: cuda cannot do this: {reason}")
        if (reason := missing_gpu()) is not None:
            raise ProblemError(reason)
        return Choice(wanted, "as asked for")
    obstacles = [reason for spec in specs if (reason := leap_reason(model, spec)) is not None]
    if wanted == "leap":
        if obstacles:
            raise ProblemError(f"engine: leap cannot do this: {obstacles[0]}")
        return Choice(wanted, "as asked for")
    if horizon < LONG:
        return Choice("step", f"fewer than {LONG:,} rounds, and every policy sees the same x_t")
    if obstacles:
        return Choice("step", f"leaping is not possible ({obstacles[0]})")
    if model.table.shape[1] > LEVELS:
        return Choice("step", f"an arm has more than {LEVELS} different rewards")
    return Choice("leap", f"{horizon:,} rounds, and every policy decides by counts alone")


def run_engine(
    engine: str,
    model: Model,
    spec: Spec,
    which: Which,
    *,
    threads: int | None,
    progress: Callable[[int], None] | None,
) -> Counts:
    """What replications of a policy did."""
    if engine == "cuda":
        from headwater.simulation.cuda import simulate_counts_cuda

        return simulate_counts_cuda(model, spec, **which, progress=progress)
    run = simulate_leaps if engine == "leap" else simulate_counts
    return run(model, spec, **which, threads=threads, progress=progress)


def best_rewards(engine: str, model: Model, arm: int, which: Which, *, threads: int | None) -> Floats:
    """What always pulling ``arm`` would have paid, shape (N, C): along the same x_t when every round is stepped through on the
    CPU; else its mean, because following x_t would take longer than all the rest."""
    if engine == "step":
        return oracle_rewards(model, arm, **which, threads=threads)
    return np.tile(expected_rewards(model, arm) * which["checkpoints"], (which["replications"], 1))
