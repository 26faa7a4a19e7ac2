"""The channels as compiled code reads them, with room to work in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwater.arrays import AnyInts, Bools, Floats, Ints
from headwater.policies.address import by_address
from headwater.policies.compile import compiled
from headwater.pseudo.channels import KNOWN, Channels

__all__ = ["HOPEFUL", "Lens", "back", "make_lens", "through"]

HOPEFUL = 32
"""Atoms that one quadratic problem may take in."""


@by_address
class Lens(NamedTuple):
    """The channels as kernels read them (see :class:`Channels`), means scaled to [0, 1] over all arms, and scratch space.

    Row i is paid at the atoms ``atom[begin[i]:begin[i + 1]]``, with the probabilities ``chance`` of the same places, which are
    all 1 if ``sure[i]``.
    ``g[k, j]`` is ``(mean - low) / span``. ``active`` (J,) lists the atoms in use, ``slot`` (J,) says where in that list an
    atom stands (-1: nowhere), ``square`` (J, J) is the factor of their curvature; ``error`` and ``strain`` are what the
    channels may be wrong by, at the tolerance's number of standard errors; the rest are vectors over atoms or rows.

    Deterministic arms may be read in twos: arms ``duo[q]`` (2,) pay at atom j the rewards that ``cell[q, j]`` = m M + m' says,
    M the second's number of rewards. Such arms' rows are not ``lone``. ``table`` has room for a number a cell.
    """

    start: Ints
    row: Ints
    weight: Floats
    begin: Ints
    atom: AnyInts
    sure: Bools
    chance: Floats
    duo: Ints
    cell: AnyInts
    lone: Bools
    table: Floats
    g: Floats
    offset: Ints
    active: Ints
    slot: Ints
    square: Floats
    atoms: Floats  # (9, J)
    rows: Floats  # (6, R)
    hopeful: Ints  # (HOPEFUL,)
    first: Ints  # (R,)
    last: Ints  # (R,)
    who: AnyInts  # (nnz,)
    value: Floats  # (nnz,)
    error: Floats  # (K, J), or (0, 0)
    strain: Floats  # as error


def make_lens(channels: Channels, low: float, span: float, tolerance: float = 0.0) -> Lens:
    """Channels and room to work in: O(J²) memory, so that two threads need two of them.

    ``tolerance``: how many of their standard errors the channels may be wrong by.
    """
    error, strain = (channels.error, channels.strain) if tolerance > 0.0 else (KNOWN, KNOWN)
    j, r = channels.g.shape[1], int(channels.offset[-1])
    g = np.ascontiguousarray((channels.g - low) / (span if span > 0 else 1.0))
    by_row = np.argsort(channels.row, kind="stable")
    sure = np.ones(r, dtype=np.bool_)
    sure[channels.row[channels.weight != 1.0]] = False
    begin = np.concatenate([[0], np.cumsum(np.bincount(channels.row, minlength=r))]).astype(np.int64)
    return Lens(
        channels.start,
        channels.row,
        channels.weight,
        begin,
        np.repeat(np.arange(j), np.diff(channels.start))[by_row].astype(np.int32),
        sure,
        channels.weight[by_row],
        *_in_twos(channels, sure),
        g,
        channels.offset,
        np.zeros(j, dtype=np.int64),
        np.zeros(j, dtype=np.int64),
        np.zeros((j, j)),
        np.zeros((9, j)),
        np.zeros((6, r)),
        np.zeros(HOPEFUL, dtype=np.int64),
        np.zeros(r, dtype=np.int64),
        np.zeros(r, dtype=np.int64),
        np.zeros(len(channels.row), dtype=np.int32),
        np.zeros(len(channels.row)),
        error * (tolerance / (span if span > 0 else 1.0)),
        strain * tolerance**2,
    )


def _in_twos(channels: Channels, sure: Bools) -> tuple[Ints, AnyInts, Bools, Floats]:
    """Deterministic arms next to each other, where pairs of their rewards are far fewer than atoms: see :class:`Lens`."""
    offset, points = channels.offset, channels.g.shape[1]
    arm = np.searchsorted(offset, channels.row, side="right") - 1
    level = np.zeros(channels.g.shape, dtype=np.int64)
    level[arm, np.repeat(np.arange(points), np.diff(channels.start))] = channels.row - offset[arm]
    known = [k for k in range(len(level)) if sure[offset[k] : offset[k + 1]].all()]
    sizes = np.diff(offset)
    duo = [(k, ell) for k, ell in zip(known[::2], known[1::2], strict=False) if 4 * sizes[k] * sizes[ell] <= points]
    lone = np.ones(int(offset[-1]), dtype=np.bool_)
    cell = np.zeros((len(duo), points), dtype=np.uint16)
    for q, (k, ell) in enumerate(duo):
        cell[q] = level[k] * sizes[ell] + level[ell]
        lone[offset[k] : offset[k + 1]] = lone[offset[ell] : offset[ell + 1]] = False
    table = np.zeros(max((int(sizes[k] * sizes[ell]) for k, ell in duo), default=0))
    return np.array(duo, dtype=np.int64).reshape(-1, 2), cell, lone, table


@compiled
def through(lens: Lens, p: Floats, z: Floats) -> None:
    """``z = A p``: how likely each row is under p. O(nnz of the atoms p uses)."""
    z[:] = 0.0
    for j in range(p.size):
        if p[j] != 0.0:
            for e in range(lens.start[j], lens.start[j + 1]):
                z[lens.row[e]] += lens.weight[e] * p[j]


@compiled
def back(lens: Lens, y: Floats, out: Floats) -> None:
    """``out += A'y``, over atoms (J,), y (R,) from 0. O(nnz), half of that where deterministic arms are read in twos."""
    table = lens.table
    for q in range(lens.cell.shape[0]):
        k, ell, at, cell, most = lens.duo[q, 0], lens.duo[q, 1], 0, lens.cell[q], 0.0
        for i in range(lens.offset[k], lens.offset[k + 1]):
            for h in range(lens.offset[ell], lens.offset[ell + 1]):
                table[at] = y[i] + y[h]
                most = max(most, table[at])
                at += 1
        if most > 0.0:
            for j in range(out.size):
                out[j] += table[cell[j]]
    a = b = c = -1  # rows without zeros that wait for a fourth
    for i in range(y.size):
        if not (lens.lone[i] and y[i] > 0.0):
            continue
        if lens.sure[i] or lens.begin[i + 1] - lens.begin[i] < out.size:
            _add_row(lens, i, y[i], out)
        elif c < 0:
            a, b, c = i, a, b
        else:
            _add_four(lens, a, b, c, i, y, out)
            a = b = c = -1
    for i in (a, b, c):
        if i >= 0:
            _add_row(lens, i, y[i], out)


@compiled
def _add_row(lens: Lens, i: int, x: float, out: Floats) -> None:
    """``out += x A[i]``, over atoms (J,)."""
    first, last = lens.begin[i], lens.begin[i + 1]
    if lens.sure[i]:
        for e in range(first, last):
            out[lens.atom[e]] += x
    else:
        for e in range(first, last):
            out[lens.atom[e]] += lens.chance[e] * x


@compiled
def _add_four(lens: Lens, a: int, b: int, c: int, d: int, y: Floats, out: Floats) -> None:
    """``out += y A`` of four rows without zeros, read straight through: one alone would read and write ``out`` for each."""
    chance, begin, size = lens.chance, lens.begin, out.size
    u, v = chance[begin[a] : begin[a] + size], chance[begin[b] : begin[b] + size]
    w, x = chance[begin[c] : begin[c] + size], chance[begin[d] : begin[d] + size]
    uu, vv, ww, xx = y[a], y[b], y[c], y[d]
    for j in range(size):
        out[j] += (uu * u[j] + vv * v[j]) + (ww * w[j] + xx * x[j])
