"""From many rewards to few levels: neighbouring bins are merged so that what separates arms and segments is kept.

Merging loses two things: how far rewards of one level lie apart (which can move the mean of a segment), and what a reward tells
about who paid it to whom (information between the bin and the arm × segment). Both are sums over levels, so the best levels
follow by dynamic programming on the sum of the two shares lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from headwater.arrays import Floats, Ints
from headwater.fitting.counts import Counts

PLAIN = 12
"""Up to so many different rewards stay as they are."""
MOST = 12
SPREAD_LOST = 0.02
"""The share of the rewards' variance that levels chosen by themselves may lose."""
_CELLS = 4000


class Levels(NamedTuple):
    """``edges`` (M - 1,): a reward is of level m when ``edges[m - 1] <= reward < edges[m]``. ``first[m]``: its first bin.

    ``spread_lost`` and ``information_lost``: the shares of the rewards' variance and of what they tell about arm and segment
    that are gone. ``exact``: every level is one value.
    """

    edges: Floats
    first: Ints
    exact: bool
    spread_lost: float
    information_lost: float

    @property
    def size(self) -> int:
        return len(self.first)

    def of(self, rewards: Floats) -> Ints:
        """The level of each reward."""
        return np.searchsorted(self.edges, rewards, side="right").astype(np.int64)

    def merge(self, per_bin: Floats | Ints) -> Floats:
        """Sums over each level's bins, along the last axis."""
        return np.add.reduceat(per_bin, self.first, axis=-1).astype(float)


def choose_levels(counts: Counts, wanted: int | None = None) -> Levels:
    """The levels of counted rewards: ``wanted`` of them, or as few as lose less than 2 % of the variance (12 at most).

    >>> n = np.array([[[50, 0, 50, 0]], [[0, 50, 0, 50]]])
    >>> values = np.array([0.0, 0.1, 0.9, 1.0])
    >>> counts = Counts(["a", "b"], ["all"], n, n * values, np.array([0.05, 0.5, 0.95]), values)
    >>> choose_levels(counts).size, choose_levels(counts, 2).edges
    (4, array([0.5]))
    """
    bins = counts.n.shape[-1]
    if counts.values is not None and bins <= (PLAIN if wanted is None else wanted):
        return Levels(counts.edges, np.arange(bins), True, 0.0, 0.0)
    spread, information = _costs(counts)
    best, back = _best_merges(spread + information, min(wanted or MOST, bins))
    if wanted is None:
        lost = [sum(spread[a, b] for a, b in _spans(back, m)) for m in range(1, len(best) + 1)]
        wanted = next((m for m, share in enumerate(lost, start=1) if m > 1 and share <= SPREAD_LOST), len(best))
    spans = _spans(back, min(wanted, len(best)))
    first = np.array([a for a, _ in spans])
    lost_spread, lost_information = (float(sum(cost[a, b] for a, b in spans)) for cost in (spread, information))
    return Levels(counts.edges[first[1:] - 1], first, False, lost_spread, lost_information)


def fixed_levels(counts: Counts, edges: Sequence[float]) -> Levels:
    """Levels between edges that were given, which are among those of the bins."""
    cut = np.array(edges, dtype=float)
    return Levels(cut, np.concatenate([[0], np.searchsorted(counts.edges, cut) + 1]), False, 0.0, 0.0)


def _costs(counts: Counts) -> tuple[Floats, Floats]:
    """``[a, b]``: the shares of variance and of information lost when the bins a to b become one level, both (B, B)."""
    n, s = counts.n.sum(axis=(0, 1)).astype(float), counts.total.sum(axis=(0, 1))
    bins = len(n)
    mean = np.divide(s, n, out=np.zeros(bins), where=n > 0)
    centred = mean - s.sum() / n.sum()
    variance = float(np.sum(n * centred**2))
    cells = counts.n.reshape(-1, bins)
    cells = counts.n.sum(axis=1) if len(cells) > _CELLS else cells
    total = float(_kept(cells).sum() - _kept(cells.sum(axis=1, keepdims=True)).sum())
    spread, information = np.zeros((bins, bins)), np.zeros((bins, bins))
    for a in range(bins):
        weight = np.cumsum(n[a:])
        first, second = np.cumsum((n * centred)[a:]), np.cumsum((n * centred**2)[a:])
        spread[a, a:] = second - np.divide(first**2, weight, out=np.zeros_like(first), where=weight > 0)
        merged = np.cumsum(cells[:, a:], axis=1)
        information[a, a:] = np.cumsum(_kept(cells[:, a:])) - _kept(merged)
    # Counts of cells that are all alike would tell something, too, by chance: half the degrees of freedom. That is no loss.
    real = max(0.0, total - (len(cells) - 1) * (bins - 1) / 2) / total**2 if total > 0 else 0.0
    return np.maximum(spread, 0) / max(variance, 1e-300), np.maximum(information, 0) * real


def _kept(cells: Floats | Ints) -> Floats:
    """What a level tells about the cell, up to a constant, for each column of ``cells`` (cells, bins)."""
    n = cells.sum(axis=0)
    return np.asarray(xlogy(cells, cells).sum(axis=0) - xlogy(n, n))


def _best_merges(cost: Floats, most: int) -> tuple[Floats, Ints]:
    """``best[m - 1]``: the least cost of m levels. ``back[m - 1, b]``: where the last of m levels that end at bin b begins."""
    bins = len(cost)
    value, back = np.full((most, bins), np.inf), np.zeros((most, bins), dtype=np.int64)
    value[0] = cost[0]
    for m in range(1, most):
        for b in range(m, bins):
            options = value[m - 1, m - 1 : b] + cost[m : b + 1, b]
            at = int(np.argmin(options))
            value[m, b], back[m, b] = options[at], at + m
    return value[:, -1], back


def _spans(back: Ints, levels: int) -> list[tuple[int, int]]:
    out, end = [], back.shape[1] - 1
    for m in range(levels - 1, -1, -1):
        out.append((int(back[m, end]), end))
        end = int(back[m, end]) - 1
    return out[::-1]
