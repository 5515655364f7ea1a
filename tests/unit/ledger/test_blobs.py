"""Documents by content, in a folder and behind fsspec."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from lynxbench.errors import BadInput, BadLedger, EvidenceInvalid
from lynxbench.ledger.blobs import AT_ONCE, BlobStore, FolderBlobs, open_blobs

DATA = b"samples of a run"
NAME = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return open_blobs(str(tmp_path / "blobs") if request.param == "folder" else f"memory://{tmp_path}")


def test_what_is_put_comes_back_under_its_hash(store: BlobStore) -> None:
    assert not store.has(NAME)
    assert store.put(DATA) == NAME == store.put(DATA)
    assert store.has(NAME)
    assert store.get(NAME) == DATA


def test_many_come_back_under_their_hashes_in_their_order(store: BlobStore) -> None:
    store.put(DATA)
    many = [DATA, *(bytes([number, repeated]) for number in range(AT_ONCE) for repeated in (1, 1)), DATA]
    assert store.put_all(many) == [hashlib.sha256(data).hexdigest() for data in many]
    assert [store.get(hashlib.sha256(data).hexdigest()) for data in many] == many


def test_what_could_not_be_flushed_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor has what was written beside it: a name is given to what is on the disk alone."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadLedger, match=r"No space left on device; the document was not kept"):
        FolderBlobs(tmp_path).put_all([DATA, b"other"])
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []


def test_what_is_not_there_is_said(store: BlobStore) -> None:
    with pytest.raises(EvidenceInvalid, match="is not there"):
        store.get(NAME)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "A" * 64, NAME + "/", NAME[:-1], NAME[:2] + "/" + NAME[2:]])
def test_only_hashes_are_names(store: BlobStore, name: str) -> None:
    for ask in (store.get, store.has):
        with pytest.raises(BadInput, match="64 lower-case hex digits"):
            ask(name)


def _file(root: Path) -> Path:
    return root / NAME[:2] / NAME[2:]


def test_a_changed_document_is_found_out(tmp_path: Path) -> None:
    store = FolderBlobs(tmp_path)
    store.put(DATA)
    _file(tmp_path).write_bytes(DATA + b"!")
    with pytest.raises(EvidenceInvalid, match="the document was changed"):
        store.get(NAME)


@pytest.mark.parametrize("what", ["file", "folder", "loop"])
def test_links_are_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / NAME[2:]).write_bytes(DATA)
    root = tmp_path / "blobs"
    if what == "loop":
        root.mkdir()
        _file(root).parent.symlink_to(_file(root).parent)
    elif what == "file":
        _file(root).parent.mkdir(parents=True)
        _file(root).symlink_to(tmp_path / "elsewhere" / NAME[2:])
    else:
        root.mkdir()
        _file(root).parent.symlink_to(tmp_path / "elsewhere")
    store = FolderBlobs(root)
    assert not store.has(NAME)
    with pytest.raises(EvidenceInvalid, match="symbolic link"):
        store.get(NAME)


def test_a_store_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file where a folder should be")
    with pytest.raises(BadLedger, match="the document was not kept"):
        FolderBlobs(tmp_path / "blobs").put(DATA)


def test_a_file_where_a_folder_should_be_holds_no_document(tmp_path: Path) -> None:
    _file(tmp_path).parent.write_text("no folder")
    assert not FolderBlobs(tmp_path).has(NAME)


def test_no_half_written_file_is_left(tmp_path: Path) -> None:
    FolderBlobs(tmp_path).put(DATA)
    assert [one.name for one in tmp_path.rglob("*") if one.is_file()] == [NAME[2:]]


def test_an_unknown_kind_of_store_is_said() -> None:
    with pytest.raises(BadInput, match="nosuch"):
        open_blobs("nosuch://bucket")
