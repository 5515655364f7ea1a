"""Documents that are flushed together, by one call for the whole file system where that can be relied on."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lynxbench.errors import BadLedger
from lynxbench.ledger import flushing
from lynxbench.ledger.blobs import TOGETHER, FolderBlobs

DOCUMENTS = [bytes([number]) * 100 for number in range(TOGETHER)]


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was called, in order."""
    calls: list[str] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append("fsync"), real(descriptor))[1])
    return calls


def calling(monkeypatch: pytest.MonkeyPatch, call: Callable[[int], int] | None) -> None:
    monkeypatch.setattr(flushing, "_syncfs", lambda: call)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_many_documents_are_flushed_before_and_after_they_get_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushed: list[str]
) -> None:
    names: list[list[bool]] = []

    def flush(_: int) -> int:
        names.append([path.name.startswith(".") for path in files(tmp_path)])
        return 0

    calling(monkeypatch, flush)
    store = FolderBlobs(tmp_path)
    assert store.put_all(DOCUMENTS) == [hashlib.sha256(data).hexdigest() for data in DOCUMENTS]
    assert names == [[True] * TOGETHER, [False] * TOGETHER]
    before = len(flushed)  # of new folders, each flushed when it is made
    store.put_all([b"one more"])
    assert len(names) == 2  # one document is no reason to flush what everybody else wrote
    assert len(flushed) > before


@pytest.mark.parametrize("failing", [0, 1])
def test_what_the_file_system_could_not_write_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    outcomes = iter([errno.EIO if turn == failing else 0 for turn in range(2)])
    calling(monkeypatch, lambda _: next(outcomes))
    with pytest.raises(BadLedger, match="the document was not kept"):
        FolderBlobs(tmp_path).put_all(DOCUMENTS)
    # the second time the bytes are on the disk, under their names
    assert failing == 1 or files(tmp_path) == []


@pytest.mark.parametrize("call", [None, lambda _: errno.ENOSYS])
def test_where_there_is_no_such_call_each_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushed: list[str], call: Callable[[int], int] | None
) -> None:
    calling(monkeypatch, call)
    names = FolderBlobs(tmp_path).put_all(DOCUMENTS)
    assert len(flushed) >= 2 * TOGETHER - 5  # documents and folders, of which some may hold two
    assert [FolderBlobs(tmp_path).get(name) for name in names] == DOCUMENTS


@pytest.mark.parametrize(
    ("sysname", "release", "relied_on"),
    [("Linux", "5.8.0", True), ("Linux", "5.4.0-generic", False), ("Darwin", "23.1.0", False), ("Linux", "odd", False)],
)
def test_only_a_kernel_that_tells_of_errors_is_relied_on(
    monkeypatch: pytest.MonkeyPatch, sysname: str, release: str, *, relied_on: bool
) -> None:
    if relied_on and os.uname().sysname != "Linux":
        pytest.skip("this system has no syncfs")
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((sysname, "node", release, "", "x86_64")))
    flushing._syncfs.cache_clear()
    try:
        assert (flushing._syncfs() is not None) == relied_on
    finally:
        flushing._syncfs.cache_clear()


def test_this_file_system_is_flushed_or_says_that_it_cannot_be(tmp_path: Path) -> None:
    assert flushing.flush_file_system(tmp_path) in (True, False)
    assert flushing.is_on(tmp_path, tmp_path.parent)
    with pytest.raises(OSError, match="No such file"):
        flushing.is_on(tmp_path / "absent", tmp_path)
