"""Replications of a policy that learns the law of X, with what each knew at the end: its counts, and whom it doubts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headwater import streams
from headwater.arrays import Ints
from headwater.policies.learner import learner_for
from headwater.policies.rules import Spec
from headwater.simulation.engine import Model, setting_of
from headwater.simulation.learners import play_learners
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
    out = Minds(
        np.zeros((replications, count), dtype=np.int64),
        np.zeros((replications, *model.table.shape[:2]), dtype=np.int64),
        np.zeros((replications, count), dtype=np.int64),
    )
    rounds, key = np.array([horizon]), streams.seed_words(seed)
    draws = (model.table, model.level, model.cuts, model.thresholds, model.guide)

    def run(start: int, stop: int, watch: Ints, slot: int) -> None:
        meta, params = setting_of(model, spec, key)
        learner = learner_for(spec, model.evidence, model.bins)  # type: ignore[arg-type]
        mine = np.zeros(2, dtype=np.int64)
        for i in range(start, stop):
            mine[0] = watch[0]
            paid, excluded = np.zeros((1, 1), dtype=np.int64), np.zeros((1, count), dtype=np.int64)
            pulls = out.pulls[i : i + 1, None]
            play_learners(i, meta, params, *draws, learner, rounds, mine, 1, pulls, paid, excluded)
            for k in range(count):
                mass = learner.mind.n[offset[k] : offset[k + 1]]
                out.seen[i, k, : len(mass)] = np.rint(mass)
            out.doubted[i] = learner.mind.doubted
            watch[slot] = (i + 1 - start) * horizon

    in_threads(run, replications, 8, threads, progress)
    return out
