"""The stepwise engine for finite-level problems: replications of one policy, in native code.

Two shapes of the same rules. ``single`` plays one replication after the other; it serves every policy. ``lockstep`` plays
replications side by side in the lanes of wide registers; it serves index policies on few arms whose rewards X decides, and is
faster there (:data:`LOCKSTEP_ARMS`). They agree action for action.

Everything drawn is keyed by (seed, replication, round), so results do not depend on threads, blocks or order, and more
replications change nothing already computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from headwater import native, streams
from headwater.arrays import Floats, Ints
from headwater.errors import ProblemError
from headwater.policies.core import model_of_rewards, settings_of
from headwater.policies.evidence import Evidence
from headwater.policies.rules import Spec
from headwater.policies.table import Columns
from headwater.simulation.atoms import Atoms
from headwater.simulation.leap import SURE, chances_of, law_of
from headwater.simulation.threads import in_threads

__all__ = [
    "BLOCK",
    "LOCKSTEP_ARMS",
    "Counts",
    "Model",
    "core_of",
    "expected_rewards",
    "make_model",
    "oracle_rewards",
    "simulate_counts",
    "simulate_leaps",
    "source_of",
]

Shape = Literal["auto", "lockstep", "single"]

BLOCK = 128
"""Replications that a thread plays before it looks for more."""
LOCKSTEP_ARMS = {"baseline": (3, 3), "avx2": (16, 48), "avx512": (24, 48)}
"""Arms up to which lanes are faster, by build: for UCB1's simple index, and for rules that draw or search. Measured."""
EXACT = 2**53
"""Whole numbers up to here are exact in the lanes, which count in floats."""


class Model(NamedTuple):
    """A finite-level problem and its latent law, as the kernels read it. Build it with :func:`make_model`."""

    table: Ints  # (K, M, K + 1): excesses over every target, then the reward, in units; see native/model.h
    level: Ints  # (K, J)
    thresholds: Ints  # (J - 1,)
    guide: Ints  # () when J is small
    unit: float
    scale: float  # B
    low: float
    span: float  # every reward lies in [low, low + span]
    cuts: Ints  # (K, J, M - 1) where some arm's reward is random, else empty; see Atoms
    random: native.Random | None  # what it takes to learn from random rewards under the filter
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
        random=atoms.random,
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
    (counts,), _ = play(
        model,
        [spec],
        None,
        checkpoints=checkpoints,
        replications=replications,
        seed=seed,
        first=first,
        threads=threads,
        block=block,
        shape=shape,
        progress=progress,
    )
    return counts


def play(
    model: Model,
    specs: Sequence[Spec],
    follow: int | None,
    *,
    checkpoints: Ints,
    replications: int,
    seed: int,
    first: int = 0,
    threads: int | None = None,
    block: int = BLOCK,
    shape: Shape = "auto",
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Counts], Floats]:
    """As ``simulate_counts``, several policies on the same x_t, drawn once; and what always pulling arm ``follow`` would have
    paid up to each checkpoint, (N, C).
    """
    arms, rounds = len(model.level), np.ascontiguousarray(checkpoints, dtype=np.int64)
    exact = _largest_sum(model, int(rounds[-1])) < EXACT
    outputs = [_Output.empty(replications, rounds.size, arms) for _ in specs]
    groups: dict[tuple[str, int], _Group] = {}
    for i, (spec, out) in enumerate(zip(specs, outputs, strict=True)):
        engine = _engine_for(model, spec, shape, exact=exact)
        # what learns the law of X reads more than the others do, each its own
        group = groups.setdefault((engine, i if engine == "general" else -1), _Group(engine, core_of(model, spec), []))
        group.seats.append((settings_of(spec, scale=model.scale, seed=seed), out))
    paid = _Output.empty(replications, rounds.size, 0)
    if follow is not None:
        engine = _engine_for(model, None, shape, exact=exact)
        engine = engine if (engine, -1) in groups or ("serial", -1) not in groups else "serial"
        group = groups.setdefault((engine, -1), _Group(engine, core_of(model, None), []))
        group.seats.append((native.Settings(rule=-1 - follow, seed=seed, scale=model.scale), paid))
    done = 0
    for group in groups.values():
        policies = sum(out is not paid for _, out in group.seats)

        def run(start: int, stop: int, watch: Ints, slot: int, group: _Group = group) -> None:
            seats = [native.Seat(settings, *(x[start:stop] for x in out)) for settings, out in group.seats]
            native.play(group.problem, source_of(model, seed), rounds, seats, first + start, watch, slot, group.engine)

        def tell(played: int, before: int = done, share: float = policies / len(group.seats)) -> None:
            assert progress is not None
            progress(before + int(played * share))

        in_threads(run, replications, block, threads, None if progress is None or not policies else tell)
        done += replications * int(rounds[-1]) * policies
    counts = [Counts(out.pulls, np.asarray(out.reward * model.unit, dtype=float), out.excluded) for out in outputs]
    return counts, np.asarray(paid.reward * model.unit, dtype=float)


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
    arms, rounds = len(model.level), np.ascontiguousarray(checkpoints, dtype=np.int64)
    _largest_sum(model, int(rounds[-1]))
    out = _Output.empty(replications, rounds.size, arms)
    out.excluded[:] = -1
    problem, settings = core_of(model, spec), settings_of(spec, scale=model.scale, seed=seed)
    leaps = native.Leaps(chances_of(model.table, model.level, model.thresholds, model.cuts), longest, sure)

    def run(start: int, stop: int, watch: Ints, slot: int) -> None:
        seat = native.Seat(settings, *(x[start:stop] for x in out))
        native.play(problem, source_of(model, seed), rounds, [seat], first + start, watch, slot, "leap", leaps)

    in_threads(run, replications, 8, threads, progress)
    return Counts(out.pulls, np.asarray(out.reward * model.unit, dtype=float), out.excluded)


def oracle_rewards(
    model: Model, arm: int, *, checkpoints: Ints, replications: int, seed: int, first: int = 0, threads: int | None = None
) -> Floats:
    """What always pulling ``arm`` would have paid up to each checkpoint, on the same draws: shape (N, C)."""
    return play(model, [], arm, checkpoints=checkpoints, replications=replications, seed=seed, first=first, threads=threads)[1]


def expected_rewards(model: Model, arm: int) -> float:
    """The mean reward of an arm."""
    law = law_of(arm, model.table.shape[1], model.level, model.thresholds, model.cuts)
    return float(law @ model.table[arm, :, -1] * model.unit)


class _Output(NamedTuple):
    pulls: Ints
    reward: Ints
    excluded: Ints

    @classmethod
    def empty(cls, replications: int, checkpoints: int, arms: int) -> _Output:
        shape = (replications, checkpoints)
        zeros = (np.zeros(size, dtype=np.int64) for size in ((*shape, arms), shape, (replications, arms)))
        return cls(*zeros)


class _Group(NamedTuple):
    """Policies that one call of a native engine plays on the same x_t, each with where its results go."""

    engine: str
    problem: native.Model
    seats: list[tuple[native.Settings, _Output]]


def _largest_sum(model: Model, horizon: int) -> int:
    """A bound of every sum of rewards, in units; refuses a horizon that is too long for exact sums."""
    # columns hold int32, whose differences are below 2**32
    largest = horizon * (max(int(np.abs(model.table).max()), 1) if model.columns is None else 2**32)
    if largest >= 2**62:
        raise ProblemError(f"horizon: got {horizon:,}; expected at most {2**62 * horizon // largest:,} for sums to stay exact")
    return largest


def _engine_for(model: Model, spec: Spec | None, shape: Shape, *, exact: bool) -> str:
    """Which native engine plays a policy, or follows an arm. ``exact``: no sum is too large for the lanes."""
    if model.columns is not None or (spec is not None and spec.learns):
        return "general"
    if spec is not None and model.random is not None and spec.reference != "none":
        return "general"
    simple, other = LOCKSTEP_ARMS[native.simd()]
    limit = simple if spec is not None and spec.rule.code == "ucb1" and spec.reference != "well-pulled" else other
    few = spec is None or len(model.level) <= limit if shape == "auto" else shape == "lockstep"
    return "lockstep" if few and exact and not model.cuts.size else "serial"


def core_of(model: Model, spec: Spec | None) -> native.Model:
    if spec is None:
        columns = None if model.columns is None else model.columns.core
        return native.Model(native.Rewards(model.table, model.unit, model.low, model.span), columns=columns)
    facts = (model.table, model.unit, model.low, model.span)
    more = {"evidence": model.evidence, "random": model.random, "columns": model.columns}
    return model_of_rewards(spec, *facts, bins=model.bins, **more)  # type: ignore[arg-type]


def source_of(model: Model, seed: int) -> native.Source:
    return native.Source(model.thresholds, model.guide, model.level, model.cuts, seed)
