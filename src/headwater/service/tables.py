"""The tables of the service's database, the same on SQLite and PostgreSQL.

Two logs are the truth: ``decisions`` and ``rewards``. Both are only ever added to. A decision's ``number`` and a reward's
``seq`` count without gaps within a campaign, in the order in which transactions were committed: they are given out under a lock
on the campaign's row. Whatever is in memory, in whichever process, is a function of the first so many rows of the two logs.

Times are seconds since 1970, UTC.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

campaigns = Table(
    "campaigns",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("slug", String(80), nullable=False, unique=True),  # the id that users see
    Column("created", Float(53), nullable=False),
    Column("status", String(16), nullable=False),
    Column("version", Integer, nullable=False),  # grows with every change of what stands in config or status
    Column("problem", Text, nullable=False),  # JSON in the shape of a problem file
    Column("config", Text, nullable=False),  # JSON: everything else that was asked for
    Column("decided", BigInteger, nullable=False),  # rows of decisions
    Column("settled", BigInteger, nullable=False),  # rows of rewards
    Column("expired", BigInteger, nullable=False),  # up to this number every decision is settled, or has no deadline
    Column("refused", BigInteger, nullable=False),  # rows of refusals
    Column("snapshot", Text),  # JSON: the policy's state after so many rows of both logs
    Column("snapshot_decided", BigInteger, nullable=False),
    Column("snapshot_settled", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False, server_default="0"),  # grows with every transaction
    Column("next_due", Float(53)),  # no deadline that was not looked at passes before; null: there is none
    Index("campaigns_by_change", "changed"),
    Index("campaigns_by_due", "next_due"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("campaign", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("arm", Integer, nullable=False),  # what is shown
    Column("choice", Integer, nullable=False),  # what the policy would have shown
    Column("propensity", Float(53)),
    Column("source", String(16), nullable=False),
    Column("version", Integer, nullable=False),
    Column("known", BigInteger, nullable=False),  # rows of rewards the policy knew of
    Column("due", Float(53)),
    Column("unit", String(200)),
    sqlite_with_rowid=False,
)
Index(
    "decisions_by_unit",
    decisions.c.campaign,
    decisions.c.unit,
    sqlite_where=text("unit IS NOT NULL"),
    postgresql_where=text("unit IS NOT NULL"),
)

rewards = Table(
    "rewards",
    metadata,
    Column("campaign", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # of the decision
    Column("seq", BigInteger, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("arm", Integer, nullable=False),
    Column("value", Float(53)),  # null: given up
    Column("kind", String(16), nullable=False),
    Column("learned", Boolean, nullable=False),  # holdouts are not
    UniqueConstraint("campaign", "seq", name="rewards_in_order"),
    sqlite_with_rowid=False,
)

refusals = Table(
    "refusals",
    metadata,
    Column("campaign", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("code", String(40), nullable=False),
    Column("message", Text, nullable=False),
)

requests = Table(  # what was answered to an idempotency key
    "requests",
    metadata,
    Column("campaign", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False),
    Column("key", String(200), primary_key=True),
    Column("asked", String(64), nullable=False),  # a digest of what was asked for
    Column("numbers", Text, nullable=False),  # JSON: the decisions
    Column("at", Float(53), nullable=False),
    sqlite_with_rowid=False,
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("campaign", Integer, ForeignKey("campaigns.id"), nullable=False, index=True),
    Column("at", Float(53), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("message", Text, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("role", String(16), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("revoked", Float(53)),
)

sessions = Table(  # of people who signed in with a key; signing out deletes the row
    "sessions",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("hash", String(64), nullable=False),
    Column("key", String(16), ForeignKey("keys.id"), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("expires", Float(53), nullable=False),
)
