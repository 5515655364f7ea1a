"""A ledger edited behind its guards is found out, table by table and row by row, and never crashes a reader."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from ledgers import decision, every_kind, key_of, recorded, registered, sealed, sha, trusting
from lynxbench.errors import BadLedger, EvidenceInvalid
from lynxbench.ledger.checkpoints import prove_stored, sign_checkpoint
from lynxbench.ledger.ledger_tables import LEDGER_SCHEMA, metadata
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_audit import logged_backwards, recompute
from lynxbench.ledger.merkle import NO_TIME, chain_time
from lynxbench.ledger.queries import Wanted, history, list_results, open_runs
from lynxbench.ledger.result_standings import standings
from lynxbench.ledger.seen import Seen
from lynxbench.model.entries import ResultContested, ResultRetracted

ALPHA, BRAVO = key_of("alpha"), key_of("bravo")
TRUST = trusting(ALPHA, BRAVO)
RESULT = sha("result one")


def _now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger(url, blobs="somewhere") as opened:
        opened.append_all(every_kind(ALPHA, BRAVO))
        yield opened


def _without_guards(ledger: Ledger, *statements: str) -> None:
    """As whoever owns the database would."""
    with ledger.database.writing() as connection:
        if ledger.database.is_sqlite:
            guards = connection.execute(sa.text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")).all()
            for name, _ in guards:
                connection.execute(sa.text(f"DROP TRIGGER {name}"))
        else:
            for table in metadata.tables:
                connection.execute(sa.text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
        for statement in statements:
            connection.execute(sa.text(statement))
        if ledger.database.is_sqlite:
            for _, guard in guards:
                connection.execute(sa.text(guard))
        else:
            for table in metadata.tables:
                connection.execute(sa.text(f"ALTER TABLE {table} ENABLE TRIGGER USER"))


def test_a_clock_that_was_set_back_between_entries_is_told(ledger: Ledger) -> None:
    """The tree holds, and so do the times: they are what the clock said when it was wrong."""
    assert logged_backwards(ledger) == ()
    size, now = ledger.head().size, _now()
    for minutes in (0, -60, -60, 0):
        moment = (now + timedelta(minutes=minutes)).isoformat(timespec="milliseconds")
        ledger._now = lambda _, moment=moment: moment  # type: ignore[method-assign]
        ledger.append(sealed(decision(f"at {minutes} {ledger.head().size}"), ALPHA))
    assert recompute(ledger).size == size + 4
    (told,) = logged_backwards(ledger)
    assert told == f"entry {size + 1} was logged 3600 s before entry {size}: the clock was set back"


def test_a_ledger_in_order_holds(ledger: Ledger) -> None:
    assert recompute(ledger) == ledger.head()
    ledger.append_all([sealed(decision(str(number)), ALPHA) for number in range(70)])
    assert recompute(ledger) == ledger.head()


# --- the database itself refuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [*LEDGER_SCHEMA.guarded, *LEDGER_SCHEMA.released])
def test_no_row_of_record_or_index_is_changed_or_deleted(ledger: Ledger, table: str) -> None:
    sign_checkpoint(ledger, ALPHA, _now())
    first = next(iter(metadata.tables[table].columns)).name
    for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET {first} = {first}"):
        with pytest.raises(BadLedger, match="append-only"), ledger.database.writing() as connection:
            connection.execute(sa.text(statement))
    if not ledger.database.is_sqlite:
        with pytest.raises(BadLedger, match="append-only"), ledger.database.writing() as connection:
            connection.execute(sa.text(f"TRUNCATE {table} CASCADE"))
    assert recompute(ledger).size == len(every_kind(ALPHA, BRAVO))


def test_every_table_is_guarded() -> None:
    assert {*LEDGER_SCHEMA.guarded, *LEDGER_SCHEMA.released} == set(metadata.tables)


def test_an_open_run_is_closed_by_its_end_alone(ledger: Ledger) -> None:
    assert [run.run_id for run in open_runs(ledger)] == ["run-killed"]
    with pytest.raises(BadLedger, match="append-only"), ledger.database.writing() as connection:
        connection.execute(sa.text("DELETE FROM ledger_open_runs WHERE run_id = 'run-killed'"))
    ledger.append(sealed(recorded("killed"), ALPHA))
    assert open_runs(ledger) == []
    assert recompute(ledger) == ledger.head()


# --- behind the guards --------------------------------------------------------------------------------------------

EDITS = {
    "DELETE FROM ledger_subjects WHERE seq = 5": "ledger_subjects of entry 5: a row is missing",
    "DELETE FROM ledger_subjects": "ledger_subjects of entry 0: a row is missing",
    "UPDATE ledger_subjects SET id = 'ab' WHERE seq = 6 AND what = 'run'": "ledger_subjects of entry 6: id is ab",
    "UPDATE ledger_figures SET estimate = estimate * 10 WHERE seq = 6": "ledger_figures of entry 6: estimate is 500.0",
    "UPDATE ledger_figures SET run_means = '[1.0]' WHERE precision = 'int8'": "ledger_figures of entry 1: run_means",
    "UPDATE ledger_figures SET high = NULL WHERE seq = 6": "ledger_figures of entry 6: high is None",
    "DELETE FROM ledger_figures WHERE precision = 'int8'": "ledger_figures of entry 1: a row is missing",
    "UPDATE ledger_results SET validity = 'void' WHERE seq = 1": "ledger_results of entry 1: validity is void",
    "UPDATE ledger_results SET seq = 7 WHERE seq = 6": "ledger_results of entry 6: a row is missing",
    "DELETE FROM ledger_results WHERE seq = 6": "ledger_results of entry 6: a row is missing",
    "DELETE FROM ledger_open_runs": "ledger_open_runs of entry 2: a row is missing",
    "UPDATE ledger_open_runs SET contract_id = 'ab'": "ledger_open_runs of entry 2: contract_id is ab",
    "INSERT INTO ledger_open_runs VALUES (3, 'run-stopped', 'ab', 'now')": "open_runs of entry 3: a row is there",
    "INSERT INTO ledger_subjects VALUES ('ab', 7, 'result')": "ledger_subjects of entry 7: a row is there",
    "UPDATE ledger_entries SET logged_at = '2020-01-01T00:00:00+00:00' WHERE seq = 5": "ledger_times of entry 5",
    "UPDATE ledger_entries SET result_id = NULL WHERE seq = 5": "the index of entry 5",
    "UPDATE ledger_entries SET signers = 'ab' WHERE seq = 5": "the index of entry 5",
    "DELETE FROM ledger_times WHERE seq = 7": "ledger_times of entry 7: a row is missing",
    "UPDATE ledger_nodes SET position = 9 WHERE level = 1 AND position = 0": "not the tree of the entries",
}


@pytest.mark.parametrize(("statement", "said"), EDITS.items(), ids=EDITS.keys())
def test_verify_says_which_table_and_row_differ(ledger: Ledger, statement: str, said: str) -> None:
    _without_guards(ledger, statement)
    with pytest.raises(EvidenceInvalid) as refused:
        recompute(ledger)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_digest_of_the_tree_is_compared(ledger: Ledger) -> None:
    """Also those that no root or frontier of today is made from."""
    swap = "UPDATE ledger_nodes SET digest = (SELECT digest FROM ledger_nodes WHERE level = 1 AND position = 1) "
    _without_guards(ledger, swap + "WHERE level = 1 AND position = 0")
    with pytest.raises(EvidenceInvalid, match=r"not the tree of the entries \(level 1\)"):
        recompute(ledger)


def test_guards_that_were_taken_away_or_changed_are_noticed(ledger: Ledger) -> None:
    taken = (
        "DROP TRIGGER ledger_figures_no_update"
        if ledger.database.is_sqlite
        else "ALTER TABLE ledger_figures DISABLE TRIGGER ledger_figures_guard"
    )
    with ledger.database.writing() as connection:
        connection.execute(sa.text(taken))
    with pytest.raises(EvidenceInvalid, match=r"ledger_figures_.* does not guard its table any more"):
        recompute(ledger)
    again = (
        "CREATE TRIGGER ledger_figures_no_update BEFORE UPDATE ON ledger_figures WHEN 0 BEGIN SELECT 1; END"
        if ledger.database.is_sqlite
        else "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql "
        "AS $$ BEGIN RETURN NULL; END $$"
    )
    with ledger.database.writing() as connection:
        if not ledger.database.is_sqlite:
            connection.execute(sa.text("ALTER TABLE ledger_figures ENABLE TRIGGER ledger_figures_guard"))
        connection.execute(sa.text(again))
    with pytest.raises(EvidenceInvalid, match="does not guard its table any more"):
        recompute(ledger)


# --- what readers say meanwhile -----------------------------------------------------------------------------------


def test_a_contest_is_seen_whichever_index_it_was_taken_out_of(ledger: Ledger) -> None:
    for statement in ("DELETE FROM ledger_subjects", "UPDATE ledger_subjects SET id = 'ab' || seq"):
        _without_guards(ledger, statement)
        assert standings(ledger, [RESULT], TRUST)[RESULT].short == "contested"


def test_it_is_seen_by_the_subjects_where_the_columns_were_edited(ledger: Ledger) -> None:
    _without_guards(ledger, "UPDATE ledger_entries SET result_id = NULL WHERE seq = 5")
    assert standings(ledger, [RESULT], TRUST)[RESULT].short == "contested"


def test_figures_are_those_of_the_entries_whatever_the_index_says(ledger: Ledger) -> None:
    before, past = list_results(ledger, Wanted()), history(ledger, sha("contract"))
    _without_guards(
        ledger,
        "UPDATE ledger_figures SET estimate = estimate * 10, low = low * 10, high = high * 10, run_means = '[9.0]'",
        "UPDATE ledger_results SET validity = 'void', attempts = 1, weights = NULL, bottleneck = 'none'",
    )
    assert list_results(ledger, Wanted()) == before
    assert history(ledger, sha("contract")) == past


def test_a_result_moved_under_another_contract_is_refused(ledger: Ledger) -> None:
    _without_guards(ledger, f"UPDATE ledger_results SET contract_id = '{sha('another')}' WHERE seq = 6")
    with pytest.raises(EvidenceInvalid, match="the index lists entry 6 as what it is not"):
        history(ledger, sha("another"))
    _without_guards(ledger, "UPDATE ledger_results SET seq = 7 WHERE seq = 6")
    with pytest.raises(EvidenceInvalid, match="entry 7 is no result"):
        list_results(ledger, Wanted())


def test_an_entry_in_place_of_another_is_noticed_when_it_is_read(ledger: Ledger) -> None:
    """A contest replaced by something that the same key signed as well, its leaf set right."""
    other = sealed(ResultContested(result_id=RESULT, reason="never mind", cites=()), BRAVO).to_bytes()
    statement = sa.text("UPDATE ledger_entries SET envelope = :data WHERE seq = 5")
    if ledger.database.is_sqlite:
        _drop(ledger, "ledger_entries_no_update")
    else:
        with ledger.database.writing() as connection:
            connection.execute(sa.text("ALTER TABLE ledger_entries DISABLE TRIGGER USER"))
    with ledger.database.writing() as connection:
        connection.execute(statement, {"data": other})
    with pytest.raises(EvidenceInvalid, match="entry 5, or the time at which it was logged, was changed"):
        standings(ledger, [RESULT], TRUST)


def _drop(ledger: Ledger, trigger: str) -> None:
    with ledger.database.writing() as connection:
        connection.execute(sa.text(f"DROP TRIGGER {trigger}"))


# --- when entries were logged -------------------------------------------------------------------------------------


def test_a_time_set_back_does_not_make_a_revoked_key_count_again(url: str, tmp_path: Path) -> None:
    with Ledger(url, blobs="somewhere") as ledger:
        ledger.append_all([sealed(registered("one"), ALPHA), sealed(recorded("one"), ALPHA)])
        ledger.append(sealed(ResultRetracted(result_id=RESULT, reason="stolen key"), ALPHA))
        seen = Seen(tmp_path / "home")
        seen.check(ledger)
        set_back = "UPDATE ledger_entries SET logged_at = '2026-11-15T09:00:00.000+00:00' WHERE seq = 2"
        _without_guards(ledger, set_back)
        with pytest.raises(EvidenceInvalid, match="the time at which it was logged"):
            standings(ledger, [RESULT], TRUST)
        with pytest.raises(EvidenceInvalid, match="ledger_times of entry 2"):
            recompute(ledger)
        _rechain(ledger)
        assert standings(ledger, [RESULT], TRUST)[RESULT].retracted, "whoever rewrites the whole chain is read again"
        with pytest.raises(EvidenceInvalid, match="its times were rewritten"):
            seen.check(ledger)


def test_a_checkpoint_covers_the_times(url: str) -> None:
    with Ledger(url, blobs="somewhere") as ledger:
        ledger.append_all(every_kind(ALPHA, BRAVO))
        sign_checkpoint(ledger, ALPHA, _now())
        assert prove_stored(ledger, TRUST) == 1
        _without_guards(ledger, "UPDATE ledger_entries SET logged_at = '2026-11-15T09:00:00.000+00:00' WHERE seq = 2")
        _rechain(ledger)
        with pytest.raises(EvidenceInvalid, match="its times were rewritten"):
            prove_stored(ledger, TRUST)


def _rechain(ledger: Ledger) -> None:
    """The chain made again over edited times, as an insider with the program would."""
    with ledger.database.reading() as connection:
        rows = connection.execute(sa.text("SELECT seq, leaf, logged_at FROM ledger_entries ORDER BY seq")).all()
    digest, statements = NO_TIME, []
    for seq, leaf, logged_at in rows:
        digest = chain_time(digest, bytes(leaf), logged_at)
        literal = f"X'{digest.hex()}'" if ledger.database.is_sqlite else f"decode('{digest.hex()}', 'hex')"
        statements.append(f"UPDATE ledger_times SET digest = {literal} WHERE seq = {seq}")
    _without_guards(ledger, *statements)


@pytest.mark.parametrize("column", ["root", "envelope", "tree_size"])
def test_a_stored_checkpoint_is_read_from_what_was_signed(ledger: Ledger, column: str) -> None:
    signed = sign_checkpoint(ledger, ALPHA, _now())
    with ledger.database.reading() as connection:
        data = bytes(connection.execute(sa.text("SELECT envelope FROM ledger_checkpoints")).scalar_one())
    assert data == signed.envelope.to_bytes()
    bent = data[:-12] + bytes([data[-12] ^ 1]) + data[-11:]
    hexed = {"root": bytes(32).hex(), "envelope": bent.hex(), "tree_size": ""}[column]
    literal = f"X'{hexed}'" if ledger.database.is_sqlite else f"decode('{hexed}', 'hex')"
    _without_guards(ledger, f"UPDATE ledger_checkpoints SET {column} = {literal if hexed else 3}")
    with pytest.raises(EvidenceInvalid):
        prove_stored(ledger, TRUST)


def test_a_stored_checkpoint_under_another_keys_id_is_noticed(ledger: Ledger) -> None:
    """Nobody can hold a signature against a key that nobody knows; but whose it is can be tried."""
    signed = sign_checkpoint(ledger, ALPHA, _now())
    (own,) = (signature.keyid for signature in signed.envelope.signatures)
    bent = signed.envelope.to_bytes().replace(own.encode(), own.replace(own[5], "f" if own[5] != "f" else "0").encode())
    literal = f"X'{bent.hex()}'" if ledger.database.is_sqlite else f"decode('{bent.hex()}', 'hex')"
    _without_guards(ledger, f"UPDATE ledger_checkpoints SET envelope = {literal}")
    with pytest.raises(EvidenceInvalid, match="checkpoint 1: alpha signed it, and it names key"):
        prove_stored(ledger, TRUST)
    assert prove_stored(ledger, trusting(BRAVO)) == 1  # where its signer is not known, nobody can say


# --- an older ledger ----------------------------------------------------------------------------------------------


def test_an_older_ledger_gets_its_guards_and_its_times(url: str) -> None:
    with Ledger(url, blobs="somewhere") as ledger:
        ledger.append_all(every_kind(ALPHA, BRAVO))
        head, listed = ledger.head(), list_results(ledger, Wanted())
        ledger.database.migrate("0004")
        with ledger.database.reading() as connection:
            assert "ledger_times" not in sa.inspect(connection).get_table_names()
    with Ledger(url, blobs="somewhere") as ledger:
        assert (recompute(ledger), list_results(ledger, Wanted())) == (head, listed)
        with pytest.raises(BadLedger, match="append-only"), ledger.database.writing() as connection:
            connection.execute(sa.text("DELETE FROM ledger_subjects"))
        ledger.append(sealed(decision("goes on"), ALPHA))
        assert recompute(ledger).size == head.size + 1


def test_an_index_that_was_edited_before_it_was_guarded_is_still_found(url: str) -> None:
    with Ledger(url, blobs="somewhere") as ledger:
        ledger.append_all(every_kind(ALPHA, BRAVO))
        ledger.database.migrate("0004")
        with ledger.database.writing() as connection:
            connection.execute(sa.text("DELETE FROM ledger_subjects WHERE seq = 5"))
    with Ledger(url, blobs="somewhere") as ledger:
        assert standings(ledger, [RESULT], TRUST)[RESULT].short == "contested"
        with pytest.raises(EvidenceInvalid, match="ledger_subjects of entry 5"):
            recompute(ledger)
