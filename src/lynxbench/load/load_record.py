"""What a load run leaves behind: one row a request, the moments its output arrived, and the client's health."""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from lynxbench.evidence.array_file import read_arrays
from lynxbench.load.said_answers import WIDTH
from lynxbench.model.requests import Requests
from lynxbench.model.samples import Float64, Int64
from lynxbench.model.secrets import secret_values, withhold


class RequestEnd(IntEnum):
    """How a request ended. Offered = the sum over all kinds, always."""

    OK = 0
    HTTP_ERROR = 1
    CONNECT_ERROR = 2
    RESET = 3
    TIMEOUT_CONNECT = 4
    TIMEOUT_FIRST_BYTE = 5
    TIMEOUT_IDLE = 6
    TIMEOUT_TOTAL = 7
    MALFORMED = 8
    STREAM_ERROR = 9
    """A 200 response whose stream carries the server's error."""
    CUT_OFF = 10
    """Still unanswered when the run's drain bound passed; neither success nor the server's failure."""
    UNSENT = 11
    """Due, but never written to a socket."""
    EMPTY_ANSWER = 12
    """A 200 response without any output: nothing was served, and there is no first token to time."""
    CANCELLED = 13
    """Given up by the client, as the contract asks of a share of them: no failure of the server."""
    GRPC_ERROR = 14  # its status is not OK, at once or after some output

    @property
    def word(self) -> str:
        """How reports and documents call it."""
        return self.name.lower()


COLUMNS = (
    "number", "turn", "process", "scheduled_ns", "sent_ns", "connect_ns", "first_byte_ns", "first_token_ns", "last_ns",
    "bytes", "events", "output_tokens", "input_tokens", "cached_tokens", "kind", "http_status", "coalesced", "retries",
    "first_answer_ns", "reasoning_tokens", "reads",
)  # fmt: skip
RECORD_COLUMNS = COLUMNS[:-1]
"""What a record has a field for; how many reads a row took only serves to assemble its events."""
_ROW = Struct(f"={len(COLUMNS)}q")
_BLOCK_ROWS = 8_192
"""Small enough that a new block is no pause; the first is touched before the run."""


class RowStore:
    """Rows packed into preallocated blocks while the run goes on: nothing is moved or left to the collector."""

    def __init__(self) -> None:
        self._blocks: list[Int64] = []
        self._block: memoryview
        self._used = 0
        self._pack = _ROW.pack_into
        self._handed_on = 0
        self._grow()
        self._blocks[0].fill(0)
        self.reads = array("q")
        """Pairs: when a read that carried output was stamped, and how many output events it held; row after row."""
        self.texts: list[str] = []
        self.said = array("q")
        """Of the answers that are looked at: numbers, no text."""

    def add(self, row: tuple[int, ...]) -> None:
        """Keep one finished row, in the order of COLUMNS."""
        used = self._used
        if used == _BLOCK_ROWS:
            self._grow()
            used = 0
        self._pack(self._block, used * _ROW.size, *row)
        self._used = used + 1

    def hand_on(self, file: int) -> None:
        """Append the rows finished since the last call to a file, whole rows at a time."""
        place, total = self._handed_on, (len(self._blocks) - 1) * _BLOCK_ROWS + self._used
        while place < total:
            block, first = divmod(place, _BLOCK_ROWS)
            last = min(_BLOCK_ROWS, first + total - place)
            os.write(file, self._blocks[block][first:last].data)
            place += last - first
        self._handed_on = total

    def table(self) -> Int64:
        """All rows so far, one line each."""
        return np.concatenate([*self._blocks[:-1], self._blocks[-1][: self._used]])

    def _grow(self) -> None:
        block = np.zeros((_BLOCK_ROWS, len(COLUMNS)), dtype=np.int64)
        self._blocks.append(block)
        self._block = memoryview(block.data).cast("B")
        self._used = 0


@dataclass(frozen=True, slots=True)
class Health:
    """How one client process fared, on the clock of the requests."""

    process: int
    lag_at_ns: Int64
    lag_ns: Int64
    """How much later than asked the event loop came round, at every tick."""
    window_at_ns: Int64
    cpu_share: Float64
    """Of one core, window by window."""
    wait_share: Float64
    """Runnable but without a core (the kernel's run-queue delay); NaN where the kernel does not tell."""


@dataclass(frozen=True, slots=True)
class LoadRecord:
    """Every request of one probe. A moment of 0 never happened; tokens of -1 are unknown."""

    start_ns: int
    end_ns: int
    stop_reason: str
    number: Int64
    turn: Int64
    process: Int64
    scheduled_ns: Int64
    sent_ns: Int64
    connect_ns: Int64
    """Time this request waited for its connection to open; part of the latency, not of the client's lateness."""
    first_byte_ns: Int64
    first_token_ns: Int64
    last_ns: Int64
    bytes: Int64
    events: Int64
    output_tokens: Int64
    input_tokens: Int64
    cached_tokens: Int64
    kind: Int64
    http_status: Int64
    coalesced: Int64
    retries: Int64
    first_answer_ns: Int64
    """The first output of the answer itself, after what a model thinks aloud; 0 in records of earlier versions."""
    reasoning_tokens: Int64
    event_offsets: Int64
    """Row i's output events are event_ns[event_offsets[i]:event_offsets[i+1]]."""
    event_ns: Int64
    event_coalesced: npt.NDArray[np.bool_]
    """True where the event was read together with the one before it: its own arrival was not seen."""
    health: tuple[Health, ...]
    notes: Mapping[str, int] = field(default_factory=dict)
    """What failing responses said, and how often."""
    texts: tuple[str, ...] = ()
    lost_processes: tuple[int, ...] = ()
    said: Int64 = field(default_factory=lambda: np.zeros((0, WIDTH), dtype=np.int64))
    """What a few answers said, as numbers; in no evidence."""

    def __len__(self) -> int:
        return len(self.number)

    def counts(self) -> dict[str, int]:
        """Requests by how they ended; the values sum to the requests offered."""
        counts = np.bincount(self.kind, minlength=len(RequestEnd))
        return {kind.word: int(counts[kind]) for kind in RequestEnd}

    @property
    def sent(self) -> int:
        """Requests that were written to a socket."""
        return int(np.count_nonzero(self.sent_ns))

    def lateness_ns(self) -> Int64:
        """How late the client wrote each sent request, without the time its connection took to open."""
        rows = self.sent_ns > 0
        return self.sent_ns[rows] - self.scheduled_ns[rows] - self.connect_ns[rows]

    def first_token_s(self) -> Float64:
        """Time to first token of the good rows that have one, from the scheduled arrival."""
        rows = (self.kind == RequestEnd.OK) & (self.first_token_ns > 0)
        seconds: Float64 = (self.first_token_ns[rows] - self.scheduled_ns[rows]) / 1e9
        return seconds

    def server_first_token_s(self) -> Float64:
        """The same from the socket write: what the server did, without the client's lateness."""
        rows = (self.kind == RequestEnd.OK) & (self.first_token_ns > 0)
        seconds: Float64 = (self.first_token_ns[rows] - self.sent_ns[rows]) / 1e9
        return seconds

    def latency_s(self) -> Float64:
        """Whole latency of the good rows, from the scheduled arrival."""
        rows = self.kind == RequestEnd.OK
        seconds: Float64 = (self.last_ns[rows] - self.scheduled_ns[rows]) / 1e9
        return seconds

    def gaps(self) -> EventGaps:
        """Distances between consecutive output events of the good rows."""
        if len(self.event_ns) < 2:
            return EventGaps(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.bool_))
        counts = np.diff(self.event_offsets)
        row = np.repeat(np.arange(len(self)), counts)
        inside = (row[1:] == row[:-1]) & (self.kind[row[1:]] == RequestEnd.OK)
        follows = np.append(self.event_coalesced[1:], False)
        shared_read = self.event_coalesced | follows
        clean = ~(shared_read[1:] | shared_read[:-1])
        return EventGaps(row[1:][inside], (np.diff(self.event_ns) / 1e9)[inside], clean[inside])

    @property
    def coalesced_share(self) -> float:
        """Share of output events whose own arrival was not seen; NaN without events."""
        return float(np.mean(self.event_coalesced)) if len(self.event_ns) else float("nan")


@dataclass(frozen=True, slots=True)
class EventGaps:
    """Inter-event distances. Only `clean` ones are measured; the others are artefacts of reads that held several
    events, right in their sum and false one by one, so a percentile must not use them."""

    row: Int64
    seconds: Float64
    clean: npt.NDArray[np.bool_]


def assemble(
    store: RowStore,
    *,
    start_ns: int,
    end_ns: int,
    stop_reason: str,
    health: tuple[Health, ...],
    notes: Mapping[str, int],
) -> LoadRecord:
    """The record of one process's run from its packed rows."""
    table = store.table()
    columns = {name: np.ascontiguousarray(table[:, place]) for place, name in enumerate(COLUMNS)}
    reads_per_row = columns.pop("reads")
    groups = (
        np.frombuffer(store.reads, dtype=np.int64).reshape(-1, 2) if len(store.reads) else np.zeros((0, 2), np.int64)
    )
    counts = groups[:, 1]
    event_ns = np.repeat(groups[:, 0], counts)
    coalesced = np.ones(len(event_ns), dtype=np.bool_)
    coalesced[np.cumsum(counts) - counts] = False
    row_of_group = np.repeat(np.arange(len(table)), reads_per_row)
    events = np.bincount(row_of_group, weights=counts, minlength=len(table)).astype(np.int64)
    return LoadRecord(
        start_ns=start_ns,
        end_ns=end_ns,
        stop_reason=stop_reason,
        event_offsets=_offsets(events),
        event_ns=event_ns,
        event_coalesced=coalesced,
        health=health,
        notes=dict(notes),
        texts=tuple(store.texts),
        said=np.array(store.said, dtype=np.int64).reshape(-1, WIDTH),
        **columns,  # type: ignore[arg-type]  # all are arrays, the fields after them are not
    )


def merge(records: Sequence[LoadRecord], lost_processes: tuple[int, ...] = ()) -> LoadRecord:
    """One record from those of several processes, rows by scheduled arrival; nothing is dropped or summarised."""
    if not records:
        raise ValueError("nothing to merge")
    joined = {
        name: np.concatenate([getattr(record, name) for record in records])
        for name in (*RECORD_COLUMNS, "event_ns", "event_coalesced")
    }
    notes = Counter[str]()
    for record in records:
        notes.update(record.notes)
    whole = LoadRecord(
        start_ns=min(record.start_ns for record in records),
        end_ns=max(record.end_ns for record in records),
        stop_reason="; ".join(dict.fromkeys(record.stop_reason for record in records)),
        event_offsets=_offsets(np.concatenate([np.diff(record.event_offsets) for record in records])),
        health=tuple(health for record in records for health in record.health),
        notes=dict(notes),
        texts=tuple(text for record in records for text in record.texts),
        lost_processes=lost_processes,
        said=np.concatenate([record.said for record in records]),
        **joined,
    )
    return take_rows(whole, np.lexsort((whole.process, whole.turn, whole.number, whole.scheduled_ns)))


def take_rows(record: LoadRecord, rows: Int64) -> LoadRecord:
    """These rows of a record, in this order, with their events and texts."""
    columns: dict[str, Any] = {name: getattr(record, name)[rows] for name in RECORD_COLUMNS}
    counts = np.diff(record.event_offsets)[rows]
    offsets = _offsets(counts)
    events = np.arange(offsets[-1]) + np.repeat(record.event_offsets[rows] - offsets[:-1], counts)
    return replace(
        record,
        event_offsets=offsets,
        event_ns=record.event_ns[events],
        event_coalesced=record.event_coalesced[events],
        texts=tuple(record.texts[row] for row in rows) if record.texts else (),
        **columns,
    )


def _offsets(counts: Int64) -> Int64:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def write_record(record: LoadRecord, path: Path) -> None:
    """Save a record as numpy columns (`.npz`) that need nothing but numpy to be read."""
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    about: dict[str, object] = {}
    for item in fields(record):
        value = getattr(record, item.name)
        if item.name == "said" and not len(value):
            continue  # as evidence keeps a record, and as earlier versions know it
        if isinstance(value, np.ndarray):
            arrays[item.name] = value
        elif item.name == "health":
            about["health"] = [health.process for health in value]
            for place, health in enumerate(value):  # several probes in one record have processes of the same number
                for part in fields(health):
                    if part.name != "process":
                        arrays[f"health{place}_{part.name}"] = getattr(health, part.name)
        elif item.name == "notes":  # a server may say back what it was sent, the key among it
            secrets = secret_values(os.environ)
            notes = Counter[str]()
            for text, count in value.items():
                notes[withhold(text, secrets)] += count
            about["notes"] = dict(notes)
        else:
            about[item.name] = value
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_record(path: Path) -> LoadRecord:
    """The record a file holds."""
    arrays: dict[str, Any] = dict(read_arrays(path))
    about = json.loads(arrays.pop("about").tobytes())
    health = tuple(
        Health(
            process=process,
            **{p.name: arrays.pop(f"health{place}_{p.name}") for p in fields(Health) if p.name != "process"},
        )
        for place, process in enumerate(about.pop("health"))
    )
    for name in ("texts", "lost_processes"):
        about[name] = tuple(about[name])
    unknown = np.full(len(arrays["kind"]), -1)
    arrays = {"first_answer_ns": np.zeros_like(unknown), "reasoning_tokens": unknown, **arrays}
    return LoadRecord(health=health, **about, **arrays)


def requests_of(record: LoadRecord) -> Requests:
    """The record as measuring sees it."""
    ok = record.kind == RequestEnd.OK
    row = np.repeat(np.arange(len(record)), np.diff(record.event_offsets))
    good = ok[row]
    gaps = record.gaps()
    return Requests(
        start_ns=record.start_ns,
        load_end_ns=int(record.scheduled_ns.max()) if len(record) else record.start_ns,
        scheduled_ns=record.scheduled_ns,
        sent_ns=record.sent_ns,
        first_token_ns=record.first_token_ns,
        last_ns=record.last_ns,
        ok=ok,
        cancelled=record.kind == RequestEnd.CANCELLED,
        first_answer_ns=record.first_answer_ns,
        output_tokens=record.output_tokens,
        input_tokens=record.input_tokens,
        cached_tokens=record.cached_tokens,
        event_row=row[good],
        event_ns=record.event_ns[good],
        gap_row=gaps.row[gaps.clean],
        gap_s=gaps.seconds[gaps.clean],
    )
