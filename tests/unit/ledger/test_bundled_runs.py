"""A bundle brings everything that a result's figures can be computed again from, or it is not taken in."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.documents import write_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.sample_file import write_samples
from lynxbench.ledger import log
from lynxbench.ledger.bundle import export_bundle, import_bundle, read_bundle
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.entries import Blob, RunRegistered
from lynxbench.record.recalling import ledger_checks
from lynxbench.record.recording import blob_of, keep_files, seal
from recording_teams import Team, leave_run, made_result, make_team

NONCE = "n" * 32


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return make_team("alpha", tmp_path)


def bundle_of(
    team: Team,
    path: Path,
    change: Callable[[Path], None] = lambda folder: None,
    keep: Callable[[Blob], bool] = lambda blob: True,
    names: Mapping[str, str] | None = None,
) -> Path:
    """A signed bundle of one run whose folder was changed before it was sealed, or whose entry leaves files out.

    `names`: what the entry calls some of them instead.
    """
    with team.open() as ledger, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = made_result(1)
        write_samples(folder / "samples.npz", ())
        write_result(folder / "result.json", result)
        leave_run(folder, result, NONCE)
        change(folder)
        write_manifest(folder)
        kept = [blob for blob in keep_files(ledger.blobs, folder) if keep(blob)]
        blobs = tuple(blob.model_copy(update={"name": (names or {}).get(blob.name, blob.name)}) for blob in kept)
        ledger.log.append(seal(summary_of(result, nonce=NONCE, attempts=1), team.key, blobs))
        export_bundle(ledger, [result.result_id], path, team.key, team.keyring.trust, datetime.now(UTC))
    return path


def refusal(team: Team, path: Path, home: Path) -> str:
    """What an importer of another home, who trusts the exporter, is told; nothing reached the log."""
    reader = make_team("bravo", home)
    with reader.open() as ledger:
        with pytest.raises(EvidenceInvalid) as refused:
            import_bundle(ledger, path, team.keyring.trust)
        assert ledger.log.head().size == 0
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_whole_run_is_taken_in(team: Team, tmp_path: Path) -> None:
    assert read_bundle(bundle_of(team, tmp_path / "b.lynx"), team.keyring.trust).manifest.results


@pytest.mark.parametrize("missing", ["registration.json", "samples.npz", "attempts"])
def test_a_run_without_a_part_of_its_evidence_is_refused(team: Team, tmp_path: Path, missing: str) -> None:
    def leave_out(folder: Path) -> None:
        shutil.rmtree(folder / missing) if missing == "attempts" else (folder / missing).unlink()

    assert missing in refusal(team, bundle_of(team, tmp_path / "b.lynx", leave_out), tmp_path / "reader")


@pytest.mark.parametrize("missing", ["manifest.json", "samples.npz", "registration.json", "attempts.000-01.stage"])
def test_what_the_entry_leaves_out_is_missed(team: Team, tmp_path: Path, missing: str) -> None:
    path = bundle_of(team, tmp_path / "b.lynx", keep=lambda blob: blob.name != missing)
    assert missing.replace("attempts.000-01.", "attempts/000-01/") in refusal(team, path, tmp_path / "reader")


@pytest.mark.parametrize(
    ("key", "other"), [("run_id", "run-of-somebody-else"), ("nonce", "0" * 32), ("contract_id", "ab" * 32)]
)
def test_the_registration_of_another_run_is_refused(team: Team, tmp_path: Path, key: str, other: str) -> None:
    def exchange(folder: Path) -> None:
        file = folder / "registration.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), key: other}))

    assert key in refusal(team, bundle_of(team, tmp_path / "b.lynx", exchange), tmp_path / "reader")


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"run_id": 1, "run_id": 2}', b"[" * 100_000])
def test_a_registration_that_is_none_is_refused(team: Team, tmp_path: Path, content: bytes) -> None:
    path = bundle_of(team, tmp_path / "b.lynx", lambda folder: _write(folder / "registration.json", content))
    assert "registration.json" in refusal(team, path, tmp_path / "reader")


def test_samples_other_than_the_results_own_are_refused(team: Team, tmp_path: Path) -> None:
    path = bundle_of(team, tmp_path / "b.lynx", lambda folder: _write(folder / "samples.npz", b"other"))
    assert "other files" in refusal(team, path, tmp_path / "reader")


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def test_a_registration_that_was_written_anew_after_it_was_announced_is_refused(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forger's own ledger takes everything; whoever reads the bundle, and whoever verifies it there, is told."""
    monkeypatch.setattr(log, "refuse_foreign_run", lambda *_: None)
    result = made_result(1)
    with tempfile.TemporaryDirectory() as name:
        leave_run(Path(name), result, NONCE)
        announced = (Path(name) / "registration.json").read_bytes()
    body = RunRegistered(
        run_id=result.run_id,
        nonce=NONCE,
        contract_id=result.contract_id,
        executor_id=result.executor_id,
        processes_planned=1,
    )
    with team.open() as ledger:
        ledger.blobs.put(announced)
        ledger.log.append(seal(body, team.key, (blob_of("registration.json", announced),)))
    anew = announced.replace(b'"threads":1', b'"threads":64')
    assert anew != announced
    bundle = bundle_of(team, tmp_path / "b.lynx", lambda folder: _write(folder / "registration.json", anew))
    with pytest.raises(EvidenceInvalid, match=r"was announced with registration\.json"):
        read_bundle(bundle, team.keyring.trust)
    with team.open() as ledger:
        lines = [check.line for check in ledger_checks(ledger, result.result_id, team.keyring.trust)]
    assert any("registration: does not hold: the run was announced with registration.json" in line for line in lines)


def test_a_decoy_does_not_stand_for_the_registration(team: Team, tmp_path: Path) -> None:
    """The entry gives the name to one document, the manifest the place to another."""
    names = {"registration.json": "stated.json", "other.json": "registration.json"}
    path = bundle_of(team, tmp_path / "b.lynx", lambda folder: _write(folder / "other.json", b"{}"), names=names)
    assert "is that of other files" in refusal(team, path, tmp_path / "reader")


def test_an_entry_speaks_of_no_fewer_attempts_than_it_brings(team: Team, tmp_path: Path) -> None:
    """Seven attempts at one process, of which the entry tells one: killed until it was quick."""

    def try_again(folder: Path) -> None:
        for number in range(2, 8):
            (folder / "attempts" / f"000-0{number}").mkdir()
            _write(folder / "attempts" / f"000-0{number}" / "stage", b"measure")

    told = refusal(team, bundle_of(team, tmp_path / "b.lynx", try_again), tmp_path / "reader")
    assert "says 1 attempts, and its files are of 7" in told
