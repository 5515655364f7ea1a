"""Whole or not at all, also where the disk is full; and the error says which file."""

from __future__ import annotations

import errno
import os
import resource
import signal
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
