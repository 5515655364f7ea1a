"""SQLite files that somebody else may have made: refused where opening them could wait, or run what they bring."""

import re
import sqlite3
import stat
from pathlib import Path

from lynxbench.errors import BadLedger, EvidenceInvalid

BESIDE = ("", "-wal", "-shm", "-journal")
"""The files that SQLite opens together."""
STEPS, MOST_STEPS = 100_000, 500
"""Looking through a schema takes thousands of steps; one that takes fifty million was made so that it does not end."""
_GUARD = re.compile(
    r"CREATE TRIGGER \w+ (?:BEFORE|AFTER) (?:INSERT|UPDATE|DELETE) ON \w+(?P<when> WHEN [^;]*)?"
    r" BEGIN SELECT RAISE\(ABORT, '[^';]*'\); END"
)
_MORE_THAN_A_LOOK = re.compile(r"\b(?:WITH|JOIN|UNION)\b|\bSELECT\b.*\bSELECT\b", re.IGNORECASE | re.DOTALL)
_ONE_TABLE = re.compile(r"\bSELECT 1 FROM \w+ (?:AS \w+ )?WHERE\b")


def refuse_strange_files(file: Path) -> None:
    """BadLedger where one of a database's files is anything but a plain file: SQLite would wait for a pipe."""
    for suffix in BESIDE:
        beside = file.with_name(f"{file.name}{suffix}")
        try:
            mode = beside.lstat().st_mode
        except OSError:
            continue  # not there yet, or SQLite says itself why it cannot be opened
        if stat.S_ISLNK(mode):
            raise BadLedger(f"{beside}: a symbolic link; name the ledger's own file")
        if not stat.S_ISREG(mode):
            raise BadLedger(f"{beside}: not a plain file; a ledger is an SQLite database in one")


def refuse_strange_schema(connection: sqlite3.Connection, file: str) -> None:
    """EvidenceInvalid where a database holds what no ledger has: views, virtual tables, triggers that do not refuse."""
    left = MOST_STEPS

    def count() -> int:
        nonlocal left
        left -= 1
        return int(left < 0)

    connection.set_progress_handler(count, STEPS)
    try:
        held = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            raise EvidenceInvalid(f"{file}: its schema does not end; not a ledger") from None
        raise
    finally:
        connection.set_progress_handler(None, 0)
    for kind, name, sql in held:
        if _is_strange(kind, str(sql or "")):
            raise EvidenceInvalid(f"{file}: holds the {kind} {name!r}, which no ledger has; it was changed elsewhere")


def _is_strange(kind: object, sql: str) -> bool:
    """A ledger's triggers refuse, after at most one look into one table; any other could do anything, for ever."""
    if kind == "trigger":
        guard = _GUARD.fullmatch(sql.strip())
        return guard is None or not _looks_once(guard["when"] or "")
    return kind not in ("table", "index") or " VIRTUAL " in f" {sql.upper()[:40]} "


def _looks_once(when: str) -> bool:
    if _MORE_THAN_A_LOOK.search(when):
        return False
    return "SELECT" not in when.upper() or _ONE_TABLE.search(when) is not None
