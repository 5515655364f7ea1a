"""A record taken apart and moved: one client's share of it, and the same record on another clock."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from lynxbench.load.instrument import Instrument, judge
from lynxbench.load.load_record import COLUMNS, LoadRecord, RequestEnd, take_rows
from lynxbench.model.requests import Mask, Requests
from lynxbench.model.samples import Int64
from lynxbench.model.serving import InstrumentBounds

MOMENTS = ("scheduled_ns", "sent_ns", "first_byte_ns", "first_token_ns", "first_answer_ns", "last_ns")
"""Columns that are moments on the client's clock; `connect_ns` is a duration. A moment of 0 never happened."""


def moved(record: LoadRecord, by_ns: int) -> LoadRecord:
    """The record on a clock that shows `by_ns` more; every distance between two moments stays as it was stamped."""
    columns: dict[str, Any] = {name: _moved(getattr(record, name), by_ns) for name in MOMENTS}
    health = tuple(
        replace(client, lag_at_ns=client.lag_at_ns + by_ns, window_at_ns=client.window_at_ns + by_ns)
        for client in record.health
    )
    return replace(
        record,
        start_ns=record.start_ns + by_ns,
        end_ns=record.end_ns + by_ns,
        event_ns=record.event_ns + by_ns,
        health=health,
        **columns,
    )


def moved_rows(rows: Int64, by_ns: int) -> Int64:
    """Rows of a run that goes on, in the order of COLUMNS, on that clock."""
    rows = rows.copy()
    for name in MOMENTS:
        place = COLUMNS.index(name)
        rows[:, place] = _moved(rows[:, place], by_ns)
    return rows


def part_of(record: LoadRecord, process: int) -> LoadRecord:
    """What one client process sent and how it fared."""
    return replace(
        take_rows(record, np.flatnonzero(record.process == process)),
        health=tuple(client for client in record.health if client.process == process),
        lost_processes=tuple(lost for lost in record.lost_processes if lost == process),
    )


def judge_each(record: LoadRecord, bounds: InstrumentBounds | None = None) -> dict[int, Instrument]:
    """The void rule on every client by itself: a late one is not made good by others that were on time."""
    processes = sorted(
        {*np.unique(record.process).tolist(), *record.lost_processes, *(h.process for h in record.health)}
    )
    return {process: judge(part_of(record, process), bounds) for process in processes}


def unpaced_rows(record: LoadRecord) -> Mask:
    """Answers of several tokens that show no time per token.

    Either all that was sent came at once, or tokens that a model thought are in the count and were not sent: the first
    that was seen is none of the first.
    """
    several = (record.kind == RequestEnd.OK) & (record.first_token_ns > 0) & (record.output_tokens >= 2)
    came = np.diff(record.event_offsets) > 0
    last_ns = record.first_token_ns.copy()
    last_ns[came] = record.event_ns[record.event_offsets[1:][came] - 1]
    unsent = (record.reasoning_tokens > 0) & (record.first_answer_ns == record.first_token_ns)
    return np.asarray(several & ((last_ns <= record.first_token_ns) | unsent))


def unpaced_share(record: LoadRecord) -> float | None:
    """Of the answers of several tokens, those that show no time per token; None where there are no such answers."""
    several = int(((record.kind == RequestEnd.OK) & (record.output_tokens >= 2)).sum())
    return int(unpaced_rows(record).sum()) / several if several else None


def requests_so_far(rows: Int64, start_ns: int) -> Requests:
    """Finished rows of a run that goes on; without single events, and without what is still open."""
    place = {name: index for index, name in enumerate(COLUMNS)}
    rows = rows[np.argsort(rows[:, place["scheduled_ns"]], kind="stable")]
    none = np.zeros(0, dtype=np.int64)
    names = [item.name for item in fields(Requests) if item.name in place]
    columns: dict[str, Any] = {name: np.ascontiguousarray(rows[:, place[name]]) for name in names}
    return Requests(
        start_ns=start_ns,
        load_end_ns=int(columns["scheduled_ns"].max()) if len(rows) else start_ns,
        ok=rows[:, place["kind"]] == RequestEnd.OK,
        cancelled=rows[:, place["kind"]] == RequestEnd.CANCELLED,
        event_row=none,
        event_ns=none,
        gap_row=none,
        gap_s=np.zeros(0),
        **columns,
    )


def _moved(column: Int64, by_ns: int) -> Int64:
    return np.where(column > 0, column + by_ns, column)
