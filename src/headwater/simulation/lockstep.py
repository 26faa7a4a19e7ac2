"""A block of replications of UCB1 or C-UCB, round by round, one lane each: loops vectorise over replications.

Each loop over the lanes r touches few arrays and stores to at most two: LLVM gives up on a loop that needs more than eight
checks for overlap. Rows are indexed, never sliced, and the loops stand in one long function: a slice or a call costs two
reference counts for each array, which was a third of the time. ``ids`` are the arms' numbers in the integers' own type,
because a comparison with a wider integer halves the lanes.
"""

from __future__ import annotations

import math

import numpy as np

from headwater import streams
from headwater.arrays import AnyInts, Ints
from headwater.policies import indices
from headwater.policies.compile import allocating, compiled, inlined
from headwater.simulation.draws import atom_of, guide_shift

_CHUNK = 8  # rounds drawn ahead; even, since a call of the generator serves two

_philox = inlined(streams.philox)
_counter = inlined(streams.counter_words)
_join = inlined(streams.join)
_mean = inlined(indices.empirical_mean)
_root = inlined(indices.reciprocal_root)
_width = inlined(indices.ucb1_width)
_ucb1 = inlined(indices.ucb1_index)


@compiled
def _draw_lanes(
    block: int,
    first: int,
    k0: int,
    k1: int,
    thresholds: Ints,
    guide: Ints,
    ids: AnyInts,
    u: Ints,
    v: Ints,
    atom: AnyInts,
) -> None:
    """The atoms of every lane in the next CHUNK rounds: atom (CHUNK, R). u and v are scratch (R,)."""
    zero, one = ids[0], ids[1]
    shift = guide_shift(guide)
    for b in range(_CHUNK // 2):
        for r in range(u.size):
            c0, c1, c2, c3 = _counter(block + b, first + r, streams.LATENT, 0)
            w0, w1, w2, w3 = _philox(c0, c1, c2, c3, k0, k1)
            u[r] = _join(w0, w1)
            v[r] = _join(w2, w3)
        if guide.size:
            for r in range(u.size):
                atom[2 * b, r] = atom_of(u[r], thresholds, guide, shift)
                atom[2 * b + 1, r] = atom_of(v[r], thresholds, guide, shift)
        else:
            for r in range(u.size):
                atom[2 * b, r] = zero
                atom[2 * b + 1, r] = zero
            for i in range(thresholds.size):
                x = thresholds[i]
                for r in range(u.size):
                    atom[2 * b, r] += one if u[r] >= x else zero
                for r in range(u.size):
                    atom[2 * b + 1, r] += one if v[r] >= x else zero


@allocating
def lockstep(
    first: int,
    k0: int,
    k1: int,
    thresholds: Ints,
    guide: Ints,
    ids: AnyInts,
    cells: AnyInts,
    unit: float,
    scale: float,
    filtered: bool,
    checkpoints: Ints,
    watch: Ints,
    slot: int,
    pulls: Ints,
    reward: Ints,
    excluded: Ints,
) -> None:
    """Replications first, first + 1, ... of UCB1 or C-UCB, one lane each. O(K) or O(K^2) a round and lane.

    ``ids`` is 0, 1, ..., at least two of them, in the integer type to compute in; ``cells`` (1 + K, K J) in the same
    type: what arm k pays at atom j in column k J + j of row 0, the excess of that over target ell in row 1 + ell.
    """
    arms, size = pulls.shape[2], pulls.shape[0]
    atoms = thresholds.size + 1
    zero, one = ids[0], ids[1]
    n = np.zeros((arms, size), dtype=ids.dtype)
    total = np.zeros((arms, size), dtype=ids.dtype)
    against = np.zeros((arms, size), dtype=ids.dtype)
    out = np.zeros((arms, size), dtype=ids.dtype)
    sums = np.zeros((arms if filtered else 0, arms, size), dtype=ids.dtype)
    mean = np.full((arms, size), np.inf)
    root = np.zeros((arms, size))
    u = np.zeros(size, dtype=np.int64)
    v = np.zeros(size, dtype=np.int64)
    atom = np.zeros((_CHUNK, size), dtype=ids.dtype)
    arm = np.zeros(size, dtype=ids.dtype)
    cell = np.zeros(size, dtype=ids.dtype)
    gain = np.zeros(size, dtype=ids.dtype)
    pulled_n = np.zeros(size, dtype=ids.dtype)
    pulled_total = np.zeros(size, dtype=ids.dtype)
    reference = np.zeros(size, dtype=ids.dtype)
    reference_n = np.zeros(size, dtype=ids.dtype)
    best = np.zeros(size)
    new_mean = np.zeros(size)
    new_root = np.zeros(size)
    t = 0
    for c in range(checkpoints.size):
        while t < checkpoints[c]:
            at = t % _CHUNK
            if at == 0:
                if watch[0]:
                    return
                watch[slot] = t * size
                _draw_lanes(t // 2, first, k0, k1, thresholds, guide, ids, u, v, atom)
            t += 1
            width = _width(math.log(float(t)), scale)
            # The arm of every lane: arms compete in increasing order, so a tie keeps the lower number.
            for r in range(size):
                best[r] = -np.inf
            for k in range(arms):
                me = ids[k]
                if filtered:
                    for r in range(size):
                        x = -np.inf if against[k, r] > 0 else _ucb1(mean[k, r], root[k, r], width)
                        better = x > best[r]
                        best[r] = x if better else best[r]
                        arm[r] = me if better else arm[r]
                    for r in range(size):
                        out[k, r] += one if against[k, r] > 0 else zero
                else:
                    for r in range(size):
                        x = _ucb1(mean[k, r], root[k, r], width)
                        better = x > best[r]
                        best[r] = x if better else best[r]
                        arm[r] = me if better else arm[r]
            # What it pays. An unsigned index, or numba would test for a negative one.
            for r in range(size):
                cell[r] = arm[r] * atoms + atom[at, r]
            for r in range(size):
                gain[r] = cells[0, np.uint64(cell[r])]
            # Count it; keep the pulled arm's new numbers apart, so that each lane needs one division and one root.
            for k in range(arms):
                me = ids[k]
                for r in range(size):
                    hit = arm[r] == me
                    x = n[k, r] + one
                    n[k, r] = x if hit else n[k, r]
                    pulled_n[r] = x if hit else pulled_n[r]
                for r in range(size):
                    hit = arm[r] == me
                    x = total[k, r] + gain[r]
                    total[k, r] = x if hit else total[k, r]
                    pulled_total[r] = x if hit else pulled_total[r]
            for r in range(size):
                new_mean[r] = _mean(float(pulled_total[r]), float(pulled_n[r]), unit)
                new_root[r] = _root(float(pulled_n[r]))
            for k in range(arms):
                me = ids[k]
                for r in range(size):
                    hit = arm[r] == me
                    mean[k, r] = new_mean[r] if hit else mean[k, r]
                    root[k, r] = new_root[r] if hit else root[k, r]
            if filtered:
                # The most-pulled arm, ties to the lowest number: only the pulled arm can have overtaken it.
                for r in range(size):
                    tied = (pulled_n[r] == reference_n[r]) & (arm[r] < reference[r])
                    change = (pulled_n[r] > reference_n[r]) | tied
                    reference[r] = arm[r] if change else reference[r]
                    reference_n[r] = pulled_n[r] if change else reference_n[r]
                # The sums of every pair, and a copy of the reference arm's.
                for ell in range(arms):
                    for r in range(size):
                        gain[r] = cells[1 + ell, np.uint64(cell[r])]
                    for r in range(size):
                        against[ell, r] = zero
                    for k in range(arms):
                        if k != ell:
                            me = ids[k]
                            for r in range(size):
                                x = sums[k, ell, r] + (gain[r] if arm[r] == me else zero)
                                sums[k, ell, r] = x
                                against[ell, r] = x if reference[r] == me else against[ell, r]
        for r in range(size):
            for k in range(arms):
                pulls[r, c, k] = n[k, r]
                reward[r, c] += total[k, r]
    for r in range(size):
        for k in range(arms):
            excluded[r, k] = out[k, r]
