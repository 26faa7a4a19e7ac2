"""Finding out what other processes changed, at a price that does not grow with the number of campaigns.

Every transaction that writes a campaign's row puts a *stamp* into its column ``changed``, and whoever follows asks for the rows
stamped since it last looked. SQLite has one writer at a time, so that stamps count up. In PostgreSQL transactions end in
another order than they begin in: there the stamp is the transaction's number, and the rows to look at are those from the oldest
transaction on that was still open at the last look. Some of them are seen twice, none is missed.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from headwater.service.tables import campaigns


def stamp(connection: Connection) -> int:
    """The stamp of this writing transaction."""
    if connection.dialect.name == "postgresql":
        return int(connection.execute(select(func.txid_current())).scalar_one())
    last = connection.execute(select(func.max(campaigns.c.changed))).scalar_one()
    return int(last or 0) + 1


def horizon(connection: Connection) -> int:
    """The stamp from which on this transaction does not know everything."""
    if connection.dialect.name == "postgresql":
        return int(connection.execute(select(func.txid_snapshot_xmin(func.txid_current_snapshot()))).scalar_one())
    last = connection.execute(select(func.max(campaigns.c.changed))).scalar_one()
    return int(last or 0) + 1
