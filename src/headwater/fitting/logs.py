"""A log in one shape, whatever it came as: a row per reward, with columns ``arm``, ``reward`` and, where there are such,
``segment``, ``unit``, ``time`` and features ``f0``, ``f1``, …

Everything here builds queries. What comes home are aggregates, and a sample of units whose size is bounded.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.complaints import Complaints, shown
from headwater.errors import ProblemError
from headwater.fitting.sources import NUMBER, Source, asking, first_line, need_ibis

if TYPE_CHECKING:
    import ibis
    import pyarrow as pa

MAX_ARMS = 1000
MAX_SEGMENTS = 1000
_ROW = "headwater row"


class Columns(NamedTuple):
    """Which column is what. ``wide`` lists one column per arm; it is empty when ``arm`` and ``reward`` are columns."""

    arm: str | None = None
    reward: str | None = None
    segment: str | None = None
    unit: str | None = None
    features: tuple[str, ...] = ()
    time: str | None = None
    wide: tuple[str, ...] = ()

    @property
    def named(self) -> dict[str, str]:
        """The columns by what a user calls them: ``{"arm": "ad", "features[0]": "age"}``."""
        single = {key: getattr(self, key) for key in ("arm", "reward", "segment", "unit", "time")}
        many = {f"features[{i}]": name for i, name in enumerate(self.features)}
        arms = {f"arms[{i}]": name for i, name in enumerate(self.wide)}
        return {key: name for key, name in single.items() if name is not None} | many | arms


@dataclass(frozen=True)
class Log:
    """The usable rows as an ibis table, and what one pass over the raw ones found.

    ``table`` has the columns of this module's first lines, none of them null except features. ``left_out`` says how many rows
    were not usable, by reason. ``warnings`` are sentences.
    """

    table: ibis.Table
    columns: Columns
    label: str
    rows: int
    low: float
    high: float
    distinct: int
    units: int
    first: Any = None
    last: Any = None
    left_out: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def collect(self, query: ibis.Expr) -> pa.Table:
        """Run a query where the table lies; its result comes home."""
        try:
            with asking():
                return query.to_pyarrow()
        except Exception as error:  # noqa: BLE001 - every database has exceptions of its own
            raise ProblemError(f"{self.label}: the query failed: {first_line(error)}") from None


def read_log(source: Source, columns: Columns, *, missing: Any = None, until: Any = None, numbered: bool = False) -> Log:
    """The log that the columns describe, checked; what is wrong is said in one go where it can be.

    ``numbered``: where no column names units, the table has the number of the row in place of one.

    >>> from headwater.fitting.sources import open_source
    >>> wide = open_source({"user": ["u", "v"], "tea": [1, 99], "milk": [0, 1]})
    >>> log = read_log(wide, Columns(unit="user", wide=("tea", "milk")), missing=99)
    >>> log.rows, log.left_out
    (4, {'no reward': 1})
    """
    ibis = need_ibis()
    _check_columns(source.table, columns)
    raw = _until(source, columns, until)
    found = Complaints()
    rewards = {name: _number(source, raw, name, missing, found) for name in columns.wide or (str(columns.reward),)}
    found.raise_if_any()
    if columns.unit is None and (
        columns.wide or columns.features or numbered
    ):  # every row is a unit; numbered before it is unfolded
        raw = raw.mutate(**{_ROW: ibis.row_number()})
    shape = _others(raw, columns)
    if columns.wide:
        shape["arm"] = ibis.array(list(columns.wide)).unnest()
        shape["reward"] = ibis.array(list(rewards.values())).unnest()
    else:
        shape["arm"], shape["reward"] = raw[columns.arm].cast("string"), rewards[str(columns.reward)]
    table = raw.select(**shape)
    log = profiled(table, columns, source.label)
    return replace(log, warnings=[*source.notes, *log.warnings])


def _check_columns(table: ibis.Table, columns: Columns) -> None:
    found, there = Complaints(), list(table.columns)
    if columns.wide and (columns.arm or columns.reward):
        found.say("arm: got a column, and a table with one column per arm; expected one or the other")
    if not columns.wide:
        for key in ("arm", "reward"):
            if getattr(columns, key) is None:
                found.say(f"{key}: missing; expected the name of a column, or a wide table with one column per arm")
    for key, name in columns.named.items():
        if name not in there:
            near = difflib.get_close_matches(name, there, n=1)
            hint = f"did you mean {shown(near[0])}?" if near else f"the table has {_listing(there)}"
            found.say(f"{key}: there is no column {shown(name)}; {hint}")
    names = list(columns.named.values())
    for name in sorted({name for name in names if names.count(name) > 1}):
        found.say(f"{' and '.join(k for k, v in columns.named.items() if v == name)}: got the same column {shown(name)}; "
                  "expected different ones")  # fmt: skip
    if columns.wide and len(columns.wide) < 2:
        found.say(f"arms: got {len(columns.wide)} column; expected at least two, one per arm")
    found.raise_if_any()


def _listing(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _until(source: Source, columns: Columns, until: Any) -> ibis.Table:
    if until is None:
        return source.table
    if columns.time is None:
        raise ProblemError("until: got no time column; expected one, to know which rows came later")
    ibis = need_ibis()
    when = source.table[columns.time]
    try:
        limit = ibis.literal(until).cast(when.type())
        kept = source.table.filter(when <= limit)
        with asking():
            kept.limit(1).to_pyarrow()
    except Exception as error:  # noqa: BLE001 - how a date is refused is each database's own affair
        raise ProblemError(
            f"until: got {shown(str(until))}; expected a value like those of {shown(columns.time)} ({when.type()}): "
            f"{first_line(error)}"
        ) from None
    return kept


def _number(source: Source, table: ibis.Table, name: str, missing: Any, found: Complaints) -> Any:
    """A column of rewards as numbers: null where there is none."""
    column = table[name]
    kind = column.type()
    place = f"column {shown(name)}"
    if kind.is_string():
        if missing is not None:
            column = column.nullif(str(missing))
        odd = table.filter(column.notnull() & ~column.re_search(f"^{NUMBER}$"))
        count, example = _one(source, odd.aggregate(n=odd.count(), example=odd[name].min()))
        if count:
            found.say(f"{place}: got text in {count:,} rows, for example {shown(example)}; expected numbers "
                      f"(missing={shown(example)} would leave these rows out)")  # fmt: skip
            return need_ibis().null("float64")
        return column.cast("float64")
    if kind.is_boolean():
        column = column.cast("int8")
    elif not kind.is_numeric():
        found.say(f"{place}: got values of type {kind}; expected numbers")
        return need_ibis().null("float64")
    column = column.cast("float64")
    column = need_ibis().ifelse(column.isnan(), None, column) if kind.is_floating() else column
    return column if missing is None else column.nullif(_sentinel(missing))


def _sentinel(missing: Any) -> float:
    try:
        return float(missing)
    except (TypeError, ValueError):
        raise ProblemError(f"missing: got {shown(missing)}; expected a number, as the rewards are numbers") from None


def _one(source: Source, query: Any) -> list[Any]:
    """The single row of an aggregate."""
    try:
        with asking():
            row = query.to_pyarrow().to_pylist()[0]
    except Exception as error:  # noqa: BLE001 - every database has exceptions of its own
        raise ProblemError(f"{source.label}: the query failed: {first_line(error)}") from None
    return list(row.values())


def _others(raw: ibis.Table, columns: Columns) -> dict[str, Any]:
    """The columns beside arm and reward, under their fixed names."""
    ibis = need_ibis()
    out: dict[str, Any] = {}
    if columns.segment is not None:
        out["segment"] = raw[columns.segment].cast("string")
    if columns.unit is not None:
        out["unit"] = raw[columns.unit].cast("string")
    elif _ROW in raw.columns:
        out["unit"] = raw[_ROW].cast("string")
    if columns.time is not None:
        out["time"] = raw[columns.time]
    for i, name in enumerate(columns.features):
        kind = raw[name].type()
        number = kind.is_numeric() or kind.is_boolean()
        value = raw[name].cast("float64") if number else raw[name].cast("string")
        out[f"f{i}"] = ibis.ifelse(value.isnan(), None, value) if kind.is_floating() else value
    return out


def profiled(table: ibis.Table, columns: Columns, label: str) -> Log:
    """The usable rows of a table in that shape, and what one pass over all of them finds: how many, how many unusable and
    why, the range of rewards and of time."""
    keys = ["reward", "arm", *(key for key in ("segment", "unit") if getattr(columns, key) is not None)]
    blank = {f"no_{key}": table[key].isnull().sum() for key in keys}
    usable = table.arm.notnull()
    for key in keys:
        usable &= table[key].notnull()
    finite = table.filter(usable)
    endless = {} if columns.time is None or (odd := _endless(table.time)) is None else {"endless": odd.sum()}
    query = table.aggregate(rows=table.count(), infinite=table.reward.isinf().sum(), **endless, **blank)
    within = finite.aggregate(
        usable=finite.count(),
        low=finite.reward.min(),
        high=finite.reward.max(),
        distinct=finite.reward.approx_nunique(),
        arms=finite.arm.approx_nunique(),
        **({"segments": finite.segment.approx_nunique()} if "segment" in keys else {}),
        **({"units": finite.unit.approx_nunique()} if "unit" in keys else {}),
        **({"first": finite.time.min().cast("string"), "last": finite.time.max().cast("string")} if columns.time else {}),
    )
    log = Log(finite, columns, label, 0, 0.0, 0.0, 0, 0)
    raw, seen = (log.collect(part).to_pylist()[0] for part in (query, within))
    left_out = {key.replace("_", " "): int(raw[key]) for key in blank if raw[key]}
    _check_profile(raw, seen, columns, label)
    units = seen.get("units", raw["rows"] // max(len(columns.wide), 1))
    return Log(
        finite, columns, label, int(raw["rows"]), float(seen["low"]), float(seen["high"]), int(seen["distinct"]),
        int(units), seen.get("first"), seen.get("last"), left_out, _left_out_warnings(left_out, columns),
    )  # fmt: skip


def _endless(when: Any) -> Any:
    """Whether a time is infinite, or a date beyond those that have a name here; None for times that cannot be."""
    ibis, kind = need_ibis(), when.type()
    if kind.is_floating():
        return when.isinf()
    if kind.is_date() or kind.is_timestamp():
        day = when.cast("date")
        return (day > ibis.date("9999-12-31")) | (day < ibis.date("0001-01-01"))
    return None


def _check_profile(raw: dict[str, Any], seen: dict[str, Any], columns: Columns, label: str) -> None:
    name = columns.reward or "the rewards"
    if not raw["rows"]:
        raise ProblemError(f"{label}: the table has no rows")
    if not seen["usable"]:
        raise ProblemError(f"{label}: no row has all of {', '.join(k for k in columns.named if '[' not in k) or 'its arms'}")
    if raw["infinite"]:
        raise ProblemError(f"column {shown(name)}: got infinity in {int(raw['infinite']):,} rows; expected finite rewards")
    if raw.get("endless"):
        expected = "expected dates of the years 1 to 9999, or finite numbers"
        raise ProblemError(f"column {shown(columns.time)}: got a time without end in {int(raw['endless']):,} rows; {expected}")
    if max(abs(seen["low"]), abs(seen["high"])) > 1e300:
        raise ProblemError(f"column {shown(name)}: got rewards up to {seen['high']:g}; expected them within ±1e300")
    if seen["low"] == seen["high"]:
        raise ProblemError(f"column {shown(name)}: every reward is {seen['low']:g}; expected rewards that differ")
    for key, most in (("arms", MAX_ARMS), ("segments", MAX_SEGMENTS)):
        if (seen.get(key) or 0) > 1.3 * most:  # the count is approximate
            wanted = columns.arm if key == "arms" else columns.segment
            hint = "" if key == "arms" else "; a column that names people is a unit, not a segment"
            raise ProblemError(f"column {shown(wanted)}: got about {seen[key]:,} {key}; expected at most {most:,}{hint}")


def _left_out_warnings(left_out: dict[str, int], columns: Columns) -> list[str]:
    quiet = {"no reward"} if columns.wide else set()  # a wide table is full of rewards nobody gave
    return [f"{n:,} rows were left out: {reason}" for reason, n in left_out.items() if reason not in quiet]


def sampled(log: Log, size: int, seed: int) -> tuple[ibis.Table, float]:
    """The rows of about ``size`` units (between half of it and all), and the share of units that is.

    A unit is in the sample when a hash of its name and the seed is small: the same units whatever the order of rows, whatever
    the database.
    """
    share = 1.0 if log.units <= 1.2 * size else 2.0 ** -math.ceil(math.log2(log.units / size))
    if share == 1:
        return log.table, share
    return log.table.filter(in_lot(log, f"{seed}|", share)), share


def in_lot(log: Log, prefix: str, share: float) -> Any:
    """Whether a row's unit is among that share of all, by a hash of a prefix and its name."""
    digest = _md5()(need_ibis().literal(prefix) + log.table.unit)
    return digest.substr(0, 8) < f"{round(share * 2**32):08x}"


def _md5() -> Any:
    ibis = need_ibis()

    @ibis.udf.scalar.builtin(name="md5")  # type: ignore[untyped-decorator]
    def md5(text: str) -> str:  # type: ignore[empty-body]
        """What databases call md5."""

    return md5
