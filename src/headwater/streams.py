"""Streams of randomness: every number is a pure function of (seed, replication, round, purpose, lane).

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011): ten rounds of a keyed bijection of a 128-bit
counter. It has no state, so any chunk of any replication can be drawn alone, in any order, on any machine; it needs
only 32-bit products with 64-bit results and exclusive-ors, so it vectorises and runs on a GPU as it stands.

Layout
    key       (low, high) words of the 64-bit seed
    counter   word 0: low 32 bits of ``block``
              word 1: low 32 bits of ``replication``
              word 2: purpose in the top 8 bits, ``lane`` in the low 24 (an arm, or an arm and an attempt)
              word 3: bits 32..47 of block in the top half, bits 32..47 of replication in the bottom half

One call gives four 32-bit words, that is two uniforms of 53 bits. For the latent value, rounds 2b + 1 and 2b + 2 take
the two uniforms of block b; for everything else block is the round number.

What draws is native/draws.h; here is the same in Python's whole numbers, for whoever wants to see it or draws a few.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.complaints import shown
from headwater.errors import ProblemError

__all__ = [
    "BETA_FAILURE",
    "BETA_SUCCESS",
    "BINARISE",
    "CHOICE",
    "LATENT",
    "LEAP",
    "LINEAR_ATOMS",
    "NORMAL",
    "REWARD",
    "TRAFFIC",
    "UNIFORM_BITS",
    "WALK",
    "counter_words",
    "guide_table",
    "join",
    "latent_thresholds",
    "philox",
    "seed_words",
    "to_open_unit",
]

# Purposes, each below 2**8. They are part of the meaning of a seed: never renumber them.
LATENT = 0  # x_t
NORMAL = 1  # Thompson sampling, normal posterior
REWARD = 2  # which level a random reward takes, given x_t
BINARISE = 3  # Thompson sampling, Beta posterior: the coin that makes a reward 0 or 1
BETA_SUCCESS = 4  # and its two gamma draws
BETA_FAILURE = 5
WALK = 6  # Thompson sampling over the law of X: the moves of its chain
LEAP = 7  # the rewards of many rounds at once; block counts calls, not rounds
TRAFFIC = 8  # a live campaign: who gets an arm by lot, and which
CHOICE = 9  # an arm by lot, of a policy that chooses so

UNIFORM_BITS = 53
LINEAR_ATOMS = 16  # up to here, comparing with every threshold (vectorised) beats a guide table

_M32 = 0xFFFFFFFF
_MULTIPLIER_0 = 0xD2511F53
_MULTIPLIER_1 = 0xCD9E8D57
_WEYL_0 = 0x9E3779B9
_WEYL_1 = 0xBB67AE85


def philox(c0: int, c1: int, c2: int, c3: int, k0: int, k1: int) -> tuple[int, int, int, int]:
    """Philox4x32-10 of a counter under a key; words in, words out, each in [0, 2**32)."""
    for _ in range(10):
        # An int64 product wraps modulo 2**64 and the shift then drags the sign along: the mask undoes that.
        p0 = c0 * _MULTIPLIER_0
        p1 = c2 * _MULTIPLIER_1
        c0 = ((p1 >> 32) & _M32) ^ c1 ^ k0
        c1 = p1 & _M32
        c2 = ((p0 >> 32) & _M32) ^ c3 ^ k1
        c3 = p0 & _M32
        k0 = (k0 + _WEYL_0) & _M32
        k1 = (k1 + _WEYL_1) & _M32
    return c0, c1, c2, c3


def counter_words(block: int, replication: int, purpose: int, lane: int) -> tuple[int, int, int, int]:
    """The counter of a draw; see the module's layout. block and replication below 2**48, lane below 2**24."""
    high = (((block >> 32) & 0xFFFF) << 16) | ((replication >> 32) & 0xFFFF)
    return block & _M32, replication & _M32, (purpose << 24) | lane, high


def join(high: int, low: int) -> int:
    """A uniform integer in [0, 2**53) from two words: all of ``high``, the top 21 bits of ``low``."""
    return (high << 21) | (low >> 11)


def to_open_unit(u: int) -> float:
    """The midpoint of a 53-bit uniform's cell: in (0, 1), never an end, so that its logarithm and quantile are finite.

    Above 1/2 the midpoint is not representable and rounds to even, hence the cap at the largest number below 1.
    """
    return min((u + 0.5) * 2.0**-53, 1.0 - 2.0**-53)


def seed_words(seed: object) -> tuple[int, int]:
    """The Philox key of a seed in [0, 2**64)."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ProblemError(f"seed: got {shown(seed)}; expected a whole number from 0 to 2**64 - 1")
    return int(seed) & _M32, int(seed) >> 32


def latent_thresholds(probabilities: Floats) -> Ints:
    """The J - 1 integers that turn a 53-bit uniform u into an atom: j is how many of them are <= u.

    Threshold i is ceil(2**53 * cdf(i)), in exact arithmetic, so that P(j) is right to 2**-53 and atoms of probability 0
    are never drawn. ``probabilities`` (J,) are divided by their sum.

    >>> [int(i) / 2**53 for i in latent_thresholds(np.array([0.25, 0.0, 0.75]))]
    [0.25, 0.25]
    """
    p = np.asarray(probabilities, dtype=float)
    if not (p.size and np.isfinite(p).all() and p.min() >= 0 and p.max() > 0):
        raise ProblemError(f"probabilities: got {shown(p.tolist())}; expected numbers >= 0 with a positive sum")
    ratios = [x.as_integer_ratio() for x in p.tolist()]
    common = max(denominator for _, denominator in ratios)  # powers of two, so the largest is a multiple of all
    below = list(accumulate(numerator * (common // denominator) for numerator, denominator in ratios))
    return np.array([-(-(x << UNIFORM_BITS) // below[-1]) for x in below[:-1]], dtype=np.int64)


def guide_table(thresholds: Ints) -> Ints:
    """Where the search for an atom starts: ``guide[u >> (53 - bits)]``, with ``2**bits`` entries, at least 4 J of them.

    From there a step past each threshold <= u finds the same atom as comparing with all, in O(1) expected steps.
    """
    bits = max(4, int(4 * (len(thresholds) + 1) - 1).bit_length())
    cells = np.arange(2**bits, dtype=np.int64) << (UNIFORM_BITS - bits)
    return np.searchsorted(thresholds, cells, side="right").astype(np.int64)
