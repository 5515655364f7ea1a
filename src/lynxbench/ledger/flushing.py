"""A whole file system flushed to its disk by one call, where the kernel has it and says what went wrong."""

import ctypes
import errno
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

FIRST_THAT_TELLS = (5, 8)
"""Linux reports errors of writing back by syncfs(2) since this version; before, a failed write went unnoticed."""
_ABSENT = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def flush_file_system(folder: Path) -> bool:
    """Flush everything on the file system of a folder; False where that cannot be done, or not be relied on.

    What others write there is flushed as well. OSError where something could not be written.
    """
    call = _syncfs()
    if call is None:
        return False
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        failed = call(descriptor)
    finally:
        os.close(descriptor)
    if failed in _ABSENT:
        return False
    if failed:
        raise OSError(failed, os.strerror(failed), str(folder))
    return True


def is_on(folder: Path, other: Path) -> bool:
    """Whether two folders are on one file system."""
    return os.stat(folder).st_dev == os.stat(other).st_dev


@cache
def _syncfs() -> Callable[[int], int] | None:
    """The call, which returns 0 or the number of an error."""
    system = os.uname()
    version = re.match(r"(\d+)\.(\d+)", system.release)
    if system.sysname != "Linux" or version is None or (int(version[1]), int(version[2])) < FIRST_THAT_TELLS:
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None

    def call(descriptor: int) -> int:
        return 0 if function(descriptor) == 0 else ctypes.get_errno() or errno.EIO

    return call
