"""The channels as policies that learn the law of X read them: laid out once a problem for the native core."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater import native
from headwater.arrays import AnyInts, Bools, Ints
from headwater.pseudo.channels import KNOWN, Channels

__all__ = ["channel_view"]


def channel_view(channels: Channels, low: float = 0.0, span: float = 1.0, tolerance: float = 0.0) -> native.ChannelView:
    """Channels by atom and by row, means scaled from [low, low + span] to [0, 1].

    ``tolerance``: how many of their standard errors the channels may be wrong by. Deterministic arms may be read in pairs: see
    native/policies/learning/channel_view.h. O(nnz log nnz).
    """
    scale = span if span > 0 else 1.0
    error, strain = (channels.error, channels.strain) if tolerance > 0.0 else (KNOWN, KNOWN)
    points, rows = channels.g.shape[1], int(channels.offset[-1])
    by_row = np.argsort(channels.row, kind="stable")
    sure = np.ones(rows, dtype=np.bool_)
    sure[channels.row[channels.weight != 1.0]] = False
    pair, cell, lone = _in_pairs(channels, sure)
    arrays: dict[str, Any] = {
        "start": channels.start,
        "row": channels.row.astype(np.int32),
        "weight": channels.weight,
        "begin": np.concatenate([[0], np.cumsum(np.bincount(channels.row, minlength=rows))]).astype(np.int64),
        "atom": np.repeat(np.arange(points), np.diff(channels.start))[by_row].astype(np.int32),
        "sure": sure,
        "chance": channels.weight[by_row],
        "pair": pair,
        "cell": cell,
        "lone": lone,
        "g": (channels.g - low) / scale,
        "offset": channels.offset,
        "error": error * (tolerance / scale),
        "strain": strain * tolerance**2,
    }
    return native.ChannelView(**{name: np.ascontiguousarray(x) for name, x in arrays.items()})


def _in_pairs(channels: Channels, sure: Bools) -> tuple[Ints, AnyInts, Bools]:
    """Deterministic arms next to each other, where pairs of their rewards are far fewer than atoms."""
    offset, points = channels.offset, channels.g.shape[1]
    arm = np.searchsorted(offset, channels.row, side="right") - 1
    level = np.zeros(channels.g.shape, dtype=np.int64)
    level[arm, np.repeat(np.arange(points), np.diff(channels.start))] = channels.row - offset[arm]
    known = [k for k in range(len(level)) if sure[offset[k] : offset[k + 1]].all()]
    sizes = np.diff(offset)
    pairs = [(k, ell) for k, ell in zip(known[::2], known[1::2], strict=False) if 4 * sizes[k] * sizes[ell] <= points]
    lone = np.ones(int(offset[-1]), dtype=np.bool_)
    cell = np.zeros((len(pairs), points), dtype=np.uint16)
    for q, (k, ell) in enumerate(pairs):
        cell[q] = level[k] * sizes[ell] + level[ell]
        lone[offset[k] : offset[k + 1]] = lone[offset[ell] : offset[ell + 1]] = False
    return np.array(pairs, dtype=np.int64).reshape(-1, 2), cell, lone
