r"""The leap engine: rounds in which no reward could change the choice are drawn together, exactly in law.

While the most-pulled arm r is chosen, only its own row of counts changes. So a stretch of m rounds is drawn at once: the end
first, as one multinomial number of each of r's levels. What is then unknown is their order. Every order leaves r's running
total within a distance d of the straight line between its ends:

.. math:: d = \min\Bigl\{\sum_i (a-y_i)_+,\; 0.41\,(h-l)\sqrt{m L}\Bigr\},

with y the stretch's rewards, a their average and l, h the least and the largest that can come. The first holds for certain: no
order falls lower than the one with the smallest first. The second fails with probability at most :math:`8 e^{-L}`: Serfling's
inequality for draws without replacement bounds the distance :math:`D_i` after i rewards by

.. math:: P\Bigl\{\max_{i \le j} \frac{D_i}{m-i} \ge \frac{\epsilon}{m-j}\Bigr\}
    \le \exp\Bigl(\frac{-2\epsilon^2}{j\,(1-(j-1)/m)\,(h-l)^2}\Bigr),

taken at four j up to m/2, and likewise from the other end. The same holds for the sums that exclude other arms. If r's index
is then above every rival's, or the rival is excluded, throughout, the stretch is ``certain`` and is counted whole. If not, it
is cut in two by a multivariate hypergeometric number, and its halves are looked at in turn; a few rounds are played one by
one. The first round in which r is not chosen ends the stretch: what was drawn beyond it is forgotten, which changes no law,
because rewards after a stopping time do not depend on what came before.

L is 46 (``SURE``), so that a certificate fails with probability 8e-20, far below the rounding of the 53-bit uniforms that
everything is drawn from; ``sure=inf`` leaves only what is certain.

Rounds played one by one take x_t from the same stream as the stepwise engine: with ``longest=1`` all do, and the two engines
are the same, action for action. A run of T rounds costs O(K M) for each stretch; there are O(log T) of them between two pulls
of other arms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headwater import streams
from headwater.arrays import Floats, Ints
from headwater.policies import indices, kernel
from headwater.policies.compile import compiled
from headwater.simulation import urns
from headwater.simulation.draws import atom_of, guide_shift, level_of

__all__ = ["SURE", "Chances", "Room", "Source", "certain", "chances_of", "law_of", "leap", "make_room"]

SURE = 46.0
CURVE, MANY = 0.41, 64
LEAF = 3
"""Rounds that are played one by one rather than cut further."""
DEPTH = 64
_MARGIN = 1e-12  # of the range of rewards: what rounding might do to an index, many times over

_factor = compiled(indices.ucb1_width)
_root = compiled(indices.reciprocal_root)
_mean = compiled(indices.empirical_mean)
_kl_ucb = compiled(indices.kl_ucb_index)
_kl_reaches = compiled(indices.kl_ucb_reaches)


class Source(NamedTuple):
    """The parts of a ``Model`` that rewards are drawn by."""

    table: Ints
    level: Ints
    cuts: Ints
    thresholds: Ints
    guide: Ints


class Room(NamedTuple):
    """The state of a replication, an empty table of levels, stretches still to be looked at, and the stream of draws."""

    counts: Ints
    sums: Ints
    mean: Floats
    root: Floats
    ranks: Floats  # the arms' indices: a tuple has an ``index`` already
    none: Ints
    stack: Ints
    size: Ints
    stream: Ints


def make_room(arms: int, kinds: int, seed: int) -> Room:
    """Room for one replication after the other."""
    return Room(
        np.zeros((kernel.COUNTS, arms), dtype=np.int64),
        np.zeros((arms, arms), dtype=np.int64),
        np.zeros(arms),
        np.zeros(arms),
        np.zeros(arms),
        np.zeros((0, 0), dtype=np.int64),
        np.zeros((DEPTH, kinds), dtype=np.int64),
        np.zeros(DEPTH, dtype=np.int64),
        urns.open_stream(seed),
    )


class Chances(NamedTuple):
    """``given[k, m]`` (K, M): the chance of arm k's m-th level if it is none before it. ``width`` (K, K + 1): how far
    apart the excesses over each target are, and the rewards in the last column, over the levels that can come."""

    given: Floats
    width: Floats


def law_of(k: int, levels: int, level: Ints, thresholds: Ints, cuts: Ints) -> Floats:
    """How likely each of arm k's levels is, by the same 53-bit thresholds that decide single rounds: shape (M,). O(J M)."""
    whole = 2**streams.UNIFORM_BITS
    atoms = np.diff(thresholds, prepend=0, append=whole) / whole
    if cuts.size:
        return np.asarray(atoms @ (np.diff(cuts[k], axis=1, prepend=0, append=whole) / whole))
    return np.asarray(np.bincount(level[k], weights=atoms, minlength=levels), dtype=float)


def chances_of(table: Ints, level: Ints, thresholds: Ints, cuts: Ints) -> Chances:
    """What ``leap`` reads of the arms' laws. O(K² M)."""
    count = len(table)
    law = np.stack([law_of(k, table.shape[1], level, thresholds, cuts) for k in range(count)])
    rest = np.cumsum(law[:, ::-1], axis=1)[:, ::-1]
    given = np.divide(law, rest, out=np.zeros_like(law), where=rest > 0)
    for k in range(count):
        given[k, np.flatnonzero(law[k])[-1]] = 1.0  # whatever rounding says
    can = (law > 0)[:, :, None]
    far = 2**61
    width = np.where(can, table, -far).max(axis=1) - np.where(can, table, far).min(axis=1)
    return Chances(given, width.astype(float))


@compiled
def _strays(m: int, drawn: Ints, row: Ints, ell: int, gain: int, width: float, sure: float) -> float:
    """How far below the line from 0 to ``gain`` the running total of ``drawn`` rewards ``row[:, ell]`` may fall. O(M)."""
    average, low = gain / m, 0.0
    for i in range(drawn.size):
        low += drawn[i] * max(average - row[i, ell], 0.0)
    return min(low, CURVE * width * math.sqrt(sure * m)) if m >= MANY else low


@compiled
def certain(
    m: int,
    drawn: Ints,
    sure: float,
    meta: Ints,
    params: Floats,
    counts: Ints,
    sums: Ints,
    mean: Floats,
    root: Floats,
    table: Ints,
    width: Floats,
) -> bool:
    """Whether the most-pulled arm is chosen in each of the next m rounds, in whatever order it pays ``drawn`` (M,). O(K M)."""
    arms, r = mean.size, meta[kernel.REFERENCE_ARM]
    n, total, gain = counts[kernel.PULLS, r], counts[kernel.TOTAL, r], 0
    for i in range(drawn.size):
        gain += drawn[i] * table[r, i, arms]
    low = _strays(m, drawn, table[r], arms, gain, width[r, arms], sure)
    bottom = params[kernel.UNIT] * min((total - low) / n, (total + gain - low) / (n + m))
    first, last = math.log(meta[kernel.ROUND] + 1.0), math.log(meta[kernel.ROUND] + float(m))
    if meta[kernel.POLICY] == kernel.UCB1:
        bar = bottom + _factor(first, params[kernel.SCALE]) * _root(float(n + m))
    else:
        bottom = max(bottom, params[kernel.LOW])
        bar = _kl_ucb(bottom, float(n + m), first, params[kernel.LOW], params[kernel.SPAN])
    bar -= _MARGIN * (params[kernel.SPAN] + abs(bar))
    wide = _factor(last, params[kernel.SCALE])
    for ell in range(arms):
        if ell == r:
            continue
        if meta[kernel.POLICY] == kernel.UCB1:
            rival = mean[ell] + wide * root[ell] >= bar
        else:
            rival = _kl_reaches(mean[ell], float(counts[kernel.PULLS, ell]), bar, last, params[kernel.LOW], params[kernel.SPAN])
        if rival:
            if meta[kernel.REFERENCE] == kernel.NO_FILTER:
                return False
            against, gain = sums[r, ell], 0
            for i in range(drawn.size):
                gain += drawn[i] * table[r, i, ell]
            low = _strays(m, drawn, table[r], ell, gain, width[r, ell], sure)
            if not min(against, against + gain) - low > 0.0:
                return False
    return True


@compiled
def _count(
    m: int, drawn: Ints, meta: Ints, params: Floats, counts: Ints, sums: Ints, mean: Floats, root: Floats, table: Ints
) -> None:
    """m rewards of the most-pulled arm at once. O(K M)."""
    arms, r = mean.size, meta[kernel.REFERENCE_ARM]
    for i in range(drawn.size):
        if drawn[i]:
            counts[kernel.TOTAL, r] += drawn[i] * table[r, i, arms]
            if meta[kernel.REFERENCE] != kernel.NO_FILTER:
                for ell in range(arms):
                    sums[r, ell] += drawn[i] * table[r, i, ell]
    counts[kernel.PULLS, r] += m
    meta[kernel.ROUND] += m
    n = float(counts[kernel.PULLS, r])
    mean[r] = _mean(float(counts[kernel.TOTAL, r]), n, params[kernel.UNIT])
    root[r] = _root(n)


@compiled
def _step(
    mode: int,
    arm: int,
    level: int,
    meta: Ints,
    params: Floats,
    counts: Ints,
    sums: Ints,
    mean: Floats,
    root: Floats,
    index: Floats,
    none: Ints,
    table: Ints,
) -> int:
    """One decision or observation. Only PLAY reads the last three: any arrays of their types will do."""
    return kernel.advance(mode, arm, level, meta, params, counts, sums, mean, root, index, none, table, counts, meta, meta)


@compiled
def leap(
    replication: int,
    done: int,
    meta: Ints,
    params: Floats,
    source: Source,
    chances: Chances,
    longest: int,
    sure: float,
    checkpoints: Ints,
    watch: Ints,
    slot: int,
    room: Room,
    pulls: Ints,
    reward: Ints,
) -> None:
    """One replication of a deterministic policy; fills pulls (C, K) and reward (C,). ``done`` rounds were played before it."""
    table, level, cuts, thresholds, guide = source
    given, width = chances
    counts, sums, mean, root, index, none, stack, size, stream = room
    arms, kinds, shift = table.shape[0], table.shape[1], guide_shift(guide)
    kernel.reset(meta, counts, sums, mean, root)
    meta[kernel.REPLICATION] = replication
    urns.rewind(stream, replication)
    block, spare = -1, 0
    steady, c = 0, 0  # rounds since the last choice of another arm: as many again are tried at once
    while c < checkpoints.size:
        t = meta[kernel.ROUND]
        if t == checkpoints[c]:
            for k in range(arms):
                pulls[c, k] = counts[kernel.PULLS, k]
                reward[c] += counts[kernel.TOTAL, k]
            c += 1
            continue
        if watch[0]:
            return
        m = min(steady, longest, checkpoints[c] - t)
        if m > LEAF:
            watch[slot] = done + t
            size[0], top = m, 0
            urns.multinomial(m, given[meta[kernel.REFERENCE_ARM]], stream, stack[0])
            while top >= 0:
                m, drawn = size[top], stack[top]
                if m > LEAF:
                    if certain(m, drawn, sure, meta, params, counts, sums, mean, root, table, width):
                        _count(m, drawn, meta, params, counts, sums, mean, root, table)
                        steady += m
                        top -= 1
                    else:
                        half = m // 2
                        size[top], size[top + 1] = m - half, half
                        urns.split(drawn, m, half, stream, stack[top + 1])
                        for i in range(kinds):
                            drawn[i] -= stack[top + 1, i]
                        top += 1
                    continue
                while m > 0:
                    arm = _step(kernel.SELECT, 0, 0, meta, params, counts, sums, mean, root, index, none, table)
                    if arm != meta[kernel.REFERENCE_ARM]:
                        break
                    i = urns.take(drawn, m, stream)
                    _step(kernel.OBSERVE, arm, i, meta, params, counts, sums, mean, root, index, none, table)
                    steady += 1
                    m -= 1
                top = -1 if m > 0 else top - 1
                if m > 0:
                    steady = 0
            continue
        reference = meta[kernel.REFERENCE_ARM]
        arm = _step(kernel.SELECT, 0, 0, meta, params, counts, sums, mean, root, index, none, table)
        if t // 2 != block:
            block = t // 2
            u, spare = kernel.uniforms(block, replication, streams.LATENT, 0, meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH])
            x = spare if t % 2 else u
        else:
            x = spare
        j = 0
        if guide.size:
            j = atom_of(x, thresholds, guide, shift)
        else:
            while j < thresholds.size and x >= thresholds[j]:
                j += 1
        i = level[arm, j]
        if cuts.size:
            coin, _ = kernel.uniforms(t + 1, replication, streams.REWARD, 0, meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH])
            i = level_of(coin, cuts, arm, j)
        _step(kernel.OBSERVE, arm, i, meta, params, counts, sums, mean, root, index, none, table)
        if counts[kernel.PULLS, arm] > counts[kernel.PULLS, meta[kernel.REFERENCE_ARM]]:
            meta[kernel.REFERENCE_ARM] = arm  # which the kernel itself follows only for a filter
        if arm == reference and meta[kernel.REFERENCE_ARM] == reference:
            steady += 1
        else:
            steady = 0
