"""The log on SQLite and PostgreSQL: appended once, proven, never changed, kept through migrations."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from ledgers import decision, key_of, recorded, registered, sealed
from lynxbench.errors import BadLedger, EvidenceInvalid, NotFound
from lynxbench.ledger.database import Database
from lynxbench.ledger.ledger_tables import LEDGER_SCHEMA, metadata
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.merkle import extends, includes, leaf_hash
from lynxbench.ledger.queries import Wanted, list_results

KEY = key_of("alpha")
WRITERS, EACH = 8, 5


def _open(url: str) -> Ledger:
    return Ledger(url, blobs="somewhere")


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with _open(url) as opened:
        yield opened


def test_entries_come_back_as_they_were_signed(ledger: Ledger) -> None:
    envelopes = [sealed(decision(f"question {number}"), KEY) for number in range(7)]
    assert [ledger.append(one) for one in envelopes] == list(range(7))
    assert [ledger.read(seq).envelope for seq in range(7)] == envelopes
    assert recompute(ledger) == ledger.head()


def test_the_same_entry_again_changes_nothing(ledger: Ledger) -> None:
    one, two = sealed(decision("one"), KEY), sealed(decision("two"), KEY)
    assert ledger.append_all([one, two, one]) == [0, 1, 0]
    head = ledger.head()
    assert ledger.append(one) == 0
    assert ledger.head() == head


def test_a_snapshot_that_is_held_is_one_for_all_questions_of_its_thread(ledger: Ledger) -> None:
    ledger.append(sealed(decision("one"), KEY))
    with ledger.database.held():
        head, reached = ledger.head(), ledger.prove_extends(1)
        ledger.append(sealed(decision("two"), KEY))
        with ledger.database.held():
            assert ledger.head() == head
        assert ledger.prove_extends(1) == reached
        with ThreadPoolExecutor(1) as other:
            assert other.submit(ledger.head).result().size == 2
    assert ledger.head().size == 2


def test_every_entry_is_proven_in_every_later_log(ledger: Ledger) -> None:
    heads = []
    for number in range(9):
        ledger.append(sealed(decision(str(number)), KEY))
        heads.append(ledger.head())
    for head in heads:
        for seq in range(head.size):
            proof = ledger.prove(seq, head.size)
            leaf = leaf_hash(ledger.read(seq).envelope.to_bytes())
            assert includes(leaf, seq, head.size, proof.path, head.root)
        now, path = ledger.prove_extends(head.size)
        assert extends(head.size, head.root, now.size, now.root, path)
    with pytest.raises(NotFound, match="no entry 9"):
        ledger.prove(9)
    with pytest.raises(NotFound, match="holds 9 entries, not 10"):
        ledger.prove(0, 10)


@pytest.mark.parametrize("table", ["ledger_entries", "ledger_nodes", "ledger_checkpoints", "ledger_properties"])
def test_the_database_itself_refuses_to_change_the_record(ledger: Ledger, table: str) -> None:
    ledger.append_all([sealed(decision("one"), KEY), sealed(decision("two"), KEY)])
    if table == "ledger_checkpoints":
        with ledger.database.writing() as connection:
            connection.execute(
                sa.text(
                    "INSERT INTO ledger_checkpoints (tree_size, root, envelope, logged_at) VALUES (0, :x, :x, 'now')"
                ),
                {"x": b"x"},
            )
    first = next(iter(metadata.tables[table].columns)).name
    for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET {first} = {first}"):
        with pytest.raises(BadLedger, match="append-only"), ledger.database.writing() as connection:
            connection.execute(sa.text(statement))
    assert recompute(ledger).size == 2


def test_a_run_has_one_result(ledger: Ledger) -> None:
    ledger.append(sealed(registered("one"), KEY))
    ledger.append(sealed(recorded("one"), KEY))
    other = recorded("one").model_copy(update={"result_id": "f" * 64})
    with pytest.raises(EvidenceInvalid, match="a run has one result"):
        ledger.append(sealed(other, KEY))
    mine, twin = recorded("two"), recorded("two").model_copy(update={"result_id": "e" * 64})
    with pytest.raises(EvidenceInvalid, match="a run has one result"):
        ledger.append_all([sealed(mine, KEY), sealed(twin, KEY)])
    assert ledger.head().size == 2, "all of a batch or none of it"


def test_migrations_go_up_and_down_and_keep_every_entry(url: str) -> None:
    with _open(url) as ledger:
        ledger.append_all([sealed(recorded(str(number)), KEY) for number in range(5)])
        head, listed, origin = ledger.head(), list_results(ledger, Wanted()), ledger.origin
    database = Database(url, LEDGER_SCHEMA)
    for target in ("0001", "base"):
        database.migrate(target)
        with database.reading() as connection:
            assert connection.execute(sa.text("SELECT count(*) FROM ledger_entries")).scalar() == 5
    assert database.schema() is None
    database.close()
    with _open(url) as ledger:
        assert ledger.database.schema() == LEDGER_SCHEMA.newest
        assert (recompute(ledger), ledger.head(), ledger.origin) == (head, head, origin)
        assert list_results(ledger, Wanted()) == listed
        with pytest.raises(BadLedger, match="append-only"), ledger.database.writing() as connection:
            connection.execute(sa.text("DELETE FROM ledger_entries"))


def test_the_migrated_schema_is_the_one_the_code_uses(url: str) -> None:
    with _open(url) as ledger:
        for come_from in (None, "base"):  # as a new ledger is made, and as an old one is brought here
            if come_from is not None:
                ledger.database.migrate(come_from)
                ledger.database.migrate()
            with ledger.database.reading() as connection:
                found = sa.inspect(connection)
                for table in metadata.sorted_tables:
                    columns = {column["name"] for column in found.get_columns(table.name)}
                    assert columns == set(table.columns.keys())
                    indexes = {index["name"] for index in found.get_indexes(table.name)}
                    assert indexes >= {index.name for index in table.indexes}


def test_a_newer_schema_is_refused(url: str) -> None:
    with _open(url) as ledger, ledger.database.writing() as connection:
        connection.execute(sa.text("UPDATE ledger_schema SET version_num = '9999'"))
    with pytest.raises(BadLedger, match="newer than this lynxbench"):
        _open(url)


def test_reading_does_not_make_a_ledger(url: str) -> None:
    with pytest.raises(BadLedger, match="no ledger here yet"):
        Ledger(url, create=False)


def _write(url: str, writer: int, out: multiprocessing.Queue[list[tuple[int, str]]]) -> None:
    key = key_of(f"team-{writer}")
    done = []
    with _open(url) as ledger:
        for number in range(EACH):
            ours = sealed(decision(f"writer {writer} entry {number}"), key)
            shared = sealed(recorded(f"{writer}-{number}"), key)
            done += [(ledger.append(ours), ours.to_bytes().hex()), (ledger.append(shared), shared.to_bytes().hex())]
    out.put(done)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_eight_writers_lose_and_double_nothing(url: str) -> None:
    context = multiprocessing.get_context("fork")  # eight fresh interpreters would spend the test importing
    queue: multiprocessing.Queue[list[tuple[int, str]]] = context.Queue()
    workers = [context.Process(target=_write, args=(url, writer, queue)) for writer in range(WRITERS)]
    for worker in workers:
        worker.start()
    acknowledged = dict(pair for _ in workers for pair in queue.get(timeout=600))
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    assert sorted(acknowledged) == list(range(2 * WRITERS * EACH))
    with _open(url) as ledger:
        assert recompute(ledger) == ledger.head()
        assert ledger.head().size == len(acknowledged)
        assert all(ledger.read(seq).envelope.to_bytes().hex() == data for seq, data in acknowledged.items())
        assert len(list_results(ledger, Wanted(limit=1000))) == WRITERS * EACH


# --- SQLite's own file ------------------------------------------------------------------------------------------------


def _tamper(path: Path, *statements: str) -> None:
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        for trigger in connection.execute(sa.text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).all():
            connection.execute(sa.text(f"DROP TRIGGER {trigger.name}"))
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE ledger_entries SET envelope = replace(envelope, 'e', 'f') WHERE seq = 2", "entry 2 was changed"),
        ("DELETE FROM ledger_entries WHERE seq = 1", "entry 1 is missing"),
        ("UPDATE ledger_entries SET kind = 'contest' WHERE seq = 0", "index of entry 0"),
        ("UPDATE ledger_nodes SET digest = zeroblob(32) WHERE level = 2", "not the tree of the entries"),
        ("DELETE FROM ledger_nodes WHERE level = 1 AND position = 0", "not the tree of the entries"),
    ],
)
def test_a_file_that_was_edited_behind_the_triggers_is_found_out(tmp_path: Path, statement: str, said: str) -> None:
    path = tmp_path / "ledger.sqlite"
    with _open(f"sqlite:///{path}") as ledger:
        ledger.append_all([sealed(decision(str(number)), KEY) for number in range(5)])
    _tamper(path, "PRAGMA foreign_keys = OFF", "DELETE FROM ledger_subjects", statement)
    with _open(f"sqlite:///{path}") as ledger, pytest.raises(EvidenceInvalid, match=said):
        recompute(ledger)


def _append_until_refused(ledger: Ledger, said: str) -> int:
    for number in range(100):
        envelope = sealed(decision("x" * 3000 + str(number)), KEY)
        try:
            ledger.append(envelope)
        except BadLedger as error:
            return number + 1 if said in str(error) else -1
    raise AssertionError("the disk never filled up")


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    with _open(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        ledger.append(sealed(decision("kept"), KEY))
        with ledger.database.reading() as connection:
            pages = connection.execute(sa.text("PRAGMA page_count")).scalar_one()
            connection.execute(sa.text(f"PRAGMA max_page_count = {pages + 1}"))
        kept = _append_until_refused(ledger, "the disk is full; nothing was recorded")
        assert ledger.head().size == kept
        assert recompute(ledger).size == kept
        with ledger.database.reading() as connection:
            connection.execute(sa.text("PRAGMA max_page_count = 1000000"))
        assert ledger.append(sealed(decision("after"), KEY)) == kept


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://x/y", "not a database that a ledger can live in"),
        ("not a url", "not a database URL"),
        ("sqlite://", "a ledger needs a file"),
    ],
)
def test_what_is_no_ledger_is_said_in_one_line(url: str, said: str) -> None:
    with pytest.raises(BadLedger, match=said):
        Ledger(url)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_text("this is a text, and a longer one than a header\n" * 100)
    with pytest.raises(BadLedger, match="not a ledger"):
        Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")


def test_entries_are_appended_together_and_each_is_proven(url: str) -> None:
    with _open(url) as ledger:
        ledger.append(sealed(decision("first"), KEY))
        many = [sealed(decision(f"number {number}"), KEY) for number in range(20)]
        proofs = ledger.prove_all(ledger.append_all([*many, many[3]]))
        assert [proof.seq for proof in proofs] == [*range(1, 21), 4], "what is there already keeps its number"
        assert {proof.head for proof in proofs} == {ledger.head()} == {recompute(ledger)}
        for proof in proofs:
            assert includes(proof.leaf, proof.seq, proof.head.size, proof.path, proof.head.root)
            assert proof == ledger.prove(proof.seq)
        assert ledger.prove_all([]) == []
