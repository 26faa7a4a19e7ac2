"""Arms of random rewards under the filter: what their counts imply, kept up to date for ``kernel``.

Such an arm's row of ``sums`` is not added up but computed from ``seen``, when it is needed. Two arrays describe these arms (see
POINTS and ZERO), a third is room to work in.
"""

from __future__ import annotations

import math

from headwater.arrays import Floats, Ints
from headwater.policies.compile import compiled
from headwater.policies.implied import imply
from headwater.policies.kernel import (
    COUNTS,
    META,
    MOST_PULLED,
    NO_FILTER,
    OBSERVE,
    PULLS,
    REFERENCE,
    REFERENCE_ARM,
    SELECT,
    SHIFT,
    TOTAL,
    step,
)

__all__ = ["FITTED", "refresh", "step_noisy"]

# fits, for arms of random rewards: how many points, the length of a basis; then for each arm how many rewards (0: not random),
# where its channel starts, at how many pulls its row of sums was computed; then the bases (K, K, length)
POINTS, ROWS, HEAD = range(3)
LEVELS, START, FITTED, FIELDS = range(4)
# channel: in units the zero and the scale of the means g, and what is added to every bound; then g (K, J), the channels (M, J)
ZERO, WIDTH, SLACK, FACTS = range(4)


@compiled
def _fit(k: int, counts: Ints, sums: Ints, seen: Ints, channel: Floats, fits: Ints, work: Floats) -> None:
    """Arm k's row of sums anew from how often it paid each reward: whole numbers of units, never above the truth."""
    arms, points, rows = sums.shape[0], fits[POINTS], fits[ROWS]
    head = HEAD + FIELDS * k
    levels, start = fits[head + LEVELS], fits[head + START]
    bases = fits[HEAD + FIELDS * arms :].reshape((arms, arms, rows))
    g = channel[FACTS : FACTS + arms * points].reshape((arms, points))
    a = channel[start : start + levels * points].reshape((levels, points))
    bound = work[:arms]
    n, total = float(counts[PULLS, k]), float(counts[TOTAL, k])
    counts[SHIFT, k] = 0
    if not imply(k, a, g, seen[k, :levels], bases[k], bound, work[arms:]):
        mean = channel[ZERO] + channel[WIDTH] * bound[k] - channel[SLACK]
        counts[SHIFT, k] = math.floor(n * mean - total)
        total += float(counts[SHIFT, k])
    for ell in range(arms):
        phi = channel[ZERO] + channel[WIDTH] * bound[ell] + channel[SLACK]
        sums[k, ell] = 0 if ell == k else math.floor(total - n * phi)
    fits[head + FITTED] = counts[PULLS, k]


@compiled
def refresh(meta: Ints, counts: Ints, sums: Ints, seen: Ints, channel: Floats, fits: Ints, work: Floats) -> None:
    """The rows of sums that the next decision reads, where arms of random rewards were pulled since they were computed.

    For such an arm k, ``sums[k, ell]`` is n[k] times the mean of its likeliest law less the most that arm ell may pay on
    average under that law; where no law of X explains the rewards exactly, ``counts[SHIFT, k]`` is the likeliest law's total
    less the one that was paid. O(K M³ + K M J) for each such row, mostly.
    """
    arms, observed = sums.shape[0], 0
    for k in range(arms):
        observed += counts[PULLS, k]
    for k in range(arms):
        n, head = counts[PULLS, k], HEAD + FIELDS * k
        read = k == meta[REFERENCE_ARM] if meta[REFERENCE] == MOST_PULLED else n * arms >= observed
        if meta[REFERENCE] != NO_FILTER and read and n > 0 and fits[head + LEVELS] > 0 and fits[head + FITTED] != n:
            _fit(k, counts, sums, seen, channel, fits, work)


@compiled
def step_noisy(
    mode: int,
    arm: int,
    m: int,
    whole: Ints,
    real: Floats,
    sums: Ints,
    seen: Ints,
    table: Ints,
    channel: Floats,
    fits: Ints,
    work: Floats,
) -> int:
    """As ``step``, where some arm's rewards are random."""
    if mode != SELECT:
        step(OBSERVE, arm, m, whole, real, sums, seen, table)
    if mode == OBSERVE:
        return arm
    refresh(whole[:META], whole[META:].reshape((COUNTS, sums.shape[0])), sums, seen, channel, fits, work)
    return step(SELECT, arm, m, whole, real, sums, seen, table)
