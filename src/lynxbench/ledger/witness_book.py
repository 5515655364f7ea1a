"""What a witness saw of other people's logs: each bound to its key, never seen to shrink or to fork.

HOME/logs-witnessed.json. A checkpoint comes with the proof that it continues what was seen, in the form in which
https://c2sp.org/tlog-witness sends it: `old SIZE`, a line for each hash of the proof, an empty line, the checkpoint.
"""

import base64
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from lynxbench.errors import BadLedger, EvidenceInvalid, NotFound, Refused
from lynxbench.evidence.canonical_reader import parse_base64
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.trust import TrustedKey, TrustList
from lynxbench.evidence.whole_files import locked, write_text
from lynxbench.ledger.log import Ledger, TreeHead
from lynxbench.ledger.merkle import EMPTY_ROOT, HASH_BYTES, extends
from lynxbench.ledger.signed_notes import (
    CheckpointNote,
    cosign_note,
    find_log_signer,
    log_line,
    log_signer,
    parse_note,
)
from lynxbench.model.canonical import short
from lynxbench.model.document import Document
from lynxbench.model.fields import Sha256
from lynxbench.model.team_names import LOCAL_TEAM

BOOK_FILE: Final = "logs-witnessed.json"
MAX_STEPS: Final = 63
"""Hashes of a proof of consistency that is sent to a witness (C2SP tlog-witness)."""
MAX_SPLITS: Final = 3
"""Proofs that are kept against one log: one convicts it, and more would only drive out those against others."""
MAX_LOGS: Final = 1000
_OLD = re.compile(r"old (0|[1-9][0-9]{0,18})")
_NOTHING = TreeHead(0, EMPTY_ROOT)


@dataclass(frozen=True, slots=True)
class WitnessRequest:
    """A checkpoint with the proof that it continues the log as it was when it held `old` entries."""

    old: int
    path: tuple[bytes, ...]
    note: CheckpointNote

    def to_text(self) -> str:
        """As it is sent, or kept in a file."""
        steps = "".join(f"{base64.b64encode(step).decode('ascii')}\n" for step in self.path)
        return f"old {self.old}\n{steps}\n{self.note.to_text()}"


class WitnessedLog(Document):
    """The last state of a log that was found in order, and the key that its name is bound to."""

    keyid: Sha256
    team: str
    note: str
    seen_at: str

    @property
    def checkpoint(self) -> CheckpointNote:
        """The state itself."""
        return parse_note(self.note.encode("utf-8"))


class SplitView(Document):
    """Proof that a log lied to somebody: two states of one size that it signed, or one that it does not contain."""

    origin: str
    tree_size: int
    told_at: str
    notes: tuple[str, ...]

    @property
    def words(self) -> str:
        """For people."""
        entries = f"{self.tree_size} entries"
        what = f"two histories of {entries}" if len(self.notes) > 1 else f"{entries} that it does not contain"
        return f"ledger {self.origin} signed {what}, noticed at {self.told_at}"


class WitnessPages(Document):
    """The book as it is stored."""

    schema_version: Literal[1] = 1
    logs: dict[str, WitnessedLog] = {}
    places: dict[str, str] = {}
    """By the address of a server: the origin of the log that it showed."""
    splits: tuple[SplitView, ...] = ()


class WitnessBook:
    """The book of one person or server, changed under a lock: two at once never co-sign two histories."""

    def __init__(self, home: Path) -> None:
        self._file = home / BOOK_FILE
        self._lock = self._file.with_suffix(".lock")

    def logs(self) -> dict[str, WitnessedLog]:
        """Every log that was seen, by its origin."""
        return self._read().logs

    def splits(self) -> tuple[SplitView, ...]:
        """Every lie that was noticed."""
        return self._read().splits

    def log_at(self, place: str) -> str | None:
        """The origin of the log that a server showed."""
        return self._read().places.get(place)

    def seen_of(self, origin: str) -> TreeHead:
        """What was last seen of a log; nothing, of one that is new here."""
        known = self.logs().get(origin)
        return known.checkpoint.head if known is not None else _NOTHING

    def witness(
        self,
        request: WitnessRequest,
        trust: TrustList,
        key: SigningKey | None,
        now: datetime,
        *,
        place: str | None = None,
    ) -> CheckpointNote:
        """The checkpoint, held against what was seen of its log and remembered; co-signed where there is a key.

        EvidenceInvalid for a log that shrank, forked or goes by another's name; Refused where the proof begins
        elsewhere than at what was seen. `place` is the address of a server that showed it.
        """
        note = request.note
        signer = log_signer(note, trust)
        refusal = signer.refusal_at(now)
        if refusal is not None:
            raise EvidenceInvalid(f"the key of ledger {note.origin}, {short(signer.keyid)} ({signer.team}), {refusal}")
        with locked(self._lock, BadLedger):
            book = self._read()
            places = dict(book.places)
            if place is not None and places.setdefault(place, note.origin) != note.origin:
                raise EvidenceInvalid(
                    f"{place}: shows ledger {note.origin}, and {places[place]} was seen there before; "
                    f"if that is meant: lynxbench results witness --forget {places[place]}"
                )
            known = book.logs.get(note.origin)
            if known is not None:
                _refuse_other_key(note.origin, known, signer)
            elif len(book.logs) >= MAX_LOGS:
                raise Refused(f"{MAX_LOGS} logs are witnessed here already; no new one is taken")
            kept = _alone(note, signer)
            self._refuse_fork(book, replace(request, note=kept), known, now)
            if key is not None:
                note = note.adding([cosign_note(note, key, now)])
            logs = {**book.logs, note.origin: _remembered(kept, signer, now)}
            # before the signature is out: it cannot be unsaid
            self._write(book.model_copy(update={"logs": logs, "places": places}))
        return note

    def compare(self, note: CheckpointNote, trust: TrustList, now: datetime) -> SplitView | None:
        """Hold somebody else's view of a log against what was seen here: a lie is kept, and returned."""
        with locked(self._lock, BadLedger):
            book = self._read()
            known = book.logs.get(note.origin)
            if known is None or known.checkpoint.head.size != note.head.size:
                return None
            signer = log_signer(note, trust)
            if known.checkpoint.head.root == note.head.root or not _keeps(known, signer):
                return None
            return self._keep_split(book, _split(now, known.checkpoint, _alone(note, signer)))

    def report(
        self, ledger: Ledger, note: CheckpointNote, trust: TrustList, team: str, now: datetime
    ) -> SplitView | None:
        """A checkpoint of one's own log as somebody was shown it: kept as a lie where the log does not contain it."""
        signer = find_log_signer(note, trust)
        if note.origin != ledger.origin or signer is None or signer.team != team:
            who = f"key {short(signer.keyid)} of {signer.team}" if signer is not None else "an unknown key"
            raise EvidenceInvalid(f"{who} signed in the name of ledger {ledger.origin}, which {team} keeps")
        head, path = ledger.prove_extends(note.head.size)
        if extends(note.head.size, note.head.root, head.size, head.root, path):
            return None
        with locked(self._lock, BadLedger):
            return self._keep_split(self._read(), _split(now, _alone(note, signer)))

    def forget(self, origin: str) -> None:
        """Begin anew with a log, knowingly: its key was changed, or its server set up again."""
        with locked(self._lock, BadLedger):
            book = self._read()
            if origin not in book.logs:
                raise NotFound(f"{origin[:80]}: no log that was witnessed here; lynxbench results witness lists them")
            logs = {name: log for name, log in book.logs.items() if name != origin}
            places = {place: name for place, name in book.places.items() if name != origin}
            self._write(book.model_copy(update={"logs": logs, "places": places}))

    def _refuse_fork(
        self, book: WitnessPages, request: WitnessRequest, known: WitnessedLog | None, now: datetime
    ) -> None:
        """Refuse whatever does not continue what was seen; two states of one size are kept as proof."""
        note, seen = request.note, known.checkpoint.head if known is not None else _NOTHING
        size, origin = note.head.size, note.origin
        if size < seen.size:
            raise EvidenceInvalid(
                f"ledger {origin} holds {size} entries, and {seen.size} were seen of it: it was rolled back"
            )
        if size == seen.size:
            if note.head.root == seen.root:
                return
            if known is not None:
                self._keep_split(book, _split(now, known.checkpoint, note))
            raise EvidenceInvalid(f"ledger {origin} shows two histories of {size} entries; both are kept as proof")
        if request.old != seen.size:
            raise Refused(
                f"{seen.size} entries were seen of ledger {origin}, and the proof begins at {request.old}; "
                f"its keeper proves it with: lynxbench results log --checkpoint FILE --since {seen.size}"
            )
        if not extends(seen.size, seen.root, size, note.head.root, request.path):
            raise EvidenceInvalid(
                f"ledger {origin}: {size} entries are not proven to begin with the {seen.size} that were seen: "
                "it forked, or the proof is of another log"
            )

    def _keep_split(self, book: WitnessPages, split: SplitView) -> SplitView:
        against = [known for known in book.splits if known.origin == split.origin]
        same = next((known for known in against if known.notes == split.notes), None)
        if same is None and len(against) < MAX_SPLITS:
            self._write(book.model_copy(update={"splits": (*book.splits, split)}))
        return same or split

    def _read(self) -> WitnessPages:
        try:
            return WitnessPages.model_validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return WitnessPages()
        except (OSError, ValidationError) as error:
            raise BadLedger(
                f"{self._file}: damaged ({type(error).__name__}); move it away and witness every log anew"
            ) from None

    def _write(self, book: WitnessPages) -> None:
        try:
            write_text(self._file, book.model_dump_json(indent=1) + "\n")
        except OSError as error:
            raise BadLedger(f"{self._file}: {error.strerror or error}") from error


def parse_request(data: bytes) -> WitnessRequest:
    """A checkpoint with its proof, or a checkpoint alone; EvidenceInvalid for anything else."""
    first, _, rest = data.partition(b"\n")
    old = _OLD.fullmatch(first.decode("utf-8", "replace"))
    if old is None:
        return WitnessRequest(0, (), parse_note(data))
    steps: list[bytes] = []
    while True:
        line, end, rest = rest.partition(b"\n")
        if not line:
            return WitnessRequest(int(old[1]), tuple(steps), parse_note(rest))
        step = parse_base64(line.decode("utf-8", "replace"), "proof of consistency")
        if len(steps) == MAX_STEPS or len(step) != HASH_BYTES or not end:
            raise EvidenceInvalid(f"proof of consistency: at most {MAX_STEPS} hashes, a line each, then an empty line")
        steps.append(step)


def _refuse_other_key(origin: str, known: WitnessedLog, signer: TrustedKey) -> None:
    if not _keeps(known, signer):
        raise EvidenceInvalid(
            f"ledger {origin} is bound to key {short(known.keyid)} ({known.team}), and {short(signer.keyid)} "
            f"({signer.team}) signed in its name; if that is meant: lynxbench results witness --forget {origin}"
        )


def _keeps(known: WitnessedLog, signer: TrustedKey) -> bool:
    """Whether a log's name is this key's: its own, or one of the same team that proves to continue the log.

    `local` is the team of everybody who named none.
    """
    return signer.keyid == known.keyid or (signer.team == known.team and signer.team != LOCAL_TEAM)


def _remembered(note: CheckpointNote, signer: TrustedKey, now: datetime) -> WitnessedLog:
    return WitnessedLog(keyid=signer.keyid, team=signer.team, note=note.to_text(), seen_at=_text(now))


def _alone(note: CheckpointNote, signer: TrustedKey) -> CheckpointNote:
    """The note with its log's signature alone: what others wrote below it is theirs."""
    return replace(note, signatures=(log_line(note, signer),))


def _split(now: datetime, *notes: CheckpointNote) -> SplitView:
    texts = tuple(sorted(note.to_text() for note in notes))
    return SplitView(origin=notes[0].origin, tree_size=notes[0].head.size, told_at=_text(now), notes=texts)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
