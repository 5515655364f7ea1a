"""What travels with a result: its team's other runs, so that one of ten is seen as such, and nothing is taken out."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from command_line import lynxbench_here
from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.envelope import parse_envelope
from lynxbench.evidence.keys import new_signing_key
from lynxbench.evidence.statement import open_entry
from lynxbench.ledger import bundle_contents
from lynxbench.ledger.archive import read_archive, write_archive
from lynxbench.ledger.bundle import export_bundle, import_bundle
from lynxbench.ledger.checkpoints import sign_checkpoint
from lynxbench.ledger.queries import open_runs
from lynxbench.ledger.result_standings import standings
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.entries import Blob, ResultContested, Role, RunAbandoned, RunRegistered
from lynxbench.model.result import Result
from lynxbench.model.standing import Announcement, Standing
from lynxbench.record.recording import seal
from recording_teams import Team, made_result, make_team, record

RUNS = 10
DOCUMENT = b'{"what": "was planned"}'


@pytest.fixture
def alpha(tmp_path: Path) -> Team:
    return make_team("alpha", tmp_path)


@pytest.fixture
def bravo(tmp_path: Path, alpha: Team) -> Team:
    """Another team, which trusts alpha's key."""
    team, card = make_team("bravo", tmp_path), alpha.keyring.keys.card(alpha.name)
    team.keyring.change_trust(lambda trust: trust.adding(card, datetime.fromisoformat(card.made_at)))
    return team


def _register(team: Team, result: Result, name: str, *, given_up: bool = False) -> None:
    """A run of the same contract that brings no result."""
    run = {"run_id": f"run-{name}", "nonce": name, "contract_id": result.contract_id}
    with team.open() as ledger:
        ledger.blobs.put(DOCUMENT)
        blob = Blob(name="registration.json", sha256=hashlib.sha256(DOCUMENT).hexdigest(), size_bytes=len(DOCUMENT))
        body = RunRegistered(**run, executor_id=result.executor_id, processes_planned=5)
        ledger.log.append(seal(body, team.key, (blob,)))
        if given_up:
            ledger.log.append(seal(RunAbandoned(**run, attempts=1, reason="it was slow"), team.key))


def _standing(team: Team, result: Result) -> Standing:
    with team.open() as ledger:
        return standings(ledger.log, [result.result_id], team.keyring.trust)[result.result_id]


def _export(team: Team, result: Result, path: Path) -> Path:
    with team.open() as ledger:
        export_bundle(ledger, [result.result_id], path, team.key, team.keyring.trust, datetime.now(UTC))
    return path


@pytest.mark.parametrize("way", ["left open", "given up", "kept at home"])
def test_best_of_ten_is_seen_as_that_by_the_importer(alpha: Team, bravo: Team, tmp_path: Path, way: str) -> None:
    best = made_result(0)
    for number in range(1, RUNS):
        if way == "kept at home":
            with alpha.open() as ledger:
                record(ledger, made_result(number, level=90.0), alpha.key)
        else:
            _register(alpha, best, str(number), given_up=way == "given up")
    with alpha.open() as ledger:
        best = record(ledger, best, alpha.key)
    path = _export(alpha, best, tmp_path / "best.lynx")
    with bravo.open() as ledger:
        import_bundle(ledger, path, bravo.keyring.trust)
        assert len(open_runs(ledger.log)) == (0 if way == "given up" else RUNS - 1)
    standing = _standing(bravo, best)
    assert (standing.runs_registered, standing.runs_without_result) == (RUNS, RUNS - 1)
    for words in (["results", "list"], ["results", "show", best.result_id[:12]]):
        shown = lynxbench_here(*words, cwd=tmp_path, **bravo.environment)
        assert shown.code == 0, shown.err
        assert "1 of 10 registered" in " ".join(shown.out.split())
    if way != "kept at home":
        assert _standing(alpha, best).chosen_from == "1 of 10 registered", "at home as well"
    again = _export(bravo, best, tmp_path / "again.lynx")
    third = make_team("charlie", tmp_path)
    for team in (alpha, bravo):
        card = team.keyring.keys.card(team.name)
        third.keyring.change_trust(lambda trust, card=card: trust.adding(card, datetime.fromisoformat(card.made_at)))
    with third.open() as ledger:
        import_bundle(ledger, again, third.keyring.trust)
    assert _standing(third, best).chosen_from == "1 of 10 registered", "and from hand to hand"


def test_another_key_for_each_run_hides_none_of_them(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    """Nine runs under the team's second key, the best under its first: ten of one team."""
    second = new_signing_key("alpha", (Role.RUNNER,), datetime.now(UTC))
    alpha.keyring.change_trust(lambda trust: trust.adding(second.card, datetime.now(UTC)))
    best = made_result(0)
    with alpha.open() as ledger:
        for number in range(1, RUNS):
            run = {"run_id": f"run-{number}", "nonce": str(number), "contract_id": best.contract_id}
            ledger.log.append(seal(RunRegistered(**run, executor_id=best.executor_id, processes_planned=5), second))
        best = record(ledger, best, alpha.key)
    assert _standing(alpha, best).chosen_from == "1 of 10 registered"
    path = _export(alpha, best, tmp_path / "best.lynx")
    with bravo.open() as ledger:
        with pytest.raises(EvidenceInvalid, match="the bundle says it is alpha's key"):
            import_bundle(ledger, path, bravo.keyring.trust)
        bravo.keyring.change_trust(lambda trust: trust.adding(second.card, datetime.fromisoformat(second.card.made_at)))
        import_bundle(ledger, path, bravo.keyring.trust)
    assert _standing(bravo, best).chosen_from == "1 of 10 registered"


def test_runs_that_a_thief_registered_do_not_keep_a_bundle_out(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    stolen = new_signing_key("alpha", (Role.RUNNER,), datetime.now(UTC) - timedelta(days=2))
    since = datetime.now(UTC) - timedelta(days=1)
    alpha.keyring.change_trust(
        lambda trust: trust.adding(stolen.card, since).revoking(stolen.keyid, "it was stolen", since)
    )
    best = made_result(0)
    with alpha.open() as ledger:
        run = {"run_id": "run-thief", "nonce": "thief", "contract_id": best.contract_id}
        ledger.log.append(seal(RunRegistered(**run, executor_id=best.executor_id, processes_planned=5), stolen))
        best = record(ledger, best, alpha.key)
    with bravo.open() as ledger:
        import_bundle(ledger, _export(alpha, best, tmp_path / "best.lynx"), bravo.keyring.trust)
    assert _standing(bravo, best).runs_registered == 1


def test_other_runs_come_without_their_documents_and_only_the_newest(
    alpha: Team, bravo: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = made_result(0)
    for number in range(1, RUNS):
        _register(alpha, best, str(number))
    with alpha.open() as ledger:
        best = record(ledger, best, alpha.key)
    with tarfile.open(_export(alpha, best, tmp_path / "best.lynx")) as archive:
        assert f"blobs/{hashlib.sha256(DOCUMENT).hexdigest()}" not in archive.getnames()
    monkeypatch.setattr(bundle_contents, "MOST_OTHER_RUNS", 4)
    with bravo.open() as ledger:
        import_bundle(ledger, _export(alpha, best, tmp_path / "less.lynx"), bravo.keyring.trust)
    assert _standing(bravo, best).runs_registered == 4


def test_what_others_registered_is_not_counted(alpha: Team, bravo: Team) -> None:
    best = made_result(0)
    with alpha.open() as ledger:
        best = record(ledger, best, alpha.key)
        for number in range(1, RUNS):
            run = {"run_id": f"run-theirs-{number}", "nonce": str(number), "contract_id": best.contract_id}
            theirs = RunRegistered(**run, executor_id=best.executor_id, processes_planned=5)
            ledger.log.append(seal(theirs, bravo.key))
    assert _standing(alpha, best).chosen_from == ""


def test_registering_after_the_run_is_said(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    """Measured first, then registered by hand: the ledger's clock, and the team's own, tell."""
    late = made_result(0)  # it began and ended days ago
    with alpha.open() as ledger:
        late = record(ledger, late, alpha.key)
    standing = _standing(alpha, late)
    assert (standing.announced, standing.registered) == (Announcement.AFTER, False)
    assert "registered after the run" in standing.words
    with bravo.open() as ledger:
        import_bundle(ledger, _export(alpha, late, tmp_path / "late.lynx"), bravo.keyring.trust)
    assert _standing(bravo, late).announced is Announcement.AFTER


def test_in_advance_by_this_ledgers_clock_and_by_its_own_elsewhere(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    times = {"started_at": now.isoformat(), "finished_at": (now + timedelta(seconds=45)).isoformat()}
    fresh = made_result(0).model_copy(update=times).sealed()
    with alpha.open() as ledger:
        fresh = record(ledger, fresh, alpha.key)
    assert _standing(alpha, fresh).announced is Announcement.IN_ADVANCE
    path = _export(alpha, fresh, tmp_path / "fresh.lynx")
    with bravo.open() as ledger:
        ledger.log._now = lambda connection: (now + timedelta(hours=1)).isoformat()  # type: ignore[method-assign]
        import_bundle(ledger, path, bravo.keyring.trust)
    assert _standing(bravo, fresh).announced is Announcement.OWN_CLOCK


def test_a_bundle_squats_no_run_that_was_announced(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    """Bravo gives its own figure alpha's run, and sends it to whoever knows that alpha announced it."""
    theirs = made_result(0)
    third = make_team("charlie", tmp_path)
    for team in (alpha, bravo):
        card = team.keyring.keys.card(team.name)
        third.keyring.change_trust(lambda trust, card=card: trust.adding(card, datetime.fromisoformat(card.made_at)))
    announced = RunRegistered(
        run_id=theirs.run_id,
        nonce="n" * 32,
        contract_id=theirs.contract_id,
        executor_id=theirs.executor_id,
        processes_planned=5,
    )
    with third.open() as ledger:
        ledger.log.append_all([seal(announced, alpha.key)], third.keyring.trust)
    with bravo.open() as ledger:
        forged = record(ledger, theirs, bravo.key)
    path = _export(bravo, forged, tmp_path / "forged.lynx")
    with third.open() as ledger:
        with pytest.raises(EvidenceInvalid, match="was registered by alpha"):
            import_bundle(ledger, path, third.keyring.trust)
        assert ledger.log.head().size == 1


def test_a_bundle_in_this_very_ledgers_name_must_fit_it(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    theirs = made_result(0)
    with bravo.open() as ledger:
        origin = ledger.log.origin
    with alpha.open() as ledger:
        theirs = record(ledger, theirs, alpha.key)
        ledger.log.origin = origin
        path = tmp_path / "false.lynx"
        export_bundle(ledger, [theirs.result_id], path, alpha.key, alpha.keyring.trust, datetime.now(UTC))
    with bravo.open() as ledger:
        with pytest.raises(EvidenceInvalid, match="entries were taken away"):
            import_bundle(ledger, path, bravo.keyring.trust)
        assert ledger.log.head().size == 0


# --- on its way -------------------------------------------------------------------------------------------------------


def _edited(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """A bundle with members changed, its proofs and its manifest set right again: by whoever carries it."""
    with path.open("rb") as stream:
        members = dict(read_archive(stream, "in"))
    manifest = json.loads(members.pop("manifest.json"))
    change(members)
    numbers = {str(int(name[8:18])) for name in members if name.startswith("entries/")}
    proofs = json.loads(members["proofs.json"])
    proofs["paths"] = {number: steps for number, steps in proofs["paths"].items() if number in numbers}
    members["proofs.json"] = canonical_bytes(proofs)
    manifest["members"] = [
        {"name": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    ]
    out = path.with_name("edited.lynx")
    write_archive(out, [("manifest.json", canonical_bytes(manifest)), *members.items()])
    return out


@pytest.mark.parametrize("what", ["contest", "registration", "abandoned"])
@pytest.mark.parametrize("plain", [False, True], ids=["taken out", "under another checkpoint"])
def test_nobody_takes_an_entry_out_of_a_bundle(
    alpha: Team, bravo: Team, tmp_path: Path, what: str, plain: bool
) -> None:
    best = made_result(0)
    _register(alpha, best, "1", given_up=True)
    with alpha.open() as ledger:
        best = record(ledger, best, alpha.key)
        ledger.log.append(seal(ResultContested(result_id=best.result_id, reason="warm inlet"), alpha.key))
    path = _export(alpha, best, tmp_path / "whole.lynx")
    with alpha.open() as ledger:  # the same state, signed for no bundle
        signed = sign_checkpoint(ledger.log, alpha.key, datetime.now(UTC)).envelope.to_bytes()

    def take_out(members: dict[str, bytes]) -> None:
        entries = {name: open_entry(parse_envelope(data)) for name, data in members.items() if "entries/" in name}
        chosen = [name for name, entry in entries.items() if entry.body.kind == what]
        del members[chosen[0]]
        if plain:
            members["checkpoint.json"] = signed

    edited = _edited(path, take_out)
    with bravo.open() as ledger:
        with pytest.raises(EvidenceInvalid, match="left out, or put in, after the bundle was signed"):
            import_bundle(ledger, edited, bravo.keyring.trust)
        assert ledger.log.head().size == 0
        import_bundle(ledger, path, bravo.keyring.trust)
    assert _standing(bravo, best).short == "contested"
