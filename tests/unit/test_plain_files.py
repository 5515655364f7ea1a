"""Files that are none: nothing is waited for, nothing endless is read, and one line says what it is."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from lynxbench.attribute.read.csv_tables import read_table_rows
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.read.rocprof import read_rocprof_document
from lynxbench.attribute.read.trace_columns import read_columns
from lynxbench.errors import LynxbenchError
from lynxbench.evidence.documents import read_document, read_result
from lynxbench.evidence.keys import read_card
from lynxbench.evidence.manifest import read_manifest
from lynxbench.evidence.run_folder import Registration
from lynxbench.evidence.sample_file import hash_file, read_samples
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.archive import looks_like_archive
from lynxbench.ledger.bundle import read_bundle
from lynxbench.measure.foreign_series import read_series
from lynxbench.measure.telemetry import read_telemetry
from lynxbench.plain_files import open_plain, read_plain
from lynxbench.reading import read_text
from lynxbench.workload.request_log import read_log

TERABYTE = 1 << 40


@pytest.fixture(params=["pipe", "socket", "device", "endless", "linked device", "folder"])
def strange(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A path that is no plain file; opening or reading it the usual way waits, or never ends."""
    path = tmp_path / "strange"
    match request.param:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as listening, pytest.MonkeyPatch.context() as patch:
                patch.chdir(tmp_path)  # the address of a socket is short
                listening.bind("strange")
        case "device":
            return Path("/dev/null")
        case "endless":
            return Path("/dev/zero")
        case "linked device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
    return path


READERS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: read_text(path, "a contract"),
    "result": read_result,
    "registration": lambda path: read_document(path, Registration, "not a run"),
    "card": read_card,
    "samples": read_samples,
    "hash": hash_file,
    "bundle": lambda path: read_bundle(path, TrustList()),
    "series": read_series,
    "request log": read_log,
    "telemetry": read_telemetry,
    "chrome trace": read_trace,
    "trace columns": read_columns,
    "rocprofv3 document": read_rocprof_document,
    "table of a profiler": lambda path: read_table_rows(path, ("Kernel Name",)),
}


@pytest.mark.parametrize("name", READERS)
def test_no_reader_waits_for_a_file_that_is_none(name: str, strange: Path) -> None:
    with pytest.raises(LynxbenchError) as refused:
        READERS[name](strange)
    assert "\n" not in str(refused.value)


def test_neither_an_archive_nor_a_manifest_is_looked_for_in_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(LynxbenchError, match="a named pipe, not a plain file"):
        read_manifest(tmp_path)
    assert looks_like_archive(tmp_path / "manifest.json"), "left to its reader, who refuses it"


@pytest.mark.parametrize("name", READERS)
def test_a_sparse_terabyte_is_refused_unread(name: str, tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        try:
            stream.truncate(TERABYTE)
        except OSError:
            pytest.skip("no sparse files here")
    with pytest.raises(LynxbenchError) as refused:
        READERS[name](path)
    assert "\n" not in str(refused.value)


def test_a_plain_file_is_read_and_a_larger_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "plain"
    path.write_bytes(b"12345")
    assert read_plain(path, 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_plain(path, 4)
    with open_plain(path) as stream:
        assert stream.read() == b"12345"
    with pytest.raises(FileNotFoundError):
        read_plain(tmp_path / "none")


def test_what_a_shell_opened_is_read_as_before() -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"a,b\n")
    os.close(write_end)
    try:
        assert read_plain(Path(f"/dev/fd/{read_end}")) == b"a,b\n"
    finally:
        os.close(read_end)
