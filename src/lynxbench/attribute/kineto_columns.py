"""Events to columns, piece by piece: strings, operands and launch geometries are interned as they come."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.kineto_events import ABSENT, AnyEvent, Args, stamps_of
from lynxbench.attribute.kineto_operands import parse_launch, parse_signature
from lynxbench.attribute.trace import DEVICE_KINDS, KIND_OF_CATEGORY, NONE, EventKind, Trace

SEPARATOR = b"\x1f"
"""Between the raw texts of an interned key; JSON text cannot hold it outside an escape."""
PARTS_TOGETHER = 16
MOST_PAIRS = 1 << 22
_NO_OPERANDS = SEPARATOR * 4
_NEEDS_CONCRETE = re.compile(r"conv|attention|^aten::_?empty(_affine_quantized)?$", re.IGNORECASE)


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


class Columns:
    """Grows piece by piece; strings and operand lists are interned as they come."""

    def __init__(self) -> None:
        self.rows = 0
        self.unusable = 0
        self.nameless = 0
        self._kinds = _Kinds()
        self._names: _Numbered[str] = _Numbered()
        self._detailed: list[bool] = []
        self._processes: _Numbered[int | str] = _Numbered()
        self._threads: _Numbered[int | str] = _Numbered()
        self._signatures: _Numbered[bytes] = _Numbered()
        self._signatures[_NO_OPERANDS]  # numbered first, so that it is told apart without a look at each event
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
        names, words = [event.name for event in timed], [event.cat for event in timed]
        no_args = Args()
        args = [event.args or no_args for event in timed]
        self._add("start", start)
        self._add("dur", dur)
        name = self._intern("name", self._names, names)
        kind = self._intern("kind", self._kinds, words)
        if "" in self._names or "" in self._kinds:
            self.nameless += sum(not name or not word for name, word in zip(names, words, strict=True))
        self._intern("process", self._processes, [event.pid for event in timed])
        self._intern("thread", self._threads, [event.tid for event in timed])
        self._add("external", [a.external for a in args])
        self._add("signature", self._signature(name, args, np.flatnonzero(kind == EventKind.OPERATOR).tolist()))
        self._add_launches(args, np.flatnonzero(_LAUNCHES[kind]).tolist())
        if len(self._parts["kind"]) == PARTS_TOGETHER:
            self._consolidate()

    def _consolidate(self) -> None:
        """Many small parts leave holes in the heap that nobody gives back; a few large ones are mapped, and are."""
        for key, parts in self._parts.items():
            self._whole.setdefault(key, []).append(np.concatenate(parts))
        self._parts.clear()

    def _add_launches(self, args: Sequence[Args], at: list[int]) -> None:
        """What only calls and device activities have: operators are the most of a trace and are not asked."""
        some = [args[i] for i in at]
        join = SEPARATOR.join
        shapes = [NONE if a.grid is ABSENT else self._launches[join((a.grid, a.block))] for a in some]
        for key, values in (
            ("correlation", [a.correlation for a in some]),
            ("nbytes", [a.nbytes for a in some]),
            ("stream", [a.stream if type(a.stream) is int else NONE for a in some]),
            ("launch", shapes),
        ):
            column = np.full(len(args), NONE, dtype=_WIDTH.get(key, np.int64))
            column[at] = _as_column(values, _WIDTH.get(key, np.int64))
            self._add(key, column)

    def _signature(self, name: npt.NDArray[Any], args: Sequence[Args], at: list[int]) -> npt.NDArray[np.int32]:
        """Operators' operands as numbers: their raw texts are the key, so that each list of operands is decoded once.

        The values of arguments belong to it only where an operator's work depends on them: they differ at every call.
        """
        known = self._names.values_in_order
        self._detailed += [_NEEDS_CONCRETE.search(one) is not None for one in known[len(self._detailed) :]]
        detailed = np.asarray(self._detailed, dtype=bool)[name]
        join = SEPARATOR.join
        column = np.full(len(args), NONE, dtype=np.int32)
        some = [args[i] for i in at]
        keys = [
            join((a.dims, a.types, a.strides, a.concrete if fully else b"", a.results))
            for a, fully in zip(some, detailed[at].tolist(), strict=True)
        ]
        numbers = np.fromiter(map(self._signatures.__getitem__, keys), np.int32, len(at))
        column[at] = np.where(numbers == 0, NONE, numbers)
        return column

    def _intern(self, key: str, table: dict[Any, int], values: Sequence[Any]) -> npt.NDArray[Any]:
        column = np.fromiter(map(table.__getitem__, values), _WIDTH[key], len(values))
        self._parts.setdefault(key, []).append(column)
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
        return np.fromiter(values, width, len(values))
    except OverflowError:  # a number no writer means: as good as absent
        limit = np.iinfo(width).max
        return np.asarray([value if -1 <= value <= limit else NONE for value in values], dtype=width)


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
