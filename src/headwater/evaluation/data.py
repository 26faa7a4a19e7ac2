"""Reading what an evaluation needs: people with a reward for every arm, or the events of a log; and what a problem rests on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwater.arms import plain
from headwater.arrays import Floats
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.evaluation.events import Events, make_events
from headwater.evaluation.people import People, make_people
from headwater.files import load_with_evidence
from headwater.fitting import Fit
from headwater.fitting.identity import recognised
from headwater.fitting.logs import Columns, Log, read_log
from headwater.fitting.sources import open_source
from headwater.problem import Problem

__all__ = ["MAX_ROWS", "Crowd", "Rows", "read_crowd", "read_events", "read_problem"]

MAX_ROWS = 20_000_000
"""Rows × arms that are read: unlike a fit, an evaluation needs all of them at hand."""


class Rows(NamedTuple):
    """Where data came from, how many rewards, and what is to be said about it.

    ``learned_from`` says whether the problem was learned from "all" of it, "part" of it or "none"; None: it is not known.
    """

    label: str
    rows: int
    warnings: list[str]
    learned_from: str | None = None


class Crowd(NamedTuple):
    """People, and for each the value of the column that populations are made by."""

    people: People
    labels: list[str] | None
    about: Rows


def read_problem(given: Any) -> tuple[Problem, Mapping[str, Any]]:
    """A problem and the evidence it rests on, from a problem, a fit, or the path of a file."""
    if isinstance(given, Problem):
        return given, {}
    if isinstance(given, Fit):
        return given.problem, given.evidence()
    if not isinstance(given, (str, Path)):
        raise ProblemError(f"problem: got {shown(given)}; expected a Problem, a Fit or the path of a problem file")
    return load_with_evidence(given)


def read_crowd(
    problem: Problem,
    data: Any,
    *,
    segment: str | None = None,
    by: str | None = None,
    missing: Any = None,
    database: str | None = None,
    evidence: Mapping[str, Any] | None = None,
    held_out: bool = False,
) -> Crowd:
    """People from a wide table: a row each, a column per arm; those who lack a reward are left out."""
    features = () if by is None else (by,)
    log = read_log(
        open_source(data, database=database),
        Columns(segment=segment, features=features, wide=problem.names, unit=_split_by(evidence, held_out)),
        missing=missing,
    )
    log, known = recognised(log, evidence or {}, ask_held_out=held_out)
    rows = _collect(log, len(problem.names))
    units, unit = np.unique(rows["unit"].to_numpy(zero_copy_only=False), return_inverse=True)
    place = {name: k for k, name in enumerate(problem.names)}
    arm = np.array([place[name] for name in rows["arm"].to_pylist()], dtype=np.int64)
    table = np.full((len(units), len(place)), np.nan)
    table[unit, arm] = rows["reward"].to_numpy()
    first = np.zeros(len(units), dtype=np.int64)
    first[unit[::-1]] = np.arange(len(unit))[::-1]
    whole = np.flatnonzero(np.isfinite(table).all(axis=1))
    if not len(whole):
        raise ProblemError(
            f"{log.label}: nobody has a reward for every arm; expected such people, or a log, whose columns arm and reward name"
        )
    said = list(log.warnings)
    if len(whole) < len(units):
        said.append(f"{len(units) - len(whole):,} of {len(units):,} people were left out: they lack a reward for some arm")
    segments = None if segment is None else _labels(rows, "segment", first[whole])
    labels = None if by is None else _labels(rows, "f0", first[whole])
    people = make_people(problem, table[whole], segments=segments)
    return Crowd(people, labels, Rows(log.label, int(rows.num_rows), [*known.warnings, *said], known.learned_from))


def _split_by(evidence: Mapping[str, Any] | None, held_out: bool) -> str | None:
    """The column of units that a part was held out by."""
    unit = ((evidence or {}).get("hold_out") or {}).get("unit") if held_out else None
    return None if unit is None else str(unit)


def read_events(
    problem: Problem,
    data: Any,
    *,
    arm: str,
    reward: str,
    propensity: str | None = None,
    segment: str | None = None,
    time: str | None = None,
    unit: str | None = None,
    missing: Any = None,
    database: str | None = None,
    evidence: Mapping[str, Any] | None = None,
    held_out: bool = False,
) -> tuple[Events, Rows]:
    """Events from a long table: a row each, in the order of ``time``, without it as they stand."""
    unit = _split_by(evidence, held_out) or unit
    features = () if propensity is None else (propensity,)
    columns = Columns(arm=arm, reward=reward, segment=segment, features=features, time=time, unit=unit)
    log = read_log(open_source(data, database=database), columns, missing=missing, numbered=held_out)
    log, known = recognised(log, evidence or {}, ask_held_out=held_out)
    rows = _collect(log, len(problem.names), ordered=time is not None)
    chance: Floats | None = None
    if propensity is not None:
        column = rows["f0"]
        if str(column.type) in ("string", "large_string"):
            raise ProblemError(f"propensity: column {shown(propensity)} holds text; expected probabilities")
        if column.null_count:
            raise ProblemError(
                f"propensity: column {shown(propensity)} is empty in {column.null_count:,} rows; expected probabilities"
            )
        chance = column.to_numpy()
    segments = None if segment is None else rows["segment"].to_pylist()
    who = None if unit is None else rows["unit"].combine_chunks().dictionary_encode().indices.to_numpy()
    events = make_events(
        problem, rows["arm"].to_pylist(), rows["reward"].to_numpy(), propensity=chance, segment=segments, unit=who
    )
    said = [*known.warnings, *log.warnings, *events.warnings()]
    return events, Rows(log.label, int(rows.num_rows), said, known.learned_from)


def _collect(log: Log, width: int, *, ordered: bool = False) -> Any:
    """Every row, at home."""
    if log.rows > MAX_ROWS // width * (width if log.columns.wide else 1):  # the rows of a wide log are counted by reward
        raise ProblemError(
            f"{log.label}: got {log.rows:,} rewards; an evaluation takes {MAX_ROWS // width:,} rows at most: give it a part"
        )
    return log.collect(log.table.order_by("time") if ordered else log.table)


def _labels(rows: Any, column: str, where: Any) -> list[str]:
    values = rows[column].take(where).to_pylist()
    return [str(plain(value)) if isinstance(value, float) else str(value) for value in values]
