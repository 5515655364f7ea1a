"""PyTorch (Kineto) chrome traces, raw or gzip, to typed columns: only the needed fields, in pieces, in nanoseconds."""

import dataclasses
import re
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from lynxbench.attribute.read.chrome_text import SEPARATORS, FileReading, read_pieces, repaired
from lynxbench.attribute.read.dataflow import FLOW_KEY, parse_dataflow
from lynxbench.attribute.read.kineto_events import Args, Decoder, KinetoEvent, pack_column, stamps_of
from lynxbench.attribute.read.operands import OperatorCall, parse_signature
from lynxbench.attribute.read.operator_names import is_view
from lynxbench.attribute.read.trace import DEVICE_KINDS, KIND_OF_CATEGORY, NONE, EventKind, Int32, Trace, distinct
from lynxbench.errors import BadInput

SEPARATOR = b"\x1f"
"""Between the raw texts of an interned key; JSON text cannot hold it outside an escape."""
PARTS_TOGETHER = 16
_NO_OPERANDS = SEPARATOR * 4
_NEEDS_CONCRETE = re.compile(r"conv|attention|^aten::_?empty(_affine_quantized)?$|one_hot", re.IGNORECASE)
_PACKED = re.compile(r"^(quantized|onednn|mkldnn|_quantized)::\w*(linear|matmul)\w*$")
_ALLOCATION = re.compile(r"^aten::(empty|_empty_affine_quantized)$")
_SIZES = re.compile(r"^\[(\d+(?:, ?\d+)*)\]$")

_Value = TypeVar("_Value")


class _Device(msgspec.Struct):
    name: str = ""


class _Distributed(msgspec.Struct):
    rank: int | None = None


class _Head(msgspec.Struct):
    devices: list[_Device] = msgspec.field(name="deviceProperties", default_factory=list)
    distributed: _Distributed | None = msgspec.field(name="distributedInfo", default=None)
    base_ns: int | None = msgspec.field(name="baseTimeNanoseconds", default=None)
    dataflow: msgspec.Raw = msgspec.field(name=FLOW_KEY, default_factory=msgspec.Raw)


def read_trace(path: Path | str) -> Trace:
    """The trace in a file; BadInput in one line where there is none, and notes where only a part could be read."""
    path = Path(path)
    reading = FileReading()
    columns = _Columns()
    decoder = Decoder()
    for events in read_pieces(path, decoder, reading):
        columns.take(events)
    losses = (
        (decoder.refused, "events with fields of the wrong type were left out"),
        (columns.unusable, "events without a usable start or with a negative duration were left out"),
        (columns.nameless, "events lack their name or category: what they are is not known"),
    )
    notes = (*reading.notes, *(f"{count:,} {what}" for count, what in losses if count))
    if not columns.rows:
        raise BadInput(
            f"{path}: holds no timed events{' (' + '; '.join(notes) + ')' if notes else ''}; "
            "profile at least one whole step and export again"
        )
    # No damage is tolerated: an event that is missing may be the one that mattered.
    damaged = not reading.complete or bool(notes)
    return _with_packed_results(columns.trace(str(path), _parse_head(reading.head), notes, damaged))


def _parse_head(head: bytes) -> _Head:
    """The metadata before the events: the accelerator's name, the rank and the clock, where they stand there."""
    try:
        return msgspec.json.decode(repaired(head).rstrip(SEPARATORS) + b"}", type=_Head)
    except (msgspec.DecodeError, RecursionError):
        return _Head()


def _number(table: dict[_Value, int], values: Iterable[_Value]) -> None:
    """Number the values that are new, in the order in which they came.

    A plain dict is looked up many times faster by the interpreter than one with a method for misses.
    """
    for value in dict.fromkeys(values):
        table.setdefault(value, len(table))


class _Columns:
    """Grows piece by piece; strings and operand lists are interned as they come."""

    def __init__(self) -> None:
        self.rows = 0
        self.unusable = 0
        self.nameless = 0
        self._kinds: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._detailed: list[bool] = []
        self._view: list[bool] = []
        self._threads: dict[tuple[int | str, int | str], int] = {}
        self._signatures = {_NO_OPERANDS: 0}  # told apart by its number, without a look at each event
        self._parts: dict[str, list[npt.NDArray[Any]]] = {}
        self._whole: dict[str, list[npt.NDArray[Any]]] = {}

    def take(self, events: Sequence[KinetoEvent]) -> None:
        """Append the timed events of a piece."""
        timed = [event for event in events if event.ph == "X"]
        if not timed:
            return
        start, dur, usable = stamps_of(timed)
        self.unusable += len(timed) - int(usable.sum())
        if not usable.all():
            timed = [event for event, good in zip(timed, usable, strict=True) if good]
            start, dur = start[usable], dur[usable]
        if not timed:
            return
        self.rows += len(timed)
        no_args = Args()
        args = [event.args or no_args for event in timed]
        self._add("start_ns", start)
        self._add("dur_ns", dur)
        try:
            name, kind = self._add_words(timed)
        except KeyError:  # hardly ever once the first steps were read
            _number(self._names, (event.name for event in timed))
            _number(self._kinds, (event.cat for event in timed))
            _number(self._threads, ((event.pid, event.tid) for event in timed))
            name, kind = self._add_words(timed)
        if "" in self._names or "" in self._kinds:
            self.nameless += sum(not event.name or not event.cat for event in timed)
        self._add("external", [a.external for a in args])
        self._add("signature", self._signature(name, args, np.flatnonzero(kind == EventKind.OPERATOR)))
        # What only calls and device activities have: operators are the most of a trace and are not asked.
        at = np.flatnonzero(_CORRELATED[kind])
        some = [args[i] for i in at.tolist()]
        for key, values in (("correlation", [a.correlation for a in some]), ("nbytes", [a.nbytes for a in some])):
            column = np.full(len(args), NONE, dtype=np.int64)
            column[at] = _as_column(values, np.int64)
            self._add(key, column)
        if len(self._parts["kind"]) == PARTS_TOGETHER:
            self._consolidate()

    def _add_words(self, timed: Sequence[KinetoEvent]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Words by their numbers; each column in one go over the events, which are cold."""
        names, kinds, threads = self._names, self._kinds, self._threads
        name = [names[event.name] for event in timed]
        word = [kinds[event.cat] for event in timed]
        thread = [threads[event.pid, event.tid] for event in timed]
        kind_of = np.array([KIND_OF_CATEGORY.get(word.lower(), EventKind.OTHER) for word in kinds], dtype=np.int8)
        self._add("thread", thread)
        return self._add("name", name), self._add("kind", kind_of[word])

    def _consolidate(self) -> None:
        """Many small parts leave holes in the heap that nobody gives back; a few large ones are mapped, and are."""
        for key, parts in self._parts.items():
            self._whole.setdefault(key, []).append(np.concatenate(parts))
        self._parts.clear()

    def _signature(self, name: npt.NDArray[Any], args: Sequence[Args], at: npt.NDArray[np.intp]) -> Int32:
        """Operators' operands as numbers: their raw texts are the key, so that each list of operands is decoded once.

        The values of arguments belong to it only where an operator's work depends on them: they differ at every call.
        Views touch no data, whatever their operands: half of the operators of an eager step are not asked for theirs.
        """
        new = list(self._names)[len(self._detailed) :]
        self._detailed += [_NEEDS_CONCRETE.search(word) is not None for word in new]
        self._view += [is_view(word) for word in new]
        at = at[~np.asarray(self._view, dtype=bool)[name[at]]]
        join = SEPARATOR.join
        column = np.full(len(args), NONE, dtype=np.int32)
        some = [args[i] for i in at.tolist()]
        keys = [join((a.dims, a.types, a.strides, b"", a.results)) for a in some]
        for place in np.flatnonzero(np.asarray(self._detailed, dtype=bool)[name[at]]).tolist():
            a = some[place]
            keys[place] = join((a.dims, a.types, a.strides, a.concrete, a.results))
        table = self._signatures
        try:
            numbers = pack_column([table[key] for key in keys], np.int32)
        except KeyError:
            _number(table, keys)
            numbers = pack_column([table[key] for key in keys], np.int32)
        column[at] = np.where(numbers == 0, NONE, numbers)
        return column

    def _add(self, key: str, values: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[Any]:
        column = _as_column(values, _WIDTH.get(key, np.int64))
        self._parts.setdefault(key, []).append(column)
        return column

    def trace(self, source: str, head: _Head, notes: tuple[str, ...], damaged: bool) -> Trace:
        """The finished columns, in an order that does not depend on the order in the file."""
        if self._parts:
            self._consolidate()
        column: dict[str, npt.NDArray[Any]] = {key: np.concatenate(self._whole.pop(key)) for key in tuple(self._whole)}
        names, column["name"] = _ranked(list(self._names), column["name"])
        threads, column["thread"] = _ranked([(str(pid), str(tid)) for pid, tid in self._threads], column["thread"])
        keys, column["signature"] = _ranked(list(self._signatures), column["signature"])
        order = _time_order(column)
        if order is not None:
            for key in tuple(column):
                column[key] = column[key][order]
        return Trace(
            source=source,
            names=tuple(names),
            threads=tuple(threads),
            signatures=tuple(parse_signature(*key.split(SEPARATOR)) for key in keys),
            device=next((device.name for device in head.devices if device.name), None),
            notes=notes,
            damaged=damaged,
            rank=head.distributed.rank if head.distributed is not None else None,
            counters=None,
            unseen=None,
            base_ns=head.base_ns,
            dataflow=parse_dataflow(head.dataflow),
            **column,
        )


_CORRELATED = np.array([kind in (*DEVICE_KINDS, EventKind.RUNTIME, EventKind.OTHER) for kind in EventKind], dtype=bool)
"""Kinds that carry a correlation or bytes."""


def _as_column(values: Sequence[int] | npt.NDArray[Any], width: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    if isinstance(values, np.ndarray):
        return np.asarray(values, dtype=width)
    try:
        return pack_column(values, width)
    except (struct.error, OverflowError):  # a number no writer means: as good as absent
        limit = np.iinfo(width).max
        return np.asarray([value if -1 <= value <= limit else NONE for value in values], dtype=width)


def _time_order(column: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.intp] | None:
    """By start, longest first, and then by what the events say, whatever the file's order; None where it is so."""
    start, dur = column["start_ns"], column["dur_ns"]
    order = np.argsort(start, kind="stable")
    tied = np.flatnonzero(start[order][1:] == start[order][:-1])
    if len(tied):
        rows = distinct(np.concatenate((tied, tied + 1)))
        among = order[rows]
        ties = (column[key][among] for key in ("signature", "name", "correlation", "external", "thread"))
        order[rows] = among[np.lexsort((*ties, -dur[among], start[among]))]
    return order if (order[1:] < order[:-1]).any() else None


_WIDTH: dict[str, type[np.signedinteger[Any]]] = {
    "kind": np.int8,
    "name": np.int32,
    "thread": np.int32,
    "signature": np.int32,
}

_Key = TypeVar("_Key")


def _ranked(table: list[_Key], column: npt.NDArray[Any]) -> tuple[list[_Key], Int32]:
    """The table sorted, and the column pointing into the sorted one; `NONE` stays."""
    order = sorted(range(len(table)), key=table.__getitem__)  # type: ignore[arg-type]
    rank = np.empty(len(table) + 1, dtype=np.int32)
    rank[order] = np.arange(len(table))
    rank[-1] = NONE
    return [table[i] for i in order], rank[column]


# --- packed weights: no weight is shown, but the allocation of the result is ----------------------------------------


def _with_packed_results(trace: Trace) -> Trace:
    """The trace with the result's sizes on calls whose weights are packed, where an allocation inside tells them."""
    calls = trace.rows_named(_PACKED.match, EventKind.OPERATOR)
    calls = calls[trace.signature[calls] != NONE]
    if not len(calls):
        return trace
    inner = trace.rows_named(_ALLOCATION.match, EventKind.OPERATOR)
    inner = inner[trace.signature[inner] != NONE]
    table = list(trace.signatures)
    column = trace.signature.copy()
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    first = np.searchsorted(trace.start_ns[inner], trace.start_ns[calls])
    last = np.searchsorted(trace.start_ns[inner], trace.end_ns[calls])
    for row, low, high in zip(calls.tolist(), first.tolist(), last.tolist(), strict=True):
        signature = int(trace.signature[row])
        sizes = _result(trace, trace.signatures[signature], inner[low:high].tolist(), int(trace.thread[row]))
        if sizes is None:
            continue
        key = (signature, sizes)
        if key not in known:
            known[key] = len(table)
            table.append(dataclasses.replace(trace.signatures[signature], results=(sizes,)))
        column[row] = known[key]
    return dataclasses.replace(trace, signatures=tuple(table), signature=column)


def _result(trace: Trace, call: OperatorCall, inner: list[int], thread: int) -> tuple[int, ...] | None:
    """The last allocation inside the call that holds a row for every row of the operand."""
    if not call.tensors or not call.tensors[0].sizes:
        return None
    rows = int(np.prod(call.tensors[0].sizes[:-1], dtype=np.int64))
    for row in reversed(inner):
        concrete = trace.signatures[trace.signature[row]].concrete
        match = _SIZES.match(concrete[0]) if concrete and int(trace.thread[row]) == thread else None
        if match is None:
            continue
        sizes = tuple(int(part) for part in match.group(1).split(","))
        if int(np.prod(sizes[:-1], dtype=np.int64)) == rows:
            return sizes
    return None
