"""Entries sealed as statements: what is opened is what was signed, and nothing else opens."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.envelope import STATEMENT_TYPE, Envelope, parse_envelope, sign
from lynxbench.evidence.statement import PREDICATE_TYPES, open_entry, seal_entry, verify_entry
from lynxbench.model.canonical import canonical_bytes, content_id
from lynxbench.model.entries import Blob, Entry, EntryKind, ForeignImported
from sealed import NOON, agreed, contest, key_of, trusting

KEY = key_of()


def resealed(entry: Entry, **changes: object) -> Envelope:
    """The statement of an entry with parts changed, signed as if it were right."""
    statement = json.loads(seal_entry(entry, [KEY]).payload)
    return sign(STATEMENT_TYPE, canonical_bytes({**statement, **changes}), [KEY])


@pytest.mark.parametrize("make", [contest, agreed, lambda: agreed("chat-serving"), lambda: agreed("training-step")])
def test_there_and_back(make) -> None:
    entry = make()
    envelope = parse_envelope(seal_entry(entry, [KEY]).to_bytes())
    verified = verify_entry(envelope, trusting(KEY))
    assert verified.entry == entry == open_entry(envelope)


def test_a_statement_is_an_in_toto_statement_about_blobs_and_ids() -> None:
    statement = json.loads(seal_entry(contest(), [KEY]).payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == PREDICATE_TYPES[EntryKind.CONTEST]
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert subjects == {
        "entry": content_id(statement["predicate"]),
        "blob:notes.txt": "ef" * 32,
        "result_id": "ab" * 32,
        "cites:0": "cd" * 32,
    }


def test_every_kind_has_a_predicate_type_of_its_own() -> None:
    assert len(set(PREDICATE_TYPES.values())) == len(EntryKind)


def test_a_payload_in_another_spelling_is_refused_although_its_signature_holds() -> None:
    payload = json.dumps(json.loads(seal_entry(contest(), [KEY]).payload), indent=1).encode()
    envelope = sign(STATEMENT_TYPE, payload, [KEY])
    with pytest.raises(EvidenceInvalid, match="canonical form"):
        verify_entry(envelope, trusting(KEY))


def test_the_entry_comes_from_the_signed_bytes_and_not_from_a_second_reading() -> None:
    """A payload with one key twice reads differently in different parsers; it is read by none."""
    payload = seal_entry(contest(), [KEY]).payload
    twin = payload.replace(b'"reason":', b'"reason":"all is well","reason":', 1)
    with pytest.raises(EvidenceInvalid, match="twice"):
        verify_entry(sign(STATEMENT_TYPE, twin, [KEY]), trusting(KEY))


WRONG = {
    "another kind's predicate type": {"predicateType": PREDICATE_TYPES[EntryKind.RETRACTION]},
    "an unknown predicate type": {"predicateType": "https://slsa.dev/provenance/v1"},
    "another statement type": {"_type": "https://in-toto.io/Statement/v0.1"},
    "no subject": {"subject": []},
    "another subject": {"subject": [{"name": "entry", "digest": {"sha256": "00" * 32}}]},
    "one key more": {"more": 1},
    "no entry": {"predicate": {}},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_statement_that_contradicts_its_entry_is_refused(name: str) -> None:
    with pytest.raises(EvidenceInvalid):
        open_entry(resealed(contest(), **WRONG[name]))


def test_an_entry_with_an_unknown_key_or_a_quiet_spelling_is_refused() -> None:
    predicate = json.loads(seal_entry(agreed(), [KEY]).payload)["predicate"]
    predicate["body"]["contract"]["protocol"]["limit"] = "90000 ms"
    with pytest.raises(EvidenceInvalid):
        open_entry(resealed(agreed(), predicate=predicate))
    with pytest.raises(EvidenceInvalid, match="more"):
        open_entry(resealed(contest(), predicate={**contest().model_dump(mode="json"), "more": 1}))


def test_a_contract_under_another_s_id_is_refused() -> None:
    entry = agreed()
    other = entry.model_copy(update={"body": entry.body.model_copy(update={"contract_id": "00" * 32})})
    with pytest.raises(EvidenceInvalid, match="contract_id"):
        seal_entry(other, [KEY])


@pytest.mark.parametrize("made_at", ["yesterday", "2026-11-15T12:00:00", "2026-11-15T12:00:00+01:00", ""])
def test_an_entry_s_time_is_in_utc(made_at: str) -> None:
    with pytest.raises(EvidenceInvalid):
        seal_entry(contest().model_copy(update={"made_at": made_at}), [KEY])


def test_blobs_have_names_of_their_own_and_no_path() -> None:
    blob = contest().blobs[0]
    with pytest.raises(EvidenceInvalid, match="share a name"):
        seal_entry(contest().model_copy(update={"blobs": (blob, blob)}), [KEY])
    for name in ("../secrets", "/etc/passwd", "a/b", ".hidden", "a\\b", "", "a\x00b", "naïve.txt"):
        with pytest.raises(ValueError, match="pattern"):
            Blob(name=name, sha256="ab" * 32, size_bytes=1)


def test_large_numbers_survive_or_are_refused() -> None:
    def foreign(value: object) -> Entry:
        body = ForeignImported(tool="x", figures={}, stated={"value": value}, missing=())
        return Entry(made_at=NOON.isoformat(), body=body)

    for value in (1e17, 1e21, 1e300, 2**53 - 1, -0.0, 5e-324):
        opened = open_entry(seal_entry(foreign(value), [KEY]))
        assert opened.body.stated["value"] == value
    with pytest.raises(EvidenceInvalid, match="large integers"):
        seal_entry(foreign(2**53 + 1), [KEY])
    with pytest.raises(EvidenceInvalid):
        seal_entry(foreign("\ud800"), [KEY])


def test_a_checkpoint_is_not_an_entry() -> None:
    envelope = seal_entry(contest(), [KEY])
    with pytest.raises(EvidenceInvalid, match="not a statement"):
        open_entry(Envelope("application/vnd.lynxbench.checkpoint+json", envelope.payload, envelope.signatures))


def test_what_a_key_signed_before_it_was_revoked_stays_and_is_told() -> None:
    trust = trusting(KEY).revoking(KEY.keyid, "laptop lost", NOON + timedelta(hours=1))
    (signer,) = verify_entry(seal_entry(contest(), [KEY]), trust).signers
    assert signer.revoked is not None
    assert signer.revoked.reason == "laptop lost"


def test_what_a_key_signed_after_it_was_revoked_counts_for_nothing() -> None:
    trust = trusting(KEY).revoking(KEY.keyid, "laptop lost", NOON - timedelta(hours=1))
    with pytest.raises(EvidenceInvalid, match="revoked"):
        verify_entry(seal_entry(contest(), [KEY]), trust)
