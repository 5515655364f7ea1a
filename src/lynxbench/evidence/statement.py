"""Entries as in-toto statements (v1): what is said, about which documents, sealed in a signed envelope.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from typing import Final, cast

from pydantic import Field, ValidationError
from pydantic import JsonValue as JsonAny
from rfc8785 import CanonicalizationError

from lynxbench.errors import EvidenceInvalid, NewerEntry
from lynxbench.evidence.canonical_reader import as_written, parse_canonical
from lynxbench.evidence.envelope import (
    MAX_ENVELOPE_BYTES,
    SMALL_BYTES,
    STATEMENT_TYPE,
    Envelope,
    sign,
    verify_signatures,
)
from lynxbench.evidence.key_entries import key_of_entry
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.trust import TrustedKey, TrustList, parse_moment
from lynxbench.model.canonical import JsonValue, canonical_bytes
from lynxbench.model.document import Document, first_problem
from lynxbench.model.entries import ACTS, ContractAgreed, Entry, EntryKind, KeyAnnounced, KeyRevoked

IN_TOTO_STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPES: Final = {kind: f"urn:lynxbench:entry:{kind.value}:1" for kind in EntryKind}

UPDATE: Final = "a newer lynxbench wrote it: update lynxbench to read it"
_KNOWN_KINDS = frozenset(kind.value for kind in EntryKind)
_KIND = re.compile(r"[a-z][a-z-]{0,39}")
_COLUMNS = ("contract_id", "executor_id", "result_id", "run_id")
_NAMED_IDS = (
    "contract_id",
    "executor_id",
    "instance_id",
    "result_id",
    "rerun_id",
    "change_id",
    "before",
    "after",
    "weights",
    "analysis_id",
    "base_contract_id",
    "keyid",
)


@dataclass(frozen=True, slots=True)
class VerifiedEntry:
    """An entry read from the very bytes that its signers signed."""

    entry: Entry
    signers: tuple[TrustedKey, ...]


def seal_entry(entry: Entry, keys: Sequence[SigningKey]) -> Envelope:
    """An entry as a signed statement. Refuses one that would not open again."""
    unsaid = None if entry.invented else {"invented"}
    predicate = cast("JsonValue", entry.model_dump(mode="json", by_alias=True, exclude=unsaid))
    try:
        payload = _payload(entry, canonical_bytes(predicate))
    except (CanonicalizationError, UnicodeEncodeError) as error:
        raise EvidenceInvalid(f"entry: a value has no canonical form ({error}); write large integers as text") from None
    _open(payload)
    return sign(STATEMENT_TYPE, payload, keys)


def open_entry(envelope: Envelope) -> Entry:
    """The entry that an envelope's payload states; EvidenceInvalid where it is not exactly one. Trusts no signature."""
    if envelope.payload_type != STATEMENT_TYPE:
        raise EvidenceInvalid(f"payload type {envelope.payload_type[:80]!r} is not a statement ({STATEMENT_TYPE})")
    return _open(envelope.payload)


def verify_entry(envelope: Envelope, trust: TrustList) -> VerifiedEntry:
    """The entry and its signers, both from the same bytes; EvidenceInvalid where either does not hold."""
    entry = _open(envelope.payload)
    at, role = parse_time(entry.made_at), ACTS.get(entry.body.kind)
    return VerifiedEntry(entry, verify_signatures(envelope, trust, at=at, role=role))


def subjects_of(entry: Entry, identifier: str) -> tuple[tuple[str, str], ...]:
    """Name and SHA-256 of everything an entry speaks of: itself, its blobs, the ids in its body."""
    body = entry.body
    subjects = [("entry", identifier)]
    subjects += [(f"blob:{blob.name}", blob.sha256) for blob in entry.blobs]
    for name in _named_ids(type(body)):
        value = getattr(body, name)
        if isinstance(value, str):
            subjects.append((name, value))
    subjects += [(f"cites:{index}", cited) for index, cited in enumerate(getattr(body, "cites", ()))]
    subjects += [(f"layer:{layer.value}", value) for layer, value in getattr(body, "layer_ids", {}).items()]
    return tuple(sorted(subjects))


@cache
def _named_ids(kind: type[Document]) -> tuple[str, ...]:
    """Those of the ids that entries of a kind have at all: asking a model for what it lacks is slow."""
    return tuple(name for name in _NAMED_IDS if name in kind.model_fields or hasattr(kind, name))


def parse_time(text: str) -> datetime:
    """A moment in UTC as entries write it; EvidenceInvalid otherwise."""
    try:
        return parse_moment(text)
    except ValueError as error:
        raise EvidenceInvalid(str(error)) from None


def _open(payload: bytes) -> Entry:
    return _open_small(payload) if len(payload) <= SMALL_BYTES else _open_large(payload)


@lru_cache(maxsize=1024)  # pure; every bundle about a contract brings the same registrations again
def _open_small(payload: bytes) -> Entry:
    return _open_anew(payload)


@lru_cache(maxsize=16)  # what was just sealed is opened again on its way into the log
def _open_large(payload: bytes) -> Entry:
    return _open_anew(payload)


def _open_anew(payload: bytes) -> Entry:
    entry = _open_quickly(payload) or _open_slowly(payload)
    _refuse_incoherent(entry)
    return entry


class _Statement(Document):
    """A statement as far as its entry is concerned; the rest of it follows from the entry."""

    type_: str = Field(alias="_type")
    subject: JsonAny
    predicate_type: str = Field(alias="predicateType")
    predicate: Entry


def _open_quickly(payload: bytes) -> Entry | None:
    """The entry of a statement in order: it is whatever, written canonically, gives these very bytes again.

    That equality leaves nothing to other readers, keys written twice or odd spellings. None: look closely, and say why.
    """
    if len(payload) > MAX_ENVELOPE_BYTES:
        return None
    try:
        statement = _Statement.model_validate_json(payload)
        entry = statement.predicate
        # Written by the statement, whose form is built by now: a list of results needs that of an entry nowhere else.
        plain = statement.model_dump(mode="json", by_alias=True, exclude_unset=True, include={"predicate"})
        return entry if _payload(entry, canonical_bytes(plain["predicate"])) == payload else None
    except (ValidationError, CanonicalizationError, UnicodeEncodeError):
        return None


def _open_slowly(payload: bytes) -> Entry:
    """The same step by step, so that each thing that can be wrong is said."""
    statement = parse_canonical(payload, "statement", MAX_ENVELOPE_BYTES)
    if not isinstance(statement, dict) or statement.keys() != {"_type", "subject", "predicateType", "predicate"}:
        raise EvidenceInvalid("statement: not an in-toto statement with _type, subject, predicateType and predicate")
    predicate = statement["predicate"]
    newer = _newer_kind(predicate, statement["predicateType"])
    if newer:
        raise NewerEntry(f"an entry of kind {newer!r}, which this version does not know; {UPDATE}")
    try:  # canonical bytes have one reading, so a second parser sees the same value
        entry = Entry.model_validate_json(canonical_bytes(predicate))
    except ValidationError as error:
        raise EvidenceInvalid(f"statement: {first_problem(error, 'predicate')}") from None
    if statement["predicateType"] != PREDICATE_TYPES[entry.body.kind]:
        raise EvidenceInvalid(
            f"statement: predicate type {str(statement['predicateType'])[:80]!r} on a {entry.body.kind}"
        )
    # Values that a reader would quietly normalise (0.50 s for 0.5 s) are refused; keys with defaults may be absent,
    # so that entries sealed before such a key existed still open.
    written = entry.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if _payload(entry, canonical_bytes(as_written(cast("JsonValue", written)))) != payload:
        raise EvidenceInvalid("statement: subjects or values differ from what the entry itself says")
    return entry


def _newer_kind(predicate: JsonValue, predicate_type: JsonValue) -> str:
    """The kind of a statement that is in order as far as one can tell without knowing that kind; empty for all else."""
    body = predicate.get("body") if isinstance(predicate, dict) else None
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or kind in _KNOWN_KINDS or not _KIND.fullmatch(kind):
        return ""
    return kind if predicate_type == f"urn:lynxbench:entry:{kind}:1" else ""


def newer_columns(envelope: Envelope) -> dict[str, str | None]:
    """What a ledger keeps beside an entry of a kind that this version does not know: read, and not understood."""
    statement = parse_canonical(envelope.payload, "statement", MAX_ENVELOPE_BYTES)
    predicate = statement["predicate"] if isinstance(statement, dict) else None
    body = predicate.get("body") if isinstance(predicate, dict) else None
    if not isinstance(predicate, dict) or not isinstance(body, dict):
        raise EvidenceInvalid("statement: states no entry")
    told = {"made_at": predicate.get("made_at"), **{name: body.get(name) for name in ("kind", *_COLUMNS)}}
    signers = " ".join(signature.keyid for signature in envelope.signatures)
    return {"signers": signers} | {name: value if isinstance(value, str) else None for name, value in told.items()}


def _payload(entry: Entry, predicate: bytes) -> bytes:
    """The statement's canonical bytes around those of its predicate: keys in order, subjects plain ASCII by rule."""
    identifier = hashlib.sha256(predicate).hexdigest()
    subjects = ",".join(
        f'{{"digest":{{"sha256":"{digest}"}},"name":"{name}"}}' for name, digest in subjects_of(entry, identifier)
    )
    kind = PREDICATE_TYPES[entry.body.kind]
    return b"".join(
        (
            f'{{"_type":"{IN_TOTO_STATEMENT}","predicate":'.encode(),
            predicate,
            f',"predicateType":"{kind}","subject":[{subjects}]}}'.encode(),
        )
    )


def _refuse_incoherent(entry: Entry) -> None:
    parse_time(entry.made_at)
    names = [blob.name for blob in entry.blobs]
    if len(set(names)) != len(names):
        raise EvidenceInvalid("entry: two blobs share a name")
    body = entry.body
    if isinstance(body, ContractAgreed) and body.contract_id != body.contract.contract_id:
        raise EvidenceInvalid("entry: contract_id is not the id of the contract inside")
    if isinstance(body, KeyAnnounced):
        key_of_entry(body)
    if isinstance(body, KeyRevoked):
        parse_time(body.since)
