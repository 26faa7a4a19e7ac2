"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _id(name: str, kind: sa.types.TypeEngine[int]) -> sa.Column[int]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _campaign() -> sa.Column[int]:
    return sa.Column("campaign", sa.Integer, sa.ForeignKey("campaigns.id"), primary_key=True, autoincrement=False)


def upgrade() -> None:
    op.create_table(
        "campaigns",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("slug", sa.String(80), nullable=False, unique=True),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("decided", "settled", "expired", "refused")),
        sa.Column("snapshot", sa.Text),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("snapshot_decided", "snapshot_settled")),
    )
    op.create_table(
        "decisions",
        _campaign(),
        _id("number", sa.BigInteger()),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("arm", sa.Integer, nullable=False),
        sa.Column("choice", sa.Integer, nullable=False),
        sa.Column("propensity", sa.Float(53)),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("known", sa.BigInteger, nullable=False),
        sa.Column("due", sa.Float(53)),
        sa.Column("unit", sa.String(200)),
        sqlite_with_rowid=False,
    )
    named = sa.text("unit IS NOT NULL")
    op.create_index("decisions_by_unit", "decisions", ["campaign", "unit"], sqlite_where=named, postgresql_where=named)
    op.create_table(
        "rewards",
        _campaign(),
        _id("number", sa.BigInteger()),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("arm", sa.Integer, nullable=False),
        sa.Column("value", sa.Float(53)),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("learned", sa.Boolean, nullable=False),
        sa.UniqueConstraint("campaign", "seq", name="rewards_in_order"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "refusals",
        _campaign(),
        _id("seq", sa.BigInteger()),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("code", sa.String(40), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
    )
    op.create_table(
        "requests",
        _campaign(),
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("asked", sa.String(64), nullable=False),
        sa.Column("numbers", sa.Text, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("campaign", sa.Integer, sa.ForeignKey("campaigns.id"), nullable=False, index=True),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("revoked", sa.Float(53)),
    )


def downgrade() -> None:
    for name in ("keys", "events", "requests", "refusals", "rewards", "decisions", "campaigns"):
        op.drop_table(name)
