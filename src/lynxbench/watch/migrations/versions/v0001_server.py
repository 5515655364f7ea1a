"""All tables of the first version. They are written out here: a migration does not change when the program does."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_MOMENT = sa.String(40)


def _text(name: str, length: int, *, null: bool = False, key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), nullable=null, primary_key=key)


def _long(name: str, *, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=null)


def _moment(name: str, *, null: bool = False, key: bool = False) -> sa.Column[str]:
    return sa.Column(name, _MOMENT, nullable=null, primary_key=key)


def upgrade() -> None:
    """Create everything."""
    _access()
    _work()
    _words()


def _access() -> None:
    op.create_table("server_properties", _text("name", 40, key=True), _long("value"))
    op.create_table("server_teams", _text("name", 63, key=True), _moment("made_at"))
    op.create_table(
        "server_keys",
        _text("keyid", 64, key=True),
        _text("team", 63),
        _long("card"),
        _moment("registered_at"),
        _text("registered_by", 120),
        _moment("revoked_at", null=True),
        _long("reason", null=True),
    )
    op.create_table(
        "server_users",
        _text("name", 63, key=True),
        _text("team", 63),
        _text("scopes", 60),
        _long("password", null=True),
        _moment("made_at"),
        _moment("disabled_at", null=True),
    )
    op.create_table(
        "server_tokens",
        _text("token_id", 16, key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        _text("user", 63),
        _text("label", 120),
        _text("scopes", 60),
        _moment("made_at"),
        _moment("expires_at", null=True),
        _moment("revoked_at", null=True),
    )
    op.create_table(
        "server_sessions",
        _text("digest", 64, key=True),
        _text("user", 63),
        _text("csrf", 64),
        _moment("made_at"),
        _moment("expires_at"),
    )
    op.create_table(
        "server_audit",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        _moment("at"),
        _text("who", 120),
        _text("action", 60),
        _text("subject", 200),
        _text("outcome", 20),
        _text("remote", 60),
        _long("detail"),
    )


def _work() -> None:
    op.create_table(
        "server_uploads",
        _text("upload_id", 32, key=True),
        _text("team", 63),
        _text("sha256", 64),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        _text("state", 12),
        _moment("made_at"),
        _text("made_by", 120),
        _long("outcome", null=True),
        sa.UniqueConstraint("team", "sha256"),
    )
    op.create_table(
        "server_schedules",
        _text("name", 63, key=True),
        _text("team", 63),
        _text("timetable", 120),
        _text("contract_id", 64),
        _long("contract"),
        _long("agents"),
        _moment("made_at"),
        _text("made_by", 120),
        _moment("paused_at", null=True),
    )
    op.create_table(
        "server_agents",
        _text("name", 63, key=True),
        _text("team", 63),
        _moment("first_seen_at"),
        _moment("last_seen_at"),
        _text("version", 40),
    )
    op.create_table(
        "server_runs",
        _text("run", 32, key=True),
        _text("schedule", 63),
        _text("agent", 63),
        _text("contract_id", 64),
        _moment("due_at"),
        _text("state", 12),
        _moment("claimed_at", null=True),
        _moment("lease_until", null=True),
        _moment("ended_at", null=True),
        _text("result_id", 64, null=True),
        _long("said"),
        sa.UniqueConstraint("schedule", "agent", "due_at"),
    )
    op.create_index("server_runs_state", "server_runs", ["state", "due_at"])
    op.create_index("server_runs_due", "server_runs", ["due_at"])
    op.create_index("server_runs_result", "server_runs", ["result_id"])
    op.create_table(
        "server_baselines",
        _text("contract_id", 64, key=True),
        _text("place", 120, key=True),
        _text("result_id", 64),
        _text("judged_id", 64),
        _moment("at"),
    )


def _words() -> None:
    op.create_table(
        "server_notices",
        _text("notice", 32, key=True),
        _text("contract_id", 64),
        _long("contract_name"),
        _text("place", 120),
        _text("precision", 20),
        _text("baseline_id", 64),
        _text("result_id", 64),
        _text("layer", 20, null=True),
        _long("owner"),
        sa.Column("low", sa.Float),
        sa.Column("estimate", sa.Float),
        sa.Column("high", sa.Float),
        _long("sentence"),
        _moment("opened_at"),
        _moment("closed_at", null=True),
        _text("closed_by", 64, null=True),
        sa.Column("open_key", sa.String(200), unique=True),
    )
    op.create_index("server_notices_contract", "server_notices", ["contract_id", "opened_at"])
    op.create_table(
        "server_outbox",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        _text("notice", 32),
        _text("channel", 10),
        _long("address"),
        _text("state", 10),
        sa.Column("attempts", sa.Integer, nullable=False),
        _moment("next_at"),
        _moment("sent_at", null=True),
        _long("said"),
        sa.UniqueConstraint("notice", "channel", "address"),
    )
    op.create_table(
        "server_contacts",
        _text("owner", 200, key=True),
        _text("channel", 10, key=True),
        _long("address"),
        _text("secret", 64, null=True),
        _moment("made_at"),
    )
    op.create_table(
        "server_claims",
        _text("claim", 32, key=True),
        _moment("at"),
        _text("by", 120),
        _long("text"),
        _long("report"),
    )
    op.create_table(
        "server_likenesses",
        _text("contract_id", 64, key=True),
        _moment("at", key=True),
        _text("by", 120),
        sa.Column("requests", sa.Integer, nullable=False),
        _long("report"),
    )


def downgrade() -> None:
    """Drop everything; the ledger has tables of its own."""
    for name in (
        "likenesses", "claims", "contacts", "outbox", "notices", "baselines", "runs", "agents", "schedules", "uploads",
        "audit", "sessions", "tokens", "users", "keys", "teams", "properties",
    ):  # fmt: skip
        op.drop_table(f"server_{name}")
