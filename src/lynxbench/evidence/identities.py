"""Short-lived keys that an issuer's token binds to an identity of the reader's trust list.

The token is made out to the key, the key signs the entry that holds the token, and the reader's own list says which
issuer, which subject and which of the issuer's keys count for which team. Nothing of that is taken from the ledger.
"""

from collections.abc import Iterable

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.id_tokens import CLOCK_SLACK, IdToken, parse_id_token
from lynxbench.evidence.key_entries import key_of_entry, signed_by
from lynxbench.evidence.statement import open_entry
from lynxbench.evidence.trust import TrustedIdentity, TrustedKey, TrustList
from lynxbench.model.canonical import short
from lynxbench.model.entries import KeyAnnounced


def identify(envelope: Envelope, announced: KeyAnnounced, trust: TrustList) -> TrustedKey:
    """The key that a token binds to an identity, valid as long as the token is; EvidenceInvalid says why it is none."""
    if announced.token is None:
        raise EvidenceInvalid("no token binds it to an identity")
    key, token = key_of_entry(announced), parse_id_token(announced.token)
    token.refuse_unbound(announced.keyid)
    if not signed_by(envelope, key.public):
        raise EvidenceInvalid(f"key {short(key.keyid)} did not sign its own announcement")
    identity = _identity(token, key, trust)
    return key.model_copy(
        update={
            "valid_from": (token.issued_at - CLOCK_SLACK).isoformat(timespec="seconds"),
            "valid_until": token.expires_at.isoformat(timespec="seconds"),
            "revoked": identity.revoked,
        }
    )


def with_identities(trust: TrustList, announced: Iterable[tuple[Envelope, KeyAnnounced]]) -> TrustList:
    """The list with the short-lived keys that its identities vouch for; a key that it lists itself stays as it is."""
    keys: dict[str, TrustedKey] = {}
    for envelope, body in announced:
        if body.keyid in keys or trust.find(body.keyid) is not None:
            continue
        try:
            keys[body.keyid] = identify(envelope, body, trust)
        except EvidenceInvalid:
            continue  # it vouches for nobody; `key log` says why
    return trust.model_copy(update={"keys": (*trust.keys, *keys.values())}) if keys else trust


def with_tokens(trust: TrustList, envelopes: Iterable[Envelope]) -> TrustList:
    """The same, from entries that travel together; none of them is opened for a list without identities."""
    if not trust.identities:
        return trust
    bodies = ((envelope, open_entry(envelope).body) for envelope in envelopes)
    return with_identities(trust, ((envelope, body) for envelope, body in bodies if isinstance(body, KeyAnnounced)))


def _identity(token: IdToken, key: TrustedKey, trust: TrustList) -> TrustedIdentity:
    known = [identity for identity in trust.identities if identity.issuer == token.issuer and identity.team == key.team]
    if not known:
        raise EvidenceInvalid(f"no identity of {token.issuer[:80]!r} stands for {key.team} in the trust list")
    named = [identity for identity in known if identity.names(token.subject)]
    if not named:
        raise EvidenceInvalid(f"subject {token.subject[:200]!r} is none that stands for {key.team}")
    signed = [identity for identity in named if token.is_signed_by(identity.keys)]
    if not signed:
        raise EvidenceInvalid(f"no key {token.kid[:80]!r} of {token.issuer[:80]!r} in the trust list signed the token")
    for identity in sorted(signed, key=lambda identity: identity.revoked is not None):
        if set(key.roles) <= set(identity.roles):
            return identity
    raise EvidenceInvalid(f"claims {', '.join(key.roles)}; the identity is {', '.join(signed[0].roles)} alone")
