"""One event of a Kineto chrome trace: only the needed fields, decoded tolerantly, its stamps in nanoseconds."""

import contextlib
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from lynxbench.attribute.read.trace import NONE, Flags, Int64

EXACT_DOUBLE_US = 2.0**42
"""Microseconds above this no longer carry whole nanoseconds in a double (spacing 2**-10 µs): read as text then."""
LATEST_US = 2.0**62 / 1e3
"""Stamps beyond this do not fit 64 bits of nanoseconds."""

Raw: TypeAlias = msgspec.Raw
ABSENT = msgspec.Raw()


class Args(msgspec.Struct, gc=False):
    """In the order in which Kineto writes them: the decoder looks for the next key where the last one was found."""

    external: int = msgspec.field(name="External id", default=NONE)
    concrete: Raw = msgspec.field(name="Concrete Inputs", default=ABSENT)
    types: Raw = msgspec.field(name="Input type", default=ABSENT)
    strides: Raw = msgspec.field(name="Input Strides", default=ABSENT)
    dims: Raw = msgspec.field(name="Input Dims", default=ABSENT)
    results: Raw = msgspec.field(name="Output Dims", default=ABSENT)
    correlation: int = NONE
    nbytes: int = msgspec.field(name="bytes", default=NONE)


class KinetoEvent(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = -1.0
    dur: float = 0.0
    args: Args | None = None


class ExactEvent(KinetoEvent, gc=False):
    """The same event with its stamps kept as text, for files whose stamps a double would round."""

    ts: Raw = ABSENT  # type: ignore[assignment]
    dur: Raw = ABSENT  # type: ignore[assignment]


class Decoder:
    """Text of a list of events to events. One event of the wrong shape costs that event, not its piece."""

    def __init__(self) -> None:
        self.refused = 0
        self._kind = KinetoEvent
        self._decode = msgspec.json.Decoder(list[KinetoEvent]).decode
        self._looked = False

    def __call__(self, text: bytes) -> list[KinetoEvent]:
        events = self._tolerant(text)
        if not self._looked and events:
            self._looked = True
            if any(isinstance(event.ts, float) and event.ts >= EXACT_DOUBLE_US for event in events):
                self._kind, self._decode = ExactEvent, msgspec.json.Decoder(list[ExactEvent]).decode  # type: ignore[assignment]
                events = self._tolerant(text)
        return events

    def _tolerant(self, text: bytes) -> list[KinetoEvent]:
        try:
            return self._decode(text)
        except msgspec.ValidationError:
            pass
        events: list[KinetoEvent] = []
        raw_events = msgspec.json.decode(text, type=list[Raw])
        for raw in raw_events:
            with contextlib.suppress(msgspec.ValidationError):
                events.append(msgspec.json.decode(raw, type=self._kind))
        self.refused += len(raw_events) - len(events)
        return events


def pack_column(values: Sequence[Any], width: type[np.generic]) -> npt.NDArray[Any]:
    """Python numbers as a column: packing them as a C structure takes less than half of what numpy's own loop does."""
    return np.frombuffer(struct.pack(f"{len(values)}{np.dtype(width).char}", *values), width)


def stamps_of(events: Sequence[KinetoEvent]) -> tuple[Int64, Int64, Flags]:
    """Starts and durations in whole nanoseconds, and which of them can be used."""
    if isinstance(events[0], ExactEvent):
        pairs = [(_nanoseconds(event.ts, -1), _nanoseconds(event.dur, 0)) for event in events]
        start = np.array([pair[0] for pair in pairs], dtype=np.int64)
        dur = np.array([pair[1] for pair in pairs], dtype=np.int64)
        return start, dur, (start >= 0) & (dur >= 0)
    start_us = pack_column([event.ts for event in events], np.float64)
    dur_us = pack_column([event.dur for event in events], np.float64)
    usable = (start_us >= 0) & (dur_us >= 0) & (start_us + dur_us < LATEST_US)
    start = np.rint(np.where(usable, start_us, 0.0) * 1e3).astype(np.int64)
    dur = np.rint(np.where(usable, dur_us, 0.0) * 1e3).astype(np.int64)
    return start, dur, usable


def _nanoseconds(raw: object, absent: int) -> int:
    from decimal import Decimal, InvalidOperation  # only for files whose stamps need it

    text = bytes(raw)  # type: ignore[call-overload]
    if not text:
        return absent
    try:
        value = Decimal(text.decode()).scaleb(3)
    except (InvalidOperation, UnicodeDecodeError):
        return -1
    return int(value.to_integral_value()) if 0 <= value < LATEST_US * 1000 else -1
