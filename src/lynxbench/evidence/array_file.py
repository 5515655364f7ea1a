"""Arrays in an .npz file that somebody else may have written: none takes more memory than the file holds bytes."""

import io
import math
import os
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lynxbench.errors import BadResult, first_line
from lynxbench.plain_files import LARGEST_EVIDENCE_BYTES, open_plain

Column = npt.NDArray[np.generic]

_NO_ARRAYS = (
    *(ValueError, TypeError, KeyError, EOFError, SyntaxError, RecursionError, MemoryError, NotImplementedError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
"""What zipfile and numpy raise at files that are none of theirs."""


def read_arrays(path: Path) -> dict[str, Column]:
    """Every array of a file, by name; BadResult where it is no such file, or claims more than it holds."""
    try:
        with open_plain(path) as stream, zipfile.ZipFile(stream) as archive:
            size, members = os.fstat(stream.fileno()).st_size, archive.infolist()
            unfolded = sum(member.file_size for member in members)
            names = {member.filename for member in members}
            if size > LARGEST_EVIDENCE_BYTES or unfolded > size or len(names) != len(members):
                raise BadResult(f"{path}: unfolds to {unfolded} bytes from {size}; not written by lynxbench")
            return {
                member.filename.removesuffix(".npy"): _parse_array(archive.read(member), member.filename, path)
                for member in members
            }
    except OSError as error:
        raise BadResult(f"{path}: {error.strerror or error}") from error
    except _NO_ARRAYS as error:
        raise BadResult(f"{path}: not a samples file of lynxbench ({first_line(error)})") from error


def _parse_array(data: bytes, name: str, path: Path) -> Column:
    """One array, once its head says no more than what follows it: memory is taken for what is there."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read_head = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, form = read_head(stream)
    values, held = math.prod(shape), len(data) - stream.tell()
    if form.hasobject or values * form.itemsize != held or (values and not form.itemsize):
        raise BadResult(f"{path}: {name} claims {values} values and holds {held} bytes; not written by lynxbench")
    if version != (1, 0) or form.names is not None or by_column or not values:
        return np.asarray(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False))
    # a plain column: its head, which is a text of Python, is not read a second time
    return np.frombuffer(data, dtype=form, count=values, offset=stream.tell()).copy().reshape(shape)
