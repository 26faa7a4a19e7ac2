"""Measurements that do not depend on each other, on several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

_Job = TypeVar("_Job")
_Found = TypeVar("_Found")


def side_by_side(measure: Callable[[_Job], _Found], jobs: Iterable[_Job], processes: int) -> Iterator[_Found]:
    """What ``measure`` finds for each job, in their order."""
    if processes == 1:
        yield from map(measure, jobs)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(measure, list(jobs))
