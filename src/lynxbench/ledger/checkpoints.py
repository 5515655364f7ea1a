"""Checkpoints: a ledger's size and root hash, signed by its keeper, co-signed by whoever else saw the same."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field as Bound_
from sqlalchemy import ColumnElement, LargeBinary, func, select

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.canonical_reader import parse_document
from lynxbench.evidence.envelope import (
    CHECKPOINT_TYPE,
    Envelope,
    add_signature,
    parse_envelope,
    sign,
    verify_signatures,
)
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.statement import parse_time
from lynxbench.evidence.trust import TrustedKey, TrustList
from lynxbench.ledger.ledger_tables import checkpoints
from lynxbench.ledger.log import Ledger, TreeHead
from lynxbench.ledger.merkle import extends
from lynxbench.ledger.signed_notes import parse_note
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.document import Document
from lynxbench.model.fields import Sha256

MAX_CHECKPOINT_BYTES = 1 << 16


class Checkpoint(Document):
    """What a ledger was at one moment."""

    schema_version: Literal[1] = 1
    origin: Annotated[str, Bound_(min_length=1, max_length=200)]
    tree_size: Annotated[int, Bound_(ge=0)]
    root_hash: Sha256
    made_at: str

    @property
    def head(self) -> TreeHead:
        """Size and root."""
        return TreeHead(self.tree_size, bytes.fromhex(self.root_hash))


@dataclass(frozen=True, slots=True)
class Signed:
    """A checkpoint with its signatures and the trusted ones among them."""

    checkpoint: Checkpoint
    envelope: Envelope
    signers: tuple[TrustedKey, ...] = ()


def sign_checkpoint(ledger: Ledger, key: SigningKey, now: datetime) -> Signed:
    """Sign the ledger's state of now and keep it in the ledger."""
    head = ledger.head()
    checkpoint = Checkpoint(
        origin=ledger.origin,
        tree_size=head.size,
        root_hash=head.root.hex(),
        made_at=now.astimezone(UTC).isoformat(timespec="seconds"),
    )
    envelope = sign(CHECKPOINT_TYPE, canonical_bytes(checkpoint.model_dump(mode="json")), [key])
    store_state(ledger, checkpoint.head, envelope.to_bytes(), now)
    return Signed(checkpoint, envelope)


def cosign(ledger: Ledger, envelope: Envelope, key: SigningKey, now: datetime) -> Signed:
    """Sign somebody's checkpoint as well, after proving that this ledger extends it; keep it in the ledger."""
    checkpoint = open_checkpoint(envelope)
    prove_against(ledger, checkpoint)
    both = add_signature(envelope, key)
    store_state(ledger, checkpoint.head, both.to_bytes(), now)
    return Signed(checkpoint, both)


def prove_against(ledger: Ledger, checkpoint: Checkpoint) -> TreeHead:
    """The ledger's head now, proven to extend the checkpoint; EvidenceInvalid where it does not."""
    if checkpoint.origin != ledger.origin:
        raise EvidenceInvalid(f"the checkpoint is of ledger {checkpoint.origin}, this one is {ledger.origin}")
    return prove_head(ledger, checkpoint.head, f"the checkpoint of {checkpoint.made_at}")


def prove_head(ledger: Ledger, earlier: TreeHead, what: str) -> TreeHead:
    """The ledger's head now, proven to extend an earlier one."""
    head, path = ledger.prove_extends(earlier.size)
    if head.size < earlier.size:
        raise EvidenceInvalid(
            f"{ledger.database.name}: holds {head.size} entries, {what} has {earlier.size}: entries were taken away"
        )
    if not extends(earlier.size, earlier.root, head.size, head.root, path):
        raise EvidenceInvalid(
            f"{ledger.database.name}: does not begin with the {earlier.size} entries of {what}: "
            "its history was rewritten"
        )
    return head


def open_checkpoint(envelope: Envelope) -> Checkpoint:
    """The checkpoint an envelope holds; trusts no signature."""
    if envelope.payload_type != CHECKPOINT_TYPE:
        raise EvidenceInvalid(f"payload type {envelope.payload_type[:80]!r} is not a checkpoint ({CHECKPOINT_TYPE})")
    checkpoint = parse_document(envelope.payload, "checkpoint", MAX_CHECKPOINT_BYTES, Checkpoint)
    parse_time(checkpoint.made_at)
    return checkpoint


def verify_checkpoint(envelope: Envelope, trust: TrustList) -> Signed:
    """A checkpoint that somebody trusted signed."""
    checkpoint = open_checkpoint(envelope)
    at = parse_time(checkpoint.made_at)
    signers = verify_signatures(envelope, trust, payload_type=CHECKPOINT_TYPE, at=at)
    return Signed(checkpoint, envelope, signers)


def stored_checkpoints(ledger: Ledger, limit: int = 20) -> list[Signed]:
    """The newest checkpoints that were stored as envelopes, newest first."""
    stored = select(checkpoints.c.envelope).where(~is_stored_note(ledger))
    rows = ledger.database.rows(stored.order_by(checkpoints.c.number.desc()).limit(limit))
    envelopes = [parse_envelope(as_bytes(ledger, row.envelope)) for row in rows]
    return [Signed(open_checkpoint(envelope), envelope) for envelope in envelopes]


def prove_stored(ledger: Ledger) -> int:
    """Prove the ledger against every checkpoint it ever stored, each read from its own bytes; how many there were."""
    columns = (checkpoints.c.tree_size, checkpoints.c.root, checkpoints.c.envelope, checkpoints.c.logged_at)
    rows = ledger.database.rows(select(*columns).order_by(checkpoints.c.number))
    for size, root, envelope, logged_at in rows:
        origin, head = _state_of(as_bytes(ledger, envelope))
        if (origin, size, root) != (ledger.origin, head.size, head.root):
            raise EvidenceInvalid(f"{ledger.database.name}: a checkpoint was changed after it was recorded")
        prove_head(ledger, head, f"its own checkpoint of {logged_at}")
    return len(rows)


def is_note(data: bytes) -> bool:
    """Whether a checkpoint is a signed note, and not the older envelope."""
    return not data.startswith(b"{")


def is_stored_note(ledger: Ledger) -> ColumnElement[bool]:
    """The same, asked of the database: a note begins with the log's origin."""
    return func.substr(checkpoints.c.envelope, 1, 1, type_=LargeBinary()) == ledger.origin[:1].encode("utf-8")


def as_bytes(ledger: Ledger, stored: object) -> bytes:
    """A stored checkpoint's bytes: SQLite lets whoever edits the file change a value's type."""
    if not isinstance(stored, bytes):
        raise EvidenceInvalid(f"{ledger.database.name}: a checkpoint was changed after it was recorded")
    return stored


def store_state(ledger: Ledger, head: TreeHead, signed: bytes, now: datetime) -> None:
    """Keep a signed state of the log in it."""
    row = {
        "tree_size": head.size,
        "root": head.root,
        "envelope": signed,
        "logged_at": now.astimezone(UTC).isoformat(timespec="seconds"),
    }
    with ledger.database.writing() as connection:
        connection.execute(checkpoints.insert(), [row])


def _state_of(signed: bytes) -> tuple[str, TreeHead]:
    if is_note(signed):
        note = parse_note(signed)
        return note.origin, note.head
    checkpoint = open_checkpoint(parse_envelope(signed))
    return checkpoint.origin, checkpoint.head
