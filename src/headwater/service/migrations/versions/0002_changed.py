"""What changed and what is due, found without looking at every campaign; and sessions of people who signed in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("campaigns", sa.Column("changed", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("campaigns", sa.Column("next_due", sa.Float(53)))
    op.create_index("campaigns_by_change", "campaigns", ["changed"])
    op.create_index("campaigns_by_due", "campaigns", ["next_due"])
    # looked at once, soon: then it is known when the next deadline is
    op.execute(
        "UPDATE campaigns SET next_due = 0 WHERE EXISTS (SELECT 1 FROM decisions"
        " WHERE decisions.campaign = campaigns.id AND decisions.number > campaigns.expired AND decisions.due IS NOT NULL)"
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("key", sa.String(16), sa.ForeignKey("keys.id"), nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("expires", sa.Float(53), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("sessions")
    for index in ("campaigns_by_due", "campaigns_by_change"):
        op.drop_index(index, "campaigns")
    for name in ("next_due", "changed"):
        op.drop_column("campaigns", name)
