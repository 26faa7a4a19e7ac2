"""The command that learns a problem from the log of a control group."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.common import Json, check_free, check_page, check_target, command_line, print_json
from headwater.errors import ProblemError

EXAMPLES = (
    "Examples:  headwater fit log.csv --arm ad --reward clicked --segment age_group   |   "
    "headwater fit log.parquet --arm ad --reward revenue --features age,country   |   "
    "headwater fit ratings.csv --wide --unit user --missing 99 --output jokes.toml   |   "
    "headwater fit shop.events --database postgres://reader@host/shop --arm offer --reward paid --unit customer"
)


class Method(StrEnum):
    auto = "auto"
    channels = "channels"
    kmeans = "kmeans"
    gaussian = "gaussian"
    categorical = "categorical"


def _column(text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(help=text, show_default=False)
    return option


def fit(
    data: Annotated[
        str, typer.Argument(help="A CSV or Parquet file, or with --database the name of a table.", show_default=False)
    ],
    arm: Annotated[str | None, _column("The column that says which arm was pulled.")] = None,
    reward: Annotated[str | None, _column("The column of rewards.")] = None,
    segment: Annotated[str | None, _column("A column that says of which segment (value of X) the row's unit is.")] = None,
    features: Annotated[str | None, _column("Columns to find segments from, separated by commas.")] = None,
    unit: Annotated[str | None, _column("The column that names the unit (person, visitor); units that saw several arms "
                                        "show how many kinds there are.")] = None,
    wide: Annotated[bool, typer.Option("--wide", help="One row per unit, one column per arm: all not named here.")] = False,
    arms: Annotated[str | None, _column("Columns of a wide table that are arms, separated by commas.")] = None,
    missing: Annotated[str | None, _column("A value that stands for no reward, such as 99.")] = None,
    time: Annotated[str | None, _column("The column that says when; checked for drift.")] = None,
    until: Annotated[str | None, _column("Leave out rows that came later than this.")] = None,
    database: Annotated[str | None, _column("A DuckDB file, or an address such as postgres://user@host/name.")] = None,
    method: Annotated[Method, typer.Option(help="How to find segments: from rewards or features.")] = Method.auto,
    segments: Annotated[int | None, _column("How many segments to find. Default: chosen on held-out units.")] = None,
    levels: Annotated[int | None, _column("How many levels many different rewards are cut into. Default: as few as keep 98 % "
                                          "of their variance, 12 at most.")] = None,
    edges: Annotated[str | None, _column("Where to cut, instead: numbers separated by commas.")] = None,
    least: Annotated[int, typer.Option(help="An arm's rewards for a segment are pooled when they are fewer.")] = 10,
    confidence: Annotated[float, typer.Option(help="How sure the intervals are to hold, between 0 and 1.")] = 0.95,
    sample: Annotated[int, typer.Option(help="The most units that segments are learned from.")] = 20_000,
    hold_out: Annotated[
        float | None, _column("A share of the units (rows, without --unit) to learn nothing from, for evaluate --held-out.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same problem.")] = 0,
    name: Annotated[str, typer.Option(help="The problem's name. Default: where the log came from.", show_default=False)] = "",
    output: Annotated[Path, typer.Option(help="The problem file to write; one that is there is kept.")] = Path("problem.toml"),
    page: Annotated[Path | None, _column("Write a page in plain words with pictures, and simulate new markets for it: a .html "
                                         "file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what --output and --page name, where it is there.")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Learn a problem from the log of a control group: kinds of units, and what each arm pays to each of them."""
    from headwater.fitting import fit as run
    from headwater.progress import share_bar
    from headwater.report.fit_data import foresee

    check_target("--output", output)
    if output.suffix != ".toml":
        raise ProblemError(f"--output: got {output.name}; expected a name that ends in .toml")
    check_page("--page", page)
    for option, path in (("--output", output), ("--page", page)):
        check_free(option, path, force=force)
    with share_bar() as progress:
        found = run(
            data, arm=arm, reward=reward, segment=segment, unit=unit, features=_listed(features), time=time,
            wide=_listed(arms) if arms is not None else wide, missing=missing, until=until, database=database,
            method=method.value, segments=segments, levels=levels, edges=_numbers(edges), least=least, confidence=confidence,
            sample=sample, hold_out=hold_out, seed=seed, name=name, command=_command(database), progress=progress,
        )  # fmt: skip
        outlook = None if page is None else foresee(found, seed=seed, progress=progress)
    found.save(output)
    if page is not None and outlook is not None:
        from headwater.report.fit_page import write_fit_page

        write_fit_page(found, outlook, page)
    if as_json:
        print_json(found.to_dict() | ({} if outlook is None else {"outlook": outlook.to_dict()}))
    else:
        from headwater.tables import print_fit

        print_fit(found)
    typer.echo(
        f"The problem is in {output}" + ("" if page is None else f"; the page is {page}: open it in a browser"), err=True
    )


def _command(database: str | None) -> str:
    """What was typed, without a password."""
    from headwater.fitting.sources import safe_address

    return command_line() if database is None else command_line().replace(database, safe_address(database))


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ProblemError(f"--edges: got {text}; expected numbers separated by commas") from None
