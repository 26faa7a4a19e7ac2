"""Which rewards a problem was learned from: a digest that is in its file, and the part of a log that is held out.

What identifies a log to a fit is its table of counts, so that is what the digest is of: for every arm how many rewards, and
their sum in units of a millionth of the largest. It does not depend on the order of rows, the kind of file, or which other
columns are named, and it is one query where the log lies. Two logs of a few hundred coin flips can share it by chance;
of thousands of rewards they do not.

A row is held out when a hash of the seed and its unit's name is small; where the log names no units, of its place. So the same
rows are held out whenever the log is read again, whatever other columns are named.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from headwater.errors import ProblemError
from headwater.fitting.logs import Log, in_lot, profiled

__all__ = ["HoldOut", "Recognised", "digest_of", "held_out", "kept", "recognised"]

_PARTS = 20
"""Rewards are summed in whole multiples of 2^-20 of the power of two above the largest: sums of 2^40 of them are exact."""


class Recognised(NamedTuple):
    """Whether a problem was learned from the data: from "all" of it, "part" of it, "none", or None, not known; and warnings."""

    learned_from: str | None
    warnings: list[str]


class HoldOut(NamedTuple):
    """The share of units (of rows, where no units are named) that nothing is learned from, and the seed of the lot."""

    share: float
    seed: int


def digest_of(log: Log) -> str:
    """16 hexadecimal digits that tell a log's rewards from those of another.

    >>> from headwater.fitting.logs import Columns, read_log
    >>> from headwater.fitting.sources import open_source
    >>> rows, shuffled = {"ad": ["a", "b", "b"], "won": [0, 1, 0]}, {"won": [0.0, 1.0, 0.0], "ad": ["b", "b", "a"]}
    >>> a, b = (digest_of(read_log(open_source(data), Columns(arm="ad", reward="won"))) for data in (rows, shuffled))
    >>> a == b, len(a)
    (True, 16)
    """
    table = log.table
    exponent = math.frexp(max(abs(log.low), abs(log.high)))[1] - _PARTS
    whole = (table.reward * 2.0 ** min(-exponent, 1000)).round().cast("int64")
    counted = table.select("arm", whole=whole)
    rows = log.collect(counted.group_by("arm").aggregate(n=counted.count(), total=counted.whole.sum()))
    told = sorted([str(row["arm"]), int(row["n"]), int(row["total"])] for row in rows.to_pylist())
    return hashlib.sha256(json.dumps([exponent, told]).encode()).hexdigest()[:16]


def kept(log: Log, split: HoldOut) -> Log:
    """The part of a log that is learned from."""
    return _part(log, split, held=False)


def held_out(log: Log, split: HoldOut) -> Log:
    """The part that is not."""
    return _part(log, split, held=True)


def _part(log: Log, split: HoldOut, *, held: bool) -> Log:
    drawn = in_lot(log, f"{split.seed}|held out|", split.share)
    words = f"the part held out of {log.label}" if held else f"what is left of {log.label} once a part is held out"
    table, columns = log.table.filter(drawn if held else ~drawn), log.columns
    if columns.unit is None and not columns.wide and not columns.features:
        table = table.drop("unit")  # rows were numbered for the lot only
    part = profiled(table, columns, words)
    return replace(part, label=log.label, left_out=log.left_out, warnings=log.warnings)


def recognised(log: Log, evidence: Mapping[str, Any], *, ask_held_out: bool) -> tuple[Log, Recognised]:
    """The part of a log to evaluate on, and what of it the problem was learned from, by the evidence in its file.

    ``ask_held_out``: evaluate on the part that the fit held out, or refuse.
    """
    if ask_held_out:
        return _the_held_out(log, evidence), Recognised("none", [])
    known, split = evidence.get("digest"), evidence.get("hold_out")
    if known is None:
        return log, Recognised(None, [])
    if digest_of(log) != known:
        return log, Recognised("none", [])
    if split is not None:
        share = f"{1 - float(split['share']):.0%} of this data is what the problem was learned from"
        return log, Recognised("part", [f"{share}: {_OPTIMISTIC}; --held-out evaluates on the rest"])
    remedy = "fit it with --hold-out 0.3 and evaluate it with --held-out, or evaluate it on other data"
    return log, Recognised("all", [f"the problem was learned from this very data: {_OPTIMISTIC}; {remedy}"])


_OPTIMISTIC = (
    "what it chooses by itself (each segment its best arm), policies that believe it and how often its intervals hold come "
    "out better here than they are"
)


def _the_held_out(log: Log, evidence: Mapping[str, Any]) -> Log:
    said = evidence.get("hold_out")
    if said is None:
        raise ProblemError(
            "held-out: the problem was fitted without a part held out; fit it again with --hold-out 0.3, or evaluate it on "
            "other data"
        )
    if digest_of(log) != evidence.get("digest"):
        raise ProblemError(
            f"held-out: {log.label} is not the data that the problem was learned from, or other rows of it were left out "
            "(without a reward, a segment, a unit; or too late); expected the same data, read the same way"
        )
    split = HoldOut(float(said["share"]), int(said["seed"]))
    if digest_of(kept(log, split)) != said["learned_digest"]:
        raise ProblemError(
            f"held-out: the rows of {log.label} do not stand in the order that they had when a part was held out, or its units "
            "have other names; expected the very same data, or a fit that names units"
        )
    return held_out(log, split)
