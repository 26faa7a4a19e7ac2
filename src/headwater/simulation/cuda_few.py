"""The kernel for UCB1 and C-UCB with few arms, written out (see ``unroll``): the fastest that the hardware allows.

What decides the next arm lives in registers: every arm's mean and 1 / sqrt(n), and how the reference arm judges it. What only
the arm that is pulled needs lives in shared memory, a row of numbers for every arm: its pulls, its total, its slack against
every target. A round adds one cell of the table to one row, whatever the number of arms. A thread's numbers stand
``THREADS`` apart, so that the threads of a warp never want the same bank, whichever rows they read. The table and the atoms
stand in shared memory too, if they fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater import streams
from headwater.simulation.cuda_device import atom_of, counter, cuda, join, philox

# Constants of the kernel: what they mean, and an example; ``constants`` gives them.
ARMS, ATOMS, THREADS = 3, 5, 128
FILTERED, HELD = True, True  # HELD: whether table and atoms are in shared memory
ROW, CELL = 5, 4  # numbers in a row, and in a cell of the table
ROWS, CELLS, PAIRS = ARMS * ROW * THREADS, ARMS * ATOMS * CELL, ARMS * ATOMS
STEPS, STARTS, LIMITS, SHIFT = 1, 32, 32, 27  # thresholds in a cell of the guide table at most; its size, theirs, its shift
FROM, TO = 0, 2  # which of the two rounds that share a draw
RANKS = 4  # a power of two, at least the number of arms
REAL: Any = np.float64
WHOLE: Any = np.int32
UNSIGNED: Any = np.uint32
SIGN = 31
ZERO, ONE, INFINITY = WHOLE(0), WHOLE(1), REAL(np.inf)
_index: Any = None
_refreshed: Any = None  # an arm's mean and 1 / sqrt(n)

LATENT = streams.LATENT
WORD, SPARE = np.uint64(32), np.uint64(64 - streams.UNIFORM_BITS)
REST, NEVER = np.uint64(2 ** (64 - streams.UNIFORM_BITS) - 1), np.uint64(2**64 - 1)
_at: Any = np.uint64  # an index: unsigned, or numba would test for a negative one

SHARED_BYTES = 48 * 1024  # what a block may declare
MOST_STEPS = 4
BLOCKS = 128, 64  # threads


def constants(arms: int, atoms: int, starts: int, steps: int, filtered: bool, whole: Any) -> dict[str, Any] | None:
    """The constants that depend on sizes, for the largest block whose rows fit into shared memory; None if not even a small one
    does.
    """
    cell = 1 + (arms if filtered else 0)
    row, cells, limits = 1 + cell, arms * atoms * cell, steps * starts
    size = np.dtype(whole).itemsize
    for threads in BLOCKS:
        rows = arms * row * threads
        if rows * size > SHARED_BYTES:
            continue
        held = steps <= MOST_STEPS and (rows + cells) * size + 4 * starts + 8 * limits <= SHARED_BYTES
        tables = {"CELLS": cells, "STARTS": starts, "LIMITS": max(limits, 1), "STEPS": steps} if held else {}
        return {
            **dict.fromkeys(("CELLS", "STARTS", "LIMITS", "STEPS"), 1),
            **tables,
            "ARMS": arms,
            "ATOMS": atoms,
            "THREADS": threads,
            "HELD": held,
            "ROW": row,
            "ROWS": rows,
            "CELL": cell,
            "PAIRS": arms * atoms,
            "SHIFT": 32 - (starts - 1).bit_length(),
            "RANKS": 1 << (arms - 1).bit_length(),
            "UNSIGNED": np.uint32 if size == 4 else np.uint64,
            "SIGN": 8 * size - 1,
        }
    return None


def play(first, size, k0, k1, start, length, thresholds, guide, shift, cells, factor, roots, unit, sd, low, span, state, sums):  # type: ignore[no-untyped-def]
    """As ``cuda_kernel.play``, of which this is the written-out form."""
    rows = cuda.shared.array(ROWS, WHOLE)
    table = cuda.shared.array(CELLS, WHOLE)
    starts = cuda.shared.array(STARTS, np.uint32)
    highs = cuda.shared.array(LIMITS, np.uint32)
    lows = cuda.shared.array(LIMITS, np.uint32)
    i = cuda.threadIdx.x
    if HELD:
        # The table word by word, so that threads that look up one word of different cells want different banks.
        for at in range(i, CELLS, cuda.blockDim.x):
            table[at % CELL * PAIRS + at // CELL] = cells[at]
        # An atom's number is how many thresholds the draw reaches: those below its cell of the guide, and some inside.
        for at in range(i, STARTS, cuda.blockDim.x):
            starts[at] = guide[at]
            for s in range(STEPS):
                h = guide[at] + s
                # A threshold has 53 bits, of a draw's 64: it is reached by all that exceed the last 64-bit number before it.
                limit = (np.uint64(thresholds[h] - 1) << SPARE) | REST if h < thresholds.size else NEVER
                highs[s * STARTS + at] = limit >> WORD
                lows[s * STARTS + at] = np.uint32(limit)
    cuda.syncthreads()
    r = cuda.grid(1)
    if r >= size:
        return
    out = cuda.local.array(ARMS, WHOLE)
    mean = cuda.local.array(ARMS, REAL)
    root = cuda.local.array(ARMS, REAL)
    slack = cuda.local.array(ARMS, WHOLE)  # the reference arm's
    new = cuda.local.array(ARMS, WHOLE)
    most = ZERO
    reference = ZERO
    for k in range(ARMS):
        n = ZERO
        total = ZERO
        out[k] = ZERO
        mean[k] = INFINITY
        root[k] = REAL(0.0)
        if start > 0:
            n = state[k, r]
            total = state[ARMS + k, r]
            out[k] = state[2 * ARMS + k, r]
        if n > 0:
            mean[k], root[k] = _refreshed(total, n, unit, roots)
        rows[k * ROW * THREADS + i] = n
        rows[(k * ROW + 1) * THREADS + i] = total
        if FILTERED:
            rank = WHOLE(n * RANKS + (RANKS - 1 - k))
            reference = cuda.selp(rank > most, WHOLE(k), reference)
            most = cuda.selp(rank > most, rank, most)
    if FILTERED:
        for s in range(sums.shape[0]):  # not written out: it is long, and not often done
            rows[(s // ARMS * ROW + 2 + s % ARMS) * THREADS + i] = sums[s, r] if start > 0 else ZERO
        for ell in range(ARMS):
            slack[ell] = rows[(reference * ROW + 2 + ell) * THREADS + i]
    for b in range(length // (TO - FROM)):
        c0, c1, c2, c3 = counter(start // 2 + b, first + r, LATENT, 0)
        w0, w1, w2, w3 = philox(c0, c1, c2, c3, k0, k1)
        for half in range(FROM, TO):
            # x_t
            if HELD:
                high = np.uint32(w2 if half else w0)
                u = (np.uint64(high) << WORD) | np.uint64(w3 if half else w1)
                g = _at(high >> np.uint32(SHIFT))
                j = _at(starts[g])
                for s in range(STEPS):
                    limit = (np.uint64(highs[g + _at(s * STARTS)]) << WORD) | np.uint64(lows[g + _at(s * STARTS)])
                    j += cuda.selp(u > limit, _at(1), _at(0))
            else:
                j = _at(atom_of(join(w2, w3) if half else join(w0, w1), thresholds, guide, shift))
            # The arm: in increasing order, so a tie keeps the lower number.
            width = factor[np.uint32((TO - FROM) * b + half - FROM)]
            best = -INFINITY
            arm = _at(0)
            for k in range(ARMS):
                x = _index(mean[k], root[k], width)
                better = True if k == 0 else x > best
                if FILTERED:
                    better = better & (slack[k] >= ZERO)
                    out[k] = WHOLE(out[k] + WHOLE(UNSIGNED(slack[k]) >> UNSIGNED(SIGN)))
                best = cuda.selp(better, x, best)
                arm = cuda.selp(better, _at(k), arm)
            # What it pays is added to its row: all is read before anything is written, or reading would wait for writing.
            row = arm * _at(ROW * THREADS) + _at(i)
            cell = arm * _at(ATOMS) + j
            if not HELD:
                cell = cell * _at(CELL)
            n = WHOLE(rows[row] + ONE)
            total = WHOLE(rows[row + _at(THREADS)] + (table[cell] if HELD else cells[cell]))
            if FILTERED:
                for ell in range(ARMS):
                    gain = table[cell + _at((1 + ell) * PAIRS)] if HELD else cells[cell + _at(1 + ell)]
                    new[ell] = WHOLE(rows[row + _at((2 + ell) * THREADS)] + gain)
            rows[row] = n
            rows[row + _at(THREADS)] = total
            if FILTERED:
                # The reference has the most pulls, and of equals the lowest number: the highest rank. Only its own pull, or
                # one that makes an arm the reference, changes what it says.
                rank = WHOLE(n * RANKS + (RANKS - 1) - np.int64(arm))
                leads = rank > most
                most = cuda.selp(leads, rank, most)
                for ell in range(ARMS):
                    rows[row + _at((2 + ell) * THREADS)] = new[ell]
                    slack[ell] = cuda.selp(leads, new[ell], slack[ell])
            new_mean, new_root = _refreshed(total, n, unit, roots)
            for k in range(ARMS):
                pulled = np.uint32(arm) == np.uint32(k)
                mean[k] = cuda.selp(pulled, new_mean, mean[k])
                root[k] = cuda.selp(pulled, new_root, root[k])
    for k in range(ARMS):
        state[k, r] = rows[k * ROW * THREADS + i]
        state[ARMS + k, r] = rows[(k * ROW + 1) * THREADS + i]
        state[2 * ARMS + k, r] = out[k]
    if FILTERED:
        for s in range(sums.shape[0]):
            sums[s, r] = rows[(s // ARMS * ROW + 2 + s % ARMS) * THREADS + i]
