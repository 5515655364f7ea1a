"""Runs without an end in a table of their own: every run is registered, and only few of them are open."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the table and fill it from the entries."""
    op.create_table(
        "ledger_open_runs",
        sa.Column("seq", _NUMBER, sa.ForeignKey("ledger_entries.seq"), primary_key=True, autoincrement=False),
        sa.Column("run_id", sa.String(200), nullable=False),
        sa.Column("contract_id", sa.String(64), nullable=False),
        sa.Column("made_at", sa.String(40), nullable=False),
    )
    op.create_index("ledger_open_runs_run", "ledger_open_runs", ["run_id"])
    op.get_bind().execute(
        sa.text(
            "INSERT INTO ledger_open_runs (seq, run_id, contract_id, made_at) "
            "SELECT seq, run_id, contract_id, made_at FROM ledger_entries AS begun WHERE kind = 'registration' "
            "AND NOT EXISTS (SELECT 1 FROM ledger_entries AS ended "
            "WHERE ended.run_id = begun.run_id AND ended.kind IN ('result', 'abandoned'))"
        )
    )


def downgrade() -> None:
    """Drop what the entries can rebuild."""
    op.drop_table("ledger_open_runs")
