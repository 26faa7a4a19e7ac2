"""The GPU engine: what :func:`headwater.simulation.engine.simulate_counts` does, all replications side by side.

The kernels are made of the same headers as the compiled core, and the draws are the CPU's bit for bit. With
``precision="float64"`` every policy agrees with the CPU engine action for action: sums are whole numbers, and arithmetic is
rounded alike, elementary functions included. ``precision="float32"`` computes means and indices of UCB1 and C-UCB, without
audits, by the most-pulled reference, in single precision: the same within noise, and faster; all else ignores it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from headwater import native
from headwater.arrays import Ints
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.policies.core import settings_of
from headwater.policies.rules import Spec
from headwater.simulation import engine, gpu_driver
from headwater.simulation.engine import Counts, Model, core_of, source_of
from headwater.simulation.gpu_driver import CREW, FEW, SOLO, Kind
from headwater.simulation.threads import core_count

__all__ = ["Precision", "cuda_reason", "missing_gpu", "simulate_counts_cuda"]

Precision = Literal["float64", "float32"]

LAUNCH_WORK = 2**33  # rounds x arms of all replications in one launch: well under a second, so that Ctrl-C works
LAUNCH_ROUNDS = 8192
BATCH = 2**20  # replications at a time: enough for every thread of the largest GPU, several times
PART = 2**16  # replications that a thread brings to their place at a time
MAX_CELLS = 2**28  # pairs of arms, at every atom
ROOTS = 2**22  # horizon up to which 1 / sqrt(n) is one table; beyond, each thread computes it
FEW_ARMS = 4  # up to which a thread keeps all sums of pairs in registers
ATOMS = 16  # up to which a kernel is compiled for their number
PLACES = 16  # arms of one thread, where threads share a replication
MEMBERS = 1024  # that share one, at most
SHARED = 48 * 1024  # bytes that a block may declare
OWN = 2**16  # bytes that a thread may have to itself: the driver sets them aside for every thread that can run


def cuda_reason(model: Model, spec: Spec) -> str | None:
    """Why a policy on a problem is not for the GPU, in one sentence; None if it is."""
    arms, points = len(model.level), len(model.thresholds) + 1
    if model.columns is not None:
        return f"arms: got {arms:,} on {points:,} points; expected at most {MAX_CELLS:,} pairs of them at each point"
    if spec.rule.code == "joint-ucb" and not gpu_driver.emulated():  # on an H200 it read memory that is not its own
        return f"policy: got {spec.title}; expected another one, this one's kernel is not right yet: use the step engine"
    return None


def missing_gpu() -> str | None:
    """Why there is no GPU to run on, in one sentence; None if there is one, or the processor stands for it."""
    return gpu_driver.missing()


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

    Time O(replications x horizon x K); memory on the GPU O(K M) numbers a replication for UCB1 and C-UCB, else what the policy
    keeps, as many replications at a time as fit.
    """
    if (reason := cuda_reason(model, spec) or missing_gpu()) is not None:
        raise ProblemError(reason)
    if precision not in ("float64", "float32"):
        raise ProblemError(f'precision: got {shown(precision)}; expected "float64" or "float32"')
    arms = len(model.level)
    pulls = np.zeros((replications, checkpoints.size, arms), dtype=np.int64)
    reward = np.zeros((replications, checkpoints.size))
    excluded = np.zeros((replications, arms), dtype=np.int64)

    def keep(step: _Step, c: int, start: int) -> None:
        size = step.stop - step.start
        part = slice(start - step.start, min(start + PART, step.stop) - step.start)
        to = slice(step.start + part.start, step.start + part.stop)
        pulls[to, c] = step.counts[: size * arms].reshape(size, arms)[part]
        np.multiply(step.counts[size * arms : size * (arms + 1)][part], model.unit, out=reward[to, c])
        if c == checkpoints.size - 1:
            excluded[to] = step.counts[size * (arms + 1) :].reshape(size, arms)[part]

    done = 0
    with Run(model, spec, checkpoints, seed, precision) as run, ThreadPoolExecutor(max_workers=core_count()) as pool:
        for step in run.play(first, replications):
            if step.reached is not None:  # new memory takes time to get, less so on several cores
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
    counts: Ints  # then pulls (size, K), reward (size,) and rounds excluded (size, K), one after the other; until the next step


def kind_of(model: Model, spec: Spec, horizon: int, precision: Precision) -> Kind:
    """Which kernel plays a policy on a problem."""
    arms, atoms = len(model.level), len(model.thresholds) + 1
    largest = max(engine._largest_sum(model, horizon), horizon, arms * atoms * (arms + 1))
    plain = spec.rule.code == "ucb1" and not spec.audit and spec.reference != "well-pulled" and not model.cuts.size
    rule = native.RULES[spec.rule.code]
    if not plain:
        return Kind(SOLO, rule=rule, random=model.random is not None and spec.reference != "none", learns=spec.learns)
    common: Any = {
        "rule": rule,
        "filtered": spec.reference != "none",
        "single": precision == "float32",
        "narrow": largest < 2**31,
    }
    cells = arms * atoms * (arms + 1 if common["filtered"] else 1)
    if arms <= FEW_ARMS and cells * (4 if common["narrow"] else 8) <= SHARED:
        known = atoms <= ATOMS if not gpu_driver.emulated() else atoms in (3, 5)
        return Kind(FEW, **common, arms=arms, atoms=atoms if known else 0, cells=cells)
    members = 4 if gpu_driver.emulated() else min(MEMBERS, 1 << (-(-arms // PLACES) - 1).bit_length())
    return Kind(CREW, **common, arms=arms, members=members, places=-(-arms // members))


class Run:
    """A policy on a problem, laid out on the GPU for as long as the run is entered."""

    def __init__(self, model: Model, spec: Spec, checkpoints: Ints, seed: int, precision: Precision) -> None:
        self.rounds = [int(c) for c in checkpoints]
        self.arms, self.kinds = len(model.level), int(model.table.shape[1])
        self.kind = kind_of(model, spec, self.rounds[-1], precision)
        self.whole: np.dtype[Any] = np.dtype(np.int32 if self.kind.narrow else np.int64)
        self.size: int = self.whole.itemsize
        self.facts = core_of(model, spec), source_of(model, seed), settings_of(spec, scale=model.scale, seed=seed)
        self.room = self._room()
        self.driver = gpu_driver.driver()
        self.taken: list[int] = []

    def _room(self) -> int:
        """Bytes of a replication between launches."""
        if self.kind.way == SOLO:
            room = int(native.gpu.room(*self.facts))
            if room <= OWN and not gpu_driver.emulated():
                self.kind = self.kind._replace(room=room)
            return room
        pairs = self.arms**2 if self.kind.filtered else 0
        return (3 * self.arms + (pairs if self.kind.way == FEW else 2)) * self.size

    def __enter__(self) -> Run:
        self.driver.enter()
        try:
            size = int(native.gpu.size(*self.facts, self.kind.narrow))
            block, address = np.empty(size, dtype=np.uint8), self.take(size)
            self.problem = native.gpu.lay(*self.facts, self.kind.narrow, address, block)
            self.driver.send(address, block)
            self.roots_size = 0 if self.kind.way == SOLO or self.kind.single else min(self.rounds[-1], ROOTS) + 1
            self.tables = self.take(8 * LAUNCH_ROUNDS), self.take(8 * self.roots_size)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        while self.taken:
            self.driver.give(self.taken.pop())

    def take(self, size: int) -> int:
        self.taken.append(self.driver.take(size))
        return self.taken[-1]

    @property
    def seen(self) -> int:
        """Bytes of how often each arm paid each reward, of a replication that threads share under the filter."""
        return 4 * self.arms * self.kinds if self.kind.way == CREW and self.kind.filtered else 0

    @property
    def shown(self) -> int:
        """Bytes of what a replication did."""
        return (2 * self.arms + 1) * self.size

    def batch(self, replications: int) -> int:
        """How many replications run at a time: what they take is at most half of the free memory."""
        each = self.room + self.seen + self.shown
        return max(1, min(replications, BATCH, self.driver.free() // 2 // each))

    def longest(self, batch: int) -> int:
        """Rounds of a launch."""
        slow = 1 if self.kind.way != SOLO else 64 if self.kind.learns or self.kind.random else 16
        return min(LAUNCH_ROUNDS, max(64 // slow * 2, LAUNCH_WORK // slow // (batch * self.arms) // 2 * 2))

    def play(self, first: int, replications: int) -> Iterator[_Step]:
        """Launch after launch. A step is told once the next is launched, so the GPU plays on while the caller is busy."""
        batch = self.batch(replications)
        longest = self.longest(batch)
        self.places = self.take(self.room * batch), self.take(self.seen * batch), self.take(self.shown * batch)
        buffers = self.driver.buffers(self.shown * batch)
        told: Any = None
        for start in range(0, replications, batch):
            size, t = min(batch, replications - start), 0
            for c, checkpoint in enumerate(self.rounds):
                while t < checkpoint:
                    length = stretch(t, checkpoint, longest)
                    reached = c if t + length == checkpoint else None
                    self.launch(first + start, size, t, length, reached is not None)
                    t += length
                    buffers.reverse()
                    if reached is not None:
                        self.driver.fetch(buffers[0], self.places[2], self.shown * size)
                    mark = self.driver.mark()
                    if told is not None:
                        yield self.step(*told)
                    told = start, size, length, reached, buffers[0], mark
        if told is not None:
            yield self.step(*told)

    def step(self, start: int, size: int, rounds: int, reached: int | None, block: Any, mark: Any) -> _Step:
        self.driver.wait(mark)
        return _Step(start, start + size, rounds, reached, block[: self.shown * size].view(self.whole))

    def launch(self, first: int, size: int, t: int, length: int, tell: bool) -> None:
        """Rounds t + 1, ..., t + length of so many replications."""
        state, seen, out = self.places
        rounds, roots = self.tables
        fresh = self.roots_size if t == 0 else 0  # else the table is there
        where = {"first": first, "size": size, "start": t, "length": length, "room": self.room}
        places = {"state": state, "seen": seen, "rounds": rounds, "roots": roots, "roots_size": self.roots_size}
        launch = native.gpu.launch(**where, **places, out=out if tell else 0)
        self.driver.play(self.kind, self.problem, launch, size, max(length, fresh))


def stretch(t: int, checkpoint: int, longest: int) -> int:
    """How many rounds after t to play next, ``longest`` (even) at most: both of a draw's two, or one where only that is left.

    >>> stretch(3, 10, 4), stretch(4, 10, 4), stretch(8, 9, 4)
    (1, 4, 1)
    """
    return 1 if t % 2 or checkpoint == t + 1 else min(longest, (checkpoint - t) // 2 * 2)
