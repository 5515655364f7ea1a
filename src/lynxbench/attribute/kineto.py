"""PyTorch (Kineto) chrome traces, raw or gzip, to typed columns: only the needed fields, in pieces, in nanoseconds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec

from lynxbench.attribute.kineto_columns import Columns
from lynxbench.attribute.kineto_events import Decoder
from lynxbench.attribute.pieces import FileReading, read_pieces, repaired
from lynxbench.attribute.trace_columns import Trace
from lynxbench.errors import BadInput

TOLERATED_DAMAGE = 0.0
"""Share of unusable events a verdict may rest on. None: an event that is missing may be the one that mattered."""


class _Device(msgspec.Struct):
    name: str = ""


class _Distributed(msgspec.Struct):
    rank: int | None = None


class _Head(msgspec.Struct):
    devices: list[_Device] = msgspec.field(name="deviceProperties", default_factory=list)
    distributed: _Distributed | None = msgspec.field(name="distributedInfo", default=None)


def read_trace(path: Path | str) -> Trace:
    """The trace in a file; BadInput in one line where there is none, and notes where only a part could be read."""
    path = Path(path)
    reading = FileReading()
    columns = Columns()
    decoder = Decoder()
    for events in read_pieces(path, decoder, reading):
        columns.take(events)
    notes = list(reading.notes)
    if decoder.refused:
        notes.append(f"{decoder.refused:,} events with fields of the wrong type were left out")
    if columns.unusable:
        notes.append(f"{columns.unusable:,} events without a usable start or with a negative duration were left out")
    if columns.nameless:
        notes.append(f"{columns.nameless:,} events lack their name or category: what they are is not known")
    if not columns.rows:
        raise BadInput(
            f"{path}: holds no timed events{' (' + '; '.join(notes) + ')' if notes else ''}; "
            "profile at least one whole step and export again"
        )
    bad = decoder.refused + columns.unusable + columns.nameless
    damaged = not reading.complete or bool(reading.notes) or bad > TOLERATED_DAMAGE * columns.rows
    head = _parse_head(reading.head)
    device = next((one.name for one in head.devices if one.name), None)
    trace = columns.trace(str(path), device, reading.raw_bytes, tuple(notes), damaged)
    return trace if head.distributed is None else dataclasses.replace(trace, rank=head.distributed.rank)


def _parse_head(head: bytes) -> _Head:
    """The metadata before the events: the accelerator's name and the rank, where they stand there."""
    try:
        return msgspec.json.decode(repaired(head).rstrip(b", \t\r\n") + b"}", type=_Head)
    except (msgspec.DecodeError, RecursionError):
        return _Head()
