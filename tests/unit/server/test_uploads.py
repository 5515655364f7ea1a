"""Uploads answer from what they just wrote what a question to the database would have said."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lynxbench.errors import BadInput, NotFound
from lynxbench.server.uploads import DONE, OPEN, Taken, Uploads
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
