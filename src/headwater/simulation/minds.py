"""Replications of a policy that learns the law of X, with what each knew at the end: its counts, and whom it doubts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headwater import native
from headwater.arrays import Ints
from headwater.policies.core import settings_of
from headwater.policies.rules import Spec
from headwater.simulation.engine import Model, core_of, source_of
from headwater.simulation.threads import in_threads

__all__ = ["Minds", "simulate_minds"]


class Minds(NamedTuple):
    """What N replications knew at the horizon: ``pulls`` (N, K), ``seen`` (N, K, M) by level, ``doubted`` (N, K) as 0 or 1."""

    pulls: Ints
    seen: Ints
    doubted: Ints


def simulate_minds(
    model: Model,
    spec: Spec,
    *,
    horizon: int,
    replications: int,
    seed: int,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Minds:
    """As ``simulate_counts``, the same draws and decisions, for policies that learn the law of X on a listed support."""
    assert spec.learns and model.evidence is not None
    count, offset = len(model.level), model.evidence.channels.offset
    rows, reward = np.zeros((replications, int(offset[-1])), dtype=np.int64), np.zeros((replications, 1), dtype=np.int64)
    pulls, doubted = np.zeros((replications, 1, count), dtype=np.int64), np.zeros((replications, count), dtype=np.int64)
    out, excluded = (pulls, reward), np.zeros_like(doubted)
    problem, settings, rounds = core_of(model, spec), settings_of(spec, scale=model.scale, seed=seed), np.array([horizon])

    def run(start: int, stop: int, watch: Ints, slot: int) -> None:
        seat = native.Seat(settings, *(x[start:stop] for x in (*out, excluded, rows, doubted)))
        native.play(problem, source_of(model, seed), rounds, [seat], start, watch, slot, "general")

    in_threads(run, replications, 8, threads, progress)
    seen = np.zeros((replications, *model.table.shape[:2]), dtype=np.int64)
    for k in range(count):
        seen[:, k, : offset[k + 1] - offset[k]] = rows[:, offset[k] : offset[k + 1]]
    return Minds(pulls[:, 0], seen, doubted)
