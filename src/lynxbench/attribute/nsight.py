"""Nsight Systems exports (SQLite) to the columns of a PyTorch trace; versions differ in columns, not in meaning."""

from __future__ import annotations

import dataclasses
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.counters import Counters, combine_metrics
from lynxbench.attribute.timeline import nest_events
from lynxbench.attribute.trace_columns import NONE, EventKind, Int64, Launch, Trace
from lynxbench.errors import BadInput

FETCHED_ROWS = 50_000
SQLITE_HEAD_BYTES = 100
KERNEL_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
GRAPH_TABLE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
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
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            _read(database, rows)
            device = _device(database)
            counters = _read_counters(database)
    except sqlite3.Error as error:
        if not rows.count:
            raise BadInput(f"{path}: not a readable Nsight Systems export ({error}); export it again") from None
        rows.notes.append(f"the database is damaged ({error}); what came before is kept")
        device = counters = None
    if not rows.count:
        raise BadInput(
            f"{path}: holds no CUDA activities or ranges; export with `nsys export --type sqlite` from a run "
            "recorded with --trace=cuda,nvtx"
        )
    if (missing := _missing_bytes(path)) > 0:
        rows.notes.append(f"the file is cut off: {missing:,} bytes are missing")
    return dataclasses.replace(rows.trace(str(path), device, path.stat().st_size), counters=counters)


@dataclass
class _Rows:
    """Columns as they grow."""

    names: dict[str, int] = field(default_factory=dict)
    threads: dict[tuple[str, str], int] = field(default_factory=dict)
    launches: dict[tuple[int, int], int] = field(default_factory=dict)
    parts: list[npt.NDArray[np.int64]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unusable: int = 0

    @property
    def count(self) -> int:
        return sum(len(part) for part in self.parts)

    def name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))

    def thread(self, process: str, thread: str) -> int:
        return self.threads.setdefault((process, thread), len(self.threads))

    def add(self, rows: Sequence[tuple[int, ...]]) -> None:
        """Rows of kind, name, start, duration, thread, stream, correlation, launch, bytes."""
        if not rows:
            return
        table = np.array(rows, dtype=np.int64)
        good = (table[:, 2] >= 0) & (table[:, 3] >= 0)
        self.unusable += int((~good).sum())
        self.parts.append(table[good])

    def trace(self, source: str, device: str | None, raw_bytes: int) -> Trace:
        """The finished columns, ordered by start, longest first."""
        table = np.concatenate(self.parts)
        self.parts.clear()
        table = table[np.lexsort((table[:, 1], table[:, 6], -table[:, 3], table[:, 2]))]
        notes = list(self.notes)
        if self.unusable:
            notes.append(f"{self.unusable:,} events without a usable start or with a negative duration were left out")
        kind = table[:, 0].astype(np.int8)
        return Trace(
            source=source,
            names=tuple(self.names),
            threads=tuple(self.threads),
            signatures=(),
            launches=tuple(Launch(blocks, threads) for blocks, threads in self.launches),
            kind=kind,
            name=table[:, 1].astype(np.int32),
            start_ns=table[:, 2].copy(),
            dur_ns=table[:, 3].copy(),
            thread=table[:, 4].astype(np.int32),
            stream=table[:, 5].astype(np.int32),
            correlation=table[:, 6].copy(),
            external=_externals(kind, table),
            signature=np.full(len(table), NONE, dtype=np.int32),
            launch=table[:, 7].astype(np.int32),
            nbytes=table[:, 8].copy(),
            device=device,
            raw_bytes=raw_bytes,
            notes=tuple(notes),
            damaged=bool(notes),
        )


def _externals(kind: npt.NDArray[np.int8], table: Int64) -> Int64:
    """Ties each call and its activity to the innermost operator range around the call, on the same thread."""
    out = np.full(len(table), NONE, dtype=np.int64)
    operators = np.flatnonzero(kind == EventKind.OPERATOR)
    if not len(operators):
        return out
    out[operators] = operators
    calls = np.flatnonzero(kind == EventKind.RUNTIME)
    for thread in np.unique(table[calls, 4]).tolist():
        mine = np.sort(np.concatenate((operators[table[operators, 4] == thread], calls[table[calls, 4] == thread])))
        mine = mine[table[mine, 3] > 0]
        if not len(mine):
            continue
        parent, _, _ = nest_events(table[mine, 2], table[mine, 2] + table[mine, 3])
        around = np.where(parent != NONE, mine[parent], NONE)
        found = (kind[mine] == EventKind.RUNTIME) & (around != NONE)
        out[mine[found]] = np.where(kind[around[found]] == EventKind.OPERATOR, around[found], NONE)
    keys = table[calls, 6]
    order = np.argsort(keys, kind="stable")
    activities = np.flatnonzero((kind == EventKind.KERNEL) | (kind == EventKind.MEMCPY) | (kind == EventKind.MEMSET))
    if len(keys) and len(activities):
        at = np.minimum(np.searchsorted(keys[order], table[activities, 6]), len(keys) - 1)
        hit = (keys[order][at] == table[activities, 6]) & (table[activities, 6] != NONE)
        out[activities[hit]] = out[calls[order][at[hit]]]
    return out


def _missing_bytes(path: Path) -> int:
    """How much shorter the file is than its own head says: a cut file opens, and reads as far as its pages go."""
    with path.open("rb") as file:
        head = file.read(SQLITE_HEAD_BYTES)
    if len(head) < SQLITE_HEAD_BYTES or head[24:28] != head[92:96]:
        return 0  # the page count is only kept by writers that also keep the version beside it
    page = int.from_bytes(head[16:18], "big")
    return (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big") - path.stat().st_size


def _read(database: sqlite3.Connection, rows: _Rows) -> None:
    found = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    tables = {str(name) for (name,) in found}
    strings = _strings(database, tables)
    if not strings and tables & {*KERNEL_TABLES, "CUPTI_ACTIVITY_KIND_RUNTIME"}:
        rows.notes.append("the export has no StringIds: what its kernels and calls are named is not known")
    _read_kernels(database, tables, strings, rows)
    _read_copies(database, tables, rows)
    _read_calls(database, tables, strings, rows)
    _read_ranges(database, tables, strings, rows)


def _select(database: sqlite3.Connection, table: str, wanted: tuple[str, ...]) -> Iterator[list[tuple[Any, ...]]]:
    """Rows of a table in portions; a column that this version does not have reads as NULL."""
    known = {str(row[1]) for row in database.execute(f'PRAGMA table_info("{table}")')}
    columns = ", ".join(f'"{name}"' if name in known else "NULL" for name in wanted)
    cursor = database.execute(f'SELECT {columns} FROM "{table}"')
    while portion := cursor.fetchmany(FETCHED_ROWS):
        yield portion


def _strings(database: sqlite3.Connection, tables: set[str]) -> dict[int, str]:
    if "StringIds" not in tables:
        return {}
    return {int(number): str(text) for number, text in database.execute("SELECT id, value FROM StringIds")}


def _text(strings: dict[int, str], *candidates: object) -> str:
    """The first name that is there; newer versions number names, older ones write them out."""
    for candidate in candidates:
        if isinstance(candidate, str) and candidate:
            return candidate
        if isinstance(candidate, int) and candidate in strings:
            return strings[candidate]
    return "unknown"


def _whole(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else NONE


def _span(start: object, end: object) -> tuple[int, int]:
    first, last = _whole(start), _whole(end)
    return first, last - first if first >= 0 else NONE


def _device_thread(rows: _Rows, device: object, stream: object) -> int:
    return rows.thread(f"device {_whole(device)}", f"stream {_whole(stream)}")


def _read_kernels(database: sqlite3.Connection, tables: set[str], strings: dict[int, str], rows: _Rows) -> None:
    ids = ("start", "end", "deviceId", "streamId", "correlationId", "demangledName", "shortName")
    wanted = (*ids, "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
    for table in KERNEL_TABLES:
        for portion in _select(database, table, wanted) if table in tables else ():
            out = []
            for start, end, device, stream, correlation, long, short, *sizes in portion:
                first, took = _span(start, end)
                grid = [max(1, _whole(size)) for size in sizes]
                shape = (grid[0] * grid[1] * grid[2], grid[3] * grid[4] * grid[5])
                launch = rows.launches.setdefault(shape, len(rows.launches))
                name = rows.name(_text(strings, long, short))
                thread = _device_thread(rows, device, stream)
                kind = int(EventKind.KERNEL)
                out.append((kind, name, first, took, thread, _whole(stream), _whole(correlation), launch, NONE))
            rows.add(out)
    for portion in _select(database, GRAPH_TABLE, wanted) if GRAPH_TABLE in tables else ():
        out = []
        for start, end, device, stream, correlation, *_ in portion:
            first, took = _span(start, end)
            thread, kind = _device_thread(rows, device, stream), int(EventKind.KERNEL)
            name = rows.name(GRAPH_NAME)
            out.append((kind, name, first, took, thread, _whole(stream), _whole(correlation), NONE, NONE))
        rows.add(out)


def _read_copies(database: sqlite3.Connection, tables: set[str], rows: _Rows) -> None:
    wanted = ("start", "end", "deviceId", "streamId", "correlationId", "bytes", "copyKind", "srcKind", "dstKind")
    for table in ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMCPY2"):
        for portion in _select(database, table, wanted) if table in tables else ():
            out = []
            for start, end, device, stream, correlation, size, copy, source, into in portion:
                first, took = _span(start, end)
                ends = f"{MEMORY_WORDS.get(_whole(source), 'Unknown')} -> {MEMORY_WORDS.get(_whole(into), 'Unknown')}"
                name = rows.name(f"Memcpy {COPY_WORDS.get(_whole(copy), 'Unknown')} ({ends})")
                thread, kind = _device_thread(rows, device, stream), int(EventKind.MEMCPY)
                ids = (thread, _whole(stream), _whole(correlation))
                out.append((kind, name, first, took, *ids, NONE, _whole(size)))
            rows.add(out)
    table = "CUPTI_ACTIVITY_KIND_MEMSET"
    for portion in _select(database, table, wanted[:6]) if table in tables else ():
        out = []
        for start, end, device, stream, correlation, size in portion:
            first, took = _span(start, end)
            ids = (_device_thread(rows, device, stream), _whole(stream), _whole(correlation))
            out.append((int(EventKind.MEMSET), rows.name("Memset (Device)"), first, took, *ids, NONE, _whole(size)))
        rows.add(out)


def _host_thread(rows: _Rows, global_tid: object) -> int:
    number = max(0, _whole(global_tid))
    return rows.thread(str((number >> 24) & 0xFFFFFF), str(number & 0xFFFFFF))


def _read_calls(database: sqlite3.Connection, tables: set[str], strings: dict[int, str], rows: _Rows) -> None:
    table = "CUPTI_ACTIVITY_KIND_RUNTIME"
    if table not in tables:
        if "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" in tables:
            rows.notes.append("the export has no CUDA API calls: waits of the host cannot be told apart")
        return
    for portion in _select(database, table, ("start", "end", "globalTid", "correlationId", "nameId")):
        out = []
        for start, end, thread, correlation, name in portion:
            first, took = _span(start, end)
            called = rows.name(_VERSION_SUFFIX.sub("", _text(strings, name)))
            where = _host_thread(rows, thread)
            out.append((int(EventKind.RUNTIME), called, first, took, where, NONE, _whole(correlation), NONE, NONE))
        rows.add(out)


def _read_ranges(database: sqlite3.Connection, tables: set[str], strings: dict[int, str], rows: _Rows) -> None:
    """NVTX ranges: those named like operators are operators, the others annotations; marks have no end."""
    if "NVTX_EVENTS" not in tables:
        return
    for portion in _select(database, "NVTX_EVENTS", ("start", "end", "eventType", "globalTid", "text", "textId")):
        out = []
        for start, end, kind, thread, text, number in portion:
            if end is None or (kind is not None and kind not in RANGES):
                continue
            words = _text(strings, text, number)
            operator = _OPERATOR.match(words)
            first, took = _span(start, end)
            name = rows.name(operator["name"] if operator else words)
            what = int(EventKind.OPERATOR if operator else EventKind.ANNOTATION)
            out.append((what, name, first, took, _host_thread(rows, thread), NONE, NONE, NONE, NONE))
        rows.add(out)


def _read_counters(database: sqlite3.Connection) -> Counters | None:
    """Samples of `--gpu-metrics-devices`: one row for each metric and time, in percent of what the unit can do."""
    names = {
        (type_id, metric): str(name)
        for type_id, metric, name in _rows_of(
            database, "SELECT typeId, metricId, metricName FROM TARGET_INFO_GPU_METRICS"
        )
    }
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


def _device(database: sqlite3.Connection) -> str | None:
    try:
        row = database.execute("SELECT name FROM TARGET_INFO_GPU LIMIT 1").fetchone()
    except sqlite3.Error:
        return None
    return str(row[0]) if row and row[0] else None
