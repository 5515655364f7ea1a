"""Records become the values of a result, and the counts add up."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.load.load_record import COLUMNS, Health, RequestEnd, RowStore, assemble, merge, read_record, write_record
from lynxbench.load.load_summary import account, describe_cache, describe_instrument, describe_tokens
from lynxbench.model.serving import CacheState, InstrumentBounds


def record(kinds, *, late_ns=10_000, cached=2, notes=None):
    store = RowStore()
    for number, kind in enumerate(kinds):
        row = dict.fromkeys(COLUMNS, 0)
        row |= {"number": number, "scheduled_ns": 1 + number * 1_000_000, "kind": int(kind)}
        row["sent_ns"] = 0 if kind is RequestEnd.UNSENT else row["scheduled_ns"] + late_ns
        row |= {"output_tokens": 4, "input_tokens": 10, "cached_tokens": cached}
        store.add(tuple(row.values()))
    windows = np.full(10, 0.2), np.full(10, 0.0)
    health = Health(0, np.arange(50), np.full(50, 1000), np.arange(10), *windows)
    return assemble(store, start_ns=0, end_ns=9, stop_reason="done", health=(health,), notes=notes or {})


def test_offered_is_ok_and_every_kind_of_failure():
    kinds = [RequestEnd.OK] * 5 + [RequestEnd.RESET, RequestEnd.HTTP_ERROR, RequestEnd.HTTP_ERROR, RequestEnd.UNSENT]
    counted = account(record(kinds, notes={"500: no": 2}))
    assert counted.offered == 9
    assert counted.sent == 8
    assert counted.failed == {"http_error": 2, "reset": 1, "unsent": 1}
    assert counted.offered == counted.ok + sum(counted.failed.values())
    assert counted.said == {"500: no": 2}


def test_the_worst_run_decides_over_the_client():
    good, late = record([RequestEnd.OK] * 9), record([RequestEnd.OK] * 9, late_ns=5_000_000)
    assert describe_instrument([good], InstrumentBounds(), None, 1).verdict == "good"
    both = describe_instrument([good, late], InstrumentBounds(), None, 2)
    assert both.verdict == "void"
    assert both.mean_lateness_ms == pytest.approx(5.0)
    wide = InstrumentBounds.model_validate({"mean_lateness": "1 s", "p99_lateness": "1 s"})
    assert describe_instrument([good, late], wide, None, 2).verdict == "good"


def test_cache_and_tokens_are_recorded():
    one = record([RequestEnd.OK] * 4)
    cache = describe_cache(one, CacheState.ALLOWED, 4, {"vllm:prefix_cache_hits_total": 9.0, "other_total": 1.0})
    assert cache.cached_share == pytest.approx(0.2)
    assert cache.counters == {"vllm:prefix_cache_hits_total": 9.0}
    assert describe_cache(record([RequestEnd.OK], cached=-1), CacheState.AVOIDED, None, {}).cached_share is None
    tokens = describe_tokens(one, "usage", 4.0, 0.0)
    assert (tokens.input_mean, tokens.output_mean) == (10.0, 4.0)


def test_records_of_several_probes_are_kept_in_one_file(tmp_path):
    whole = merge([record([RequestEnd.OK] * 3), record([RequestEnd.RESET] * 2)])
    write_record(whole, tmp_path / "r.npz")
    again = read_record(tmp_path / "r.npz")
    assert len(again.health) == 2
    assert again.counts() == whole.counts()
