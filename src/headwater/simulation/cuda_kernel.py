"""The kernel of the GPU engine: one replication per thread, the scalar functions those of the CPU.

A kernel is built per number of arms and of atoms. For few arms it is written out (see ``unroll``), so that a replication's
whole state lives in registers. For more arms its arrays are local memory, which the hardware caches and interleaves over
threads, and the K x K sums stay in global memory, one column per replication.

Between launches a replication is a column of ``state`` (rows, R), whole numbers: pulls, total and rounds excluded of every
arm, then, under a filter, the sums row by row. Means, roots and the most-pulled arm follow from them.

What a GPU rounds differently, or slowly, comes in tables from the host: the logarithms of t, and 1 / sqrt(n).

This module imports ``numba.cuda``; nothing imports it before a GPU is asked for.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

import numpy as np

from headwater import streams
from headwater.policies import indices
from headwater.policies.kernel import NORMAL, UCB1
from headwater.simulation.draws import atom_of
from headwater.simulation.unroll import specialised, with_products

# numba-cuda up to 0.30 asks numpy for row_stack, which numpy 2.5 no longer has, in a module that it imports when it first
# compiles: import that here, with the name in place.
_MISSING = not hasattr(np, "row_stack")
if _MISSING:
    setattr(np, "row_stack", np.vstack)  # noqa: B010
try:
    from llvmlite import ir
    from numba import cuda as numba_cuda
    from numba import types
    from numba.core import config
    from numba.extending import intrinsic

    SIMULATED = bool(getattr(config, "ENABLE_CUDASIM", False))
    if _MISSING and not SIMULATED:
        importlib.import_module("numba.cuda.cudaimpl")
finally:
    if _MISSING:
        delattr(np, "row_stack")

__all__ = ["SIMULATED", "THREADS", "cuda", "kernel_for", "row_count"]

THREADS = 128  # a block
UNROLLED_ARMS = 8  # beyond, the sums of all pairs no longer fit into registers

cuda: Any = numba_cuda

# Constants of a kernel: what they mean, and an example; kernel_for gives them.
ARMS, ATOMS, WIDE = 3, 5, 4  # WIDE: numbers in a cell
GUIDED, LIMITS = False, 4  # whether atoms are found by the guide table, else by how many comparisons
LIMITS_SHAPE, SUMS_SHAPE = 4, (3, 3)
FROM, TO = 0, 2  # which of the two rounds that share a draw
RULE, FILTERED, FEW = UCB1, True, True
REAL: Any = np.float64
WHOLE: Any = np.int32
INDEX: Any = np.uint32  # unsigned, or numba would test for a negative index
ZERO, ONE, INFINITY = WHOLE(0), WHOLE(1), REAL(np.inf)
_index: Any = None  # UCB1's index
_root_of: Any = None  # 1 / sqrt(n)
_new_mean: Any = None


def _device(function: Any) -> Any:
    """Compile for the GPU, as part of a kernel. IEEE arithmetic, but for sums of products, which are fused."""
    return cuda.jit(device=True)(function)


@intrinsic
def _wide(context, x, y):  # type: ignore[no-untyped-def]
    """The 64-bit product of two 32-bit words, as the one instruction that it is: NVVM makes two of it."""

    def generate(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        word, double = ir.IntType(32), ir.IntType(64)
        words = [builder.trunc(arg, word) for arg in args]
        return builder.asm(ir.FunctionType(double, [word, word]), "mul.wide.u32 $0, $1, $2;", "=l,r,r", words, False)

    return types.int64(types.int64, types.int64), generate


def _alone(x: float, y: float) -> Any:
    """x * y, rounded: numba-cuda fuses a product with the sum that follows, which the CPU does not."""
    return cuda.libdevice.dmul_rn(x, y)


LATENT, NORMAL_DRAW = streams.LATENT, streams.NORMAL
WORD, SPARE = np.uint64(32), np.uint64(64 - streams.UNIFORM_BITS)
_philox = _device(streams.philox if SIMULATED else with_products(streams.philox, _wide))
_counter = _device(streams.counter_words)
_join = _device(streams.join)
_open_unit = _device(streams.to_open_unit)
_atom_of = _device(atom_of.py_func)  # type: ignore[attr-defined]
_mean = _device(indices.empirical_mean)
_root = _device(indices.reciprocal_root)
_ucb1 = _device(indices.ucb1_index)
_ucb1_exact = _ucb1 if SIMULATED else _device(with_products(indices.ucb1_index, _device(_alone)))
_normal = _device(indices.normal_index)
_quantile = _device(indices.normal_quantile)
_kl_ucb = _device(indices.kl_ucb_index)
_kl_reaches = _device(indices.kl_ucb_reaches)


@_device
def _uniforms(block, replication, purpose, lane, k0, k1):  # type: ignore[no-untyped-def]
    c0, c1, c2, c3 = _counter(block, replication, purpose, lane)
    w0, w1, w2, w3 = _philox(c0, c1, c2, c3, k0, k1)
    return _join(w0, w1), _join(w2, w3)


@_device
def _tabled(n, roots):  # type: ignore[no-untyped-def]
    return roots[np.uint64(n)]  # unsigned, or numba would test for a negative index


@_device
def _tabled_or_not(n, roots):  # type: ignore[no-untyped-def]
    return roots[np.uint64(n)] if n < roots.size else _root(float(n))


@_device
def _mean_64(total, n, root, unit):  # type: ignore[no-untyped-def]
    return _mean(float(total), float(n), unit)


_ONE_32 = np.float32(1.0)


@_device
def _mean_32(total, n, root, unit):  # type: ignore[no-untyped-def]
    """The mean of total / n in one pull: a division costs more than the rounding of 1 / sqrt(n), twice."""
    return np.float32(_mean(np.float32(total) * (root * root), _ONE_32, unit))


def row_count(arms: int, filtered: bool) -> int:
    """How many whole numbers a replication is between launches."""
    return 3 * arms + (arms * arms if filtered else 0)


@lru_cache(maxsize=64)
def kernel_for(
    arms: int, atoms: int, limits: int, rule: int, filtered: bool, real: Any, whole: Any, long: bool, halves: tuple[int, int]
) -> Any:
    """The kernel for K arms and J atoms, computing in ``real`` and ``whole`` numbers; see ``_play``.

    ``limits``: how many thresholds a draw can reach, where there are few atoms. ``long``: an arm may be pulled more often
    than the table of roots is long. ``halves``: which of the two rounds that share a draw to play, from and to.
    """
    # Written out, the long indices of the other rules would not fit into the cache of instructions.
    few, linear = arms <= UNROLLED_ARMS and rule == UCB1, atoms <= streams.LINEAR_ATOMS
    constants = {
        "ARMS": arms,
        "ATOMS": atoms,
        "GUIDED": not linear,
        "LIMITS": limits if linear else 0,
        "LIMITS_SHAPE": max(limits, 1) if linear else 1,
        "SUMS_SHAPE": (arms, arms) if few else (1, 1),
        "WIDE": arms + 1,
        "FROM": halves[0],
        "TO": halves[1],
        "RULE": rule,
        "FILTERED": filtered,
        "FEW": few,
        "REAL": real,
        "WHOLE": whole,
        "ZERO": whole(0),
        "ONE": whole(1),
        "INDEX": np.uint32 if whole is np.int32 else np.uint64,
        "INFINITY": real(np.inf),
        "_index": _ucb1_exact if real is np.float64 else _ucb1,
        "_root_of": _tabled_or_not if long else _tabled,
        "_new_mean": _mean_64 if real is np.float64 else _mean_32,
    }
    return cuda.jit(specialised(_play, constants, unroll=few))


def _play(first, size, k0, k1, start, length, thresholds, guide, shift, cells, factor, roots, unit, sd, low, span, state):  # type: ignore[no-untyped-def]
    """Rounds start + 1, ..., start + length of replication first + r in thread r. Capitals are constants of the kernel.

    ``cells`` holds, for arm k at atom j, what it pays and then its excess over every target, in row k J + j; ``factor[i]``
    what the rule takes of log t in round start + 1 + i: the width for UCB1, the logarithm for KL-UCB; ``roots[n]`` is
    1 / sqrt(n).
    """
    r = cuda.grid(1)
    if r >= size:
        return
    n = cuda.local.array(ARMS, WHOLE)
    total = cuda.local.array(ARMS, WHOLE)
    out = cuda.local.array(ARMS, WHOLE)
    mean = cuda.local.array(ARMS, REAL)
    root = cuda.local.array(ARMS, REAL)
    sums = cuda.local.array(SUMS_SHAPE, WHOLE)
    against = cuda.local.array(ARMS, WHOLE)
    limits = cuda.local.array(LIMITS_SHAPE, np.uint64)
    for h in range(LIMITS):
        limits[h] = np.uint64(thresholds[h]) << SPARE
    reference = ZERO
    most = ZERO
    if start == 0:
        for i in range(state.shape[0]):
            state[i, r] = ZERO
    for k in range(ARMS):
        n[k] = state[k, r]
        total[k] = state[ARMS + k, r]
        out[k] = state[2 * ARMS + k, r]
        mean[k] = REAL(_mean(REAL(total[k]), REAL(n[k]), unit))
        root[k] = REAL(_root_of(n[k], roots))
        overtakes = n[k] > most
        most = cuda.selp(overtakes, n[k], most)
        reference = cuda.selp(overtakes, WHOLE(k), reference)
    if FILTERED and FEW:
        for ell in range(ARMS):
            against[ell] = ZERO
            for k in range(ARMS):
                sums[k, ell] = state[3 * ARMS + k * ARMS + ell, r]
                against[ell] = cuda.selp(k == reference, sums[k, ell], against[ell])
    for b in range(length // (TO - FROM)):
        c0, c1, c2, c3 = _counter(start // 2 + b, first + r, LATENT, 0)
        w0, w1, w2, w3 = _philox(c0, c1, c2, c3, k0, k1)
        for half in range(FROM, TO):
            at = np.uint32((TO - FROM) * b + half - FROM)
            # x_t
            j = ZERO
            if GUIDED:
                j = WHOLE(_atom_of(_join(w2, w3) if half else _join(w0, w1), thresholds, guide, shift))
            else:
                # A threshold has 53 bits: shifted by 11, it compares alike with the draw's 64, which need not be joined.
                u = (np.uint64(w2 if half else w0) << WORD) | np.uint64(w3 if half else w1)
                for h in range(LIMITS):
                    j = WHOLE(j + cuda.selp(u >= limits[h], ONE, ZERO))
            # The arm: in increasing order, so a tie keeps the lower number.
            ahead = factor[at]
            best = -INFINITY
            arm = ZERO
            p, q = 0, 0
            for k in range(ARMS):
                if RULE == UCB1:
                    x = _index(mean[k], root[k], ahead)
                elif RULE == NORMAL:
                    if k % 2 == 0:
                        p, q = _uniforms(2 * (start // 2 + b) + half + 1, first + r, NORMAL_DRAW, k // 2, k0, k1)
                    x = REAL(_normal(mean[k], root[k], sd, _quantile(_open_unit(q if k % 2 else p))))
                else:
                    x = -INFINITY
                    if best < INFINITY and _kl_reaches(mean[k], float(n[k]), best, ahead, low, span):
                        x = REAL(_kl_ucb(mean[k], float(n[k]), ahead, low, span))
                if FILTERED:
                    free = (against[k] if FEW else state[3 * ARMS + reference * ARMS + k, r]) <= 0
                    out[k] = WHOLE(out[k] + cuda.selp(free, ZERO, ONE))
                    better = (x > best) & free
                else:
                    better = x > best
                best = cuda.selp(better, x, best)
                arm = cuda.selp(better, WHOLE(k), arm)
            # What it pays, and its new mean.
            cell = INDEX((arm * ATOMS + j) * WIDE)
            paid = cells[cell]
            count = n[0]
            earned = total[0]
            for k in range(1 if FEW else arm, ARMS if FEW else arm + 1):
                count = cuda.selp(k == arm, n[k], count)
                earned = cuda.selp(k == arm, total[k], earned)
            count = WHOLE(count + ONE)
            earned = WHOLE(earned + paid)
            new_root = REAL(_root_of(count, roots))
            new_mean = _new_mean(earned, count, new_root, unit)
            for k in range(0 if FEW else arm, ARMS if FEW else arm + 1):
                hit = k == arm
                n[k] = cuda.selp(hit, count, n[k])
                total[k] = cuda.selp(hit, earned, total[k])
                mean[k] = cuda.selp(hit, new_mean, mean[k])
                root[k] = cuda.selp(hit, new_root, root[k])
            if FILTERED:
                overtakes = (count > most) | ((count == most) & (arm < reference))
                most = cuda.selp(overtakes, count, most)
                reference = cuda.selp(overtakes, arm, reference)
                for ell in range(ARMS):
                    excess = cells[INDEX(cell + 1 + ell)]
                    if FEW:
                        against[ell] = ZERO
                        for k in range(ARMS):
                            if k != ell:
                                sums[k, ell] = WHOLE(sums[k, ell] + cuda.selp(k == arm, excess, ZERO))
                                against[ell] = cuda.selp(k == reference, sums[k, ell], against[ell])
                    else:
                        state[3 * ARMS + arm * ARMS + ell, r] += excess
    for k in range(ARMS):
        state[k, r] = n[k]
        state[ARMS + k, r] = total[k]
        state[2 * ARMS + k, r] = out[k]
        if FILTERED and FEW:
            for ell in range(ARMS):
                state[3 * ARMS + k * ARMS + ell, r] = sums[k, ell]
