"""What the server made of each result's samples itself; and room for webhooks' secrets that are sealed."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No result was recomputed until now; secrets are sealed when the server starts, for it has the key."""
    op.create_table(
        "server_recomputations",
        sa.Column("result_id", sa.String(64), primary_key=True),
        sa.Column("contract_id", sa.String(64), nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("said", sa.Text, nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("program", sa.String(40), nullable=False),
    )
    op.create_index("server_recomputations_contract", "server_recomputations", ["contract_id", "state"])
    with op.batch_alter_table("server_contacts") as table:
        table.alter_column("secret", type_=sa.Text, existing_type=sa.String(64), existing_nullable=True)


def downgrade() -> None:
    """The outcomes can be made again; a sealed secret says nothing to an older version, and is forgotten."""
    op.drop_table("server_recomputations")
    op.execute("UPDATE server_contacts SET secret = NULL WHERE secret LIKE 'sealed:%'")
    with op.batch_alter_table("server_contacts") as table:
        table.alter_column("secret", type_=sa.String(64), existing_type=sa.Text, existing_nullable=True)
