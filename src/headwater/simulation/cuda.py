"""The GPU engine: what :func:`headwater.simulation.engine.simulate_counts` does, all replications side by side.

The draws are those of the CPU bit for bit. With ``precision="float64"`` UCB1 and C-UCB agree with the CPU engine action for
action: sums are whole numbers, logarithms come from the host, and the sums, products, quotients and roots of IEEE arithmetic
are the same everywhere once no product is fused with a sum. KL-UCB and Thompson sampling take logarithms of their own on the
GPU, whose last bit may differ, so there only the law of the results is the same. ``precision="float32"`` computes means and
indices of UCB1 and C-UCB in single precision: the same within noise, and faster; the other rules ignore it.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from headwater import streams
from headwater.arrays import Floats, Ints
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.policies import indices, kernel
from headwater.policies.compile import allocating, compiled
from headwater.policies.rules import Spec
from headwater.simulation import engine
from headwater.simulation.draws import guide_shift
from headwater.simulation.engine import Counts, Model
from headwater.simulation.threads import core_count

__all__ = ["Precision", "cuda_reason", "missing_gpu", "simulate_counts_cuda"]

Precision = Literal["float64", "float32"]

LAUNCH_WORK = 2**33  # rounds x arms of all replications in one launch: well under a second, so that Ctrl-C works
LAUNCH_ROUNDS = 8192
BATCH = 2**18  # replications at a time: enough for every thread of the largest GPU
PART = 2**16  # replications that a thread brings to their place at a time
MAX_CELLS = 2**28  # excesses, laid out on the GPU by atom: 2 GB
ROOTS = 2**22  # horizon up to which 1 / sqrt(n) is one table; beyond, each thread computes it

_RULES = (kernel.UCB1, kernel.KL_UCB, kernel.NORMAL)


def cuda_reason(model: Model, spec: Spec) -> str | None:
    """Why a policy on a problem is not for the GPU, in one sentence; None if it is."""
    if spec.learns:
        return f"policy: got {spec.title}; expected an index policy, because on the GPU none learns the law of X"
    if kernel.RULES[spec.rule.code] not in _RULES:
        return (
            f"policy: got {spec.title}; expected ucb1, kl-ucb (bernoulli) or ts (normal, its sd not estimated), with or "
            "without the filter"
        )
    if spec.reference == "well-pulled":
        return f'reference: got "{spec.reference}"; expected "most-pulled" on the GPU'
    if spec.audit:
        return f"audit: got {spec.audit:g}; expected 0 on the GPU"
    if model.cuts.size or model.channelled is not None:
        return "arms: got random rewards; expected rewards that X determines on the GPU"
    arms, points = len(model.level), len(model.thresholds) + 1
    if model.columns is not None or arms * points * (arms + 1) > MAX_CELLS:
        return f"arms: got {arms:,} on {points:,} points; expected at most {MAX_CELLS:,} pairs of them at each point"
    return None


def missing_gpu() -> str | None:
    """Why there is no GPU to run on, in one sentence; None if there is one, or numba's simulator of one."""
    wanted = "engine: cuda needs an NVIDIA GPU and the cuda extra: "
    if importlib.util.find_spec("numba_cuda") is None and importlib.util.find_spec("numba.cuda") is None:
        return wanted + "numba-cuda is not installed; pip install 'headwater[cuda]'"
    try:
        from headwater.simulation.cuda_kernel import SIMULATED, cuda
    except Exception as problem:  # noqa: BLE001 - whatever a broken driver or toolkit raises on import
        return wanted + f"numba.cuda cannot be imported ({_line(problem)})"
    if SIMULATED:
        return None
    try:
        found = cuda.is_available() and len(cuda.gpus) > 0
    except Exception as problem:  # noqa: BLE001
        return wanted + f"the driver does not answer ({_line(problem)})"
    return None if found else wanted + "numba.cuda finds no GPU, or no CUDA toolkit to compile for it"


def _line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    return lines[0] if lines else type(problem).__name__


def simulate_counts_cuda(
    model: Model,
    spec: Spec,
    *,
    checkpoints: Ints,
    replications: int,
    seed: int,
    first: int = 0,
    precision: Precision = "float64",
    progress: Callable[[int], None] | None = None,
) -> Counts:
    """As ``engine.simulate_counts``, on the GPU. ``progress`` is told the rounds done after every launch.

    Time O(replications x horizon x K); memory on the GPU O(K) numbers a replication, or O(K^2) under a filter, as many
    replications at a time as fit.
    """
    if (reason := cuda_reason(model, spec) or missing_gpu()) is not None:
        raise ProblemError(reason)
    if precision not in ("float64", "float32"):
        raise ProblemError(f'precision: got {shown(precision)}; expected "float64" or "float32"')
    single = precision == "float32" and spec.rule.code == "ucb1"
    run = _Run(model, spec, checkpoints, seed, np.float32 if single else np.float64)
    arms = len(model.level)
    pulls = np.zeros((replications, checkpoints.size, arms), dtype=np.int64)
    reward = np.zeros((replications, checkpoints.size))
    excluded = np.zeros((replications, arms), dtype=np.int64)

    def keep(step: _Step, c: int, start: int) -> None:
        stop = min(start + PART, step.stop)
        counts, to = step.counts[:, start - step.start : stop - step.start], slice(start, stop)
        for k in range(arms):  # much faster than all at once
            pulls[to, c, k] = counts[k]
            if run.filtered and c == checkpoints.size - 1:
                excluded[to, k] = counts[2 * arms + k]
        np.multiply(counts[arms : 2 * arms].sum(axis=0, dtype=np.int64), model.unit, out=reward[to, c])

    done = 0
    with ThreadPoolExecutor(max_workers=core_count()) as pool:  # new memory takes time to get, less so on several cores
        for step in run.play(first, replications):
            if step.reached is not None:
                list(pool.map(partial(keep, step, step.reached), range(step.start, step.stop, PART)))
            done += step.rounds * (step.stop - step.start)
            if progress is not None:
                progress(done)
    return Counts(pulls, reward, excluded)


class _Step(NamedTuple):
    """A launch that is done."""

    start: int  # its replications
    stop: int
    rounds: int  # that each of them played
    reached: int | None  # the checkpoint at its end, if there is one
    counts: Ints  # then (2 K, size): pulls and total of every arm, or (3 K, size) with its rounds excluded; until the next step


class _Run:
    """A policy on a problem, laid out on the GPU."""

    def __init__(self, model: Model, spec: Spec, checkpoints: Ints, seed: int, real: Any) -> None:
        from headwater.simulation import cuda_kernel

        self.cuda, self.simulated = cuda_kernel.cuda, cuda_kernel.SIMULATED
        self.rounds = [int(c) for c in checkpoints]
        self.key = streams.seed_words(seed)
        self.rule, self.filtered = kernel.RULES[spec.rule.code], spec.reference != "none"
        self.scale = model.scale
        self.real, self.arms, atoms = real, *model.level.shape
        horizon, numbers = self.rounds[-1], self.arms * atoms * (1 + (self.arms if self.filtered else 0))
        # Besides sums, a whole number holds a place in the table, and an arm's rank: its pulls and its number.
        narrow = max(numbers, (horizon + 1) * cuda_kernel.UNROLLED_ARMS) < 2**31
        self.whole = engine._integers(model, horizon) if narrow else np.int64
        self.shown = (3 if self.filtered else 2) * self.arms
        self.stream, self.aside = self.cuda.stream(), self.cuda.stream()
        guide = model.guide if model.guide.size else streams.guide_table(model.thresholds)
        sizes = self.arms, atoms, guide.size, _steps(model.thresholds, guide)
        kind = cuda_kernel.Kind(*sizes, self.rule, self.filtered, real, self.whole, horizon > ROOTS)
        self.pairs, self.lanes = self.arms**2 if self.filtered else 0, cuda_kernel.lanes_for(kind)
        self.kernel: Callable[[tuple[int, int]], Any] = lambda halves: cuda_kernel.kernel_for(kind, halves)
        thresholds = model.thresholds if model.thresholds.size else np.array([2**streams.UNIFORM_BITS])  # never reached
        self.draws = (*map(self.cuda.to_device, (thresholds, guide)), guide_shift(guide))
        roots = _roots(min(horizon, ROOTS)).astype(real)
        self.tables = self.cuda.to_device(_cells(model, self.filtered, self.whole)), self.cuda.to_device(roots)
        self.params = tuple(real(x) for x in (model.unit, spec.sd(model.scale), model.low, model.span))

    def batch(self, replications: int) -> int:
        """How many replications run at a time: what they take is at most half of the free memory."""
        free = 2**30 if self.simulated else int(self.cuda.current_context().get_memory_info()[0])
        each = (3 * self.arms + self.pairs + 2 * self.shown) * np.dtype(self.whole).itemsize
        return max(1, min(replications, BATCH, int(free // 2 // each)))

    def play(self, first: int, replications: int) -> Iterator[_Step]:
        """Launch after launch. A step is told once the next is launched, so the GPU plays on while the caller is busy."""
        batch = self.batch(replications)
        work = LAUNCH_WORK if self.rule == kernel.UCB1 else LAUNCH_WORK // 64  # logarithms take time
        longest = min(LAUNCH_ROUNDS, max(64, work // (batch * self.arms) // 2 * 2))
        state, sums = self.room(batch)
        copies = [self.cuda.device_array(self.shown * batch, dtype=self.whole) for _ in range(2)]
        host = np.empty(self.shown * batch, dtype=self.whole)
        told = None
        for start in range(0, replications, batch):
            size = min(batch, replications - start)
            if size < batch:
                state, sums = self.room(size)
            t = 0
            for c, checkpoint in enumerate(self.rounds):
                while t < checkpoint:
                    length, halves = _stretch(t, checkpoint, longest)
                    self.launch(state, sums, first + start, t, length, halves)
                    t += length
                    copies.reverse()
                    copy = copies[0][: self.shown * size].reshape(self.shown, size)
                    if t == checkpoint:
                        copy.copy_to_device(state[: self.shown], stream=self.stream)
                    played = self.cuda.event()
                    played.record(self.stream)
                    if told is not None:
                        yield self.step(host, *told)
                    told = start, size, length, c if t == checkpoint else None, copy, played
        if told is not None:
            yield self.step(host, *told)

    def step(self, host: Ints, start: int, size: int, rounds: int, reached: int | None, copy: Any, played: Any) -> _Step:
        """Wait for a launch, and bring what it reached to the host, beside the next launch."""
        played.synchronize()
        counts = host[: self.shown * size].reshape(self.shown, size)
        if reached is not None:
            copy.copy_to_host(counts, stream=self.aside)
            self.aside.synchronize()
        return _Step(start, start + size, rounds, reached, counts)

    def room(self, size: int) -> tuple[Any, Any]:
        """For the state and the sums of so many replications; the first launch clears it."""
        sums = (self.pairs, size) if self.lanes == 1 else (size, self.pairs)
        make = self.cuda.device_array
        return make((3 * self.arms, size), dtype=self.whole), make(sums if self.filtered else (1, 1), dtype=self.whole)

    def launch(self, state: Any, sums: Any, first: int, t: int, length: int, halves: tuple[int, int]) -> None:
        """Rounds t + 1, ..., t + length of the replications whose columns ``state`` holds."""
        size = state.shape[1]
        factors = _factors(t, length, self.scale, self.rule == kernel.UCB1).astype(self.real)
        factor = self.cuda.to_device(factors, stream=self.stream)
        where = (first, size, *self.key, t, np.int32(length))
        cells, roots = self.tables
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*Grid size")  # few replications are the caller's choice
            play, threads = self.kernel(halves)
            launch = play[-(-size * self.lanes // threads), min(threads, size * self.lanes), self.stream]
            launch(*where, *self.draws, cells, factor, roots, *self.params, state, sums)


def _stretch(t: int, checkpoint: int, longest: int) -> tuple[int, tuple[int, int]]:
    """How many rounds after t to play next, ``longest`` (even) at most, and which halves of their draws those are.

    >>> _stretch(3, 10, 4), _stretch(4, 10, 4), _stretch(8, 9, 4)
    ((1, (1, 2)), (4, (0, 2)), (1, (0, 1)))
    """
    if t % 2:
        return 1, (1, 2)
    return (1, (0, 1)) if checkpoint == t + 1 else (min(longest, (checkpoint - t) // 2 * 2), (0, 2))


def _cells(model: Model, filtered: bool, whole: Any) -> Ints:
    """What arm k pays at atom j; under a filter then its slack, minus its excess, against every target: K + 1 numbers."""
    arms, atoms = model.level.shape
    cells = np.empty((arms, atoms, 1 + arms if filtered else 1), dtype=whole)
    for k in range(arms):
        cells[k, :, 0] = model.table[k, model.level[k], arms]
        if filtered:
            cells[k, :, 1:] = -model.table[k, model.level[k], :arms]
    return cells.ravel()


def _steps(thresholds: Ints, guide: Ints) -> int:
    """How many thresholds lie inside one cell of the guide table, at most: so many comparisons find an atom from there.

    >>> thresholds = streams.latent_thresholds(np.array([0.3, 0.02, 0.02, 0.66]))
    >>> _steps(thresholds, streams.guide_table(thresholds))
    2
    """
    ends = np.arange(1, guide.size + 1) << guide_shift(guide)
    return int((np.searchsorted(thresholds, ends) - guide).max())


_root = compiled(indices.reciprocal_root)
_width = compiled(indices.ucb1_width)


@allocating
def _roots(horizon: int) -> Floats:
    out = np.empty(horizon + 1)
    for n in range(horizon + 1):
        out[n] = _root(float(n))
    return out


@allocating
def _factors(start: int, length: int, scale: float, widths: bool) -> Floats:
    """For rounds start + 1, ..., start + length: UCB1's width, or the logarithm; by the CPU's own functions."""
    out = np.empty(length)
    for i in range(length):
        log_t = math.log(start + i + 1.0)
        out[i] = _width(log_t, scale) if widths else log_t
    return out
