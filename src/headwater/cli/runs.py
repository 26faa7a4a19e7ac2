"""The commands that simulate: one run, or a sweep of them; here, on worker processes, or on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.common import INTERRUPTED, File, Json, check_plot, command_line, print_json, stopped
from headwater.errors import ProblemError

if TYPE_CHECKING:
    from distributed import Client

    from headwater.simulation import Simulation

SIMULATE_EXAMPLES = (
    "Examples:  headwater simulate problem.toml --policy ucb1 --policy c-ucb --horizon 5000 --replications 500   |   "
    "headwater simulate problem.toml --policy c-ts:posterior=beta --output results/run --plot regret.png   |   "
    "headwater simulate problem.toml --horizon 10000000000 --replications 200   |   "
    "headwater simulate problem.toml --replications 100000 --output results/big --workers 4   (after an end before its time, "
    "the same with --resume)   |   headwater simulate problem.toml --output s3://bucket/run --cluster tcp://scheduler:8786"
)
SWEEP_EXAMPLES = (
    "Examples:  headwater sweep experiment.toml --output results/sweep   |   headwater sweep experiment.toml --output "
    "results/sweep --workers 4 --resume   |   headwater sweep experiment.toml --output s3://bucket/sweep --cluster "
    "tcp://scheduler:8786"
)


class Engine(StrEnum):
    auto = "auto"
    step = "step"
    leap = "leap"
    cuda = "cuda"


STOPPED = "what was finished is in {}: --resume goes on."

Threads = Annotated[
    int | None, typer.Option(help="Threads of a run in this process. Default: one per core.", show_default=False)
]
Workers = Annotated[int | None, typer.Option(help="Use this many worker processes on this machine.", show_default=False)]
Cluster = Annotated[
    str | None,
    typer.Option(help="Use the Dask cluster whose scheduler is at this address: tcp://host:8786.", show_default=False),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what --output holds: do only what is missing.")]


def simulate(
    file: File,
    policy: Annotated[
        list[str],
        typer.Option(
            help="A policy: ucb1, c-ucb, kl-ucb, c-kl-ucb, ts, c-ts, or one that learns the law of X: joint-ucb, latent-ts, "
            "graves-lai; uniform, epsilon-greedy; or auto, the one we would choose. Options after a colon, such as "
            "ts:sd=estimated. Repeat for several."
        ),
    ] = ["ucb1", "c-ucb"],  # noqa: B006 - typer reads the default, nobody changes it
    horizon: Annotated[int, typer.Option(help="Rounds per run.")] = 5000,
    replications: Annotated[int, typer.Option(help="Independent runs.")] = 500,
    seed: Annotated[int, typer.Option(help="The same seed gives the same results, on any machine.")] = 0,
    checkpoint: Annotated[
        list[int] | None, typer.Option(help="A round to report; repeat for several. Default: log-spaced.", show_default=False)
    ] = None,
    reward_range: Annotated[
        float | None, typer.Option(help="B, which scales exploration. Default: the widest arm's range.", show_default=False)
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="step plays every round; leap draws stretches of rounds at once (ucb1, kl-ucb, c-ucb, c-kl-ucb): 10^10 rounds "
            "take moments; cuda uses a GPU; auto leaps from 10^7 rounds on."
        ),
    ] = Engine.auto,
    threads: Threads = None,
    workers: Workers = None,
    cluster: Cluster = None,
    output: Annotated[
        str | None,
        typer.Option(
            help="Save trajectories (Parquet) and a manifest in this folder, and chunks until it is whole: a path, or an "
            "address such as s3://bucket/run.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw regret and pulls to this .png, .svg or .html file.", show_default=False)
    ] = None,
    resume: Resume = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a simulation that --output already holds.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate policies on the problem's distribution, all on the same draws of X."""
    from headwater.files import load_problem
    from headwater.policies.auto import spec_for
    from headwater.progress import progress_bar
    from headwater.simulation import simulate as run

    check_plot(plot)
    _check_resume(output, resume, force)
    problem = load_problem(file)
    specs = [spec_for(text, problem) for text in policy]
    try:
        with _client(workers, cluster) as client, progress_bar("simulating") as progress:
            result = run(
                problem,
                policies=specs,
                horizon=horizon,
                replications=replications,
                seed=seed,
                checkpoints=checkpoint,
                reward_range=reward_range,
                engine=engine.value,
                threads=threads,
                progress=progress,
                client=client,
                folder=output,
                resume=resume,
                overwrite=force,
                command=command_line(),
            )
    except KeyboardInterrupt:
        if output is None:
            raise
        stopped(STOPPED.format(output))
    cut_short = result.replications < result.wanted
    if cut_short:
        more = "" if output is None else " --resume goes on."
        typer.echo(f"Stopped: kept {result.replications} of {result.wanted} replications of every policy.{more}", err=True)
    if output is not None:
        typer.echo(f"The trajectories are in {output}", err=True)
    if plot is not None:
        _plot_regret(result, plot)
    if as_json:
        print_json(result.to_dict())
    else:
        from headwater.tables import print_simulation

        print_simulation(result)
    if cut_short:
        sys.exit(INTERRUPTED)


def sweep(
    file: Annotated[Path, typer.Argument(help="An experiment file (.toml): see docs/scale.md.", show_default=False)],
    output: Annotated[str, typer.Option(help="The folder for a folder per run and summary.csv.", show_default=False)],
    threads: Threads = None,
    workers: Workers = None,
    cluster: Cluster = None,
    resume: Resume = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the runs that --output already holds.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate every combination of the problems, policies and parameters that an experiment file lists."""
    from headwater.experiments import load_experiment, run_experiment
    from headwater.progress import chunk_bar

    _check_resume(output, resume, force)
    experiment = load_experiment(file)
    with _client(workers, cluster) as client, chunk_bar(experiment.name) as progress:
        rows, whole = run_experiment(
            experiment,
            output,
            client=client,
            threads=threads,
            resume=resume,
            overwrite=force,
            command=command_line(),
            progress=progress,
        )
    if as_json:
        print_json({"experiment": experiment.name, "output": output, "runs": [row.to_dict() for row in rows]})
    else:
        from headwater.tables import print_sweep

        print_sweep(rows)
    if not whole:
        stopped(STOPPED.format(output))
    typer.echo(f"The runs and summary.csv are in {output}", err=True)


def _check_resume(output: str | None, resume: bool, force: bool) -> None:
    if resume and output is None:
        raise ProblemError("--resume: got no --output; expected the folder that holds the unfinished simulation")
    if resume and force:
        raise ProblemError("--resume: got --force, too; expected one of them: --resume goes on, --force begins again")


@contextmanager
def _client(workers: int | None, cluster: str | None) -> Iterator[Client | None]:
    if workers is not None and cluster is not None:
        raise ProblemError("--workers: got --cluster, too; expected one of them")
    if workers is not None and not 1 <= workers <= 1024:
        raise ProblemError(f"--workers: got {workers}; expected a whole number from 1 to 1,024")
    if workers is None and cluster is None:
        yield None
        return
    from headwater.simulation.cluster import cluster_at, local_cluster

    with cluster_at(cluster) if cluster is not None else local_cluster(workers or 1) as client:
        if cluster is not None:
            count = len(client.nthreads())
            typer.echo(f"{cluster}: {count} workers" + ("" if count else " yet; waiting for some"), err=True)
        yield client


def _plot_regret(simulation: Simulation, path: Path) -> None:
    from headwater.report.limits import limits
    from headwater.report.regret_data import regret_figure

    if path.suffix == ".html":
        from headwater.report.page import write_report

        write_report([simulation], path)
    else:
        from headwater.report.draw import draw_regret, save

        save(draw_regret(regret_figure(simulation, limits=limits(simulation.problem))), path)
    typer.echo(f"The picture is in {path}", err=True)
