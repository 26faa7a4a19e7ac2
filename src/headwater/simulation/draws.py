"""Drawing x_t, and the level of a random reward: from a 53-bit uniform to a number, compiled."""

from __future__ import annotations

from typing import Any

from headwater import streams
from headwater.arrays import Ints
from headwater.policies.compile import compiled, inlined

_philox = inlined(streams.philox)
_counter = inlined(streams.counter_words)
_join = inlined(streams.join)


@inlined
def atom_of(u: int, thresholds: Ints, guide: Ints, shift: int) -> Any:
    """The atom of a 53-bit uniform, from where the guide table points. O(1) expected."""
    j = guide[u >> shift]
    while j < thresholds.size and u >= thresholds[j]:
        j += 1
    return j


@inlined
def guide_shift(guide: Ints) -> int:
    """How far to shift a 53-bit uniform to index a guide table of 2**b entries."""
    bits = 0
    while (1 << bits) < guide.size:
        bits += 1
    return streams.UNIFORM_BITS - bits


@compiled
def draw_rounds(
    start: int, replication: int, k0: int, k1: int, thresholds: Ints, guide: Ints, u: Ints, v: Ints, atoms: Ints
) -> None:
    """The atoms of one replication in rounds start + 1, ..., start + atoms.size; start is even.

    u and v are scratch for at least half as many uniforms, rounded up; the generator vectorises over rounds.
    """
    for b in range((atoms.size + 1) // 2):
        c0, c1, c2, c3 = _counter(start // 2 + b, replication, streams.LATENT, 0)
        w0, w1, w2, w3 = _philox(c0, c1, c2, c3, k0, k1)
        u[b] = _join(w0, w1)
        v[b] = _join(w2, w3)
    shift = guide_shift(guide)
    for i in range(atoms.size):
        x = v[i // 2] if i % 2 else u[i // 2]
        j = 0
        if guide.size:
            j = atom_of(x, thresholds, guide, shift)
        else:
            for h in range(thresholds.size):
                j += 1 if x >= thresholds[h] else 0
        atoms[i] = j


@compiled
def draw_rewards(start: int, replication: int, k0: int, k1: int, v: Ints) -> None:
    """The uniforms that decide random rewards in rounds start + 1, ..., start + v.size: one a round, whatever the arm."""
    for i in range(v.size):
        c0, c1, c2, c3 = _counter(start + i + 1, replication, streams.REWARD, 0)
        w0, w1, _, _ = _philox(c0, c1, c2, c3, k0, k1)
        v[i] = _join(w0, w1)


@inlined
def level_of(v: int, cuts: Ints, k: int, j: int) -> Any:
    """Arm k's level at atom j by a 53-bit uniform. O(M)."""
    m = 0
    while m < cuts.shape[2] and v >= cuts[k, j, m]:
        m += 1
    return m
