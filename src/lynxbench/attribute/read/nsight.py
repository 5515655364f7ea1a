"""Nsight Systems exports (SQLite) to the columns of a PyTorch trace; versions differ in columns, not in meaning."""

import dataclasses
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

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
from lynxbench.attribute.read.trace_rows import TraceRows, whole
from lynxbench.errors import BadInput
from lynxbench.plain_files import open_plain

SQLITE_HEAD_BYTES = 100
KERNEL_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
GRAPH_TABLE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPY_TABLES = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMCPY2")
SET_TABLE = "CUPTI_ACTIVITY_KIND_MEMSET"
CALL_TABLE = "CUPTI_ACTIVITY_KIND_RUNTIME"
FIXED_NAMES = {GRAPH_TABLE: "CUDA graph", SET_TABLE: "Memset (Device)"}
"""Of a graph recorded as a whole, what runs inside is not known."""
ACTIVITIES: dict[str, tuple[EventKind, tuple[str, ...]]] = {
    **dict.fromkeys(KERNEL_TABLES, (EventKind.KERNEL, ("demangledName", "shortName"))),
    GRAPH_TABLE: (EventKind.KERNEL, ()),
    **dict.fromkeys(COPY_TABLES, (EventKind.MEMCPY, ("copyKind", "srcKind", "dstKind"))),
    SET_TABLE: (EventKind.MEMSET, ()),
}
"""Tables of what a device did, with the columns that name it."""
COPY_WORDS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH"}
COPY_WORDS[10] = "PtoP"
MEMORY_WORDS = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device static"}
"""CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind, in the words that Kineto uses."""
RANGES = (59, 60, 70, 71, 75)
"""NVTX event types that have an end: push-pop and start-end ranges, over the versions seen."""
STEPS, MOST_STEPS, STEPS_A_BYTE = 100_000, 5_000_000, 8
"""Of SQLite's machine: between two looks at the count, of a small file, and for each byte (a row has 20 or more)."""
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
            _bound(database, path.stat().st_size)
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            rows.read(database)
            device = next((str(name) for (name,) in _select(database, "TARGET_INFO_GPU", "name") if name), None)
            counters = _read_counters(database)
    except sqlite3.Error as error:
        if not rows:
            raise BadInput(f"{path}: not a readable Nsight Systems export ({error}); export it again") from None
        rows.notes.append(f"the database is damaged ({error}); what came before is kept")
    if not rows and rows.foreign:
        raise BadInput(f"{path}: a database of rocprofv3 (rocpd); record with --output-format json, and give that")
    if not rows:
        raise BadInput(
            f"{path}: holds no CUDA activities or ranges; export with `nsys export --type sqlite` from a run "
            "recorded with --trace=cuda,nvtx"
        )
    if (missing := _missing_bytes(path)) > 0:
        rows.notes.append(f"the file is cut off: {missing:,} bytes are missing")
    trace = rows.trace(path, device=device, counters=counters)
    return dataclasses.replace(trace, external=_externals(trace))


class _Rows(TraceRows):
    """Columns as they grow, table by table."""

    def __init__(self) -> None:
        super().__init__()
        self.strings: dict[int, str] = {}
        self.foreign = False

    def read(self, database: sqlite3.Connection) -> None:
        """Device activities, then the host's calls and ranges."""
        listed = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        tables = {str(name) for (name,) in listed}
        self.foreign = any(name.startswith("rocpd_") for name in tables)
        self.strings = {int(number): str(text) for number, text in _select(database, "StringIds", "id", "value")}
        if not self.strings and tables & {*KERNEL_TABLES, CALL_TABLE}:
            self.notes.append("the export has no StringIds: what its kernels and calls are named is not known")
        if CALL_TABLE not in tables and "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" in tables:
            self.notes.append("the export has no CUDA API calls: waits of the host cannot be told apart")
        where = ("start", "end", "deviceId", "streamId", "correlationId", "bytes")
        for table, (kind, naming) in ACTIVITIES.items():
            for start, end, device, stream, call, size, *names in _select(database, table, *where, *naming):
                name = FIXED_NAMES.get(table) or (_copy_name if kind is EventKind.MEMCPY else self.text)(*names)
                self.add(kind, name, start, end, (f"device {whole(device)}", f"stream {whole(stream)}"), call, size)
        calls = _select(database, CALL_TABLE, "start", "end", "globalTid", "correlationId", "nameId")
        for start, end, thread, call, number in calls:
            name = _VERSION_SUFFIX.sub("", self.text(number))
            self.add(EventKind.RUNTIME, name, start, end, _host_thread(thread), call)
        ranges = _select(database, "NVTX_EVENTS", "start", "end", "globalTid", "eventType", "text", "textId")
        for start, end, thread, form, *texts in ranges:
            if end is not None and (form is None or form in RANGES):  # marks have no end
                words = self.text(*texts)
                operator = _OPERATOR.match(words)
                kind, name = (EventKind.OPERATOR, operator["name"]) if operator else (EventKind.ANNOTATION, words)
                self.add(kind, name, start, end, _host_thread(thread))

    def text(self, *candidates: object) -> str:
        """The first name that is there; newer versions number names, older ones write them out."""
        for candidate in candidates:
            if isinstance(candidate, str) and candidate:
                return candidate
            if isinstance(candidate, int) and candidate in self.strings:
                return self.strings[candidate]
        return "unknown"


def _externals(trace: Trace) -> Int64:
    """Ties each call and its activity to the innermost operator range around the call, on the same thread."""
    kind, start_ns, dur_ns, thread = trace.kind, trace.start_ns, trace.dur_ns, trace.thread
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
    at = match_ids(trace.correlation[calls], trace.correlation[activities])
    external[activities[at != NONE]] = external[calls[at[at != NONE]]]
    return external


def _bound(database: sqlite3.Connection, size_bytes: int) -> None:
    """End what takes more steps than reading a file of this size: a view or a page that refers to itself never ends."""
    left = MOST_STEPS // STEPS + size_bytes * STEPS_A_BYTE // STEPS

    def count() -> int:
        nonlocal left
        left -= 1
        return int(left < 0)

    database.set_progress_handler(count, STEPS)


def _missing_bytes(path: Path) -> int:
    """How much shorter the file is than its own head says: a cut file opens, and reads as far as its pages go."""
    with open_plain(path) as file:
        head = file.read(SQLITE_HEAD_BYTES)
    if len(head) < SQLITE_HEAD_BYTES or head[24:28] != head[92:96]:
        return 0  # the page count is only kept by writers that also keep the version beside it
    page = int.from_bytes(head[16:18], "big")
    return (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big") - path.stat().st_size


def _select(database: sqlite3.Connection, table: str, *wanted: str) -> Iterator[tuple[Any, ...]]:
    """Rows of a table, none where this export lacks it; a column that this version does not have reads as NULL."""
    known = {str(row[1]) for row in database.execute(f'PRAGMA table_info("{table}")')}
    if known:
        columns = ", ".join(f'"{name}"' if name in known else "NULL" for name in wanted)
        yield from database.execute(f'SELECT {columns} FROM "{table}"')


def _host_thread(global_tid: object) -> tuple[str, str]:
    number = max(0, global_tid) if isinstance(global_tid, int) else 0
    return str((number >> 24) & 0xFFFFFF), str(number & 0xFFFFFF)


def _copy_name(copy: object, source: object, into: object) -> str:
    ends = f"{MEMORY_WORDS.get(whole(source), 'Unknown')} -> {MEMORY_WORDS.get(whole(into), 'Unknown')}"
    return f"Memcpy {COPY_WORDS.get(whole(copy), 'Unknown')} ({ends})"


def _read_counters(database: sqlite3.Connection) -> Counters | None:
    """Samples of `--gpu-metrics-devices`: one row for each metric and time, in percent of what the unit can do."""
    listed = _select(database, "TARGET_INFO_GPU_METRICS", "typeId", "metricId", "metricName")
    names = {(type_id, metric): str(name) for type_id, metric, name in listed}
    series: dict[str, list[tuple[int, float]]] = {}
    for at, type_id, metric, value in _select(database, "GPU_METRICS", "timestamp", "typeId", "metricId", "value"):
        name = names.get((type_id, metric))
        if name is not None and isinstance(at, int) and isinstance(value, (int, float)):
            series.setdefault(name, []).append((at, float(value)))
    in_time = {name: sorted(samples) for name, samples in series.items()}
    return combine_metrics(
        {
            name: (np.array([at for at, _ in samples], dtype=np.int64), np.array([value for _, value in samples]))
            for name, samples in in_time.items()
        }
    )
