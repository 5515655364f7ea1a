"""DSSE envelopes: a payload, its type, and Ed25519 signatures over both. One envelope has exactly one byte form.

https://github.com/secure-systems-lab/dsse, with everything that the specification leaves open closed: canonical JSON,
standard padded base64, no unknown keys, no key twice.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.canonical_reader import parse_base64, parse_canonical
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.trust import TrustedKey, TrustList
from lynxbench.model.canonical import JsonValue, canonical_bytes, short
from lynxbench.model.entries import Role

STATEMENT_TYPE: Final = "application/vnd.in-toto+json"
"""An in-toto statement: every entry of a ledger."""
CHECKPOINT_TYPE: Final = "application/vnd.lynxbench.checkpoint+json"
"""A ledger's size and root hash at one moment."""
KNOWN_TYPES: Final = frozenset({STATEMENT_TYPE, CHECKPOINT_TYPE})

MAX_ENVELOPE_BYTES: Final = 8 << 20
"""An entry is small (its documents are blobs); the largest, a foreign result, keeps far below this."""
SMALL_BYTES: Final = 16 << 10
"""Of an entry that is remembered among many: registrations and results are smaller, foreign results may be larger."""
MAX_SIGNATURES: Final = 64
SIGNATURE_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Signature:
    """One key's signature over the pre-authentication encoding."""

    keyid: str
    sig: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload with its type and signatures."""

    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...]
    _read: bytes | None = field(default=None, init=False, compare=False, repr=False)
    """The bytes that it was read from, where they are known to be its form; a changed copy has none."""

    def to_bytes(self) -> bytes:
        """The envelope's only byte form."""
        return self._read or canonical_bytes(self.to_document())

    def to_document(self) -> dict[str, JsonValue]:
        """The envelope as JSON."""
        return {
            "payload": _encode(self.payload),
            "payloadType": self.payload_type,
            "signatures": [{"keyid": signed.keyid, "sig": _encode(signed.sig)} for signed in self.signatures],
        }


def parse_envelope(data: bytes) -> Envelope:
    """An envelope from its bytes; EvidenceInvalid for any other spelling. Does not look at the signatures' worth."""
    return _parse_again(bytes(data)) if len(data) <= SMALL_BYTES else _parse(data)


@lru_cache(maxsize=1024)  # pure; every bundle about a contract brings the same registrations again
def _parse_again(data: bytes) -> Envelope:
    return _parse(data)


def _parse(data: bytes) -> Envelope:
    return _parse_quickly(data) or _envelope(parse_canonical(data, "envelope", MAX_ENVELOPE_BYTES))


def _parse_quickly(data: bytes) -> Envelope | None:
    """An envelope in order: what was read, written in the one form there is, gives these very bytes again.

    That equality leaves nothing to other readers, keys written twice or odd spellings. None: look closely, and say why.
    """
    if len(data) > MAX_ENVELOPE_BYTES:
        return None
    try:
        value = json.loads(data.decode("ascii"))
        envelope = _envelope(value)
    except (ValueError, RecursionError, EvidenceInvalid):
        return None
    if envelope.payload_type not in KNOWN_TYPES:  # the others may hold what has to be escaped
        return None
    signatures = ",".join(f'{{"keyid":"{sig["keyid"]}","sig":"{sig["sig"]}"}}' for sig in value["signatures"])
    written = f'{{"payload":"{value["payload"]}","payloadType":"{envelope.payload_type}","signatures":[{signatures}]}}'
    if written.encode("ascii") != data:
        return None
    object.__setattr__(envelope, "_read", bytes(data))
    return envelope


def _envelope(value: JsonValue) -> Envelope:
    parts = _object(value, ("payload", "payloadType", "signatures"), "envelope")
    payload_type, listed = parts["payloadType"], parts["signatures"]
    if not isinstance(payload_type, str):
        raise EvidenceInvalid("envelope: payloadType is not a text")
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_SIGNATURES:
        raise EvidenceInvalid(f"envelope: signatures must be a list of 1 to {MAX_SIGNATURES}")
    signatures = tuple(_signature(part) for part in listed)
    if len({signature.keyid for signature in signatures}) != len(signatures):
        raise EvidenceInvalid("envelope: one key signs twice; a key counts once")
    return Envelope(payload_type, parse_base64(parts["payload"], "payload"), signatures)


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """What is signed: the type and the payload, each with its length (DSSE PAE)."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload_type: str, payload: bytes, keys: Sequence[SigningKey]) -> Envelope:
    """A payload signed by each of the keys."""
    _refuse_unknown_type(payload_type)
    if not keys:
        raise EvidenceInvalid("nothing signs: at least one key is needed")
    envelope = Envelope(payload_type, payload, ())
    for key in keys:
        envelope = add_signature(envelope, key)
    return envelope


def add_signature(envelope: Envelope, key: SigningKey) -> Envelope:
    """The same envelope with one more signature; a key signs once."""
    _refuse_unknown_type(envelope.payload_type)
    if any(signature.keyid == key.keyid for signature in envelope.signatures):
        raise EvidenceInvalid(f"key {short(key.keyid)} has already signed this")
    signed = key.sign(pre_authentication_encoding(envelope.payload_type, envelope.payload))
    return replace(envelope, signatures=(*envelope.signatures, Signature(key.keyid, signed)))


@dataclass(frozen=True, slots=True)
class CheckedSignatures:
    """Who signed an envelope, and which signatures count for nothing, with the reason."""

    signers: tuple[TrustedKey, ...]
    """One that was revoked was so after it signed: the signature stays, and people are told."""
    ignored: tuple[str, ...]


def check_signatures(
    envelope: Envelope,
    trust: TrustList,
    *,
    payload_type: str = STATEMENT_TYPE,
    at: datetime | None = None,
    role: Role | None = None,
) -> CheckedSignatures:
    """Every signature held against the trust list at a time (now, unless told).

    A wrong signature in the name of a trusted key is an attack or damage and raises EvidenceInvalid. Keys that nobody
    trusts, or did not yet or no longer at that time, or that may not act in the role that is asked for, are ignored and
    listed.
    """
    _refuse_unknown_type(envelope.payload_type)
    if envelope.payload_type != payload_type:
        raise EvidenceInvalid(f"payload is {envelope.payload_type!r}, {payload_type!r} is expected here")
    moment = at or datetime.now(UTC)
    message = pre_authentication_encoding(envelope.payload_type, envelope.payload)
    signers: dict[bytes, TrustedKey] = {}
    ignored: list[str] = []
    for signature in envelope.signatures:
        known = trust.find(signature.keyid)
        if known is None:
            ignored.append(f"key {short(signature.keyid)} is not in the trust list")
            continue
        if not known.public.verify(message, signature.sig):
            raise EvidenceInvalid(f"the signature of key {short(signature.keyid)} ({known.team}) does not hold")
        refusal = known.refusal_at(moment) or (role and trust.refusal_as(known, role))
        if refusal:
            ignored.append(f"key {short(signature.keyid)} ({known.team}) {refusal}")
        else:
            signers.setdefault(known.public.raw, known)
    return CheckedSignatures(tuple(signers.values()), tuple(ignored))


def refuse_misnamed(envelope: Envelope, trust: TrustList, where: str) -> None:
    """EvidenceInvalid where a trusted key's signature stands under an id that is not its own: the id was changed."""
    message = pre_authentication_encoding(envelope.payload_type, envelope.payload)
    for signature in envelope.signatures:
        if trust.find(signature.keyid) is None:
            signer = next((key for key in trust.keys if key.public.verify(message, signature.sig)), None)
            if signer is not None:
                raise EvidenceInvalid(f"{where}: {signer.team} signed it, and it names key {short(signature.keyid)}")


def verify_signatures(
    envelope: Envelope,
    trust: TrustList,
    *,
    payload_type: str = STATEMENT_TYPE,
    at: datetime | None = None,
    role: Role | None = None,
) -> tuple[TrustedKey, ...]:
    """The distinct trusted keys that signed; EvidenceInvalid when there is none."""
    checked = check_signatures(envelope, trust, payload_type=payload_type, at=at, role=role)
    if not checked.signers:
        raise EvidenceInvalid(f"no trusted signature: {'; '.join(checked.ignored) or 'it is not signed'}")
    return checked.signers


def _refuse_unknown_type(payload_type: str) -> None:
    if payload_type not in KNOWN_TYPES:
        raise EvidenceInvalid(
            f"payload type {payload_type[:80]!r} is not known here; only {', '.join(sorted(KNOWN_TYPES))}"
        )


def _signature(value: JsonValue) -> Signature:
    parts = _object(value, ("keyid", "sig"), "signature")
    keyid = parts["keyid"]
    if not isinstance(keyid, str) or len(keyid) != 64 or not set(keyid) <= set("0123456789abcdef"):
        raise EvidenceInvalid("signature: keyid is not the SHA-256 of a public key in hex")
    sig = parse_base64(parts["sig"], "sig")
    if len(sig) != SIGNATURE_BYTES:
        raise EvidenceInvalid(f"signature: {len(sig)} bytes, an Ed25519 signature has {SIGNATURE_BYTES}")
    return Signature(keyid, sig)


def _object(value: JsonValue, keys: tuple[str, ...], what: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise EvidenceInvalid(f"{what}: not a JSON object")
    wrong = sorted(value.keys() ^ set(keys))
    if wrong:
        raise EvidenceInvalid(f"{what}: key {wrong[0]!r} is {'missing' if wrong[0] in keys else 'not known'}")
    return value


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
