"""What a ledger's entries about keys say, as keys: the one announced, and whether a key itself signed."""

from pydantic import ValidationError

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.envelope import Envelope, pre_authentication_encoding
from lynxbench.evidence.keys import PublicKey
from lynxbench.evidence.trust import TrustedKey
from lynxbench.model.document import first_problem
from lynxbench.model.entries import KeyAnnounced


def key_of_entry(announced: KeyAnnounced) -> TrustedKey:
    """The key as a trust list would have it; EvidenceInvalid where the entry describes none."""
    try:
        return TrustedKey(
            keyid=announced.keyid,
            public_key=announced.public_key,
            team=announced.team,
            roles=announced.roles,
            valid_from=announced.since,
            valid_until=announced.until,
        )
    except ValidationError as error:
        raise EvidenceInvalid(f"entry: {first_problem(error, 'key')}") from None


def announcement_of(key: TrustedKey, token: str | None = None) -> KeyAnnounced:
    """What is said in a ledger of a key that is trusted here."""
    return KeyAnnounced(
        keyid=key.keyid,
        public_key=key.public_key,
        team=key.team,
        roles=key.roles,
        since=key.valid_from,
        until=key.valid_until,
        token=token,
    )


def signed_by(envelope: Envelope, key: PublicKey) -> bool:
    """Whether this key signed an envelope, trusted or not."""
    message = pre_authentication_encoding(envelope.payload_type, envelope.payload)
    return any(signed.keyid == key.keyid and key.verify(message, signed.sig) for signed in envelope.signatures)
