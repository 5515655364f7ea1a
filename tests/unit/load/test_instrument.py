"""The verdict on the client, from plain values."""

from dataclasses import replace

import numpy as np
import pytest

from lynxbench.load.instrument import judge
from lynxbench.load.load_record import COLUMNS, Health, RequestEnd, RowStore, assemble
from lynxbench.model.serving import InstrumentBounds


def record(late_ns=100_000, lag_ns=100_000, cpu=0.3, wait=0.01, kind=RequestEnd.OK, rows=200):
    store = RowStore()
    for number in range(rows):
        row = dict.fromkeys(COLUMNS, 0)
        sent = 0 if kind is RequestEnd.UNSENT else 1_000_000 * number + late_ns + 50
        row |= {"number": number, "scheduled_ns": 1_000_000 * number + 50, "sent_ns": sent, "kind": int(kind)}
        store.add(tuple(row.values()))
    windows = np.full(40, cpu), np.full(40, wait)
    health = Health(0, np.arange(100), np.full(100, lag_ns), np.arange(40), *windows)
    return assemble(store, start_ns=0, end_ns=1, stop_reason="", health=(health,), notes={})


def test_a_client_at_ease_is_not_void():
    verdict = judge(record())
    assert not verdict.void
    assert verdict.reasons == ()
    assert verdict.busiest_share == pytest.approx(0.31)
    assert verdict.mean_lateness_s == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"late_ns": 2_000_000}, "late on average"),
        ({"lag_ns": 30_000_000}, "event loop"),
        ({"cpu": 0.99}, "needed 100% of a core"),
        ({"cpu": 0.5, "wait": 0.5}, "needed 100% of a core"),
        ({"cpu": 0.3, "wait": 0.3}, "waited for a core 30% of the time"),
        ({"kind": RequestEnd.UNSENT}, "never sent"),
    ],
)
def test_what_makes_a_run_void(changes, word):
    verdict = judge(record(**changes))
    assert verdict.void
    assert any(word in reason for reason in verdict.reasons)


def test_a_lost_process_or_missing_health_is_void():
    good = record()
    assert judge(replace(good, lost_processes=(1,))).void
    assert judge(replace(good, health=())).void


def test_where_the_kernel_does_not_tell_waiting_the_rest_still_counts():
    verdict = judge(record(wait=float("nan")))
    assert not verdict.void
    assert np.isnan(verdict.wait_share)


def test_bounds_are_the_contracts():
    assert judge(record(late_ns=300_000), InstrumentBounds(mean_lateness="0.2 ms")).void


def test_retries_and_coalesced_reads_are_cautions():
    good = record()
    flags = np.zeros(1000, dtype=bool)
    flags[::4] = True
    verdict = judge(
        replace(good, retries=np.ones(len(good), dtype=np.int64), event_ns=np.arange(1000), event_coalesced=flags)
    )
    assert not verdict.void
    assert len(verdict.cautions) == 2
