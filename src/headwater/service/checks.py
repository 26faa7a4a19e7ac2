"""Is what is stored what was written? Three ways to look, by how long they take.

``damage`` asks the database whether its file is whole. ``short`` counts no rows: the numbers that a campaign's row has must be
those of its last rows. ``check_database`` reads both logs from their first row and compares with every count.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

from sqlalchemy import Connection, and_, func, or_, select

from headwater.errors import HeadwaterError
from headwater.service.batch import catch_up, load
from headwater.service.campaign import COUNTERS, HOLDOUT, Counters
from headwater.service.store import Store, reason
from headwater.service.tables import campaigns, decisions, refusals, rewards

MOST = 5
"""Findings that are told of one file."""


def damage(connection: Connection, *, whole: bool = False) -> list[str]:
    """What SQLite finds wrong with its file, ``whole``: also whether indexes have what tables have; PostgreSQL looks itself."""
    if connection.dialect.name != "sqlite":
        return []
    pragma = "integrity_check" if whole else "quick_check"
    found = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA {pragma}({MOST})")]
    return [] if found == ["ok"] else [" ".join(line.split()) for line in found]


def short(connection: Connection) -> list[str]:
    """Campaigns of which the last rows are not those that their counters name. O(campaigns)."""
    logs = ((decisions, "number", "decided"), (rewards, "seq", "settled"), (refusals, "seq", "refused"))
    ends = [
        select(func.coalesce(func.max(table.c[column]), 0)).where(table.c.campaign == campaigns.c.id).scalar_subquery()
        != campaigns.c[counter]
        for table, column, counter in logs
    ]
    query = select(campaigns.c.slug).where(or_(*ends)).order_by(campaigns.c.id).limit(MOST)
    return [f"{slug}: its logs end elsewhere than its counters say" for slug in connection.execute(query).scalars()]


def look(store: Store, *, whole: bool = False) -> list[str]:
    """What is wrong, as far as a look of some seconds a gigabyte finds it."""
    try:
        with store.read(patient=True) as connection:
            return damage(connection, whole=whole) or short(connection)
    except Exception as error:  # noqa: BLE001 - a file that is no database may fail in any way
        return [reason(error)]


def first_look(store: Store) -> Future[list[str]]:
    """``look``, in a thread of its own: at a large file it takes longer than a start may."""
    future: Future[list[str]] = Future()
    threading.Thread(target=lambda: future.set_result(look(store)), name="headwater-first-look", daemon=True).start()
    return future


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
