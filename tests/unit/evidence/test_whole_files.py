"""Whole or not at all, also where the disk is full; and the error says which file."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from pathlib import Path

import pytest

from lynxbench.evidence.sample_file import write_samples
from lynxbench.evidence.whole_files import write_text, written_whole


def test_a_full_disk_leaves_what_was_there_and_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    write_text(file, "before")

    def fill_the_disk() -> None:
        with written_whole(file) as stream:
            stream.write(b"after, in part")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left") as failed:
        fill_the_disk()
    assert failed.value.filename == str(file)
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"], "no part of it is left"


def test_a_limit_of_the_system_is_met_like_a_full_disk(tmp_path: Path) -> None:
    """The kernel itself refuses the write: what was there stays, the samples file is not there in part."""
    file = tmp_path / "samples.npz"
    file.write_bytes(b"before")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as failed:
            write_samples(file, ())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert failed.value.filename == str(file)
    assert file.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["samples.npz"]


def test_a_pipe_is_written_into_and_stays_one(tmp_path: Path) -> None:
    """`-o /dev/stdout`, or /dev/null as root: a file in its place would take the device from everybody."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(pipe, "the report")
        assert os.read(reader, 100) == b"the report"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_beside_a_run_leads_nowhere(tmp_path: Path) -> None:
    """Whoever hands over a folder with a link in it does not choose which file of the reader's is written."""
    own, link = tmp_path / "own", tmp_path / "report.html"
    own.write_text("mine")
    link.symlink_to(own)
    write_text(link, "the report")
    assert own.read_text() == "mine"
    assert not link.is_symlink()
