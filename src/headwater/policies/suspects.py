"""Which arms a model may be wrong about, once rewards contradict it.

The guard (native/policies/learning/guard.h) takes out the arm that fits worst, but what is known is less: that no law of X
explains all rewards. Any arm without which some law explains the rest may be the one. Of two arms nobody can tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater import native
from headwater.arrays import Ints
from headwater.policies.channel_view import channel_view
from headwater.policies.core import tolerance_of
from headwater.policies.evidence import Evidence
from headwater.policies.rules import Learning, Spec

__all__ = ["blame", "suspects_of"]

WORK = 1_000_000
"""Sets of arms to leave out, times rows, times points, up to which each is tried: some hundredths of a second, for a service
asks on the thread that decides.
"""


def suspects_of(evidence: Evidence, spec: Spec, doubted: Sequence[int], seen: Ints) -> list[int]:
    """The numbers of the arms that the model may be wrong about: those doubted, and each that might be doubted instead of one.

    ``seen`` (K, M): counts by bin. All arms with rewards where there are too many to try each.
    """
    assert isinstance(spec.rule, Learning)
    channels, rate = evidence.channels, spec.rule.guard
    pulled = np.flatnonzero(seen.sum(axis=1))
    others = np.setdiff1d(pulled, doubted)
    if not len(doubted) or not others.size:
        return list(doubted)
    if len(doubted) * others.size * channels.offset[-1] * channels.g.shape[1] > WORK:
        return [int(k) for k in np.union1d(doubted, pulled)]
    span = evidence.span if evidence.span > 0 else 1.0
    fit = native.FitState(channel_view(channels, evidence.low, span, tolerance_of(spec)))
    counts = np.zeros(int(channels.offset[-1]))
    for k, (low, high) in enumerate(zip(channels.offset[:-1], channels.offset[1:], strict=True)):
        counts[low:high] = seen[k, : high - low]

    def explained(left_out: Ints) -> bool:
        fit.recall(counts, np.isin(np.arange(len(seen)), left_out))
        return bool(fit.contradiction(rate) < 0)

    rest = [k for k in others if any(explained(np.append(np.setdiff1d(doubted, [d]), k)) for d in doubted)]
    return [int(k) for k in np.union1d(doubted, np.array(rest, dtype=np.int64))]


def blame(doubted: Sequence[str], suspects: Sequence[str]) -> str:
    """Whom the model may be wrong about, in words.

    >>> blame(["video"], ["banner", "mail", "video"])
    'video or another of banner, mail'
    """
    others = [name for name in suspects if name not in doubted]
    words = " and ".join(filter(None, [", ".join(doubted[:-1]), *doubted[-1:]]))
    if not others:
        return words
    if len(doubted) > 1:
        return f"{words} (or, instead of one of them, {' or '.join(others)})"
    return f"{words} or {'another of ' if len(others) > 1 else ''}{', '.join(others)}"
