"""Replications of a policy that learns the law of X: select, draw, count, one replication after the other."""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies import decisions, kernel
from headwater.policies.compile import allocating
from headwater.policies.learner import Learner, forget
from headwater.simulation.draws import draw_rewards, draw_rounds, level_of

_CHUNK = 256  # rounds drawn ahead, so that the generator vectorises over them


@allocating
def play_learners(
    first: int,
    meta: Ints,
    params: Floats,
    table: Ints,
    level: Ints,
    cuts: Ints,
    thresholds: Ints,
    guide: Ints,
    learner: Learner,
    checkpoints: Ints,
    watch: Ints,
    slot: int,
    pulls: Ints,
    reward: Ints,
    excluded: Ints,
) -> None:
    """Replications first, first + 1, ...; fills pulls, reward and excluded. ``cuts`` decide random rewards, else ``level``."""
    arms, rounds = table.shape[0], checkpoints[-1]
    k0, k1 = meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH]
    counts = np.zeros((kernel.COUNTS, arms), dtype=np.int64)
    seen = np.zeros((arms, int(learner.bins.max()) + 1), dtype=np.int64)
    mean, root, index = np.zeros(arms), np.zeros(arms), np.zeros(arms)
    u, v = np.empty(_CHUNK // 2, dtype=np.int64), np.empty(_CHUNK // 2, dtype=np.int64)
    atoms, coin = np.empty(_CHUNK, dtype=np.int64), np.empty(_CHUNK, dtype=np.int64)
    for i in range(pulls.shape[0]):
        meta[kernel.REPLICATION] = first + i
        meta[kernel.ROUND] = 0
        counts[:] = 0
        seen[:] = 0
        mean[:] = np.inf
        root[:] = 0.0
        forget(learner)
        c = 0
        for t in range(rounds):
            at = t % _CHUNK
            if at == 0:
                if watch[0]:
                    return
                watch[slot] = i * rounds + t
                draw_rounds(t, first + i, k0, k1, thresholds, guide, u, v, atoms)
                if cuts.size:
                    draw_rewards(t, first + i, k0, k1, coin)
            arm = decisions.choose(meta, params, counts, mean, root, index, seen, table, learner)
            decisions.count_ruled_out(meta, learner, index, excluded[i])
            m = level_of(coin[at], cuts, arm, atoms[at]) if cuts.size else level[arm, atoms[at]]
            decisions.learn(arm, table[arm, m, arms], learner.bins[arm, m], meta, params, counts, mean, root, seen, learner)
            if t + 1 == checkpoints[c]:
                for k in range(arms):
                    pulls[i, c, k] = counts[kernel.PULLS, k]
                    reward[i, c] += counts[kernel.TOTAL, k]
                c += 1
