"""The command line: parses, calls, prints. Results go to standard output, everything else to standard error."""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from headwater.errors import HeadwaterError, ProblemError

if TYPE_CHECKING:
    from headwater.analysis import Analysis
    from headwater.policies import Policy
    from headwater.problem import Problem
    from headwater.regret_bounds import Bounds
    from headwater.simulation import Simulation

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the best of K options quickly when their outcomes share one hidden cause.",
    epilog="A first step:  headwater new discrete > problem.toml  and then  headwater analyze problem.toml",
)

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""

File = Annotated[Path, typer.Argument(help="A problem file (.toml or .json).", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to standard output, and nothing else there.")]
State = Annotated[Path, typer.Option(help="A stored policy: policy.state() of Python, as a JSON file.", show_default=False)]


class Kind(StrEnum):
    discrete = "discrete"
    continuous = "continuous"
    vector = "vector"


def _version(wanted: bool) -> None:
    if wanted:
        from headwater import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command(epilog="Examples:  headwater analyze problem.toml --plot picture.png   |   headwater analyze problem.toml --json")
def analyze(
    file: File,
    as_json: Json = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw reward functions and pseudo-gaps to this .png, .svg or .html file.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Compute φ for every observed arm, not only for the best.")] = False,
) -> None:
    """Means, gaps, pseudo-gaps, which arms are competitive and the least regret possible (small problems).

    Without a distribution: what holds for every one.
    """
    from headwater.analysis import analyze as run
    from headwater.files import load_problem
    from headwater.progress import working
    from headwater.report.limits import limits as possible

    _check_plot(plot)
    problem = load_problem(file)
    with working("analysing …"):
        result = run(problem, full=full)
        limits = possible(problem)
    if plot is not None:
        _plot(problem, result, plot, limits)
    if as_json:
        _print_json(result.to_dict() | ({} if limits is None else {"bounds": limits.to_dict()}))
    else:
        from headwater.tables import print_analysis

        print_analysis(problem, result, limits)
    if plot is not None:
        typer.echo(f"The picture is in {plot}", err=True)


@app.command(epilog="Example:  headwater pseudo problem.toml --observed banner --reward 2")
def pseudo(
    file: File,
    observed: Annotated[str, typer.Option(help="The arm that was pulled.", show_default=False)],
    reward: Annotated[float, typer.Option(help="What it paid.", show_default=False)],
    tolerance: Annotated[
        float, typer.Option(help="How far the reward may be from one the arm can pay, as a part of the arm's range.")
    ] = 1e-9,
    as_json: Json = False,
) -> None:
    """The most every other arm could have paid in a round in which one arm paid a given reward."""
    from headwater.files import load_problem
    from headwater.pseudo import pseudo_bounds

    problem = load_problem(file)
    k = problem.index(observed, "observed")
    upper, lower = pseudo_bounds(problem, k, reward, tolerance)
    values = dict(zip(problem.names, upper[:, 0].tolist(), strict=True))
    if as_json:
        _print_json(values)
    else:
        from headwater.tables import print_pseudo

        print_pseudo(problem, k, reward, upper[:, 0], lower[:, 0])


@app.command(
    epilog="Example:  headwater latent problem.toml --state state.json   (Python stores a state:  "
    "json.dump(policy.state(), open('state.json', 'w')))"
)
def latent(
    file: File,
    state: State,
    confidence: Annotated[float, typer.Option(help="How sure the intervals are to hold, between 0 and 1.")] = 0.95,
    as_json: Json = False,
) -> None:
    """What a policy's rewards say about X: how likely each value is, what no pulled arm tells apart, doubted arms."""
    policy = _stored_policy(file, state)
    law = policy.latent(confidence)
    if as_json:
        about = {"policy": policy.spec.title, "rounds": policy.rounds}
        _print_json({**about, **law.to_dict(), "doubted": policy.doubted})
    else:
        from headwater.tables import print_latent

        print_latent(policy, law)


@app.command(epilog="Example:  headwater explain problem.toml --state state.json")
def explain(file: File, state: State, as_json: Json = False) -> None:
    """What a stored policy would pull next, and why: every arm's mean, index and standing, in words."""
    policy = _stored_policy(file, state)
    if as_json:
        _print_json(policy.explain().to_dict())
    else:
        from headwater.tables import print_explanation

        print_explanation(policy)


@app.command()
def new(kind: Annotated[Kind, typer.Argument(help="What the latent X is.", show_default=False)]) -> None:
    """Print a commented problem file to start from, for example:  headwater new discrete > problem.toml"""
    from headwater.starters import STARTERS

    typer.echo(STARTERS[kind.value], nl=False)


@app.command()
def schema() -> None:
    """Print the JSON Schema of a problem file."""
    from headwater.files import schema as build

    _print_json(build())


@app.command(
    epilog="Examples:  headwater simulate problem.toml --policy ucb1 --policy c-ucb --horizon 5000 --replications 500   |   "
    "headwater simulate problem.toml --policy c-ts:posterior=beta --output results/run --plot regret.png"
)
def simulate(
    file: File,
    policy: Annotated[
        list[str],
        typer.Option(
            help="A policy: ucb1, c-ucb, kl-ucb, c-kl-ucb, ts, c-ts, or one that learns the law of X: joint-ucb, latent-ts, "
            "graves-lai; or auto, the one we would choose. Options after a colon. Repeat for several."
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
    threads: Annotated[int | None, typer.Option(help="Default: one per core.", show_default=False)] = None,
    output: Annotated[
        Path | None, typer.Option(help="Save trajectories (Parquet) and a manifest in this folder.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw regret and pulls to this .png, .svg or .html file.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a simulation that --output already holds.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate policies on the problem's distribution, all on the same draws of X."""
    from headwater.files import load_problem
    from headwater.policies.auto import AUTO
    from headwater.policies.rules import parse_spec
    from headwater.progress import progress_bar
    from headwater.simulation import simulate as run
    from headwater.simulation.results import prepare_folder

    _check_plot(plot)
    problem = load_problem(file)
    if output is not None:
        prepare_folder(output, overwrite=force)
    specs = [text if text == AUTO else parse_spec(text) for text in policy]
    with progress_bar("simulating") as progress:
        result = run(
            problem,
            policies=specs,
            horizon=horizon,
            replications=replications,
            seed=seed,
            checkpoints=checkpoint,
            reward_range=reward_range,
            threads=threads,
            progress=progress,
        )
    cut_short = result.replications < result.wanted
    if cut_short:
        typer.echo(f"Stopped: kept {result.replications} of {result.wanted} replications of every policy.", err=True)
    if output is not None:
        result.save(output, command=" ".join(["headwater", *sys.argv[1:]]), overwrite=force)
        typer.echo(f"The trajectories are in {output}", err=True)
    if plot is not None:
        _plot_regret(result, plot)
    if as_json:
        _print_json(result.to_dict())
    else:
        from headwater.tables import print_simulation

        print_simulation(result)
    if cut_short:
        sys.exit(INTERRUPTED)


@app.command(epilog="Example:  headwater report results/run1 results/run2 --output page.html")
def report(
    results: Annotated[list[Path], typer.Argument(help="Folders that headwater simulate --output wrote.", show_default=False)],
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """Make one self-contained HTML page from saved simulations."""
    from headwater.report.page import write_report
    from headwater.simulation import load_simulation

    _check_target("--output", output)
    write_report([load_simulation(folder) for folder in results], output)
    typer.echo(f"The page is {output}: open it in a browser.", err=True)


@app.command(epilog="Example:  headwater reproduce --output results")
def reproduce(
    output: Annotated[Path, typer.Option(help="The folder for the page, its figures and the data.")] = Path("results"),
    scale: Annotated[
        float, typer.Option(help="Shorten every horizon by this factor, for a quick look.", min=0.001, max=1.0)
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Reproduce the paper: analyse and simulate each of its problems, compare with what it says, and write one page."""
    from headwater.paper import reproduce as run
    from headwater.progress import share_bar
    from headwater.report.page import write_page

    if output.exists() and not output.is_dir():
        raise ProblemError(f"--output: {output} is a file; expected a folder")
    output.mkdir(parents=True, exist_ok=True)
    with share_bar() as progress:
        panels = run(scale=scale, progress=progress)
    page = write_page(panels, output)
    if as_json:
        _print_json({panel.case.id: panel.to_dict() for panel in panels})
    else:
        from headwater.tables import print_panels

        print_panels(panels)
    typer.echo(f"The page is {page}: open it in a browser.", err=True)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs, rougher numbers.")] = False,
    as_json: Json = False,
) -> None:
    """Measure simulation and live decisions on this machine, beside a C program compiled here."""
    from headwater.bench import run

    result = run(quick=quick, say=lambda line: typer.echo(line, err=as_json))
    if as_json:
        _print_json(result)


def _stored_policy(file: Path, state: Path) -> Policy:
    """The policy that a JSON file stores, on the problem of another file."""
    from headwater.files import load_problem
    from headwater.policies import from_state

    problem = load_problem(file)
    try:
        stored = json.loads(state.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested without end
        raise ProblemError(f"--state: {state} is not JSON: {error}") from None
    return from_state(stored, problem)


def _check_plot(plot: Path | None) -> None:
    if plot is not None and plot.suffix not in (".png", ".svg", ".html"):
        raise ProblemError(f"--plot: got {plot.name}; expected a name that ends in .png, .svg or .html")
    if plot is not None:
        _check_target("--plot", plot)


def _check_target(option: str, path: Path) -> None:
    """Refuse, before any work is done, a file that could not be written after it."""
    if path.is_dir():
        raise ProblemError(f"{option}: {path} is a folder; expected the name of a file")
    if not path.absolute().parent.is_dir():
        raise ProblemError(f"{option}: the folder {path.parent} does not exist; make it first")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise ProblemError(f"{option}: {path} cannot be written")


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


def _plot(problem: Problem, analysis: Analysis, path: Path, limits: Bounds | None) -> None:
    from headwater.report.analysis_data import analysis_figure

    data = analysis_figure(problem, analysis, problem.distribution, limits)
    if path.suffix == ".html":
        from headwater.report.interactive import analysis_page

        analysis_page(data, path)
    else:
        from headwater.report.draw import draw_analysis, save

        save(draw_analysis(data), path)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def main() -> None:
    """Run the command line: bad input ends with status 2 and a sentence, never with a traceback."""
    try:
        status = app(standalone_mode=False)
    except HeadwaterError as error:
        _fail(*(str(error).splitlines() or ["something is wrong"]))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror or error}" if error.filename else str(error.strerror or error))
    except (KeyboardInterrupt, typer.Abort):
        _stopped()
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
            sys.exit(2)
        _fail(f"{error.format_message()} (see --help)")  # what typer says of wrong options
    if status == INTERRUPTED:  # typer's own answer to Ctrl-C
        _stopped()


def _stopped() -> NoReturn:
    typer.echo("Stopped; nothing was kept.", err=True)
    sys.exit(INTERRUPTED)


def _fail(*lines: str) -> NoReturn:
    typer.echo("\n".join(f"error: {line}" for line in lines), err=True)
    sys.exit(2)
