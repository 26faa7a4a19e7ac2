"""The stepwise engine for finite-level problems: replications of one policy, at compiled speed.

Two shapes of the same rules. ``_single`` runs one replication after the other by
:func:`headwater.policies.kernel.advance`; it serves every policy, and its loops vectorise over arms. ``lockstep`` runs
a block of replications round by round, with state arrays (K, R), so that its loops vectorise over replications; it
serves UCB1 with and without the most-pulled filter, and is faster for few arms (:data:`LOCKSTEP_ARMS`). They agree
action for action.

Everything drawn is keyed by (seed, replication, round), so results do not depend on threads, blocks or order, and more
replications change nothing already computed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Literal, NamedTuple

import numpy as np

from headwater import streams
from headwater.arrays import Floats, Ints
from headwater.errors import ProblemError
from headwater.policies import kernel
from headwater.policies.compile import compiled
from headwater.policies.kernel import AnyInts
from headwater.policies.rules import Spec
from headwater.simulation.atoms import Atoms
from headwater.simulation.draws import draw_rounds
from headwater.simulation.lockstep import lockstep as run_lanes

__all__ = ["BLOCK", "LOCKSTEP_ARMS", "Counts", "Model", "make_model", "oracle_rewards", "simulate_counts"]

Shape = Literal["auto", "lockstep", "single"]

BLOCK = 128  # replications in lockstep: the state of three arms stays in a 32 KiB cache
LOCKSTEP_ARMS = {kernel.NO_FILTER: 48, kernel.MOST_PULLED: 12}  # measured: beyond, _single is faster

_CHUNK = 256  # rounds drawn ahead, so that the generator vectorises over them


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
    progress: Callable[[int], None] | None = None,
) -> Counts:
    """Run replications ``first`` to ``first + replications - 1`` of a policy up to the last checkpoint.

    ``checkpoints`` (C,) are round numbers, increasing, the last one the horizon. ``progress`` is told the rounds done, about
    ten times a second. Time O(replications x horizon x K), memory O(replications x C x K).
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

    def run(start: int, stop: int, watch: Ints, slot: int) -> None:
        part = _Output(*(x[start:stop] for x in out))
        if lockstep:
            _run_lockstep(model, reference, checkpoints, key, first + start, dtype, watch, slot, part)
        else:
            _run_single(model, spec, checkpoints, key, first + start, dtype, watch, slot, part)

    _in_threads(run, replications, block, threads, progress)
    return Counts(out.pulls, np.asarray(out.reward * model.unit, dtype=float), out.excluded)


def oracle_rewards(
    model: Model, arm: int, *, checkpoints: Ints, replications: int, seed: int, first: int = 0, threads: int | None = None
) -> Floats:
    """What always pulling ``arm`` would have paid up to each checkpoint, on the same x_t: shape (N, C)."""
    out = np.zeros((replications, checkpoints.size), dtype=np.int64)
    pays = model.table[arm, model.level[arm], -1]
    key = streams.seed_words(seed)

    def run(start: int, stop: int, watch: Ints, slot: int) -> None:
        draws = (model.thresholds, model.guide)
        _follow(first + start, *key, *draws, pays, checkpoints, watch, slot, out[start:stop])

    _in_threads(run, replications, BLOCK, threads, None)
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


def core_count() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_threads(
    run: Callable[[int, int, Ints, int], None],
    replications: int,
    block: int,
    threads: int | None,
    progress: Callable[[int], None] | None,
) -> None:
    """Run blocks of replications; kernels release the GIL. An interrupt stops the running blocks within a moment, drops the
    others and is raised again.

    ``watch[0]`` tells the kernels to stop; block b tells the rounds it has done in ``watch[1 + b]``.
    """
    workers = threads if threads is not None else core_count()
    # Small jobs still use every thread: blocks shrink, which results do not notice.
    block = max(1, min(block, -(-replications // workers)))
    starts = range(0, replications, block)
    watch = np.zeros(1 + len(starts), dtype=np.int64)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        pending = {pool.submit(run, start, min(start + block, replications), watch, 1 + b) for b, start in enumerate(starts)}
        try:
            while pending:
                finished, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
                for future in finished:
                    future.result()
                if progress is not None:
                    progress(int(watch[1:].sum()))
        except BaseException:
            watch[0] = 1
            for future in pending:
                future.cancel()
            raise


def _run_single(
    model: Model,
    spec: Spec,
    rounds: Ints,
    key: tuple[int, int],
    first: int,
    dtype: _Dtype,
    watch: Ints,
    slot: int,
    out: _Output,
) -> None:
    meta = np.zeros(kernel.META, dtype=np.int64)
    meta[kernel.POLICY], meta[kernel.REFERENCE] = kernel.RULES[spec.rule.code], kernel.FILTERS[spec.reference]
    meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH] = key
    params = np.array([model.unit, model.scale, spec.sd(model.scale), model.low, model.span])
    counted = meta[kernel.POLICY] == kernel.KL_EMPIRICAL
    seen = np.zeros(model.table.shape[:2] if counted else (0, 0), dtype=np.int64)
    draws = (model.thresholds, model.guide)
    _single(first, meta, params, seen, model.table.astype(dtype), model.level, *draws, rounds, watch, slot, *out)


def _run_lockstep(
    model: Model,
    reference: int,
    rounds: Ints,
    key: tuple[int, int],
    first: int,
    dtype: _Dtype,
    watch: Ints,
    slot: int,
    out: _Output,
) -> None:
    arms, atoms = model.level.shape
    by_atom = model.table[np.arange(arms)[:, None], model.level].reshape(arms * atoms, arms + 1)
    cells = np.ascontiguousarray(np.roll(by_atom, 1, axis=1).T.astype(dtype))
    ids = np.arange(max(arms, 2), dtype=dtype)
    filtered = reference == kernel.MOST_PULLED
    draws = (model.thresholds, model.guide)
    run_lanes(first, *key, *draws, ids, cells, model.unit, model.scale, filtered, rounds, watch, slot, *out)


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
    watch: Ints,
    slot: int,
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
    u = np.empty(_CHUNK // 2, dtype=np.int64)
    v = np.empty(_CHUNK // 2, dtype=np.int64)
    atoms = np.empty(_CHUNK, dtype=np.int64)
    for i in range(pulls.shape[0]):
        meta[kernel.REPLICATION] = first + i
        kernel.reset(meta, counts, sums, mean, root)
        out[:] = 0
        seen[:] = 0
        t = 0
        for c in range(checkpoints.size):
            while t < checkpoints[c]:
                at = t % _CHUNK
                if at == 0:
                    if watch[0]:
                        return
                    watch[slot] = i * checkpoints[-1] + t
                    k0, k1 = meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH]
                    draw_rounds(t, first + i, k0, k1, thresholds, guide, u, v, atoms)
                some = atoms[at : min(_CHUNK, at + checkpoints[c] - t)]
                kernel.advance(kernel.PLAY, 0, 0, meta, params, counts, sums, mean, root, index, seen, table, level, some, out)
                t += some.size
            for k in range(arms):
                pulls[i, c, k] = counts[kernel.PULLS, k]
                reward[i, c] += counts[kernel.TOTAL, k]
        for k in range(arms):
            excluded[i, k] = out[k]


@compiled
def _follow(
    first: int,
    k0: int,
    k1: int,
    thresholds: Ints,
    guide: Ints,
    pays: Ints,
    checkpoints: Ints,
    watch: Ints,
    slot: int,
    reward: Ints,
) -> None:
    """The rewards ``pays[j]`` of one fixed arm along the x_t of each replication; fills reward (N, C)."""
    u = np.empty(_CHUNK // 2, dtype=np.int64)
    v = np.empty(_CHUNK // 2, dtype=np.int64)
    atoms = np.empty(_CHUNK, dtype=np.int64)
    for i in range(reward.shape[0]):
        t, total = 0, 0
        for c in range(checkpoints.size):
            while t < checkpoints[c]:
                if t % _CHUNK == 0:
                    if watch[0]:
                        return
                    watch[slot] = i * checkpoints[-1] + t
                    draw_rounds(t, first + i, k0, k1, thresholds, guide, u, v, atoms)
                total += pays[atoms[t % _CHUNK]]
                t += 1
            reward[i, c] = total
