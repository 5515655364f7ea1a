"""Nsight Systems exports (SQLite) to the columns of a PyTorch trace; versions differ in columns, not in meaning."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.read.counters import Counters, combine_metrics
from lynxbench.attribute.read.trace import (
    DEVICE_KINDS,
    NONE,
    EventKind,
    Int64,
    Trace,
    distinct,
    is_of,
    match_ids,
    nest_events,
)
from lynxbench.errors import BadInput

FETCHED_ROWS = 50_000
SQLITE_HEAD_BYTES = 100
KERNEL_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
GRAPH_TABLE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPY_TABLES = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMCPY2")
CALL_TABLE = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPH_NAME = "CUDA graph"
"""A graph recorded as a whole: what runs inside is not known."""
COPY_WORDS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH"}
COPY_WORDS[10] = "PtoP"
MEMORY_WORDS = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device static"}
"""CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind, in the words that Kineto uses."""
RANGES = (59, 60, 70, 71, 75)
"""NVTX event types that have an end: push-pop and start-end ranges, over the versions seen."""
_OPERATOR = re.compile(r"^(?P<name>[A-Za-z_]\w*::[\w.]+)(?:,|$)")
_VERSION_SUFFIX = re.compile(r"_v\d+$|_ptsz(_v\d+)?$")


def read_nsight(path: Path | str) -> Trace:
    """The trace in an export; BadInput in one line where it is none, notes where only a part could be read."""
    path = Path(path)
    rows = _Rows()
    device: str | None = None
    counters: Counters | None = None
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            _Export(database, rows).read()
            devices = [str(name) for (name,) in _rows_of(database, "SELECT name FROM TARGET_INFO_GPU") if name]
            device = devices[0] if devices else None
            counters = _read_counters(database)
    except sqlite3.Error as error:
        if not rows.count:
            raise BadInput(f"{path}: not a readable Nsight Systems export ({error}); export it again") from None
        rows.notes.append(f"the database is damaged ({error}); what came before is kept")
    if not rows.count:
        raise BadInput(
            f"{path}: holds no CUDA activities or ranges; export with `nsys export --type sqlite` from a run "
            "recorded with --trace=cuda,nvtx"
        )
    if (missing := _missing_bytes(path)) > 0:
        rows.notes.append(f"the file is cut off: {missing:,} bytes are missing")
    return rows.trace(path, device, counters)


@dataclass
class _Rows:
    """Columns as they grow."""

    names: dict[str, int] = field(default_factory=dict)
    threads: dict[tuple[str, str], int] = field(default_factory=dict)
    parts: list[Int64] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unusable: int = 0

    @property
    def count(self) -> int:
        return sum(len(part) for part in self.parts)

    def name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))

    def thread(self, process: str, thread: str) -> int:
        return self.threads.setdefault((process, thread), len(self.threads))

    def add(self, rows: list[tuple[int, ...]]) -> None:
        """Rows of kind, name, start, duration, thread, correlation, bytes."""
        if not rows:
            return
        table = np.array(rows, dtype=np.int64)
        good = (table[:, 2] >= 0) & (table[:, 3] >= 0)
        self.unusable += int((~good).sum())
        self.parts.append(table[good])

    def trace(self, source: Path, device: str | None, counters: Counters | None) -> Trace:
        """The finished columns, ordered by start, longest first."""
        table = np.concatenate(self.parts)
        self.parts.clear()
        table = table[np.lexsort((table[:, 1], table[:, 5], -table[:, 3], table[:, 2]))]
        if self.unusable:
            what = "events without a usable start or with a negative duration were left out"
            self.notes.append(f"{self.unusable:,} {what}")
        kind, name, start_ns, dur_ns, thread, correlation, nbytes = (column.copy() for column in table.T)
        kinds = kind.astype(np.int8)
        return Trace(
            source=str(source),
            names=tuple(self.names),
            threads=tuple(self.threads),
            signatures=(),
            kind=kinds,
            name=name.astype(np.int32),
            start_ns=start_ns,
            dur_ns=dur_ns,
            thread=thread.astype(np.int32),
            correlation=correlation,
            external=_externals(kinds, start_ns, dur_ns, thread, correlation),
            signature=np.full(len(table), NONE, dtype=np.int32),
            nbytes=nbytes,
            device=device,
            raw_bytes=source.stat().st_size,
            notes=tuple(self.notes),
            damaged=bool(self.notes),
            counters=counters,
        )


def _externals(kind: npt.NDArray[np.int8], start_ns: Int64, dur_ns: Int64, thread: Int64, correlation: Int64) -> Int64:
    """Ties each call and its activity to the innermost operator range around the call, on the same thread."""
    external = np.full(len(kind), NONE, dtype=np.int64)
    operators = np.flatnonzero(kind == EventKind.OPERATOR)
    if not len(operators):
        return external
    external[operators] = operators
    calls = np.flatnonzero(kind == EventKind.RUNTIME)
    for number in distinct(thread[calls]).tolist():
        mine = np.flatnonzero(is_of(kind, (EventKind.OPERATOR, EventKind.RUNTIME)) & (thread == number) & (dur_ns > 0))
        parent, _, _ = nest_events(start_ns[mine], start_ns[mine] + dur_ns[mine])
        around = np.where(parent != NONE, mine[parent], NONE)
        inside = (kind[mine] == EventKind.RUNTIME) & (around != NONE)
        external[mine[inside]] = np.where(kind[around[inside]] == EventKind.OPERATOR, around[inside], NONE)
    activities = np.flatnonzero(is_of(kind, DEVICE_KINDS))
    at = match_ids(correlation[calls], correlation[activities])
    external[activities[at != NONE]] = external[calls[at[at != NONE]]]
    return external


def _missing_bytes(path: Path) -> int:
    """How much shorter the file is than its own head says: a cut file opens, and reads as far as its pages go."""
    with path.open("rb") as file:
        head = file.read(SQLITE_HEAD_BYTES)
    if len(head) < SQLITE_HEAD_BYTES or head[24:28] != head[92:96]:
        return 0  # the page count is only kept by writers that also keep the version beside it
    page = int.from_bytes(head[16:18], "big")
    return (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big") - path.stat().st_size


class _Export:
    """The tables of one export, read into rows."""

    def __init__(self, database: sqlite3.Connection, rows: _Rows) -> None:
        self.database, self.rows = database, rows
        listed = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self.tables = {str(name) for (name,) in listed}
        named = database.execute("SELECT id, value FROM StringIds") if "StringIds" in self.tables else ()
        self.strings = {int(number): str(text) for number, text in named}

    def read(self) -> None:
        """Device activities, then the host's calls and ranges."""
        rows = self.rows
        if not self.strings and self.tables & {*KERNEL_TABLES, CALL_TABLE}:
            rows.notes.append("the export has no StringIds: what its kernels and calls are named is not known")
        for table in KERNEL_TABLES:
            self.read_activities(table, EventKind.KERNEL, ("demangledName", "shortName"), self.text)
        self.read_activities(GRAPH_TABLE, EventKind.KERNEL, (), lambda: GRAPH_NAME)
        for table in COPY_TABLES:
            self.read_activities(table, EventKind.MEMCPY, ("copyKind", "srcKind", "dstKind"), _copy_name)
        self.read_activities("CUPTI_ACTIVITY_KIND_MEMSET", EventKind.MEMSET, (), lambda: "Memset (Device)")
        if CALL_TABLE not in self.tables and "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" in self.tables:
            rows.notes.append("the export has no CUDA API calls: waits of the host cannot be told apart")
        for portion in self.select(CALL_TABLE, "start", "end", "globalTid", "correlationId", "nameId"):
            rows.add(
                [
                    self.host_row(EventKind.RUNTIME, _VERSION_SUFFIX.sub("", self.text(name)), start, end, thread, call)
                    for start, end, thread, call, name in portion
                ]
            )
        for portion in self.select("NVTX_EVENTS", "start", "end", "eventType", "globalTid", "text", "textId"):
            rows.add(
                [
                    self.range_row(start, end, thread, self.text(text, number))
                    for start, end, kind, thread, text, number in portion
                    if end is not None and (kind is None or kind in RANGES)  # marks have no end
                ]
            )

    def select(self, table: str, *wanted: str) -> Iterator[list[tuple[Any, ...]]]:
        """Rows of a table in portions; a column that this version does not have reads as NULL."""
        if table not in self.tables:
            return
        known = {str(row[1]) for row in self.database.execute(f'PRAGMA table_info("{table}")')}
        columns = ", ".join(f'"{name}"' if name in known else "NULL" for name in wanted)
        cursor = self.database.execute(f'SELECT {columns} FROM "{table}"')
        while portion := cursor.fetchmany(FETCHED_ROWS):
            yield portion

    def text(self, *candidates: object) -> str:
        """The first name that is there; newer versions number names, older ones write them out."""
        for candidate in candidates:
            if isinstance(candidate, str) and candidate:
                return candidate
            if isinstance(candidate, int) and candidate in self.strings:
                return self.strings[candidate]
        return "unknown"

    def read_activities(
        self, table: str, kind: EventKind, naming: tuple[str, ...], name_of: Callable[..., str]
    ) -> None:
        """What the device did: rows named by what stands in the naming columns."""
        rows = self.rows
        columns = ("start", "end", "deviceId", "streamId", "correlationId", "bytes", *naming)
        for portion in self.select(table, *columns):
            rows.add(
                [
                    (
                        int(kind),
                        rows.name(name_of(*names)),
                        *_span(start, end),
                        rows.thread(f"device {_whole(device)}", f"stream {_whole(stream)}"),
                        _whole(correlation),
                        _whole(size),
                    )
                    for start, end, device, stream, correlation, size, *names in portion
                ]
            )

    def host_row(
        self, kind: EventKind, name: str, start: object, end: object, global_tid: object, correlation: object = None
    ) -> tuple[int, ...]:
        """What the host did, on the thread that the export numbers across processes."""
        number = max(0, _whole(global_tid))
        thread = self.rows.thread(str((number >> 24) & 0xFFFFFF), str(number & 0xFFFFFF))
        return int(kind), self.rows.name(name), *_span(start, end), thread, _whole(correlation), NONE

    def range_row(self, start: object, end: object, thread: object, words: str) -> tuple[int, ...]:
        """An NVTX range: one named like an operator is an operator, another an annotation."""
        operator = _OPERATOR.match(words)
        if operator is None:
            return self.host_row(EventKind.ANNOTATION, words, start, end, thread)
        return self.host_row(EventKind.OPERATOR, operator["name"], start, end, thread)


def _copy_name(copy: object, source: object, into: object) -> str:
    ends = f"{MEMORY_WORDS.get(_whole(source), 'Unknown')} -> {MEMORY_WORDS.get(_whole(into), 'Unknown')}"
    return f"Memcpy {COPY_WORDS.get(_whole(copy), 'Unknown')} ({ends})"


def _whole(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else NONE


def _span(start: object, end: object) -> tuple[int, int]:
    first, last = _whole(start), _whole(end)
    return first, last - first if first >= 0 else NONE


def _read_counters(database: sqlite3.Connection) -> Counters | None:
    """Samples of `--gpu-metrics-devices`: one row for each metric and time, in percent of what the unit can do."""
    query = "SELECT typeId, metricId, metricName FROM TARGET_INFO_GPU_METRICS"
    names = {(type_id, metric): str(name) for type_id, metric, name in _rows_of(database, query)}
    series: dict[str, tuple[list[int], list[float]]] = {}
    query = "SELECT timestamp, typeId, metricId, value FROM GPU_METRICS ORDER BY timestamp"
    for at, type_id, metric, value in _rows_of(database, query) if names else ():
        name = names.get((type_id, metric))
        if name is not None and isinstance(at, int) and isinstance(value, (int, float)):
            times, values = series.setdefault(name, ([], []))
            times.append(at)
            values.append(float(value))
    return combine_metrics(
        {name: (np.array(at, dtype=np.int64), np.array(values)) for name, (at, values) in series.items()}
    )


def _rows_of(database: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """Rows of a query, none where this export lacks the table."""
    try:
        yield from database.execute(query)
    except sqlite3.OperationalError:
        return
