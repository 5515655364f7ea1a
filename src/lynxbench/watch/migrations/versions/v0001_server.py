"""The first tables. A new database has all of them at once (`Database.migrate`), as they are now."""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (
    "likenesses", "claims", "contacts", "outbox", "notices", "baselines", "runs", "agents", "schedules", "uploads",
    "audit", "sessions", "tokens", "users", "keys", "teams", "properties",
)  # fmt: skip


def upgrade() -> None:
    """No database is older."""


def downgrade() -> None:
    """Drop everything; the ledger has tables of its own."""
    for name in TABLES:
        op.drop_table(f"server_{name}")
