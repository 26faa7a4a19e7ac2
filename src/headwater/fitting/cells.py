"""Exact intervals for every cell (arm k, segment j), from its own rewards alone: they hold whatever the shrinkage does.

A probability has Clopper and Pearson's interval, a mean Gaffke's (:mod:`headwater.intervals`). No arm is taken to pay more
than the largest reward of the log, or less than the smallest. Where a unit has several rewards in a cell, they are one
observation: what is counted are units, and the mean is the ratio of their sums. Where rewards are worth less than their number
(hidden kinds; units of which a sample only was looked at), the same intervals are those of the effective counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.fitting.counts import Counts, bin_of
from headwater.fitting.levels import Levels
from headwater.fitting.logs import Log, sampled
from headwater.intervals import binomial_intervals, mean_intervals, ratio_intervals

MOST_SUMS = 300_000
"""So many sums, one for each unit in each cell, are brought home; where there are more, those of some units, by lot."""

SEEN = 20
"""So many units that were paid anything but the least show how much units can be paid."""


@dataclass(frozen=True)
class Units:
    """Sums of the rewards of one unit in one cell, alike ones once: ``cell`` (N,) is k J + j, ``size`` how many rewards,
    ``total`` their sum, ``hits`` (N, M) how many of each level, ``count`` how many units. ``share``: of the units, those that
    were looked at.
    """

    cell: Ints
    size: Floats
    total: Floats
    hits: Floats
    count: Floats
    share: float


class Ends(NamedTuple):
    """The ends of intervals: of probabilities (K, J, M), and of means (K, J)."""

    low: Floats
    high: Floats
    mean_low: Floats
    mean_high: Floats


def exact_ends(
    counts: Counts, levels: Levels, effective: Floats, units: Units | None, *, least: float, most: float, confidence: float
) -> Ends:
    """Intervals at ``confidence`` of counted rewards, worth ``effective`` (K, J), or of ``units`` where all were looked at.

    ``least`` and ``most``: the smallest and the largest reward there can be.

    >>> n = np.array([[[302, 0]], [[280, 22]]])
    >>> values = np.array([0.0, 1.0])
    >>> counts = Counts(["a", "b"], ["all"], n, n * values, np.array([0.5]), values)
    >>> levels = Levels(counts.edges, np.array([0, 1]), True, 0.0, 0.0)
    >>> ends = exact_ends(counts, levels, n.sum(axis=2).astype(float), None, least=0.0, most=1.0, confidence=0.95)
    >>> ends.mean_low[:, 0].round(4), ends.mean_high[:, 0].round(4)
    (array([0.    , 0.0462]), array([0.0121, 0.1082]))
    """
    by_level = levels.merge(counts.n)
    n = by_level.sum(axis=2)
    if units is not None and units.share == 1:
        return _ends_of_units(units, n.shape, least, most, confidence)
    worth = np.divide(effective, n, out=np.zeros(n.shape), where=n > 0)[:, :, None]
    low, high = binomial_intervals(by_level * worth, effective[:, :, None], confidence=confidence)
    values, weights = spread_out(counts)
    mean_low, mean_high = mean_intervals(values, weights * worth, low=least, high=most, confidence=confidence)
    return Ends(low, high, mean_low, mean_high)


def spread_out(counts: Counts) -> tuple[Floats, Floats]:
    """Values and weights, each (K, J, A), with the mean and the variance of the rewards of every bin of a cell.

    A bin of many values becomes two values, as far apart as its rewards were.
    """
    n = counts.n.astype(float)
    if counts.values is not None:
        return np.broadcast_to(counts.values, n.shape), n
    assert counts.scatter is not None
    mean = np.divide(counts.total, n, out=np.zeros(n.shape), where=n > 0)
    apart = np.sqrt(counts.scatter)
    return np.concatenate([mean - apart, mean + apart], axis=-1), np.concatenate([n / 2, n / 2], axis=-1)


def _ends_of_units(units: Units, shape: tuple[int, ...], least: float, most: float, confidence: float) -> Ends:
    mean_low, mean_high = _ratios(units, units.total, shape, least, most, confidence)
    ends = [_ratios(*_alike(units, hits), shape, 0.0, 1.0, confidence) for hits in units.hits.T]
    low, high = (np.stack(part, axis=2) for part in zip(*ends, strict=True))
    return Ends(low, high, mean_low, mean_high)


def _alike(units: Units, hits: Floats) -> tuple[Units, Floats]:
    """The units that differ in cell, size or how often they were paid one level, and how often that is."""
    most, largest = int(hits.max()) + 1, int(units.size.max()) + 1
    key = (units.cell * largest + units.size.astype(np.int64)) * most + hits.astype(np.int64)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    count = np.bincount(inverse, units.count).astype(float)
    return replace(units, cell=units.cell[first], size=units.size[first], count=count), hits[first]


def _ratios(
    units: Units, total: Floats, shape: tuple[int, ...], least: float, most: float, confidence: float
) -> tuple[Floats, Floats]:
    """Intervals (K, J) of what a reward of each cell adds to ``total`` (N,), from ``least`` to ``most``."""
    cells = int(np.prod(shape))
    rewards, mean = np.bincount(units.cell, units.count * units.size, cells), np.zeros(cells)
    np.divide(np.bincount(units.cell, units.count * total, cells), rewards, out=mean, where=rewards > 0)
    worst = _worst(units, total, mean, least, most), _worst(units, total, mean, most, least)
    low, high = ratio_intervals(
        units.cell, total, units.size, units.count, cells=cells, low=least, high=most, worst=worst, confidence=confidence
    )
    return low.reshape(shape), high.reshape(shape)


def _worst(units: Units, total: Floats, mean: Floats, end: float, other: float) -> tuple[Floats, Floats]:
    """Gaffke's added observation for the side of ``end``, in each cell with this ``mean``: a unit's total and size, (cells,).

    It is the unit of the cell that is farthest from its mean. If fewer than ``SEEN`` units of a cell were paid anything but
    the ``other`` end, how far they can be is not known from them: then it is the farthest unit of the whole log, and if that
    has no more of them either, one as large as the cell's largest, of rewards that are all the end.
    """
    sign, cells, least = np.sign(end - other), len(mean), 1e-9 * abs(end - other)
    far = sign * (total - other * units.size)
    paid = units.count * (far > least)
    size = np.ones(cells)
    np.maximum.at(size, units.cell, units.size)
    sums = end * size
    if paid.sum() >= SEEN:
        sizes, at = np.unique(units.size, return_inverse=True)
        farthest = np.full(len(sizes), -np.inf)
        np.maximum.at(farthest, at, far)
        away = farthest + np.multiply.outer(sign * (other - mean), sizes)
        found = np.argmax(away, axis=1)
        beyond = away.max(axis=1) > least
        size = np.where(beyond, sizes[found], size)
        sums = np.where(beyond, sign * farthest[found] + other * sizes[found], sums)
    away = sign * (total - mean[units.cell] * units.size)
    order = np.lexsort((away, units.cell))
    last = order[np.searchsorted(units.cell[order], np.arange(cells), side="right") - 1]
    known = (np.bincount(units.cell, paid, cells) >= SEEN) & (away[last] > least)
    return np.where(known, total[last], sums), np.where(known, units.size[last], size)


def effective_rewards(units: Units, shape: tuple[int, ...]) -> tuple[Floats, float]:
    """How many independent rewards each cell's are worth, (K, J), as a share of their number; and how alike one unit's are.

    Rewards of one unit in a cell of sizes s are worth n / (1 + r (sum s² / sum s - 1)) when any two of them correlate by r,
    which is taken to be one number for all cells.

    >>> size, total, count = np.array([10.0, 10.0]), np.array([0.0, 10.0]), np.array([30.0, 30.0])
    >>> units = Units(np.array([0, 0]), size, total, np.stack([size - total, total], axis=1), count, 1.0)
    >>> effective_rewards(units, (1, 1))  # whoever paid once paid always
    (array([[0.1]]), 1.0)
    """
    cells = int(np.prod(shape))
    n, s, hits = units.count, units.size, units.hits

    def add(what: Floats) -> Floats:
        return np.bincount(units.cell, what, cells).astype(float)

    rewards, squares = add(n * s), add(n * s**2)
    law = np.stack([add(n * h) for h in hits.T], axis=1) / np.maximum(rewards, 1)[:, None]
    between = sum(add(n * (h - law[units.cell, m] * s) ** 2) for m, h in enumerate(hits.T))
    within = (law * (1 - law)).sum(axis=1)
    room = float(np.sum(within * (squares - rewards)))
    alike = float(np.clip(np.sum(between - within * rewards) / room, 0.0, 1.0)) if room > 0 else 0.0
    excess = np.divide(squares, rewards, out=np.ones(cells), where=rewards > 0) - 1
    return (1 / (1 + alike * excess)).reshape(shape), alike


def count_units(log: Log, segment: Any, counts: Counts, levels: Levels, seed: int) -> Units | None:
    """The sums of every unit in every cell; None where no unit has two rewards in one. ``segment`` gives a table's segments.

    Where there are too many sums, those of units drawn by lot.
    """
    per_unit = max(log.rows / max(log.units, 1), 1.0) * max(levels.size / 12, 1.0)  # as many columns come home
    table, share = sampled(log, max(int(MOST_SUMS / per_unit), 1), seed)
    table = table.select("unit", "arm", "reward", segment=segment(table))
    groups = table.group_by("unit", "arm", "segment").aggregate(size=table.count())
    if (log.collect(groups.aggregate(most=groups.size.max())).to_pylist()[0]["most"] or 0) < 2:
        return None
    quantum = counts.quantum
    binned = table.mutate(
        level=bin_of(table.reward, levels.edges.tolist()), whole=(table.reward / quantum).round().cast("int64")
    )
    hits = {f"m{m}": (binned.level == m).sum() for m in range(levels.size)}
    rows = log.collect(
        binned.group_by("unit", "arm", "segment").aggregate(size=binned.count(), total=binned.whole.sum(), **hits)
    )
    place = [
        np.array([names.index(name) for name in found.dictionary.to_pylist()], dtype=np.int64)[found.indices.to_numpy()]
        for names, found in (
            (names, rows[key].combine_chunks().dictionary_encode())
            for key, names in (("arm", counts.arms), ("segment", counts.segments))
        )
    ]
    whole = np.stack([np.asarray(rows[key].to_pylist(), dtype=np.int64) for key in ("total", "size", *hits)], axis=1)
    table_of = np.column_stack([place[0] * len(counts.segments) + place[1], whole])
    alike, count = np.unique(table_of, axis=0, return_counts=True)  # in an order of its own, whatever a database's is
    total, size = alike[:, 1] * quantum, alike[:, 2].astype(float)
    return Units(alike[:, 0], size, total, alike[:, 3:].astype(float), count.astype(float), share)
