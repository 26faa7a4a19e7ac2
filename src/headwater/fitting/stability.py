"""How firmly segments stand: found again from random halves of the units, do the same units come together?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headwater.arrays import Ints
from headwater.fitting.result import Stability

REFITS = 4


def find_stability(
    segment: Ints, kinds: int, refit: Callable[[Ints, np.random.Generator], Ints], rng: np.random.Generator
) -> Stability | None:
    """Compare ``segment`` (N,) with what ``refit(half, rng)`` says of all N units, having seen only a half of them.

    None for one segment, which cannot come out differently.

    >>> label = np.repeat([0, 1], 50)
    >>> find_stability(label, 2, lambda half, rng: 1 - label, np.random.default_rng(0))
    Stability(agreement=1.0, segments=[1.0, 1.0], refits=4)
    """
    from sklearn.metrics import adjusted_rand_score

    if kinds == 1:
        return None
    agreement, overlap = [], []
    for _ in range(REFITS):
        half = np.sort(rng.permutation(len(segment))[: len(segment) // 2])
        again = refit(half, rng)
        agreement.append(float(adjusted_rand_score(segment, again)))
        both = np.zeros((kinds, int(again.max()) + 1))
        np.add.at(both, (segment, again), 1)
        joint = both.sum(axis=1, keepdims=True) + both.sum(axis=0) - both
        overlap.append(np.divide(both, joint, out=np.zeros_like(both), where=joint > 0).max(axis=1))
    return Stability(float(np.mean(agreement)), np.mean(overlap, axis=0).tolist(), REFITS)
