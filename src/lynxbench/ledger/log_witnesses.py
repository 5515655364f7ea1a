"""A log's own checkpoints as signed notes, and what witnesses outside its keeper's team co-signed of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, select

from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.statement import parse_time
from lynxbench.evidence.trust import TrustedKey, TrustList
from lynxbench.ledger.checkpoints import is_stored_note, prove_head
from lynxbench.ledger.ledger_tables import checkpoints
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.signed_notes import (
    CheckpointNote,
    Cosignature,
    cosignatures,
    find_log_signer,
    log_line,
    log_signer,
    parse_note,
    sign_note,
)
from lynxbench.ledger.witness_book import WitnessBook, WitnessRequest

AHEAD: Final = timedelta(minutes=10)
"""A witness's clock may run ahead by so much: a co-signature from the future would outlive its key's revocation."""
AGAIN_AFTER: Final = timedelta(hours=1)
"""A witness that sees the same state again is kept no more often."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """That a witness outside the keeper's team saw the log in a state, and when by its own clock."""

    team: str
    keyid: str
    tree_size: int
    seen_at: str

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.team} saw {self.tree_size} entries at {self.seen_at}"


def current_note(ledger: Ledger, key: SigningKey, now: datetime, *, keep: bool = True) -> CheckpointNote:
    """The log's state of now as a signed note, with the co-signatures that are kept of this state; stored once."""
    fresh = sign_note(ledger.origin, ledger.head(), key)
    same = [note for note, _ in _notes(ledger, checkpoints.c.tree_size == fresh.head.size) if note.text == fresh.text]
    if keep and not any(set(fresh.signatures) <= set(note.signatures) for note in same):
        _store(ledger, fresh, now)
    return fresh.adding(line for note in reversed(same) for line in note.signatures)


def witness_request(ledger: Ledger, key: SigningKey, since: int, now: datetime, *, keep: bool = True) -> WitnessRequest:
    """The log's state of now with the proof that it continues what a witness saw of it last."""
    note = current_note(ledger, key, now, keep=keep)
    if since > note.head.size:
        raise BadInput(f"{ledger.database.name}: holds {note.head.size} entries; there is no proof since {since}")
    return WitnessRequest(since, ledger.prove_extends(since, note.head.size)[1], note)


def keep_cosignatures(ledger: Ledger, note: CheckpointNote, trust: TrustList, now: datetime) -> tuple[Sighting, ...]:
    """Store what trusted outside witnesses co-signed of this log, where it is news; the news."""
    signer, known = prove_note(ledger, note, trust), _last_seen(ledger, trust)
    news: list[Cosignature] = []
    for cosignature in _outside(note, trust, signer, now):
        if cosignature.at > now + AHEAD:
            witness, when = cosignature.witness.team, _text(cosignature.at)
            raise EvidenceInvalid(f"the co-signature of {witness} is dated {when}, which is still to come")
        last = known.get(cosignature.witness.keyid)
        if last is None or _is_news(note, cosignature, last):
            news.append(cosignature)
    if news:
        lines = (log_line(note, signer), *(cosignature.line for cosignature in news))
        _store(ledger, replace(note, signatures=lines), now)
    return tuple(_sighting(note, cosignature) for cosignature in news)


def prove_note(ledger: Ledger, note: CheckpointNote, trust: TrustList) -> TrustedKey:
    """Prove a checkpoint of this log to be contained in it; the trusted key that signed it."""
    if note.origin != ledger.origin:
        raise EvidenceInvalid(f"the checkpoint is of ledger {note.origin}, this one is {ledger.origin}")
    signer = log_signer(note, trust)
    prove_head(ledger, note.head, "the checkpoint")
    return signer


def cosign_from(
    ledger: Ledger, note: CheckpointNote, book: WitnessBook, trust: TrustList, key: SigningKey, now: datetime
) -> CheckpointNote:
    """Co-sign a checkpoint of a log that the witness reads itself: the proof comes from there, and it is kept there."""
    prove_note(ledger, note, trust)
    old = min(book.seen_of(note.origin).size, note.head.size)
    path = ledger.prove_extends(old, note.head.size)[1]
    cosigned = book.witness(WitnessRequest(old, path, note), trust, key, now)
    keep_cosignatures(ledger, cosigned, trust, now)
    return cosigned


def sightings(ledger: Ledger, trust: TrustList) -> tuple[Sighting, ...]:
    """What each trusted witness outside the keeper's team saw last, most entries first."""
    seen = _last_seen(ledger, trust).values()
    return tuple(sorted(seen, key=lambda sighting: (-sighting.tree_size, sighting.team, sighting.keyid)))


def _last_seen(ledger: Ledger, trust: TrustList) -> dict[str, Sighting]:
    seen: dict[str, Sighting] = {}
    for note, logged_at in _notes(ledger):
        signer = find_log_signer(note, trust)
        if signer is None:  # who signed as the log is not trusted here: who stands outside is not known
            continue
        for cosignature in _outside(note, trust, signer, logged_at):
            sighting = _sighting(note, cosignature)
            last = seen.get(sighting.keyid)
            if last is None or (last.tree_size, last.seen_at) < (sighting.tree_size, sighting.seen_at):
                seen[sighting.keyid] = sighting
    return seen


def _outside(note: CheckpointNote, trust: TrustList, signer: TrustedKey, kept_at: datetime) -> list[Cosignature]:
    """Co-signatures that count: of another team than the keeper's, by keys that were valid when they were kept."""
    return [
        cosignature
        for cosignature in cosignatures(note, trust)
        if cosignature.witness.team != signer.team
        and cosignature.witness.refusal_at(max(cosignature.at, kept_at)) is None
    ]


def _is_news(note: CheckpointNote, cosignature: Cosignature, last: Sighting) -> bool:
    """Whether a witness saw more than it had, or the same long after; an older co-signature says nothing."""
    if last.tree_size == note.head.size:
        return cosignature.at >= parse_time(last.seen_at) + AGAIN_AFTER
    return last.tree_size < note.head.size


def _sighting(note: CheckpointNote, cosignature: Cosignature) -> Sighting:
    witness = cosignature.witness
    return Sighting(witness.team, witness.keyid, note.head.size, _text(cosignature.at))


def _notes(ledger: Ledger, *conditions: ColumnElement[bool]) -> Iterator[tuple[CheckpointNote, datetime]]:
    """Stored notes of this log with when each was stored, newest first."""
    stored = select(checkpoints.c.envelope, checkpoints.c.logged_at).where(is_stored_note(ledger), *conditions)
    for row in ledger.database.rows(stored.order_by(checkpoints.c.number.desc())):
        if not isinstance(row.envelope, bytes):  # SQLite lets whoever edits the file change a value's type
            raise EvidenceInvalid(f"{ledger.database.name}: a checkpoint was changed after it was recorded")
        note = parse_note(row.envelope)
        if note.origin == ledger.origin:
            yield note, parse_time(str(row.logged_at))


def _store(ledger: Ledger, note: CheckpointNote, now: datetime) -> None:
    row = {
        "tree_size": note.head.size,
        "root": note.head.root,
        "envelope": note.to_text().encode("utf-8"),
        "logged_at": _text(now),
    }
    with ledger.database.writing() as connection:
        connection.execute(checkpoints.insert(), [row])


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
