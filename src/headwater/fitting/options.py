"""What a user may set about a fit, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from headwater.arms import MAX_REWARD
from headwater.complaints import Complaints, is_number

METHODS = ("auto", "channels", "kmeans", "gaussian", "categorical")
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Options:
    """What a user may set, checked."""

    method: str
    segments: int | None
    levels: int | None
    edges: tuple[float, ...] | None
    least: int
    confidence: float
    sample: int
    seed: int
    progress: Progress
    hold_out: float | None = None

    def check(self) -> None:
        found = Complaints()
        if self.method not in METHODS:
            found.add("method", self.method, f"one of {', '.join(METHODS)}")
        for key, low, high in (("segments", 1, 200), ("levels", 2, 200), ("least", 1, 10**9), ("sample", 100, 10**7)):
            value = getattr(self, key)
            if value is not None and not _whole(value, low, high):
                found.add(key, value, f"a whole number from {low:,} to {high:,}")
        if not is_number(self.confidence) or not 0 < self.confidence < 1:
            found.add("confidence", self.confidence, "a number between 0 and 1")
        if self.hold_out is not None and not (is_number(self.hold_out) and 0 < self.hold_out < 1):
            found.add("hold_out", self.hold_out, "a share between 0 and 1")
        if not _whole(self.seed, 0, 2**63 - 1):
            found.add("seed", self.seed, "a whole number, 0 or more")
        if self.edges is not None and (self.levels is not None or not _ascending(self.edges)):
            found.add("edges", list(self.edges), "ascending numbers, and no levels beside them")
        found.raise_if_any()


def _whole(value: Any, low: int, high: int) -> bool:
    return is_number(value) and bool(low <= value <= high) and value == int(value)


def _ascending(edges: tuple[Any, ...]) -> bool:
    numbers = all(is_number(edge) and abs(edge) <= MAX_REWARD for edge in edges)  # of NaN, too, that is not so
    return numbers and len(edges) > 0 and all(a < b for a, b in pairwise(edges))
