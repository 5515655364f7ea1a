"""Files as others leave them: opened only where they are plain, and read no further than they may go."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

LARGEST_EVIDENCE_BYTES = 4 << 30
"""No file of a run, log or series is larger; a sparse one of a terabyte takes no time to refuse."""

PIECE_BYTES = 1 << 20

UNFOLDS_FREELY_BYTES = 256 << 20
MOST_UNFOLDED = 100
"""Traces and logs unfold to ten to thirty times their packed size; what exceeds both was made to fill a memory."""

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_GIVEN = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""What a shell opened for this program (`<(…)`, a pipe): whoever gave it writes to it."""


def open_plain(path: Path) -> BufferedReader:
    """A plain file, open to read; OSError for a pipe, socket or device, which could be waited for without end."""
    # Non-blocking: opening a pipe that nobody writes to would wait. What is open is looked at, so that nothing can take
    # its place in between.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, f"{_KINDS.get(stat.S_IFMT(mode), 'no file')}, not a plain file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_given(path: Path) -> BufferedReader:
    """The same for a file that a person names on the command line, where it may also be what a shell opened."""
    return path.open("rb") if str(path).startswith(_GIVEN) else open_plain(path)


def unfolds_too_far(unfolded: int, packed: int) -> bool:
    """Whether packed bytes gave more than anything that was written down gives."""
    return unfolded > max(UNFOLDS_FREELY_BYTES, MOST_UNFOLDED * packed)


def read_plain(path: Path, most_bytes: int = LARGEST_EVIDENCE_BYTES) -> bytes:
    """The bytes of a file that a person names; OSError where it is no plain one, or holds more."""
    with open_given(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        # In pieces: a read of more than is there takes the memory of all that it asks for.
        data = stream.read(size + 1) if size <= most_bytes else b""
        while data and len(data) <= most_bytes and (piece := stream.read(PIECE_BYTES)):
            data += piece
    if max(size, len(data)) > most_bytes:
        raise OSError(errno.EFBIG, f"larger than {most_bytes:,} bytes", str(path))
    return data
