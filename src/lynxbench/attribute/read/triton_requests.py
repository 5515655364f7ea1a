"""Triton's trace files: when each traced request was received, queued, computed and answered, model by model."""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from lynxbench.attribute.read.chrome_text import FileReading, ListDecoder, read_pieces
from lynxbench.attribute.read.trace import NONE
from lynxbench.attribute.read.trace_rows import whole
from lynxbench.errors import BadInput


class _Stamp(msgspec.Struct):
    name: str
    ns: int


class _TritonEntry(msgspec.Struct):
    """What a trace is of, or stamps of it; tensors that were written beside are not asked for."""

    id: int
    model_name: str | None = None
    parent_id: int | None = None
    timestamps: list[_Stamp] = []


@dataclass
class TracedRequest:
    """One model's part of a request: a client's own, or, with a parent, a step of an ensemble or a call by a model."""

    parent: int | None = None
    model: str = ""
    stamps: dict[str, int] = field(default_factory=dict)
    """The first of a name that begins something, else the last."""

    def stamp(self, name: str, at_ns: int) -> None:
        """Note a stamp."""
        choose = min if name.endswith("_START") else max
        self.stamps[name] = choose(at_ns, self.stamps.get(name, at_ns))


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """Requests by their number, and what could not be read."""

    source: str
    requests: dict[int, TracedRequest]
    notes: tuple[str, ...] = ()

    @property
    def damaged(self) -> bool:
        """Whether something is missing that may have mattered."""
        return bool(self.notes)


def read_requests(path: Path) -> RequestTrace:
    """The requests in a trace file; BadInput in one line where it holds no stamp."""
    reading, decode = FileReading(), ListDecoder(_TritonEntry)
    requests: dict[int, TracedRequest] = {}
    unusable = 0
    for piece in read_pieces(path, decode, reading):
        for entry in piece:
            request = requests.setdefault(entry.id, TracedRequest())
            request.parent = entry.parent_id if entry.parent_id is not None else request.parent
            request.model = entry.model_name or request.model
            for stamp in entry.timestamps:
                at_ns = whole(stamp.ns)
                unusable += at_ns == NONE
                if at_ns != NONE:
                    request.stamp(stamp.name, at_ns)
    losses = (
        (decode.refused, "entries with fields of the wrong type were left out"),
        (unusable, "stamps that no clock can have shown were left out"),
    )
    notes = (*reading.notes, *(f"{count:,} {what}" for count, what in losses if count))
    if not any(request.stamps for request in requests.values()):
        said = f" ({'; '.join(notes)})" if notes else ""
        raise BadInput(f"{path}: holds no timestamps of requests{said}; trace with --trace-config level=TIMESTAMPS")
    return RequestTrace(str(path), requests, notes)
