"""Events as they come, one by one, packed into the columns of a trace: for records that are no chrome trace."""

from pathlib import Path

import numpy as np

from lynxbench.attribute.read.counters import Counters, KernelCounters
from lynxbench.attribute.read.trace import NONE, EventKind, Int64, Trace, Unseen

ROWS_TOGETHER = 50_000
LATEST_NS = 2**62
"""Stamps beyond this do not fit 64 bits of nanoseconds once two of them are added."""
UNUSABLE = "events without a usable start or with a negative duration were left out"


def whole(value: object) -> int:
    """A number, or the text of one, as a whole number that fits a column; NONE where it is no such number."""
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return NONE
    if not isinstance(value, (int, float)) or not 0 <= value < LATEST_NS:
        return NONE
    return int(value)


def nanoseconds(value: float | None, unit_ns: float) -> int:
    """A time in some unit as whole nanoseconds; NONE where it is none, negative, or beyond any clock."""
    if value is None or not 0 <= value * unit_ns < LATEST_NS:
        return NONE
    return round(value * unit_ns)


class TraceRows:
    """Columns as they grow."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.unusable = 0
        self._names: dict[str, int] = {}
        self._threads: dict[tuple[str, str], int] = {}
        self._parts: list[Int64] = []
        self._pending: list[tuple[int, ...]] = []

    def __bool__(self) -> bool:
        return bool(self._parts or self._pending)

    def add(
        self,
        kind: EventKind,
        name: str,
        start: object,
        end: object,
        thread: tuple[str, str],
        correlation: object = None,
        nbytes: object = None,
    ) -> None:
        """One event; lists of them would take many times the memory of the columns that they become."""
        first, last = whole(start), whole(end)
        if first == NONE or last < first:
            self.unusable += 1
            return
        numbers = (self._names.setdefault(name, len(self._names)), self._threads.setdefault(thread, len(self._threads)))
        self._pending.append((kind, first, last - first, *numbers, whole(correlation), whole(nbytes)))
        if len(self._pending) == ROWS_TOGETHER:
            self._pack()

    def _pack(self) -> None:
        if self._pending:
            self._parts.append(np.array(self._pending, dtype=np.int64))
            self._pending.clear()

    def trace(
        self,
        source: Path,
        *,
        device: str | None = None,
        counters: Counters | KernelCounters | None = None,
        unseen: Unseen | None = None,
        remarks: tuple[str, ...] = (),
    ) -> Trace:
        """The finished columns, ordered by start, longest first; notes mean damage, remarks do not."""
        self._pack()
        table = np.concatenate(self._parts)
        self._parts.clear()
        table = table[np.lexsort((table[:, 3], table[:, 5], -table[:, 2], table[:, 1]))]
        if self.unusable:
            self.notes.append(f"{self.unusable:,} {UNUSABLE}")
        kind, start_ns, dur_ns, name, thread, correlation, nbytes = (column.copy() for column in table.T)
        return Trace(
            source=str(source),
            names=tuple(self._names),
            threads=tuple(self._threads),
            signatures=(),
            kind=kind.astype(np.int8),
            name=name.astype(np.int32),
            start_ns=start_ns,
            dur_ns=dur_ns,
            thread=thread.astype(np.int32),
            correlation=correlation,
            external=np.full(len(table), NONE, dtype=np.int64),
            signature=np.full(len(table), NONE, dtype=np.int32),
            nbytes=nbytes,
            device=device,
            notes=(*self.notes, *remarks),
            damaged=bool(self.notes),
            counters=counters,
            unseen=unseen,
        )
