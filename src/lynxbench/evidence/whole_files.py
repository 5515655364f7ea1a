"""Files that are written whole or not at all, and locks by which one process at a time changes them."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lynxbench.errors import BadInput

_DEVICES = Path("/dev")
"""Where standard output is a link, wherever it leads."""


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A stream whose file appears whole or not at all: a reader never sees half of it, also after a crash.

    A pipe or a device (`-o /dev/stdout`) is written into: putting a file in its place would take it from everybody.
    """
    if _is_channel(path):
        with path.open("wb") as stream:
            yield stream
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # writing to a full disk does not say where
        raise


def _is_channel(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return path.parent == _DEVICES or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def write_text(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    with written_whole(path) as stream:
        stream.write(text.encode("utf-8"))


@contextmanager
def locked(file: Path, refusal: type[BadInput] = BadInput) -> Iterator[None]:
    """Whoever else takes this lock waits until the end; the file and its folder are made where they are missing."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise refusal(f"{file.parent}: {error.strerror or error}; set LYNXBENCH_HOME to a folder of yours") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
