"""A result for people who do not have lynxbench: envelopes, public keys and documents that stock tools verify."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.evidence.attestations import derive_statements, public_pem, sigstore_bundle
from lynxbench.evidence.documents import RESULT_FILE
from lynxbench.evidence.envelope import CheckedSignatures, Envelope, check_signatures
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.trust import TrustedKey
from lynxbench.evidence.whole_files import written_whole
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.log import Logged
from lynxbench.ledger.queries import find_result
from lynxbench.model.canonical import JsonValue, canonical_bytes, short
from lynxbench.model.entries import ResultRecorded
from lynxbench.record.recalling import document_of

CONTRACT_FILE = "contract.json"
LINES_FILE = "attestations.intoto.jsonl"
KEYS_FOLDER = "keys"


@dataclass(frozen=True, slots=True)
class Attested:
    """What was written about a result."""

    result_id: str
    files: tuple[str, ...]
    """Below the folder."""
    signed_by: tuple[str, ...]
    not_derived: str | None
    """Why there are no statements of registered predicate types, where there are none."""


def attest_result(ledger: OpenLedger, result_id: str, folder: Path, keyring: Keyring) -> Attested:
    """Write a result's signed entry, what follows from it, and the keys and documents to verify both with."""
    logged = find_result(ledger.log, result_id)
    if logged is None:
        raise BadInput(f"{short(result_id)}: no such result in {ledger.log.database.name}")
    checked = check_signatures(logged.envelope, keyring.trust, at=logged.judged_at)
    if not checked.signers:
        raise EvidenceInvalid(f"result {short(result_id)}: no trusted signature: {'; '.join(checked.ignored)}")
    key, why = _own_key(keyring, checked, datetime.now(UTC))
    envelopes = {"entry": logged.envelope}
    if key is not None:
        envelopes |= derive_statements(logged.envelope, key)
    contents = {**_documents(ledger, logged), **_attestations(envelopes), **_keys(checked.signers)}
    try:
        for name, data in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with written_whole(folder / name) as stream:
                stream.write(data)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written: {error.strerror or error}; name a folder with --out") from error
    teams = tuple(dict.fromkeys(signer.team for signer in checked.signers))
    return Attested(result_id, tuple(sorted(contents)), teams, why)


def _own_key(keyring: Keyring, checked: CheckedSignatures, now: datetime) -> tuple[SigningKey | None, str | None]:
    """The key here that signed the entry, or why no statement is derived: nobody speaks in another team's name."""
    here = {keyring.keys.card(name).keyid: name for name in keyring.keys.names()}
    own = next((signer for signer in checked.signers if signer.keyid in here), None)
    if own is None:
        teams = ", ".join(dict.fromkeys(signer.team for signer in checked.signers))
        return None, f"no key that signed the entry is here; {teams} derives and signs them"
    refusal = own.refusal_at(now)
    if refusal is not None:
        return None, f"key {short(own.keyid)} {refusal}"
    return keyring.keys.open(here[own.keyid]), None


def _documents(ledger: OpenLedger, logged: Logged) -> dict[str, bytes]:
    """The files whose SHA-256 the statements name, byte by byte."""
    body, contract = logged.entry.body, document_of(ledger, logged).contract
    assert isinstance(body, ResultRecorded)
    document = next(blob.sha256 for blob in logged.entry.blobs if blob.name == RESULT_FILE)
    if contract.contract_id != body.contract_id:
        raise EvidenceInvalid(f"result {short(body.result_id)}: its contract is not the one that its entry names")
    return {
        RESULT_FILE: ledger.blobs.get(document),
        CONTRACT_FILE: canonical_bytes(cast("JsonValue", contract.canonical())),
    }


def _attestations(envelopes: dict[str, Envelope]) -> dict[str, bytes]:
    contents = {f"{name}.dsse.json": envelope.to_bytes() for name, envelope in envelopes.items()}
    contents[LINES_FILE] = b"".join(envelope.to_bytes() + b"\n" for envelope in envelopes.values())
    for name, envelope in envelopes.items():
        if len(envelope.signatures) == 1:
            contents[f"{name}.sigstore.json"] = canonical_bytes(sigstore_bundle(envelope))
    return contents


def _keys(signers: Sequence[TrustedKey]) -> dict[str, bytes]:
    return {f"{KEYS_FOLDER}/{signer.keyid}.pem": public_pem(signer.public).encode("ascii") for signer in signers}
