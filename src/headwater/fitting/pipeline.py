"""The steps of a fit, in order: open, check, find segments, choose levels, count, make channels, say what is shaky."""

from __future__ import annotations

import datetime
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from headwater.arrays import Floats
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.fitting.cells import Ends, exact_ends
from headwater.fitting.channels import Channel, find_strengths, make_channel, possible_levels
from headwater.fitting.effects import Effects, find_effects
from headwater.fitting.identity import HoldOut, digest_of, kept
from headwater.fitting.logs import Columns, Log, read_log
from headwater.fitting.options import Options, Progress
from headwater.fitting.result import Fit
from headwater.fitting.segments import Segmented, segment_log
from headwater.fitting.shaky import find_doubts
from headwater.fitting.sources import need_sklearn, open_source


def fit_log(
    data: Any, *, columns: tuple[Any, ...], wide: bool | Sequence[str], missing: Any, until: Any, database: str | None,
    name: str, command: str, progress: Progress | None, edges: Sequence[float] | None, **options: Any,
) -> Fit:  # fmt: skip
    """See :func:`headwater.fit`."""
    chosen = Options(edges=None if edges is None else tuple(edges), progress=progress or (lambda *_: None), **options)
    chosen.check()
    early = need_sklearn().exceptions.ConvergenceWarning  # its threads can only be limited once it is loaded
    chosen.progress("reading", 0.0)
    source = open_source(data, database=database)
    try:
        wanted = _wide(Columns(*columns), source.table.columns, wide)
        if wanted.segment is not None and wanted.features:
            raise ProblemError("segment: got features, too; expected one: where segments are known, none need be found")
        whole = read_log(source, wanted, missing=missing, until=until, numbered=chosen.hold_out is not None)
        log, identity = _learned_from(whole, chosen)
        with threadpool_limits(1), warnings.catch_warnings():  # matrices are small: threads would only wait for each other
            warnings.simplefilter("ignore", early)  # a start that ends early is one of several
            found = segment_log(log, chosen)
            return _finish(
                log, found, chosen, name=name or source.label, origin=_origin(log, found, chosen, command, until) | identity
            )
    finally:
        source.close()


def _learned_from(log: Log, options: Options) -> tuple[Log, dict[str, Any]]:
    """The part of a log to learn from, and what tells this data again."""
    if options.hold_out is None:
        return log, {"digest": digest_of(log)}
    split = HoldOut(options.hold_out, options.seed)
    part = kept(log, split)
    told: dict[str, Any] = {"share": split.share, "seed": split.seed, "by": "row" if log.columns.unit is None else "unit"}
    told |= {} if log.columns.unit is None else {"unit": log.columns.unit}
    return part, {"digest": digest_of(log), "hold_out": told | {"learned_digest": digest_of(part)}}


def _wide(columns: Columns, there: Sequence[str], wide: bool | Sequence[str]) -> Columns:
    if wide is False:
        return columns
    taken = set(columns.named.values())
    return columns._replace(wide=tuple(name for name in there if name not in taken) if wide is True else tuple(wide))


def _finish(log: Log, found: Segmented, options: Options, *, name: str, origin: dict[str, Any]) -> Fit:
    """Laws with intervals out of the counts, and what is shaky about them."""
    if len(found.arms) < 2:
        raise ProblemError(f"arms: got {shown(found.arms[0])} only; expected at least two arms to choose from")
    channels, effects = make_channels(found, options.least, options.confidence, least=log.low, most=log.high)
    n = found.counts.sum(axis=2)
    stated = np.einsum("kjm,km->kj", found.counts, _outcomes(found))
    loss = np.divide(abs(stated - found.total), n, out=np.zeros_like(n), where=n > 0)
    fit = Fit(
        name, found.arms, found.segments, found.shares, channels, found.levels, loss, found.method, origin, found.choice,
        found.stability, found.profiles, log.warnings + find_doubts(log, options, found, channels, loss), effects,
    )  # fmt: skip
    fit.problem  # noqa: B018 - what a problem refuses, such as an arm without a name, is refused here
    return fit


def make_channels(
    found: Segmented, fewest: int, confidence: float, *, least: float, most: float
) -> tuple[list[Channel], Effects]:
    """The channels behind counted rewards, with intervals at ``confidence``, and the effects of arms and segments.

    A cell with less than ``fewest`` rewards is pooled; ``least`` and ``most`` are the smallest and the largest reward.
    """
    n = found.counts.sum(axis=2)
    worth = np.divide(found.effective, n, out=np.zeros_like(n), where=n > 0)
    counted = found.counts * worth[:, :, None]
    effects = find_effects(counted, *possible_levels(found.counts.sum(axis=1), exact=found.levels.exact))
    strengths = find_strengths(counted, effects.expected)
    outcomes = _outcomes(found)
    ends = exact_ends(found.binned, found.levels, found.effective, found.units, least=least, most=most, confidence=confidence)
    channels = [
        make_channel(
            found.counts[k], effects.base[k], effects.expected[k], float(strengths[k]), outcomes[k],
            Ends(*(part[k] for part in ends)), effective=found.effective[k], least=fewest,
        )
        for k in range(len(found.arms))
    ]  # fmt: skip
    return channels, effects


def _outcomes(found: Segmented) -> Floats:
    """The reward that stands for each level of each arm, (K, M): the arm's mean there, all arms' where it has none."""
    n, total = found.counts.sum(axis=1), found.level_total
    everyone = np.divide(total.sum(axis=0), n.sum(axis=0), out=np.zeros(n.shape[1]), where=n.sum(axis=0) > 0)
    if found.levels.exact:
        return np.tile(everyone, (len(n), 1))
    empty = n.sum(axis=0) == 0  # an interval of the user's that no reward fell into
    edges = found.levels.edges
    ends = np.concatenate([[edges[0] - 1], edges, [edges[-1] + 1]])
    everyone = np.where(empty, (ends[:-1] + ends[1:]) / 2, everyone)
    return np.asarray(np.divide(total, n, out=np.tile(everyone, (len(n), 1)), where=n > 0.5))


def _origin(log: Log, found: Segmented, options: Options, command: str, until: Any) -> dict[str, Any]:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")  # what makes builds repeatable also makes fits so
    now = datetime.datetime.now(datetime.UTC)
    date = now if epoch is None else datetime.datetime.fromtimestamp(int(epoch), datetime.UTC)
    out: dict[str, Any] = {"date": date.date().isoformat(), "source": log.label}
    out |= {"command": command} if command else {}
    out |= {"rows": log.rows, "left_out": log.left_out} if log.left_out else {"rows": log.rows}
    out |= {"first": str(log.first), "last": str(log.last)} if log.columns.time else {}
    out |= {"until": str(until)} if until is not None else {}
    out |= found.facts | {"seed": options.seed, "confidence": options.confidence, "least": options.least}
    return out | {"intervals_over": found.observed}
