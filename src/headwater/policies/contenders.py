"""Decisions among very many arms, few of which can win: the others are not looked at. Compiled.

UCB1's and KL-UCB's index of an arm that is not pulled grows with log t alone. So for the next L rounds its value at the end is
a bound. A few arms of the largest bounds are the *contenders*; the largest bound of the others is the ``bar``. While the best
contender's index is above the bar, it is the largest of all, and a round costs what its contenders cost. When it is not, or L
rounds are over, every arm is looked at again; L doubles when they all were of use, and is cut when they were not.

Under the filter, an arm whose sum in the leader's row is above L times what a pull may take from it stays excluded for L
rounds: it is no contender, whatever its index. While the same arm leads, only the contenders' sums are kept up to date; what
the others are owed is counted by level, and paid when every arm is looked at.

Nothing here changes a decision: they are ``kernel``'s, one by one. Other rules look at every arm in every round.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headwater import streams
from headwater.arrays import Floats, Ints
from headwater.policies import indices, kernel, leaders, waiting
from headwater.policies.compile import allocating, compiled, inlined
from headwater.policies.leaders import STAMP, Leaders, Seen
from headwater.policies.table import Columns

__all__ = ["Crowd", "choose", "make_crowd", "observe", "scatter", "select", "step"]

# what a crowd knows: how many contenders (0: none are known), how many of those in the running, the place of the one chosen
# last, the rounds it began and ends with, L, the arm that leads, how many levels are owed for, how many rounds to rest
SIZE, FEW, PLACE, SINCE, UNTIL, LENGTH, LEADER, OWED, REST, FACTS = range(10)
FIRST, SHORTEST, LONGEST, PAUSE = 32, 8, 2**20, 16
LEAST = 8
"""Contenders at least, beside 2 sqrt(K)."""
DEBTS = 4096
"""Levels that are owed for at most."""
_MARGIN = 1e-12  # of the range of rewards: what rounding might do to a KL-UCB index, many times over

_mean = inlined(indices.empirical_mean)
_root = inlined(indices.reciprocal_root)
_binarised = inlined(indices.binarised)
_open_unit = inlined(streams.to_open_unit)
_width = inlined(indices.ucb1_width)
_ucb1 = inlined(indices.ucb1_index)
_kl_ucb = compiled(indices.kl_ucb_index)
_kl_reaches = compiled(indices.kl_ucb_reaches)


class Crowd(NamedTuple):
    """The contenders, room for K: ``arms`` ascending, their sums ``against`` in the leader's row, ``floor`` the last index that
    was computed since each was pulled. The ``bar`` (1,). ``owed`` (J,) rewards by level, ``debts`` the levels owed for.
    ``bound`` and ``work`` (K,) to work in."""

    facts: Ints
    bar: Floats
    arms: Ints
    against: Ints
    floor: Floats
    owed: Ints
    debts: Ints
    bound: Floats
    work: Floats


def make_crowd(arms: int, atoms: int) -> Crowd:
    """Nobody yet. About as many contenders as it takes rounds until every arm is looked at: 2 sqrt(K)."""
    facts = np.zeros(FACTS, dtype=np.int64)
    facts[FEW], facts[LENGTH] = min(arms, max(1, 2 * math.isqrt(arms) + LEAST)), FIRST
    owed, debts = np.zeros(atoms, dtype=np.int64), np.zeros(min(atoms, DEBTS), dtype=np.int64)
    numbers, floats = np.zeros((2, arms), dtype=np.int64), np.zeros((3, arms))
    return Crowd(facts, np.zeros(1), numbers[0], numbers[1], floats[0], owed, debts, floats[1], floats[2])


@compiled
def scatter(crowd: Crowd) -> None:
    """Forget the contenders, and what is owed: the rows are made anew."""
    for i in range(crowd.facts[OWED]):
        crowd.owed[crowd.debts[i]] = 0
    crowd.facts[SIZE] = crowd.facts[OWED] = crowd.facts[REST] = 0
    crowd.facts[LENGTH] = FIRST


@compiled
def _dissolve(meta: Ints, crowd: Crowd, rows: Leaders, columns: Columns) -> None:
    """Pay what is owed to the leader's row, if it still has one, and look at every arm next. O(K) for each level owed for."""
    facts = crowd.facts
    if facts[SIZE] == 0:
        return
    slot = rows.slot[facts[LEADER]] if facts[OWED] else -1
    for i in range(facts[OWED]):
        m = crowd.debts[i]
        if slot >= 0:
            leaders.add(rows, columns, slot, m, crowd.owed[m])
        crowd.owed[m] = 0
    lived = meta[kernel.ROUND] + 1 - facts[SINCE]
    facts[LENGTH] = min(2 * facts[LENGTH], LONGEST) if lived >= facts[LENGTH] else max(2 * lived, SHORTEST)
    facts[REST] = PAUSE if 2 * lived < SHORTEST else 0
    facts[SIZE] = facts[OWED] = 0


@compiled
def _nth_largest(values: Floats, n: int) -> float:
    """The n-th largest of some values, n from 1, which are left in another order. O(K) expected."""
    low, high, want = 0, values.size - 1, n - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if want <= j:
            high = j
        elif want >= i:
            low = i
        else:
            break
    return float(values[want])


@compiled
def _bar(bounds: Floats, few: int, span: float) -> float:
    """The largest bound but ``few``, or but those that are equal to the largest, rounding aside; -inf where there is none."""
    top, bar = -np.inf, -np.inf
    for i in range(bounds.size):
        top = max(top, bounds[i])
    below = top - 4.0 * _MARGIN * (span + abs(top)) if top < np.inf else top
    if bounds.size > few:
        bar = _nth_largest(bounds, few + 1)
    if bar < below or bar == -np.inf:
        return bar
    bar = -np.inf
    for i in range(bounds.size):
        if bounds[i] < below:
            bar = max(bar, bounds[i])
    return bar


@compiled
def _gather(meta: Ints, params: Floats, counts: Ints, mean: Floats, root: Floats, crowd: Crowd, rows: Leaders) -> None:
    """Bound every arm's index over the next rounds, and find the contenders. O(K).

    The ``few`` arms in the running of largest bounds; and all that are excluded now, but neither surely nor below the bar.
    """
    facts, bound, filtered = crowd.facts, crowd.bound, meta[kernel.REFERENCE] != kernel.NO_FILTER
    facts[SINCE], facts[LEADER], facts[SIZE] = meta[kernel.ROUND] + 1, meta[kernel.REFERENCE_ARM], 0
    facts[UNTIL] = facts[SINCE] + facts[LENGTH] - 1
    slot, sums = rows.slot[facts[LEADER]] if filtered else 0, rows.rows
    new = 0
    for k in range(bound.size):
        new += 1 if mean[k] == np.inf and not (filtered and sums[slot, k] > 0) else 0
    if new > facts[FEW]:
        return
    log_t, low, span = math.log(float(facts[UNTIL])), params[kernel.LOW], params[kernel.SPAN]
    width, ucb1 = _width(log_t, params[kernel.SCALE]), meta[kernel.POLICY] == kernel.UCB1
    running = 0
    for k in range(bound.size):
        if not (filtered and sums[slot, k] > 0):
            n = float(counts[kernel.PULLS, k])
            bound[k] = _ucb1(mean[k], root[k], width) if ucb1 else _kl_ucb(mean[k], n, log_t, low, span)
            crowd.work[running] = bound[k]
            running += 1
    bar = _bar(crowd.work[:running], facts[FEW], span)
    safe = facts[LENGTH] * rows.drop[slot]
    for k in range(bound.size):
        if not (filtered and sums[slot, k] > 0):
            rival = bound[k] > bar
        elif sums[slot, k] > safe:
            rival = False
        elif ucb1:
            rival = _ucb1(mean[k], root[k], width) > bar
        else:
            rival = _kl_reaches(mean[k], float(counts[kernel.PULLS, k]), bar, log_t, low, span)
        if rival:
            crowd.arms[facts[SIZE]] = k
            crowd.against[facts[SIZE]] = sums[slot, k] if filtered else 0
            crowd.floor[facts[SIZE]] = -np.inf
            facts[SIZE] += 1
    crowd.bar[0] = bar + _MARGIN * (span + abs(bar)) if bar > -np.inf else bar


@compiled
def _best_contender(meta: Ints, params: Floats, counts: Ints, mean: Floats, root: Floats, crowd: Crowd) -> int:
    """The contender of largest index, the lowest number among equals; -1 if another arm might have a larger one. O(C)."""
    log_t, low, span = math.log(meta[kernel.ROUND] + 1.0), params[kernel.LOW], params[kernel.SPAN]
    width, ucb1 = _width(log_t, params[kernel.SCALE]), meta[kernel.POLICY] == kernel.UCB1
    arm, best, least, top = -1, -np.inf, crowd.bar[0], np.inf if ucb1 else low + span
    if not ucb1:  # an index that was computed before has not fallen since: arms below it need no search for theirs
        for i in range(crowd.facts[SIZE]):
            if crowd.against[i] <= 0:
                least = max(least, crowd.floor[i])
    for i in range(crowd.facts[SIZE]):
        k, x = crowd.arms[i], -np.inf
        if crowd.against[i] <= 0 and (best < top or mean[k] == np.inf):
            if ucb1:
                x = _ucb1(mean[k], root[k], width)
            elif _kl_reaches(mean[k], float(counts[kernel.PULLS, k]), max(best, least), log_t, low, span):
                x = _kl_ucb(mean[k], float(counts[kernel.PULLS, k]), log_t, low, span)
                crowd.floor[i] = x
            if x > best:
                arm, best, crowd.facts[PLACE] = k, x, i
    return arm if best > crowd.bar[0] else -1


@compiled
def _owe(arm: int, m: int, crowd: Crowd, rows: Leaders, columns: Columns) -> bool:
    """A reward of the leader: the contenders' sums now, the others' later. O(C). False if it must be counted otherwise."""
    facts, slot = crowd.facts, rows.slot[arm]
    if facts[SIZE] == 0 or arm != facts[LEADER] or (crowd.owed[m] == 0 and facts[OWED] == crowd.debts.size):
        return False
    if 16 * facts[SIZE] > crowd.arms.size:  # one by one they would take longer than all at once
        leaders.add(rows, columns, slot, m, 1)
        for i in range(facts[SIZE]):
            crowd.against[i] = rows.rows[slot, crowd.arms[i]]
        return True
    if crowd.owed[m] == 0:
        crowd.debts[facts[OWED]] = m
        facts[OWED] += 1
    crowd.owed[m] += 1
    for i in range(facts[SIZE]):
        crowd.against[i] += leaders.excess(rows, columns, slot, m, crowd.arms[i])
    return True


@compiled
def observe(
    arm: int,
    atom: int,
    meta: Ints,
    params: Floats,
    counts: Ints,
    mean: Floats,
    root: Floats,
    crowd: Crowd,
    rows: Leaders,
    columns: Columns,
    seen: Seen,
) -> None:
    """Count that ``arm`` paid what it pays at ``atom``; as in ``kernel.advance``. O(K) at most.

    ``seen`` must have room for one more key; one of size 0 counts nothing, where nobody asks.
    """
    paid = leaders.pays(columns, arm, atom)
    if arm != meta[kernel.CHOSEN]:  # perhaps no contender: its index may be above its bound
        _dissolve(meta, crowd, rows, columns)
    meta[kernel.ROUND] += 1
    n, total = counts[kernel.PULLS, arm] + 1, counts[kernel.TOTAL, arm] + paid
    counts[kernel.PULLS, arm], counts[kernel.TOTAL, arm] = n, total
    mean[arm], root[arm] = _mean(float(total), float(n), params[kernel.UNIT]), _root(float(n))
    crowd.floor[crowd.facts[PLACE]] = -np.inf
    if seen.keys.size:
        leaders.see(seen, arm, atom, columns.up.shape[0], 1)
    if meta[kernel.REFERENCE] != kernel.NO_FILTER:
        slot = rows.slot[arm]
        if slot >= 0 and not _owe(arm, rows.level[slot, atom], crowd, rows, columns):
            _dissolve(meta, crowd, rows, columns)
            leaders.add(rows, columns, slot, rows.level[slot, atom], 1)
        most = counts[kernel.PULLS, meta[kernel.REFERENCE_ARM]]
        if n > most or (n == most and arm < meta[kernel.REFERENCE_ARM]):
            meta[kernel.REFERENCE_ARM] = arm
    if meta[kernel.POLICY] == kernel.ESTIMATED:
        kernel.square(arm, paid, counts)
        root[arm] = kernel.standard_error(arm, params, counts)
    if meta[kernel.POLICY] == kernel.BETA:
        reward = paid * params[kernel.UNIT]
        u, _ = kernel.uniforms(
            meta[kernel.ROUND], meta[kernel.REPLICATION], streams.BINARISE, arm, meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH]
        )
        counts[kernel.SUCCESSES, arm] += int(_binarised(reward, params[kernel.LOW], params[kernel.SPAN], _open_unit(u)))


@compiled
def choose(
    lazy: bool,
    meta: Ints,
    params: Floats,
    counts: Ints,
    mean: Floats,
    root: Floats,
    index: Floats,
    crowd: Crowd,
    rows: Leaders,
    columns: Columns,
) -> int:
    """The arm to pull, as ``kernel.advance`` chooses it; the most-pulled arm must have a row. O(K) at most.

    If not ``lazy``, leaves every arm's index, -inf for the excluded.
    """
    facts, filtered = crowd.facts, meta[kernel.REFERENCE] != kernel.NO_FILTER
    rule, t = meta[kernel.POLICY], meta[kernel.ROUND] + 1
    few = lazy and (rule == kernel.UCB1 or rule == kernel.KL_UCB) and params[kernel.AUDIT] == 0.0
    arm = -1
    if few and facts[SIZE] and t <= facts[UNTIL] and not (filtered and meta[kernel.REFERENCE_ARM] != facts[LEADER]):
        arm = _best_contender(meta, params, counts, mean, root, crowd)
    if arm < 0:
        _dissolve(meta, crowd, rows, columns)
        if few and facts[REST] == 0:
            _gather(meta, params, counts, mean, root, crowd, rows)
            arm = _best_contender(meta, params, counts, mean, root, crowd)
            if arm < 0:
                facts[SIZE], facts[REST] = 0, PAUSE
        facts[REST] = max(facts[REST] - 1, 0)
    if arm < 0:
        arm = _choose_among_all(lazy, meta, params, counts, mean, root, index, rows)
    meta[kernel.CHOSEN] = arm
    return arm


@compiled
def _choose_among_all(
    lazy: bool, meta: Ints, params: Floats, counts: Ints, mean: Floats, root: Floats, index: Floats, rows: Leaders
) -> int:
    log_t, filtered = math.log(meta[kernel.ROUND] + 1.0), meta[kernel.REFERENCE] != kernel.NO_FILTER
    reference = meta[kernel.REFERENCE_ARM]
    slot, sums = rows.slot[reference] if filtered else 0, rows.rows
    rows.clock[STAMP] += 1
    rows.stamp[slot] = rows.clock[STAMP]
    arm = -1
    if lazy:  # an arm never pulled has the index +inf: no other index need be known
        for k in range(index.size):
            if mean[k] == np.inf and not (filtered and sums[slot, k] > 0):
                arm = k
                break
    if arm < 0 or params[kernel.AUDIT] > 0.0:
        for k in range(index.size):
            index[k] = -np.inf if filtered and sums[slot, k] > 0 else 0.0
    if arm < 0:
        kernel.rank(log_t, meta, params, counts, mean, root, index)
        arm, best = 0, index[0]
        for k in range(1, index.size):
            if index[k] > best:
                arm, best = k, index[k]
    if params[kernel.AUDIT] > 0.0:
        arm = kernel.audited(arm, mean[reference], log_t, params, counts, mean, index)
    return arm


@allocating
def select(
    draws: int,
    off: Ints,
    pending: Ints,
    whole: Ints,
    real: Floats,
    crowd: Crowd,
    rows: Leaders,
    columns: Columns,
    seen: Seen,
    copy_whole: Ints,
    copy_real: Floats,
    out: Ints,
) -> None:
    """As ``waiting.select``: every decision looks at every arm. O(K) for each."""
    arms = off.size
    waiting.expect(pending, whole, real, copy_whole, copy_real)
    meta, counts = copy_whole[: kernel.META], copy_whole[kernel.META :].reshape((kernel.COUNTS, arms))
    params, views = copy_real[: kernel.PARAMS], copy_real[kernel.PARAMS :].reshape((3, arms))
    mean, root, index = views[0], views[1], views[2]
    reference, filtered = waiting.most_pulled(off, counts), meta[kernel.REFERENCE] != kernel.NO_FILTER
    meta[kernel.REFERENCE_ARM] = reference
    _dissolve(whole[: kernel.META], crowd, rows, columns)
    if filtered and rows.slot[reference] < 0:
        leaders.lead(reference, rows, columns, seen)
    slot = rows.slot[reference] if filtered else 0
    rows.clock[STAMP] += 1
    rows.stamp[slot] = rows.clock[STAMP]
    for i in range(draws if draws > 0 else out.size):
        if draws > 0:
            meta[kernel.REPLICATION] = waiting.elsewhere(whole[kernel.REPLICATION], i)
        log_t = waiting.log_rounds(off, counts)
        waiting.begin(off, index)
        for k in range(arms):
            if filtered and off[k] == 0 and rows.rows[slot, k] > 0:
                index[k] = -np.inf
        kernel.rank(log_t, meta, params, counts, mean, root, index)
        arm = waiting.winner(reference, log_t, meta, params, counts, mean, index)
        if draws > 0:
            out[arm] += 1
            continue
        out[i] = arm
        if i + 1 < out.size:
            waiting.pend(arm, meta, params, counts, mean, root)


@allocating
def step(
    mode: int,
    arm: int,
    atom: int,
    whole: Ints,
    real: Floats,
    lazy: bool,
    crowd: Crowd,
    rows: Leaders,
    columns: Columns,
    seen: Seen,
) -> int:
    """One live step, as ``kernel.step``: SELECT, OBSERVE that ``arm`` paid what it pays at ``atom``, or BOTH.

    ``lazy`` only with the state that was observed: contenders are of that one.
    """
    arms = columns.up.shape[1]
    meta, counts = whole[: kernel.META], whole[kernel.META :].reshape((kernel.COUNTS, arms))
    params, views = real[: kernel.PARAMS], real[kernel.PARAMS :].reshape((3, arms))
    mean, root, index = views[0], views[1], views[2]
    if mode != kernel.SELECT:
        observe(arm, atom, meta, params, counts, mean, root, crowd, rows, columns, seen)
    if mode != kernel.OBSERVE:
        reference = meta[kernel.REFERENCE_ARM]
        if meta[kernel.REFERENCE] != kernel.NO_FILTER and rows.slot[reference] < 0:
            leaders.lead(reference, rows, columns, seen)
        arm = choose(lazy, meta, params, counts, mean, root, index, crowd, rows, columns)
    return arm
