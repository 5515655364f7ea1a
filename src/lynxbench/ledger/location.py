"""Where a ledger is: an option, the environment, or this person's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from lynxbench.errors import BadLedger, EvidenceInvalid, LynxbenchError
from lynxbench.evidence.keys import HOME_VARIABLE, home
from lynxbench.evidence.trust import read_trust
from lynxbench.ledger.blobs import BlobStore, open_blobs
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.seen import Seen

LEDGER_VARIABLE = "LYNXBENCH_LEDGER"
BLOBS_VARIABLE = "LYNXBENCH_BLOBS"
NO_LEDGER = "none"
DATABASE_FILE = "ledger.sqlite"
BLOBS_FOLDER = "blobs"
_ODD = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, MemoryError)
"""What reading a damaged value may raise; anything of it can also be a mistake of ours, so the file is asked."""


@dataclass(frozen=True, slots=True)
class Location:
    """A database, and where its documents are kept; None: where the ledger itself says."""

    database: str
    blobs: str | None


@dataclass(frozen=True, slots=True)
class OpenLedger:
    """A ledger with its documents, held against what was last seen of it."""

    log: Ledger
    blobs: BlobStore
    seen: Seen

    def __enter__(self) -> OpenLedger:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, _ODD) and not isinstance(error, LynxbenchError):
                recompute(self.log)  # says what is damaged; where nothing is, the error stands as it is
        finally:
            self.log.close()


def locate(name: str | None, environment: Mapping[str, str]) -> Location | None:
    """The ledger that is meant; None where none is wanted."""
    named = name or environment.get(LEDGER_VARIABLE) or ""
    if named == NO_LEDGER:
        return None
    blobs = environment.get(BLOBS_VARIABLE) or None
    if "://" in named and not named.startswith("sqlite:"):
        return Location(named, blobs)
    if named.startswith("sqlite:"):
        return Location(named, blobs or f"{named.removeprefix('sqlite:///')}.blobs")
    folder = Path(named).expanduser() if named else default_folder(environment)
    if folder.is_file():
        raise BadLedger(f"{folder}: a ledger is a folder; for a database file give sqlite:///{folder}")
    return Location(f"sqlite:///{folder.absolute() / DATABASE_FILE}", blobs or str(folder.absolute() / BLOBS_FOLDER))


def default_folder(environment: Mapping[str, str]) -> Path:
    """$LYNXBENCH_HOME/ledger, else under the user's data folder."""
    if environment.get(HOME_VARIABLE):
        return Path(environment[HOME_VARIABLE]) / "ledger"
    data = environment.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "lynxbench" / "ledger"


def open_ledger(
    location: Location,
    environment: Mapping[str, str],
    *,
    create: bool = False,
    unseen: bool = False,
    example: bool = False,
) -> OpenLedger:
    """Open a ledger; EvidenceInvalid where it does not continue what was last seen of it (unless `unseen`)."""
    try:
        return _opened(location, environment, create, unseen, example)
    except _ODD as error:
        if isinstance(error, LynxbenchError):
            raise
        where = location.database if location.database.startswith("sqlite:") else "the ledger"
        raise EvidenceInvalid(
            f"{where}: cannot be read ({type(error).__name__}: {error}); is it damaged? Restore it from a copy"
        ) from error


def _opened(
    location: Location, environment: Mapping[str, str], create: bool, unseen: bool, example: bool
) -> OpenLedger:
    is_local = location.database.startswith("sqlite:")  # its documents lie beside it: the folder can be moved
    blobs = None if is_local else location.blobs
    log = Ledger(
        location.database,
        create=create,
        blobs=blobs,
        trust=lambda: read_trust(home(environment)),
        example=example,
    )
    try:
        where = location.blobs or log.blobs_url
        assert where is not None
        seen = Seen(home(environment))
        if not unseen:
            seen.check(log)
        blob_store = open_blobs(where)
        log.documents = blob_store.get
        return OpenLedger(log, blob_store, seen)
    except BaseException:
        log.close()
        raise


def opened(
    name: str | None, environment: Mapping[str, str], *, create: bool = False, unseen: bool = False
) -> OpenLedger:
    """The ledger that is meant, open; BadLedger where none is wanted."""
    location = locate(name, environment)
    if location is None:
        raise BadLedger("this needs a ledger, and --ledger none was given")
    return open_ledger(location, environment, create=create, unseen=unseen)
