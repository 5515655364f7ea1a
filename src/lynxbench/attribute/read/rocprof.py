"""rocprofv3's traces: the CSV of kernels or of copies, and the JSON that holds both with the calls of the host."""

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from lynxbench.attribute.read.csv_tables import read_table_rows
from lynxbench.attribute.read.trace import DEVICE_KINDS, NONE, EventKind, Trace, Unseen, distinct, is_of
from lynxbench.attribute.read.trace_rows import UNUSABLE, TraceRows
from lynxbench.errors import BadInput
from lynxbench.plain_files import read_plain

STAMPS = ("Start_Timestamp", "End_Timestamp")
"""Columns that every trace of rocprofv3 has, whatever it is of."""
COPY_WORDS = {
    "HOST_TO_DEVICE": "HtoD",
    "DEVICE_TO_HOST": "DtoH",
    "DEVICE_TO_DEVICE": "DtoD",
    "HOST_TO_HOST": "HtoH",
}
GPU = 2
"""The type of an agent that is a GPU."""

_KERNELS_ALONE = Unseen(
    "the table shows what the device did, and neither the host's calls nor, among kernels, the copies: why the device "
    "idled is not known",
    "record with rocprofv3 --runtime-trace --output-format json, which ties the device's work to the host's calls",
)
_NO_CALLS = Unseen(
    "the calls of the host were not recorded: why the device idled is not known",
    "record with rocprofv3 --runtime-trace --output-format json, and mark steps with roctx ranges (step#1, step#2 …)",
)
_SEVERAL = Unseen(
    "several devices worked side by side, and what the host did for which of them is not told apart",
    "record one process a device (ROCR_VISIBLE_DEVICES), and give their traces as ranks",
)


# --- tables -----------------------------------------------------------------------------------------------------------


def read_rocprof_table(path: Path) -> Trace:
    """The kernels, or the copies, of one table; BadInput in one line where it holds neither."""
    table, rows = read_table_rows(path, STAMPS)
    pick, columns = table.pick, TraceRows()
    is_kernels = "Kernel_Name" in table.columns
    if not is_kernels and "Direction" not in table.columns:
        raise BadInput(f"{path}: shows no work of a device; give rocprofv3's kernel trace, or its JSON, which has all")
    for row in rows:
        stamps, call = (pick(row, STAMPS[0]), pick(row, STAMPS[1])), pick(row, "Correlation_Id")
        if is_kernels:
            where = (f"device {pick(row, 'Agent_Id')}", f"queue {pick(row, 'Queue_Id')}")
            columns.add(EventKind.KERNEL, pick(row, "Kernel_Name") or "unknown", *stamps, where, call)
        else:
            direction = pick(row, "Direction")
            device = _device_of(direction, pick(row, "Source_Agent_Id"), pick(row, "Destination_Agent_Id"))
            columns.add(EventKind.MEMCPY, _copy_name(direction), *stamps, (device, "copies"), call)
    columns.notes += table.notes
    if table.short:
        columns.notes.append(f"{table.short:,} rows lack columns and were left out")
    return _finish(path, columns, device=None, unseen=_KERNELS_ALONE)


# --- the JSON document ------------------------------------------------------------------------------------------------


class _Handle(msgspec.Struct):
    """A number by which agents and queues are told apart."""

    handle: int = 0


class _Correlation(msgspec.Struct):
    """What ties an activity to the call that launched it."""

    internal: int = 0


class _Dispatch(msgspec.Struct):
    """Which kernel ran where."""

    agent_id: _Handle = msgspec.field(default_factory=_Handle)
    queue_id: _Handle = msgspec.field(default_factory=_Handle)
    kernel_id: int = 0


class _Record(msgspec.Struct):
    """A call, a range or an activity."""

    start_timestamp: int
    end_timestamp: int
    kind: int = -1
    operation: int = -1
    thread_id: int = 0
    correlation_id: _Correlation = msgspec.field(default_factory=_Correlation)
    dispatch_info: _Dispatch | None = None
    src_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    dst_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    nbytes: int | None = msgspec.field(name="bytes", default=None)


class _Buffers(msgspec.Struct):
    """What was recorded, by its kind."""

    kernel_dispatch: list[_Record] = []
    memory_copy: list[_Record] = []
    hip_api: list[_Record] = []
    marker_api: list[_Record] = []


class _Symbol(msgspec.Struct):
    """A kernel's names."""

    kernel_id: int = 0
    kernel_name: str = ""
    formatted_kernel_name: str = ""


class _OperationNames(msgspec.Struct):
    """The names of a kind's operations, by their number."""

    kind: str = ""
    operations: list[Any] = []


class _MarkerMessage(msgspec.Struct):
    """The words of a range, by the number of its call."""

    key: int = 0
    value: str = ""


class _Strings(msgspec.Struct):
    """Tables of words."""

    buffer_records: list[_OperationNames] = []
    marker_api: list[_MarkerMessage] = []


class _Agent(msgspec.Struct):
    """A processor of the machine."""

    id: _Handle = msgspec.field(default_factory=_Handle)
    type: int = 0
    name: str = ""
    product_name: str = ""


class _Metadata(msgspec.Struct):
    """Of the process."""

    pid: int = 0


class _Process(msgspec.Struct):
    """One process's records."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    agents: list[_Agent] = []
    strings: _Strings = msgspec.field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = []
    buffer_records: _Buffers = msgspec.field(default_factory=_Buffers)

    def operation(self, record: _Record) -> str:
        """The name of what a record is of."""
        kinds = self.strings.buffer_records
        names = kinds[record.kind].operations if 0 <= record.kind < len(kinds) else []
        return str(names[record.operation]) if 0 <= record.operation < len(names) else "unknown"


class _Document(msgspec.Struct):
    """The document: a process each."""

    processes: list[_Process] | _Process = msgspec.field(name="rocprofiler-sdk-tool")


def read_rocprof_document(path: Path) -> Trace:
    """The trace in a JSON document; BadInput in one line where it is cut off, damaged or empty."""
    try:
        found = msgspec.json.decode(read_plain(path), type=_Document).processes
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a trace file") from None
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise BadInput(f"{path}: not a whole rocprofv3 document ({error}); export it again") from None
    processes = found if isinstance(found, list) else [found]
    columns = TraceRows()
    called = False
    for process in processes:
        _add_activities(columns, process)
        messages = {message.key: message.value for message in process.strings.marker_api}
        for call in process.buffer_records.hip_api:
            called = True
            _add_host(columns, EventKind.RUNTIME, process.operation(call), process, call)
        for mark in process.buffer_records.marker_api:
            if mark.end_timestamp > mark.start_timestamp and mark.correlation_id.internal in messages:
                _add_host(columns, EventKind.ANNOTATION, messages[mark.correlation_id.internal], process, mark)
    gpus = [agent for process in processes for agent in process.agents if agent.type == GPU]
    device = next((agent.product_name or agent.name for agent in gpus if agent.product_name or agent.name), None)
    return _finish(path, columns, device=device, unseen=None if called else _NO_CALLS)


def _add_activities(columns: TraceRows, process: _Process) -> None:
    names = {symbol.kernel_id: symbol.formatted_kernel_name or symbol.kernel_name for symbol in process.kernel_symbols}
    for record in process.buffer_records.kernel_dispatch:
        info = record.dispatch_info or _Dispatch()
        name = names.get(info.kernel_id) or f"kernel {info.kernel_id}"
        where = (f"device {info.agent_id.handle}", f"queue {info.queue_id.handle}")
        columns.add(EventKind.KERNEL, name, record.start_timestamp, record.end_timestamp, where, _call_id(record))
    for record in process.buffer_records.memory_copy:
        direction = process.operation(record)
        device = _device_of(direction, str(record.src_agent_id.handle), str(record.dst_agent_id.handle))
        stamps = record.start_timestamp, record.end_timestamp
        where = (device, "copies")
        columns.add(EventKind.MEMCPY, _copy_name(direction), *stamps, where, _call_id(record), record.nbytes)


def _call_id(record: _Record) -> int | None:
    return record.correlation_id.internal or None


def _add_host(columns: TraceRows, kind: EventKind, name: str, process: _Process, record: _Record) -> None:
    thread = (str(process.metadata.pid), str(record.thread_id))
    columns.add(kind, name, record.start_timestamp, record.end_timestamp, thread, _call_id(record))


# --- both -------------------------------------------------------------------------------------------------------------


def _copy_name(direction: str) -> str:
    return f"Memcpy {COPY_WORDS.get(direction.removeprefix('MEMORY_COPY_'), 'Unknown')}"


def _device_of(direction: str, source: str, into: str) -> str:
    """The agent that a copy belongs to, on whichever side of it the device is."""
    return f"device {source if direction.endswith('DEVICE_TO_HOST') else into}"


def _finish(path: Path, columns: TraceRows, *, device: str | None, unseen: Unseen | None) -> Trace:
    trace = columns.trace(path, device=device, unseen=unseen) if columns else None
    if trace is None or not trace.dur_ns[trace.rows_of(*DEVICE_KINDS)].any():
        losses = f" ({columns.unusable:,} {UNUSABLE})" if columns.unusable else ""
        raise BadInput(f"{path}: holds no work of a device{losses}; record with rocprofv3 --runtime-trace")
    return _of_busiest(trace)


def _of_busiest(trace: Trace) -> Trace:
    """The work of the agent that worked most: devices side by side are no one device's time."""
    is_work = is_of(trace.kind, DEVICE_KINDS)
    agents = sorted({process for process, _ in (trace.threads[i] for i in distinct(trace.thread[is_work]).tolist())})
    if len(agents) < 2:
        return trace
    numbers = {agent: number for number, agent in enumerate(agents)}
    agent_of = np.array([numbers.get(process, NONE) for process, _ in trace.threads])[trace.thread]
    worked = np.bincount(agent_of[is_work], weights=trace.dur_ns[is_work])
    busiest = int(np.argmax(worked))
    note = f"{len(agents)} agents worked; the one that worked most ({agents[busiest]}) is shown"
    kept = trace.only(~is_work | (agent_of == busiest))
    return dataclasses.replace(kept, notes=(*kept.notes, note), unseen=trace.unseen or _SEVERAL)
