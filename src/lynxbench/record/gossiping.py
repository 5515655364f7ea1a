"""Checkpoints exchanged with a server: its log is witnessed here, this one there, and lies are told to both sides."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lynxbench.errors import BadInput, EvidenceInvalid, Refused
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import opened
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_witnesses import Sighting, keep_cosignatures, witness_request
from lynxbench.ledger.signed_notes import CheckpointNote, find_log_signer, parse_note, parse_signatures
from lynxbench.ledger.witness_book import WitnessBook, parse_request
from lynxbench.record.remote import Remote

PLACE = "/api/v1/ledger"


@dataclass(frozen=True, slots=True)
class Gossip:
    """What came of exchanging checkpoints."""

    seen: int | None
    """Entries of the server's log that were seen; None where it was not witnessed."""
    witnessed_by: tuple[Sighting, ...]
    """What the server newly saw of this ledger."""
    split_views: tuple[str, ...]
    """Other people's logs that showed the server something else than here."""
    not_done: tuple[str, ...]
    """What could not be exchanged, and why."""


class Gossiping:
    """One exchange with one server."""

    def __init__(self, remote: Remote, environment: Mapping[str, str]) -> None:
        keyring = Keyring(environment=environment)
        self._remote = remote
        self._now = datetime.now(UTC)
        self._book = WitnessBook(keyring.where)
        self._trust: TrustList = keyring.trust
        self._key = keyring.signing_key(self._now).key if keyring.keys.names() else None  # none is made for this

    def exchange(self, log: Ledger) -> Gossip:
        """Witness the server's log, hold its view of others against one's own, and have this log witnessed.

        EvidenceInvalid where the server's log or this one shrank, forked or goes by another's name.
        """
        not_done: list[str] = []
        seen: int | None = None
        try:
            seen = self._witness_server().head.size
        except (BadInput, Refused) as error:
            not_done.append(f"the server's log is not witnessed here: {error}")
        views = self._views()
        lies, sightings = self._compare(views), tuple[Sighting, ...]()
        if self._key is None:
            not_done.append("this ledger is not witnessed there: no key signs here")
        else:
            try:
                sightings = self._be_witnessed(log, views.get(log.origin), self._key)
            except (BadInput, Refused) as error:
                not_done.append(f"this ledger is not witnessed there: {error}")
        return Gossip(seen, sightings, lies, tuple(not_done))

    def _witness_server(self) -> CheckpointNote:
        """The server's checkpoint, held against what was seen of its log, co-signed and given back."""
        request = parse_request(self._remote.fetch(f"{PLACE}/checkpoint"))
        origin, known_here = request.note.origin, self._book.log_at(self._remote.url)
        if known_here is None and find_log_signer(request.note, self._trust) is None:
            raise Refused("nobody in the trust list signs it; ask for the card of its key (lynxbench key trust)")
        before = self._book.seen_of(origin)
        if request.note.head.size > before.size > 0:
            request = parse_request(self._remote.fetch(f"{PLACE}/checkpoint", {"old": str(before.size)}))
        try:
            note = self._book.witness(request, self._trust, self._key, self._now, place=self._remote.url)
        except EvidenceInvalid:
            self._tell_known(origin)  # its other readers learn that it does not hold to what it signed
            raise
        if self._key is not None:
            self._tell(note)
        return note

    def _views(self) -> dict[str, CheckpointNote]:
        """What the server saw of everybody's logs."""
        texts = self._remote.ask("GET", f"{PLACE}/witnessed").get("checkpoints", [])
        notes = [parse_note(str(text).encode("utf-8")) for text in texts]
        return {note.origin: note for note in notes}

    def _compare(self, views: Mapping[str, CheckpointNote]) -> tuple[str, ...]:
        """Logs that showed the server one history and us another; the server is told."""
        lies: list[str] = []
        for origin, note in views.items():
            signed = find_log_signer(note, self._trust) is not None
            split = self._book.compare(note, self._trust, self._now) if signed else None
            if split is not None:
                lies.append(split.words)
                self._tell_known(origin)
        return tuple(lies)

    def _be_witnessed(self, log: Ledger, view: CheckpointNote | None, key: SigningKey) -> tuple[Sighting, ...]:
        """Send this log's checkpoint with the proof since what the server saw of it, and keep its co-signature."""
        split = self._book.report(log, view, self._trust, key.team, self._now) if view is not None else None
        if split is not None:
            raise EvidenceInvalid(
                f"{log.database.name}: {self._remote.url} saw {split.tree_size} entries of it that it does not "
                "contain: entries were taken away here, or its history was rewritten"
            )
        request = witness_request(log, key, view.head.size if view is not None else 0, self._now)
        lines = self._remote.tell(f"{PLACE}/add-checkpoint", request.to_text()).decode("utf-8", "replace")
        return keep_cosignatures(log, request.note.adding(parse_signatures(lines)), self._trust, self._now)

    def _tell_known(self, origin: str) -> None:
        known = self._book.logs().get(origin)
        if known is not None:
            self._tell(known.checkpoint)

    def _tell(self, note: CheckpointNote) -> None:
        """Give the server a checkpoint as it was seen here; whether it listens changes nothing here."""
        try:
            self._remote.tell(f"{PLACE}/witnessed", note.to_text())
        except (BadInput, Refused, EvidenceInvalid):
            return


def exchange_checkpoints(ledger: str | None, remote: Remote, environment: Mapping[str, str]) -> Gossip:
    """Exchange checkpoints of the ledger that is meant with a server."""
    with opened(ledger, environment) as open_:
        return Gossiping(remote, environment).exchange(open_.log)
