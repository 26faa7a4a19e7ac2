"""The unit of work: some replications of one policy on one problem, a pure function of its content.

Every run, in this process or on a cluster, is cut into chunks and put together from them, so that where a chunk was done
can make no difference.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from headwater import __version__
from headwater.files import parse_problem
from headwater.policies.evidence import evidence_of
from headwater.policies.rules import Spec
from headwater.simulation.atoms import atoms_of
from headwater.simulation.engine import Model, make_model, play
from headwater.simulation.engines import Which, best_rewards, run_engine
from headwater.simulation.results import Outcome

__all__ = ["Chunk", "Setting", "run_chunk", "run_together"]


@dataclass(frozen=True)
class Setting:
    """What the chunks of a run share.

    ``problem`` is the text of a problem file with the distribution; empty in a run that stays in this process and keeps no
    chunks, because writing down a large problem takes longer than many a run.
    """

    problem: str
    best: int
    checkpoints: tuple[int, ...]
    seed: int
    reward_range: float
    engine: str = "step"

    @cached_property
    def digest(self) -> str:
        """A name for the content; another version of headwater may compute something else, so it counts, too."""
        content = [self.problem, self.best, self.checkpoints, self.seed, self.reward_range, self.engine, __version__]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@dataclass(frozen=True)
class Chunk:
    """Replications ``first`` to ``first + size - 1`` of a policy; without a ``spec``, of always pulling the best arm."""

    setting: Setting
    spec: Spec | None
    first: int
    size: int

    @cached_property
    def key(self) -> str:
        """The same for the same content, on every machine."""
        spec = None if self.spec is None else self.spec.to_dict()
        content = json.dumps([self.setting.digest, spec, self.first, self.size], sort_keys=True, default=float)
        return hashlib.sha256(content.encode()).hexdigest()[:40]

    @property
    def rounds(self) -> int:
        """The rounds to simulate, as progress counts them: following the best arm is not counted."""
        return 0 if self.spec is None else self.setting.checkpoints[-1] * self.size

    def __str__(self) -> str:
        title = "the best arm" if self.spec is None else self.spec.title
        return f"replications {self.first} to {self.first + self.size - 1} of {title}"


def run_chunk(
    chunk: Chunk, model: Model | None = None, *, threads: int | None = 1, progress: Callable[[int], None] | None = None
) -> Outcome:
    """What the replications of a chunk did. ``model`` is what the setting's problem is laid out to, where that is at hand.

    Without a policy, the outcome has rewards but no arms.
    """
    setting, spec = chunk.setting, chunk.spec
    if model is None:
        model = _model(setting.problem, setting.reward_range, spec is not None and spec.learns)
    rounds = np.array(setting.checkpoints, dtype=np.int64)
    which = Which(checkpoints=rounds, replications=chunk.size, seed=setting.seed, first=chunk.first)
    if spec is None:
        reward = best_rewards(setting.engine, model, setting.best, which, threads=threads)
        return Outcome(np.empty((*reward.shape, 0), dtype=np.int64), reward, np.empty((chunk.size, 0), dtype=np.int64))
    return Outcome(*run_engine(setting.engine, model, spec, which, threads=threads, progress=progress))


def run_together(
    chunks: Sequence[Chunk], model: Model, *, threads: int | None = 1, progress: Callable[[int], None] | None = None
) -> list[Outcome]:
    """What chunks of the same replications did, whose every round is played here: as ``run_chunk``, but x_t is drawn once."""
    setting, specs = chunks[0].setting, [chunk.spec for chunk in chunks if chunk.spec is not None]
    which = Which(
        checkpoints=np.array(setting.checkpoints, dtype=np.int64),
        replications=chunks[0].size,
        seed=setting.seed,
        first=chunks[0].first,
    )
    counts, reward = play(model, specs, setting.best, **which, threads=threads, progress=progress)
    played = iter(counts)
    none = np.empty((*reward.shape, 0), dtype=np.int64)
    return [Outcome(none, reward, none[:, 0]) if chunk.spec is None else Outcome(*next(played)) for chunk in chunks]


@lru_cache(maxsize=4)
def _model(problem: str, reward_range: float, learns: bool) -> Model:
    """What a worker keeps between the chunks of the same problem."""
    built = parse_problem(problem)
    assert built.distribution is not None
    evidence = evidence_of(built) if learns else None
    return make_model(atoms_of(built, built.distribution), scale=reward_range, evidence=evidence)
