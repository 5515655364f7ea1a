"""The server's own database: opened, brought to this schema, and asked in small transactions."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Executable, inspect, text

from lynxbench.errors import BadLedger
from lynxbench.ledger.database import Database
from lynxbench.ledger.location import Location

SCHEMA = "0002"
"""The newest migration of these tables; they move apart from the ledger's."""
STORE_FILE = "server.sqlite"


class Store:
    """An open database with the server's tables in it."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        try:
            self._make_ready()
        except BaseException:
            self._database.close()
            raise

    @property
    def name(self) -> str:
        """The URL without its password, for people."""
        return self._database.name

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One snapshot."""
        with self._database.reading() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The only writer, until the block ends."""
        with self._database.writing() as connection:
            yield connection

    def rows(self, statement: Executable) -> Sequence[Any]:
        """All rows of a question."""
        with self.reading() as connection:
            return connection.execute(statement).all()

    def row(self, statement: Executable) -> Any | None:
        """The one row of a question, where there is one."""
        with self.reading() as connection:
            return connection.execute(statement).first()

    def change(self, *statements: Executable) -> int:
        """Carry out statements together; how many rows the last one touched."""
        with self.writing() as connection:
            touched = 0
            for statement in statements:
                touched = connection.execute(statement).rowcount
            return touched

    def close(self) -> None:
        """Let go of every connection."""
        self._database.close()

    def schema(self) -> str | None:
        """The migration the tables are at; None where there are none yet."""
        with self.reading() as connection:
            return _schema_in(connection)

    def migrate(self, target: str = "head") -> None:
        """Bring the tables to a migration, up or down."""
        with self.writing() as connection:
            at = _schema_in(connection)
            if target == "head" and at == SCHEMA:
                return  # somebody was quicker
            from alembic import command  # heavy, and only needed when something changes
            from alembic.config import Config

            config = Config()
            config.set_main_option("script_location", "lynxbench.watch:migrations")
            config.set_main_option("path_separator", "os")
            config.attributes["connection"] = connection
            move: Callable[[Config, str], None] = command.upgrade
            if target == "base" or (target != "head" and target <= (at or "")):
                move = command.downgrade
            move(config, target)

    def _make_ready(self) -> None:
        at = self.schema()
        if at is not None and at > SCHEMA:
            raise BadLedger(f"{self.name}: server schema {at} is newer than this lynxbench ({SCHEMA}); update it")
        if at != SCHEMA:
            self.migrate()


def store_url(asked: str | None, ledger: Location) -> str:
    """Where the tables are: as asked, in the ledger's PostgreSQL, or in a file beside an SQLite ledger.

    A file of its own: whoever is given a copy of the ledger gets no hashes of tokens with it, and a page view never
    waits for an append.
    """
    if asked:
        return asked
    if not ledger.database.startswith("sqlite:"):
        return ledger.database
    folder = ledger.database.removeprefix("sqlite:///").rpartition("/")[0]
    return f"sqlite:///{folder}/{STORE_FILE}"


def now_text(moment: datetime | None = None) -> str:
    """A moment as the tables have it."""
    return (moment or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="milliseconds")


def later_text(seconds: float, moment: datetime | None = None) -> str:
    """The moment that many seconds after."""
    return now_text((moment or datetime.now(UTC)) + timedelta(seconds=seconds))


def fresh_id() -> str:
    """A random name for a row; says nothing and cannot be guessed."""
    return secrets.token_hex(16)


def _schema_in(connection: Connection) -> str | None:
    if not inspect(connection).has_table("server_schema"):
        return None
    found = connection.execute(text("SELECT version_num FROM server_schema")).scalar()
    return None if found is None else str(found)
