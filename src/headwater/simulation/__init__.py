"""Simulating policies on a known distribution: the same x_t for every policy, the same results on any number of threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from headwater.analysis import gaps, read_distribution
from headwater.arrays import Ints
from headwater.complaints import shown
from headwater.errors import ProblemError, SizeError
from headwater.policies.auto import spec_for
from headwater.policies.evidence import evidence_of
from headwater.policies.many import check_many
from headwater.policies.rules import KLUCB, Spec, check_positive
from headwater.policies.table import has_levels
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.simulation.atoms import atoms_of
from headwater.simulation.chunks import Setting
from headwater.simulation.engine import make_model
from headwater.simulation.engines import choose_engine
from headwater.simulation.jobs import Job, Tally, run_jobs
from headwater.simulation.results import Comparison, Outcome, Simulation, load_simulation

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "Comparison",
    "Job",
    "Outcome",
    "Simulation",
    "Tally",
    "check_number",
    "check_rounds",
    "load_simulation",
    "log_checkpoints",
    "make_job",
    "run_jobs",
    "simulate",
]

MAX_HORIZON = 2**40
CHUNK = 256
"""Replications in a chunk at least; also what an interrupted run keeps in whole multiples of."""
ROUNDS = 10**8
"""Rounds that a chunk has at least, where there are many replications: what hands it out then costs little beside it."""
GPU_CHUNK = 2**20
MAX_NUMBERS = 2**30
"""Numbers of pulls that a simulation keeps: 8 GiB."""

Progress = Callable[[int, int], None]


def simulate(
    problem: Problem,
    distribution: Any = None,
    *,
    policies: Sequence[str | Spec],
    horizon: int,
    replications: int,
    seed: int = 0,
    checkpoints: ArrayLike | None = None,
    reward_range: float | None = None,
    engine: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
    client: Client | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    command: str = "",
) -> Simulation:
    """Simulate policies and return their regret and pulls at checkpoints (log-spaced unless given).

    Results depend on (problem, distribution, policy, seed, replication) alone: not on threads, chunks or order, and adding a
    policy or replications changes nothing already computed. ``progress`` is called with rounds done and rounds in all. On
    Ctrl-C, what was finished for every policy is returned, if there is any: ``replications`` then says how many.

    With ``client``, the workers of a Dask cluster do the work; the results are the same. With ``folder`` (a path, or an address
    such as ``s3://bucket/run``), every chunk is kept there as it is finished, and then the whole, as ``Simulation.save`` writes
    it; ``resume`` does only what the folder lacks, ``overwrite`` begins again.

    ``engine``: "step" plays every round; "leap" (ucb1, kl-ucb, c-ucb, c-kl-ucb) draws stretches of rounds at once, so that
    10,000,000,000 rounds take moments, from the same law but not the same x_t; "cuda" uses a GPU; "auto" leaps from 10,000,000
    rounds on, where every policy can.

    Time O(horizon × replications × K) per policy when every round is played; memory O(replications × checkpoints × K).

    >>> import headwater as hw
    >>> ads = hw.Problem(latent=hw.Discrete(["student", "worker", "retiree"]),
    ...                  arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]})
    >>> run = hw.simulate(ads, [.3, .4, .3], policies=["ucb1", "c-ucb"], horizon=1000, replications=10, seed=1)
    >>> bool(run.regret("c-ucb")[:, -1].mean() < run.regret("ucb1")[:, -1].mean())
    True
    """
    start = time.perf_counter()
    if threads is not None:
        check_number("threads", threads, 1, 1024)
    job = make_job(
        problem,
        distribution,
        policies=policies,
        horizon=horizon,
        replications=replications,
        seed=seed,
        checkpoints=checkpoints,
        reward_range=reward_range,
        engine=engine,
        portable=client is not None or folder is not None,
    )
    if folder is not None:
        job.open(folder, resume=resume, overwrite=overwrite)
        if job.saved is not None:
            return job.saved
    tell = None if progress is None else lambda tally: progress(tally.rounds, tally.rounds_in_all)
    try:
        run_jobs([job], client=client, threads=threads, progress=tell)
    except KeyboardInterrupt:
        if not job.kept:
            raise
        if progress is not None:
            total = replications * horizon * len(job.specs)
            progress(total, total)
    result = job.result(time.perf_counter() - start)
    if folder is not None:
        job.save(result, folder, command=command)
    return result


def make_job(
    problem: Problem,
    distribution: Any = None,
    *,
    policies: Sequence[str | Spec],
    horizon: int,
    replications: int,
    seed: int = 0,
    checkpoints: ArrayLike | None = None,
    reward_range: float | None = None,
    engine: str = "auto",
    portable: bool = False,
) -> Job:
    """A simulation, checked and cut into chunks; ``portable`` where chunks leave this process, to workers or to files."""
    law = problem.distribution if distribution is None else read_distribution(problem, distribution)
    if law is None:
        raise ProblemError("distribution: missing; a simulation needs to know how likely each value of X is")
    specs = _check_policies(policies, problem)
    if not has_levels(model_of(problem)) and any(spec.rule == KLUCB("empirical") for spec in specs):
        raise ProblemError('form: got "empirical"; expected "bernoulli", because these arms have infinitely many rewards')
    check_number("horizon", horizon, 1, MAX_HORIZON)
    check_number("replications", replications, 1, 10**9)
    check_number("seed", seed, 0, 2**64 - 1)
    check_positive("reward_range", reward_range)
    horizon, replications, seed = int(horizon), int(replications), int(seed)  # numpy's overflow, and are no JSON
    rounds = check_rounds(checkpoints, horizon)
    _check_memory(len(problem.arms), len(rounds), replications, len(specs))
    gap, k_star = gaps(problem, law)
    scale = float(reward_range) if reward_range is not None else model_of(problem).reward_range
    evidence = evidence_of(problem) if any(spec.learns for spec in specs) else None
    atoms = atoms_of(problem, law)
    for spec in specs if atoms.columns is not None else []:
        check_many(spec, len(problem.arms))
    known = problem if law is problem.distribution else problem.with_distribution(law)
    model = make_model(atoms, scale=scale, evidence=evidence)
    choice = choose_engine(engine, model, specs, horizon)
    text = known.to_toml() if portable else ""
    return Job(
        setting=Setting(text, k_star, tuple(rounds.tolist()), seed, scale, choice.engine),
        specs=specs,
        replications=replications,
        size=GPU_CHUNK if choice.engine == "cuda" else max(CHUNK, min(ROUNDS // horizon, replications // 16)),
        problem=known,
        gaps=gap,
        quantisation_error=atoms.error,
        model=model,
        reason=choice.reason,
    )


def log_checkpoints(horizon: int, per_decade: int = 12) -> Ints:
    """Rounds 1 to ``horizon``, equally spaced on a log axis, the horizon included.

    >>> log_checkpoints(20, per_decade=3)
    array([ 1,  2,  4,  9, 20])
    """
    count = int(np.ceil(per_decade * np.log10(max(horizon, 1)))) + 1
    return np.unique(np.rint(np.geomspace(1, horizon, max(count, 2))).astype(np.int64))


def _check_policies(policies: Sequence[str | Spec], problem: Problem) -> list[Spec]:
    if isinstance(policies, (str, Spec)) or not policies:
        raise ProblemError(f"policies: got {shown(policies)}; expected a list of at least one policy")
    specs = [spec_for(policy, problem) for policy in policies]
    titles = [spec.title for spec in specs]
    for title in titles:
        if titles.count(title) > 1:
            raise ProblemError(f"policies: got {title} twice; expected each policy once")
    return specs


def check_number(field: str, value: Any, least: int, most: int) -> None:
    """Refuse what is no whole number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise ProblemError(f"{field}: got {shown(value)}; expected a whole number from {least} to {most:,}")


def _check_memory(arms: int, checkpoints: int, replications: int, policies: int) -> None:
    """Refuse results that would not fit into memory before the time is spent on them."""
    numbers = arms * checkpoints * replications * policies
    if numbers > MAX_NUMBERS:
        raise SizeError(
            f"replications: got {replications:,} of {policies} policies with {arms:,} arms at {checkpoints} checkpoints, which "
            f"are {numbers:,} numbers of pulls; at most {MAX_NUMBERS:,} are kept. Use fewer replications, or fewer checkpoints."
        )


def check_rounds(checkpoints: ArrayLike | None, horizon: int) -> Ints:
    """The rounds to keep, ascending, the horizon last: those given, or some on a log axis."""
    if checkpoints is None:
        return log_checkpoints(horizon)
    try:
        rounds = np.unique(np.asarray(checkpoints))
    except (TypeError, ValueError):  # lists of different lengths, say
        rounds = np.empty(0)
    if rounds.dtype.kind not in "iu" or not rounds.size or rounds[0] < 1 or rounds[-1] > horizon:
        raise ProblemError(f"checkpoints: got {shown(checkpoints)}; expected whole numbers from 1 to the horizon {horizon}")
    return np.union1d(rounds, [horizon]).astype(np.int64)
