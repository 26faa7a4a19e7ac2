"""A simulation as a job: its chunks, where they are kept, what is finished, and the result put together from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headwater import __version__
from headwater.arrays import Floats
from headwater.errors import ResultsError
from headwater.policies.rules import Spec
from headwater.problem import Problem
from headwater.simulation.chunks import Chunk, Setting, run_chunk, run_together
from headwater.simulation.engine import Model
from headwater.simulation.folders import folder_at
from headwater.simulation.results import Outcome, Simulation, load_simulation, prepare_folder
from headwater.simulation.store import ChunkStore

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Job", "Tally", "run_jobs"]

OR_ELSE = "to go on with it; choose another folder, or overwrite it (--force)"


class Tally(NamedTuple):
    """How far a run is: chunks and rounds, done and in all; ``found`` chunks were there when it began."""

    chunks: int
    chunks_in_all: int
    rounds: int
    rounds_in_all: int
    found: int


@dataclass
class Job:
    """One simulation to be done: ``model`` for chunks done in this process, ``store`` where finished chunks are kept."""

    setting: Setting
    specs: Sequence[Spec]
    replications: int
    size: int
    problem: Problem
    gaps: Floats
    quantisation_error: float
    model: Model
    reason: str = ""
    """Why this engine."""
    store: ChunkStore | None = None
    done: dict[Chunk, Outcome] = field(default_factory=dict)
    saved: Simulation | None = None
    """All of it, where a folder that was opened to resume holds that already."""

    @property
    def chunks(self) -> Iterator[Chunk]:
        """Every chunk, range by range, so that an early end keeps the same replications of every policy."""
        for first in range(0, self.replications, self.size):
            yield from self._at(first)

    def _at(self, first: int) -> list[Chunk]:
        size = min(self.size, self.replications - first)
        return [Chunk(self.setting, spec, first, size) for spec in (None, *self.specs)]

    @property
    def missing(self) -> list[Chunk]:
        return [chunk for chunk in self.chunks if chunk not in self.done]

    def open(self, folder: str | Path, *, resume: bool = False, overwrite: bool = False) -> None:
        """Keep finished chunks in a folder. With ``resume``, what it holds of this job is done already."""
        place = folder_at(folder)
        prepare_folder(folder, overwrite=overwrite or resume)
        self.store = ChunkStore(place.below("chunks"))
        if overwrite:
            self.store.clear()
        elif self.store.keys and not resume:
            raise ResultsError(f"{folder}: holds an unfinished simulation; go on with it (--resume) or overwrite it (--force)")
        if self.store.keys:
            self._check_unfinished(self.store, folder)
        for chunk in self.chunks:
            if (outcome := self.store.read(chunk)) is not None:
                self.done[chunk] = outcome
        if resume and place.exists("manifest.json"):
            self._recall(load_simulation(folder), folder)

    def _check_unfinished(self, store: ChunkStore, folder: str | Path) -> None:
        """Refuse to go on with the chunks of another run: they would neither be used nor be missed."""
        if (run := store.run()) is not None:
            old, release = run
            same = old.problem == self.setting.problem
            difference = self._difference(same, old.seed, old.reward_range, old.checkpoints, old.engine, release)
        else:
            known = any(chunk.key in store.keys for chunk in self.chunks)
            difference = "" if known else "holds a simulation of another kind or by another release; expected this one"
        if difference:
            raise ResultsError(f"{folder}: {difference.replace('a simulation', 'an unfinished simulation')} {OR_ELSE}")

    def _recall(self, old: Simulation, folder: str | Path) -> None:
        """Take over what a saved simulation has of this job. It goes to the store: saving will replace the old files."""
        assert self.store is not None
        rounds = tuple(old.rounds.tolist())
        if difference := self._difference(
            old.problem == self.problem, old.seed, old.reward_range, rounds, old.engine, old.release
        ):
            if self.done:  # begun with --force
                return
            raise ResultsError(f"{folder}: {difference} {OR_ELSE}")
        for chunk in self.missing:
            known = old.outcomes.get(chunk.spec.title) if chunk.spec is not None else _followed(old.oracle)
            if known is not None and len(known.reward) >= chunk.first + chunk.size:
                rows = slice(chunk.first, chunk.first + chunk.size)
                self.done[chunk] = Outcome(known.pulls[rows], known.reward[rows], known.excluded[rows])
        if list(old.outcomes) == [spec.title for spec in self.specs] and old.replications == self.replications:
            self.saved = old
            self.store.clear()
            return
        for chunk, outcome in self.done.items():
            if chunk.key not in self.store.keys:
                self.store.write(chunk, outcome)

    def _difference(
        self, same: bool, seed: int, reward_range: float, rounds: tuple[int, ...], engine: str, release: str
    ) -> str:
        """In what another simulation, of the ``same`` problem or not, is not this one, in words.

        Another ``release`` may mean another policy by the same name.
        """
        mine = self.setting
        if not same:
            return "holds a simulation of another problem; expected this one"
        if seed != mine.seed:
            return f"holds a simulation with seed {seed}; expected seed {mine.seed}"
        if reward_range != mine.reward_range:
            return f"holds a simulation with reward_range {reward_range}; expected {mine.reward_range}"
        if rounds != mine.checkpoints:
            return f"holds a simulation of {rounds[-1]} rounds or with other checkpoints; expected the same checkpoints"
        if engine != mine.engine:
            return f"holds a simulation by the engine {engine}; expected {mine.engine}"
        if release != __version__:
            return f"holds a simulation by headwater {release}; expected {__version__}"
        return ""

    def take(self, chunk: Chunk, outcome: Outcome) -> None:
        """A chunk is finished: keep it."""
        if self.store is not None:
            self.store.write(chunk, outcome)
        self.done[chunk] = outcome

    def save(self, result: Simulation, folder: str | Path, *, command: str = "") -> None:
        """Write a result of this job; the chunks go when it is whole, and not before."""
        result.save(folder, command=command, overwrite=True)
        if self.store is not None and self.kept == self.replications:
            self.store.clear()

    @property
    def kept(self) -> int:
        """The replications finished for every policy, from the first on."""
        for first in range(0, self.replications, self.size):
            if not all(chunk in self.done for chunk in self._at(first)):
                return first
        return self.replications

    def result(self, seconds: float) -> Simulation:
        """What is finished for every policy, put together."""
        parts = [[self.done[chunk] for chunk in self._at(first)] for first in range(0, self.kept, self.size)]
        oracle, *outcomes = (
            Outcome(*(np.concatenate(arrays) for arrays in zip(*part, strict=True))) for part in zip(*parts, strict=True)
        )
        return Simulation(
            problem=self.problem,
            gaps=self.gaps,
            best=self.setting.best,
            rounds=np.array(self.setting.checkpoints, dtype=np.int64),
            seed=self.setting.seed,
            reward_range=self.setting.reward_range,
            quantisation_error=self.quantisation_error,
            oracle=oracle.reward,
            outcomes={spec.title: outcome for spec, outcome in zip(self.specs, outcomes, strict=True)},
            seconds=seconds,
            wanted=self.replications,
            engine=self.setting.engine,
            reason=self.reason,
        )


def _followed(oracle: Floats) -> Outcome:
    none = np.empty((*oracle.shape, 0), dtype=np.int64)
    return Outcome(none, oracle, none[:, 0])


def run_jobs(
    jobs: Sequence[Job],
    *,
    client: Client | None = None,
    threads: int | None = None,
    progress: Callable[[Tally], None] | None = None,
    finished: Callable[[Job], None] | None = None,
) -> None:
    """Do every chunk that is missing, here or on a cluster; ``finished`` is told of each job when its last chunk is."""
    plan = [(job, chunk) for job in jobs for chunk in job.missing]
    left = Counter(id(job) for job, _ in plan)
    found = [chunk for job in jobs for chunk in job.done]
    rounds = sum(chunk.rounds for chunk in found)
    in_all = rounds + sum(chunk.rounds for _, chunk in plan)
    tally = Tally(len(found), len(found) + len(plan), rounds, in_all, len(found))

    def tell(rounds: int = 0) -> None:
        if progress is not None:
            progress(tally._replace(rounds=tally.rounds + rounds))

    def deliver(job: Job, chunk: Chunk, outcome: Outcome) -> None:
        nonlocal tally
        job.take(chunk, outcome)
        tally = tally._replace(chunks=tally.chunks + 1, rounds=tally.rounds + chunk.rounds)
        left[id(job)] -= 1
        if not left[id(job)] and finished is not None:
            finished(job)

    for job in jobs:
        if not left[id(job)] and finished is not None:
            finished(job)
    with closing(_run_here(plan, threads, tell) if client is None else _run_there(plan, client, tell)) as work:
        for job, chunk, outcome in work:
            deliver(job, chunk, outcome)
    tell()


_Plan = list[tuple[Job, Chunk]]
_Done = Generator[tuple[Job, Chunk, Outcome], None, None]


def _run_here(plan: _Plan, threads: int | None, tell: Callable[[int], None]) -> _Done:
    for job, chunks in _groups(plan):
        tell(0)
        if len(chunks) == 1:
            yield job, chunks[0], run_chunk(chunks[0], job.model, threads=threads, progress=tell)
            continue
        rounds = sum(chunk.rounds for chunk in chunks)

        def tell_part(done: int, most: int = rounds - 1) -> None:  # the whole is told with the chunks
            tell(min(done, most))

        outcomes = run_together(chunks, job.model, threads=threads, progress=tell_part)
        for chunk, outcome in zip(chunks, outcomes, strict=True):
            yield job, chunk, outcome


def _groups(plan: _Plan) -> Iterator[tuple[Job, list[Chunk]]]:
    """Chunks that are done together: those of the same replications, unless each is kept as soon as it is finished."""
    for _, part in groupby(plan, key=lambda each: (id(each[0]), each[1].first)):
        job, chunks = (group := list(part))[0][0], [chunk for _, chunk in group]
        if job.store is None and job.setting.engine == "step":
            yield job, chunks
        else:
            yield from ((job, [chunk]) for chunk in chunks)


def _run_there(plan: _Plan, client: Client, tell: Callable[[int], None]) -> _Done:
    from headwater.simulation.cluster import run_on_cluster

    owner = {chunk: job for job, chunk in plan}
    tell(0)
    for chunk, outcome in run_on_cluster(client, [chunk for _, chunk in plan]):
        yield owner[chunk], chunk, outcome
        tell(0)
