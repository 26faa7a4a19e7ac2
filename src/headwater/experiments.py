"""Sweeps: an experiment file lists problems, policies and parameters, and every combination is simulated.

Problems × horizons × replications × seeds × reward ranges make the runs, a folder each; every run has all the policies, on
the same draws of X. An option of a policy that is a list stands for a policy with each of its values.
"""

from __future__ import annotations

import itertools
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, ValidationError

from headwater.complaints import Complaints, shown
from headwater.errors import HeadwaterError, ProblemError, ResultsError
from headwater.files import load_problem, read_text
from headwater.policies.auto import AUTO
from headwater.policies.rules import make_spec, parse_spec
from headwater.problem import Problem
from headwater.simulation import Job, Simulation, Tally, make_job, run_jobs
from headwater.simulation.folders import folder_at

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Experiment", "Row", "load_experiment", "run_experiment"]

Natural = Annotated[StrictInt, Field(ge=1)]
Whole = Annotated[StrictInt, Field(ge=0)]
Number = StrictInt | StrictFloat
_EXPECTED = {
    "name": "a text",
    "problems": "a list of problem files",
    "policies": "a list of policies: names, or tables with a name and options",
    "horizon": "a whole number from 1, or a list of them",
    "replications": "a whole number from 1, or a list of them",
    "seed": "a whole number from 0, or a list of them",
    "reward_range": "a number, or a list of them",
    "checkpoints": "a list of whole numbers",
}


class ExperimentFile(BaseModel):
    """An experiment: what to simulate. Where a parameter is a list, each of its values is."""

    model_config = ConfigDict(extra="forbid")

    name: StrictStr = ""
    problems: Annotated[list[StrictStr], Field(min_length=1)]
    policies: Annotated[list[StrictStr | dict[str, Any]], Field(min_length=1)]
    horizon: Natural | Annotated[list[Natural], Field(min_length=1)] = 5000
    replications: Natural | Annotated[list[Natural], Field(min_length=1)] = 500
    seed: Whole | Annotated[list[Whole], Field(min_length=1)] = 0
    reward_range: Number | Annotated[list[Number], Field(min_length=1)] | None = None
    checkpoints: list[StrictInt] | None = None


@dataclass(frozen=True)
class Run:
    """One simulation of a sweep; ``name`` is its folder's."""

    name: str
    job: Job


@dataclass(frozen=True)
class Experiment:
    name: str
    runs: Sequence[Run]


@dataclass(frozen=True)
class Row:
    """One policy in one run: its regret at the horizon. ``seconds`` are those of the run, all its policies together."""

    run: str
    problem: str
    policy: str
    horizon: int
    replications: int
    seed: int
    reward_range: float
    regret_mean: float
    regret_se: float
    regret_p50: float
    regret_p95: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def load_experiment(path: Path) -> Experiment:
    """Read an experiment file and the problems it names; everything wrong with any of them is said at once."""
    found, data = Complaints(), _read(path)
    try:
        file = ExperimentFile.model_validate(data)
    except ValidationError as error:
        file = _repaired(error, data, found)
    problems = _load(file.problems, path.parent, found)
    policies = _policies(file.policies, found)
    runs = _runs(file, problems, policies or ["ucb1"], found)
    found.raise_if_any()
    return Experiment(file.name or path.stem, runs)


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProblemError(f"{path}: this is not TOML: {str(error) or 'nested too deeply'}") from None


def _repaired(error: ValidationError, data: Mapping[str, Any], found: Complaints) -> ExperimentFile:
    """pydantic's findings in our words; and the file with what is wrong left out, so that the rest can be checked."""
    wrong: dict[str, str] = {}
    for item in error.errors(include_url=False):
        wrong.setdefault(str(item["loc"][0]), item["type"])
    for key, kind in wrong.items():
        if kind == "extra_forbidden":
            found.say(f"{key}: unknown key; expected {', '.join(_EXPECTED)}")
        elif kind == "missing":
            found.say(f"{key}: missing; expected {_EXPECTED[key]}")
        else:
            found.add(key, data[key], _EXPECTED[key])
    rest = {key: value for key, value in data.items() if key not in wrong}
    return ExperimentFile.model_construct(**{"problems": [], "policies": [], **rest})


def _load(files: Sequence[str], folder: Path, found: Complaints) -> dict[str, Problem]:
    """The problems, by names that folders can have."""
    out: dict[str, Problem] = {}
    for i, text in enumerate(files):
        parts = [part for part in Path(text).with_suffix("").parts if part not in ("/", "..", ".")]
        short = Path(text).stem
        name = short if sum(Path(other).stem == short for other in files) == 1 else "-".join(parts)
        if name in out:
            found.say(f"problems[{i}]: got {shown(text)} twice; expected each problem once")
            continue
        try:
            out[name] = load_problem(folder / text)
        except HeadwaterError as error:
            found.lines += [f"problems[{i}] ({text}): {line}" for line in str(error).splitlines()]
    return out


def _policies(given: Sequence[str | Mapping[str, Any]], found: Complaints) -> list[str]:
    """Every policy as a text, with each combination of its options; what is left to the problem is decided there."""
    out: list[str] = []
    for i, policy in enumerate(given):
        try:
            if isinstance(policy, str):
                if policy != AUTO:
                    parse_spec(policy)
                out.append(policy)
                continue
            options = {key: value if isinstance(value, list) else [value] for key, value in policy.items() if key != "name"}
            for values in itertools.product(*options.values()):
                make_spec(name := policy.get("name", ""), **dict(zip(options, values, strict=True)))
                out.append(f"{name}:" + ",".join(f"{key}={value}" for key, value in zip(options, values, strict=True)))
        except HeadwaterError as error:
            found.lines += [f"policies[{i}]: {line}" for line in str(error).splitlines()]
    return out


def _runs(file: ExperimentFile, problems: Mapping[str, Problem], policies: Sequence[str], found: Complaints) -> list[Run]:
    runs = []
    axes = [_listed(value) for value in (file.horizon, file.replications, file.seed, file.reward_range)]
    for (name, problem), (horizon, replications, seed, width) in itertools.product(problems.items(), itertools.product(*axes)):
        title = f"{name}-horizon-{horizon}-replications-{replications}-seed-{seed}"
        try:
            job = make_job(
                problem,
                policies=policies,
                horizon=horizon,
                replications=replications,
                seed=seed,
                checkpoints=file.checkpoints,
                reward_range=width,
                portable=True,
            )
        except HeadwaterError as error:
            lines = [f"{name}: {line}" for line in str(error).splitlines()]
            found.lines += [line for line in lines if line not in found.lines]
        else:
            runs.append(Run(title if width is None else f"{title}-range-{width:g}", job))
    return runs


def _listed(value: Any) -> list[Any]:
    return list(dict.fromkeys(value)) if isinstance(value, list) else [value]


def run_experiment(
    experiment: Experiment,
    output: str | Path,
    *,
    client: Client | None = None,
    threads: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    command: str = "",
    progress: Callable[[Tally], None] | None = None,
) -> tuple[list[Row], bool]:
    """Simulate every run into its folder below ``output``; returns a row per run and policy, and whether all are finished.

    Chunks of all runs go to the workers in one stream, so that none waits for the last chunk of a run. Ctrl-C keeps what
    was finished. ``summary.csv`` and ``summary.parquet`` hold the rows.
    """
    place, rows, mark = folder_at(output), dict[str, list[Row]](), time.perf_counter()
    names = {id(run.job): run.name for run in experiment.runs}
    for run in experiment.runs:
        run.job.open(str(place.below(run.name)), resume=resume, overwrite=overwrite)
        if run.job.saved is not None:
            rows[run.name] = _rows(run.name, run.job.saved)
    before = sum(len(run.job.done) for run in experiment.runs if run.name in rows)
    for run in experiment.runs:
        if run.name in rows:
            run.job.done.clear()

    def finished(job: Job) -> None:
        nonlocal mark
        name, now = names[id(job)], time.perf_counter()
        result, mark = job.result(now - mark), now
        job.save(result, str(place.below(name)), command=command)
        rows[name] = _rows(name, result)
        job.done.clear()

    def tell(tally: Tally) -> None:
        if progress is not None:
            more = {key: getattr(tally, key) + before for key in ("chunks", "chunks_in_all", "found")}
            progress(tally._replace(**more))

    todo = [run.job for run in experiment.runs if run.name not in rows]
    try:
        run_jobs(todo, client=client, threads=threads, progress=tell, finished=finished)
    except KeyboardInterrupt:
        whole = False
    else:
        whole = True
    summary = [row for run in experiment.runs for row in rows.get(run.name, [])]
    if summary:
        _write_summary(summary, output)
    return summary, whole


def _rows(name: str, simulation: Simulation) -> list[Row]:
    found = simulation.to_dict()
    return [
        Row(
            run=name,
            problem=simulation.problem.name,
            policy=policy,
            horizon=simulation.horizon,
            replications=simulation.replications,
            seed=simulation.seed,
            reward_range=simulation.reward_range,
            regret_mean=at["regret_mean"][-1],
            regret_se=at["regret_se"][-1],
            regret_p50=at["regret_p50"][-1],
            regret_p95=at["regret_p95"][-1],
            seconds=simulation.seconds,
        )
        for policy, at in found["policies"].items()
    ]


def _write_summary(rows: Sequence[Row], output: str | Path) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table, place = pa.Table.from_pylist([row.to_dict() for row in rows]), folder_at(output)
    try:
        with place.writing("summary.csv") as file:
            pa.csv.write_csv(table, file)
        with place.writing("summary.parquet") as file:
            pa.parquet.write_table(table, file)
    except OSError as error:
        raise ResultsError(f"{output}: summary.csv cannot be written: {error.strerror or error}") from None
