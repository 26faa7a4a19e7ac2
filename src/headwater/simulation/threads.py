"""Blocks of replications on all cores: the kernels release the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

import numpy as np

from headwater.arrays import Ints

__all__ = ["core_count", "in_threads"]


def core_count() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(
    run: Callable[[int, int, Ints, int], None],
    replications: int,
    block: int,
    threads: int | None,
    progress: Callable[[int], None] | None,
) -> None:
    """Run blocks of replications; kernels release the GIL. An interrupt stops the running blocks within a moment, drops the
    others and is raised again.

    ``watch[0]`` tells the kernels to stop; block b tells the rounds it has done in ``watch[1 + b]``.
    """
    workers = threads if threads is not None else core_count()
    # Small jobs still use every thread: blocks shrink, which results do not notice.
    block = max(1, min(block, -(-replications // workers)))
    starts = range(0, replications, block)
    watch = np.zeros(1 + len(starts), dtype=np.int64)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        pending = {pool.submit(run, start, min(start + block, replications), watch, 1 + b) for b, start in enumerate(starts)}
        try:
            while pending:
                finished, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
                for future in finished:
                    future.result()
                if progress is not None:
                    progress(int(watch[1:].sum()))
        except BaseException:
            watch[0] = 1
            for future in pending:
                future.cancel()
            raise
