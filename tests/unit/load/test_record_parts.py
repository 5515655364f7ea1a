"""A record on another clock and one client's share: exact, and the void rule holds for each client."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lynxbench.load.instrument import judge
from lynxbench.load.load_record import COLUMNS, Health, LoadRecord, RequestEnd, merge
from lynxbench.load.record_parts import judge_each, moved, moved_rows, part_of, unpaced_rows, unpaced_share


def health(process: int) -> Health:
    at = np.arange(10, dtype=np.int64) * 10**8
    quiet = np.full(10, 0.1)
    return Health(process, at, np.full(10, 1000, dtype=np.int64), at, quiet, np.zeros(10))


def record(process: int, late_ns: int, rows: int = 400) -> LoadRecord:
    scheduled = 10**9 + np.arange(rows, dtype=np.int64) * 10**6
    zeros = np.zeros(rows, dtype=np.int64)
    columns = dict.fromkeys((name for name in COLUMNS if name != "reads"), zeros)
    sent = scheduled + late_ns
    columns |= {
        "number": np.arange(rows, dtype=np.int64) * 2 + process,
        "process": zeros + process,
        "scheduled_ns": scheduled,
        "sent_ns": sent,
        "first_byte_ns": zeros,
        "last_ns": sent + 5_000_000 + np.arange(rows, dtype=np.int64) * 37,
        "kind": zeros + int(RequestEnd.OK),
    }
    return LoadRecord(
        start_ns=10**9,
        end_ns=3 * 10**9,
        stop_reason="done",
        event_offsets=np.arange(rows + 1, dtype=np.int64),
        event_ns=sent + 4_000_000,
        event_coalesced=np.zeros(rows, dtype=np.bool_),
        health=(health(process),),
        **columns,
    )


@pytest.mark.parametrize("by_ns", [50_000_000, -50_000_000])
def test_moving_keeps_every_distance_and_what_never_happened(by_ns: int) -> None:
    before = record(0, 1000)
    after = moved(before, by_ns)
    assert np.array_equal(after.scheduled_ns - before.scheduled_ns, np.full(400, by_ns))
    assert np.array_equal(after.latency_s(), before.latency_s())
    assert np.array_equal(after.lateness_ns(), before.lateness_ns())
    assert not after.first_byte_ns.any()
    assert after.start_ns == before.start_ns + by_ns
    back = moved(after, -by_ns)
    assert np.array_equal(back.event_ns, before.event_ns)
    assert np.array_equal(back.health[0].lag_at_ns, before.health[0].lag_at_ns)


def test_what_was_not_seen_to_come_shows_no_time_per_token() -> None:
    """Of four answers of 16 tokens: streamed, at once, after thoughts that were kept back, after thoughts that came."""
    begun = np.array([100, 100, 100, 50])
    tokens, thoughts = np.full(4, 16), np.array([-1, -1, 12, 12])
    answers = replace(
        record(0, 1000, rows=4),
        first_token_ns=begun,
        first_answer_ns=np.full(4, 100),
        output_tokens=tokens,
        reasoning_tokens=thoughts,
        event_offsets=np.array([0, 2, 3, 5, 7]),
        event_ns=np.array([100, 140, 100, 100, 140, 50, 140]),
        event_coalesced=np.zeros(7, dtype=np.bool_),
    )
    assert unpaced_rows(answers).tolist() == [False, True, True, False]
    assert unpaced_share(answers) == 0.5
    alone = replace(answers, output_tokens=np.array([1, 1, -1, 0]))
    assert not unpaced_rows(alone).any()
    assert unpaced_share(alone) is None


def test_rows_of_a_run_under_way_move_alike() -> None:
    before = record(0, 1000)
    table = np.stack([getattr(before, name, np.zeros(400, dtype=np.int64)) for name in COLUMNS], axis=1)
    after = moved_rows(table, 7)
    assert np.array_equal(after[:, COLUMNS.index("last_ns")], before.last_ns + 7)
    assert not after[:, COLUMNS.index("first_byte_ns")].any()
    assert np.array_equal(table[:, COLUMNS.index("last_ns")], before.last_ns)


def test_a_part_of_the_whole_is_what_its_client_sent() -> None:
    parts = [record(0, 1000), record(1, 2000)]
    whole = merge(parts)
    for number, own in enumerate(parts):
        mine = part_of(whole, number)
        assert np.array_equal(mine.number, own.number)
        assert np.array_equal(mine.event_ns, own.event_ns)
        assert [one.process for one in mine.health] == [number]
    assert np.array_equal(np.sort(whole.latency_s()), np.sort(np.concatenate([p.latency_s() for p in parts])))


def test_a_late_client_is_not_made_good_by_one_on_time() -> None:
    whole = merge([record(0, 1000), record(1, 1_800_000)])
    assert not judge(whole).void  # together their mean lateness is within the bound
    each = judge_each(whole)
    assert not each[0].void
    assert each[1].void
    assert "late" in each[1].reasons[0]
