"""The server's own database: opened, brought to this schema, and asked in small transactions."""

import secrets
from datetime import UTC, datetime, timedelta

from lynxbench.ledger.database import Database
from lynxbench.ledger.location import Location
from lynxbench.watch.store_tables import SERVER_SCHEMA

STORE_FILE = "server.sqlite"


class Store(Database):
    """An open database with the server's tables in it."""

    def __init__(self, url: str) -> None:
        super().__init__(url, SERVER_SCHEMA)
        try:
            self.make_ready()
        except BaseException:
            self.close()
            raise


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
