"""Uploads answer from what they just wrote what a question to the database would have said."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lynxbench.errors import BadInput, BadLedger, EvidenceInvalid, NotFound, Refused
from lynxbench.ledger.archive import write_archive
from lynxbench.server.uploads import (
    ABANDONED_S,
    DONE,
    MOST_OPEN,
    OPEN,
    PushedBundle,
    Taken,
    Upload,
    Uploads,
)
from lynxbench.watch.store import Store

DATA = b"a bundle" * 100
NAME = hashlib.sha256(DATA).hexdigest()
TAKEN = Taken(["ab" * 32], 3, 2, ["ab" * 32])


@pytest.fixture
def uploads(tmp_path: Path) -> Iterator[Uploads]:
    store = Store(f"sqlite:///{tmp_path}/server.sqlite")
    yield Uploads(store, tmp_path / "uploads", 1 << 20)
    store.close()


def test_each_answer_is_what_is_written(uploads: Uploads) -> None:
    begun = uploads.begin("alpha", NAME, len(DATA), "agent")
    assert begun.state == OPEN
    assert begun == uploads.get(begun.upload_id, "alpha")
    half = uploads.append(begun, 0, DATA[:100])
    assert half.received_bytes == 100
    assert uploads.begin("alpha", NAME, len(DATA), "agent") == half
    whole = uploads.append(half, 100, DATA[100:])
    finished = uploads.finish(whole, TAKEN)
    assert (finished.state, finished.outcome) == (DONE, TAKEN)
    assert finished == uploads.get(begun.upload_id, "alpha") == uploads.begin("alpha", NAME, len(DATA), "agent")


def test_pieces_are_kept_as_they_came(uploads: Uploads) -> None:
    begun = uploads.begin("alpha", NAME, len(DATA), "agent")
    with pytest.raises(BadInput, match="announced with"):
        uploads.append(begun, 0, DATA, b"x")
    assert uploads.get(begun.upload_id, "alpha").received_bytes == 0
    whole = uploads.append(begun, 0, DATA[:7], DATA[7:100], b"", DATA[100:])
    assert whole == uploads.get(begun.upload_id, "alpha")
    assert uploads.whole(whole).read_bytes() == DATA


def test_one_that_was_discarded_meanwhile_is_not_finished(uploads: Uploads) -> None:
    begun = uploads.begin("alpha", NAME, len(DATA), "agent")
    uploads.discard(begun.upload_id)
    with pytest.raises(NotFound):
        uploads.finish(begun, TAKEN)


def pushed_data(number: int = 0) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "b.lynx"
        write_archive(path, [("manifest.json", b"{}" * (1 + number)), ("keys.json", b"k" * 700)])
        return path.read_bytes()


def received(uploads: Uploads, data: bytes, team: str = "alpha") -> PushedBundle:
    pushed = uploads.receive(team, data, "agent")
    assert isinstance(pushed, PushedBundle)
    return pushed


def finished(uploads: Uploads, pushed: PushedBundle) -> Upload:
    with uploads._store.writing() as connection:
        upload = uploads.finish_pushed(connection, pushed, TAKEN)
    uploads.let_go(pushed)
    return upload


def test_one_request_is_known_by_its_manifest(uploads: Uploads) -> None:
    data = pushed_data()
    pushed = received(uploads, data)
    assert pushed.manifest == hashlib.sha256(b"{}").hexdigest()
    assert pushed.path.read_bytes() == data
    assert pushed.path.stat().st_mode & 0o777 == 0o600
    assert uploads.count_open() == 1
    upload = finished(uploads, pushed)
    assert (upload.state, upload.outcome, upload.received_bytes) == (DONE, TAKEN, len(data))
    assert not pushed.path.exists()
    assert uploads.count_open() == 0
    assert uploads.receive("alpha", data, "another agent") == upload == uploads.get(upload.upload_id, "alpha")
    assert isinstance(uploads.receive("beta", data, "agent"), PushedBundle), "another team's word is its own"


def test_one_that_comes_twice_at_a_time_has_one_outcome(uploads: Uploads) -> None:
    first, second = received(uploads, pushed_data()), received(uploads, pushed_data())
    upload = finished(uploads, first)
    with uploads._store.writing() as connection:
        assert uploads.finish_pushed(connection, second, Taken(TAKEN.results, TAKEN.entries, 0, [])) == upload
    uploads.let_go(second)
    assert upload == uploads.get(upload.upload_id, "alpha")
    assert list(uploads._folder.iterdir()) == []


def test_one_that_was_refused_is_received_again(uploads: Uploads) -> None:
    first = received(uploads, pushed_data())
    uploads.let_go(first)
    assert not first.path.exists()
    assert received(uploads, pushed_data()).upload_id != first.upload_id


def test_one_that_was_announced_with_that_hash_before_is_the_same_upload(uploads: Uploads) -> None:
    begun = uploads.begin("alpha", hashlib.sha256(b"{}").hexdigest(), 7, "agent")
    uploads.append(begun, 0, b"half")
    upload = finished(uploads, received(uploads, pushed_data()))
    assert (upload.upload_id, upload.state) == (begun.upload_id, DONE)
    assert upload == uploads.get(begun.upload_id, "alpha")
    assert list(uploads._folder.glob("*.part")) == []


def test_both_ways_count_together(uploads: Uploads) -> None:
    for number in range(MOST_OPEN - 1):
        uploads.begin("alpha", f"{number:064x}", 1, "agent")
    pushed = received(uploads, pushed_data())
    with pytest.raises(Refused, match="on their way already"):
        uploads.receive("alpha", pushed_data(1), "agent")
    with pytest.raises(Refused, match="on their way already"):
        uploads.begin("alpha", "f" * 64, 1, "agent")
    received(uploads, pushed_data(), "beta")
    uploads.let_go(pushed)
    received(uploads, pushed_data(1))


@pytest.mark.parametrize(
    "data",
    [b"x" * 2000, pushed_data()[:512], pushed_data()[:513], gzip.compress(b"x" * 2000)],
    ids=["letters", "one block", "a byte more", "packed"],  # of what is packed the time would be in the name
)
def test_what_does_not_begin_with_a_manifest_is_not_kept(uploads: Uploads, data: bytes) -> None:
    with pytest.raises((BadInput, EvidenceInvalid), match="the bundle: "):
        uploads.receive("alpha", data, "agent")
    assert uploads.count_open() == 0
    assert list(uploads._folder.iterdir()) == []


def test_a_full_disk_is_said_and_leaves_nothing(uploads: Uploads, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    data = pushed_data()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        with pytest.raises(BadLedger, match="could not be kept: No space left on device; try again"):
            uploads.receive("alpha", data, "agent")
    assert uploads.count_open() == 0


def test_what_a_killed_server_left_is_thrown_away(uploads: Uploads) -> None:
    begun = uploads.begin("alpha", NAME, len(DATA), "agent")
    uploads.append(begun, 0, DATA[:100])
    left, fresh = received(uploads, pushed_data()), received(uploads, pushed_data(1))
    old = time.time() - 2 * ABANDONED_S
    for name in (begun.upload_id, left.upload_id):
        os.utime(uploads._folder / f"{name}.part", (old, old))
    assert uploads.discard_abandoned() == 1
    assert {file.stem for file in uploads._folder.iterdir()} == {begun.upload_id, fresh.upload_id}
