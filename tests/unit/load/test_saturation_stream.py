"""The driver as a stream of probes: what counts as late in a record, and a real search against the bundled server."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from lynxbench.load.record import COLUMNS, Kind, LoadRecord, RowStore, assemble, merge, read_record, write_record
from lynxbench.load.saturation import Bound, SearchRule, find_saturation
from lynxbench.load.saturation_stream import Latency, poisson_streams, read_latencies
from lynxbench.model.samples import Int64

MS = 1_000_000


def record_of(rows: list[dict[str, int]], end_ns: int = 0) -> LoadRecord:
    store = RowStore()
    for number, row in enumerate(rows):
        whole = dict.fromkeys(COLUMNS, 0) | {"number": number, "output_tokens": -1} | row
        store.add(tuple(whole[name] for name in COLUMNS))
    ends = end_ns or max((row.get("last_ns", 0) for row in rows), default=0)
    return merge((assemble(store, start_ns=0, end_ns=ends, stop_reason="done", health=(), notes={}),))


def test_latencies_start_at_the_scheduled_moment() -> None:
    times = {"sent_ns": 30 * MS, "first_token_ns": 110 * MS, "last_ns": 310 * MS}
    row = {"scheduled_ns": 10 * MS, "output_tokens": 5, "kind": Kind.OK, **times}
    found = read_latencies(record_of([row]), list(Latency))
    assert found.tolist() == [pytest.approx([0.300, 0.100, 0.050])]


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.OK])
def test_whatever_is_not_an_answer_met_no_bound(kind: Kind) -> None:
    row = {"scheduled_ns": 1, "first_token_ns": 2, "last_ns": 3, "output_tokens": 2, "kind": kind}
    assert np.isinf(read_latencies(record_of([row]), list(Latency))).all()


def test_rows_come_by_arrival_and_later_turns_are_left_out() -> None:
    rows = [
        {"scheduled_ns": 20 * MS, "last_ns": 30 * MS},
        {"scheduled_ns": 10 * MS, "last_ns": 50 * MS},
        {"scheduled_ns": 15 * MS, "last_ns": 90 * MS, "turn": 1},
    ]
    assert read_latencies(record_of(rows), [Latency.TOTAL])[:, 0].tolist() == pytest.approx([0.040, 0.010])


def test_an_answer_of_one_token_has_no_time_between_tokens() -> None:
    row = {"scheduled_ns": 0, "first_token_ns": 5 * MS, "last_ns": 5 * MS, "output_tokens": 1}
    assert read_latencies(record_of([row]), [Latency.PER_TOKEN]).tolist() == [[0.0]]


def one_server(service_ms: float, seed: int) -> tuple[list[Int64], object]:
    """A driver in front of a single simulated server with exponential service times."""
    schedules: list[Int64] = []
    rng = np.random.default_rng(seed)

    def drive(offsets_ns: Int64, duration_s: float) -> LoadRecord:
        schedules.append(offsets_ns)
        assert offsets_ns[-1] < duration_s * 1e9
        free, rows = 0, []
        for due in offsets_ns.tolist():
            free = max(free, due) + int(rng.exponential(service_ms) * MS)
            rows.append({"scheduled_ns": due, "sent_ns": due, "last_ns": free})
        return record_of(rows)

    return schedules, drive


def test_a_search_through_driver_runs_finds_the_capacity() -> None:
    schedules, drive = one_server(10.0, seed=1)
    kept: list[LoadRecord] = []
    rests: list[int] = []
    start = poisson_streams(
        drive,  # type: ignore[arg-type]
        [Latency.TOTAL],
        seed=7,
        rest=lambda: rests.append(1),
        keep=kept,
    )
    bound = Bound(0.060, 0.05)
    found = find_saturation(start, 100.0, bound, SearchRule(max_requests=25_600))
    truth = 100 - math.log(20) / 0.060  # M/M/1
    assert found.passed_per_s == pytest.approx(truth, rel=0.15)
    assert len(rests) == len(found.probes)
    assert len(kept) == len(schedules)
    assert found.seconds == pytest.approx(sum((record.end_ns - record.start_ns) / 1e9 for record in kept))
    firsts = {tuple(offsets[:5].tolist()) for offsets in schedules}
    assert len(firsts) == len(schedules), "every run has arrivals of its own"


def test_records_survive_storage(tmp_path: Path) -> None:
    record = record_of([{"scheduled_ns": 1, "last_ns": 9 * MS}])
    write_record(record, tmp_path / "probe.npz")
    again = read_latencies(read_record(tmp_path / "probe.npz"), [Latency.TOTAL])
    assert again.tolist() == read_latencies(record, [Latency.TOTAL]).tolist()
