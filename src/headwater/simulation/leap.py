r"""What the leap engine (native/engines/leap.h) asks of a problem: the law of every arm's rewards, and when a chance is none.

It draws stretches of rounds at once: rounds in which no reward could change the choice, or none but with a chance of at most
exp(-``SURE``) = 8e-20, far below the rounding of the 53-bit uniforms that everything is drawn from. ``sure=inf`` leaves only
what is certain. native/policies/stretch.h has the bound and its proof.
"""

from __future__ import annotations

import numpy as np

from headwater import streams
from headwater.arrays import Floats, Ints

__all__ = ["SURE", "chances_of", "law_of"]

SURE = 44.0


def law_of(k: int, levels: int, level: Ints, thresholds: Ints, cuts: Ints) -> Floats:
    """How likely each of arm k's levels is, by the same 53-bit thresholds that decide single rounds: shape (M,). O(J M)."""
    whole = 2**streams.UNIFORM_BITS
    atoms = np.diff(thresholds, prepend=0, append=whole) / whole
    if cuts.size:
        return np.asarray(atoms @ (np.diff(cuts[k], axis=1, prepend=0, append=whole) / whole))
    return np.asarray(np.bincount(level[k], weights=atoms, minlength=levels), dtype=float)


def chances_of(table: Ints, level: Ints, thresholds: Ints, cuts: Ints) -> Floats:
    """``given[k, m]`` (K, M): the chance of arm k's m-th level if it is none before it. O(K J M)."""
    count = len(table)
    law = np.stack([law_of(k, table.shape[1], level, thresholds, cuts) for k in range(count)])
    rest = np.cumsum(law[:, ::-1], axis=1)[:, ::-1]
    given = np.divide(law, rest, out=np.zeros_like(law), where=rest > 0)
    for k in range(count):
        given[k, np.flatnonzero(law[k])[-1]] = 1.0  # whatever rounding says
    return given
