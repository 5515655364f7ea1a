"""`results attest`: a folder from which somebody without lynxbench verifies a result."""

from __future__ import annotations

import hashlib
import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib import dsse
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from command_line import CommandRun, lynxbench_here
from lynxbench.ledger.queries import find_result
from recording_teams import Team, made_result, make_team, record

DERIVED = {"test-result.dsse.json", "provenance.dsse.json"}


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Team:
    """A team with one recorded result."""
    return make_team("alpha", tmp_path_factory.mktemp("teams"))


@pytest.fixture(scope="module")
def result_id(alpha: Team) -> str:
    with alpha.open() as ledger:
        return record(ledger, made_result(1), alpha.key).result_id


def attest(team: Team, *words: str, ledger: Path | None = None) -> CommandRun:
    where = ("--ledger", str(ledger)) if ledger else ()
    return lynxbench_here("results", "attest", *words, *where, cwd=team.home, **team.environment)


def verified(folder: Path, name: str) -> dict:  # type: ignore[type-arg]
    """The statement of a file, by the keys that lie in the folder and by nothing else."""
    keys = [SSlibKey.from_crypto(load_pem_public_key(pem.read_bytes()), pem.stem) for pem in folder.glob("keys/*.pem")]
    envelope = dsse.Envelope.from_dict(json.loads((folder / name).read_bytes()))
    envelope.verify(keys, 1)
    statement: dict = json.loads(envelope.payload)  # type: ignore[type-arg]
    return statement


def test_a_stranger_verifies_the_folder(alpha: Team, result_id: str, tmp_path: Path) -> None:
    done = attest(alpha, result_id[:12], "--out", str(tmp_path / "out"), "--json")
    assert done.code == 0, done.err
    document, folder = json.loads(done.out), tmp_path / "out"
    assert document["result_id"] == result_id
    assert document["not_derived"] is None
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == set(document["files"])
    for name in ("entry.dsse.json", *DERIVED):
        subjects = {one["name"]: one["digest"]["sha256"] for one in verified(folder, name)["subject"]}
        stated = subjects.get("result.json") or subjects["blob:result.json"]
        assert hashlib.sha256((folder / "result.json").read_bytes()).hexdigest() == stated
    (contract,) = verified(folder, "test-result.dsse.json")["predicate"]["configuration"]
    assert hashlib.sha256((folder / "contract.json").read_bytes()).hexdigest() == contract["digest"]["sha256"]
    lines = (folder / "attestations.intoto.jsonl").read_bytes().splitlines()
    assert lines == [(folder / f"{name}.dsse.json").read_bytes() for name in ("entry", "test-result", "provenance")]
    with alpha.open() as ledger:
        logged = find_result(ledger.log, result_id)
        assert logged is not None
        assert (folder / "entry.dsse.json").read_bytes() == logged.envelope.to_bytes(), "byte by byte"
        size = ledger.log.head().size
    assert attest(alpha, result_id, "--out", str(folder)).code == 0, "again is the same"
    with alpha.open() as ledger:
        assert ledger.log.head().size == size, "nothing was written to the ledger"


def test_a_changed_file_does_not_verify(alpha: Team, result_id: str, tmp_path: Path) -> None:
    assert attest(alpha, result_id, "--out", str(tmp_path)).code == 0
    for name in ("entry.dsse.json", *DERIVED):
        document = json.loads((tmp_path / name).read_bytes())
        middle = len(document["payload"]) // 2
        letter = "A" if document["payload"][middle] != "A" else "B"
        document["payload"] = document["payload"][:middle] + letter + document["payload"][middle + 1 :]
        (tmp_path / name).write_text(json.dumps(document))
        with pytest.raises(VerificationError):
            verified(tmp_path, name)


def test_another_team_gives_the_entry_and_says_nothing_in_its_name(alpha: Team, result_id: str, tmp_path: Path) -> None:
    bravo = make_team("bravo", tmp_path)
    refused = attest(bravo, result_id, "--out", str(tmp_path / "no"), ledger=alpha.home / "ledger")
    assert refused.code == 5
    assert "no trusted signature" in refused.err
    card = alpha.keyring.keys.card("alpha")
    bravo.keyring.change_trust(lambda trust: trust.adding(card, datetime.fromisoformat(card.made_at)))
    done = attest(bravo, result_id, "--out", str(tmp_path / "out"), ledger=alpha.home / "ledger")
    assert done.code == 0, done.err
    assert "no key that signed the entry is here; alpha derives and signs them" in done.out
    assert not any((tmp_path / "out" / name).exists() for name in DERIVED)
    assert verified(tmp_path / "out", "entry.dsse.json")["predicate"]["body"]["result_id"] == result_id


def test_a_key_that_was_revoked_derives_nothing_any_more(tmp_path: Path) -> None:
    team = make_team("charlie", tmp_path)
    with team.open() as ledger:
        name = record(ledger, made_result(2), team.key).result_id
    time.sleep(1.1)  # a revocation is told to the second, and this entry is older
    team.keyring.change_trust(lambda trust: trust.revoking(team.key.keyid, "laptop lost", datetime.now(UTC)))
    done = attest(team, name, "--out", str(tmp_path / "out"))
    assert done.code == 0, done.err
    assert "was revoked" in done.out
    assert not any((tmp_path / "out" / one).exists() for one in DERIVED)


def test_what_cannot_be_written_is_said(alpha: Team, result_id: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for words in ((result_id, "--out", str(tmp_path / "file")), (result_id, "--out", str(tmp_path / "file" / "below"))):
        done = attest(alpha, *words)
        assert done.code == 2
        assert done.err.count("\n") == 1
    assert attest(alpha, "abcd1234", "--out", str(tmp_path / "out")).code == 2


def test_the_program_in_the_documentation_runs(
    alpha: Team,
    result_id: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "verify-with-stock-tools.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert attest(alpha, result_id, "--out", str(tmp_path)).code == 0
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    assert capsys.readouterr().out.split()[1::2] == [
        "urn:lynxbench:entry:result:1",
        "https://slsa.dev/provenance/v1",
        "https://in-toto.io/attestation/test-result/v0.1",
    ]
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(AssertionError):
        exec(program, {})
