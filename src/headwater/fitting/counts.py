"""Counting rewards where they lie: how often each arm paid a reward of each bin to each segment, and the sum of those rewards.

A bin is one value where rewards take few, otherwise an interval with an edge at every 64th of the rewards, found by counting in
intervals of dyadic width, the crowded ones again at a finer width. Widths are powers of two and sums are of whole numbers, so
that every database, on any number of threads, gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.fitting.logs import Log
from headwater.fitting.sources import need_ibis

if TYPE_CHECKING:
    import ibis

FEW = 200
"""Up to so many different rewards are counted one by one."""
PARTS = 64
"""Bins of rewards that take more values, about."""
_FIRST, _FINER, _ROUNDS = 12, 12, 3
_BITS = 62

Histogram = Callable[[int, int, "list[int] | None"], "tuple[Ints, Ints]"]
"""Of (exponent, coarser exponent, crowded cells of that one): the dyadic cells that hold rewards, and how many each holds."""


class Counts(NamedTuple):
    """``n[k, j, b]``: how many rewards of bin b arm k paid to segment j; ``total[k, j, b]``: their sum.

    ``edges`` (B - 1,): a reward is in bin b when ``edges[b - 1] <= reward < edges[b]``. ``values`` (B,): the rewards
    themselves where each bin is one value, else None; edges then lie half way between them. ``scatter[k, j, b]``: the variance
    of the rewards of a bin, None where it is one value. ``quantum``: what sums are whole multiples of.
    """

    arms: list[str]
    segments: list[str]
    n: Ints | Floats
    total: Floats
    edges: Floats
    values: Floats | None
    scatter: Floats | None = None
    quantum: float = 0.0


def count_log(log: Log, segment: Any = None, edges: Sequence[float] | None = None) -> Counts:
    """Count a log. ``segment`` is an ibis expression for a row's segment; by default the log's own column, or one segment.

    >>> from headwater.fitting.logs import Columns, read_log
    >>> from headwater.fitting.sources import open_source
    >>> data = {"ad": ["a", "b", "b", "a"], "won": [0, 1, 1, 1], "who": ["old", "old", "young", "young"]}
    >>> counts = count_log(read_log(open_source(data), Columns(arm="ad", reward="won", segment="who")))
    >>> counts.segments, counts.n[0].tolist()
    (['old', 'young'], [[1, 0], [0, 1]])
    """
    ibis = need_ibis()
    table = log.table
    if segment is None:
        segment = table.segment if "segment" in table.columns else ibis.literal("everyone")
    table = table.select("arm", "reward", segment=segment)
    values = None
    if edges is None and log.distinct <= 5 * FEW:  # an approximate number: the exact one decides
        seen = log.collect(table.group_by("reward").aggregate(n=table.count()))
        values = np.sort(seen["reward"].to_numpy())
    if values is not None and len(values) <= FEW:
        rows = log.collect(table.group_by("arm", "segment", "reward").aggregate(n=table.count()))
        at = np.searchsorted(values, rows["reward"].to_numpy())
        return _tabulate(rows, at, values[at] * rows["n"].to_numpy(), halfway(values), values, log)
    cut = candidate_edges(lambda *a: _dyadic(log, table, *a), log.low, log.high)
    cut = cut if edges is None else np.union1d(cut, edges)
    quantum = find_quantum(log)
    fine = _fine_quantum(log.low, log.high)
    binned = table.mutate(
        bin=bin_of(table.reward, cut.tolist()), whole=(table.reward / quantum).round().cast("int64"),
        part=((table.reward - log.low) / fine).round().cast("int64"),
    )  # fmt: skip
    rows = log.collect(
        binned.group_by("arm", "segment", "bin").aggregate(
            n=binned.count(), total=binned.whole.sum(), first=binned.part.sum(), second=(binned.part * binned.part).sum()
        )
    )
    total, first, second = (np.array(rows[key].to_pylist(), float) for key in ("total", "first", "second"))
    scatter = _variance(rows["n"].to_numpy(), first, second, fine)
    return _tabulate(rows, rows["bin"].to_numpy(), total * quantum, cut, None, log, scatter)


def count_arrays(arm: Ints, segment: Ints, rewards: Floats, arms: list[str], segments: list[str],
                 edges: Sequence[float] | None = None) -> Counts:  # fmt: skip
    """The same count of rewards at hand: ``arm`` and ``segment`` number each reward's, all of shape (N,)."""
    values, which = np.unique(rewards, return_inverse=True)
    if edges is None and len(values) <= FEW:
        cut: Floats = halfway(values)
        at, given = which, values
    else:
        cut = candidate_edges(_at_hand(rewards), values[0], values[-1])
        cut = cut if edges is None else np.union1d(cut, edges)
        at, given = np.searchsorted(cut, rewards, side="right"), None
    shape = (len(arms), len(segments), len(cut) + 1)
    cell = np.ravel_multi_index((arm, segment, at), shape)

    def add(weights: Floats | None = None) -> Any:
        return np.bincount(cell, weights, math.prod(shape)).reshape(shape)

    n, quantum = add(), _quantum(float(np.max(abs(rewards))), len(rewards))
    if given is not None:
        return Counts(arms, segments, n, n * values, cut, given, None, quantum)
    fine = _fine_quantum(values[0], values[-1])
    part = np.rint((rewards - values[0]) / fine)
    scatter = _variance(n, add(part), add(part**2), fine)
    return Counts(arms, segments, n, add(np.rint(rewards / quantum)) * quantum, cut, None, scatter, quantum)


def find_quantum(log: Log) -> float:
    """What sums of the log's rewards are whole multiples of."""
    return _quantum(max(abs(log.low), abs(log.high)), log.rows)


def _quantum(largest: float, rows: int) -> float:
    """A power of two so small that it does not matter, so large that the sum of all rewards in it is a 64-bit whole number."""
    return 2.0 ** max(math.frexp(largest)[1] - min(40, _BITS - math.ceil(math.log2(rows + 1))), -1000)


def _fine_quantum(low: float, high: float) -> float:
    """A power of two so large that sums of squares of what rewards are above the smallest are 64-bit whole numbers in it."""
    return 2.0 ** max(math.frexp(high - low)[1] - 14, -1000)


def _variance(n: Any, first: Any, second: Any, fine: float) -> Floats:
    mean = np.divide(first, n, out=np.zeros(np.shape(n)), where=np.asarray(n) > 0)
    square = np.divide(second, n, out=np.zeros(np.shape(n)), where=np.asarray(n) > 0)
    return np.asarray(np.maximum(square - mean**2, 0.0) * fine**2)


def halfway(values: Floats) -> Floats:
    return (values[1:] + values[:-1]) / 2


def _tabulate(
    rows: Any, at: Ints, total: Floats, edges: Floats, values: Floats | None, log: Log, scatter: Floats | None = None
) -> Counts:
    """Rows of a query as arrays; arms of a wide table keep its order, all other names are sorted, numbers by size."""
    arm, segment = rows["arm"].to_pylist(), rows["segment"].to_pylist()
    arms = [name for name in log.columns.wide if name in set(arm)] or naturally(set(arm))
    segments = naturally(set(segment))
    shape = (len(arms), len(segments), len(edges) + 1)
    k, j = (np.array(list(map({name: i for i, name in enumerate(names)}.__getitem__, column)), dtype=np.int64)
            for names, column in ((arms, arm), (segments, segment)))  # fmt: skip
    n, sums, apart = np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape)
    n[k, j, at] = rows["n"].to_numpy()
    sums[k, j, at] = total
    if scatter is not None:
        apart[k, j, at] = scatter
    return Counts(arms, segments, n, sums, edges, values, None if scatter is None else apart, find_quantum(log))


def naturally(names: set[str]) -> list[str]:
    """Names in order, numbers by size: 2 before 10, and numbers before words.

    >>> naturally({"10", "2", "b"})
    ['2', '10', 'b']
    """

    def key(name: str) -> tuple[bool, float, str]:
        try:
            return False, float(name), name
        except ValueError:
            return True, 0.0, name

    return sorted(names, key=key)


def candidate_edges(histogram: Histogram, low: float, high: float) -> Floats:
    """At most about 2 × ``PARTS`` edges, at dyadic numbers, with at most one ``PARTS``-th of the rewards between two of them.

    Where more rewards are one and the same value, it has edges on both sides.

    >>> candidate_edges(_at_hand(np.repeat([-1.0, 0.0, 7.0], [1, 98, 1])), -1.0, 7.0).round(6)
    array([0., 0.])
    """
    exponent = math.frexp(max(high - low, 1e-280))[1] - _FIRST
    cell, count = histogram(exponent, exponent, None)
    pieces, rows = [], int(count.sum())
    for _ in range(_ROUNDS):
        crowded = count > rows / (4 * PARTS)
        pieces.append((np.ldexp(cell[~crowded].astype(float), exponent), np.ldexp(1.0, exponent), count[~crowded]))
        cell, count = cell[crowded], count[crowded]
        if not len(cell) or len(pieces) == _ROUNDS:
            break
        coarse, exponent = exponent, exponent - _FINER
        cell, count = histogram(exponent, coarse, cell.tolist())
    pieces.append((np.ldexp(cell.astype(float), exponent), np.ldexp(1.0, exponent), count))
    left = np.concatenate([piece[0] for piece in pieces])
    right = np.concatenate([piece[0] + piece[1] for piece in pieces])
    mass = np.concatenate([piece[2] for piece in pieces])
    order = np.argsort(left)
    left, right, mass = left[order], right[order], mass[order]
    cumulated = np.cumsum(mass)
    wanted = np.searchsorted(cumulated, rows * np.arange(1, PARTS) / PARTS)
    heavy = np.flatnonzero(mass > rows / PARTS)
    found = np.unique(np.concatenate([right[wanted], left[heavy], right[heavy]]))
    return found[(found > low) & (found <= high)]


def _dyadic(log: Log, table: ibis.Table, exponent: int, coarse: int, crowded: list[int] | None) -> tuple[Ints, Ints]:
    if crowded is not None:
        table = table.filter(_cell(table.reward, coarse).isin(crowded))
    cells = table.select(cell=_cell(table.reward, exponent))
    rows = log.collect(cells.group_by("cell").aggregate(n=cells.count()))
    cell, count = rows["cell"].to_numpy(), rows["n"].to_numpy()
    order = np.argsort(cell)
    return cell[order], count[order]


def _cell(reward: Any, exponent: int) -> Any:
    return (reward * 2.0**-exponent).floor().cast("int64")


def _at_hand(rewards: Floats) -> Histogram:
    def histogram(exponent: int, coarse: int, crowded: list[int] | None) -> tuple[Ints, Ints]:
        inside = rewards if crowded is None else rewards[np.isin(np.floor(np.ldexp(rewards, -coarse)), crowded)]
        cell, count = np.unique(np.floor(np.ldexp(inside, -exponent)).astype(np.int64), return_counts=True)
        return cell, count.astype(np.int64)

    return histogram


def bin_of(reward: Any, edges: list[float], first: int = 0) -> Any:
    """How many of the edges are at or below the reward: a balanced tree of comparisons."""
    ibis = need_ibis()
    if not edges:
        return ibis.literal(first, type="int64")
    middle = len(edges) // 2
    return ibis.ifelse(
        reward < edges[middle], bin_of(reward, edges[:middle], first), bin_of(reward, edges[middle + 1 :], first + middle + 1)
    )
