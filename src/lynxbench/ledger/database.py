"""One database, SQLite or PostgreSQL, behind the same code: opened, locked for writing, brought to this schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from lynxbench.errors import BadLedger

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection

SCHEMA = "0004"
"""The newest migration; a ledger of an older one is brought here when it is opened for writing."""

BUSY_TIMEOUT_MS = 60_000
"""How long a writer waits for the others: an append holds the lock for milliseconds, an import for seconds."""

WAL_PAGES = 4000
"""Pages (16 MB) that gather in the write-ahead log before they are carried over: one written often goes once."""

_ADVISORY_LOCK = 0x6C796E78  # "lynx": one number that every lynxbench writer of a PostgreSQL database takes
_WRITING = "ledger_writing"
_SNAPSHOT = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}


class Database:
    """An open ledger database."""

    def __init__(self, url: str) -> None:
        self.url = _parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._engine = _engine(self.url, self.is_sqlite)
        # Said with BEGIN itself: a statement of its own would be one more way to the server and back for each page's
        # every question.
        self._snapshots = self._engine if self.is_sqlite else self._engine.execution_options(**_SNAPSHOT)

    @property
    def name(self) -> str:
        """The URL without its password, for people."""
        return self.url.render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One snapshot of the ledger."""
        with self._translated(), self._snapshots.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The only writer, until the block ends; committed when it ends well, and then durable."""
        connect = self._engine.connect
        with self._translated(), connect().execution_options(**{_WRITING: True}) as connection, connection.begin():
            if not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
            yield connection

    def schema(self) -> str | None:
        """The migration the database is at; None where there is no ledger yet."""
        with self._translated(), self._engine.connect() as connection:
            if not inspect(connection).has_table("ledger_schema"):
                return None
            found = connection.execute(text("SELECT version_num FROM ledger_schema")).scalar()
            return None if found is None else str(found)

    def migrate(self, target: str = "head") -> None:
        """Bring the schema to a migration, up or down; entries are kept either way."""
        with self.writing() as connection:
            at = self._schema_in(connection)
            if target == "head" and at == SCHEMA:
                return  # somebody was quicker
            from alembic import command  # heavy, and only needed when something changes
            from alembic.config import Config

            config = Config()
            config.set_main_option("script_location", "lynxbench.ledger:migrations")
            config.set_main_option("path_separator", "os")
            config.attributes["connection"] = connection
            if target == "head" or (target != "base" and target > (at or "")):
                command.upgrade(config, target)
            else:
                command.downgrade(config, target)

    def make_ready(self) -> None:
        """Create or upgrade the ledger; refuse one that a newer lynxbench wrote."""
        at = self.schema()
        if at == SCHEMA:
            return
        if at is not None and at > SCHEMA:
            raise BadLedger(f"{self.name}: schema {at} is newer than this lynxbench ({SCHEMA}); update lynxbench")
        self.migrate()

    def close(self) -> None:
        """Let go of every connection."""
        self._engine.dispose()

    def _schema_in(self, connection: Connection) -> str | None:
        if not inspect(connection).has_table("ledger_schema"):
            return None
        found = connection.execute(text("SELECT version_num FROM ledger_schema")).scalar()
        return None if found is None else str(found)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Every database error as one line that says what to do."""
        try:
            yield
        except SQLAlchemyError as error:
            raise BadLedger(f"{self.name}: {_explain(error)}") from error


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise BadLedger(
            f"{url[:80]!r} is not a database URL; give a folder, sqlite:///FILE or postgresql://…"
        ) from None
    backend = parsed.get_backend_name()
    if backend == "postgresql" and parsed.drivername == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if backend not in ("sqlite", "postgresql"):
        raise BadLedger(f"{backend}: not a database that a ledger can live in; give sqlite:///FILE or postgresql://…")
    return parsed


def _engine(url: URL, is_sqlite: bool) -> Engine:
    try:
        if not is_sqlite:
            return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
        if not url.database or url.database == ":memory:":
            raise BadLedger("a ledger needs a file: give sqlite:///FILE or a folder")
        file = Path(url.database)
        if file.is_symlink():
            raise BadLedger(f"{file}: a symbolic link; name the ledger's own file")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadLedger(f"{file.parent}: {error.strerror or error}; give another --ledger") from None
        engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise BadLedger(f"{url.get_backend_name()}: {error}; pip install 'lynxbench[postgres]'") from None
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _record: Any) -> None:
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None  # this file says BEGIN itself: the driver's own comes too late to be exclusive
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")  # a commit is on the disk before it is acknowledged
    cursor.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA trusted_schema = OFF")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    exclusive = connection.get_execution_options().get(_WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if exclusive else "BEGIN")


_CAUSES = (
    ("database or disk is full", "the disk is full; nothing was recorded. Free some space and try again"),
    ("No space left on device", "the disk is full; nothing was recorded. Free some space and try again"),
    (
        "disk I/O error",
        "the disk refused to write (full, or over its quota?); nothing was recorded. Try again after it",
    ),
    ("database is locked", "another writer holds the ledger for more than a minute; try again"),
    ("attempt to write a readonly", "the ledger may not be written by you; ask its owner for write permission"),
    ("readonly database", "the ledger may not be written by you; ask its owner for write permission"),
    ("unable to open database file", "cannot be opened; is the folder there, and may you write in it?"),
    ("file is not a database", "not a ledger: the file is not an SQLite database"),
    ("malformed", "the file is damaged; restore it from a copy and import your run folders again"),
    ("append-only", "refused by the database: the ledger is append-only"),
)


def _explain(error: SQLAlchemyError) -> str:
    said = " ".join(str(getattr(error, "orig", None) or error).split())
    for mark, words in _CAUSES:
        if mark in said:
            return words
    return said[:300]
