"""A record taken apart and moved: one client's share of it, and the same record on another clock."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from lynxbench.load.instrument import Bounds, Instrument, judge
from lynxbench.load.load_record import COLUMNS, Health, LoadRecord
from lynxbench.model.samples import Int64

MOMENTS = ("scheduled_ns", "sent_ns", "first_byte_ns", "first_token_ns", "last_ns")
"""Columns that are moments on the client's clock; `connect_ns` is a duration. A moment of 0 never happened."""


def moved(record: LoadRecord, by_ns: int) -> LoadRecord:
    """The record on a clock that shows `by_ns` more; every distance between two moments stays as it was stamped."""
    columns: dict[str, Any] = {name: _moved(getattr(record, name), by_ns) for name in MOMENTS}
    health = tuple(
        Health(
            process=one.process,
            lag_at_ns=one.lag_at_ns + by_ns,
            lag_ns=one.lag_ns,
            window_at_ns=one.window_at_ns + by_ns,
            cpu_share=one.cpu_share,
            wait_share=one.wait_share,
        )
        for one in record.health
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
    mine = record.process == process
    counts = np.diff(record.event_offsets)
    events = np.repeat(mine, counts)
    columns: dict[str, Any] = {
        item.name: getattr(record, item.name)[mine]
        for item in fields(record)
        if item.name in COLUMNS and item.name != "reads"
    }
    return replace(
        record,
        event_offsets=np.concatenate(([0], np.cumsum(counts[mine]))).astype(np.int64),
        event_ns=record.event_ns[events],
        event_coalesced=record.event_coalesced[events],
        health=tuple(one for one in record.health if one.process == process),
        texts=tuple(t for t, keep in zip(record.texts, mine, strict=True) if keep) if record.texts else (),
        lost_processes=tuple(one for one in record.lost_processes if one == process),
        **columns,
    )


def judge_each(record: LoadRecord, bounds: Bounds | None = None) -> dict[int, Instrument]:
    """The void rule on every client by itself: a late one is not made good by others that were on time."""
    processes = sorted(
        {*np.unique(record.process).tolist(), *record.lost_processes, *(h.process for h in record.health)}
    )
    return {process: judge(part_of(record, process), bounds) for process in processes}


def _moved(column: Int64, by_ns: int) -> Int64:
    return np.where(column > 0, column + by_ns, column)
