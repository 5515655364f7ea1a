"""The server's own database: opened, brought to this schema, and asked in small transactions."""

import os
import secrets
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lynxbench.errors import BadLedger
from lynxbench.ledger.database import BUSY_TIMEOUT_MS, Database
from lynxbench.ledger.location import Location
from lynxbench.watch.store_tables import SERVER_SCHEMA

STORE_FILE = "server.sqlite"
PRIVATE = 0o600


class Store(Database):
    """An open database with the server's tables in it."""

    def __init__(self, url: str) -> None:
        super().__init__(url, SERVER_SCHEMA)
        try:
            if self.is_sqlite:
                _make_private(Path(str(self.url.database)))
            self.make_ready()
        except BaseException:
            self.close()
            raise

    def forget_deleted(self) -> None:
        """Write an SQLite file anew: what was changed or deleted stays in it until its place is needed."""
        if not self.is_sqlite:
            return
        try:
            with closing(sqlite3.connect(str(self.url.database), timeout=BUSY_TIMEOUT_MS / 1000)) as connection:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise BadLedger(f"{self.name}: {error}; secrets that were kept clear are still in the file") from error


def _make_private(file: Path) -> None:
    """For its owner alone, with what SQLite lays beside it: hashes of passwords, tokens and sessions are in it."""
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE))
        for part in (file, *(file.with_name(f"{file.name}{end}") for end in ("-wal", "-shm"))):
            if part.exists() and part.stat().st_mode & 0o077:
                part.chmod(PRIVATE)
    except OSError as error:
        raise BadLedger(f"{file}: {error.strerror or error}; the server's tables need a file of their own") from error


def store_url(url: str | None, ledger: Location) -> str:
    """Where the tables are: as asked, in the ledger's PostgreSQL, or in a file beside an SQLite ledger.

    A file of its own: whoever is given a copy of the ledger gets no hashes of tokens with it, and a page view never
    waits for an append.
    """
    if url:
        return url
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
