"""The load driver as the saturation search sees it: open-loop Poisson probes, and what counts as late in a record."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from lynxbench.load import schedule
from lynxbench.load.record import Kind, LoadRecord
from lynxbench.load.saturation import Stream
from lynxbench.model.samples import Float64, Int64

Drive = Callable[[Int64, float], LoadRecord]
"""Send requests at these offsets within this many seconds, wait for the answers, return the record."""


class Latency(StrEnum):
    """Which of a request's times a bound is on."""

    TOTAL = "latency"
    FIRST_TOKEN = "time-to-first-token"
    PER_TOKEN = "time-per-token"


class Rest(Protocol):
    """Waits between probes, so that one does not start on the queue of the one before."""

    def __call__(self) -> None:
        """Return when the server is at rest."""


def read_latencies(record: LoadRecord, wanted: Sequence[Latency]) -> Float64:
    """One row a scheduled request in order of arrival, one column a latency, from the *scheduled* moment.

    Infinite where the request failed, timed out, was cut off or never sent: a missing answer met no bound. Follow-up
    turns of a conversation are left out: their moment depends on the answer before.
    """
    rows = record.turn == 0
    good = record.kind == Kind.OK
    columns = []
    for latency in wanted:
        if latency is Latency.TOTAL:
            seconds = (record.last_ns - record.scheduled_ns) / 1e9
        elif latency is Latency.FIRST_TOKEN:
            seconds = np.where(record.first_token_ns > 0, (record.first_token_ns - record.scheduled_ns) / 1e9, math.inf)
        else:
            seconds = _per_token_s(record)
        columns.append(np.where(good, seconds, math.inf)[rows])
    return np.stack(columns, axis=1)


def _per_token_s(record: LoadRecord) -> Float64:
    """From the first token to the last, over the tokens after the first; zero where there was only one."""
    tokens = np.where(record.output_tokens > 0, record.output_tokens, record.events)
    spread = (record.last_ns - record.first_token_ns) / 1e9
    per_token = np.where(tokens > 1, spread / np.maximum(tokens - 1, 1), 0.0)
    return np.where(record.first_token_ns > 0, per_token, math.inf)


@dataclass
class PoissonStream:
    """A probe made of open-loop runs of the driver, one for each take.

    The driver cannot judge while it sends, so every take is a run that starts on an idle server and is drained. The
    start-up share of each run is cut here; the judge cuts its own share of the whole besides.
    """

    drive: Drive
    rate_per_s: float
    latencies: tuple[Latency, ...]
    seed: int
    start_up: float
    records: list[LoadRecord] = field(default_factory=list)

    def take(self, requests: int) -> Float64:
        """Send enough that so many remain once the run's start is cut, and return those."""
        extra = math.ceil(requests * self.start_up)
        offsets = _poisson(self.rate_per_s, requests + extra, self.seed + len(self.records))
        record = self.drive(offsets, float(offsets[-1]) / 1e9 + 1e-3)
        self.records.append(record)
        return read_latencies(record, self.latencies)[extra:]

    def end(self) -> float:
        """Seconds of all runs, drains included."""
        return sum((record.end_ns - record.start_ns) / 1e9 for record in self.records)


def poisson_streams(
    drive: Drive,
    latencies: Sequence[Latency],
    *,
    seed: int,
    rest: Rest | None = None,
    start_up: float = 0.25,
    keep: list[LoadRecord] | None = None,
) -> Callable[[float], Stream]:
    """What `find_saturation` starts probes with; `keep` collects every record for the evidence."""
    started = 0

    def start(rate_per_s: float) -> Stream:
        nonlocal started
        if rest is not None:
            rest()
        started += 1
        records: list[LoadRecord] = keep if keep is not None else []
        # Far apart, so that no two runs of a search share arrivals.
        stream = PoissonStream(drive, rate_per_s, tuple(latencies), seed + 1_000_003 * started, start_up)
        return _Kept(stream, records)

    return start


@dataclass
class _Kept:
    stream: PoissonStream
    records: list[LoadRecord]

    def take(self, requests: int) -> Float64:
        taken = self.stream.take(requests)
        self.records.append(self.stream.records[-1])
        return taken

    def end(self) -> float:
        return self.stream.end()


def _poisson(rate_per_s: float, requests: int, seed: int) -> Int64:
    """Exactly so many arrivals."""
    duration_s = (requests + 6 * math.sqrt(requests) + 10) / rate_per_s
    offsets = schedule.poisson(rate_per_s, duration_s, seed)
    while len(offsets) < requests:  # six standard deviations: once in a billion
        duration_s *= 1.5
        offsets = schedule.poisson(rate_per_s, duration_s, seed)
    return offsets[:requests]
