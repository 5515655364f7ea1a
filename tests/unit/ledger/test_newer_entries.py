"""Entries of a newer version: kept, counted and told; the rest is read and verified, and no verdict rests on them."""

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from compared import make_result
from lynxbench.errors import BadInput, EvidenceInvalid, NewerEntry
from lynxbench.evidence.statement import open_entry
from lynxbench.ledger.bundle import export_bundle
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.queries import Wanted, entries_about, list_results, newer_kinds
from lynxbench.ledger.result_standings import standings
from lynxbench.model.result import Result
from lynxbench.model.standing import Standing
from newer_entries import append_as_newer, newer
from recording_teams import Team, make_team, record

UPDATE = "a newer lynxbench wrote it: update lynxbench"


def run_of(number: int) -> Result:
    return make_result().model_copy(update={"run_id": f"run-{number}", "result_id": ""}).sealed()


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return make_team("ml-platform", tmp_path)


def test_a_kind_that_is_not_known_is_told_in_one_line(team: Team) -> None:
    """Found: `predicate.body: Input tag … does not match any of the expected tags`, with all of them."""
    with pytest.raises(NewerEntry) as told:
        open_entry(newer(team, "ab" * 32))
    assert str(told.value).startswith(f"an entry of kind 'endorsement', which this version does not know; {UPDATE}")


@pytest.mark.parametrize(
    ("kind", "predicate_type"),
    [("Endorsement 2", None), ("x" * 60, None), ("endorsement", "urn:lynxbench:entry:result:1"), ("result", None)],
)
def test_what_is_only_damaged_is_of_no_newer_version(team: Team, kind: str, predicate_type: str | None) -> None:
    with pytest.raises(EvidenceInvalid) as told:
        open_entry(newer(team, "ab" * 32, kind, predicate_type))
    assert not isinstance(told.value, NewerEntry)


def test_the_rest_is_read_and_verified(team: Team, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with team.open() as ledger:
        spoken_of, other = (record(ledger, run_of(number), team.key) for number in (1, 2))
        before = standings(ledger.log, [spoken_of.result_id], team.keyring.trust)[spoken_of.result_id]
        seq = append_as_newer(ledger, newer(team, spoken_of.result_id), monkeypatch)
        record(ledger, run_of(3), team.key)
        assert newer_kinds(ledger.log) == {"endorsement": 1}
        assert recompute(ledger.log).size == ledger.log.head().size > seq
        assert len(list_results(ledger.log, Wanted())) == 3
        assert seq not in {logged.seq for logged in entries_about(ledger.log, [spoken_of.result_id])}
        with pytest.raises(NewerEntry, match=UPDATE):
            ledger.log.read(seq)
        known = standings(ledger.log, [spoken_of.result_id, other.result_id], team.keyring.trust)
        assert known[other.result_id].unread == 0
        standing = known[spoken_of.result_id]
        assert "an entry about it of a newer lynxbench could not be read: update lynxbench" in standing.words
        assert standing.model_copy(update={"unread": 0, "runs_registered": before.runs_registered}) == before
        assert Standing.model_validate_json(standing.model_dump_json()) == standing
        now, to = datetime.now(UTC), tmp_path / "out.lynx"
        export_bundle(ledger, [other.result_id], to, team.key, team.keyring.trust, now)
        with pytest.raises(BadInput, match="an entry about it is of a kind that is not known here; a newer lynxbench"):
            export_bundle(ledger, [spoken_of.result_id], to, team.key, team.keyring.trust, now)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger_entries SET kind = 'note' WHERE kind = 'endorsement'",
        "UPDATE ledger_entries SET result_id = NULL WHERE kind = 'endorsement'",
        "UPDATE ledger_entries SET envelope = replace(envelope, 'w', 'v') WHERE kind = 'endorsement'",
        "INSERT INTO ledger_subjects SELECT id, seq + 900, what FROM ledger_subjects WHERE what = 'endorsed'",
    ],
)
def test_what_was_changed_of_it_is_found(team: Team, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    with team.open() as ledger:
        result = record(ledger, make_result(), team.key)
        append_as_newer(ledger, newer(team, result.result_id), monkeypatch)
        file = str(ledger.log.database.url.database)
    with sqlite3.connect(file) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {json.dumps(name)}")
        database.execute(change)
    database.close()
    with team.open() as ledger, pytest.raises(EvidenceInvalid, match=r"entry \d+|subjects|was changed"):
        recompute(ledger.log)
