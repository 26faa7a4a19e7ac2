"""Names for the array types that cross module boundaries, and the small things done to arrays in more than one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
AnyInts = NDArray[Any]
"""int64, or int32 where that is known to suffice."""

SAME = 1e-12
"""Two rewards closer than this fraction of the largest magnitude are one reward: 0.1 + 0.2 and 0.3 must share a level.

Splitting a level would *lower* a pseudo-reward, which can exclude the best arm forever; merging two only costs regret.
"""


def level_starts(ordered: Floats, scale: float) -> Ints:
    """Where each new level begins in an ascending array, rounding aside.

    >>> level_starts(np.array([0.0, 0.3, 0.1 + 0.2, 1.0]), scale=1.0)
    array([0, 1, 3])
    """
    if len(ordered) == 0:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.concatenate([[True], np.diff(ordered) > SAME * scale]))


def nearest(ascending: Floats, wanted: Floats) -> Ints:
    """Which entry of an ascending array is closest to each wanted value, the lower one when two are.

    >>> nearest(np.array([0.0, 1.0, 3.0]), np.array([-1.0, 2.0, 2.5]))
    array([0, 1, 2])
    """
    above = np.clip(np.searchsorted(ascending, wanted), 0, len(ascending) - 1)
    below = np.maximum(above - 1, 0)
    return np.where(abs(ascending[below] - wanted) <= abs(ascending[above] - wanted), below, above).astype(np.int64)


def union(lo: Floats, hi: Floats) -> Floats:
    """Intervals, in any order and overlapping, as disjoint ascending ones: shape (P, 2).

    >>> union(np.array([3.0, 0.0, 1.0]), np.array([4.0, 1.0, 2.0]))
    array([[0., 2.],
           [3., 4.]])
    """
    order = np.argsort(lo, kind="stable")
    out: list[list[float]] = []
    for a, b in zip(lo[order].tolist(), hi[order].tolist(), strict=True):
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return np.array(out)
