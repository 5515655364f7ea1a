"""Bundles of other versions: what an earlier lynxbench wrote comes in and verifies, the rest is refused plainly."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadResult, EvidenceInvalid
from lynxbench.evidence.documents import parse_identified, parse_result
from lynxbench.evidence.envelope import sign
from lynxbench.evidence.statement import STATEMENT_TYPE, open_entry
from lynxbench.ledger.bundle import import_bundle
from lynxbench.ledger.bundled_runs import check_result_document
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.canonical import canonical_bytes, content_id
from lynxbench.record.recalling import result_document
from teams import Team, kept_bundle, make_team

NEWER = "use the version that wrote it, or a newer one"
KEPT = "4c5bb32fe75940e0f575b009d2baae228bd8a0c41d90ab305dfa6c9d4e40b68e"
"""The result in the kept bundle: an id that no later version may compute differently."""


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Team:
    """A reader of today who trusts the key that signed the kept bundle."""
    made = make_team("reader", tmp_path_factory.mktemp("reader"))
    _, card = kept_bundle(tmp_path_factory.mktemp("card"))
    made.ask("key", "trust", str(card))
    return made


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the kept bundle holds, by name and in order."""
    found = {}
    with tarfile.open(kept_bundle(tmp_path_factory.mktemp("kept"))[0]) as archive:
        for info in archive:
            stream = archive.extractfile(info)
            assert stream is not None
            found[info.name] = stream.read()
    return found


def _document(members: dict[str, bytes]) -> dict[str, Any]:
    """The result document inside."""
    found = [json.loads(data) for name, data in members.items() if b'"result_id": "' in data and "blobs/" in name]
    (document,) = [one for one in found if "per_precision" in one]
    return document  # type: ignore[no-any-return]


def _packed(path: Path, members: dict[str, bytes]) -> Path:
    """The members as a file again."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def test_what_an_earlier_version_exported_comes_in_and_verifies(team: Team, tmp_path: Path) -> None:
    bundle, _ = kept_bundle(tmp_path)
    assert team.ask("results", "import", str(bundle))["results"] == [KEPT]
    (listed,) = team.ask("results", "list")["results"]
    assert listed["result_id"] == KEPT
    done = team.run("verify", KEPT[:12], "--json")
    assert done.code == 0, done.out + done.err
    with team.open() as ledger:
        result = result_document(ledger, KEPT)
    assert result.contract.contract_id == result.contract_id, "a key added since must not change what a contract is"
    assert result.executor.executor_id == result.executor_id
    assert team.ask("history", result.contract_id)["points"][0]["result_id"] == KEPT


def test_a_contract_keeps_its_id_when_it_is_written_out_and_read_again(members: dict[str, bytes]) -> None:
    document = _document(members)
    assert content_id(document["contract"]) == document["contract_id"]
    assert parse_contract(json.dumps(document["contract"])).contract_id == document["contract_id"]


def test_a_document_from_before_a_key_existed_is_itself(members: dict[str, bytes]) -> None:
    """Keys with a default may be absent: the id is that of the bytes, and today's defaults do not enter it."""
    document = _document(members)
    for key in ("ceilings", "executor_drift"):
        document.pop(key)
    for one in document["per_precision"]:
        one.pop("load")
        one.pop("energy_j_per_unit")
    document.pop("result_id")
    document["result_id"] = content_id(document)
    data = json.dumps(document).encode()
    result, identifier = parse_identified(data, "result.json")
    assert result.ceilings == ()
    assert identifier == result.result_id != result.computed_id()
    check_result_document(data, summary_of(result, nonce="n", attempts=2), "result.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(schema_version=0), f"schema_version is 0, and this lynxbench reads 1; {NEWER}"),
        (lambda d: d.update(schema_version=2), f"schema_version is 2, and this lynxbench reads 1; {NEWER}"),
        (lambda d: d.update(mood="good"), "mood: not a key that this lynxbench knows; where a newer version wrote it"),
    ],
)
def test_a_result_of_another_version_is_refused_by_name(
    members: dict[str, bytes], change: Callable[[dict[str, Any]], None], said: str
) -> None:
    document = _document(members)
    change(document)
    with pytest.raises(BadResult) as refused:
        parse_result(json.dumps(document).encode(), "result.json")
    assert said in str(refused.value)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


def _statement(members: dict[str, bytes]) -> dict[str, Any]:
    envelope = json.loads(members["entries/0000000002.json"])
    found: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda e: e.update(schema_version=2), f"schema_version is 2, and this lynxbench reads 1; {NEWER}"),
        (lambda e: e["body"].update(kind="wish"), "'wish' is of no kind that this lynxbench knows"),
        (lambda e: e["body"].update(mood="good"), "mood: not a key that this lynxbench knows"),
    ],
)
def test_an_entry_of_another_version_is_refused_by_name(
    team: Team, members: dict[str, bytes], change: Callable[[dict[str, Any]], None], said: str
) -> None:
    statement = _statement(members)
    change(statement["predicate"])
    key = team.keyring.keys.open(team.name)
    with pytest.raises(EvidenceInvalid) as refused:
        open_entry(sign(STATEMENT_TYPE, canonical_bytes(statement), [key]))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.update(schema_version=0), "manifest.json: schema_version is 0, and this lynxbench reads 1"),
        (lambda m: m.update(schema_version=2), f"this lynxbench reads 1; {NEWER}"),
        (lambda m: m.update(schema_version=10**9), "schema_version is another"),
        (lambda m: m.update(compression="zstd"), "compression: not a key that this lynxbench knows"),
    ],
)
def test_a_bundle_of_another_version_is_refused_by_name(
    team: Team, members: dict[str, bytes], change: Callable[[dict[str, Any]], None], said: str, tmp_path: Path
) -> None:
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    path = _packed(tmp_path / "other.lynx", {**members, "manifest.json": canonical_bytes(manifest)})
    with team.open() as ledger, pytest.raises(EvidenceInvalid) as refused:
        import_bundle(ledger, path, team.keyring.trust)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    done = team.run("results", "import", str(path))
    assert done.code == 5
    assert done.err.count("\n") == 1
