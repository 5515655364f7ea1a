"""Records merge exactly and survive the disk."""

from dataclasses import fields

import numpy as np
import pytest

from lynxbench.load.load_record import COLUMNS, Health, RequestEnd, RowStore, assemble, merge, read_record, write_record


def health(process):
    return Health(
        process=process,
        lag_at_ns=np.arange(3),
        lag_ns=np.arange(3) * 1000,
        window_at_ns=np.arange(2),
        cpu_share=np.array([0.1, 0.2]),
        wait_share=np.array([0.0, np.nan]),
    )


def part(process, rows, text=True):
    """rows: (number, scheduled, kind, [(stamp, count), ...])"""
    store = RowStore()
    for number, scheduled, kind, reads in rows:
        row = dict.fromkeys(COLUMNS, 0)
        events = sum(count for _, count in reads)
        row |= {
            "number": number,
            "process": process,
            "scheduled_ns": scheduled,
            "sent_ns": scheduled + 5,
            "kind": int(kind),
        }
        row |= {"events": events, "reads": len(reads), "coalesced": events - len(reads)}
        store.add(tuple(row.values()))
        for read in reads:
            store.reads.extend(read)
        if text:
            store.texts.append(f"t{number}")
    return assemble(
        store, start_ns=0, end_ns=10 + process, stop_reason="done", health=(health(process),), notes={"n": 1}
    )


def test_merge_orders_rows_and_moves_events_with_them():
    one = part(0, [(2, 200, RequestEnd.OK, [(210, 2), (220, 1)]), (0, 0, RequestEnd.RESET, [])])
    two = part(1, [(1, 100, RequestEnd.OK, [(110, 1)]), (3, 300, RequestEnd.OK, [(310, 3)])])
    both = merge([one, two])
    assert both.number.tolist() == [0, 1, 2, 3]
    assert both.event_offsets.tolist() == [0, 0, 1, 4, 7]
    assert both.event_ns.tolist() == [110, 210, 210, 220, 310, 310, 310]
    assert both.event_coalesced.tolist() == [False, False, True, False, False, True, True]
    assert both.texts == ("t0", "t1", "t2", "t3")
    assert (both.end_ns, both.notes, both.stop_reason) == (11, {"n": 2}, "done")
    assert both.counts()["ok"] == 3
    assert sum(both.counts().values()) == len(both) == 4
    assert both.lateness_ns().tolist() == [5, 5, 5, 5]
    assert both.coalesced_share == pytest.approx(3 / 7)
    gaps = both.gaps()
    assert (gaps.seconds * 1e9).round().tolist() == [0, 10, 0, 0]
    assert gaps.clean.tolist() == [False, False, False, False]
    with pytest.raises(ValueError, match="nothing"):
        merge([])


def test_a_record_survives_the_disk(tmp_path):
    record = part(3, [(2, 200, RequestEnd.OK, [(210, 2)]), (0, 0, RequestEnd.UNSENT, [])])
    path = tmp_path / "record.npz"
    write_record(record, path)
    back = read_record(path)
    for item in fields(record):
        a, b = getattr(record, item.name), getattr(back, item.name)
        if item.name == "health":
            assert len(a) == len(b) == 1
            for f in fields(a[0]):
                np.testing.assert_array_equal(getattr(a[0], f.name), getattr(b[0], f.name))
        elif isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b)
        else:
            assert a == b


def test_many_rows_fill_several_blocks():
    store = RowStore()
    for number in range(20_000):
        store.add((number, *[0] * (len(COLUMNS) - 1)))
    assert store.table()[:, 0].tolist() == list(range(20_000))
