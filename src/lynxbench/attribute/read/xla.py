"""Traces that JAX and TensorFlow write for TensorBoard's profiler: the work of a device, and the steps that XLA marked.

They are chrome traces whose processes are devices (`/device:TPU:0`) and whose threads are lines of different meaning:
streams, or `XLA Ops` where there are none, hold what ran; `XLA Modules`, name scopes and their like say it again.
"""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from lynxbench.attribute.read.chrome_text import FileReading, ListDecoder, read_pieces
from lynxbench.attribute.read.trace import EventKind, Int64, Trace, Unseen, flatten_events
from lynxbench.attribute.read.trace_rows import UNUSABLE, TraceRows, nanoseconds
from lynxbench.errors import BadInput

US = 1e3
MOST_EVENTS = 1_000_000
"""The writer drops what lies beyond this many events."""
STEPS = "Steps"
HOST = "/host:CPU"
_DEVICE = re.compile(r"/device:\w+:\d+")
_STREAM = "Stream #"
_OPERATORS = "XLA Ops"
_COPY = re.compile(r"^Memcpy(H2D|D2H|D2D|P2P|Other)")
_COPY_WORDS = {"H2D": "HtoD", "D2H": "DtoH", "D2D": "DtoD", "P2P": "PtoP", "Other": "Unknown"}
_DETAIL = re.compile(r"(\w+):(\S+)")

_NOT_TIED = Unseen(
    "XLA's runtime works on threads of its own, and the trace does not tie what they do to the program: why the device "
    "idled is not known",
    "mark steps with jax.profiler.StepTraceAnnotation, and record the host's side with Nsight Systems or rocprofv3",
)

_Text = str | int | float | bool | None


class _XlaArgs(msgspec.Struct, gc=False):
    name: _Text = None
    hlo_op: _Text = None
    hlo_category: _Text = None
    step_num: _Text = None
    memcpy_details: _Text = None


class _XlaEvent(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = -1.0
    dur: float = 0.0
    args: _XlaArgs | None = None


_Line = tuple[int | str, int | str]
"""A process and a thread, as numbered."""


class _Timed(NamedTuple):
    """An event that may be work or a step; which, its line says once all lines are known."""

    line: _Line
    name: str
    start_ns: int
    end_ns: int
    nbytes: int | None
    is_operator: bool
    step: str


def read_xla(path: Path) -> Trace:
    """The busiest device's work; BadInput in one line where no device and no operator shows."""
    reading, decode, lines, columns = FileReading(), ListDecoder(_XlaEvent), _Lines(), TraceRows()
    events = [timed for piece in read_pieces(path, decode, reading) for event in piece for timed in lines.take(event)]
    columns.notes += reading.notes
    if decode.refused:
        columns.notes.append(f"{decode.refused:,} events with fields of the wrong type were left out")
    if lines.seen >= MOST_EVENTS:
        columns.notes.append(f"the trace holds {lines.seen:,} events: its writer leaves out what lies beyond a million")
    columns.unusable = lines.unusable
    by_line: dict[_Line, list[_Timed]] = {}
    for event in events:
        by_line.setdefault(event.line, []).append(event)
    worked: Counter[int | str] = Counter()
    work = lines.find_work(by_line)
    for (process, _), each in work.items():
        worked[process] += sum(event.end_ns - event.start_ns for event in each)
    if not worked:
        losses = f" ({columns.unusable:,} {UNUSABLE})" if columns.unusable else ""
        raise BadInput(f"{path}: shows no work of a device and no XLA operator{losses}; profile a whole step again")
    busiest = max(worked, key=lambda process: (worked[process], str(process)))
    device = lines.processes.get(busiest, "unknown")
    for line, each in work.items():
        if line[0] == busiest:
            thread = lines.threads.get(line, str(line[1]))
            _add_work(columns, each, (f"device {device}", thread), nested=not thread.startswith(_STREAM))
    if not columns:
        raise BadInput(f"{path}: its device's work takes no time; profile a whole step again")
    _add_steps(columns, by_line, lines, busiest)
    shown = f"{len(worked)} devices worked; the one that worked most is shown ({device})"
    named = f"XLA on the host ({device})" if device.endswith(HOST) else device
    remarks = (shown,) if len(worked) > 1 else ()
    return columns.trace(path, device=named, unseen=_NOT_TIED, remarks=remarks)


class _Lines:
    """What processes and threads are called, and the events that may matter."""

    def __init__(self) -> None:
        self.processes: dict[int | str, str] = {}
        self.threads: dict[_Line, str] = {}
        self.seen = 0
        self.unusable = 0

    def is_device(self, line: _Line) -> bool:
        """Whether a line belongs to a device."""
        return _DEVICE.search(self.processes.get(line[0], "")) is not None

    def find_work(self, by_line: dict[_Line, list[_Timed]]) -> dict[_Line, list[_Timed]]:
        """The lines that hold what ran, each device's work once; on a CPU, operators run on threads of the host."""
        devices = [line for line in by_line if self.is_device(line)]
        streams = [line for line in devices if self.threads.get(line, "").startswith(_STREAM)]
        streaming = {process for process, _ in streams}
        operators = [line for line in devices if line[0] not in streaming and self.threads.get(line) == _OPERATORS]
        if streams or operators:
            return {line: by_line[line] for line in (*streams, *operators)}
        on_host = {line: [event for event in each if event.is_operator] for line, each in by_line.items()}
        return {line: each for line, each in on_host.items() if each}

    def take(self, event: _XlaEvent) -> tuple[_Timed, ...]:
        """The event, where it may be work or a step; names are written before the events that bear them."""
        args, line = event.args or _XlaArgs(), (event.pid, event.tid)
        if event.ph == "M":
            if event.name == "process_name":
                self.processes[event.pid] = str(args.name)
            elif event.name == "thread_name":
                self.threads[line] = str(args.name)
        if event.ph != "X":
            return ()
        self.seen += 1
        named = self.processes.get(event.pid)
        if named is not None and not _DEVICE.search(named) and args.hlo_op is None and args.step_num is None:
            return ()
        start, took = nanoseconds(event.ts, US), nanoseconds(event.dur, US)
        if start < 0 or took < 0:
            self.unusable += 1
            return ()
        name, nbytes = _name_of(event.name, args)
        step = str(args.step_num) if args.step_num is not None else ""
        return (_Timed(line, name, start, start + took, nbytes, args.hlo_op is not None, step),)


def _name_of(name: str, args: _XlaArgs) -> tuple[str, int | None]:
    """Copies in the words that others use, with their bytes; operators with their category where that tells more."""
    copy = _COPY.match(name)
    if copy is not None:
        details = dict(_DETAIL.findall(str(args.memcpy_details or "")))
        source, into, size = (details.get(key, "") for key in ("kind_src", "kind_dst", "size"))
        ends = f" ({source} -> {into})" if source and into else ""
        return f"Memcpy {_COPY_WORDS[copy[1]]}{ends}", int(size) if size.isdecimal() and len(size) < 19 else None
    if name.startswith("%"):  # the whole instruction: its result stands before the equals sign
        name = name[1:].partition(" = ")[0]
    category = str(args.hlo_category or "")
    return (f"{name} [{category}]" if category and category not in name else name or "unknown"), None


def _add_work(columns: TraceRows, events: list[_Timed], where: tuple[str, str], *, nested: bool) -> None:
    """A line's events; where they nest, each without what runs inside it: a loop holds the operators of its body."""
    timed = sorted((event for event in events if event.end_ns > event.start_ns), key=lambda e: (e.start_ns, -e.end_ns))
    start, end = (np.array([event[place] for event in timed], dtype=np.int64) for place in (2, 3))
    number_of: Int64 = np.arange(len(timed), dtype=np.int64)
    if nested:
        start, end, number_of, misnested = flatten_events(start, end)
        if misnested:
            columns.notes.append(f"{misnested:,} events of a line outlast the one around them: its stamps are damaged")
    for begin, until, number in zip(start.tolist(), end.tolist(), number_of.tolist(), strict=True):
        event = timed[number]
        kind = EventKind.KERNEL
        if event.name.startswith(("Memcpy ", "Memset")):
            kind = EventKind.MEMCPY if event.name.startswith("Memcpy ") else EventKind.MEMSET
        columns.add(kind, event.name, begin, until, where, None, event.nbytes)


def _add_steps(columns: TraceRows, by_line: dict[_Line, list[_Timed]], lines: _Lines, busiest: int | str) -> None:
    """The device's own line of steps, else the ranges that the program named as steps."""
    marked = [
        event
        for line, each in by_line.items()
        if line[0] == busiest and lines.threads.get(line) == STEPS
        for event in each
    ]
    marked = marked or [event for each in by_line.values() for event in each if event.step]
    marked.sort(key=lambda event: (event.start_ns, event.end_ns))
    for number, event in enumerate(marked):
        # A step's last copies may run into the next step: there they would count twice.
        ends = [event.end_ns, *(later.start_ns for later in marked[number + 1 : number + 2])]
        columns.add(EventKind.ANNOTATION, f"step#{number}", event.start_ns, min(ends), ("XLA", "steps"))
