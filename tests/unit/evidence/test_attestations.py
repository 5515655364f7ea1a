"""Entries held against other people's tools: securesystemslib verifies the envelopes, in-toto reads the statements."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib import dsse
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from ledgers import MADE_AT, decision, key_of, recorded, sealed, sha
from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.attestations import (
    SIGSTORE_BUNDLE,
    SLSA_PROVENANCE,
    TEST_RESULT,
    derive_statements,
    public_pem,
    sigstore_bundle,
)
from lynxbench.evidence.envelope import Envelope, add_signature
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.statement import open_entry, seal_entry
from lynxbench.ledger.log import Ledger
from lynxbench.model.entries import Blob, Entry
from lynxbench.model.precision import Precision
from lynxbench.model.verdicts import ValidityVerdict

OURS, THEIRS = key_of("alpha"), key_of("bravo")
BLOBS = tuple(Blob(name=name, sha256=sha(name), size_bytes=7) for name in ("result.json", "samples.npz"))


def entry_of(validity: ValidityVerdict = ValidityVerdict.VALID, key: SigningKey = OURS) -> Envelope:
    body = recorded("x", precisions=(Precision.FP32, Precision.INT8), validity=validity)
    return seal_entry(Entry(made_at=MADE_AT, body=body, blobs=BLOBS), [key])


def every_envelope() -> dict[str, Envelope]:
    return {"entry": entry_of(), **derive_statements(entry_of(), OURS)}


def stock_key(key: SigningKey) -> SSlibKey:
    """The key as somebody has it who knows its PEM file alone; its id is the file's name."""
    return SSlibKey.from_crypto(load_pem_public_key(public_pem(key.card.public).encode()), keyid=key.keyid)


def verified(data: bytes, key: SigningKey = OURS) -> bytes:
    """The payload that securesystemslib believes."""
    envelope = dsse.Envelope.from_dict(json.loads(data))
    assert envelope.verify([stock_key(key)], 1).keys() == {key.keyid}
    assert envelope.payload_type == "application/vnd.in-toto+json"
    payload: bytes = envelope.payload
    return payload


def read(payload: bytes) -> Statement:
    """The statement as in-toto's own library reads and validates it."""
    statement = Statement.copy_from_pb(json_format.Parse(payload, statement_pb2.Statement()))
    statement.validate()
    return statement


@pytest.mark.parametrize("name", ["entry", "test-result", "provenance"])
def test_stock_tools_verify_and_read(name: str) -> None:
    statement = read(verified(every_envelope()[name].to_bytes()))
    assert {one.name: one.digest["sha256"] for one in statement.pb.subject}[
        "blob:result.json" if name == "entry" else "result.json"
    ] == sha("result.json")


@pytest.mark.parametrize("name", ["entry", "test-result", "provenance"])
def test_stock_tools_find_every_flipped_byte(name: str) -> None:
    document = every_envelope()[name].to_document()
    payload = base64.b64decode(str(document["payload"]))
    for place in range(0, len(payload), 7):
        bent = bytearray(payload)
        bent[place] ^= 1 << place % 8
        changed = {**document, "payload": base64.b64encode(bytes(bent)).decode()}
        with pytest.raises(VerificationError):
            verified(json.dumps(changed).encode())
    for other in ("application/vnd.in-toto+json ", "application/json"):
        with pytest.raises(VerificationError):
            verified(json.dumps({**document, "payloadType": other}).encode())
    (signature,) = document["signatures"]  # type: ignore[misc]
    raw = bytearray(base64.b64decode(signature["sig"]))  # type: ignore[index]
    for place in range(len(raw)):
        bent = bytearray(raw)
        bent[place] ^= 1
        lines = [{**signature, "sig": base64.b64encode(bytes(bent)).decode()}]  # type: ignore[dict-item]
        with pytest.raises(VerificationError):
            verified(json.dumps({**document, "signatures": lines}).encode())


def test_another_teams_key_does_not_verify() -> None:
    with pytest.raises((VerificationError, AssertionError)):
        verified(entry_of().to_bytes(), THEIRS)
    renamed = json.loads(entry_of().to_bytes())
    renamed["signatures"][0]["keyid"] = THEIRS.keyid
    with pytest.raises(VerificationError):
        verified(json.dumps(renamed).encode(), THEIRS)


@pytest.mark.parametrize(
    ("validity", "word", "field"),
    [
        (ValidityVerdict.VALID, "PASSED", "passed_tests"),
        (ValidityVerdict.DOUBTFUL, "WARNED", "warned_tests"),
        (ValidityVerdict.VOID, "FAILED", "failed_tests"),
    ],
)
def test_the_test_result_is_what_its_specification_demands(validity: ValidityVerdict, word: str, field: str) -> None:
    envelope = derive_statements(entry_of(validity), OURS)["test-result"]
    statement = json.loads(envelope.payload)
    assert statement["predicateType"] == TEST_RESULT
    result = json_format.ParseDict(statement["predicate"], test_result_pb2.TestResult())
    assert result.result == word
    assert [one.digest["sha256"] for one in result.configuration] == [sha("contract")]
    assert result.url == f"urn:lynxbench:result:{sha('result x')}"
    lists = {name: list(getattr(result, name)) for name in ("passed_tests", "warned_tests", "failed_tests")}
    assert lists.pop(field) == ["measurement at fp32", "measurement at int8"]
    assert all(names == [] for names in lists.values())


def test_the_provenance_is_what_its_specification_demands() -> None:
    native = entry_of()
    statement = json.loads(derive_statements(native, OURS)["provenance"].payload)
    assert statement["predicateType"] == SLSA_PROVENANCE
    provenance = json_format.ParseDict(statement["predicate"], provenance_pb2.Provenance())
    definition, details = provenance.build_definition, provenance.run_details
    assert definition.build_type == "urn:lynxbench:run:1"
    assert definition.external_parameters["contract"]["digest"]["sha256"] == sha("contract")
    assert definition.internal_parameters["executor_id"] == sha("executor")
    assert definition.resolved_dependencies[1].uri == f"urn:lynxbench:model:{sha('weights')}"
    assert details.builder.id == "urn:lynxbench:team:alpha"
    assert details.metadata.invocation_id == "run-x"
    assert details.metadata.started_on.ToJsonString() == "2026-11-15T09:00:00Z"
    products = {one.name: one.digest["sha256"] for one in details.byproducts}
    assert products["samples.npz"] == sha("samples.npz")
    assert products["entry.dsse.json"] == sha(native.to_bytes().decode())


def test_the_same_entry_always_derives_the_same_statements() -> None:
    native = entry_of()
    assert derive_statements(native, OURS) == derive_statements(native, OURS)
    assert native.to_bytes() == entry_of().to_bytes(), "the entry itself is never touched"


def test_nobody_derives_in_anothers_name() -> None:
    with pytest.raises(EvidenceInvalid, match="did not sign this entry"):
        derive_statements(entry_of(), THEIRS)
    with pytest.raises(EvidenceInvalid, match="is no result"):
        derive_statements(sealed(decision("buy"), OURS), OURS)
    bare = seal_entry(Entry(made_at=MADE_AT, body=recorded("x")), [OURS])
    with pytest.raises(EvidenceInvalid, match="does not name its document"):
        derive_statements(bare, OURS)


@pytest.mark.parametrize("name", ["test-result", "provenance"])
def test_a_derived_statement_is_no_entry_of_a_ledger(name: str, tmp_path: Path) -> None:
    derived = derive_statements(entry_of(), OURS)[name]
    with pytest.raises(EvidenceInvalid):
        open_entry(derived)
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        with pytest.raises(EvidenceInvalid):
            ledger.append(derived)
        assert ledger.head().size == 0


def test_a_sigstore_bundle_holds_the_envelope_as_it_is() -> None:
    native = entry_of()
    bundle = sigstore_bundle(native)
    assert bundle["mediaType"] == SIGSTORE_BUNDLE
    assert bundle["verificationMaterial"] == {"publicKey": {"hint": OURS.keyid}, "tlogEntries": []}
    assert verified(json.dumps(bundle["dsseEnvelope"]).encode()) == native.payload
    with pytest.raises(EvidenceInvalid, match="2 signatures"):
        sigstore_bundle(add_signature(native, THEIRS))
