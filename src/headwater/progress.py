"""Progress bars on standard error, with rate and time left; silent when nobody is looking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function of (rounds done, rounds in all)."""
    with _bar() as bar:
        task = bar.add_task(title, total=None, rate="")

        def report(done: int, total: int) -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            rate = f"{done / elapsed:,.3g} rounds/s" if elapsed > 0.5 and done else ""
            bar.update(task, completed=done, total=total, rate=rate)

        yield report


@contextmanager
def share_bar() -> Iterator[Callable[[str, float], None]]:
    """Yields a function of (what is being done, share of all that is done)."""
    with _bar() as bar:
        task = bar.add_task("", total=1.0, rate="")

        def report(what: str, share: float) -> None:
            bar.update(task, completed=share, description=what)

        yield report
