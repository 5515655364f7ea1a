"""Runs without an end in a table of their own: every run is registered, and only few of them are open."""

import sqlalchemy as sa
from alembic import op

from lynxbench.ledger.ledger_tables import open_runs

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table and fill it from the entries, where the index is older than it."""
    if sa.inspect(op.get_bind()).has_table(open_runs.name):
        return
    open_runs.create(op.get_bind())
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
