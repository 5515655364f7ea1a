"""Figures by model and by session, from rows whose truth is written down; cache hits explained in points."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.measure.asked_figures import NumberedRequests, figures_by_model, session_figures
from lynxbench.measure.cache_context import judge_cache
from lynxbench.model.asked_work import ModelShare
from lynxbench.model.load_figures import CacheRecord, ExpectedCache
from lynxbench.model.requests import Requests
from lynxbench.model.serving import CacheState

MS = 1_000_000
NONE = np.zeros(0, dtype=np.int64)


def numbered(rows: list[tuple[int, int, int, int, int]], counted=(0, 10_000)) -> NumberedRequests:
    """Rows of number, turn, due, first token and end in milliseconds; an end of 0 has failed."""
    table = np.array(rows, dtype=np.int64)
    ok = table[:, 4] > 0
    requests = Requests(
        start_ns=0,
        load_end_ns=int(table[:, 2].max()) * MS,
        scheduled_ns=table[:, 2] * MS,
        sent_ns=table[:, 2] * MS,
        first_token_ns=table[:, 3] * MS,
        last_ns=table[:, 4] * MS,
        ok=ok,
        output_tokens=np.where(ok, 10, -1),
        input_tokens=np.full(len(ok), 5),
        cached_tokens=np.zeros(len(ok), dtype=np.int64),
        event_row=NONE,
        event_ns=NONE,
        gap_row=NONE,
        gap_s=np.zeros(0),
    )
    return NumberedRequests(requests, table[:, 0], table[:, 1], (counted[0] * MS, counted[1] * MS))


def test_models_stand_beside_each_other():
    models = tuple(ModelShare.model_validate({"name": name, "share": "50 %"}) for name in "ab")
    rows = [(n, 0, 100 * n + 1, 100 * n + 11 + 30 * (n % 2), 100 * n + 51) for n in range(10)]
    rows.append((10, 0, 1001, 0, 0))
    a, b = figures_by_model([numbered(rows)], models, (0, 1))
    assert (a.offered, a.ok, b.offered, b.ok) == (6, 5, 5, 5)
    assert (a.first_token_ms[0], b.first_token_ms[0]) == (10, 40)
    assert a.latency_ms == (50, 50)
    assert a.output_tokens_per_s == b.output_tokens_per_s == 5
    assert figures_by_model([numbered(rows)], (), ()) == ()


def test_a_session_takes_from_its_first_call_to_its_last_and_waits_where_a_call_is_open():
    rows = [
        *((0, 0, 100, 110, 150), (0, 1, 200, 210, 260), (0, 2, 210, 220, 300)),  # whole: 200 ms, open for 50 + 100
        *((1, 0, 400, 410, 450), (1, 1, 500, 0, 0)),  # one failed
        *((2, 0, 600, 610, 650), (2, 1, 700, 710, 720)),  # cut short by the end of the load
        (3, 0, 20_000, 20_001, 20_002),  # not counted
    ]
    figures = session_figures([numbered(rows)], (3,))
    assert (figures.offered, figures.whole, figures.calls) == (3, 1, 7)
    assert figures.duration_ms == (200, 200)
    assert figures.waiting_ms == (150, 150)
    assert session_figures([numbered(rows)], ()) is None


@pytest.mark.parametrize(
    ("counted", "in_flight", "says"),
    [
        (0.395, 0.0, None),
        (0.30, 0.0, "-10.0 points): a cache of less than 5,000 tokens evicts"),
        (0.30, 0.08, "8.0 points were being computed"),
        (0.55, 0.0, "+15.0 points): the server had seen these beginnings before"),
        (None, 0.0, "the server does not say"),
    ],
)
def test_a_difference_of_more_than_two_points_is_explained(counted, in_flight, says):
    expected = ExpectedCache(share=0.4, in_flight_share=in_flight, input_tokens=9000, distinct_tokens=5000, block=512)
    cache = CacheRecord(
        regime=CacheState.TRACED,
        distinct_prompts=9,
        cached_share=counted,
        counters={},
        counted_share=counted,
        expected=expected,
    )
    doubts = judge_cache(cache)
    assert len(doubts) == (says is not None)
    assert says is None or says in doubts[0]


def test_a_cache_that_was_not_emptied_is_a_doubt():
    plain = CacheRecord(regime=CacheState.AVOIDED, distinct_prompts=None, cached_share=0.0, counters={})
    assert judge_cache(plain) == []
    assert "not emptied: why" in judge_cache(plain.model_copy(update={"reset": "not emptied: why"}))[0]
