"""What a file says its tables are is bound; that is done whenever a migration ended (`schema_text`)."""

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No table changes."""


def downgrade() -> None:
    """No table changes."""
