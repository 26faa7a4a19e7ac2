"""Replications of one policy with very many arms: as the stepwise engine, with rows of sums only for arms that ever led."""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies import contenders, kernel, leaders
from headwater.policies.compile import allocating
from headwater.policies.contenders import Crowd
from headwater.policies.leaders import Leaders, Seen
from headwater.policies.table import Columns
from headwater.simulation.draws import draw_rounds

__all__ = ["play_many"]

_CHUNK = 256  # rounds drawn ahead, so that the generator vectorises over them


@allocating
def play_many(
    first: int,
    meta: Ints,
    params: Floats,
    columns: Columns,
    crowd: Crowd,
    room: Leaders,
    seen: Seen,
    thresholds: Ints,
    guide: Ints,
    checkpoints: Ints,
    watch: Ints,
    slot: int,
    pulls: Ints,
    reward: Ints,
) -> None:
    """Replications first, first + 1, ...: select, draw, observe; fills pulls (N, C, K) and reward (N, C)."""
    arms, filtered = pulls.shape[2], meta[kernel.REFERENCE] != kernel.NO_FILTER
    counts = np.zeros((kernel.COUNTS, arms), dtype=np.int64)
    none = np.zeros((0, 0), dtype=np.int64)
    mean, root, index = np.zeros(arms), np.zeros(arms), np.zeros(arms)
    u, v = np.empty(_CHUNK // 2, dtype=np.int64), np.empty(_CHUNK // 2, dtype=np.int64)
    atoms = np.empty(_CHUNK, dtype=np.int64)
    for i in range(pulls.shape[0]):
        meta[kernel.REPLICATION] = first + i
        kernel.reset(meta, counts, none, mean, root)
        leaders.forget(room, seen)
        contenders.scatter(crowd)
        c = 0
        for t in range(checkpoints[-1]):
            if t % _CHUNK == 0:
                if watch[0]:
                    return
                watch[slot] = i * checkpoints[-1] + t
                draw_rounds(t, first + i, meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH], thresholds, guide, u, v, atoms)
                if filtered:
                    seen = leaders.roomy(seen, _CHUNK)
            if filtered and room.slot[meta[kernel.REFERENCE_ARM]] < 0:
                leaders.lead(meta[kernel.REFERENCE_ARM], room, columns, seen)
            arm = contenders.choose(True, meta, params, counts, mean, root, index, crowd, room, columns)
            contenders.observe(arm, atoms[t % _CHUNK], meta, params, counts, mean, root, crowd, room, columns, seen)
            if t + 1 == checkpoints[c]:
                for k in range(arms):
                    pulls[i, c, k] = counts[kernel.PULLS, k]
                    reward[i, c] += counts[kernel.TOTAL, k]
                c += 1
