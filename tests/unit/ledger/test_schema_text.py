"""What a SQLite file says its tables are is bound, letter by letter; older ledgers are bound when they are opened."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledgers import key_of, recorded, registered, sealed
from lynxbench.errors import EvidenceInvalid
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_audit import recompute

ALPHA = key_of("alpha")


def _ledger(file: Path) -> Ledger:
    return Ledger(f"sqlite:///{file}", blobs="somewhere")


def _rewritten(file: Path, before: str, after: str) -> None:
    """The text of tables edited as a flipped bit, or an editor of files, would."""
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA writable_schema = ON")
        changed = database.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE instr(sql, ?) > 0", (before, after, before)
        )
        assert changed.rowcount
        database.commit()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "ledger.sqlite"
    with _ledger(file) as ledger:
        ledger.append_all([sealed(registered("one"), ALPHA), sealed(recorded("one"), ALPHA)])
        assert recompute(ledger).size == 2
    return file


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("run_id VARCHAR(200)", "run_id VARCHAR(201)"),
        ("ledger_schema_pkc", "ledger_schema_qkc"),
        ("\tseq INTEGER", "\rseq INTEGER"),
        ("REFERENCES ledger_entries (seq)", "REFERENCES ledger_entries(seq)"),
        ("validity VARCHAR", "validity varchar"),
    ],
)
def test_a_letter_changed_in_the_text_of_a_table_is_noticed(file: Path, before: str, after: str) -> None:
    _rewritten(file, before, after)
    with _ledger(file) as ledger, pytest.raises(EvidenceInvalid, match="the text of its tables was changed"):
        recompute(ledger)


def test_a_table_that_came_later_is_noticed(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE INDEX ledger_results_mine ON ledger_results (run_id)")
        database.commit()
    with _ledger(file) as ledger, pytest.raises(EvidenceInvalid, match="the text of its tables was changed"):
        recompute(ledger)


@pytest.mark.parametrize("column", ["name", "value"])
def test_what_is_kept_of_the_text_cannot_be_changed_either(file: Path, column: str) -> None:
    with closing(sqlite3.connect(file)) as database:
        guard = "FROM sqlite_master WHERE name = 'ledger_properties_no_update'"
        ((text,),) = database.execute(f"SELECT sql {guard}").fetchall()
        database.execute("DROP TRIGGER ledger_properties_no_update")
        database.execute(f"UPDATE ledger_properties SET {column} = {column} || 'x' WHERE name LIKE 'schema:%'")
        database.execute(text)
        database.commit()
    with _ledger(file) as ledger, pytest.raises(EvidenceInvalid, match="the text of its tables was changed"):
        recompute(ledger)


@pytest.mark.parametrize("version", ["0002", "0004", "0006"])
def test_an_older_ledger_is_bound_when_it_is_opened(file: Path, version: str) -> None:
    """Migrated tables have other text than those made at once: each is held against itself."""
    with _ledger(file) as ledger:
        head = ledger.head()
        ledger.database.migrate(version)
    for _ in range(2):
        with _ledger(file) as ledger:
            assert recompute(ledger) == head
            assert ledger.origin.startswith("lynxbench-ledger-")
    _rewritten(file, "run_id VARCHAR(200)", "run_id VARCHAR(201)")
    with _ledger(file) as ledger, pytest.raises(EvidenceInvalid):
        recompute(ledger)


def test_what_others_keep_in_the_same_file_is_theirs(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE notes (words TEXT)")
        database.execute("ANALYZE notes")
        database.commit()
    with _ledger(file) as ledger:
        assert recompute(ledger).size == 2
