"""Progress on standard error, with rate and time left: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from headwater.simulation import Tally

EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


class Reporter:
    """Tells how far something is. ``task`` says what is being done, ``share`` how much of it is, ``rate`` how fast."""

    def __init__(self) -> None:
        self.console = Console(file=sys.stderr)
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        self.start = self.told = time.monotonic()
        self.number = self.bar.add_task("", total=1.0, rate="")

    def tell(self, task: str, share: float, rate: str = "") -> None:
        if self.console.is_terminal:
            self.bar.update(self.number, completed=share, description=task, rate=rate)
        elif time.monotonic() - self.told > EVERY:
            self.told = time.monotonic()
            self.console.print(f"{task}: {share:.0%} {rate}", markup=False, highlight=False)


@contextmanager
def _reporting() -> Iterator[Reporter]:
    reporter = Reporter()
    if not reporter.console.is_terminal:
        yield reporter
        return
    with reporter.bar:
        yield reporter


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function of (rounds done, rounds in all)."""
    with _reporting() as reporter:

        def report(done: int, total: int) -> None:
            elapsed = time.monotonic() - reporter.start
            rate = f"{done / elapsed:,.3g} rounds/s" if elapsed > 0.5 and done else ""
            reporter.tell(title, done / total, rate)

        yield report


@contextmanager
def chunk_bar(title: str) -> Iterator[Callable[[Tally], None]]:
    """Yields a function of a tally; the rate counts what this run does, not what it found done."""
    with _reporting() as reporter:

        def report(tally: Tally) -> None:
            elapsed, fresh = time.monotonic() - reporter.start, tally.chunks - tally.found
            share = tally.rounds / tally.rounds_in_all if tally.rounds_in_all else 1.0
            rate = f"{fresh / elapsed:,.3g} chunks/s" if elapsed > 0.5 and fresh else ""
            if rate and not reporter.console.is_terminal:
                rate += f", about {elapsed * (tally.chunks_in_all - tally.chunks) / fresh:,.0f} s left"
            reporter.tell(f"{title} {tally.chunks:,}/{tally.chunks_in_all:,} chunks", share, rate)

        yield report


@contextmanager
def share_bar() -> Iterator[Callable[[str, float], None]]:
    """Yields a function of (what is being done, share of all that is done)."""
    with _reporting() as reporter:
        yield reporter.tell


@contextmanager
def working(title: str) -> Iterator[None]:
    """A spinner on a terminal while something of unknown length goes on."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield
        return
    with console.status(title, spinner="line"):
        yield
