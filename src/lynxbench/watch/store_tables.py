"""The server's own tables: who may do what, what is on its way in, what runs when, who was told. Never evidence."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, String, Table, Text, UniqueConstraint
from sqlalchemy.schema import SchemaItem

from lynxbench.ledger.database import NUMBER, Schema

metadata = MetaData()
SERVER_SCHEMA = Schema("server", "0002", metadata, Path(__file__).parent / "migrations" / "versions")
"""These tables move apart from the ledger's."""


def _table(name: str, *columns: SchemaItem) -> Table:
    return Table(f"server_{name}", metadata, *columns)


def _key(name: str, length: int) -> Column[str]:
    return Column(name, String(length), primary_key=True)


def _text(name: str, length: int, *, null: bool = False) -> Column[str]:
    return Column(name, String(length), nullable=null)


def _long(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null)


def _moment(name: str, *, null: bool = False, key: bool = False) -> Column[str]:
    """UTC, ISO 8601 with milliseconds: texts in the order of time."""
    return Column(name, String(40), nullable=null, primary_key=key)


properties = _table("properties", _key("name", 40), _long("value"))

teams = _table("teams", _key("name", 63), _moment("made_at"))

keys = _table(
    "keys",
    _key("keyid", 64),
    _text("team", 63),
    _long("card"),
    _moment("registered_at"),
    _text("registered_by", 120),
    _moment("revoked_at", null=True),
    _long("reason", null=True),
)
"""Public keys whose signatures count on this server."""

users = _table(
    "users",
    _key("name", 63),
    _text("team", 63),
    _text("scopes", 60),
    _long("password", null=True),
    _moment("made_at"),
    _moment("disabled_at", null=True),
)
"""Passwords are scrypt hashes; a user without one has tokens only."""

tokens = _table(
    "tokens",
    _key("token_id", 16),
    Column("digest", String(64), nullable=False, unique=True),
    _text("user", 63),
    _text("label", 120),
    _text("scopes", 60),
    _moment("made_at"),
    _moment("expires_at", null=True),
    _moment("revoked_at", null=True),
)
"""SHA-256 of the token alone; the token itself is shown once, when it is made."""

sessions = _table(
    "sessions",
    _key("digest", 64),
    _text("user", 63),
    _text("csrf", 64),
    _moment("made_at"),
    _moment("expires_at"),
)

audit = _table(
    "audit",
    Column("number", NUMBER, primary_key=True, autoincrement=True),
    _moment("at"),
    _text("who", 120),
    _text("action", 60),
    _text("subject", 200),
    _text("outcome", 20),
    _text("remote", 60),
    _long("detail"),
)
"""Who did what, from where, and what came of it; appended, never changed."""

uploads = _table(
    "uploads",
    _key("upload_id", 32),
    _text("team", 63),
    _text("sha256", 64),
    Column("size_bytes", BigInteger, nullable=False),
    _text("state", 12),
    _moment("made_at"),
    _text("made_by", 120),
    _long("outcome", null=True),
    UniqueConstraint("team", "sha256"),
)
"""A bundle on its way in; how much has arrived is the length of its part file."""

schedules = _table(
    "schedules",
    _key("name", 63),
    _text("team", 63),
    _text("timetable", 120),
    _text("contract_id", 64),
    _long("contract"),
    _long("agents"),
    _moment("made_at"),
    _text("made_by", 120),
    _moment("paused_at", null=True),
)

agents = _table(
    "agents",
    _key("name", 63),
    _text("team", 63),
    _moment("first_seen_at"),
    _moment("last_seen_at"),
    _text("version", 40),
)

runs = _table(
    "runs",
    _key("run", 32),
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
    _text("node", 48, null=True),
    UniqueConstraint("schedule", "agent", "due_at"),
)
"""One row for each time a schedule was due on an agent, whatever came of it."""
Index("server_runs_state", runs.c.state, runs.c.due_at)
Index("server_runs_due", runs.c.due_at)
Index("server_runs_result", runs.c.result_id)

notices = _table(
    "notices",
    _key("notice", 32),
    _text("contract_id", 64),
    _long("contract_name"),
    _text("place", 120),
    _text("precision", 20),
    _text("baseline_id", 64),
    _text("result_id", 64),
    _text("layer", 20, null=True),
    _long("owner"),
    Column("low", Float),
    Column("estimate", Float),
    Column("high", Float),
    _long("sentence"),
    _moment("opened_at"),
    _moment("closed_at", null=True),
    _text("closed_by", 64, null=True),
    Column("open_key", String(200), unique=True),
)
"""A regression: opened once, told once, closed when a later result is back. `open_key` is null once it is closed."""
Index("server_notices_contract", notices.c.contract_id, notices.c.opened_at)

outbox = _table(
    "outbox",
    Column("number", NUMBER, primary_key=True, autoincrement=True),
    _text("notice", 32),
    _text("channel", 10),
    _long("address"),
    _text("state", 10),
    Column("attempts", Integer, nullable=False),
    _moment("next_at"),
    _moment("sent_at", null=True),
    _long("said"),
    UniqueConstraint("notice", "channel", "address"),
)
"""Messages to be sent, each once."""

contacts = _table(
    "contacts",
    _key("owner", 200),
    _key("channel", 10),
    _long("address"),
    _text("secret", 64, null=True),
    _moment("made_at"),
)
"""Where the owner of a layer is reached; owner `*` is everybody who has no contact of their own."""

baselines = _table(
    "baselines",
    _key("contract_id", 64),
    _key("place", 120),
    _text("result_id", 64),
    _text("judged_id", 64),
    _moment("at"),
)
"""What the next result of a contract at one place (agent or machine) is held against."""

claims = _table("claims", _key("claim", 32), _moment("at"), _text("by", 120), _long("text"), _long("report"))

likenesses = _table(
    "likenesses",
    _key("contract_id", 64),
    _moment("at", key=True),
    _text("by", 120),
    Column("requests", Integer, nullable=False),
    _long("report"),
)
"""How far a contract's workload was from a production log, when somebody held one against it."""
