"""Samples of hours to weeks in bounded memory and disk: rolled up slice by slice, with raw excerpts beside.

Iterations are stamped into a small buffer and folded into the open slice between two iterations. A slice is a file,
written whole when its time is over and on the disk before the next one begins: a killed process, or machine, loses the
open slice and nothing else.
"""

import re
import struct
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from lynxbench.errors import BadResult
from lynxbench.evidence.whole_files import write_text
from lynxbench.model.document import first_problem
from lynxbench.model.samples import Int64, Iterations
from lynxbench.model.slices import Excerpt, Rollup, Slice
from lynxbench.plain_files import read_plain
from lynxbench.stats.sketch import buckets_of

SLICES_FOLDER = "slices"
BUFFERED_ROWS = 4096
EXCERPTS = 2
"""Raw excerpts of a slice: from its start, and from its middle …"""
EXCERPT_NS = 1_000_000_000
EXCERPT_ROWS = 128
"""… of a second each, or of so many iterations."""
PAUSE_NS = 500_000_000
"""Between two iterations: as long as this it is a standstill, and not the harness."""
LARGEST_SLICE_BYTES = 4 << 20
STAMP_NS = 1000
"""Devices stamp to about half a microsecond: so much may one iteration seem to begin before the last one's end."""

_ROW = struct.Struct("<qqq")  # start_ns, end_ns, units
_NAME = re.compile(r"\d{5,}\.json")


@dataclass(frozen=True, slots=True)
class SliceReadings:
    """What is read beside the samples when a slice ends; None where it could not be."""

    resident_bytes: int | None = None
    harness_resident_bytes: int | None = None
    inlet_c: float | None = None


class RollingJournal(AbstractContextManager["RollingJournal"]):
    """Takes what a journal takes, and keeps of it what slices keep; `told` hears of each slice that is on the disk."""

    def __init__(
        self,
        folder: Path,
        slice_s: float,
        unix_offset_ns: int,
        read: Callable[[], SliceReadings] = SliceReadings,
        told: Callable[[Slice], object] = lambda written: None,
    ) -> None:
        self._folder = folder / SLICES_FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)
        self._slice_ns = int(slice_s * 1e9)
        self._unix_offset_ns, self._read, self._told = unix_offset_ns, read, told
        self._buffer = bytearray(BUFFERED_ROWS * _ROW.size)
        self._buffered = 0
        self._marks: list[tuple[int, int]] = []
        self._unfinished: Sequence[int] = ()
        self._recent: Int64 = np.empty((0, 3), dtype=np.int64)
        self._open: _OpenSlice | None = None
        self._written = self._before = 0
        self._until_ns = self._ended_ns = 0
        self.count = 0

    def append(self, start_ns: int, end_ns: int, units: int) -> None:
        """One finished iteration; where it ends its slice, that is written."""
        if self._open is None:
            self._begin(start_ns)
        _ROW.pack_into(self._buffer, self._buffered * _ROW.size, start_ns, end_ns, units)
        if self._unfinished:
            self._marks += [(self._buffered, stamp_ns) for stamp_ns in self._unfinished]
            self._unfinished = ()
        self._buffered += 1
        self.count += 1
        if end_ns >= self._until_ns:
            self._end()
        elif self._buffered == BUFFERED_ROWS:
            self._fold()

    def append_marks(self, stamps_ns: Sequence[int]) -> None:
        """Moments inside the iteration that is appended next; without it they are dropped."""
        self._unfinished = tuple(stamps_ns)

    def iterations(self) -> Iterations:
        """The latest iterations: no more are held."""
        self._fold()
        return Iterations(*self._recent.T)

    def close(self) -> None:
        """Write what the open slice holds."""
        if self._open is not None:
            self._end()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, start_ns: int) -> None:
        self._open = _OpenSlice(start_ns, self._slice_ns, self._ended_ns or start_ns)
        if not self._until_ns:
            self._until_ns = start_ns
        missed = max(start_ns - self._until_ns, 0) // self._slice_ns
        self._until_ns += (missed + 1) * self._slice_ns  # on a grid: slices do not creep by an iteration each

    def _fold(self) -> None:
        if not self._buffered or self._open is None:
            return
        rows = np.frombuffer(self._buffer, dtype="<i8", count=self._buffered * 3).reshape(-1, 3).astype(np.int64)
        self._open.fold(rows, np.array(self._marks, dtype=np.int64).reshape(-1, 2))
        self._recent = rows
        self._buffered = 0
        self._marks.clear()

    def _end(self) -> None:
        self._fold()
        assert self._open is not None
        readings = self._read()
        written = self._open.rolled_up(self._written, self._before, self._unix_offset_ns, readings)
        write_text(self._folder / f"{self._written:05d}.json", written.model_dump_json())
        self._written += 1
        self._before = self.count
        self._ended_ns = written.end_ns
        self._open = None
        self._told(written)


@dataclass(slots=True)
class _OpenSlice:
    """Running sums of the slice in flight."""

    start_ns: int
    slice_ns: int
    end_ns: int
    """Of the last iteration; before its first, of the slice before."""
    units: int = 0
    paused_ns: int = 0
    totals: dict[str, list[int]] = field(default_factory=dict)
    """By metric: count, sum, least, most."""
    buckets: dict[str, dict[int, int]] = field(default_factory=dict)
    excerpts: list[list[Int64]] = field(default_factory=lambda: [[] for _ in range(EXCERPTS)])

    def fold(self, rows: Int64, marks: Int64) -> None:
        """Add iterations (start, end, units) and the marks inside them (row, stamp)."""
        starts, ends = rows[:, 0], rows[:, 1]
        self.units += int(rows[:, 2].sum())
        pauses = starts - np.r_[self.end_ns, ends[:-1]]
        self.paused_ns += int(pauses[pauses > PAUSE_NS].sum())
        self.end_ns = int(ends[-1])
        self._add("latency", ends - starts)
        if len(marks):
            first = np.r_[True, marks[1:, 0] != marks[:-1, 0]]
            self._add("time-to-first-token", (marks[:, 1] - starts[marks[:, 0]])[first])
            self._add("time-per-token", np.diff(marks[:, 1], prepend=0)[~first])
        for place, excerpt in enumerate(self.excerpts):
            begins = self.start_ns + place * self.slice_ns // EXCERPTS
            until = begins + min(EXCERPT_NS, self.slice_ns // EXCERPTS)
            inside = rows[(starts >= begins) & (starts < until)]
            excerpt += list(inside[: EXCERPT_ROWS - len(excerpt)])

    def _add(self, metric: str, durations: Int64) -> None:
        if not len(durations):
            return
        count, total, least, most = self.totals.get(metric, (0, 0, int(durations[0]), int(durations[0])))
        self.totals[metric] = [
            count + len(durations),
            total + int(durations.sum()),
            min(least, int(durations.min())),
            max(most, int(durations.max())),
        ]
        counts = self.buckets.setdefault(metric, {})
        for bucket, many in zip(*np.unique(buckets_of(durations), return_counts=True), strict=True):
            counts[int(bucket)] = counts.get(int(bucket), 0) + int(many)

    def rolled_up(self, number: int, before: int, unix_offset_ns: int, readings: SliceReadings) -> Slice:
        """The slice as it is kept."""
        durations = {
            metric: Rollup(
                count=count,
                sum_ns=total,
                least_ns=least,
                most_ns=most,
                buckets=tuple(sorted(self.buckets[metric].items())),
            )
            for metric, (count, total, least, most) in self.totals.items()
        }
        return Slice(
            number=number,
            before=before,
            start_ns=self.start_ns,
            end_ns=self.end_ns,
            unix_offset_ns=unix_offset_ns,
            units=self.units,
            paused_ns=self.paused_ns,
            durations=durations,
            excerpts=tuple(self._excerpt(np.array(rows)) for rows in self.excerpts if rows),
            resident_bytes=readings.resident_bytes,
            harness_resident_bytes=readings.harness_resident_bytes,
            inlet_c=readings.inlet_c,
        )

    def _excerpt(self, rows: Int64) -> Excerpt:
        columns = (rows[:, 0] - self.start_ns, rows[:, 1] - rows[:, 0], rows[:, 2])
        start_ns, lasted_ns, units = (tuple(column.tolist()) for column in columns)
        return Excerpt(start_ns=start_ns, lasted_ns=lasted_ns, units=units)


# --- reading ---------------------------------------------------------------------------------------------------------


def read_slices(folder: Path) -> tuple[Slice, ...]:
    """The slices of a process in order, each held against its own excerpts; BadResult where one is not what it says."""
    files = sorted((folder / SLICES_FOLDER).glob("*.json"))
    slices = []
    for number, file in enumerate(files):
        try:
            read = Slice.model_validate_json(read_plain(file, LARGEST_SLICE_BYTES))
        except OSError as error:
            raise BadResult(f"{file}: {error.strerror or error}") from error
        except ValidationError as error:
            raise BadResult(f"{file}: not a slice of lynxbench ({first_problem(error)})") from error
        wrong = "another slice is missing before it" if read.number != number else _contradiction(read)
        if wrong:
            raise BadResult(f"{file}: {wrong}")
        slices.append(read)
    for earlier, later in pairwise(slices):
        name = f"{folder / SLICES_FOLDER}: slices {earlier.number} and {later.number}"
        if later.start_ns < earlier.end_ns - STAMP_NS or later.unix_offset_ns != earlier.unix_offset_ns:
            raise BadResult(f"{name} overlap, or are of two processes")
        if later.before != earlier.before + earlier.latency.count:
            raise BadResult(f"{name} do not count on from each other")
    return tuple(slices)


def count_rolled(folder: Path) -> int:
    """Iterations in the slices that are on the disk; the newest one knows."""
    files = sorted(file for file in (folder / SLICES_FOLDER).glob("*.json") if _NAME.fullmatch(file.name))
    if not files:
        return 0
    newest = Slice.model_validate_json(files[-1].read_bytes())
    return newest.before + newest.latency.count


def _contradiction(read: Slice) -> str:
    """What a slice says against itself; its excerpts are iterations that its sums have to hold. Empty for nothing."""
    if "latency" not in read.durations:
        return "holds no iterations"
    for metric, rolled in read.durations.items():
        if wrong := _impossible(rolled):
            return f"{metric}: {wrong}"
    latency = read.latency
    if latency.sum_ns > read.end_ns - read.start_ns + STAMP_NS * latency.count:
        return "its iterations take longer than the slice lasts"
    if any(len({len(column) for column in _columns(excerpt)}) != 1 for excerpt in read.excerpts):
        return "columns of an excerpt differ in length"
    stamped = [row for excerpt in read.excerpts for row in zip(*_columns(excerpt), strict=True)]
    if stamped != sorted(stamped):
        return "its excerpts are not in order"
    rows = np.array(stamped, dtype=np.int64).reshape(-1, 3)
    starts, lasted, units = rows.T
    if len(rows) and (starts[1:] < (starts + lasted)[:-1] - STAMP_NS).any():
        return "iterations of its excerpts overlap"
    if len(rows) > latency.count or int(units.sum()) > read.units or int(lasted.sum()) > latency.sum_ns:
        return "its excerpts hold more than the slice"
    if len(rows) and (lasted.min() < latency.least_ns or lasted.max() > latency.most_ns):
        return "an iteration of its excerpts lies outside of its least and most"
    if len(rows) and int((starts + lasted).max()) > read.end_ns - read.start_ns:
        return "an iteration of its excerpts ends after the slice"
    counted = dict(latency.buckets)
    buckets, many = np.unique(buckets_of(lasted), return_counts=True)
    if any(counted.get(int(bucket), 0) < int(held) for bucket, held in zip(buckets, many, strict=True)):
        return "its excerpts hold iterations that its distribution does not"
    return ""


def _columns(excerpt: Excerpt) -> tuple[tuple[int, ...], ...]:
    return excerpt.start_ns, excerpt.lasted_ns, excerpt.units


def _impossible(rolled: Rollup) -> str:
    buckets = [bucket for bucket, _ in rolled.buckets]
    if buckets != sorted(set(buckets)) or sum(many for _, many in rolled.buckets) != rolled.count:
        return "its distribution does not hold as many as it counts"
    ends = buckets_of(np.array([rolled.least_ns, rolled.most_ns], dtype=np.int64))
    if (buckets[0], buckets[-1]) != (int(ends[0]), int(ends[1])):
        return "its distribution does not begin at its least and end at its most"
    if not rolled.count * rolled.least_ns <= rolled.sum_ns <= rolled.count * rolled.most_ns:
        return "its sum is not one of so many between its least and most"
    return ""
