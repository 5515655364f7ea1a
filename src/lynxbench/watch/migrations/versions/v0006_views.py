"""Tables as somebody wants to see them again."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody saved a view until now."""
    op.create_table(
        "server_views",
        sa.Column("view", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("owner", sa.String(63), nullable=False),
        sa.Column("shared", sa.String(3), nullable=False),
        sa.Column("place", sa.String(40), nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("made_at", sa.String(40), nullable=False),
    )
    op.create_index("server_views_owner", "server_views", ["owner"])


def downgrade() -> None:
    """An older version has no place for them."""
    op.drop_table("server_views")
