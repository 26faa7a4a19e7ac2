"""The filter for very many arms: rows of sums only for arms that ever led, from columns of rewards. Compiled.

The filter compares every arm with one other, the most-pulled one. So of the K × K sums of ``kernel`` one row is read, and of
the K × M × K excesses those of one arm. Here the rewards themselves stand for the excesses (``Columns``): what a level says of
the others is the maximum of a few columns, usually of one. How often each arm paid at each atom is counted in a table of its
own (``Seen``), and a row of sums is made from these counts when its arm first leads; from then on every reward of that arm is
added to it. Whole numbers, added in another order: the decisions are those of ``kernel``, one by one.

A learner's arrays, R rows of K arms on J atoms, E kept levels:

``rows``    (R, K) int64   as ``kernel``'s sums, for the arm ``owner[slot]``
``drop``    (R,) int64     by how much a pull may lower any of them at most
``order``   (R, J) int32   the atoms by level of that arm; ``begin`` (R, J + 1): where each level begins; ``level`` (R, J)
``place``   (R, J) int32   where a level's pseudo-rewards are kept, -1 where they are not
``kept``    (E, K) int32   pseudo-rewards of a level of more than one atom; ``kept_by`` (E, 2): its slot and level

What does not depend on rewards stays when a replication begins anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import SAME, AnyInts, Ints
from headwater.policies.compile import allocating, compiled, inlined
from headwater.policies.table import Columns

__all__ = [
    "Leaders",
    "Seen",
    "add",
    "excess",
    "forget",
    "forget_rows",
    "lead",
    "make_leaders",
    "make_seen",
    "pays",
    "roomy",
    "see",
]

ROWS = 128
"""Rows of sums that are kept at most; the one that was read last longest ago makes room."""
KEPT = 2**24
"""Pseudo-rewards of levels that are kept at most."""

# clock: the last stamp, the next place in kept
STAMP, NEXT, CLOCKS = range(3)
_MIX = 0x1E3779B97F4A7C15


class Leaders(NamedTuple):
    """Rows of sums, and what they are made from."""

    slot: Ints  # (K,): an arm's row, -1 if it has none
    owner: Ints  # (R,): a row's arm, -1 if it is free
    stamp: Ints  # (R,): when it was last needed
    rows: Ints
    drop: Ints
    order: AnyInts
    begin: AnyInts
    level: AnyInts
    place: AnyInts
    kept: AnyInts
    kept_by: Ints
    clock: Ints


class Seen(NamedTuple):
    """How often each arm was seen to pay at each atom: ``counts`` at the places that ``keys`` (arm · J + atom + 1, 0: free)
    say, open addressing, at most half full; ``used`` (1,) keys."""

    keys: Ints
    counts: Ints
    used: Ints


def make_leaders(arms: int, atoms: int) -> Leaders:
    """Nothing seen. About 100 MB at 10,000 arms and atoms, of which the system gives what is used."""
    rows = min(arms, ROWS)
    kept = max(8, min(rows * atoms, KEPT // arms))
    return Leaders(
        slot=np.full(arms, -1, dtype=np.int64),
        owner=np.full(rows, -1, dtype=np.int64),
        stamp=np.zeros(rows, dtype=np.int64),
        rows=np.zeros((rows, arms), dtype=np.int64),
        drop=np.zeros(rows, dtype=np.int64),
        order=np.zeros((rows, atoms), dtype=np.int32),
        begin=np.zeros((rows, atoms + 1), dtype=np.int32),
        level=np.zeros((rows, atoms), dtype=np.int32),
        place=np.zeros((rows, atoms), dtype=np.int32),
        kept=np.zeros((kept, arms), dtype=np.int32),
        kept_by=np.full((kept, 2), -1, dtype=np.int64),
        clock=np.zeros(CLOCKS, dtype=np.int64),
    )


def make_seen(size: int = 1024) -> Seen:
    return Seen(np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64), np.zeros(1, dtype=np.int64))


@inlined
def _place(key: int, keys: Ints) -> Any:
    """Where a key is or would be."""
    at = ((int(key) * _MIX) >> 24) & (keys.size - 1)  # the same bits whether the product wraps or not
    while keys[at] != 0 and keys[at] != key:
        at = (at + 1) & (keys.size - 1)
    return at


@compiled
def times(seen: Seen, arm: int, atom: int, atoms: int) -> int:
    """How often an arm was seen to pay at an atom."""
    key = arm * atoms + atom + 1
    at = _place(key, seen.keys)
    return seen.counts[at] if seen.keys[at] == key else 0


@compiled
def see(seen: Seen, arm: int, atom: int, atoms: int, n: int) -> None:
    """Count n rewards of an arm at an atom; there must be room."""
    key = arm * atoms + atom + 1
    at = _place(key, seen.keys)
    if seen.keys[at] == 0:
        seen.keys[at] = key
        seen.used[0] += 1
    seen.counts[at] += n


@allocating
def roomy(seen: Seen, more: int) -> Seen:
    """The same counts with room for ``more`` keys."""
    size = seen.keys.size
    while size < 2 * (seen.used[0] + more):
        size *= 2
    if size == seen.keys.size:
        return seen
    out = Seen(np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64), seen.used.copy())
    for i in range(seen.keys.size):
        if seen.keys[i]:
            at = _place(seen.keys[i], out.keys)
            out.keys[at], out.counts[at] = seen.keys[i], seen.counts[i]
    return out


@compiled
def forget(leaders: Leaders, seen: Seen) -> None:
    """Nothing seen: every row is of an arm that was never pulled."""
    seen.keys[:] = 0
    seen.counts[:] = 0
    seen.used[0] = 0
    for slot in range(leaders.owner.size):
        if leaders.owner[slot] >= 0:
            leaders.rows[slot] = 0


@compiled
def forget_rows(leaders: Leaders) -> None:
    """Every row must be made anew: what was seen changed otherwise than by ``observe``."""
    leaders.slot[:] = -1
    leaders.owner[:] = -1
    leaders.kept_by[:] = -1


@compiled
def pays(columns: Columns, arm: int, atom: int) -> Any:
    """What an arm pays at an atom, in units."""
    up = np.int64(columns.up[atom, arm])
    return up - np.int64(columns.less[arm, atom]) if columns.less.size else up


@compiled
def _same(columns: Columns, arm: int, target: int, atoms: AnyInts) -> bool:
    """Whether the most that a target pays at the atoms is what the arm pays there, rounding aside: then a tie stays one."""
    r, s = np.inf, -np.inf
    for i in range(atoms.size):
        r = min(r, columns.g[arm, atoms[i]])
        s = max(s, columns.g[target, atoms[i]])
    return abs(s - r) <= SAME * max(abs(s), abs(r))


@compiled
def _keep(leaders: Leaders, columns: Columns, slot: int, m: int) -> int:
    """Where the pseudo-rewards of a level of several atoms are kept; computed if they are not. O(K) for each atom."""
    at: int = leaders.place[slot, m]
    if at >= 0:
        return at
    at = leaders.clock[NEXT]
    leaders.clock[NEXT] = (at + 1) % len(leaders.kept)
    if leaders.kept_by[at, 0] >= 0:
        leaders.place[leaders.kept_by[at, 0], leaders.kept_by[at, 1]] = -1
    leaders.kept_by[at, 0], leaders.kept_by[at, 1], leaders.place[slot, m] = slot, m, at
    arm, up, kept = leaders.owner[slot], columns.up, leaders.kept
    atoms = leaders.order[slot, leaders.begin[slot, m] : leaders.begin[slot, m + 1]]
    for ell in range(kept.shape[1]):
        kept[at, ell] = up[atoms[0], ell]
    for i in range(1, atoms.size):
        j = atoms[i]
        for ell in range(kept.shape[1]):
            kept[at, ell] = max(kept[at, ell], up[j, ell])
    paid = pays(columns, arm, atoms[0])
    if columns.less.size:
        for ell in range(kept.shape[1]):
            if kept[at, ell] == paid + 1 and _same(columns, arm, ell, atoms):
                kept[at, ell] = paid
    return at


@compiled
def add(leaders: Leaders, columns: Columns, slot: int, m: int, n: int) -> None:
    """Count n rewards of level m in a row of sums. O(K)."""
    arm, rows, up, kept = leaders.owner[slot], leaders.rows, columns.up, leaders.kept
    atoms = leaders.order[slot, leaders.begin[slot, m] : leaders.begin[slot, m + 1]]
    j = atoms[0]
    paid = pays(columns, arm, j)
    if atoms.size > 1:
        at = _keep(leaders, columns, slot, m)
        for ell in range(rows.shape[1]):
            rows[slot, ell] += n * (paid - kept[at, ell])
    elif not columns.less.size:
        for ell in range(rows.shape[1]):
            rows[slot, ell] += n * (paid - up[j, ell])
    else:
        for ell in range(rows.shape[1]):
            excess = paid - up[j, ell]
            if excess == -1 and _same(columns, arm, ell, atoms):
                excess = 0
            rows[slot, ell] += n * excess
    rows[slot, arm] = 0


@compiled
def excess(leaders: Leaders, columns: Columns, slot: int, m: int, ell: int) -> Any:
    """What a reward of level m adds to one arm's sum in a row."""
    arm = leaders.owner[slot]
    atoms = leaders.order[slot, leaders.begin[slot, m] : leaders.begin[slot, m + 1]]
    if ell == arm:
        return np.int64(0)
    paid = pays(columns, arm, atoms[0])
    if atoms.size > 1:
        return paid - np.int64(leaders.kept[_keep(leaders, columns, slot, m), ell])
    more = paid - np.int64(columns.up[atoms[0], ell])
    return np.int64(0) if more == -1 and columns.less.size and _same(columns, arm, ell, atoms) else more


@allocating
def lead(arm: int, leaders: Leaders, columns: Columns, seen: Seen) -> None:
    """Make the row of an arm that has none, from what was seen. O(J log J), and O(K) for each level seen."""
    slot = 0
    for i in range(leaders.owner.size):
        if leaders.owner[i] < 0:
            slot = i
            break
        if leaders.stamp[i] < leaders.stamp[slot]:
            slot = i
    if leaders.owner[slot] >= 0:
        leaders.slot[leaders.owner[slot]] = -1
        for at in range(len(leaders.kept_by)):
            if leaders.kept_by[at, 0] == slot:
                leaders.kept_by[at, 0] = -1
    leaders.owner[slot], leaders.slot[arm] = arm, slot
    leaders.rows[slot] = 0
    leaders.place[slot] = -1
    rewards = columns.g[arm]
    order = np.argsort(rewards, kind="mergesort")
    apart, m, n = SAME * np.max(np.abs(rewards)), -1, 0
    for i in range(order.size):
        j = order[i]
        leaders.order[slot, i] = j
        if i == 0 or rewards[j] - rewards[order[i - 1]] > apart:
            m += 1
            leaders.begin[slot, m] = i
        leaders.level[slot, j] = m
    leaders.begin[slot, m + 1] = order.size
    leaders.drop[slot] = columns.top - pays(columns, arm, order[0])
    for level in range(m + 1):
        n = 0
        for i in range(leaders.begin[slot, level], leaders.begin[slot, level + 1]):
            n += times(seen, arm, leaders.order[slot, i], order.size)
        if n:
            add(leaders, columns, slot, level, n)
