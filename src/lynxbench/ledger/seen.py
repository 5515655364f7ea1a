"""What this person saw of each ledger last: a log that shrank, forked or was replaced since is noticed."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from lynxbench.errors import BadLedger, EvidenceInvalid
from lynxbench.evidence.whole_files import locked, write_text
from lynxbench.ledger.checkpoints import Checkpoint, prove_head
from lynxbench.ledger.log import Ledger, TreeHead
from lynxbench.model.document import Document
from lynxbench.model.fields import Sha256

SEEN_FILE = "ledgers-seen.json"


class SeenHead(Document):
    """The last state of one ledger that was found in order."""

    origin: str
    tree_size: int
    root_hash: Sha256
    times_hash: Sha256 | None = None
    """Over when each entry was logged; None: seen by a version that did not look at it."""


class SeenBook(Document):
    """By where a ledger is, and by the origin of ledgers whose bundles were imported."""

    schema_version: int = 1
    places: dict[str, SeenHead] = {}
    bundles: dict[str, dict[str, Sha256]] = {}
    keepers: dict[str, str] = {}
    """By origin: the team whose bundle of it came first; others speak in its name."""


class Seen:
    """The book of one person, changed under a lock."""

    def __init__(self, home: Path) -> None:
        self._file = home / SEEN_FILE
        self._lock = self._file.with_suffix(".lock")

    def check(self, ledger: Ledger) -> TreeHead:
        """Hold a ledger against what was last seen of it (trust on first use), then remember it as it is now.

        What was seen of it counts wherever that was: an old copy under another path is an old copy.
        """
        with locked(self._lock, BadLedger), ledger.database.held():
            book = self._read()
            place = ledger.database.name
            last = book.places.get(place)
            if last is not None and last.origin != ledger.origin:
                raise EvidenceInvalid(
                    f"{place}: another ledger than the one last seen here ({last.origin}, {last.tree_size} entries); "
                    "if that is meant: lynxbench results log --accept"
                )
            head: TreeHead | None = None
            for where, seen in book.places.items():
                if seen.origin == ledger.origin:
                    head = _prove(ledger, seen, "what you saw last" if where == place else f"what you saw at {where}")
            head = head or ledger.head()
            now = _seen(ledger, head)
            if now != last:
                self._write(book.model_copy(update={"places": {**book.places, place: now}}))
            return head

    def accept(self, ledger: Ledger) -> TreeHead:
        """Forget what was seen of a ledger, here and elsewhere, and trust what it is now."""
        with locked(self._lock, BadLedger):
            book = self._read()
            places = {
                place: seen
                for place, seen in book.places.items()
                if place != ledger.database.name and seen.origin != ledger.origin
            }
            self._write(book.model_copy(update={"places": places}))
        return self.check(ledger)

    def check_bundle(self, checkpoint: Checkpoint, signers: Sequence[str] = ()) -> None:
        """Refuse a bundle whose ledger showed somebody here another history of the same length.

        What is remembered is what the team says that first spoke for the ledger: another that does so in its name is
        held against it, and leaves no memory that the ledger's own bundles would have to fit.
        """
        (refusal,) = self.check_bundles([(checkpoint, signers)])
        if refusal is not None:
            raise refusal

    def check_bundles(self, shown: Sequence[tuple[Checkpoint, Sequence[str]]]) -> list[EvidenceInvalid | None]:
        """The same of several, one after the other: why each is refused. The book is read and written once."""
        with locked(self._lock, BadLedger):
            before = book = self._read()
            refusals: list[EvidenceInvalid | None] = []
            for checkpoint, signers in shown:
                try:
                    book = _with_bundle(book, checkpoint, signers)
                    refusals.append(None)
                except EvidenceInvalid as error:
                    refusals.append(error)
            if book is not before:
                self._write(book)
        return refusals

    def _read(self) -> SeenBook:
        try:
            return SeenBook.model_validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return SeenBook()
        except (OSError, ValidationError) as error:
            raise BadLedger(
                f"{self._file}: damaged ({type(error).__name__}); move it away and look at every ledger again"
            ) from None

    def _write(self, book: SeenBook) -> None:
        try:
            write_text(self._file, book.model_dump_json(indent=1) + "\n")
        except OSError as error:
            raise BadLedger(f"{self._file}: {error.strerror or error}") from error


def _with_bundle(book: SeenBook, checkpoint: Checkpoint, signers: Sequence[str]) -> SeenBook:
    """The book with what a bundle's checkpoint shows; the same where that is nothing new."""
    origin, size = checkpoint.origin, str(checkpoint.tree_size)
    known, keeper = book.bundles.get(origin, {}), book.keepers.get(origin)
    is_keeper = keeper is None or keeper in signers
    if known.get(size, checkpoint.root_hash) != checkpoint.root_hash:
        who = "" if is_keeper else f" (in its name, by {', '.join(signers)})"
        raise EvidenceInvalid(
            f"ledger {origin}{who} shows two histories of {size} entries: an earlier bundle had another root"
        )
    changed: dict[str, object] = {}
    if keeper is None and signers:
        changed["keepers"] = {**book.keepers, origin: signers[0]}
    if is_keeper and size not in known:
        changed["bundles"] = {**book.bundles, origin: {**known, size: checkpoint.root_hash}}
    return book.model_copy(update=changed) if changed else book


def _prove(ledger: Ledger, seen: SeenHead, what: str) -> TreeHead:
    """The ledger's head now, proven to go on from what was seen, with the times at which it was logged."""
    head = prove_head(ledger, TreeHead(seen.tree_size, bytes.fromhex(seen.root_hash)), what)
    if seen.times_hash is not None and ledger.time_digest(seen.tree_size).hex() != seen.times_hash:
        raise EvidenceInvalid(
            f"{ledger.database.name}: entries were logged at other times than {what} says: its times were rewritten"
        )
    return head


def _seen(ledger: Ledger, head: TreeHead) -> SeenHead:
    times = ledger.time_digest(head.size)
    return SeenHead(origin=ledger.origin, tree_size=head.size, root_hash=head.root.hex(), times_hash=times.hex())
