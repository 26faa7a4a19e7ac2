"""Which arms a model may be wrong about, once rewards contradict it.

The guard (``mind``) takes out the arm that fits worst, but what is known is less: that no law of X explains all rewards. Any
arm without which some law explains the rest may be the one. Of two arms nobody can tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.arrays import Ints
from headwater.policies.evidence import Evidence
from headwater.policies.learner import GUARD, Learner, twin
from headwater.policies.mind import contradiction, relearn

__all__ = ["blame", "suspects_of"]

WORK = 1_000_000
"""Sets of arms to leave out, times rows, times points, up to which each is tried: some hundredths of a second, for a service
asks on the thread that decides.
"""


def suspects_of(evidence: Evidence, learner: Learner, seen: Ints) -> Ints:
    """The numbers of the arms that the model may be wrong about: those doubted, and each that might be doubted instead of one.

    ``seen`` (K, M): counts by bin. All arms with rewards where there are too many to try each.
    """
    doubted, pulled = np.flatnonzero(learner.mind.doubted), np.flatnonzero(seen.sum(axis=1))
    others = np.setdiff1d(pulled, doubted)
    lens = learner.lens
    if not doubted.size or not others.size:
        return doubted
    if doubted.size * others.size * lens.offset[-1] * lens.g.shape[1] > WORK:
        return np.union1d(doubted, pulled)
    mine = twin(learner)
    counts = np.zeros_like(mine.mind.n)
    for k, (low, high) in enumerate(zip(lens.offset[:-1], lens.offset[1:], strict=True)):
        counts[low:high] = seen[k, : high - low]

    def explained(left_out: Ints) -> bool:
        mine.mind.n[:] = counts
        mine.mind.doubted[:] = 0
        mine.mind.doubted[left_out] = 1
        relearn(mine.lens, mine.mind)
        return bool(contradiction(mine.lens, mine.mind, mine.knobs[GUARD]) < 0)

    rest = [k for k in others if any(explained(np.append(np.setdiff1d(doubted, [d]), k)) for d in doubted)]
    return np.union1d(doubted, np.array(rest, dtype=np.int64))


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
