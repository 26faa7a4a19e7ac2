"""What the GPU's kernels are made of: ``numba.cuda``, imported with care, and the scalar functions of the CPU, compiled for it.

This module imports ``numba.cuda``; nothing imports it before a GPU is asked for.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from headwater import streams
from headwater.policies import indices
from headwater.simulation import draws
from headwater.simulation.unroll import with_products

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

cuda: Any = numba_cuda


def device(function: Any) -> Any:
    """Compile for the GPU, as part of a kernel. IEEE arithmetic, but for sums of products, which are fused."""
    return cuda.jit(device=True)(function)


# --- single instructions ---------------------------------------------------------------------------------------------


@intrinsic
def _wide(context, x, y):  # type: ignore[no-untyped-def]
    """The 64-bit product of two 32-bit words, as the one instruction that it is: NVVM makes two of it."""

    def generate(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        word, double = ir.IntType(32), ir.IntType(64)
        words = [builder.trunc(arg, word) for arg in args]
        return builder.asm(ir.FunctionType(double, [word, word]), "mul.wide.u32 $0, $1, $2;", "=l,r,r", words, False)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def _fast_root(context, x):  # type: ignore[no-untyped-def]
    """1 / sqrt(x) in one instruction, to within two units in the last place."""

    def generate(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        real = ir.FloatType()
        return builder.asm(ir.FunctionType(real, [real]), "rsqrt.approx.ftz.f32 $0, $1;", "=f,f", args, False)

    return types.float32(types.float32), generate


def _slow_root(x: Any) -> Any:
    return np.float32(1.0 / math.sqrt(x))


def _shuffled(mask, value, lane):  # type: ignore[no-untyped-def]
    """The value that another lane of the warp has; all lanes of the mask ask at the same time."""
    return cuda.shfl_sync(mask, value, lane)


def _passed(mask, value, lane):  # type: ignore[no-untyped-def]
    """The same in the simulator, which knows no warps; exact below 2**53."""
    values = cuda.shared.array(1024, np.float64)
    i = cuda.threadIdx.x
    values[i] = value
    cuda.syncthreads()
    found = values[i // 32 * 32 + lane]
    cuda.syncthreads()
    return type(value)(found)


def _alone(x: float, y: float) -> Any:
    """x * y, rounded: numba-cuda fuses a product with the sum that follows, which the CPU does not."""
    return cuda.libdevice.dmul_rn(x, y)


# --- the CPU's functions ---------------------------------------------------------------------------------------------

philox = device(streams.philox if SIMULATED else with_products(streams.philox, _wide))
counter = device(streams.counter_words)
join = device(streams.join)
open_unit = device(streams.to_open_unit)
atom_of = device(draws.atom_of.py_func)  # type: ignore[attr-defined]
mean_of = device(indices.empirical_mean)
root_of = device(indices.reciprocal_root)
ucb1 = device(indices.ucb1_index)
ucb1_exact = ucb1 if SIMULATED else device(with_products(indices.ucb1_index, device(_alone)))
normal = device(indices.normal_index)
quantile = device(indices.normal_quantile)
kl_ucb = device(indices.kl_ucb_index)
kl_reaches = device(indices.kl_ucb_reaches)
from_lane = device(_passed if SIMULATED else _shuffled)
_single_root: Any = _slow_root if SIMULATED else _fast_root


@device
def uniforms(block, replication, purpose, lane, k0, k1):  # type: ignore[no-untyped-def]
    c0, c1, c2, c3 = counter(block, replication, purpose, lane)
    w0, w1, w2, w3 = philox(c0, c1, c2, c3, k0, k1)
    return join(w0, w1), join(w2, w3)


# --- an arm's mean and 1 / sqrt(n), from what it paid in n >= 1 pulls ------------------------------------------------


@device
def single(total, n, unit, roots):  # type: ignore[no-untyped-def]
    """In single precision, without a table: a division costs more than the rounding of 1 / sqrt(n), twice."""
    root = _single_root(np.float32(n))
    return np.float32(np.float32(np.float32(total) * unit) * np.float32(root * root)), root


@device
def tabled(total, n, unit, roots):  # type: ignore[no-untyped-def]
    return mean_of(float(total), float(n), unit), roots[np.uint64(n)]


@device
def tabled_or_not(total, n, unit, roots):  # type: ignore[no-untyped-def]
    """Where an arm may be pulled more often than the table is long."""
    return mean_of(float(total), float(n), unit), roots[np.uint64(n)] if n < roots.size else root_of(float(n))
