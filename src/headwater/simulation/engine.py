"""The stepwise engine for finite-level problems: replications of one policy, at compiled speed.

Two shapes of the same rules. ``_single`` runs one replication after the other by
:func:`headwater.policies.kernel.advance`; it serves every policy, and its loops vectorise over arms. ``_lockstep`` runs
a block of replications round by round, with state arrays (K, R), so that its loops vectorise over replications; it
serves UCB1 with and without the most-pulled filter, and is faster for few arms (:data:`LOCKSTEP_ARMS`). They agree
action for action.

Everything drawn is keyed by (seed, replication, round), so results do not depend on threads, blocks or order, and more
replications change nothing already computed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater import streams
from headwater.arrays import Floats, Ints
from headwater.errors import ProblemError
from headwater.policies import indices, kernel
from headwater.policies.kernel import compiled, inlined
from headwater.policies.rules import Spec
from headwater.simulation.atoms import Atoms

__all__ = ["BLOCK", "LOCKSTEP_ARMS", "Counts", "Model", "make_model", "oracle_rewards", "simulate_counts"]

AnyInts = NDArray[Any]  # int32 when the horizon allows: twice as many lanes per instruction
Shape = Literal["auto", "lockstep", "single"]

BLOCK = 128  # replications in lockstep: the state of three arms stays in a 32 KiB cache
LOCKSTEP_ARMS = {kernel.NO_FILTER: 48, kernel.MOST_PULLED: 12}  # measured: beyond, _single is faster

_CHUNK = 8  # rounds drawn ahead in lockstep; even, since a call of the generator serves two
_SINGLE_CHUNK = 256  # and by _single, which vectorises the generator over rounds

_philox = inlined(streams.philox)
_counter = inlined(streams.counter_words)
_join = inlined(streams.join)
_mean = inlined(indices.empirical_mean)
_root = inlined(indices.reciprocal_root)
_width = inlined(indices.ucb1_width)
_ucb1 = inlined(indices.ucb1_index)


class Model(NamedTuple):
    """A finite-level problem and its latent law, as the kernels read it. Build it with :func:`make_model`."""

    table: Ints  # (K, M, K + 1): excesses over every target, then the reward, in units; see policies.kernel
    level: Ints  # (K, J)
    thresholds: Ints  # (J - 1,)
    guide: Ints  # () when J is small
    unit: float
    scale: float  # B
    low: float
    span: float  # every reward lies in [low, low + span]


class Counts(NamedTuple):
    """What N replications did, at C checkpoints."""

    pulls: Ints  # (N, C, K)
    reward: Floats  # (N, C): cumulative realised reward
    excluded: Ints  # (N, K): rounds in which the filter excluded the arm, up to the last checkpoint


def make_model(atoms: Atoms, *, scale: float) -> Model:
    """Lay out atoms for the kernels; ``scale`` is B."""
    thresholds = streams.latent_thresholds(atoms.probability)
    large = atoms.level.shape[1] > streams.LINEAR_ATOMS
    return Model(
        table=atoms.cells,
        level=np.ascontiguousarray(atoms.level),
        thresholds=thresholds,
        guide=streams.guide_table(thresholds) if large else np.empty(0, dtype=np.int64),
        unit=atoms.unit,
        scale=scale,
        low=atoms.low,
        span=atoms.span,
    )


def simulate_counts(
    model: Model,
    spec: Spec,
    *,
    checkpoints: Ints,
    replications: int,
    seed: int,
    first: int = 0,
    threads: int | None = None,
    block: int = BLOCK,
    shape: Shape = "auto",
) -> Counts:
    """Run replications ``first`` to ``first + replications - 1`` of a policy up to the last checkpoint.

    ``checkpoints`` (C,) are round numbers, increasing, the last one the horizon. Time O(replications x horizon x K), memory
    O(replications x C x K).
    """
    key = streams.seed_words(seed)
    rule, reference = kernel.RULES[spec.rule.code], kernel.FILTERS[spec.reference]
    dtype = _integers(model, int(checkpoints[-1]))
    arms = len(model.level)
    lockstep = rule == kernel.UCB1 and reference in LOCKSTEP_ARMS
    lockstep = lockstep and (shape == "lockstep" or (shape == "auto" and arms <= LOCKSTEP_ARMS[reference]))
    out = _Output(
        np.zeros((replications, checkpoints.size, arms), dtype=np.int64),
        np.zeros((replications, checkpoints.size), dtype=np.int64),
        np.zeros((replications, arms), dtype=np.int64),
    )
    workers = (
        threads
        if threads is not None
        else len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    # Small jobs still use every thread: blocks shrink, which results do not notice.
    block = max(1, min(block, -(-replications // workers)))

    def run(start: int) -> None:
        part = _Output(*(x[start : start + block] for x in out))
        if lockstep:
            _run_lockstep(model, reference, checkpoints, key, first + start, dtype, part)
        else:
            _run_single(model, spec, checkpoints, key, first + start, dtype, part)

    _in_threads(run, range(0, replications, block), workers)
    return Counts(out.pulls, np.asarray(out.reward * model.unit, dtype=float), out.excluded)


def oracle_rewards(model: Model, arm: int, *, checkpoints: Ints, replications: int, seed: int, first: int = 0) -> Floats:
    """What always pulling ``arm`` would have paid up to each checkpoint, on the same x_t: shape (N, C)."""
    out = np.zeros((replications, checkpoints.size), dtype=np.int64)
    pays = model.table[arm, model.level[arm], -1]
    _follow(first, *streams.seed_words(seed), model.thresholds, model.guide, pays, checkpoints, out)
    return np.asarray(out * model.unit, dtype=float)


_Dtype = type[np.int32] | type[np.int64]


class _Output(NamedTuple):
    pulls: Ints
    reward: Ints
    excluded: Ints


def _integers(model: Model, horizon: int) -> _Dtype:
    """The narrowest integers that no sum can overflow; refuses a horizon that is too long for exact sums."""
    largest = max(int(np.abs(model.table).max()), 1) * horizon
    if largest >= 2**62:
        raise ProblemError(f"horizon: got {horizon:,}; expected at most {2**62 * horizon // largest:,} for sums to stay exact")
    return np.int32 if max(largest, model.level.size) < 2**31 else np.int64


def _in_threads(run: Callable[[int], None], starts: Sequence[int], workers: int) -> None:
    """Run every block. Kernels release the GIL; an interrupt drops the blocks not yet begun and is raised again."""
    with ThreadPoolExecutor(max_workers=workers) as pool:
        pending = {pool.submit(run, start) for start in starts}
        try:
            while pending:
                finished, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
                for future in finished:
                    future.result()
        except BaseException:
            for future in pending:
                future.cancel()
            raise


def _run_single(model: Model, spec: Spec, rounds: Ints, key: tuple[int, int], first: int, dtype: _Dtype, out: _Output) -> None:
    meta = np.zeros(kernel.META, dtype=np.int64)
    meta[kernel.POLICY], meta[kernel.REFERENCE] = kernel.RULES[spec.rule.code], kernel.FILTERS[spec.reference]
    meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH] = key
    params = np.array([model.unit, model.scale, spec.sd(model.scale), model.low, model.span])
    counted = meta[kernel.POLICY] == kernel.KL_EMPIRICAL
    seen = np.zeros(model.table.shape[:2] if counted else (0, 0), dtype=np.int64)
    draws = (model.thresholds, model.guide)
    _single(first, meta, params, seen, model.table.astype(dtype), model.level, *draws, rounds, *out)


def _run_lockstep(
    model: Model,
    reference: int,
    rounds: Ints,
    key: tuple[int, int],
    first: int,
    dtype: _Dtype,
    out: _Output,
) -> None:
    arms, atoms = model.level.shape
    by_atom = model.table[np.arange(arms)[:, None], model.level].reshape(arms * atoms, arms + 1)
    cells = np.ascontiguousarray(np.roll(by_atom, 1, axis=1).T.astype(dtype))
    ids = np.arange(max(arms, 2), dtype=dtype)
    filtered = reference == kernel.MOST_PULLED
    draws = (model.thresholds, model.guide)
    _lockstep(first, *key, *draws, ids, cells, model.unit, model.scale, filtered, rounds, *out)


# --- one replication after the other ---------------------------------------------------------------------------------


@inlined
def _atom(u: int, thresholds: Ints, guide: Ints, shift: int) -> Any:
    """The atom of a 53-bit uniform, from where the guide table points. O(1) expected."""
    j = guide[u >> shift]
    while j < thresholds.size and u >= thresholds[j]:
        j += 1
    return j


@inlined
def _shift(guide: Ints) -> int:
    """How far to shift a 53-bit uniform to index a guide table of 2**b entries."""
    bits = 0
    while (1 << bits) < guide.size:
        bits += 1
    return streams.UNIFORM_BITS - bits


@compiled
def _draw_rounds(
    start: int, replication: int, k0: int, k1: int, thresholds: Ints, guide: Ints, u: Ints, v: Ints, atoms: Ints
) -> None:
    """The atoms of one replication in rounds start + 1, ..., start + atoms.size; start is even.

    u and v are scratch for at least half as many uniforms, rounded up; the generator vectorises over rounds.
    """
    for b in range((atoms.size + 1) // 2):
        c0, c1, c2, c3 = _counter(start // 2 + b, replication, streams.LATENT, 0)
        w0, w1, w2, w3 = _philox(c0, c1, c2, c3, k0, k1)
        u[b] = _join(w0, w1)
        v[b] = _join(w2, w3)
    shift = _shift(guide)
    for i in range(atoms.size):
        x = v[i // 2] if i % 2 else u[i // 2]
        j = 0
        if guide.size:
            j = _atom(x, thresholds, guide, shift)
        else:
            for h in range(thresholds.size):
                j += 1 if x >= thresholds[h] else 0
        atoms[i] = j


@compiled
def _single(
    first: int,
    meta: Ints,
    params: Floats,
    seen: Ints,
    table: AnyInts,
    level: Ints,
    thresholds: Ints,
    guide: Ints,
    checkpoints: Ints,
    pulls: Ints,
    reward: Ints,
    excluded: Ints,
) -> None:
    """Replications first, first + 1, ...: select, draw, observe; fills pulls, reward and excluded."""
    arms = level.shape[0]
    counts = np.zeros((kernel.COUNTS, arms), dtype=np.int64)
    sums = np.zeros((arms, arms), dtype=table.dtype)
    out = np.zeros(arms, dtype=table.dtype)
    mean = np.zeros(arms)
    root = np.zeros(arms)
    index = np.zeros(arms)
    u = np.empty(_SINGLE_CHUNK // 2, dtype=np.int64)
    v = np.empty(_SINGLE_CHUNK // 2, dtype=np.int64)
    atoms = np.empty(_SINGLE_CHUNK, dtype=np.int64)
    for i in range(pulls.shape[0]):
        meta[kernel.REPLICATION] = first + i
        kernel.reset(meta, counts, sums, mean, root)
        out[:] = 0
        seen[:] = 0
        t = 0
        for c in range(checkpoints.size):
            while t < checkpoints[c]:
                at = t % _SINGLE_CHUNK
                if at == 0:
                    k0, k1 = meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH]
                    _draw_rounds(t, first + i, k0, k1, thresholds, guide, u, v, atoms)
                some = atoms[at : min(_SINGLE_CHUNK, at + checkpoints[c] - t)]
                kernel.advance(kernel.PLAY, 0, 0, meta, params, counts, sums, mean, root, index, seen, table, level, some, out)
                t += some.size
            for k in range(arms):
                pulls[i, c, k] = counts[kernel.PULLS, k]
                reward[i, c] += counts[kernel.TOTAL, k]
        for k in range(arms):
            excluded[i, k] = out[k]


@compiled
def _follow(first: int, k0: int, k1: int, thresholds: Ints, guide: Ints, pays: Ints, checkpoints: Ints, reward: Ints) -> None:
    """The rewards ``pays[j]`` of one fixed arm along the x_t of each replication; fills reward (N, C)."""
    u = np.empty(_SINGLE_CHUNK // 2, dtype=np.int64)
    v = np.empty(_SINGLE_CHUNK // 2, dtype=np.int64)
    atoms = np.empty(_SINGLE_CHUNK, dtype=np.int64)
    for i in range(reward.shape[0]):
        t, total = 0, 0
        for c in range(checkpoints.size):
            while t < checkpoints[c]:
                if t % _SINGLE_CHUNK == 0:
                    _draw_rounds(t, first + i, k0, k1, thresholds, guide, u, v, atoms)
                total += pays[atoms[t % _SINGLE_CHUNK]]
                t += 1
            reward[i, c] = total


# --- a block of replications in lockstep -----------------------------------------------------------------------------
#
# Each loop over the lanes r touches few arrays and stores to at most two: LLVM gives up on a loop that needs more than
# eight checks for overlap. Rows are indexed, never sliced, and the loops stand in one long function: a slice or a call
# costs two reference counts for each array, which was a third of the time. ``ids`` are the arms' numbers in the
# integers' own type, because a comparison with a wider integer halves the lanes.


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
    shift = _shift(guide)
    for b in range(_CHUNK // 2):
        for r in range(u.size):
            c0, c1, c2, c3 = _counter(block + b, first + r, streams.LATENT, 0)
            w0, w1, w2, w3 = _philox(c0, c1, c2, c3, k0, k1)
            u[r] = _join(w0, w1)
            v[r] = _join(w2, w3)
        if guide.size:
            for r in range(u.size):
                atom[2 * b, r] = _atom(u[r], thresholds, guide, shift)
                atom[2 * b + 1, r] = _atom(v[r], thresholds, guide, shift)
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


@compiled
def _lockstep(
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
