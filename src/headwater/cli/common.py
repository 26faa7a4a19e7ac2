"""What the commands share: arguments, what is checked before any work, and how results are printed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from headwater.errors import ProblemError

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""

File = Annotated[Path, typer.Argument(help="A problem file (.toml or .json).", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to standard output, and nothing else there.")]


def check_page(option: str, page: Path | None) -> None:
    if page is not None and page.suffix != ".html":
        raise ProblemError(f"{option}: got {page.name}; expected a name that ends in .html")
    if page is not None:
        check_target(option, page)


def check_plot(plot: Path | None) -> None:
    if plot is not None and plot.suffix not in (".png", ".svg", ".html"):
        raise ProblemError(f"--plot: got {plot.name}; expected a name that ends in .png, .svg or .html")
    if plot is not None:
        check_target("--plot", plot)


def check_target(option: str, path: Path) -> None:
    """Refuse, before any work is done, a file that could not be written after it."""
    if path.is_dir():
        raise ProblemError(f"{option}: {path} is a folder; expected the name of a file")
    if not path.absolute().parent.is_dir():
        raise ProblemError(f"{option}: the folder {path.parent} does not exist; make it first")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise ProblemError(f"{option}: {path} cannot be written")


def check_free(option: str, path: Path | None, *, force: bool) -> None:
    """Refuse to write over a file, which may be somebody's work, unless told to."""
    if path is not None and os.path.lexists(path) and not force:
        raise ProblemError(f"{option}: {path} is there already; choose another name, or overwrite it (--force)")


def print_json(value: Any) -> None:
    """Letters as they are only in UTF-8, the encoding of JSON; escaped they are right in every other."""
    unicode = (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"
    typer.echo(json.dumps(value, indent=2, ensure_ascii=not unicode, allow_nan=False))


def command_line() -> str:
    """What was typed, for a manifest."""
    return " ".join(["headwater", *sys.argv[1:]])


def stopped(what: str = "nothing was kept.") -> NoReturn:
    """End after Ctrl-C."""
    typer.echo(f"Stopped; {what}", err=True)
    sys.exit(INTERRUPTED)
