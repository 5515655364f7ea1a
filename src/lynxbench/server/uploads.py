"""Bundles on their way in: part files that grow from where they stopped, taken in once they are whole.

A bundle of a few megabytes comes by one request instead, and is known by its manifest: that names every other byte, and
whoever takes the bundle in holds each against it, so that nothing is hashed twice. What came so goes on the disk with
the ledger; a request that broke off leaves nothing, and is made again.
"""

import hashlib
import json
import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from lynxbench.errors import BadInput, BadLedger, EvidenceInvalid, Refused
from lynxbench.ledger.bundle import manifest_hash
from lynxbench.watch.store import Store, fresh_id, later_text, now_text
from lynxbench.watch.store_tables import uploads

OPEN, DONE = "open", "done"
MOST_OPEN = 32
"""Bundles of one team that may be on their way at a time."""
KEPT_OPEN_S = 7 * 86400.0
"""A part that nobody went on with is thrown away after a week."""
ABANDONED_S = 3600.0
"""A file of one request that is so old is nobody's any more: taking a bundle in takes ten minutes at most."""
PUSHED = "the bundle"
"""What a bundle that came by one request is called in refusals."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a submission added."""

    results: list[str]
    entries: int
    new: int
    new_results: list[str]


@dataclass(frozen=True, slots=True)
class Upload:
    """One bundle on its way."""

    upload_id: str
    team: str
    sha256: str
    size_bytes: int
    received_bytes: int
    state: str
    outcome: Taken | None


@dataclass(frozen=True, slots=True)
class PushedBundle:
    """A bundle that came by one request, in a file of its own until it was taken in; known by its manifest's hash."""

    upload_id: str
    team: str
    manifest: str
    size_bytes: int
    path: Path
    made_by: str


class Uploads:
    """Part files in one folder, and their rows."""

    def __init__(self, store: Store, folder: Path, largest_bytes: int) -> None:
        self._store = store
        self._folder = folder
        self._largest = largest_bytes
        self._pushed: Counter[str] = Counter()
        self._lock = Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise BadLedger(f"{folder}: {error.strerror or error}; give another --uploads") from error

    def begin(self, team: str, sha256: str, size_bytes: int, who: str) -> Upload:
        """Announce a bundle. Announcing it again gives the same upload, wherever it stopped."""
        self._refuse_size(size_bytes)
        with self._store.writing() as connection:
            self._discard_old(connection)
            known = connection.execute(_ANNOUNCED, {"team": team, "sha256": sha256}).first()
            if known is not None and known.size_bytes != size_bytes:
                raise BadInput(f"this bundle was announced with {known.size_bytes} bytes before, not {size_bytes}")
            if known is None:
                self._refuse_many(connection, team)
                row = {
                    "upload_id": fresh_id(),
                    "team": team,
                    "sha256": sha256,
                    "size_bytes": size_bytes,
                    "state": OPEN,
                    "made_at": now_text(),
                    "made_by": who,
                }
                connection.execute(_ADD, [row])
                return Upload(str(row["upload_id"]), team, sha256, size_bytes, 0, OPEN, None)
        return self._of(known)

    def get(self, upload_id: str, team: str) -> Upload:
        """An upload of a team; NotFound where there is none."""
        missing = f"no upload {upload_id[:80]!r} of your team"
        return self._of(self._store.one(_NAMED, missing, upload_id=upload_id, team=team))

    def append(self, upload: Upload, offset: int, *pieces: bytes) -> Upload:
        """Add bytes exactly where the last ones ended, in the pieces they came in; on the disk when this returns."""
        if upload.state != OPEN:
            return upload
        if offset != upload.received_bytes:
            raise Refused(f"the next byte is {upload.received_bytes}, not {offset}; go on from there")
        end = offset + sum(map(len, pieces))
        if end > upload.size_bytes:
            raise BadInput(f"{end} bytes of a bundle that was announced with {upload.size_bytes}")
        file = self._part(upload.upload_id)
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "ab") as stream:
                stream.writelines(pieces)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise BadLedger(f"the bundle could not be kept: {error.strerror or error}; try again") from error
        return replace(upload, received_bytes=end)

    def whole(self, upload: Upload) -> Path:
        """The bundle's file, proven to be the one that was announced."""
        if upload.received_bytes != upload.size_bytes:
            raise Refused(f"{upload.received_bytes} of {upload.size_bytes} bytes are here; send the rest first")
        file = self._part(upload.upload_id)
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != upload.sha256:
            self.discard(upload.upload_id)
            raise EvidenceInvalid("the bytes that came are not those that were announced; send the bundle again")
        return file

    def finish(self, upload: Upload, outcome: Taken) -> Upload:
        """The bundle is in the ledger; its part is not needed any more."""
        done = {"named": upload.upload_id, "state": DONE, "outcome": json.dumps(asdict(outcome))}
        with self._store.writing() as connection:
            touched = connection.execute(_CHANGE, done).rowcount
        self._part(upload.upload_id).unlink(missing_ok=True)
        if not touched:  # somebody discarded it meanwhile
            return self.get(upload.upload_id, upload.team)
        return replace(upload, received_bytes=upload.size_bytes, state=DONE, outcome=outcome)

    def discard(self, upload_id: str) -> None:
        """Forget an upload and its bytes."""
        self._store.change(delete(uploads).where(uploads.c.upload_id == upload_id))
        self._part(upload_id).unlink(missing_ok=True)

    def receive(self, team: str, data: bytes, who: str) -> Upload | PushedBundle:
        """Keep a bundle that came by one request until `let_go`; the upload, where its team sent it before."""
        self._refuse_size(len(data))
        manifest = manifest_hash(data, PUSHED)
        with self._lock, self._store.reading() as connection:
            known = connection.execute(_ANNOUNCED, {"team": team, "sha256": manifest}).first()
            if known is not None and known.state == DONE:
                return self._of(known)
            self._refuse_many(connection, team)
            self._pushed[team] += 1
        upload_id = fresh_id()
        pushed = PushedBundle(upload_id, team, manifest, len(data), self._part(upload_id), who)
        try:
            descriptor = os.open(pushed.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb", buffering=0) as stream:
                left = memoryview(data)
                while left:
                    left = left[stream.write(left) :]
        except OSError as error:
            self.let_go(pushed)
            raise BadLedger(f"the bundle could not be kept: {error.strerror or error}; try again") from error
        return pushed

    def finish_pushed(self, connection: Connection, pushed: PushedBundle, outcome: Taken) -> Upload:
        """Write down what came of a bundle that came by one request: whoever sends it again is told the same."""
        key = {"team": pushed.team, "sha256": pushed.manifest}
        known = connection.execute(_ANNOUNCED, key).first()
        if known is not None and known.state == DONE:  # it came twice at a time
            return self._of(known)
        upload_id = pushed.upload_id if known is None else known.upload_id
        done = {"state": DONE, "size_bytes": pushed.size_bytes, "outcome": json.dumps(asdict(outcome))}
        first = {"upload_id": upload_id, "made_at": now_text(), "made_by": pushed.made_by}
        if known is None:
            connection.execute(_ADD, [{**key, **done, **first}])
        else:  # it was announced with that hash before, to come in pieces
            connection.execute(_REPLACE, {"named": upload_id, **{f"new_{name}": value for name, value in done.items()}})
            self._part(upload_id).unlink(missing_ok=True)
        size_bytes = pushed.size_bytes
        return Upload(upload_id, pushed.team, pushed.manifest, size_bytes, size_bytes, DONE, outcome)

    def let_go(self, pushed: PushedBundle) -> None:
        """It was taken in, or refused: its bytes are not needed any more."""
        with self._lock:
            self._pushed[pushed.team] -= 1
            self._pushed += Counter()  # teams that send nothing are not remembered
        with suppress(OSError):
            pushed.path.unlink(missing_ok=True)

    def discard_abandoned(self) -> int:
        """Throw away what requests left that a server which was killed had not answered; how many there were."""
        before, discarded = time.time() - ABANDONED_S, 0
        for file in self._folder.glob("*.part"):
            with suppress(OSError):
                if file.stat().st_mtime < before and self._store.row(_EXISTS, upload_id=file.stem) is None:
                    file.unlink()
                    discarded += 1
        return discarded

    def count_open(self) -> int:
        """Bundles on their way."""
        return self._store.count(uploads, uploads.c.state == OPEN) + self._pushed.total()

    def _refuse_size(self, size_bytes: int) -> None:
        if not 0 < size_bytes <= self._largest:
            raise BadInput(f"a bundle of {size_bytes} bytes; 1 to {self._largest} are taken here")

    def _refuse_many(self, connection: Connection, team: str) -> None:
        announced = connection.execute(_COUNT_OPEN, {"team": team}).scalar_one()
        if announced + self._pushed[team] >= MOST_OPEN:
            raise Refused(f"{MOST_OPEN} bundles of {team} are on their way already; finish or delete one")

    def _of(self, row: Any) -> Upload:
        file = self._part(row.upload_id)
        done = row.state == DONE
        received = row.size_bytes if done else file.stat().st_size if file.exists() else 0
        outcome = None if row.outcome is None else Taken(**json.loads(row.outcome))
        return Upload(row.upload_id, row.team, row.sha256, row.size_bytes, received, row.state, outcome)

    def _discard_old(self, connection: Connection) -> None:
        for row in connection.execute(_OLD, {"before": later_text(-KEPT_OPEN_S)}).all():
            connection.execute(delete(uploads).where(uploads.c.upload_id == row.upload_id))
            self._part(row.upload_id).unlink(missing_ok=True)

    def _part(self, upload_id: str) -> Path:
        """Where its bytes are; the name is ours, never the sender's."""
        return self._folder / f"{upload_id}.part"


# built once: the database layer remembers how each of them is compiled
_NAMED = select(uploads).where(uploads.c.upload_id == bindparam("upload_id"), uploads.c.team == bindparam("team"))
_ANNOUNCED = select(uploads).where(uploads.c.team == bindparam("team"), uploads.c.sha256 == bindparam("sha256"))
_COUNT_OPEN = (
    select(func.count()).select_from(uploads).where(uploads.c.team == bindparam("team"), uploads.c.state == OPEN)
)
_EXISTS = select(uploads.c.upload_id).where(uploads.c.upload_id == bindparam("upload_id"))
_OLD = select(uploads.c.upload_id).where(uploads.c.state == OPEN, uploads.c.made_at < bindparam("before"))
_ADD = insert(uploads)
_CHANGE = (
    update(uploads)
    .where(uploads.c.upload_id == bindparam("named"))
    .values(state=bindparam("state"), outcome=bindparam("outcome"))
)
_REPLACE = (
    update(uploads)
    .where(uploads.c.upload_id == bindparam("named"))
    .values(state=bindparam("new_state"), size_bytes=bindparam("new_size_bytes"), outcome=bindparam("new_outcome"))
)
