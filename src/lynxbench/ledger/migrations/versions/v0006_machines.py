"""The machines of a ledger are found without looking at its results, of which there are thousands."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index; a ledger that came from before 0002 has it by now, with its table."""
    op.create_index("ledger_results_instance", "ledger_results", ["instance_id", "seq"], if_not_exists=True)


def downgrade() -> None:
    """Drop it."""
    op.drop_index("ledger_results_instance", "ledger_results")
