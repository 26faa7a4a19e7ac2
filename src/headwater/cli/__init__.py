"""The command line: parses, calls, prints. Results go to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from headwater.cli import evaluate, fit, runs, serve
from headwater.cli.common import INTERRUPTED, File, Json, check_page, check_plot, print_json, stopped
from headwater.errors import HeadwaterError, ProblemError
from headwater.terminal import need_output, standard_streams

if TYPE_CHECKING:
    from headwater.analysis import Analysis
    from headwater.policies import Policy
    from headwater.problem import Problem
    from headwater.regret_bounds import Bounds

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the best of K options quickly when their outcomes share one hidden cause.",
    epilog="A first step:  headwater new discrete > problem.toml  and then  headwater analyze problem.toml",
)

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
    from headwater.report.limits import as_json as analysis_json
    from headwater.report.limits import limits as possible

    check_plot(plot)
    problem = load_problem(file)
    with working("analysing …"):
        result = run(problem, full=full)
        limits = possible(problem)
    if plot is not None:
        _plot(problem, result, plot, limits)
    if as_json:
        print_json(analysis_json(problem, result, limits))
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
        print_json(values)
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
    holds: Annotated[
        str, typer.Option(help="What is to hold: each value's interval, or all at once, at this moment; or all always.")
    ] = "each",
    as_json: Json = False,
) -> None:
    """What a policy's rewards say about X: how likely each value is, what no pulled arm tells apart, doubted arms."""
    policy = _stored_policy(file, state)
    law = policy.latent(confidence, holds)  # type: ignore[arg-type]  # what is wrong with it is said there
    if as_json:
        about = {"policy": policy.spec.title, "rounds": policy.rounds}
        print_json({**about, **law.to_dict(), "doubted": policy.doubted, "suspects": policy.suspects})
    else:
        from headwater.tables import print_latent

        print_latent(policy, law)


@app.command(epilog="Example:  headwater explain problem.toml --state state.json")
def explain(file: File, state: State, as_json: Json = False) -> None:
    """What a stored policy would pull next, and why: every arm's mean, index and standing, in words."""
    policy = _stored_policy(file, state)
    if as_json:
        print_json(policy.explain().to_dict())
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

    print_json(build())


app.command(epilog=runs.SIMULATE_EXAMPLES)(runs.simulate)
app.command(epilog=runs.SWEEP_EXAMPLES)(runs.sweep)
app.command(epilog=fit.EXAMPLES)(fit.fit)
app.command(epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command(epilog=serve.SERVE_EXAMPLES)(serve.serve)
app.add_typer(serve.db, name="db")
app.add_typer(serve.key, name="key")


@app.command(epilog="Example:  headwater report results/run1 results/run2 --output page.html")
def report(
    results: Annotated[list[str], typer.Argument(help="Folders that headwater simulate --output wrote.", show_default=False)],
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """Make one self-contained HTML page from saved simulations."""
    from headwater.report.page import write_report
    from headwater.simulation import load_simulation

    check_page("--output", output)
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
    from headwater.horizons import long_runs
    from headwater.paper import reproduce as run
    from headwater.progress import share_bar
    from headwater.proofs import look_at_proofs
    from headwater.report.page import numbers, write_page

    if output.exists() and not output.is_dir():
        raise ProblemError(f"--output: {output} is a file; expected a folder")
    output.mkdir(parents=True, exist_ok=True)
    with share_bar() as progress:
        panels = run(scale=scale, progress=progress)
    with share_bar() as progress:
        long = long_runs(scale=scale, progress=progress)
    with share_bar() as progress:
        proofs = look_at_proofs(panels, scale=scale, progress=progress)
    page = write_page(panels, output, long, proofs)
    if as_json:
        print_json(numbers(panels, long, proofs))
    else:
        from headwater.tables import print_panels

        print_panels(panels, proofs)
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
        print_json(result)


def _stored_policy(file: Path, state: Path) -> Policy:
    """The policy that a JSON file stores, on the problem of another file."""
    from headwater.files import load_problem, read_bytes
    from headwater.policies import from_state

    problem = load_problem(file)
    try:
        stored = json.loads(read_bytes(state).decode())
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested without end
        raise ProblemError(f"--state: {state} is not JSON: {error}") from None
    return from_state(stored, problem)


def _plot(problem: Problem, analysis: Analysis, path: Path, limits: Bounds | None) -> None:
    from headwater.report.analysis_data import analysis_figure

    data = analysis_figure(problem, analysis, problem.distribution, limits)
    if path.suffix == ".html":
        from headwater.report.interactive import analysis_page

        analysis_page(data, path)
    else:
        from headwater.report.draw import draw_analysis, save

        save(draw_analysis(data), path)


def main() -> None:
    """Run the command line: bad input ends with status 2 and a sentence, never with a traceback."""
    with standard_streams():
        _run()


def _run() -> None:
    try:
        need_output()
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except HeadwaterError as error:
        _fail(*(str(error).splitlines() or ["something is wrong"]))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror or error}" if error.filename else str(error.strerror or error))
    except (KeyboardInterrupt, typer.Abort):
        stopped()
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
            sys.exit(2)
        _fail(f"{error.format_message()} (see --help)")  # what typer says of wrong options
    if status == INTERRUPTED:  # typer's own answer to Ctrl-C
        stopped()


def _fail(*lines: str) -> NoReturn:
    typer.echo("\n".join(f"error: {line}" for line in lines), err=True)
    sys.exit(2)
