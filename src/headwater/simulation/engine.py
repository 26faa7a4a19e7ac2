"""The stepwise engine for finite-level problems: replications of one policy, at compiled speed.

Two shapes of the same rules, and a third for random rewards. ``_single`` runs one replication after the other by
:func:`headwater.policies.kernel.advance`; it serves every policy, and its loops vectorise over arms. ``lockstep`` runs
a block of replications round by round, with state arrays (K, R), so that its loops vectorise over replications; it
serves UCB1 with and without the most-pulled filter, and is faster for few arms (:data:`LOCKSTEP_ARMS`). They agree
action for action. ``_single_noisy`` draws each reward from its channel, and keeps what random rewards imply up to date.

Everything drawn is keyed by (seed, replication, round), so results do not depend on threads, blocks or order, and more
replications change nothing already computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from headwater import streams
from headwater.arrays import AnyInts, Floats, Ints
from headwater.errors import ProblemError
from headwater.policies import kernel, noisy
from headwater.policies.compile import allocating
from headwater.policies.contenders import make_crowd
from headwater.policies.evidence import Evidence
from headwater.policies.leaders import make_leaders, make_seen
from headwater.policies.learner import learner_for
from headwater.policies.rules import Spec
from headwater.policies.table import Channelled, Columns
from headwater.simulation.atoms import Atoms
from headwater.simulation.draws import draw_rewards, draw_rounds, level_of
from headwater.simulation.leap import SURE, Source, chances_of, law_of, leap, make_room
from headwater.simulation.learners import play_learners
from headwater.simulation.lockstep import lockstep as run_lanes
from headwater.simulation.many import play_many
from headwater.simulation.threads import in_threads

__all__ = [
    "BLOCK",
    "LOCKSTEP_ARMS",
    "Counts",
    "Model",
    "expected_rewards",
    "make_model",
    "oracle_rewards",
    "setting_of",
    "simulate_counts",
    "simulate_leaps",
]

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
    cuts: Ints  # (K, J, M - 1) where some arm's reward is random, else empty; see Atoms
    channelled: Channelled | None
    evidence: Evidence | None  # what policies that learn the law of X read; None where no such policy can run
    bins: Ints  # (K, M): the bin of each level
    columns: Columns | None  # what stands for the table where that would be too large; level is then (K, 0)


class Counts(NamedTuple):
    """What N replications did, at C checkpoints."""

    pulls: Ints  # (N, C, K)
    reward: Floats  # (N, C): cumulative realised reward
    excluded: Ints  # (N, K): rounds in which the filter excluded the arm, up to the last checkpoint


def make_model(atoms: Atoms, *, scale: float, evidence: Evidence | None = None) -> Model:
    """Lay out atoms for the kernels; ``scale`` is B; ``evidence`` is needed by policies that learn the law of X."""
    thresholds = streams.latent_thresholds(atoms.probability)
    large = len(atoms.probability) > streams.LINEAR_ATOMS
    return Model(
        table=atoms.cells,
        level=np.ascontiguousarray(atoms.level),
        thresholds=thresholds,
        guide=streams.guide_table(thresholds) if large else np.empty(0, dtype=np.int64),
        unit=atoms.unit,
        scale=scale,
        low=atoms.low,
        span=atoms.span,
        cuts=atoms.cuts,
        channelled=atoms.channelled,
        evidence=evidence,
        bins=np.empty((0, 0), dtype=np.int64) if evidence is None else evidence.bins(atoms.values),
        columns=atoms.columns,
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
    lockstep = rule == kernel.UCB1 and reference in LOCKSTEP_ARMS and not spec.audit and not model.cuts.size
    lockstep = lockstep and (shape == "lockstep" or (shape == "auto" and arms <= LOCKSTEP_ARMS[reference]))
    out = _Output(
        np.zeros((replications, checkpoints.size, arms), dtype=np.int64),
        np.zeros((replications, checkpoints.size), dtype=np.int64),
        np.zeros((replications, arms), dtype=np.int64),
    )

    def run(start: int, stop: int, watch: Ints, slot: int) -> None:
        part = _Output(*(x[start:stop] for x in out))
        if model.columns is not None:
            _run_many(model, model.columns, spec, checkpoints, key, first + start, watch, slot, part)
        elif lockstep:
            _run_lockstep(model, reference, checkpoints, key, first + start, dtype, watch, slot, part)
        elif spec.learns:
            _run_learners(model, spec, checkpoints, key, first + start, watch, slot, part)
        elif model.channelled is not None:
            _run_noisy(model, model.channelled, spec, checkpoints, key, first + start, watch, slot, part)
        else:
            _run_single(model, spec, checkpoints, key, first + start, dtype, watch, slot, part)

    in_threads(run, replications, block, threads, progress)
    return Counts(out.pulls, np.asarray(out.reward * model.unit, dtype=float), out.excluded)


def simulate_leaps(
    model: Model,
    spec: Spec,
    *,
    checkpoints: Ints,
    replications: int,
    seed: int,
    first: int = 0,
    threads: int | None = None,
    longest: int = 2**62,
    sure: float = SURE,
    progress: Callable[[int], None] | None = None,
) -> Counts:
    """As ``simulate_counts``, for policies and problems that ``leap`` serves: the same law, not the same draws.

    Rounds in which an arm is excluded are not counted: -1. Stretches of more than ``longest`` rounds are not tried; see
    ``leap`` for ``sure``. Time is polylogarithmic in the horizon.
    """
    _integers(model, int(checkpoints[-1]))
    key, arms = streams.seed_words(seed), len(model.level)
    pulls = np.zeros((replications, checkpoints.size, arms), dtype=np.int64)
    reward = np.zeros((replications, checkpoints.size), dtype=np.int64)
    law = chances_of(model.table, model.level, model.thresholds, model.cuts)

    def run(start: int, stop: int, watch: Ints, slot: int) -> None:
        source = Source(model.table, model.level, model.cuts, model.thresholds, model.guide)
        (meta, params), room = setting_of(model, spec, key), make_room(arms, model.table.shape[1], seed)
        horizon = int(checkpoints[-1])
        for i in range(start, stop):
            done = (i - start) * horizon
            how = (longest, sure, checkpoints, watch, slot, room)
            leap(first + i, done, meta, params, source, law, *how, pulls[i], reward[i])
            if watch[0]:
                return

    in_threads(run, replications, 8, threads, progress)
    return Counts(pulls, np.asarray(reward * model.unit, dtype=float), np.full((replications, arms), -1, dtype=np.int64))


def oracle_rewards(
    model: Model, arm: int, *, checkpoints: Ints, replications: int, seed: int, first: int = 0, threads: int | None = None
) -> Floats:
    """What always pulling ``arm`` would have paid up to each checkpoint, on the same draws: shape (N, C)."""
    out = np.zeros((replications, checkpoints.size), dtype=np.int64)
    if model.columns is not None:
        cuts, (up, less, _, _) = model.cuts, model.columns
        pays = up[:, arm].astype(np.int64) - (less[arm] if less.size else 0)
    elif model.cuts.size:
        cuts, pays = model.cuts[arm : arm + 1], model.table[arm, :, -1]
    else:
        cuts, pays = model.cuts, model.table[arm, model.level[arm], -1]
    pays, key = np.ascontiguousarray(pays), streams.seed_words(seed)

    def run(start: int, stop: int, watch: Ints, slot: int) -> None:
        draws = (model.thresholds, model.guide)
        _follow(first + start, *key, *draws, pays, cuts, checkpoints, watch, slot, out[start:stop])

    in_threads(run, replications, BLOCK, threads, None)
    return np.asarray(out * model.unit, dtype=float)


def expected_rewards(model: Model, arm: int) -> float:
    """The mean reward of an arm."""
    law = law_of(arm, model.table.shape[1], model.level, model.thresholds, model.cuts)
    return float(law @ model.table[arm, :, -1] * model.unit)


_Dtype = type[np.int32] | type[np.int64]


class _Output(NamedTuple):
    pulls: Ints
    reward: Ints
    excluded: Ints


def _integers(model: Model, horizon: int) -> _Dtype:
    """The narrowest integers that no sum can overflow; refuses a horizon that is too long for exact sums."""
    # columns hold int32, whose differences are below 2**32
    largest = horizon * (max(int(np.abs(model.table).max()), 1) if model.columns is None else 2**32)
    if largest >= 2**62:
        raise ProblemError(f"horizon: got {horizon:,}; expected at most {2**62 * horizon // largest:,} for sums to stay exact")
    return np.int32 if max(largest, model.level.size) < 2**31 else np.int64


def setting_of(model: Model, spec: Spec, key: tuple[int, int]) -> tuple[Ints, Floats]:
    """The kernel's meta and params."""
    meta = np.zeros(kernel.META, dtype=np.int64)
    meta[kernel.POLICY], meta[kernel.REFERENCE] = kernel.RULES[spec.rule.code], kernel.FILTERS[spec.reference]
    meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH] = key
    return meta, np.array(
        [model.unit, model.scale, spec.sd(model.scale), model.low, model.span, spec.audit, spec.schedule == "late"]
    )


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
    meta, params = setting_of(model, spec, key)
    counted = meta[kernel.POLICY] == kernel.KL_EMPIRICAL
    seen = np.zeros(model.table.shape[:2] if counted else (0, 0), dtype=np.int64)
    draws = (model.thresholds, model.guide)
    _single(first, meta, params, seen, model.table.astype(dtype), model.level, *draws, rounds, watch, slot, *out)


def _run_many(
    model: Model,
    columns: Columns,
    spec: Spec,
    rounds: Ints,
    key: tuple[int, int],
    first: int,
    watch: Ints,
    slot: int,
    out: _Output,
) -> None:
    filtered, (atoms, arms) = spec.reference != "none", columns.up.shape
    meta, params = setting_of(model, spec, key)
    crowd = make_crowd(arms, atoms if filtered else 1)
    room, seen = make_leaders(arms if filtered else 1, atoms if filtered else 1), make_seen(1024 if filtered else 0)
    draws = (model.thresholds, model.guide)
    play_many(first, meta, params, columns, crowd, room, seen, *draws, rounds, watch, slot, out.pulls, out.reward)
    out.excluded[:] = -1


def _run_learners(
    model: Model, spec: Spec, rounds: Ints, key: tuple[int, int], first: int, watch: Ints, slot: int, out: _Output
) -> None:
    assert model.evidence is not None
    meta, params = setting_of(model, spec, key)
    learner = learner_for(spec, model.evidence, model.bins)
    draws = (model.table, model.level, model.cuts, model.thresholds, model.guide)
    play_learners(first, meta, params, *draws, learner, rounds, watch, slot, *out)


def _run_noisy(
    model: Model,
    channelled: Channelled,
    spec: Spec,
    rounds: Ints,
    key: tuple[int, int],
    first: int,
    watch: Ints,
    slot: int,
    out: _Output,
) -> None:
    meta, params = setting_of(model, spec, key)
    draws = (model.thresholds, model.guide)
    _single_noisy(first, meta, params, model.table, model.cuts, *channelled, *draws, rounds, watch, slot, *out)


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


@allocating
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


@allocating
def _single_noisy(
    first: int,
    meta: Ints,
    params: Floats,
    table: Ints,
    cuts: Ints,
    channel: Floats,
    bare: Ints,
    room: int,
    thresholds: Ints,
    guide: Ints,
    checkpoints: Ints,
    watch: Ints,
    slot: int,
    pulls: Ints,
    reward: Ints,
    excluded: Ints,
) -> None:
    """As ``_single``, where some arm's reward is random. Every replication starts from ``bare``: ``Channelled.fits``."""
    arms, rounds = table.shape[0], checkpoints[-1]
    k0, k1 = meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH]
    counts = np.zeros((kernel.COUNTS, arms), dtype=np.int64)
    sums = np.zeros((arms, arms), dtype=np.int64)
    seen = np.zeros(table.shape[:2], dtype=np.int64)
    fits, work = bare.copy(), np.zeros(room)
    mean, root, index = np.zeros(arms), np.zeros(arms), np.zeros(arms)
    u, v = np.empty(_CHUNK // 2, dtype=np.int64), np.empty(_CHUNK // 2, dtype=np.int64)
    atoms, coin = np.empty(_CHUNK, dtype=np.int64), np.empty(_CHUNK, dtype=np.int64)
    for i in range(pulls.shape[0]):
        meta[kernel.REPLICATION] = first + i
        kernel.reset(meta, counts, sums, mean, root)
        seen[:] = 0
        fits[:] = bare
        c = 0
        for t in range(rounds):
            at = t % _CHUNK
            if at == 0:
                if watch[0]:
                    return
                watch[slot] = i * rounds + t
                draw_rounds(t, first + i, k0, k1, thresholds, guide, u, v, atoms)
                draw_rewards(t, first + i, k0, k1, coin)
            noisy.refresh(meta, counts, sums, seen, channel, fits, work)
            # Only PLAY reads level, atoms and out: any arrays of their types will do.
            arm = kernel.advance(
                kernel.SELECT, 0, 0, meta, params, counts, sums, mean, root, index, seen, table, counts, meta, meta
            )
            for k in range(arms):
                excluded[i, k] += 1 if index[k] == -np.inf else 0
            m = level_of(coin[at], cuts, arm, atoms[at])
            kernel.advance(
                kernel.OBSERVE, arm, m, meta, params, counts, sums, mean, root, index, seen, table, counts, meta, meta
            )
            if t + 1 == checkpoints[c]:
                for k in range(arms):
                    pulls[i, c, k] = counts[kernel.PULLS, k]
                    reward[i, c] += counts[kernel.TOTAL, k]
                c += 1


@allocating
def _follow(
    first: int,
    k0: int,
    k1: int,
    thresholds: Ints,
    guide: Ints,
    pays: Ints,
    cuts: Ints,
    checkpoints: Ints,
    watch: Ints,
    slot: int,
    reward: Ints,
) -> None:
    """The rewards of one fixed arm along the draws of each replication; fills reward (N, C).

    ``pays[j]`` by atom where ``cuts`` is empty, else ``pays[m]`` by level, ``cuts`` (1, J, M - 1) deciding which.
    """
    u = np.empty(_CHUNK // 2, dtype=np.int64)
    v = np.empty(_CHUNK // 2, dtype=np.int64)
    atoms = np.empty(_CHUNK, dtype=np.int64)
    coin = np.empty(_CHUNK, dtype=np.int64)
    for i in range(reward.shape[0]):
        t, total = 0, 0
        for c in range(checkpoints.size):
            while t < checkpoints[c]:
                if t % _CHUNK == 0:
                    if watch[0]:
                        return
                    watch[slot] = i * checkpoints[-1] + t
                    draw_rounds(t, first + i, k0, k1, thresholds, guide, u, v, atoms)
                    if cuts.size:
                        draw_rewards(t, first + i, k0, k1, coin)
                at = t % _CHUNK
                total += pays[level_of(coin[at], cuts, 0, atoms[at]) if cuts.size else atoms[at]]
                t += 1
            reward[i, c] = total
