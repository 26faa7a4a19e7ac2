"""The command that holds a learned problem against people it was not learned from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.common import File, Json, check_page, print_json
from headwater.errors import ProblemError

EXAMPLES = (
    "Examples:  headwater evaluate problem.toml held_out.csv   |   "
    "headwater evaluate problem.toml held_out.parquet --missing 99 --markets 10 --horizon 20000 --output page.html   |   "
    "headwater evaluate problem.toml held_out.csv --segment age_group --mix young=0.7,old=0.3 --by country   |   "
    "headwater evaluate problem.toml log.csv --arm ad --reward clicked --propensity p --time at --unit visitor"
)


def _column(text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(help=text, show_default=False)
    return option


def evaluate(
    file: File,
    data: Annotated[
        str, typer.Argument(help="A CSV or Parquet file, or with --database the name of a table.", show_default=False)
    ],
    arm: Annotated[str | None, _column("The data is a log: the column that says which arm was shown.")] = None,
    reward: Annotated[str | None, _column("The column of rewards of a log.")] = None,
    propensity: Annotated[str | None, _column("The column of a log that says how likely the shown arm was.")] = None,
    segment: Annotated[str | None, _column("A column that says of which segment (value of X) the row's person is.")] = None,
    time: Annotated[str | None, _column("The column that orders a log.")] = None,
    unit: Annotated[str | None, _column("The column of a log that names the unit (person, visitor), where one has several "
                                        "events: intervals are then over units.")] = None,
    missing: Annotated[str | None, _column("A value that stands for no reward, such as 99.")] = None,
    database: Annotated[str | None, _column("A DuckDB file, or an address such as postgres://user@host/name.")] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Evaluate on the part of the data that fit --hold-out learned nothing from.")
    ] = False,
    mix: Annotated[
        list[str] | None, _column("A population with these shares of segments, such as young=0.7,old=0.3. Repeat for several.")
    ] = None,
    by: Annotated[str | None, _column("A column: a population for each of its values.")] = None,
    markets: Annotated[int, typer.Option(help="How many random mixes of segments to try.")] = 5,
    concentration: Annotated[
        float, typer.Option(help="Of the Dirichlet law of random mixes: small for few segments each, large for all alike.")
    ] = 0.5,
    policy: Annotated[list[str] | None, _column("A policy, as in headwater simulate. Repeat for several. Default: ucb1, "
                                                "ts:sd=estimated and auto.")] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Rounds per run. Default: 5000; on a log, what it allows.", show_default=False)
    ] = None,
    replications: Annotated[int, typer.Option(help="Independent runs in each population.")] = 40,
    seed: Annotated[int, typer.Option(help="The same seed gives the same results.")] = 0,
    calibrate: Annotated[
        bool, typer.Option(help="Also hold the stated intervals, the inferred mix and the guard against the people.")
    ] = True,
    threads: Annotated[int | None, typer.Option(help="Threads. Default: one per core.", show_default=False)] = None,
    output: Annotated[Path | None, typer.Option(help="Write a page with pictures to this .html file.")] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Does a learned problem hold on held-out people? Replays policies against real rewards, or estimates them from a log."""
    from headwater.evaluation import POLICIES
    from headwater.evaluation import evaluate as run
    from headwater.progress import share_bar

    check_page("--output", output)
    with share_bar() as progress:
        found = run(
            file, data, arm=arm, reward=reward, propensity=propensity, segment=segment, time=time, unit=unit,
            missing=missing, database=database, held_out=held_out, mixes=[_shares(text) for text in mix or ()], by=by,
            markets=markets, concentration=concentration, policies=policy or POLICIES, horizon=horizon,
            replications=replications, seed=seed, calibrate=calibrate, threads=threads, progress=progress,
        )  # fmt: skip
    if output is not None:
        from headwater.report.evaluation_page import write_evaluation

        write_evaluation(found, output)
    if as_json:
        print_json(found.to_dict())
    else:
        from headwater.tables import print_evaluation

        print_evaluation(found)
    if output is not None:
        typer.echo(f"The page is {output}: open it in a browser.", err=True)


def _shares(text: str) -> dict[str, float]:
    """``young=0.7,old=0.3`` as shares of segments."""
    out: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, share = part.rpartition("=")
        try:
            out[name.strip()] = float(share)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise ProblemError(f"--mix: got {part}; expected segment=share, such as young=0.7,old=0.3")
    return out
