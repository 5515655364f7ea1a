"""PyTorch (Kineto) chrome traces, raw or gzip, to typed columns: only the needed fields, in pieces, in nanoseconds."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from lynxbench.attribute.pieces import Reading, read_pieces, repaired
from lynxbench.attribute.trace import KIND_OF_CATEGORY, NONE, EventKind, Int64, Launch, Signature, Tensor, Trace
from lynxbench.errors import BadInput

EXACT_DOUBLE_US = 2.0**42
"""Microseconds above this no longer carry whole nanoseconds in a double (spacing 2**-10 µs): read as text then."""
LATEST_US = 2.0**62 / 1e3
"""Stamps beyond this do not fit 64 bits of nanoseconds."""
NOT_TENSORS = frozenset({"", "Scalar", "ScalarList", "GenericList", "None"})
"""Words in `Input type` that stand for arguments without storage."""
TOLERATED_DAMAGE = 0.0
"""Share of unusable events a verdict may rest on. None: an event that is missing may be the one that mattered."""

_Raw: TypeAlias = msgspec.Raw
_ABSENT = msgspec.Raw()
_SEPARATOR = b"\x1f"
"""Between the raw texts of an interned key; JSON text cannot hold it outside an escape."""
_NEEDS_CONCRETE = re.compile(r"conv|attention|^aten::_?empty(_affine_quantized)?$", re.IGNORECASE)


class _Args(msgspec.Struct, gc=False):
    dims: _Raw = msgspec.field(name="Input Dims", default=_ABSENT)
    types: _Raw = msgspec.field(name="Input type", default=_ABSENT)
    strides: _Raw = msgspec.field(name="Input Strides", default=_ABSENT)
    concrete: _Raw = msgspec.field(name="Concrete Inputs", default=_ABSENT)
    results: _Raw = msgspec.field(name="Output Dims", default=_ABSENT)
    correlation: int = NONE
    external: int = msgspec.field(name="External id", default=NONE)
    stream: int | str = NONE
    nbytes: int = msgspec.field(name="bytes", default=NONE)
    grid: _Raw = _ABSENT
    block: _Raw = _ABSENT


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = -1.0
    dur: float = 0.0
    args: _Args | None = None


class _ExactEvent(msgspec.Struct, gc=False):
    """The same event with its stamps kept as text, for files whose stamps a double would round."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: _Raw = _ABSENT
    dur: _Raw = _ABSENT
    args: _Args | None = None


class _Device(msgspec.Struct):
    name: str = ""


class _Distributed(msgspec.Struct):
    rank: int | None = None


class _Head(msgspec.Struct):
    devices: list[_Device] = msgspec.field(name="deviceProperties", default_factory=list)
    distributed: _Distributed | None = msgspec.field(name="distributedInfo", default=None)


_AnyEvent: TypeAlias = "_Event | _ExactEvent"


def read_trace(path: Path | str) -> Trace:
    """The trace in a file; BadInput in one line where there is none, and notes where only a part could be read."""
    path = Path(path)
    reading = Reading()
    columns = _Columns()
    decoder = _Decoder()
    for events in read_pieces(path, decoder, reading):
        columns.take(events)
    notes = list(reading.notes)
    if decoder.refused:
        notes.append(f"{decoder.refused:,} events with fields of the wrong type were left out")
    if columns.unusable:
        notes.append(f"{columns.unusable:,} events without a usable start or with a negative duration were left out")
    if not columns.rows:
        raise BadInput(
            f"{path}: holds no timed events{' (' + '; '.join(notes) + ')' if notes else ''}; "
            "profile at least one whole step and export again"
        )
    bad = decoder.refused + columns.unusable
    damaged = not reading.complete or bool(reading.notes) or bad > TOLERATED_DAMAGE * columns.rows
    head = _parse_head(reading.head)
    device = next((one.name for one in head.devices if one.name), None)
    trace = columns.trace(str(path), device, reading.raw_bytes, tuple(notes), damaged)
    return trace if head.distributed is None else dataclasses.replace(trace, rank=head.distributed.rank)


class _Decoder:
    """Text of a list of events to events. One event of the wrong shape costs that event, not its piece."""

    def __init__(self) -> None:
        self.refused = 0
        self._kind: type[_Event] | type[_ExactEvent] = _Event
        self._decode = msgspec.json.Decoder(list[_Event]).decode
        self._looked = False

    def __call__(self, text: bytes) -> list[_AnyEvent]:
        events = self._tolerant(text)
        if not self._looked and events:
            self._looked = True
            if any(isinstance(event.ts, float) and event.ts >= EXACT_DOUBLE_US for event in events):
                self._kind, self._decode = _ExactEvent, msgspec.json.Decoder(list[_ExactEvent]).decode  # type: ignore[assignment]
                events = self._tolerant(text)
        return events

    def _tolerant(self, text: bytes) -> list[_AnyEvent]:
        try:
            return self._decode(text)  # type: ignore[return-value]
        except msgspec.ValidationError:
            pass
        kept: list[_AnyEvent] = []
        refused = 0
        for raw in msgspec.json.decode(text, type=list[_Raw]):
            try:
                kept.append(msgspec.json.decode(raw, type=self._kind))
            except msgspec.ValidationError:
                refused += 1
        self.refused += refused
        return kept


class _Kinds(dict[str, int]):
    """Category words to kinds; a new word is looked up once."""

    def __missing__(self, word: str) -> int:
        kind = self[word] = int(KIND_OF_CATEGORY.get(word.lower(), EventKind.OTHER))
        return kind


_Value = TypeVar("_Value")


class _Numbered(dict[_Value, int]):
    """Values to numbers in the order in which they first came."""

    def __init__(self) -> None:
        super().__init__()
        self.values_in_order: list[_Value] = []

    def __missing__(self, value: _Value) -> int:
        number = self[value] = len(self.values_in_order)
        self.values_in_order.append(value)
        return number


class _Columns:
    """Grows piece by piece; strings and operand lists are interned as they come."""

    def __init__(self) -> None:
        self.rows = 0
        self.unusable = 0
        self._kinds = _Kinds()
        self._names: _Numbered[str] = _Numbered()
        self._detailed: list[bool] = []
        self._threads: _Numbered[tuple[int | str, int | str]] = _Numbered()
        self._signatures: _Numbered[bytes] = _Numbered()
        self._launches: _Numbered[bytes] = _Numbered()
        self._parts: dict[str, list[npt.NDArray[Any]]] = {}

    def take(self, events: Sequence[_AnyEvent]) -> None:
        """Append the timed events of a piece."""
        timed = [event for event in events if event.ph == "X"]
        if not timed:
            return
        start, dur, usable = _stamps(timed)
        self.unusable += len(timed) - int(usable.sum())
        if not usable.all():
            timed = [event for event, good in zip(timed, usable, strict=True) if good]
            start, dur = start[usable], dur[usable]
        if not timed:
            return
        self.rows += len(timed)
        no_args = _Args()
        args = [event.args or no_args for event in timed]
        self._add("start", start)
        self._add("dur", dur)
        name = self._add("name", list(map(self._names.__getitem__, [event.name for event in timed])))
        self._add("kind", list(map(self._kinds.__getitem__, [event.cat for event in timed])))
        self._add("thread", list(map(self._threads.__getitem__, [(event.pid, event.tid) for event in timed])))
        self._add("correlation", [a.correlation for a in args])
        self._add("external", [a.external for a in args])
        self._add("nbytes", [a.nbytes for a in args])
        self._add("stream", [a.stream if type(a.stream) is int else NONE for a in args])
        self._add("signature", self._signature(name, args))
        self._add("launch", self._launch(args))

    def _signature(self, name: npt.NDArray[Any], args: Sequence[_Args]) -> npt.NDArray[np.int32]:
        """Operands as numbers: their raw texts are the key, so that each list of operands is decoded once.

        The values of arguments belong to it only where an operator's work depends on them: they differ at every call.
        """
        known = self._names.values_in_order
        self._detailed += [_NEEDS_CONCRETE.search(one) is not None for one in known[len(self._detailed) :]]
        detailed = np.asarray(self._detailed, dtype=bool)[name].tolist()
        join = _SEPARATOR.join
        column = np.full(len(args), NONE, dtype=np.int32)
        at = [i for i, a in enumerate(args) if a.dims is not _ABSENT]
        keys = [
            join((a.dims, a.types, a.strides, a.concrete if detailed[i] else b"", a.results))
            for i in at
            for a in (args[i],)
        ]
        column[at] = list(map(self._signatures.__getitem__, keys))
        return column

    def _launch(self, args: Sequence[_Args]) -> npt.NDArray[np.int32]:
        column = np.full(len(args), NONE, dtype=np.int32)
        join = _SEPARATOR.join
        at = [i for i, a in enumerate(args) if a.grid is not _ABSENT]
        column[at] = list(map(self._launches.__getitem__, [join((args[i].grid, args[i].block)) for i in at]))
        return column

    def _add(self, key: str, values: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[Any]:
        width = _WIDTH.get(key, np.int64)
        try:
            column = np.asarray(values, dtype=width)
        except OverflowError:  # a number no writer means: as good as absent
            limit = np.iinfo(width).max
            column = np.asarray([value if -1 <= value <= limit else NONE for value in values], dtype=width)
        self._parts.setdefault(key, []).append(column)
        return column

    def trace(self, source: str, device: str | None, raw_bytes: int, notes: tuple[str, ...], damaged: bool) -> Trace:
        """The finished columns, in an order that does not depend on the order in the file."""
        column: dict[str, npt.NDArray[Any]] = {key: np.concatenate(self._parts.pop(key)) for key in tuple(self._parts)}
        names, column["name"] = _ranked(self._names.values_in_order, column["name"])
        pairs = [(str(process), str(thread)) for process, thread in self._threads.values_in_order]
        threads, column["thread"] = _ranked(pairs, column["thread"])
        keys, column["signature"] = _ranked(self._signatures.values_in_order, column["signature"])
        shapes, column["launch"] = _ranked(self._launches.values_in_order, column["launch"])
        order = _time_order(column)
        if order is not None:
            for key in tuple(column):
                column[key] = column[key][order]
        return Trace(
            source=source,
            names=tuple(names),
            threads=tuple(threads),
            signatures=tuple(parse_signature(*key.split(_SEPARATOR)) for key in keys),
            launches=tuple(parse_launch(*key.split(_SEPARATOR)) for key in shapes),
            kind=column["kind"],
            name=column["name"],
            start_ns=column["start"],
            dur_ns=column["dur"],
            thread=column["thread"],
            stream=column["stream"],
            correlation=column["correlation"],
            external=column["external"],
            signature=column["signature"],
            launch=column["launch"],
            nbytes=column["nbytes"],
            device=device,
            raw_bytes=raw_bytes,
            notes=notes,
            damaged=damaged,
        )


def _time_order(column: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.intp] | None:
    """By start, longest first, and then by what the events say, whatever the file's order; None where it is so."""
    start, dur = column["start"], column["dur"]
    order = np.argsort(start, kind="stable")
    tied = np.flatnonzero(start[order][1:] == start[order][:-1])
    if len(tied):
        rows = np.unique(np.concatenate((tied, tied + 1)))
        among = order[rows]
        ties = (column[key][among] for key in ("signature", "name", "correlation", "external", "thread"))
        order[rows] = among[np.lexsort((*ties, -dur[among], start[among]))]
    return order if (order[1:] < order[:-1]).any() else None


_WIDTH: dict[str, type[np.signedinteger[Any]]] = {
    "kind": np.int8,
    "name": np.int32,
    "thread": np.int32,
    "stream": np.int32,
    "signature": np.int32,
    "launch": np.int32,
}

_Key = TypeVar("_Key")


def _ranked(table: list[_Key], column: npt.NDArray[Any]) -> tuple[list[_Key], npt.NDArray[np.int32]]:
    """The table sorted, and the column pointing into the sorted one; `NONE` stays."""
    order = sorted(range(len(table)), key=table.__getitem__)  # type: ignore[arg-type]
    rank = np.empty(len(table) + 1, dtype=np.int32)
    rank[order] = np.arange(len(table))
    rank[-1] = NONE
    return [table[i] for i in order], rank[column]


def _stamps(events: Sequence[_AnyEvent]) -> tuple[Int64, Int64, npt.NDArray[np.bool_]]:
    """Starts and durations in whole nanoseconds, and which of them can be used."""
    if isinstance(events[0], _ExactEvent):
        pairs = [(_nanoseconds(event.ts, -1), _nanoseconds(event.dur, 0)) for event in events]
        start = np.array([pair[0] for pair in pairs], dtype=np.int64)
        dur = np.array([pair[1] for pair in pairs], dtype=np.int64)
        return start, dur, (start >= 0) & (dur >= 0)
    start_us = np.array([event.ts for event in events], dtype=np.float64)
    dur_us = np.array([event.dur for event in events], dtype=np.float64)
    usable = (start_us >= 0) & (dur_us >= 0) & (start_us + dur_us < LATEST_US)
    start = np.rint(np.where(usable, start_us, 0.0) * 1e3).astype(np.int64)
    dur = np.rint(np.where(usable, dur_us, 0.0) * 1e3).astype(np.int64)
    return start, dur, usable


def _nanoseconds(raw: object, absent: int) -> int:
    text = bytes(raw)  # type: ignore[call-overload]
    if not text:
        return absent
    try:
        value = Decimal(text.decode()).scaleb(3)
    except (InvalidOperation, UnicodeDecodeError):
        return -1
    return int(value.to_integral_value()) if 0 <= value < LATEST_US * 1000 else -1


def _parse_head(head: bytes) -> _Head:
    """The metadata before the events: the accelerator's name and the rank, where they stand there."""
    try:
        return msgspec.json.decode(repaired(head).rstrip(b", \t\r\n") + b"}", type=_Head)
    except (msgspec.DecodeError, RecursionError):
        return _Head()


def parse_signature(dims: bytes, types: bytes, strides: bytes, concrete: bytes, results: bytes = b"") -> Signature:
    """Operands from the profiler's parallel lists; an argument that cannot be read is an argument without tensors."""
    sizes, words = _json_list(dims), _json_list(types)
    steps, values = _json_list(strides), _json_list(concrete)
    arguments = []
    for i, size in enumerate(sizes):
        word = words[i] if i < len(words) and isinstance(words[i], str) else ""
        step = steps[i] if i < len(steps) else None
        arguments.append(_tensors(size, step, str(word)))
    returned = tuple(tuple(size) for size in _json_list(results) if _is_sizes(size))
    return Signature(tuple(arguments), tuple(str(value) for value in values), returned)


def _is_sizes(size: object) -> TypeGuard[list[int]]:
    return isinstance(size, list) and all(isinstance(item, int) and item >= 0 for item in size)


def _tensors(size: object, step: object, word: str) -> tuple[Tensor, ...]:
    if not isinstance(size, list) or word in NOT_TENSORS:
        return ()
    if word == "TensorList" or (size and all(isinstance(item, list) for item in size)):
        inner = step if isinstance(step, list) and len(step) == len(size) else [None] * len(size)
        return tuple(t for item, s in zip(size, inner, strict=True) for t in _tensors(item, s, "list element"))
    if not _is_sizes(size):
        return ()
    whole = isinstance(step, list) and len(step) == len(size) and all(isinstance(item, int) for item in step)
    return (Tensor(tuple(size), tuple(step) if whole and isinstance(step, list) else None, word),)


def parse_launch(grid: bytes, block: bytes) -> Launch:
    """Blocks and threads a block from the launch geometry."""
    return Launch(_product(_json_list(grid)), _product(_json_list(block)))


def _product(values: list[object]) -> int:
    return math.prod(value for value in values if isinstance(value, int))


def _json_list(text: bytes) -> list[object]:
    if not text:
        return []
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    return value if isinstance(value, list) else []
