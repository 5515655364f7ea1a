"""The one place where a file that a person wrote is opened: bounded in size, and UTF-8 text."""

from pathlib import Path

from lynxbench.errors import BadFile
from lynxbench.model.file_nodes import LARGEST_FILE_BYTES, shown
from lynxbench.plain_files import open_given


def read_text(
    path: str | Path, noun: str, *, missing: str = "no such file", largest_bytes: int = LARGEST_FILE_BYTES
) -> str:
    """The text of a file that should be `noun`; BadFile says why it has none, `missing` where it is not there."""
    file = str(path)
    try:
        with open_given(Path(path)) as stream:
            data = stream.read(largest_bytes + 1)
    except FileNotFoundError:
        raise BadFile(missing, file=shown(file)) from None
    except IsADirectoryError:
        raise BadFile(f"is a folder; name {noun} in it", file=shown(file)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadFile(f"cannot be read: {reason}; name {noun}", file=shown(file)) from None
    if len(data) > largest_bytes:
        raise BadFile(f"is larger than {largest_bytes >> 20} MiB; {noun} is not", file=file, line=1)
    if b"\0" in data:
        raise BadFile("is binary, not text", file=file, line=data.count(b"\n", 0, data.index(b"\0")) + 1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadFile("is not UTF-8 text; save it as UTF-8", file=file, line=line) from None
