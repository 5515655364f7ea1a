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
    check_signatures,
    parse_envelope,
    refuse_misnamed,
    sign,
    verify_signatures,
)
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.statement import parse_time
from lynxbench.evidence.trust import TrustedKey, TrustList
from lynxbench.ledger.ledger_tables import checkpoints
from lynxbench.ledger.log import Ledger, TreeHead
from lynxbench.ledger.merkle import extends
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
    times_hash: Sha256 | None = None
    """Over when each entry was logged, which the root does not cover; absent where an earlier version signed."""
    entries_hash: Sha256 | None = None
    """Over which entries a bundle brings, where it was signed for one."""

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


def sign_checkpoint(
    ledger: Ledger, key: SigningKey, now: datetime, entries_hash: str | None = None, *, keep: bool = True
) -> Signed:
    """Sign the ledger's state of now, with what a bundle brings of it; kept unless it only answers a question."""
    head = ledger.head()
    checkpoint = Checkpoint(
        origin=ledger.origin,
        tree_size=head.size,
        root_hash=head.root.hex(),
        made_at=now.astimezone(UTC).isoformat(timespec="seconds"),
        times_hash=ledger.time_digest(head.size).hex(),
        entries_hash=entries_hash,
    )
    envelope = sign(CHECKPOINT_TYPE, canonical_bytes(checkpoint.model_dump(mode="json")), [key])
    if keep:
        _store(ledger, checkpoint, envelope, now)
    return Signed(checkpoint, envelope)


def cosign(ledger: Ledger, envelope: Envelope, key: SigningKey, now: datetime) -> Signed:
    """Sign somebody's checkpoint as well, after proving that this ledger extends it; keep it in the ledger."""
    checkpoint = open_checkpoint(envelope)
    prove_against(ledger, checkpoint)
    both = add_signature(envelope, key)
    _store(ledger, checkpoint, both, now)
    return Signed(checkpoint, both)


def prove_against(ledger: Ledger, checkpoint: Checkpoint) -> TreeHead:
    """The ledger's head now, proven to extend the checkpoint; EvidenceInvalid where it does not."""
    if checkpoint.origin != ledger.origin:
        raise EvidenceInvalid(f"the checkpoint is of ledger {checkpoint.origin}, this one is {ledger.origin}")
    head = prove_head(ledger, checkpoint.head, f"the checkpoint of {checkpoint.made_at}")
    times = checkpoint.times_hash
    if times is not None and ledger.time_digest(checkpoint.tree_size).hex() != times:
        raise EvidenceInvalid(
            f"{ledger.database.name}: entries were logged at other times than the checkpoint of {checkpoint.made_at} "
            "says: its times were rewritten"
        )
    return head


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
    chosen = select(checkpoints.c.envelope).where(~is_stored_note(ledger)).order_by(checkpoints.c.number.desc())
    stored = [row.envelope for row in ledger.database.rows(chosen.limit(limit))]
    if not all(isinstance(envelope, bytes) for envelope in stored):
        raise EvidenceInvalid(f"{ledger.database.name}: a checkpoint was changed after it was recorded")
    envelopes = [parse_envelope(envelope) for envelope in stored]
    return [Signed(open_checkpoint(envelope), envelope) for envelope in envelopes]


def prove_stored(ledger: Ledger, trust: TrustList | None = None) -> int:
    """Prove the ledger against every checkpoint it ever stored, read from what was signed; how many there were.

    With a trust list, wrong signatures in the name of a key that it knows are found as well.
    """
    rows = ledger.database.rows(select(checkpoints).order_by(checkpoints.c.number))
    for place, (number, size, root, data, logged_at) in enumerate(rows, 1):
        where = f"{ledger.database.name}: checkpoint {number}"
        if not isinstance(data, bytes) or (ledger.database.is_sqlite and number != place):
            raise EvidenceInvalid(f"{where} was changed after it was recorded")
        if is_note(data):
            if _prove_note(ledger, data, trust or TrustList(), f"its own checkpoint of {logged_at}") != (size, root):
                raise EvidenceInvalid(f"{where} says what its signers did not sign")
            continue
        envelope = parse_envelope(data)
        checkpoint = open_checkpoint(envelope)
        is_alone = len(envelope.signatures) == 1  # one that was co-signed here is stored when it was
        if checkpoint.head != TreeHead(size, root) or (is_alone and logged_at != checkpoint.made_at):
            raise EvidenceInvalid(f"{where} says what its signers did not sign")
        check_signatures(envelope, trust or TrustList(), payload_type=CHECKPOINT_TYPE)
        refuse_misnamed(envelope, trust or TrustList(), where)
        prove_against(ledger, checkpoint)
    return len(rows)


def is_note(data: bytes) -> bool:
    """Whether a checkpoint is a signed note, and not an envelope."""
    return not data.startswith(b"{")


def is_stored_note(ledger: Ledger) -> ColumnElement[bool]:
    """The same, asked of the database: a note begins with the log's origin."""
    return func.substr(checkpoints.c.envelope, 1, 1, type_=LargeBinary()) == ledger.origin[:1].encode("utf-8")


def _prove_note(ledger: Ledger, data: bytes, trust: TrustList, what: str) -> tuple[int, bytes]:
    """Size and root of a note of this log that the log contains; wrong signatures in a trusted key's name are found."""
    from lynxbench.ledger.signed_notes import cosignatures, find_log_signer, parse_note  # few commands read one

    note = parse_note(data)
    if note.origin != ledger.origin:
        raise EvidenceInvalid(f"the checkpoint is of ledger {note.origin}, this one is {ledger.origin}")
    find_log_signer(note, trust)
    cosignatures(note, trust)
    prove_head(ledger, note.head, what)
    return note.head.size, note.head.root


def _store(ledger: Ledger, checkpoint: Checkpoint, envelope: Envelope, now: datetime) -> None:
    row = {
        "tree_size": checkpoint.tree_size,
        "root": checkpoint.head.root,
        "envelope": envelope.to_bytes(),
        "logged_at": now.astimezone(UTC).isoformat(timespec="seconds"),
    }
    with ledger.database.writing() as connection:
        connection.execute(checkpoints.insert(), [row])
