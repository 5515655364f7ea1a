"""Events to columns, piece by piece: strings, operands and launch geometries are interned as they come."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.kineto_events import ABSENT, AnyEvent, Args, pack_column, stamps_of
from lynxbench.attribute.kineto_operands import parse_launch, parse_signature
from lynxbench.attribute.operators import is_view
from lynxbench.attribute.trace_columns import DEVICE_KINDS, KIND_OF_CATEGORY, NONE, EventKind, Trace, distinct

SEPARATOR = b"\x1f"
"""Between the raw texts of an interned key; JSON text cannot hold it outside an escape."""
PARTS_TOGETHER = 16
MOST_PAIRS = 1 << 22
_NO_OPERANDS = SEPARATOR * 4
_NEEDS_CONCRETE = re.compile(r"conv|attention|^aten::_?empty(_affine_quantized)?$", re.IGNORECASE)


_Value = TypeVar("_Value")


class _Numbered(Generic[_Value]):
    """Values to numbers in the order in which they first came, or to what `number` says.

    The table is a plain dict, which the interpreter looks up many times faster than one with a method for misses.
    """

    def __init__(self, number: Callable[[_Value], int] | None = None) -> None:
        self.values_in_order: list[_Value] = []
        self.table: dict[_Value, int] = {}
        self._number = number

    def of(self, values: Sequence[_Value]) -> list[int]:
        """The number of each; new ones are numbered as they come."""
        table = self.table
        try:
            return [table[value] for value in values]
        except KeyError:
            self.learn(values)
        return [table[value] for value in values]

    def learn(self, values: Iterable[_Value]) -> None:
        """Number those that are new."""
        for value in dict.fromkeys(values):
            if value not in self.table:
                self.table[value] = self._number(value) if self._number else len(self.values_in_order)
                self.values_in_order.append(value)


def _kind_of(word: str) -> int:
    return int(KIND_OF_CATEGORY.get(word.lower(), EventKind.OTHER))


class Columns:
    """Grows piece by piece; strings and operand lists are interned as they come."""

    def __init__(self) -> None:
        self.rows = 0
        self.unusable = 0
        self.nameless = 0
        self._kinds: _Numbered[str] = _Numbered(_kind_of)
        self._names: _Numbered[str] = _Numbered()
        self._detailed: list[bool] = []
        self._view: list[bool] = []
        self._processes: _Numbered[int | str] = _Numbered()
        self._threads: _Numbered[int | str] = _Numbered()
        self._signatures: _Numbered[bytes] = _Numbered()
        self._signatures.of([_NO_OPERANDS])  # numbered first, so that it is told apart without a look at each event
        self._launches: _Numbered[bytes] = _Numbered()
        self._parts: dict[str, list[npt.NDArray[Any]]] = {}
        self._whole: dict[str, list[npt.NDArray[Any]]] = {}

    def take(self, events: Sequence[AnyEvent]) -> None:
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
        self._add("start", start)
        self._add("dur", dur)
        try:
            words = self._look_up(timed)
        except KeyError:  # hardly ever once the first steps were read
            self._names.learn(event.name for event in timed)
            self._kinds.learn(event.cat for event in timed)
            self._processes.learn(event.pid for event in timed)
            self._threads.learn(event.tid for event in timed)
            words = self._look_up(timed)
        name, kind, _, _ = (self._add(key, numbers) for key, numbers in words.items())
        if "" in self._names.table or "" in self._kinds.table:
            self.nameless += sum(not event.name or not event.cat for event in timed)
        self._add("external", [a.external for a in args])
        self._add("signature", self._signature(name, args, np.flatnonzero(kind == EventKind.OPERATOR)))
        self._add_launches(args, np.flatnonzero(_LAUNCHES[kind]))
        if len(self._parts["kind"]) == PARTS_TOGETHER:
            self._consolidate()

    def _look_up(self, timed: Sequence[AnyEvent]) -> dict[str, list[int]]:
        """Numbers of words that are known; each column in one go over the events, which are cold."""
        names, kinds, processes = self._names.table, self._kinds.table, self._processes.table
        threads = self._threads.table
        return {
            "name": [names[event.name] for event in timed],
            "kind": [kinds[event.cat] for event in timed],
            "process": [processes[event.pid] for event in timed],
            "thread": [threads[event.tid] for event in timed],
        }

    def _consolidate(self) -> None:
        """Many small parts leave holes in the heap that nobody gives back; a few large ones are mapped, and are."""
        for key, parts in self._parts.items():
            self._whole.setdefault(key, []).append(np.concatenate(parts))
        self._parts.clear()

    def _add_launches(self, args: Sequence[Args], at: npt.NDArray[np.intp]) -> None:
        """What only calls and device activities have: operators are the most of a trace and are not asked."""
        some = [args[i] for i in at.tolist()]
        join = SEPARATOR.join
        shaped = [i for i, a in enumerate(some) if a.grid is not ABSENT]
        shapes = np.full(len(some), NONE, dtype=np.int32)
        shapes[shaped] = self._launches.of([join((some[i].grid, some[i].block)) for i in shaped])
        for key, values in (
            ("correlation", [a.correlation for a in some]),
            ("nbytes", [a.nbytes for a in some]),
            ("stream", [a.stream if type(a.stream) is int else NONE for a in some]),
            ("launch", shapes),
        ):
            column = np.full(len(args), NONE, dtype=_WIDTH.get(key, np.int64))
            column[at] = _as_column(values, _WIDTH.get(key, np.int64))
            self._add(key, column)

    def _signature(
        self, name: npt.NDArray[Any], args: Sequence[Args], at: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.int32]:
        """Operators' operands as numbers: their raw texts are the key, so that each list of operands is decoded once.

        The values of arguments belong to it only where an operator's work depends on them: they differ at every call.
        Views touch no data, whatever their operands: half of the operators of an eager step are not asked for theirs.
        """
        new = self._names.values_in_order[len(self._detailed) :]
        self._detailed += [_NEEDS_CONCRETE.search(one) is not None for one in new]
        self._view += [is_view(one) for one in new]
        at = at[~np.asarray(self._view, dtype=bool)[name[at]]]
        join = SEPARATOR.join
        column = np.full(len(args), NONE, dtype=np.int32)
        some = [args[i] for i in at.tolist()]
        keys = [join((a.dims, a.types, a.strides, b"", a.results)) for a in some]
        for place in np.flatnonzero(np.asarray(self._detailed, dtype=bool)[name[at]]).tolist():
            a = some[place]
            keys[place] = join((a.dims, a.types, a.strides, a.concrete, a.results))
        numbers = pack_column(self._signatures.of(keys), np.int32)
        column[at] = np.where(numbers == 0, NONE, numbers)
        return column

    def _add(self, key: str, values: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[Any]:
        column = _as_column(values, _WIDTH.get(key, np.int64))
        self._parts.setdefault(key, []).append(column)
        return column

    def trace(self, source: str, device: str | None, raw_bytes: int, notes: tuple[str, ...], damaged: bool) -> Trace:
        """The finished columns, in an order that does not depend on the order in the file."""
        if self._parts:
            self._consolidate()
        column: dict[str, npt.NDArray[Any]] = {key: np.concatenate(self._whole.pop(key)) for key in tuple(self._whole)}
        names, column["name"] = _ranked(self._names.values_in_order, column["name"])
        threads, column["thread"] = self._ranked_threads(column.pop("process"), column["thread"])
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
            signatures=tuple(parse_signature(*key.split(SEPARATOR)) for key in keys),
            launches=tuple(parse_launch(*key.split(SEPARATOR)) for key in shapes),
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

    def _ranked_threads(
        self, process: npt.NDArray[Any], thread: npt.NDArray[Any]
    ) -> tuple[list[tuple[str, str]], npt.NDArray[np.int32]]:
        """Processes and threads were numbered apart; together they name a thread."""
        processes, threads = self._processes.values_in_order, self._threads.values_in_order
        if len(processes) * len(threads) > MOST_PAIRS:  # no machine has so many: the numbers mean something else
            thread, threads = np.zeros_like(thread), threads[:1]
        both = process * np.int32(len(threads)) + thread
        known = np.flatnonzero(np.bincount(both))
        pairs = [(str(processes[at // len(threads)]), str(threads[at % len(threads)])) for at in known.tolist()]
        number = np.zeros(len(processes) * len(threads), dtype=np.int32)
        number[known] = np.arange(len(known))
        return _ranked(pairs, number[both])


_LAUNCHES = np.array([kind in (*DEVICE_KINDS, EventKind.RUNTIME, EventKind.OTHER) for kind in EventKind], dtype=bool)
"""Kinds that carry a correlation, a stream, bytes or a launch geometry."""


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
    start, dur = column["start"], column["dur"]
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
    "process": np.int32,
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
