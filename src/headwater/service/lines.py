"""Who is next: operations wait in one line for each campaign, and the lines are served in turn.

Whatever one caller asks for, and however often, another campaign's operation waits for one transaction at most, because a
transaction takes from the lines in turn and ends its taking once what it took will keep it busy for a while.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

FIRST_GUESS = 2e-5
"""Seconds that a row of a campaign takes before any was timed."""
MEMORY = 0.2
"""How much a new time counts against those before."""


class Waiting(Protocol):
    """What waits: in which line, and how many rows it is about."""

    @property
    def line(self) -> str: ...

    @property
    def rows(self) -> int: ...


W = TypeVar("W", bound=Waiting)


class Lines(Generic[W]):
    """The lines, and how long a row of each took of late."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[W]] = OrderedDict()
        self._cost: dict[str, float] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, some: Iterable[W]) -> None:
        """Let them wait, each at the end of its line."""
        for one in some:
            self._lines.setdefault(one.line, deque()).append(one)
            self._count += 1

    def take(self, most: int, seconds: float) -> list[W]:
        """Those that are next: one of each line in turn, until there are ``most`` or they will take ``seconds``."""
        taken: list[W] = []
        while self._lines and len(taken) < most and seconds > 0:
            name, line = self._lines.popitem(last=False)
            one = line.popleft()
            if line:
                self._lines[name] = line  # behind the others
            taken.append(one)
            seconds -= one.rows * self._cost.get(name, FIRST_GUESS)
        self._count -= len(taken)
        return taken

    def took(self, one: W, seconds: float) -> None:
        """Remember how long it took."""
        known = self._cost.get(one.line, FIRST_GUESS)
        self._cost[one.line] = known + MEMORY * (seconds / max(one.rows, 1) - known)

    def forget(self, line: str) -> None:
        """Nobody asks for it any more."""
        self._cost.pop(line, None)
