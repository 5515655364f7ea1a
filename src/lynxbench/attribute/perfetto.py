"""The trace again, for Perfetto and chrome://tracing, with our categories and steps as tracks above it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lynxbench.attribute.accounting import CATEGORIES, TimeBook
from lynxbench.attribute.detail import merged
from lynxbench.attribute.pieces import FileReading, read_events_text
from lynxbench.attribute.trace_columns import DEVICE_KINDS, EventKind, Trace
from lynxbench.errors import BadInput

PROCESS = "lynxbench"
"""A process of our own in the picture: nothing of the trace can be mistaken for ours."""
_TRACKS = ("category", "step")


def write_perfetto(source: Path, trace: Trace, book: TimeBook, out: Path) -> None:
    """Write the source's own events with our tracks; of a damaged or foreign source, what was read of it."""
    own = not trace.damaged and not _is_foreign(source)
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


def _is_foreign(source: Path) -> bool:
    with source.open("rb") as file:
        return file.read(6) == b"SQLite"


def _write_all(file: IO[str], events: Iterator[dict[str, object]], *, first: bool = True) -> None:
    for event in events:
        file.write(json.dumps(event) if first else ",\n" + json.dumps(event))
        first = False


def _tracks(book: TimeBook) -> Iterator[dict[str, object]]:
    yield {"ph": "M", "name": "process_name", "pid": PROCESS, "args": {"name": "lynxbench: where the time goes"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": PROCESS, "args": {"sort_index": -1}}
    for track in _TRACKS:
        yield {"ph": "M", "name": "thread_name", "pid": PROCESS, "tid": track, "args": {"name": track}}
    tiles = book.tiles
    for start, end, code in merged(tiles.start_ns, tiles.end_ns, tiles.code):
        yield _slice(CATEGORIES[code].value, "category", start, end)
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    for step, start, end in zip(tiles.step.tolist(), tiles.start_ns.tolist(), tiles.end_ns.tolist(), strict=True):
        begins.setdefault(step, start)
        ends[step] = end
    for step, start in begins.items():
        spent = {c.value: int(book.spent_ns[step, k]) / 1e6 for k, c in enumerate(CATEGORIES) if book.spent_ns[step, k]}
        yield _slice(f"step {step}", "step", start, ends[step]) | {"args": {"ms": spent}}


def _slice(name: str, track: str, start: int, end: int) -> dict[str, object]:
    return {
        "ph": "X",
        "cat": PROCESS,
        "name": name,
        "pid": PROCESS,
        "tid": track,
        "ts": start / 1e3,
        "dur": (end - start) / 1e3,
    }


def _events(trace: Trace) -> Iterator[dict[str, object]]:
    """What was read of the source, for sources that are no chrome trace."""
    device = frozenset(int(kind) for kind in DEVICE_KINDS)
    for row in range(len(trace)):
        process, thread = trace.threads[trace.thread[row]]
        kind = int(trace.kind[row])
        yield {
            "ph": "X",
            "cat": EventKind(kind).name.lower(),
            "name": trace.names[trace.name[row]],
            "pid": f"device {process}" if kind in device and not process.startswith("device") else process,
            "tid": thread,
            "ts": int(trace.start_ns[row]) / 1e3,
            "dur": int(trace.dur_ns[row]) / 1e3,
        }
