"""The kernels of the GPU engine: one replication per thread, the scalar functions those of the CPU.

A kernel is built per number of arms and of atoms. UCB1 and C-UCB with few arms have one of their own, written out
(``cuda_few``). Else the means and roots, which every round reads, are shared memory up to about a hundred arms, and the rest
is local memory, which the hardware caches and interleaves over threads; the K x K sums of a filter stay in global memory,
one column per replication.

Between launches a replication is a column of ``state`` (rows, R), whole numbers: pulls, total and rounds excluded of every
arm, then, under a filter, its slack against every target, row by row: minus the sum of excesses, so that a target is excluded
where it is negative. Means, roots and the most-pulled arm follow from them.

What a GPU rounds differently, or slowly, comes in tables from the host: the logarithms of t, and 1 / sqrt(n).

This module imports ``numba.cuda``; nothing imports it before a GPU is asked for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from headwater import streams
from headwater.policies.kernel import NORMAL, UCB1
from headwater.simulation import cuda_device as device
from headwater.simulation import cuda_few
from headwater.simulation.cuda_device import (
    SIMULATED,
    atom_of,
    counter,
    cuda,
    join,
    kl_reaches,
    kl_ucb,
    normal,
    open_unit,
    philox,
    quantile,
    uniforms,
)
from headwater.simulation.unroll import specialised

__all__ = ["SIMULATED", "Kind", "cuda", "kernel_for", "row_count"]

BLOCKS = 128, 64, 32  # threads
UNROLLED_ARMS = 16  # beyond, their means and roots would not fit into registers

# Constants of a kernel: what they mean, and an example; kernel_for gives them.
ARMS, ATOMS, CELL = 3, 5, 4  # CELL: numbers in a cell of the table
WORDS = 1  # of 32 bits, one for every arm
SHARED, STRIDE, READ = (
    True,
    128,
    3 * 128,
)  # whether means and roots are shared; then a thread's stand STRIDE apart; their number
FROM, TO = 0, 2  # which of the two rounds that share a draw
RULE, FILTERED = UCB1, True
REAL: Any = np.float64
WHOLE: Any = np.int32
INDEX: Any = np.uint32  # unsigned, or numba would test for a negative index
ZERO, ONE, INFINITY = WHOLE(0), WHOLE(1), REAL(np.inf)
_index: Any = None  # UCB1's index
_refreshed: Any = None  # an arm's mean and 1 / sqrt(n)

LATENT, NORMAL_DRAW = streams.LATENT, streams.NORMAL


class Kind(NamedTuple):
    """What a kernel is built for."""

    arms: int
    atoms: int
    starts: int  # entries of the guide table
    steps: int  # thresholds inside one of its cells, at most
    rule: int
    filtered: bool
    real: Any  # the type of means and indices
    whole: Any  # the type of sums
    long: bool  # an arm may be pulled more often than the table of roots is long


def row_count(arms: int, filtered: bool) -> int:
    """How many whole numbers a replication is between launches."""
    return 3 * arms + (arms * arms if filtered else 0)


@lru_cache(maxsize=64)
def kernel_for(kind: Kind, halves: tuple[int, int]) -> tuple[Any, int]:
    """The kernel, see ``play``, and the threads of a block. ``halves``: which of the two rounds that share a draw to play."""
    single = kind.real is np.float32
    constants = {
        "FROM": halves[0],
        "TO": halves[1],
        "FILTERED": kind.filtered,
        "REAL": kind.real,
        "WHOLE": kind.whole,
        "ZERO": kind.whole(0),
        "ONE": kind.whole(1),
        "INFINITY": kind.real(np.inf),
        "_index": device.ucb1 if single else device.ucb1_exact,
        "_refreshed": device.single if single else device.tabled_or_not if kind.long else device.tabled,
    }
    # Written out, the long indices of the other rules would not fit into the cache of instructions.
    if kind.rule == UCB1 and kind.arms <= UNROLLED_ARMS:
        sizes = cuda_few.constants(kind.arms, kind.atoms, kind.starts, kind.steps, kind.filtered, kind.whole)
        if sizes is not None:
            return cuda.jit(specialised(cuda_few.play, constants | sizes, unroll=True)), sizes["THREADS"]
    each = 2 * kind.arms * np.dtype(kind.real).itemsize
    blocks = [threads for threads in BLOCKS if each * threads <= cuda_few.SHARED_BYTES]
    threads = blocks[0] if blocks else BLOCKS[0]
    constants |= {
        "ARMS": kind.arms,
        "SHARED": bool(blocks),
        "STRIDE": threads if blocks else 1,
        "READ": kind.arms * threads if blocks else 1,
        "ATOMS": kind.atoms,
        "CELL": kind.arms + 1,
        "WORDS": -(-kind.arms // 32),
        "RULE": kind.rule,
        "INDEX": np.uint32 if kind.whole is np.int32 else np.uint64,
    }
    return cuda.jit(specialised(play, constants, unroll=False)), threads


def play(first, size, k0, k1, start, length, thresholds, guide, shift, cells, factor, roots, unit, sd, low, span, state):  # type: ignore[no-untyped-def]
    """Rounds start + 1, ..., start + length of replication first + r in thread r. Capitals are constants of the kernel.

    ``cells`` holds, for arm k at atom j, what it pays and then its slack against every target, in row k J + j; ``factor[i]``
    what the rule takes of log t in round start + 1 + i: the width for UCB1, the logarithm for KL-UCB; ``roots[n]`` is
    1 / sqrt(n).
    """
    r = cuda.grid(1)
    if r >= size:
        return
    column = np.uint64(r)
    n = cuda.local.array(ARMS, WHOLE)
    total = cuda.local.array(ARMS, WHOLE)
    out = cuda.local.array(ARMS, WHOLE)
    if SHARED:
        mean = cuda.shared.array(READ, REAL)
        root = cuda.shared.array(READ, REAL)
        i = np.uint32(cuda.threadIdx.x)
    else:
        mean = cuda.local.array(ARMS, REAL)
        root = cuda.local.array(ARMS, REAL)
        i = np.uint32(0)
    barred = cuda.local.array(WORDS, np.uint32)  # by the reference arm
    reference = ZERO
    most = ZERO
    if start == 0:
        for s in range(state.shape[0]):
            state[s, r] = ZERO
    for k in range(ARMS):
        n[k] = state[k, r]
        total[k] = state[ARMS + k, r]
        out[k] = state[2 * ARMS + k, r]
        at = np.uint32(k * STRIDE + i)
        mean[at] = INFINITY
        root[at] = REAL(0.0)
        if n[k] > 0:
            mean[at], root[at] = _refreshed(total[k], n[k], unit, roots)
        if n[k] > most:
            most = n[k]
            reference = WHOLE(k)
    # While an arm is barred, ``out`` lacks the round since when: the round until when is added when it is free, or at the end.
    for w in range(WORDS):
        barred[w] = 0
    if FILTERED:
        for k in range(ARMS):
            if state[3 * ARMS + reference * ARMS + k, r] < 0:
                barred[k >> 5] |= np.uint32(1) << np.uint32(k & 31)
                out[k] = WHOLE(out[k] - start)
    for b in range(length // (TO - FROM)):
        c0, c1, c2, c3 = counter(start // 2 + b, first + r, LATENT, 0)
        w0, w1, w2, w3 = philox(c0, c1, c2, c3, k0, k1)
        for half in range(FROM, TO):
            j = WHOLE(atom_of(join(w2, w3) if half else join(w0, w1), thresholds, guide, shift))
            # The arm: in increasing order, so a tie keeps the lower number.
            ahead = factor[np.uint32((TO - FROM) * b + half - FROM)]
            best = -INFINITY
            arm = ZERO
            p, q = 0, 0
            for k in range(ARMS):
                at = np.uint32(k * STRIDE + i)
                free = True
                if FILTERED:
                    free = ((barred[k >> 5] >> np.uint32(k & 31)) & np.uint32(1)) == 0
                if RULE == UCB1:
                    x = _index(mean[at], root[at], ahead)
                elif RULE == NORMAL:
                    if k % 2 == 0:
                        p, q = uniforms(2 * (start // 2 + b) + half + 1, first + r, NORMAL_DRAW, k // 2, k0, k1)
                    x = REAL(normal(mean[at], root[at], sd, quantile(open_unit(q if k % 2 else p))))
                else:
                    x = -INFINITY
                    if free and best < INFINITY and kl_reaches(mean[at], float(n[k]), best, ahead, low, span):
                        x = REAL(kl_ucb(mean[at], float(n[k]), ahead, low, span))
                better = free & (x > best)
                best = cuda.selp(better, x, best)
                arm = cuda.selp(better, WHOLE(k), arm)
            # What it pays, and its new mean.
            cell = INDEX((arm * ATOMS + j) * CELL)
            n[arm] = WHOLE(n[arm] + ONE)
            total[arm] = WHOLE(total[arm] + cells[cell])
            at = np.uint32(arm * STRIDE + i)
            mean[at], root[at] = _refreshed(total[arm], n[arm], unit, roots)
            if FILTERED:
                leads = n[arm] > most or (n[arm] == most and arm < reference)
                if leads:
                    most = n[arm]
                    reference = arm
                row = np.uint64(3 * ARMS + arm * ARMS)
                for w in range(WORDS):
                    now = np.uint32(0)
                    for ell in range(32 * w, min(32 * w + 32, ARMS)):
                        place = row + np.uint64(ell)
                        slack = WHOLE(state[place, column] + cells[INDEX(cell + 1 + ell)])
                        state[place, column] = slack
                        now |= np.uint32(slack < 0) << np.uint32(ell & 31)
                    if leads:
                        changed = np.uint32(barred[w] ^ now)
                        barred[w] = now
                        while changed:
                            bit = np.uint32(cuda.ffs(changed) - 1)
                            other = 32 * w + np.int64(bit)
                            played = start + (TO - FROM) * b + half - FROM + 1
                            out[other] = WHOLE(out[other] - played if (now >> bit) & np.uint32(1) else out[other] + played)
                            changed = np.uint32(changed & (changed - np.uint32(1)))
    for k in range(ARMS):
        state[k, r] = n[k]
        state[ARMS + k, r] = total[k]
        held = (barred[k >> 5] >> np.uint32(k & 31)) & np.uint32(1)
        state[2 * ARMS + k, r] = WHOLE(out[k] + start + length if held else out[k])
