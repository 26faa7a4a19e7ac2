"""Decisions while rewards are pending, one or many in a row, perhaps among some of the arms only. Compiled.

A pending pull has not paid, so nothing is learned from it. It counts as a round, and for policies that are not randomised as a
pull that paid the arm's mean, so that the arm's bonus shrinks and other arms get a turn. A randomised policy's posterior is not
made narrower by it: its draws spread by themselves. For all of them an arm whose first pull is pending is taken to have paid
the middle of the rewards. Pulls, totals and sums stay what was paid: an exclusion never rests on a reward that has not come.

Arms may be switched off: ``off`` (K,) is 1 for those. They are not chosen, they exclude nobody, and their rounds do not count
in log t: the decision is that of the problem without them. (Policies that learn the law of X still learn from all rewards:
see ``decisions``.) Where every arm is on, the decisions are those of ``kernel.step``.

All is worked out on a copy of the packed state (``copy_whole``, ``copy_real``), where it can be looked at afterwards.
"""

from __future__ import annotations

import math

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies import indices, kernel
from headwater.policies.compile import compiled, inlined
from headwater.policies.kernel import COUNTS, META, PARAMS, PENDING, PULLS

__all__ = ["begin", "elsewhere", "expect", "log_rounds", "most_pulled", "pend", "select", "winner"]

_root = inlined(indices.reciprocal_root)
_ELSEWHERE = 1 << 47


@compiled
def elsewhere(replication: int, draw: int) -> int:
    """Another replication's number, for draws that must not be those of any decision."""
    return ((replication + draw) ^ _ELSEWHERE) & 0xFFFFFFFFFFFF


@compiled
def _stand(k: int, meta: Ints, params: Floats, counts: Ints, mean: Floats, root: Floats) -> None:
    """Arm k's mean and root, with its pending pulls."""
    n, m = counts[PULLS, k], counts[PENDING, k]
    if n == 0 and m > 0:
        mean[k] = params[kernel.LOW] + 0.5 * params[kernel.SPAN]
    rule = meta[kernel.POLICY]
    if rule == kernel.NORMAL or rule == kernel.BETA or rule == kernel.LATENT_TS or rule == kernel.ESTIMATED:
        m = min(m, 1) if n == 0 else 0
    root[k] = kernel.standard_error(k, params, counts) if rule == kernel.ESTIMATED else _root(float(n + m))


@compiled
def expect(pending: Ints, whole: Ints, real: Floats, copy_whole: Ints, copy_real: Floats) -> None:
    """Copy the packed state, with the ``pending`` pulls (K,). O(K)."""
    arms = pending.size
    for i in range(whole.size):
        copy_whole[i] = whole[i]
    for i in range(real.size):
        copy_real[i] = real[i]
    meta, counts = copy_whole[:META], copy_whole[META:].reshape((COUNTS, arms))
    params, views = copy_real[:PARAMS], copy_real[PARAMS:].reshape((3, arms))
    for k in range(arms):
        counts[PENDING, k] = pending[k]
        if pending[k] > 0:
            meta[kernel.ROUND] += pending[k]
            _stand(k, meta, params, counts, views[0], views[1])


@compiled
def pend(k: int, meta: Ints, params: Floats, counts: Ints, mean: Floats, root: Floats) -> None:
    """One more pull of arm k is pending."""
    counts[PENDING, k] += 1
    meta[kernel.ROUND] += 1
    _stand(k, meta, params, counts, mean, root)


@compiled
def log_rounds(off: Ints, counts: Ints) -> float:
    """log t, t counting the pulls and pending pulls of the arms that are on, and the decision to be made."""
    t = 1
    for k in range(off.size):
        if off[k] == 0:
            t += counts[PULLS, k] + counts[PENDING, k]
    return math.log(float(t))


@compiled
def most_pulled(off: Ints, counts: Ints) -> int:
    """The most-pulled of the arms that are on, the lowest number among equals."""
    most = -1
    for k in range(off.size):
        if off[k] == 0 and (most < 0 or counts[PULLS, k] > counts[PULLS, most]):
            most = k
    return most


@compiled
def begin(off: Ints, index: Floats) -> None:
    """Every arm that is on in the running (0), the others out of it all (NaN)."""
    for k in range(index.size):
        index[k] = 0.0 if off[k] == 0 else np.nan


@compiled
def winner(reference: int, log_t: float, meta: Ints, params: Floats, counts: Ints, mean: Floats, index: Floats) -> int:
    """The arm of largest index, the lowest number among equals, or one that is audited instead."""
    arm, best = reference, -np.inf
    for k in range(index.size):
        if index[k] > best:
            arm, best = k, index[k]
    if params[kernel.AUDIT] > 0.0:
        arm = kernel.audited(arm, mean[reference], log_t, params, counts, mean, index)
    meta[kernel.CHOSEN] = arm
    return arm


@compiled
def select(
    draws: int,
    off: Ints,
    pending: Ints,
    whole: Ints,
    real: Floats,
    sums: Ints,
    seen: Ints,
    table: Ints,
    copy_whole: Ints,
    copy_real: Floats,
    out: Ints,
) -> None:
    """``out.size`` decisions in a row, the arms chosen into ``out``; every arm's last index is left in ``copy_real``.

    If ``draws`` is not 0, one decision as it would be with other random numbers, again and again: of ``out`` (K,) the arms
    chosen are counted up.
    """
    arms = off.size
    expect(pending, whole, real, copy_whole, copy_real)
    meta, counts = copy_whole[:META], copy_whole[META:].reshape((COUNTS, arms))
    params, views = copy_real[:PARAMS], copy_real[PARAMS:].reshape((3, arms))
    mean, root, index = views[0], views[1], views[2]
    reference = most_pulled(off, counts)
    meta[kernel.REFERENCE_ARM] = reference
    for i in range(draws if draws > 0 else out.size):
        if draws > 0:
            meta[kernel.REPLICATION] = elsewhere(whole[kernel.REPLICATION], i)
        log_t = log_rounds(off, counts)
        begin(off, index)
        kernel.weigh(log_t, meta, params, counts, sums, mean, root, index, seen, table)
        arm = winner(reference, log_t, meta, params, counts, mean, index)
        if draws > 0:
            out[arm] += 1
            continue
        out[i] = arm
        if i + 1 < out.size:
            pend(arm, meta, params, counts, mean, root)
