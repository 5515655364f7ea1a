"""What the machine did beside the run: a thread in the parent process that appends one line a sample.

The file is crash-safe by its form: a header line with the columns, then whole lines; a torn last line is dropped when
it is read, and a resumed run or one whose columns change writes a header again. Empty cells are readings that failed.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from lynxbench.errors import BadResult
from lynxbench.measure.host_readings import HostReader
from lynxbench.measure.nvml_readings import NvmlReader, open_nvml
from lynxbench.measure.vendor_readings import open_vendors
from lynxbench.model.samples import Telemetry
from lynxbench.plain_files import read_plain

CPU_INTERVAL_S = 0.2
GPU_INTERVAL_S = 0.1
"""GPU clocks and power move within tenths of a second; NVML answers in well under a millisecond."""

STAMP = "at_ns"


class TelemetryReader(Protocol):
    """A source of named readings."""

    def read(self) -> Mapping[str, float]:
        """One reading of every column; NaN where it failed. Columns may come and go."""


class ReadingsSampler:
    """Appends one line of all its readers' columns to a file at every interval, until stopped."""

    def __init__(
        self,
        path: Path,
        readers: Sequence[TelemetryReader],
        interval_s: float,
        clock: Callable[[], int] = time.perf_counter_ns,
        digits: int = 9,
    ) -> None:
        self._path, self._readers, self.interval_s, self._clock = path, readers, interval_s, clock
        self._digits = digits
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.spent_s = 0.0
        """CPU time the sampler itself took."""

    def start(self) -> Self:
        """Begin to sample."""
        self._names = list(self._take())
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        lead = b"" if _ends_whole(self._path) else b"\n"
        os.write(self._file, lead + _header(self._names))
        self._thread = threading.Thread(target=self._loop, name="lynxbench-telemetry", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End, with a last sample where enough time has passed for one."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        os.close(self._file)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _loop(self) -> None:
        stopped, last_ns = False, self._clock()
        while not stopped:
            stopped = self._stop.wait(self.interval_s)
            at_ns = self._clock()
            if stopped and at_ns - last_ns < self.interval_s / 2 * 1e9:
                return  # CPU times come in ticks of 10 ms: a share of a short moment would be noise
            last_ns = at_ns
            values = self._take()
            if list(values) != self._names:
                self._names = list(values)
                os.write(self._file, _header(self._names))
            line = ",".join([str(at_ns), *(_cell(value, self._digits) for value in values.values())])
            os.write(self._file, line.encode() + b"\n")  # one write a line: a killed process leaves whole lines
            self.spent_s = time.thread_time()

    def _take(self) -> dict[str, float]:
        values: dict[str, float] = {}
        for reader in self._readers:
            values.update(reader.read())
        return values


class TelemetrySampler(ReadingsSampler):
    """The machine beside a run; `watch(pid)` names the process tree whose load is the run's own."""

    def __init__(
        self,
        path: Path,
        *,
        interval_s: float | None = None,
        nvml: object | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._host = HostReader(clock)
        self._gpu = NvmlReader(nvml, clock) if nvml is not None else open_nvml()
        usual_s = GPU_INTERVAL_S if self._gpu is not None else CPU_INTERVAL_S
        own: list[TelemetryReader] = [self._host, *([self._gpu] if self._gpu is not None else [])]
        readers = [*own, *open_vendors(0 if self._gpu is None else self._gpu.count)]
        super().__init__(path, readers, interval_s or usual_s, clock)

    def watch(self, pid: int | None, also: tuple[int, ...] = ()) -> None:
        """From now on, this process and its children, and those beside it, are the run's own load."""
        self._host.watch(pid, also)
        if self._gpu is not None:
            self._gpu.watch(*also, *([pid] if pid is not None else []))


def read_stretches(path: Path) -> tuple[Telemetry, ...]:
    """The samples under each header: of one sampler and one set of columns, on one clock."""
    lines = _whole_lines(path)
    heads = [place for place, line in enumerate(lines) if line.split(",", 1)[0] == STAMP]
    if not heads:
        raise BadResult(f"telemetry {path}: has no header line beginning with {STAMP!r}")
    stretches = []
    for start, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        names = lines[start].split(",")[1:]
        parsed = (_parse_row(line.split(","), len(names)) for line in lines[start + 1 : end])
        rows = [row for row in parsed if row is not None]
        values = np.array([row[1] for row in rows], dtype=np.float64).reshape(len(rows), len(names))
        columns = {name: values[:, place] for place, name in enumerate(names)}
        stretches.append(Telemetry(np.array([row[0] for row in rows], np.int64), columns))
    return tuple(stretches)


def _whole_lines(path: Path) -> list[str]:
    """What follows the last newline was never finished."""
    try:
        return read_plain(path).decode("ascii", errors="replace").split("\n")[:-1]
    except OSError as error:
        raise BadResult(f"telemetry {path}: cannot be read ({error.strerror})") from error


def read_telemetry(path: Path) -> Telemetry:
    """All samples of a file; columns that a stretch lacks are NaN there. BadResult where there is no header."""
    names: list[str] = []
    columns: dict[str, list[float]] = {}
    stamps: list[int] = []
    for line in _whole_lines(path):
        cells = line.split(",")
        if cells[0] == STAMP:
            names = cells[1:]
            for name in names:
                columns.setdefault(name, [math.nan] * len(stamps))
            continue
        row = _parse_row(cells, len(names))
        if row is None:
            continue
        stamps.append(row[0])
        seen = dict(zip(names, row[1], strict=True))
        for name, column in columns.items():
            column.append(seen.get(name, math.nan))
    if not names:
        raise BadResult(f"telemetry {path}: has no header line beginning with {STAMP!r}")
    return Telemetry(np.array(stamps, np.int64), {name: np.array(column) for name, column in columns.items()})


def join_telemetry(parts: Sequence[tuple[Telemetry, int]]) -> Telemetry | None:
    """Readings of several processes one after another, each with what its clock lacks; None of none."""
    if not parts:
        return None
    names = dict.fromkeys(name for part, _ in parts for name in part.columns)
    at_ns = np.concatenate([part.at_ns + offset_ns for part, offset_ns in parts])
    columns = {
        name: np.concatenate([part.columns.get(name, np.full(len(part.at_ns), np.nan)) for part, _ in parts])
        for name in names
    }
    return Telemetry(at_ns, columns)


def _parse_row(cells: list[str], count: int) -> tuple[int, list[float]] | None:
    if len(cells) != count + 1:
        return None
    try:
        return int(cells[0]), [float(cell) if cell else math.nan for cell in cells[1:]]
    except ValueError:
        return None


def _cell(value: float, digits: int) -> str:
    if math.isnan(value):
        return ""
    return str(int(value)) if value == int(value) else f"{value:.{digits}g}"


def _header(names: list[str]) -> bytes:
    return ",".join([STAMP, *names]).encode() + b"\n"


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
