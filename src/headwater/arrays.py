"""Names for the array types that cross module boundaries, and the one way equal rewards are recognised."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

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
