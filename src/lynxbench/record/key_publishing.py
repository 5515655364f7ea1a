"""What a person knows of a key, said in a ledger: whose it is, that it was revoked, which token binds it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lynxbench.errors import BadInput, EvidenceInvalid, Refused
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.id_tokens import CLOCK_SLACK, IdToken, parse_id_token
from lynxbench.evidence.issuer_keys import IssuerKey
from lynxbench.evidence.key_entries import announcement_of, signed_by
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.statement import open_entry, seal_entry
from lynxbench.evidence.trust import TrustedKey, TrustList, parse_moment
from lynxbench.ledger.key_log import judge_key_entries, read_key_log
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.log import Logged
from lynxbench.model.canonical import short
from lynxbench.model.entries import Entry, KeyAnnounced, KeyRevoked


@dataclass(frozen=True, slots=True)
class PublishedKey:
    """What was said of a key, and where."""

    seq: int
    body: KeyAnnounced | KeyRevoked


def publish_key(ledger: OpenLedger, ring: Keyring, keyid: str, now: datetime) -> PublishedKey | None:
    """Say in the ledger what the trust list says of a key; None where the ledger says so already."""
    trust = ring.trust
    known = trust.find(keyid)
    if known is None:
        raise BadInput(f"key {short(keyid)} is not in the trust list")
    log = read_key_log(ledger.log, trust)
    if known.revoked is None:
        if keyid in log.announced:
            return None
        body: KeyAnnounced | KeyRevoked = announcement_of(known)
    else:
        if keyid in log.revoked:
            return None
        if parse_moment(known.revoked.at) > now:
            raise BadInput(f"key {short(keyid)} is revoked from {known.revoked.at} on; say it in the ledger then")
        body = KeyRevoked(keyid=keyid, since=known.revoked.at, reason=known.revoked.reason)
    return _append(ledger, trust, body, _signers(ring, known, now), now)


def bind_key(
    ledger: OpenLedger, ring: Keyring, name: str, token_text: str, issuer_keys: tuple[IssuerKey, ...], now: datetime
) -> tuple[PublishedKey, IdToken]:
    """Say in the ledger which identity a key of this folder has for as long as a token lives.

    The token goes nowhere before it is known to be signed by its issuer and made out to this key alone.
    """
    key, token = ring.keys.open(name), parse_id_token(token_text)
    token.refuse_unbound(key.keyid)
    if not token.is_signed_by(issuer_keys):
        raise EvidenceInvalid(f"no key {token.kid[:80]!r} of {token.issuer[:80]!r} signed the token")
    for event in read_key_log(ledger.log, ring.trust).events:
        if _token_of(event.body) is not None and signed_by(event.logged.envelope, key.card.public):
            bound = f"key {short(key.keyid)} was bound by entry {event.logged.seq}"
            raise Refused(f"{bound}; make a fresh key for each token")
    if not token.issued_at - CLOCK_SLACK <= now < token.expires_at:
        raise EvidenceInvalid(f"the token lives from {token.issued_at} to {token.expires_at}; it is {now} now")
    short_lived = TrustedKey(
        keyid=key.keyid,
        public_key=key.card.public_key,
        team=key.team,
        roles=key.card.roles,
        valid_from=token.issued_at.isoformat(timespec="seconds"),
        valid_until=token.expires_at.isoformat(timespec="seconds"),
    )
    body = announcement_of(short_lived, token_text)
    seq = ledger.log.append(_sealed(body, [key], now))
    ledger.seen.check(ledger.log)
    return PublishedKey(seq, body), token


def life_warning(token: IdToken, longest: timedelta) -> str | None:
    """That a token lives longer than a short-lived identity should."""
    if token.life <= longest:
        return None
    return f"the token lives {token.life}; whoever takes the key can sign as long: ask its issuer for at most {longest}"


def _token_of(body: KeyAnnounced | KeyRevoked) -> str | None:
    return body.token if isinstance(body, KeyAnnounced) else None


def _signers(ring: Keyring, known: TrustedKey, now: datetime) -> list[SigningKey]:
    """The key that signs here, and the key itself where it is here: it proves that somebody has it."""
    signers = {key.keyid: key for key in [ring.signing_key(now).key]}
    for name in ring.keys.names():
        if ring.keys.card(name).keyid == known.keyid:
            signers.setdefault(known.keyid, ring.keys.open(name))
    return list(signers.values())


def _append(
    ledger: OpenLedger, trust: TrustList, body: KeyAnnounced | KeyRevoked, keys: list[SigningKey], now: datetime
) -> PublishedKey:
    """Append what a reader with the same trust list would count; Refused says why nobody would."""
    envelope = _sealed(body, keys, now)
    entry = open_entry(envelope)
    fresh = Logged(ledger.log.head().size, now.isoformat(), envelope, entry)
    before = [event.logged for event in read_key_log(ledger.log, trust).events]
    refusal = judge_key_entries([*before, fresh], trust, trust).events[-1].refusal
    if refusal is not None:
        raise Refused(f"key {short(body.keyid)}: nobody would count it: {refusal}")
    seq = ledger.log.append(envelope)
    ledger.seen.check(ledger.log)
    return PublishedKey(seq, body)


def _sealed(body: KeyAnnounced | KeyRevoked, keys: list[SigningKey], now: datetime) -> Envelope:
    made_at = now.astimezone(UTC).isoformat(timespec="milliseconds")
    return seal_entry(Entry(made_at=made_at, body=body), keys)
