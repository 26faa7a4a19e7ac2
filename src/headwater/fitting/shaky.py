"""What is shaky about a fit, in sentences: each names the place, what was found, and what it means."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from headwater.arrays import Floats
from headwater.fitting.channels import Channel
from headwater.fitting.logs import Log, sampled
from headwater.fitting.mixture import GRID
from headwater.fitting.options import Options

if TYPE_CHECKING:
    from headwater.fitting.segments import Segmented

UNSTABLE = 0.5
ALIKE = 0.05
MOVED = 0.02
_DRIFT = 0.1
_FALSE_ALARM = 0.01


def find_doubts(log: Log, options: Options, found: Segmented, channels: Sequence[Channel], loss: Floats) -> list[str]:
    """Every doubt about segments, cells, levels, duplicates and time."""
    doubts = [*_segment_doubts(found), *_cell_doubts(found, options), *_level_doubts(found, channels, loss)]
    doubts += _leak_doubts(found)
    if log.columns.unit is not None:
        doubts += _duplicates(log, options)
    return doubts + (_time_doubts(log) if log.columns.time is not None else [])


def _listing(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _segment_doubts(found: Segmented) -> Iterator[str]:
    if len(found.segments) == 1:
        yield "there is one segment only: no arm's reward says anything about another arm, and no policy can gain from that"
    if found.stability is not None:
        agreement = found.stability.agreement
        if agreement < UNSTABLE:
            yield (
                f"the segments are not stable: found again from halves of the units they agree to {agreement:.2f} only "
                "(adjusted Rand index, 1 is perfect); more units or fewer segments would help"
            )
        weak = [name for name, part in zip(found.segments, found.stability.segments, strict=True) if part < UNSTABLE]
        if weak and agreement >= UNSTABLE:
            yield f"{_listing(weak)}: found again from halves of the units, less than half of the members are the same"
    if found.choice is not None and found.choice.chosen in (GRID[-1], found.choice.kinds[-1]) and found.choice.chosen > 1:
        yield f"more than {found.choice.chosen} segments might explain held-out units still better; as many were the most tried"
    laws = found.counts / np.maximum(found.counts.sum(axis=2, keepdims=True), 1e-300)
    for i in range(len(found.segments)):
        for j in range(i):
            both = (found.counts[:, [i, j]].sum(axis=2) > 0).all(axis=1)
            apart = abs(laws[both, i] - laws[both, j]).sum(axis=1) / 2
            if len(apart) and apart.max() < ALIKE:
                pair = f"{found.segments[j]} and {found.segments[i]}"
                yield f"{pair} look alike to every arm: only their joint share can be learned"


def _cell_doubts(found: Segmented, options: Options) -> Iterator[str]:
    n = found.counts.sum(axis=2)
    few = [name for name, total in zip(found.arms, n.sum(axis=1), strict=True) if total < options.least]
    if few:
        yield f"{_listing(few)}: fewer than {options.least} rewards in all; what it pays is little more than a guess"
    for words, cells in (("never seen", n < 0.5), (f"fewer than {options.least} rewards", (n >= 0.5) & (n < options.least))):
        where = [f"{found.arms[k]} for {found.segments[j]}" for k, j in np.argwhere(cells)]
        if where:
            yield (
                f"{words}: {_listing(where)} ({len(where)} of {n.size} cells); each gets what its arm and its "
                "segment let expect, and the interval that its own rewards leave"
            )
    constant = [
        name for name, row in zip(found.arms, found.counts.sum(axis=1), strict=True) if row.sum() >= 1 and np.sum(row > 0) == 1
    ]
    if constant:
        yield f"{_listing(constant)}: every reward is the same; nothing can be learned from pulling it"


def _level_doubts(found: Segmented, channels: Sequence[Channel], loss: Floats) -> Iterator[str]:
    width = max(float(np.ptp(channel.outcomes)) for channel in channels)
    k, j = np.unravel_index(int(np.argmax(loss)), loss.shape)
    if loss[k, j] > MOVED * width:
        yield (
            f"cutting rewards into {found.levels.size} levels moves the mean of {found.arms[k]} for {found.segments[j]} by "
            f"{loss[k, j]:.3g}, {loss[k, j] / width:.1%} of the range; more levels would keep it"
        )


def _leak_doubts(found: Segmented) -> Iterator[str]:
    """A segment that decides every reward was perhaps made from the reward."""
    mixed = (found.counts.sum(axis=1) > 0).sum(axis=1) > 1
    sure = ((found.counts > 0).sum(axis=2) <= 1).all(axis=1)
    if len(found.segments) > 1 and mixed.any() and sure[mixed].all() and found.method != "mixture of channels":
        yield (
            "the segment decides the reward of every arm without exception; was it recorded after the reward, or made from it? "
            "Then it tells nothing about new units"
        )


def _duplicates(log: Log, options: Options) -> list[str]:
    """The same unit, arm, reward (and time) more than once; looked for among sampled units, whose number is bounded."""
    table, share = sampled(log, options.sample, options.seed)
    keys = ["unit", "arm", "reward", *(["time"] if log.columns.time is not None else [])]
    groups = table.group_by(*keys).aggregate(n=table.count())
    twice = groups.filter(groups.n > 1)
    row = log.collect(twice.aggregate(extra=(twice.n - 1).sum(), example=twice.unit.min())).to_pylist()[0]
    if not row["extra"]:
        return []
    where = "" if share == 1 else f" among the {share:.2%} of units looked at"
    return [
        f"{int(row['extra']):,} rows are repeated{where}: the same {', '.join(keys[:-1])} and {keys[-1]}, for example of unit "
        f"{row['example']}; each was counted, which gives these units too much weight if they are copies"
    ]


def _time_doubts(log: Log) -> list[str]:
    """Arms that were never on at the same time, and arms whose mean reward moved from the first to the second half of time."""
    table = log.table
    spans = log.collect(table.group_by("arm").aggregate(first=table.time.min(), last=table.time.max())).to_pylist()
    spans = [span for span in spans if span["first"] is not None]
    doubts = []
    if spans:
        early, late = min(spans, key=lambda span: span["last"]), max(spans, key=lambda span: span["first"])
        if early["last"] < late["first"]:
            doubts.append(
                f"{early['arm']} ended ({early['last']}) before {late['arm']} began ({late['first']}): what differs between "
                "them may be the time, not the arm"
            )
        doubts += _drift(log, min(span["first"] for span in spans), max(span["last"] for span in spans))
    return doubts


def _drift(log: Log, first: Any, last: Any) -> list[str]:
    if not isinstance(first, (int, float, datetime.date)) or first == last:
        return []  # texts have no middle
    middle = first + (last - first) / 2
    table = log.table.filter(log.table.time.notnull())
    halves = table.mutate(late=table.time > middle)
    rows = log.collect(
        halves.group_by("arm", "late").aggregate(n=halves.count(), mean=halves.reward.mean(), var=halves.reward.var())
    ).to_pylist()
    by_arm: dict[str, dict[bool, Any]] = {}
    for row in rows:
        by_arm.setdefault(row["arm"], {})[row["late"]] = row
    bound, moved = -ndtri(_FALSE_ALARM / (2 * len(by_arm))), []
    for arm, parts in sorted(by_arm.items()):
        if len(parts) == 2 and min(part["n"] for part in parts.values()) > 1:
            a, b = parts[False], parts[True]
            spread = ((a["var"] + b["var"]) / 2) ** 0.5
            error = (a["var"] / a["n"] + b["var"] / b["n"]) ** 0.5
            if abs(b["mean"] - a["mean"]) > max(bound * error, _DRIFT * spread):
                moved.append(f"{arm} ({a['mean']:.3g} before, {b['mean']:.3g} after)")
    if not moved:
        return []
    return [
        f"mean rewards moved over time, with {middle} as the middle: {_listing(moved)}; the mix of segments changed, or what "
        "they like: the second makes the problem wrong about tomorrow"
    ]
