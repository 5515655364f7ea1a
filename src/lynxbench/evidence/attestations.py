"""An entry for other people's tools: statements of registered predicate types, keys as PEM, Sigstore bundles.

A derived statement says nothing that its entry does not say, stands beside it and is signed by a key that signed it.

https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md
https://slsa.dev/spec/v1.0/provenance
https://docs.sigstore.dev/about/bundle
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC
from typing import Final

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.documents import RESULT_FILE
from lynxbench.evidence.envelope import STATEMENT_TYPE, Envelope, sign
from lynxbench.evidence.keys import PublicKey, SigningKey
from lynxbench.evidence.manifest import ENVELOPE_FILE
from lynxbench.evidence.statement import IN_TOTO_STATEMENT, open_entry, parse_time
from lynxbench.model.canonical import JsonValue, canonical_bytes, short
from lynxbench.model.entries import Entry, ResultRecorded
from lynxbench.model.verdicts import ValidityVerdict

TEST_RESULT: Final = "https://in-toto.io/attestation/test-result/v0.1"
SLSA_PROVENANCE: Final = "https://slsa.dev/provenance/v1"
RUN_TYPE: Final = "urn:lynxbench:run:1"
"""The `buildType` of a run: docs/how-to/verify-with-stock-tools.md says what its parameters mean."""
SIGSTORE_BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"

_OUTCOMES: Final = {
    ValidityVerdict.VALID: ("PASSED", "passedTests"),
    ValidityVerdict.DOUBTFUL: ("WARNED", "warnedTests"),
    ValidityVerdict.VOID: ("FAILED", "failedTests"),
}
"""What was tested is the measurement: whether its figures may be used, never whether they please."""


def derive_statements(envelope: Envelope, key: SigningKey) -> dict[str, Envelope]:
    """By short name: the entry of a result as a test result and as the provenance of its run, signed by its own key."""
    if key.keyid not in {signature.keyid for signature in envelope.signatures}:
        raise EvidenceInvalid(f"key {short(key.keyid)} did not sign this entry, and says nothing in its signer's name")
    entry = open_entry(envelope)
    if not isinstance(entry.body, ResultRecorded):
        raise EvidenceInvalid(f"a {entry.body.kind.value} is no result; no registered predicate says what it says")
    predicates = {
        "test-result": (TEST_RESULT, _test_result(entry.body)),
        "provenance": (SLSA_PROVENANCE, _provenance(entry, entry.body, envelope, key)),
    }
    subjects = _subjects(entry, entry.body)
    return {
        name: sign(STATEMENT_TYPE, _statement(kind, predicate, subjects), [key])
        for name, (kind, predicate) in predicates.items()
    }


def sigstore_bundle(envelope: Envelope) -> dict[str, JsonValue]:
    """The envelope as a Sigstore bundle for a key that the verifier has; one has exactly one signature."""
    if len(envelope.signatures) != 1:
        raise EvidenceInvalid(f"{len(envelope.signatures)} signatures; a Sigstore bundle holds one")
    material: JsonValue = {"publicKey": {"hint": envelope.signatures[0].keyid}, "tlogEntries": []}
    return {"mediaType": SIGSTORE_BUNDLE, "verificationMaterial": material, "dsseEnvelope": envelope.to_document()}


def public_pem(public: PublicKey) -> str:
    """A public key as every tool reads it: SubjectPublicKeyInfo in PEM."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = Ed25519PublicKey.from_public_bytes(public.raw)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def _statement(kind: str, predicate: JsonValue, subjects: JsonValue) -> bytes:
    return canonical_bytes(
        {"_type": IN_TOTO_STATEMENT, "subject": subjects, "predicateType": kind, "predicate": predicate}
    )


def _subjects(entry: Entry, body: ResultRecorded) -> list[JsonValue]:
    """The result's document, and what was measured."""
    document = next((blob for blob in entry.blobs if blob.name == RESULT_FILE), None)
    if document is None:
        raise EvidenceInvalid(f"the entry of result {short(body.result_id)} does not name its document")
    return [_resource(RESULT_FILE, document.sha256), _resource("executor", body.executor_id)]


def _test_result(body: ResultRecorded) -> dict[str, JsonValue]:
    tests: dict[str, list[JsonValue]] = {listed: [] for _, listed in _OUTCOMES.values()}
    for figures in body.per_precision:
        tests[_OUTCOMES[figures.validity][1]].append(f"measurement at {figures.precision.value}")
    return {
        "result": _OUTCOMES[body.validity][0],
        "configuration": [_resource(f"contract {body.contract_name}", body.contract_id)],
        "url": f"urn:lynxbench:result:{body.result_id}",
        **tests,
    }


def _provenance(entry: Entry, body: ResultRecorded, envelope: Envelope, key: SigningKey) -> dict[str, JsonValue]:
    contract = _resource(f"contract {body.contract_name}", body.contract_id)
    model: list[JsonValue] = []
    if body.weights is not None:  # a hash over several files is no SHA-256 of one: an address, not a digest
        model.append({"name": "model", "uri": f"urn:lynxbench:model:{body.weights}"})
    return {
        "buildDefinition": {
            "buildType": RUN_TYPE,
            "externalParameters": {"contract": contract},
            "internalParameters": {
                "executor_id": body.executor_id,
                "instance_id": body.instance_id,
                "layer_ids": {layer.value: identifier for layer, identifier in body.layer_ids.items()},
                "nonce": body.nonce,
                "attempts": body.attempts,
            },
            "resolvedDependencies": [contract, *model],
        },
        "runDetails": {
            "builder": {"id": f"urn:lynxbench:team:{key.team}"},
            "metadata": {
                "invocationId": body.run_id,
                "startedOn": _in_rfc3339(body.started_at),
                "finishedOn": _in_rfc3339(body.finished_at),
            },
            "byproducts": [
                _resource(ENVELOPE_FILE, hashlib.sha256(envelope.to_bytes()).hexdigest()),
                *(_resource(blob.name, blob.sha256) for blob in entry.blobs if blob.name != RESULT_FILE),
            ],
        },
    }


def _resource(name: str, sha256: str) -> Mapping[str, JsonValue]:
    return {"name": name, "digest": {"sha256": sha256}}


def _in_rfc3339(moment: str) -> str:
    """UTC with a Z, as the specification has it."""
    return parse_time(moment).astimezone(UTC).isoformat().replace("+00:00", "Z")
