"""What a SQLite file says its tables are, bound to what it said when they were made.

A changed letter in the text of a table may change nothing that is read today, and what is accepted tomorrow. The text
depends on the version that wrote it, so it is held against itself: its digest is kept among the ledger's properties.
"""

import hashlib

import sqlalchemy as sa

from lynxbench.errors import EvidenceInvalid

DIGEST = "schema:"
"""How the names of such properties begin; the digest follows, and is their value too."""
_CHARACTERS = 32
_TEXT = sa.text(
    "SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(tbl_name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master "
    "WHERE tbl_name LIKE 'ledger!_%' ESCAPE '!' ORDER BY 1, 2"
)
_KEPT = sa.text(f"SELECT name, value FROM ledger_properties WHERE name LIKE '{DIGEST}%'")
_KEEP = sa.text("INSERT INTO ledger_properties (name, value) VALUES (:name, :value)")


def keep_schema_digest(connection: sa.Connection) -> None:
    """Bind the tables as they are now, once they were made or migrated."""
    if connection.dialect.name != "sqlite":
        return
    digest = _digest(connection)
    if (DIGEST + digest, digest) not in _kept(connection):
        connection.execute(_KEEP, {"name": DIGEST + digest, "value": digest})


def refuse_changed_schema(connection: sa.Connection, name: str) -> None:
    """EvidenceInvalid where the file says something else of its tables than when they were made."""
    kept = _kept(connection)
    if any(key != DIGEST + value for key, value in kept) or _digest(connection) not in {value for _, value in kept}:
        raise EvidenceInvalid(f"{name}: the text of its tables was changed since they were made; restore a copy")


def _kept(connection: sa.Connection) -> set[tuple[str, str]]:
    return {(str(row.name), str(row.value)) for row in connection.execute(_KEPT)}


def _digest(connection: sa.Connection) -> str:
    rows = [tuple(row) for row in connection.execute(_TEXT)]
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:_CHARACTERS]
