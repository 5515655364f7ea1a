"""The server's own tables: who may do what, what is on its way in, what runs when, who was told. Never evidence."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, String, Table, Text, UniqueConstraint

metadata = MetaData()

Number = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts a row by itself only where the column's type is spelled INTEGER."""

MOMENT = String(40)
"""UTC, ISO 8601 with milliseconds: texts in the order of time."""

properties = Table(
    "server_properties",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)

teams = Table(
    "server_teams",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("made_at", MOMENT, nullable=False),
)

keys = Table(
    "server_keys",
    metadata,
    Column("keyid", String(64), primary_key=True),
    Column("team", String(63), nullable=False),
    Column("card", Text, nullable=False),
    Column("registered_at", MOMENT, nullable=False),
    Column("registered_by", String(120), nullable=False),
    Column("revoked_at", MOMENT),
    Column("reason", Text),
)
"""Public keys whose signatures count on this server."""

users = Table(
    "server_users",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("team", String(63), nullable=False),
    Column("scopes", String(60), nullable=False),
    Column("password", Text),
    Column("made_at", MOMENT, nullable=False),
    Column("disabled_at", MOMENT),
)
"""Passwords are scrypt hashes; a user without one has tokens only."""

tokens = Table(
    "server_tokens",
    metadata,
    Column("token_id", String(16), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("user", String(63), nullable=False),
    Column("label", String(120), nullable=False),
    Column("scopes", String(60), nullable=False),
    Column("made_at", MOMENT, nullable=False),
    Column("expires_at", MOMENT),
    Column("revoked_at", MOMENT),
)
"""SHA-256 of the token alone; the token itself is shown once, when it is made."""

sessions = Table(
    "server_sessions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("user", String(63), nullable=False),
    Column("csrf", String(64), nullable=False),
    Column("made_at", MOMENT, nullable=False),
    Column("expires_at", MOMENT, nullable=False),
)

audit = Table(
    "server_audit",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("at", MOMENT, nullable=False),
    Column("who", String(120), nullable=False),
    Column("action", String(60), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("outcome", String(20), nullable=False),
    Column("remote", String(60), nullable=False),
    Column("detail", Text, nullable=False),
)
"""Who did what, from where, and what came of it; appended, never changed."""

uploads = Table(
    "server_uploads",
    metadata,
    Column("upload_id", String(32), primary_key=True),
    Column("team", String(63), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("state", String(12), nullable=False),
    Column("made_at", MOMENT, nullable=False),
    Column("made_by", String(120), nullable=False),
    Column("outcome", Text),
    UniqueConstraint("team", "sha256"),
)
"""A bundle on its way in; how much has arrived is the length of its part file."""

schedules = Table(
    "server_schedules",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("team", String(63), nullable=False),
    Column("timetable", String(120), nullable=False),
    Column("contract_id", String(64), nullable=False),
    Column("contract", Text, nullable=False),
    Column("agents", Text, nullable=False),
    Column("made_at", MOMENT, nullable=False),
    Column("made_by", String(120), nullable=False),
    Column("paused_at", MOMENT),
)

agents = Table(
    "server_agents",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("team", String(63), nullable=False),
    Column("first_seen_at", MOMENT, nullable=False),
    Column("last_seen_at", MOMENT, nullable=False),
    Column("version", String(40), nullable=False),
)

runs = Table(
    "server_runs",
    metadata,
    Column("run", String(32), primary_key=True),
    Column("schedule", String(63), nullable=False),
    Column("agent", String(63), nullable=False),
    Column("contract_id", String(64), nullable=False),
    Column("due_at", MOMENT, nullable=False),
    Column("state", String(12), nullable=False),
    Column("claimed_at", MOMENT),
    Column("lease_until", MOMENT),
    Column("ended_at", MOMENT),
    Column("result_id", String(64)),
    Column("said", Text, nullable=False),
    Column("node", String(48)),
    UniqueConstraint("schedule", "agent", "due_at"),
)
"""One row for each time a schedule was due on an agent, whatever came of it."""
Index("server_runs_state", runs.c.state, runs.c.due_at)
Index("server_runs_due", runs.c.due_at)
Index("server_runs_result", runs.c.result_id)

notices = Table(
    "server_notices",
    metadata,
    Column("notice", String(32), primary_key=True),
    Column("contract_id", String(64), nullable=False),
    Column("contract_name", Text, nullable=False),
    Column("place", String(120), nullable=False),
    Column("precision", String(20), nullable=False),
    Column("baseline_id", String(64), nullable=False),
    Column("result_id", String(64), nullable=False),
    Column("layer", String(20)),
    Column("owner", Text, nullable=False),
    Column("low", Float),
    Column("estimate", Float),
    Column("high", Float),
    Column("sentence", Text, nullable=False),
    Column("opened_at", MOMENT, nullable=False),
    Column("closed_at", MOMENT),
    Column("closed_by", String(64)),
    Column("open_key", String(200), unique=True),
)
"""A regression: opened once, told once, closed when a later result is back. `open_key` is null once it is closed."""
Index("server_notices_contract", notices.c.contract_id, notices.c.opened_at)

outbox = Table(
    "server_outbox",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("notice", String(32), nullable=False),
    Column("channel", String(10), nullable=False),
    Column("address", Text, nullable=False),
    Column("state", String(10), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", MOMENT, nullable=False),
    Column("sent_at", MOMENT),
    Column("said", Text, nullable=False),
    UniqueConstraint("notice", "channel", "address"),
)
"""Messages to be sent, each once."""

contacts = Table(
    "server_contacts",
    metadata,
    Column("owner", String(200), primary_key=True),
    Column("channel", String(10), primary_key=True),
    Column("address", Text, nullable=False),
    Column("secret", String(64)),
    Column("made_at", MOMENT, nullable=False),
)
"""Where the owner of a layer is reached; owner `*` is everybody who has no contact of their own."""

baselines = Table(
    "server_baselines",
    metadata,
    Column("contract_id", String(64), primary_key=True),
    Column("place", String(120), primary_key=True),
    Column("result_id", String(64), nullable=False),
    Column("judged_id", String(64), nullable=False),
    Column("at", MOMENT, nullable=False),
)
"""What the next result of a contract at one place (agent or machine) is held against."""

claims = Table(
    "server_claims",
    metadata,
    Column("claim", String(32), primary_key=True),
    Column("at", MOMENT, nullable=False),
    Column("by", String(120), nullable=False),
    Column("text", Text, nullable=False),
    Column("report", Text, nullable=False),
)

likenesses = Table(
    "server_likenesses",
    metadata,
    Column("contract_id", String(64), primary_key=True),
    Column("at", MOMENT, primary_key=True),
    Column("by", String(120), nullable=False),
    Column("requests", Integer, nullable=False),
    Column("report", Text, nullable=False),
)
"""How far a contract's workload was from a production log, when somebody held one against it."""
