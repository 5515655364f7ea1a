"""Samples on disk the moment they exist: a memory-mapped file that outlives a kill -9.

A store into a shared mapping costs a fraction of a microsecond and belongs to the kernel as soon as it is made, so a
killed process loses at most the sample in flight. Each row ends in its own sequence number, written last: a torn row is
recognised.
"""

import mmap
import os
import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from lynxbench.errors import BadResult
from lynxbench.model.samples import Int64, Iterations, Marks
from lynxbench.plain_files import read_plain

_ROW = struct.Struct("<qqqq")  # start_ns, end_ns, units, sequence number
_MARK = struct.Struct("<qq")  # iteration, at_ns
_GROWTH_ROWS = 65_536

ITERATIONS_FILE = "iterations.bin"
MARKS_FILE = "marks.bin"


class _Rows:
    """A growing memory-mapped file of fixed-size rows."""

    def __init__(self, path: Path, row_bytes: int) -> None:
        self._file = path.open("w+b")
        self._row_bytes = row_bytes
        self.capacity = _GROWTH_ROWS
        self._file.truncate(self.capacity * row_bytes)
        self.map = mmap.mmap(self._file.fileno(), self.capacity * row_bytes)

    def grow(self) -> None:
        self.capacity *= 2
        self.map.resize(self.capacity * self._row_bytes)

    def close(self, rows: int) -> None:
        self.map.flush()
        self.map.close()
        self._file.truncate(rows * self._row_bytes)
        self._file.close()


class Journal(AbstractContextManager["Journal"]):
    """Append-only samples of one process."""

    def __init__(self, folder: Path) -> None:
        self._iterations = _Rows(folder / ITERATIONS_FILE, _ROW.size)
        self._marks = _Rows(folder / MARKS_FILE, _MARK.size)
        self.count = 0
        self._mark_count = 0

    def append(self, start_ns: int, end_ns: int, units: int) -> None:
        """One finished iteration."""
        if self.count == self._iterations.capacity:
            self._iterations.grow()
        offset = self.count * _ROW.size
        self.count += 1
        _ROW.pack_into(self._iterations.map, offset, start_ns, end_ns, units, self.count)

    def append_marks(self, stamps_ns: Sequence[int]) -> None:
        """Moments inside the iteration that is appended next; without it they are dropped on reading."""
        while self._mark_count + len(stamps_ns) > self._marks.capacity:
            self._marks.grow()
        for stamp_ns in stamps_ns:
            _MARK.pack_into(self._marks.map, self._mark_count * _MARK.size, self.count, stamp_ns)
            self._mark_count += 1

    def iterations(self) -> Iterations:
        """What has been appended so far."""
        rows = np.frombuffer(self._iterations.map, dtype="<i8", count=self.count * 4).reshape(-1, 4).copy()
        return Iterations(rows[:, 0], rows[:, 1], rows[:, 2])

    def close(self) -> None:
        """Cut the files to what they hold."""
        self._iterations.close(self.count)
        self._marks.close(self._mark_count)

    def __exit__(self, *_: object) -> None:
        self.close()


def read_journal(folder: Path) -> tuple[Iterations, Marks]:
    """The samples of a process, whether it ended well or was killed: the longest prefix of whole rows."""
    rows = _read_rows(folder / ITERATIONS_FILE, 4)
    whole = rows[:, 3] == np.arange(1, len(rows) + 1)
    count = len(rows) if whole.all() else int(np.argmin(whole))
    rows = rows[:count]
    if (rows[:, 1] < rows[:, 0]).any():
        raise BadResult(f"{folder / ITERATIONS_FILE}: an iteration ends before it starts; the file is damaged")
    marks = _read_rows(folder / MARKS_FILE, 2)
    marks = marks[(marks[:, 1] > 0) & (marks[:, 0] < count)]
    return Iterations(rows[:, 0], rows[:, 1], rows[:, 2]), Marks(marks[:, 0], marks[:, 1])


def count_journal(folder: Path) -> int:
    """How many iterations a running process has appended, read from beside it.

    Read, not mapped: the writer cuts the file to its rows when it ends, and a mapping beyond the cut is a bus error.
    """
    try:
        with (folder / ITERATIONS_FILE).open("rb") as file:
            low, high = 0, os.fstat(file.fileno()).st_size // _ROW.size
            while low < high:  # written rows are a prefix: bisect for its end
                middle = (low + high) // 2
                row = os.pread(file.fileno(), _ROW.size, middle * _ROW.size)
                if len(row) == _ROW.size and _ROW.unpack(row)[3] == middle + 1:
                    low = middle + 1
                else:
                    high = middle
            return low
    except FileNotFoundError:
        return 0


def _read_rows(path: Path, width: int) -> Int64:
    if not path.exists():
        return np.empty((0, width), dtype=np.int64)
    data = read_plain(path)
    flat = np.frombuffer(data, dtype="<i8", count=len(data) // 8).astype(np.int64)
    return flat[: len(flat) // width * width].reshape(-1, width)
