"""The server's own tables: who may do what, what is on its way in, what runs when, who was told. Never evidence."""

from pathlib import Path

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, String, Table, Text, UniqueConstraint
from sqlalchemy.schema import SchemaItem

from lynxbench.ledger.database import NUMBER, Schema

metadata = MetaData()
SERVER_SCHEMA = Schema("server", "0006", metadata, Path(__file__).parent / "migrations" / "versions")
"""These tables move apart from the ledger's."""


def _table(name: str, *columns: SchemaItem) -> Table:
    return Table(f"server_{name}", metadata, *columns)


def _key(name: str, length: int) -> Column[str]:
    return Column(name, String(length), primary_key=True)


def _texts(*, null: bool = False, **lengths: int) -> list[Column[str]]:
    return [Column(name, String(length), nullable=null) for name, length in lengths.items()]


def _longs(*names: str, null: bool = False) -> list[Column[str]]:
    return [Column(name, Text, nullable=null) for name in names]


def _moments(*names: str, null: bool = False) -> list[Column[str]]:
    """UTC, ISO 8601 with milliseconds: texts in the order of time."""
    return [Column(name, String(40), nullable=null) for name in names]


properties = _table("properties", _key("name", 40), *_longs("value"))

teams = _table("teams", _key("name", 63), *_moments("made_at"))

keys = _table(
    "keys",
    _key("keyid", 64),
    *_texts(team=63),
    *_longs("card"),
    *_moments("registered_at"),
    *_texts(registered_by=120),
    *_moments("revoked_at", null=True),
    *_longs("reason", null=True),
)
"""Public keys whose signatures count on this server."""

users = _table(
    "users",
    _key("name", 63),
    *_texts(team=63, scopes=60),
    *_longs("password", null=True),
    *_moments("made_at"),
    *_moments("disabled_at", null=True),
)
"""Passwords are scrypt hashes; a user without one has tokens only."""

tokens = _table(
    "tokens",
    _key("token_id", 16),
    Column("digest", String(64), nullable=False, unique=True),
    *_texts(user=63, label=120, scopes=60),
    *_moments("made_at"),
    *_moments("expires_at", "revoked_at", null=True),
)
"""SHA-256 of the token alone; the token itself is shown once, when it is made."""

sessions = _table("sessions", _key("digest", 64), *_texts(user=63, csrf=64), *_moments("made_at", "expires_at"))

identities = _table(
    "identities",
    _key("issuer", 300),
    _key("subject", 255),
    Column("user", String(63), nullable=False, unique=True),
    *_moments("made_at", "seen_at"),
)
"""Users whom a provider vouches for, by its name for them, and when it last did."""

audit = _table(
    "audit",
    Column("number", NUMBER, primary_key=True, autoincrement=True),
    *_moments("at"),
    *_texts(who=120, action=60, subject=200, outcome=20, remote=60),
    *_longs("detail"),
)
"""Who did what, from where, and what came of it; appended, never changed."""

uploads = _table(
    "uploads",
    _key("upload_id", 32),
    *_texts(team=63, sha256=64),
    Column("size_bytes", BigInteger, nullable=False),
    *_texts(state=12),
    *_moments("made_at"),
    *_texts(made_by=120),
    *_longs("outcome", null=True),
    UniqueConstraint("team", "sha256"),
)
"""A bundle on its way in; how much has arrived is the length of its part file."""

schedules = _table(
    "schedules",
    _key("name", 63),
    *_texts(team=63, timetable=120, contract_id=64),
    *_longs("contract", "agents"),
    *_moments("made_at"),
    *_texts(made_by=120),
    *_moments("paused_at", null=True),
)

agents = _table(
    "agents",
    _key("name", 63),
    *_texts(team=63),
    *_moments("first_seen_at", "last_seen_at"),
    *_texts(version=40),
)

runs = _table(
    "runs",
    _key("run", 32),
    *_texts(schedule=63, agent=63, contract_id=64),
    *_moments("due_at"),
    *_texts(state=12),
    *_moments("claimed_at", "lease_until", "ended_at", null=True),
    *_texts(null=True, result_id=64),
    *_longs("said"),
    *_texts(null=True, node=48),
    *_texts(null=True, confirms=64),
    UniqueConstraint("schedule", "agent", "due_at"),
)
"""One row for each time a schedule was due on an agent, whatever came of it; `confirms` is the result that it measures
again because a loss is suspected."""
Index("server_runs_state", runs.c.state, runs.c.due_at)
Index("server_runs_due", runs.c.due_at)
Index("server_runs_result", runs.c.result_id)

notices = _table(
    "notices",
    _key("notice", 32),
    *_texts(contract_id=64),
    *_longs("contract_name"),
    *_texts(place=120, precision=20, baseline_id=64, result_id=64),
    *_texts(null=True, layer=20),
    *_longs("owner"),
    Column("low", Float),
    Column("estimate", Float),
    Column("high", Float),
    *_longs("sentence"),
    *_moments("opened_at"),
    *_moments("closed_at", null=True),
    *_texts(null=True, closed_by=64),
    Column("open_key", String(200), unique=True),
    *_moments("since", null=True),
    *_texts(null=True, confirmed_by=64),
)
"""A regression: opened once, told once, closed when later sessions are back, when somebody acknowledges it or accepts
the new level. `open_key` is null once it may open anew: an acknowledged one keeps it until it has recovered."""
Index("server_notices_contract", notices.c.contract_id, notices.c.opened_at)

outbox = _table(
    "outbox",
    Column("number", NUMBER, primary_key=True, autoincrement=True),
    *_texts(notice=32, channel=10),
    *_longs("address"),
    *_texts(state=10),
    Column("attempts", Integer, nullable=False),
    *_moments("next_at"),
    *_moments("sent_at", null=True),
    *_longs("said"),
    UniqueConstraint("notice", "channel", "address"),
)
"""Messages to be sent, each once."""

contacts = _table(
    "contacts",
    _key("owner", 200),
    _key("channel", 10),
    *_longs("address"),
    *_longs("secret", null=True),
    *_moments("made_at"),
)
"""Where the owner of a layer is reached; owner `*` is everybody who has no contact of their own."""

baselines = _table(
    "baselines",
    _key("contract_id", 64),
    _key("place", 120),
    *_texts(result_id=64, judged_id=64),
    *_moments("at"),
)
"""What the next result of a contract at one place (agent or machine) is held against."""

watched = _table(
    "watched",
    _key("result_id", 64),
    _key("precision", 20),
    *_texts(contract_id=64, place=120, executor_id=64),
    *_moments("started_at"),
    Column("value", Float, nullable=False),
    Column("restarts", Integer, nullable=False),
    Column("scatter", Float, nullable=False),
)
"""Results that count at a place, each with its leading figure: sessions are made of them."""
Index("server_watched_place", watched.c.contract_id, watched.c.place)

levels = _table(
    "levels",
    Column("number", NUMBER, primary_key=True, autoincrement=True),
    *_texts(contract_id=64, place=120, precision=20, kind=12),
    *_moments("since", null=True),
    *_texts(null=True, result_id=64),
    *_texts(by=120),
    *_moments("at"),
)
"""Where a new level of a contract at a place begins: accepted by somebody, gained, or carried over from an older
version, which knew one result (`result_id`) instead of a moment. An empty precision means all of them."""
Index("server_levels_place", levels.c.contract_id, levels.c.place)

views = _table(
    "views",
    _key("view", 32),
    *_texts(name=80, owner=63, shared=3, place=40),
    *_longs("query"),
    *_moments("made_at"),
)
"""A table as somebody wants to see it again: narrowed, sorted, with what is ticked. `shared` is `yes` or `no`."""
Index("server_views_owner", views.c.owner)

claims = _table("claims", _key("claim", 32), *_moments("at"), *_texts(by=120), *_longs("text", "report"))

likenesses = _table(
    "likenesses",
    _key("contract_id", 64),
    _key("at", 40),
    *_texts(by=120),
    Column("requests", Integer, nullable=False),
    *_longs("report"),
)
"""How far a contract's workload was from a production log, when somebody held one against it."""

recomputations = _table(
    "recomputations",
    _key("result_id", 64),
    *_texts(contract_id=64, state=12),
    *_longs("said"),
    *_moments("at"),
    *_texts(program=40),
)
"""What the server itself made of each result's samples; its own word, beside what teams said in the log."""
Index("server_recomputations_contract", recomputations.c.contract_id, recomputations.c.state)
