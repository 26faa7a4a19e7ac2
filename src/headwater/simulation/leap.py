r"""The leap engine: rounds in which no reward could change the choice are drawn together, exactly in law.

While the most-pulled arm r is chosen, only its own row of counts changes. So a stretch of m rounds is drawn at once: the end
first, as one multinomial number of each of r's levels. What is then unknown is their order. After i rewards of average a, r's
total is :math:`a i - D_i` more than before, and r stays ahead of a rival while :math:`D_i < x_0 + (x_1 - x_0)\,i/m`, a line
through what r is ahead by, in units of reward, at both ends of the stretch. (For UCB1, n + i times the difference of two
indices; :math:`\sqrt{\log(t+i)}` lies below its tangent and :math:`\sqrt{n+i}` above its chord: both are concave.)
No order takes :math:`D_i` above :math:`\sum (a-y)_+`: the smallest rewards y first. And almost no order takes it across the
line, since for any :math:`\theta, \lambda > 0`

.. math:: P\{D_i \ge x_0 + (x_1 - x_0)\,i/m \text{ for some } i\} \le 2 C e^{-E}, \qquad
    E = \min\{(\theta+\lambda) x_0 - m \log \tfrac1m \textstyle\sum e^{\theta(y-a)},\;
              (\theta+\lambda) x_1 - m \log \tfrac1m \sum e^{\lambda(a-y)}\}.

*Proof.* A random order is that of independent draws from the stretch's own frequencies p, given that their numbers come out as
p says. So a first crossing at :math:`i \le m/2` has the chance it has among independent draws, times that of what is left
after it, over that of everything. The first is at most :math:`e^{-\lambda D_i + i \kappa(\lambda)}`, :math:`\kappa` the
second logarithm in E over m, summed over all i, because :math:`e^{\lambda D_i - i\kappa(\lambda)}` is a martingale. The rewards
left are above average by :math:`D_i` in all: tilted by :math:`e^{\theta y}` their chance is
:math:`e^{-\theta D_i + (m-i)\kappa'(\theta)}` times that of the same numbers under the tilted frequencies q. The product of
the exponentials is linear in i where :math:`D_i` is on the line, so at most :math:`e^{-E}`. C is what is left: no set of
:math:`m - i \ge m/2` draws has a chance above :math:`e^{1/6m}\sqrt{2\pi(m-i)} \prod (2 e (m-i) q_k)^{-1/2}` (Poisson numbers
given their sum; no Poisson number has a chance above :math:`(2 e \mu)^{-1/2}`), and that of everything is at least
:math:`\sqrt{2\pi m}\prod e^{-1/12} (2\pi m p_k)^{-1/2}`, k over the levels drawn. Later crossings are early ones from the other
end, which exchanges the two sums. With :math:`\theta = 2 x_0 / m\sigma^2`, :math:`\lambda = 2 x_1 / m\sigma^2` and normal
rewards, E would be :math:`2 x_0 x_1 / m \sigma^2`, which is Brownian motion's. The same holds for the sums that exclude other
arms, with the line from their value now to that at the end.

If r's index is above every rival's, or the rival is excluded, throughout, the stretch is ``certain`` and is counted whole. If
not, it is cut in two by a multivariate hypergeometric number, and its halves are looked at in turn; a few rounds are played one
by one. The first round in which r is not chosen ends the stretch: what was drawn beyond it is forgotten, which changes no law,
because rewards after a stopping time do not depend on what came before.

A line counts as safe if it is crossed with probability at most exp(-``SURE``) = 8e-20, far below the rounding of the 53-bit
uniforms that everything is drawn from; ``sure=inf`` leaves only what is certain.

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

__all__ = ["SURE", "Room", "Source", "certain", "chances_of", "law_of", "leap", "make_room"]

SURE = 44.0
MANY = 64
"""Rewards from which on some order is so unlikely that it helps to know."""
ROOM = 1.3
"""The exponent tried is at most so many times what is needed: tilts that are too strong waste it."""
LEAF = 3
"""Rounds that are played one by one rather than cut further."""
DEPTH = 64
_TWICE, _KIND = 0.5 * math.log(2.0), 0.5 * math.log(2.0 * math.pi / math.e) + 1.0 / 12.0
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


class Shape(NamedTuple):
    """What is read of the rewards y of a stretch, of average a: ``low``, the sum of the (a - y)+; how many levels there are,
    and the sum of their y - a; the largest y - a and a - y; and the averages of (y - a)^2, ^3 and ^4."""

    low: float
    kinds: float
    lean: float
    above: float
    below: float
    second: float
    third: float
    fourth: float


@compiled
def shape_of(m: int, drawn: Ints, row: Ints, ell: int, gain: int) -> Shape:
    """Of m rewards ``row[:, ell]`` that come ``drawn`` (M,) times each and are ``gain`` in all. O(M)."""
    average, low, kinds, lean, above, below, second, third, fourth = gain / m, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(drawn.size):
        if drawn[i] > 0:
            x = row[i, ell] - average
            above, below = max(above, x), max(below, -x)
            kinds += 1.0
            lean += x
            part = drawn[i] * x
            low -= min(part, 0.0)
            part *= x
            second += part
            third += part * x
            fourth += part * x * x
    return Shape(low, kinds, lean, above, below, second / m, third / m, fourth / m)


@compiled
def doubt(m: int, shape: Shape, start: float, end: float) -> float:
    """An L such that the running total crosses a line, ``start`` and ``end`` below the straight one, with chance exp(-L)."""
    theta, tilt = 2.0 * start / (m * shape.second), 2.0 * end / (m * shape.second)
    # exp(x) <= 1 + x + x^2/2 + x^3/6 + x^4/24 exp(max(x, 0)), and log(1 + u) <= u - u^2/2 + u^3/3
    u = (
        theta
        * theta
        * (shape.second / 2 + theta * (shape.third / 6 + theta * shape.fourth / 24 * math.exp(theta * shape.above)))
    )
    v = tilt * tilt * (shape.second / 2 - tilt * (shape.third / 6 - tilt * shape.fourth / 24 * math.exp(tilt * shape.below)))
    u, v = u * (1 - u * (0.5 - u / 3)), v * (1 - v * (0.5 - v / 3))
    least = min((theta + tilt) * start - m * u, (theta + tilt) * end - m * v)
    uneven = 0.5 * max(shape.kinds * u - theta * shape.lean, shape.kinds * v + tilt * shape.lean)
    return least - uneven - _start(m, shape.kinds)


@compiled
def _start(m: int, kinds: float) -> float:
    """The part of log 2C that does not depend on the tilts."""
    return _TWICE + kinds * _KIND + 1.0 / (6.0 * m)


@compiled
def _keeps(m: int, shape: Shape, start: float, end: float, sure: float) -> bool:
    """Whether the running total stays above such a line, for certain or but for a chance of exp(-sure)."""
    least = min(start, end)
    if not least > 0.0 or shape.low < least:
        return least > 0.0
    scale = 0.5 * m * shape.second * (sure + _start(m, shape.kinds))
    if m < MANY or not start * end > scale:
        return False
    scale *= ROOM
    least = min(least, math.sqrt(scale))
    most = scale / least
    return doubt(m, shape, min(start, most), min(end, most)) >= sure


@compiled
def _strays(m: int, shape: Shape, sure: float) -> float:
    """How far below the straight line the running total may fall."""
    if m >= MANY:
        far = math.sqrt(0.5 * ROOM * m * shape.second * (sure + _start(m, shape.kinds)))
        if far < shape.low and doubt(m, shape, far, far) >= sure:
            return far
    return shape.low


@compiled
def _gain(drawn: Ints, row: Ints, ell: int) -> int:
    gain = 0
    for i in range(drawn.size):
        gain += drawn[i] * row[i, ell]
    return gain


@compiled
def _excludes(m: int, drawn: Ints, row: Ints, ell: int, against: int, sure: float) -> bool:
    """Whether the sum that excludes arm ell, ``against`` now, stays positive."""
    gain = _gain(drawn, row, ell)
    if against <= 0 or against + gain <= 0:
        return False
    return _keeps(m, shape_of(m, drawn, row, ell, gain), float(against), float(against + gain), sure)


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
) -> bool:
    """Whether the most-pulled arm is chosen in each of the next m rounds, in whatever order it pays ``drawn`` (M,). O(K M)."""
    if meta[kernel.POLICY] == kernel.UCB1:
        return _certain_ucb1(m, drawn, sure, meta, params, counts, sums, mean, root, table)
    r = meta[kernel.REFERENCE_ARM]
    gain = _gain(drawn, table[r], mean.size)
    shape = shape_of(m, drawn, table[r], mean.size, gain)
    n, total, low = counts[kernel.PULLS, r], counts[kernel.TOTAL, r], _strays(m, shape, sure)
    bottom = max(params[kernel.UNIT] * min((total - low) / n, (total + gain - low) / (n + m)), params[kernel.LOW])
    first, last = math.log(meta[kernel.ROUND] + 1.0), math.log(meta[kernel.ROUND] + float(m))
    bar = _kl_ucb(bottom, float(n + m), first, params[kernel.LOW], params[kernel.SPAN])
    bar -= _MARGIN * (params[kernel.SPAN] + abs(bar))
    for ell in range(mean.size):
        pulls = float(counts[kernel.PULLS, ell])
        if ell == r or not _kl_reaches(mean[ell], pulls, bar, last, params[kernel.LOW], params[kernel.SPAN]):
            continue
        if meta[kernel.REFERENCE] == kernel.NO_FILTER or not _excludes(m, drawn, table[r], ell, sums[r, ell], sure):
            return False
    return True


@compiled
def _certain_ucb1(
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
) -> bool:
    """By the lines that the total of arm r must stay above; with no filter, by one line below them all."""
    arms, r, t, unit = mean.size, meta[kernel.REFERENCE_ARM], meta[kernel.ROUND] + 1.0, params[kernel.UNIT]
    row, plain = table[r], meta[kernel.REFERENCE] == kernel.NO_FILTER
    gain, n, total = _gain(drawn, row, arms), float(counts[kernel.PULLS, r]), float(counts[kernel.TOTAL, r])
    later, now = n + m, _factor(math.log(t), params[kernel.SCALE])
    own, own_later = now / math.sqrt(n), now / math.sqrt(later)  # at the end it is larger, by next to nothing
    then = now + m * params[kernel.SCALE] * params[kernel.SCALE] / (now * t)  # the tangent
    near, near_later = np.inf, np.inf
    for ell in range(arms):
        if ell == r:
            continue
        spare = _MARGIN * (params[kernel.SPAN] + abs(mean[ell]) + then * root[ell])
        start = total - n * (mean[ell] + now * root[ell] - own + spare) / unit
        end = total + gain - later * (mean[ell] + then * root[ell] - own_later + spare) / unit
        fine = start > 0.0 and end > 0.0
        if plain and fine:
            near, near_later = min(near, start), min(near_later, end)
        elif plain or not (
            (fine and _keeps(m, shape_of(m, drawn, row, arms, gain), start, end, sure))
            or _excludes(m, drawn, row, ell, sums[r, ell], sure)
        ):
            return False
    return not plain or _keeps(m, shape_of(m, drawn, row, arms, gain), near, near_later, sure)


@compiled
def _outlook(steady: int, meta: Ints, params: Floats, counts: Ints, sums: Ints, mean: Floats, root: Floats) -> int:
    """How many rounds to draw at once: any number would do. As many as r was chosen ``steady``-ly; for UCB1, until a rival
    would catch up if r kept paying its average.

    That is r's lead over what it loses a round, which is how a rival's bonus grows. A rival that is excluded may stay so for as
    long again. O(K).
    """
    if meta[kernel.POLICY] != kernel.UCB1:
        return steady
    r, t = meta[kernel.REFERENCE_ARM], meta[kernel.ROUND] + 1.0
    n, now = float(counts[kernel.PULLS, r]), _factor(math.log(t), params[kernel.SCALE])
    out, head = n, mean[r] + now * root[r]
    growth = params[kernel.SCALE] * params[kernel.SCALE] / (now * t)
    for ell in range(mean.size):
        if ell != r and not (meta[kernel.REFERENCE] != kernel.NO_FILTER and sums[r, ell] > 0):
            out = min(out, (head - mean[ell] - now * root[ell]) / (growth * root[ell]))
    return int(max(out, 0.0))


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
    given: Floats,
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
    counts, sums, mean, root, index, none, stack, size, stream = room
    arms, kinds, shift = table.shape[0], table.shape[1], guide_shift(guide)
    kernel.reset(meta, counts, sums, mean, root)
    meta[kernel.REPLICATION] = replication
    urns.rewind(stream, replication)
    block, spare = -1, 0
    steady, c = 0, 0  # rounds since the last choice of another arm
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
        ahead = _outlook(steady, meta, params, counts, sums, mean, root) if t > arms else 0
        m = min(ahead, longest, checkpoints[c] - t)
        if m > LEAF:
            watch[slot] = done + t
            size[0], top = m, 0
            urns.multinomial(m, given[meta[kernel.REFERENCE_ARM]], stream, stack[0])
            while top >= 0:
                m, drawn = size[top], stack[top]
                if m > LEAF:
                    if certain(m, drawn, sure, meta, params, counts, sums, mean, root, table):
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
