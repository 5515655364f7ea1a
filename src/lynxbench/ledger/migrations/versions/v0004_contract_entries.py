"""What was agreed and changed on a contract is found without looking at its results, of which there are thousands."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index."""
    op.create_index("ledger_entries_contract", "ledger_entries", ["contract_id", "kind", "seq"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index("ledger_entries_contract", "ledger_entries")
