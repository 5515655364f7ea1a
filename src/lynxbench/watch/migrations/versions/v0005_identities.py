"""People whom a provider of the company vouches for."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody came by a provider until now; everybody else comes in as before."""
    op.create_table(
        "server_identities",
        sa.Column("issuer", sa.String(300), primary_key=True),
        sa.Column("subject", sa.String(255), primary_key=True),
        sa.Column("user", sa.String(63), nullable=False, unique=True),
        sa.Column("made_at", sa.String(40), nullable=False),
        sa.Column("seen_at", sa.String(40), nullable=False),
    )


def downgrade() -> None:
    """Accounts of the provider have no password, so an older version lets their tokens alone in: they are disabled."""
    op.execute(
        "UPDATE server_users SET scopes = '', disabled_at = COALESCE(disabled_at, made_at) "
        'WHERE name IN (SELECT "user" FROM server_identities)'
    )
    op.execute('DELETE FROM server_sessions WHERE "user" IN (SELECT "user" FROM server_identities)')
    op.drop_table("server_identities")
