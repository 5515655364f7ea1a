"""The worked example is nobody's evidence: a key of its own, `invented` in every entry, and no ledger takes it."""

from __future__ import annotations

import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import lynxbench_here
from lynxbench.decide.demonstrating import EXAMPLE_TEAM, demo_results, make_demo
from lynxbench.decide.packing import verify_pack
from lynxbench.errors import EvidenceInvalid, ExitCode, Refused
from lynxbench.evidence.documents import RESULT_FILE, write_result
from lynxbench.evidence.keys import parse_card
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.statement import open_entry
from lynxbench.ledger.bundle import export_bundle, import_bundle, read_bundle
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.entries import Blob, ResultContested
from lynxbench.record.recording import record_folder, seal
from recording_teams import Team, leave_run, make_team


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pack as the command writes it."""
    return make_demo(tmp_path_factory.mktemp("demo"), pdf=False)[0].bundle


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return make_team("alpha", tmp_path)


def keys_in(pack: Path) -> list[bytes]:
    with tarfile.open(pack) as archive:
        stream = archive.extractfile("keys.json")
        assert stream is not None
        return [canonical_bytes(card) for card in json.loads(stream.read())["cards"]]


def test_it_is_signed_by_a_key_that_is_thrown_away_and_every_entry_says_invented(tmp_path: Path) -> None:
    home = str(tmp_path / "h")
    done = lynxbench_here("demo", "decisions", "-o", "out", "--no-pdf", cwd=tmp_path, LYNXBENCH_HOME=home)
    assert done.code == ExitCode.DONE, done.err
    assert not (tmp_path / "h").exists(), "neither a key nor a ledger of the user's was touched"
    bundle = read_bundle(tmp_path / "out" / "decision.lynxpack", make_team("b", tmp_path).keyring.trust, example=True)
    entries = [open_entry(envelope) for envelope in bundle.envelopes]
    assert len(entries) > 10
    assert all(entry.invented for entry in entries)
    assert [parse_card(card, "card").team for card in keys_in(tmp_path / "out" / "decision.lynxpack")] == [EXAMPLE_TEAM]
    assert (bundle.teams, bundle.submitters, bundle.example) == ((), (), True)


def test_verify_says_that_it_is_invented_and_by_nobody(pack: Path, team: Team, tmp_path: Path) -> None:
    done = lynxbench_here("verify", str(pack), cwd=tmp_path, **team.environment)
    assert done.code == ExitCode.CANNOT_VERIFY
    assert "all of it is invented" in done.out.splitlines()[0]
    assert "thrown away" in done.out
    assert EXAMPLE_TEAM not in done.out


def test_a_bundle_is_not_imported_even_where_its_key_is_trusted(pack: Path, team: Team, tmp_path: Path) -> None:
    for trusted in (False, True):
        if trusted:
            (card,) = keys_in(pack)
            (tmp_path / "card.json").write_bytes(card)
            assert lynxbench_here("key", "trust", "card.json", cwd=tmp_path, **team.environment).code == 0
        done = lynxbench_here("results", "import", str(pack), cwd=tmp_path, **team.environment)
        assert done.code == ExitCode.REFUSED
        assert "invented" in done.err
        assert done.err.count("\n") == 1
        with team.open() as ledger:
            assert ledger.log.head().size == 0


def test_no_other_ledger_takes_an_invented_entry(team: Team) -> None:
    body = ResultContested(result_id="ab" * 32, reason="because")
    with team.open() as ledger:
        with pytest.raises(Refused, match="invented"):
            ledger.log.append(seal(body, team.key, invented=True))
        assert ledger.log.head().size == 0
        ledger.log.append(seal(body, team.key))


def test_the_document_gives_it_away_where_somebody_signs_it_as_measured(team: Team, tmp_path: Path) -> None:
    """The attack: take the example's documents, leave the word out of the entries, sign with a real key."""
    today = demo_results()[0]
    data = today.model_dump_json(by_alias=True).encode()
    with team.open() as ledger:
        blob = Blob(name=RESULT_FILE, sha256=ledger.blobs.put(data), size_bytes=len(data))
        ledger.log.append(seal(summary_of(today, nonce="n", attempts=5), team.key, (blob,)))
        path = tmp_path / "forged.lynx"
        export_bundle(ledger, [today.result_id], path, team.key, team.keyring.trust, datetime.now(UTC))
    with make_team("reader", tmp_path).open() as ledger:
        with pytest.raises(Refused, match="invented"):
            import_bundle(ledger, path, team.keyring.trust)
        assert ledger.log.head().size == 0
    with pytest.raises(Refused, match="invented"):
        read_bundle(path, team.keyring.trust, example=True)


def test_a_run_folder_with_its_document_is_not_recorded(team: Team, tmp_path: Path) -> None:
    today, folder = demo_results()[0], tmp_path / "run"
    folder.mkdir()
    write_result(folder / RESULT_FILE, today)
    leave_run(folder, today, "n" * 32)
    for manifest in (False, True):
        if manifest:
            write_manifest(folder)
        with team.open() as ledger:
            with pytest.raises(Refused, match="invented"):
                record_folder(ledger, folder, team.key)
            assert ledger.log.head().size == 0
    done = lynxbench_here("results", "import", str(folder), cwd=tmp_path, **team.environment)
    assert done.code == ExitCode.REFUSED


def test_a_pack_that_is_invented_in_part_is_refused(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lynxbench.decide.demonstrating as module

    def seal_contests_as_real(body: object, *given: object, invented: bool = False) -> object:
        return seal(body, *given, invented=invented and not isinstance(body, ResultContested))  # type: ignore[arg-type]

    monkeypatch.setattr(module, "seal", seal_contests_as_real)
    made, _ = make_demo(tmp_path, pdf=False)
    with pytest.raises(EvidenceInvalid, match="of others not"):
        verify_pack(made.bundle, team.environment)
    with pytest.raises(Refused, match="invented"):
        read_bundle(made.bundle, team.keyring.trust)
