"""A bit flipped anywhere in a ledger's file is seen or changes nothing, and ends in one line."""

from __future__ import annotations

import random
import shutil
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import lynxbench_here
from ledgers import decision, every_kind, key_of, sealed, trusting
from lynxbench.errors import LynxbenchError
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.checkpoints import prove_stored, sign_checkpoint
from lynxbench.ledger.ledger_tables import metadata
from lynxbench.ledger.location import Location, open_ledger
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.queries import Wanted, list_results
from lynxbench.ledger.result_standings import standings
from lynxbench.ledger.seen import SEEN_FILE

ALPHA, BRAVO = key_of("alpha"), key_of("bravo")
TRUST = trusting(ALPHA, BRAVO)
FLIPS = 200


def _now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The home of somebody with a small ledger in one file, and what the file says, table by table."""
    home = tmp_path_factory.mktemp("flipped") / "home"
    environment = {"LYNXBENCH_HOME": str(home)}
    key = Keyring(environment=environment).signing_key(_now()).key
    with open_ledger(_location(home), environment, create=True) as opened:
        opened.log.append_all(every_kind(ALPHA, BRAVO))
        opened.log.append_all([sealed(decision(str(number)), ALPHA) for number in range(20)])
        sign_checkpoint(opened.log, key, _now())
        opened.seen.check(opened.log)
    _settle(home / "ledger" / "ledger.sqlite")
    return home, environment


def _location(home: Path) -> Location:
    return Location(f"sqlite:///{home / 'ledger' / 'ledger.sqlite'}", str(home / "ledger" / "blobs"))


def _settle(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _content(file: Path) -> list[object] | None:
    """Everything a reader could be told by the file; None where it cannot be read."""
    connection = sqlite3.connect(file)
    connection.text_factory = bytes
    try:
        names = [*metadata.tables, "ledger_schema"]
        return [sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names]
    except sqlite3.Error:
        return None
    finally:
        connection.close()


def test_flips_at_every_page_are_seen_or_change_nothing(sound: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    """Each bit flipped by itself: the program says so in one line, or everything that can be read is as before."""
    home, _ = sound
    shutil.copytree(home, tmp_path / "home")
    file = tmp_path / "home" / "ledger" / "ledger.sqlite"
    mine = {"LYNXBENCH_HOME": str(tmp_path / "home")}
    data, whole = file.read_bytes(), _content(file)
    assert whole is not None
    pages, chance = len(data) // 4096, random.Random(18)
    places = [(number % pages) * 4096 + chance.randrange(4096) for number in range(FLIPS)]
    unseen, seen = [], list[str]()
    for place in places:
        bent = bytearray(data)
        bent[place] ^= 1 << chance.randrange(8)
        _write(file, bytes(bent))
        changed = _content(file) != whole
        _write(file, bytes(bent))
        try:
            with open_ledger(_location(tmp_path / "home"), mine, unseen=True) as opened:
                standings(opened.log, [one.result_id for one in list_results(opened.log, Wanted())], TRUST)
                recompute(opened.log)
                prove_stored(opened.log, Keyring(environment=mine).trust)
                opened.seen.check(opened.log)
            unseen += [place] if changed else []
        except LynxbenchError as error:  # anything else is a crash, and fails this test
            seen.append(str(error))
    assert unseen == []
    assert len(seen) > FLIPS // 10
    assert not any("\n" in line for line in seen)


def _write(file: Path, data: bytes) -> None:
    for left in ("-wal", "-shm"):
        file.with_name(file.name + left).unlink(missing_ok=True)
    file.write_bytes(data)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_figures SET estimate = estimate * 10",
        "DELETE FROM ledger_subjects",
        "UPDATE ledger_results SET started_s = 'soon'",
        "UPDATE ledger_entries SET logged_at = 7",
        "UPDATE ledger_entries SET envelope = 'text'",
        "UPDATE ledger_times SET digest = 'short'",
        "UPDATE ledger_subjects SET seq = 'x' WHERE seq = 3",
        "UPDATE ledger_properties SET name = 'somebody' WHERE name = 'origin'",
        "UPDATE ledger_schema SET version_num = 'x'",
        "UPDATE ledger_schema SET version_num = '0003'",
        "DROP TABLE ledger_figures",
        "ALTER TABLE ledger_results RENAME COLUMN validity TO valid",
    ],
)
def test_the_commands_end_in_one_line_and_five(
    sound: tuple[Path, dict[str, str]], tmp_path: Path, statement: str
) -> None:
    home, _ = sound
    shutil.copytree(home, tmp_path / "home")
    file = tmp_path / "home" / "ledger" / "ledger.sqlite"
    connection = sqlite3.connect(file)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statement)
    connection.commit()
    connection.close()
    # the copy of a home remembers its ledger by the path it had: this one is seen for the first time
    (tmp_path / "home" / SEEN_FILE).unlink()
    words = ["results", "log", "--verify"]
    done = lynxbench_here(*words, cwd=tmp_path, LYNXBENCH_HOME=str(tmp_path / "home"))
    assert done.code == 5, done.out + done.err
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
