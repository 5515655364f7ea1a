"""The trace again, for Perfetto and chrome://tracing, with our categories and steps as tracks above it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lynxbench.attribute.judge.time_book import CATEGORIES, TimeBook
from lynxbench.attribute.read.chrome_text import FileReading, read_events_text
from lynxbench.attribute.read.trace import DEVICE_KINDS, EventKind, Trace
from lynxbench.attribute.read.trace_files import is_chrome_trace
from lynxbench.attribute.say.detail import merged
from lynxbench.errors import BadInput

PROCESS = "lynxbench"
"""A process of our own in the picture: nothing of the trace can be mistaken for ours."""
_TRACKS = ("category", "step")


def write_perfetto(source: Path, book: TimeBook, out: Path) -> None:
    """Write the source's own events with our tracks; of a damaged or foreign source, what was read of it."""
    trace = book.tiling.trace
    own = not trace.damaged and is_chrome_trace(source)
    try:
        with out.open("w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
            _write_all(file, _tracks(book))
            if own:
                for text in read_events_text(source, FileReading()):
                    file.write(",\n")
                    file.write(text.decode("utf-8", "replace"))
            else:
                _write_all(file, _events(trace), first=False)
            file.write("\n]}\n")
    except OSError as error:
        raise BadInput(f"{out}: cannot be written ({error.strerror})") from None


def _write_all(file: IO[str], events: Iterator[dict[str, object]], *, first: bool = True) -> None:
    for event in events:
        file.write(json.dumps(event) if first else ",\n" + json.dumps(event))
        first = False


def _tracks(book: TimeBook) -> Iterator[dict[str, object]]:
    yield {"ph": "M", "name": "process_name", "pid": PROCESS, "args": {"name": "lynxbench: where the time goes"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": PROCESS, "args": {"sort_index": -1}}
    for track in _TRACKS:
        yield {"ph": "M", "name": "thread_name", "pid": PROCESS, "tid": track, "args": {"name": track}}
    tiles, steps = book.tiling.stretches, book.tiling.steps
    for start, end, code in merged(tiles.start_ns, tiles.end_ns, book.code):
        yield _slice(PROCESS, CATEGORIES[code].value, PROCESS, "category", start, end - start)
    for step, (start, end) in enumerate(zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)):
        spent = {c.value: int(book.spent_ns[step, k]) / 1e6 for k, c in enumerate(CATEGORIES) if book.spent_ns[step, k]}
        yield _slice(PROCESS, f"step {step}", PROCESS, "step", start, end - start) | {"args": {"ms": spent}}


def _slice(kind: str, name: str, process: str, thread: str, start_ns: int, dur_ns: int) -> dict[str, object]:
    stamps = {"ts": start_ns / 1e3, "dur": dur_ns / 1e3}
    return {"ph": "X", "cat": kind, "name": name, "pid": process, "tid": thread, **stamps}


def _events(trace: Trace) -> Iterator[dict[str, object]]:
    """What was read of the source, for sources that are no chrome trace."""
    for row in range(len(trace)):
        process, thread = trace.threads[trace.thread[row]]
        kind = EventKind(int(trace.kind[row]))
        if kind in DEVICE_KINDS and not process.startswith("device"):
            process = f"device {process}"
        start_ns, dur_ns = int(trace.start_ns[row]), int(trace.dur_ns[row])
        yield _slice(kind.name.lower(), trace.names[trace.name[row]], process, thread, start_ns, dur_ns)
