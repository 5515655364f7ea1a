"""Databases that somebody made so that opening them never ends, or runs what they bring: refused at once."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledgers import decision, key_of, sealed
from lynxbench.errors import BadLedger, EvidenceInvalid
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_audit import recompute

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT '0004' UNION ALL SELECT x FROM n) SELECT x AS version_num FROM n ORDER BY x"
REFUSE = "SELECT RAISE(ABORT, 'x');"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A real ledger with one entry."""
    path = tmp_path / "ledger.sqlite"
    with Ledger(f"sqlite:///{path}") as ledger:
        ledger.append(sealed(decision("one"), key_of("alpha")))
    return path


def refusal(file: Path) -> str:
    with pytest.raises((BadLedger, EvidenceInvalid)) as refused:
        Ledger(f"sqlite:///{file}", create=False).close()
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_file_that_is_none_is_refused(file: Path, suffix: str, kind: str) -> None:
    strange = file.with_name(f"{file.name}{suffix}")
    strange.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(strange)
    elif kind == "device":
        strange.symlink_to("/dev/zero")
    else:
        strange.mkdir()
    assert str(strange) in refusal(file)
    shutil.rmtree(strange) if kind == "folder" else strange.unlink()


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW ledger_schema AS {ENDLESS}",
        f"CREATE VIEW anything AS {ENDLESS}",
        "CREATE VIRTUAL TABLE words USING fts5(text)",
        "CREATE TRIGGER quiet BEFORE INSERT ON ledger_entries BEGIN SELECT RAISE(IGNORE); END",
        f"CREATE TRIGGER slow BEFORE INSERT ON ledger_entries BEGIN {ENDLESS}; END",
        f"CREATE TRIGGER slow BEFORE INSERT ON ledger_entries WHEN EXISTS ({ENDLESS}) BEGIN {REFUSE} END",
        f"CREATE TRIGGER more AFTER INSERT ON ledger_entries BEGIN {REFUSE} DELETE FROM ledger_nodes; END",
        "CREATE TRIGGER thief AFTER INSERT ON ledger_entries BEGIN DELETE FROM ledger_subjects; END",
    ],
)
def test_a_schema_that_no_ledger_has_is_refused(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as database:
        if "VIEW ledger_schema" in statement:
            database.execute("DROP TABLE ledger_schema")
        try:
            database.execute(statement)
        except sqlite3.OperationalError as error:
            pytest.skip(str(error))
        database.commit()
    assert "which no ledger has" in refusal(file)


def test_a_database_that_is_all_view_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "crafted.sqlite"
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"CREATE VIEW ledger_schema AS {ENDLESS}")
        database.commit()
    assert "which no ledger has" in refusal(file)


def test_a_ledger_of_ours_is_opened_again(file: Path) -> None:
    with Ledger(f"sqlite:///{file}", create=False) as ledger:
        assert recompute(ledger).size == 1


@pytest.mark.parametrize(
    "when", ["", " WHEN NOT (EXISTS (SELECT 1 FROM ledger_entries AS ended WHERE ended.run_id = OLD.run_id))"]
)
def test_a_guard_that_looks_into_one_table_is_one_of_ours(file: Path, when: str) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute(
            f"CREATE TRIGGER guard BEFORE DELETE ON ledger_open_runs{when} BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        database.commit()
    with Ledger(f"sqlite:///{file}", create=False) as ledger:
        assert ledger.head().size == 1
        with pytest.raises(EvidenceInvalid, match="the text of its tables was changed"):
            recompute(ledger)
