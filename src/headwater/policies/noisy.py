"""Arms of random rewards under the filter: what their counts imply, kept up to date for ``kernel``.

Such an arm's row of ``sums`` is not added up but computed from ``seen``, when it is needed. Two arrays describe these arms (see
POINTS and ZERO), a third is room to work in.
"""

from __future__ import annotations

import math

from headwater.arrays import Floats, Ints
from headwater.policies import waiting
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

__all__ = ["FITTED", "refresh", "select_noisy", "step_noisy"]

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
    """The rows of sums that the next decision reads, every arm being on."""
    _refresh(meta[REFERENCE_ARM], meta[:0], meta, counts, sums, seen, channel, fits, work)


@compiled
def _refresh(
    reference: int, off: Ints, meta: Ints, counts: Ints, sums: Ints, seen: Ints, channel: Floats, fits: Ints, work: Floats
) -> None:
    """The rows of sums that the next decision reads, where arms of random rewards were pulled since they were computed.

    ``reference`` is the most-pulled arm, ``off`` marks arms that are switched off; of size 0 none.

    For such an arm k, ``sums[k, ell]`` is n[k] times the mean of its likeliest law less the most that arm ell may pay on
    average under that law; where no law of X explains the rewards exactly, ``counts[SHIFT, k]`` is the likeliest law's total
    less the one that was paid. O(K M³ + K M J) for each such row, mostly.
    """
    arms = observed = 0
    for k in range(sums.shape[0]):
        if off.size == 0 or off[k] == 0:
            arms += 1
            observed += counts[PULLS, k]
    for k in range(sums.shape[0]):
        n, head = counts[PULLS, k], HEAD + FIELDS * k
        read = k == reference if meta[REFERENCE] == MOST_PULLED else n * arms >= observed and (off.size == 0 or off[k] == 0)
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


@compiled
def select_noisy(
    draws: int,
    off: Ints,
    pending: Ints,
    whole: Ints,
    real: Floats,
    sums: Ints,
    seen: Ints,
    table: Ints,
    channel: Floats,
    fits: Ints,
    work: Floats,
    copy_whole: Ints,
    copy_real: Floats,
    out: Ints,
) -> None:
    """As ``waiting.select``, where some arm's rewards are random."""
    counts = whole[META:].reshape((COUNTS, sums.shape[0]))  # not the copy's, which would be all that learns of it
    _refresh(waiting.most_pulled(off, counts), off, whole[:META], counts, sums, seen, channel, fits, work)
    waiting.select(draws, off, pending, whole, real, sums, seen, table, copy_whole, copy_real, out)
