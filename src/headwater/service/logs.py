"""The decision log: read in pages, exported as CSV or Parquet in pieces, and checked against what is stored."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, and_, func, select

from headwater.errors import HeadwaterError
from headwater.service.batch import catch_up, load
from headwater.service.campaign import CHUNK, COUNTERS, HOLDOUT, Campaign, Counters, moment
from headwater.service.tables import campaigns, decisions, refusals, rewards

COLUMNS = (
    "decision", "number", "at", "arm", "choice", "propensity", "source", "version", "known", "unit", "reward", "reward_kind",
    "reward_at",
)  # fmt: skip


def log_rows(connection: Connection, campaign: int, after: int, most: int) -> list[Row[Any]]:
    """Decisions with their rewards, oldest first."""
    paid = and_(rewards.c.campaign == decisions.c.campaign, rewards.c.number == decisions.c.number)
    query = (
        select(decisions, rewards.c.value, rewards.c.kind, rewards.c.at.label("paid_at"))
        .select_from(decisions.outerjoin(rewards, paid))
        .where(decisions.c.campaign == campaign, decisions.c.number.between(after + 1, after + most))
        .order_by(decisions.c.number)
    )
    return list(connection.execute(query).all())


def logged(campaign: Campaign, row: Row[Any]) -> dict[str, Any]:
    """A row of the log as it goes over HTTP."""
    reward = None if row.kind is None else {"value": row.value, "kind": row.kind, "at": moment(row.paid_at)}
    return {**campaign.answer(row._asdict()), "reward": reward}


def table_rows(connection: Connection, campaign: Campaign, decided: int) -> Iterator[list[dict[str, Any]]]:
    """The whole log as flat rows, some thousand at a time."""
    for low in range(0, decided, CHUNK):
        yield [
            {
                "decision": f"{campaign.slug}.{row.number}",
                "number": row.number,
                "at": moment(row.at),
                "arm": campaign.names[row.arm],
                "choice": campaign.names[row.choice],
                "propensity": row.propensity,
                "source": row.source,
                "version": row.version,
                "known": row.known,
                "unit": row.unit,
                "reward": row.value,
                "reward_kind": row.kind,
                "reward_at": None if row.paid_at is None else moment(row.paid_at),
            }
            for row in log_rows(connection, campaign.id, low, min(CHUNK, decided - low))
        ]


def csv_parts(connection: Connection, campaign: Campaign, decided: int) -> Iterator[str]:
    """The log as CSV, piece by piece. A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    for rows in table_rows(connection, campaign, decided):
        for row in rows:
            texts = {name: "'" + row[name] if str(row[name])[:1] in "=+-@" else row[name] for name in ("arm", "choice", "unit")
                     if row[name] is not None}  # fmt: skip
            writer.writerow({**row, **texts})
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def write_parquet(connection: Connection, campaign: Campaign, decided: int, path: Path) -> None:
    """The log as one Parquet file, written in row groups of some thousand."""
    import pyarrow as pa
    from pyarrow import parquet

    whole, real = {"number", "version", "known"}, {"propensity", "reward"}
    kinds = [(name, pa.int64() if name in whole else pa.float64() if name in real else pa.string()) for name in COLUMNS]
    schema = pa.schema(kinds)
    with parquet.ParquetWriter(path, schema) as writer:
        for rows in table_rows(connection, campaign, decided):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


# Checking what is stored.


def check_database(connection: Connection) -> Iterator[tuple[str, list[str]]]:
    """For each campaign what is wrong with it: the logs, read from their first row, must give what is stored. O(rows)."""
    query = select(campaigns.c.id, campaigns.c.slug, *COUNTERS).order_by(campaigns.c.id)
    for row in connection.execute(query).all():
        yield row.slug, _check(connection, row.id, Counters(*row[2:]))


def _check(connection: Connection, id_: int, counters: Counters) -> list[str]:
    found: list[str] = []
    logs = ((decisions, "number", counters.decided), (rewards, "seq", counters.settled), (refusals, "seq", counters.refused))
    for table, column, stored in logs:
        place = table.c[column]
        count, last = connection.execute(select(func.count(), func.max(place)).where(table.c.campaign == id_)).one()
        if not count == (last or 0) == stored:
            found.append(f"{table.name}: {count:,} rows, the last is {last or 0:,}, but {stored:,} are stored")
    paid = and_(rewards.c.campaign == decisions.c.campaign, rewards.c.number == decisions.c.number)
    lost = connection.execute(
        select(func.count())
        .select_from(rewards.outerjoin(decisions, paid))
        .where(rewards.c.campaign == id_, decisions.c.number.is_(None) | (decisions.c.arm != rewards.c.arm))
    ).scalar_one()
    if lost:
        found.append(f"rewards: {lost:,} have no decision, or another arm")
    late = connection.execute(
        select(func.count())
        .select_from(decisions.outerjoin(rewards, paid))
        .where(decisions.c.campaign == id_, decisions.c.number <= counters.expired, decisions.c.due.is_not(None))
        .where(rewards.c.number.is_(None))
    ).scalar_one()
    if late or counters.expired > counters.decided:
        found.append(f"expired: {late:,} decisions up to number {counters.expired:,} still wait")
    if not found:
        try:
            found += _compare(connection, id_, counters)
        except HeadwaterError as error:
            found.append(f"rewards: cannot be counted: {error}")
    return found


def _compare(connection: Connection, id_: int, counters: Counters) -> list[str]:
    """Counts from the snapshot on, and counts from the first row on."""
    quick = load(connection, id_)
    catch_up(connection, quick, counters)
    slow = load(connection, id_)
    slow.policy = slow.fresh_policy()
    slow.decided = slow.settled = 0
    slow.follow(connection, counters)
    mine, theirs = quick.policy.state(), slow.policy.state()
    keys = [key for key in ("counts", "pulls", "total", "sums", "bins", "pending", "successes") if key in theirs]
    found = [f"{key}: what is stored differs from what the log says" for key in keys if mine[key] != theirs[key]]
    waits = (
        connection.execute(select(func.count()).where(decisions.c.campaign == id_, decisions.c.source != HOLDOUT)).scalar_one()
        - connection.execute(select(func.count()).where(rewards.c.campaign == id_, rewards.c.learned)).scalar_one()
    )
    if waits != slow.policy.waiting:
        found.append(f"pending: {waits:,} by the log, {slow.policy.waiting:,} in the policy")
    return found
