"""The kernels of the GPU engine, built per number of arms and of atoms; their scalar functions are those of the CPU.

UCB1 and C-UCB with few arms have a kernel of their own, written out, one thread to a replication (``cuda_few``). Here is the
one for all else: a replication is played by LANES neighbouring threads, and arm k belongs to lane k % LANES, which keeps it
in slot k // LANES. One lane for few arms; for many arms up to a whole warp, so that rows of sums are read and written in one
piece. Means and roots, which every round reads, are shared memory as far as that goes; the other slots are local memory.

Between launches a replication is a column of ``state`` (3 K, R), whole numbers: pulls, total and rounds excluded of every arm;
and, under a filter, of ``sums`` (K K, R), or a row (R, K K) where it has several lanes: every arm's slack against every
target, minus the sum of its excesses, so that a target is excluded where it is negative. Means, roots and the most-pulled arm
follow from them.

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
    from_lane,
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

__all__ = ["SIMULATED", "Kind", "cuda", "kernel_for", "lanes_for"]

BLOCKS = 128, 64, 32  # threads
UNROLLED_ARMS = 16  # beyond, their means and roots would not fit into registers

# Constants of a kernel: what they mean, and an example; kernel_for gives them.
ARMS, ATOMS, CELL = 3, 5, 4  # CELL: numbers in a cell of the table
LANES, HALVINGS = 1, 0  # HALVINGS: of LANES, down to 1
SLOTS, WORDS = 3, 1  # WORDS: of 32 bits, one for every slot
SHARED, STRIDE, READ = True, 128, 384  # whether means and roots are shared, how far a thread's stand apart, how many there are
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


def _few(kind: Kind) -> dict[str, Any] | None:
    """``cuda_few``'s constants, where that is the kernel. Other rules, written out, would overflow the instruction cache."""
    if kind.rule != UCB1 or kind.arms > UNROLLED_ARMS:
        return None
    return cuda_few.constants(kind.arms, kind.atoms, kind.starts, kind.steps, kind.filtered, kind.whole)


def lanes_for(kind: Kind) -> int:
    """How many threads play a replication: what was fastest on an H200. 8 of them read whole sectors of a row of sums."""
    if kind.arms <= UNROLLED_ARMS:
        return 1
    some, more = (8, 32) if kind.filtered else (4, 8)
    return 4 if SIMULATED else some if kind.arms <= 64 else more if kind.arms <= 128 else 32


@lru_cache(maxsize=64)
def kernel_for(kind: Kind, halves: tuple[int, int]) -> tuple[Any, int]:
    """The kernel, see ``play``, and how many threads a block has. ``halves``: which of two rounds that share a draw to play."""
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
    if (few := _few(kind)) is not None:
        return cuda.jit(specialised(cuda_few.play, constants | few, unroll=True)), few["THREADS"]
    lanes = lanes_for(kind)
    slots = -(-kind.arms // lanes)
    each = 2 * slots * np.dtype(kind.real).itemsize
    blocks = [threads for threads in BLOCKS if each * threads <= cuda_few.SHARED_BYTES]
    threads = blocks[0] if blocks else BLOCKS[0]
    constants |= {
        "ARMS": kind.arms,
        "SHARED": bool(blocks),
        "STRIDE": threads if blocks else 1,
        "READ": slots * threads if blocks else 1,
        "LANES": lanes,
        "HALVINGS": lanes.bit_length() - 1,
        "SLOTS": slots,
        "ATOMS": kind.atoms,
        "CELL": 1 + (kind.arms if kind.filtered else 0),
        "WORDS": -(-slots // 32),
        "RULE": kind.rule,
        "INDEX": np.uint32 if kind.whole is np.int32 else np.uint64,
    }
    return cuda.jit(specialised(play, constants, unroll=False)), threads


def play(first, size, k0, k1, start, length, thresholds, guide, shift, cells, factor, roots, unit, sd, low, span, state, sums):  # type: ignore[no-untyped-def]
    """Rounds start + 1, ..., start + length of replication first + r, r < size. Capitals are constants of the kernel.

    ``cells`` holds, for arm k at atom j, what it pays and then its slack against every target, in row k J + j; ``factor[i]``
    what the rule takes of log t in round start + 1 + i: the width for UCB1, the logarithm for KL-UCB; ``roots[n]`` is
    1 / sqrt(n).
    """
    thread = cuda.grid(1)
    r = thread // LANES
    if r >= size:
        return
    lane = thread % LANES
    within = cuda.threadIdx.x % 32  # the warp
    mask = 0xFFFFFFFF >> max(0, 32 - (size * LANES - (thread - within)))  # its threads that play
    column = np.uint64(r)
    n = cuda.local.array(SLOTS, WHOLE)
    total = cuda.local.array(SLOTS, WHOLE)
    out = cuda.local.array(SLOTS, WHOLE)
    if SHARED:
        mean = cuda.shared.array(READ, REAL)
        root = cuda.shared.array(READ, REAL)
        i = np.uint32(cuda.threadIdx.x)
    else:
        mean = cuda.local.array(SLOTS, REAL)
        root = cuda.local.array(SLOTS, REAL)
        i = np.uint32(0)
    barred = cuda.local.array(WORDS, np.uint32)  # by the reference arm: a bit for every slot
    reference = ZERO
    most = ZERO
    if start > 0:
        for k in range(ARMS):
            if state[k, r] > most:
                most = state[k, r]
                reference = WHOLE(k)
    for w in range(WORDS):
        barred[w] = 0
    for m in range(SLOTS):
        k = m * LANES + lane
        at = np.uint32(m * STRIDE + i)
        n[m], total[m], out[m], mean[at], root[at] = ZERO, ZERO, ZERO, INFINITY, REAL(0.0)
        if k < ARMS and start > 0:
            n[m], total[m], out[m] = state[k, r], state[ARMS + k, r], state[2 * ARMS + k, r]
            if n[m] > 0:
                mean[at], root[at] = _refreshed(total[m], n[m], unit, roots)
        if FILTERED and k < ARMS:
            if start == 0:
                for arm in range(ARMS):
                    place = np.uint64(arm * ARMS + k)
                    if LANES == 1:
                        sums[place, column] = ZERO
                    else:
                        sums[column, place] = ZERO
            else:
                place = np.uint64(reference * ARMS + k)
                # While an arm is barred, ``out`` lacks the round since when; until when is added once it is free.
                if (sums[place, column] if LANES == 1 else sums[column, place]) < 0:
                    barred[m >> 5] |= np.uint32(1) << np.uint32(m & 31)
                    out[m] = WHOLE(out[m] - start)
    for b in range(length // (TO - FROM)):
        c0, c1, c2, c3 = counter(start // 2 + b, first + r, LATENT, 0)
        w0, w1, w2, w3 = philox(c0, c1, c2, c3, k0, k1)
        for half in range(FROM, TO):
            j = WHOLE(atom_of(join(w2, w3) if half else join(w0, w1), thresholds, guide, shift))
            # The arm: in increasing order, so a tie keeps the lower number.
            ahead = factor[np.uint32((TO - FROM) * b + half - FROM)]
            best = -INFINITY
            arm = WHOLE(ARMS)
            p, q = 0, 0
            for m in range(SLOTS):
                k = m * LANES + lane
                at = np.uint32(m * STRIDE + i)
                free = k < ARMS
                if FILTERED:
                    free = free & (((barred[m >> 5] >> np.uint32(m & 31)) & np.uint32(1)) == 0)
                if RULE == UCB1:
                    x = _index(mean[at], root[at], ahead)
                elif RULE == NORMAL:
                    if k % 2 == 0 or LANES > 1:
                        p, q = uniforms(2 * (start // 2 + b) + half + 1, first + r, NORMAL_DRAW, k // 2, k0, k1)
                    x = REAL(normal(mean[at], root[at], sd, quantile(open_unit(q if k % 2 else p))))
                else:
                    x = -INFINITY
                    if free and best < INFINITY and kl_reaches(mean[at], float(n[m]), best, ahead, low, span):
                        x = REAL(kl_ucb(mean[at], float(n[m]), ahead, low, span))
                better = free & (x > best)
                best = cuda.selp(better, x, best)
                arm = cuda.selp(better, WHOLE(k), arm)
            for h in range(HALVINGS):
                source = within ^ (1 << h)
                x = from_lane(mask, best, source)
                whose = from_lane(mask, arm, source)
                better = (x > best) | ((x == best) & (whose < arm))
                best = cuda.selp(better, x, best)
                arm = cuda.selp(better, whose, arm)
            # What it pays, and its new mean.
            cell = INDEX((arm * ATOMS + j) * CELL)
            count = ZERO
            if arm % LANES == lane:
                m = arm // LANES
                at = np.uint32(m * STRIDE + i)
                count = WHOLE(n[m] + ONE)
                n[m] = count
                total[m] = WHOLE(total[m] + cells[cell])
                mean[at], root[at] = _refreshed(total[m], count, unit, roots)
            if FILTERED:
                if LANES > 1:
                    count = from_lane(mask, count, within - lane + arm % LANES)
                leads = count > most or (count == most and arm < reference)
                if leads:
                    most = count
                    reference = arm
                for w in range(WORDS):
                    now = np.uint32(0)
                    for m in range(32 * w, min(32 * w + 32, SLOTS)):
                        ell = m * LANES + lane
                        if ell < ARMS:
                            place = np.uint64(arm * ARMS + ell)
                            gain = cells[INDEX(cell + 1 + ell)]
                            if LANES == 1:
                                slack = WHOLE(sums[place, column] + gain)
                                sums[place, column] = slack
                            else:
                                slack = WHOLE(sums[column, place] + gain)
                                sums[column, place] = slack
                            now |= np.uint32(slack < 0) << np.uint32(m & 31)
                    if leads:
                        changed = np.uint32(barred[w] ^ now)
                        barred[w] = now
                        while changed:
                            bit = np.uint32(cuda.ffs(changed) - 1)
                            m = int(32 * w + bit)
                            played = start + (TO - FROM) * b + half - FROM + 1
                            out[m] = WHOLE(out[m] - played if (now >> bit) & np.uint32(1) else out[m] + played)
                            changed = np.uint32(changed & (changed - np.uint32(1)))
    for m in range(SLOTS):
        k = m * LANES + lane
        if k < ARMS:
            state[k, r] = n[m]
            state[ARMS + k, r] = total[m]
            held = (barred[m >> 5] >> np.uint32(m & 31)) & np.uint32(1)
            state[2 * ARMS + k, r] = WHOLE(out[m] + start + length if held else out[m])
