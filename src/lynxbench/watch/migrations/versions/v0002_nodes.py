"""A run of an agent that works for a fleet has a node."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Runs until now were on the agent's own machine."""
    op.add_column("server_runs", sa.Column("node", sa.String(48), nullable=True))


def downgrade() -> None:
    """Which node it was is forgotten."""
    with op.batch_alter_table("server_runs") as table:
        table.drop_column("node")
