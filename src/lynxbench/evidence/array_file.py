"""Arrays in an .npz file that somebody else may have written: none takes more memory than the file holds bytes."""

import io
import math
import os
import re
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


LONGEST_HEAD = 1000
"""Bytes: numpy writes a hundred."""
_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00(..)"
    rb"\{'descr': '([<|][iuf][1248]|<U[1-9][0-9]{0,4})', 'fortran_order': False, 'shape': "
    rb"\((0|[1-9][0-9]{0,17}), ?([1-9][0-9]{0,17})?\), \} *\n",
    re.DOTALL,
)
"""As numpy writes the head of a plain column, of one number or several a row."""


def _plain_column(data: bytes) -> Column | None:
    """A column whose head is the usual text, and says what follows it; None: numpy reads it as the Python that it is.

    Its values are copied, so that they are at an address that fits them.
    """
    head = _HEAD.match(data)
    if head is None or head.end() != 10 + int.from_bytes(head[1], "little") or head.end() > LONGEST_HEAD:
        return None
    rows, beside, form = int(head[3]), head[4], np.dtype(head[2].decode("ascii"))
    values = rows * (1 if beside is None else int(beside))
    if values * form.itemsize != len(data) - head.end() or not values:
        return None
    column = np.frombuffer(data, dtype=form, count=values, offset=head.end()).copy()
    return column if beside is None else column.reshape(rows, -1)


def _parse_array(data: bytes, name: str, path: Path) -> Column:
    """One array, once its head says no more than what follows it: memory is taken for what is there."""
    if (column := _plain_column(data)) is not None:
        return column
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
