"""Requests of others at a measured server, on series and requests whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.attribute.attributing import WatchedServer, attribute_requests
from lynxbench.attribute.tile.other_clients import find_others, open_requests
from lynxbench.attribute.tile.served_series import ServedSeries, tile_series
from lynxbench.model.attribution import Bound
from lynxbench.model.requests import Requests
from lynxbench.model.samples import Telemetry

SECOND = 1_000_000_000
SPAN = (10 * SECOND, 20 * SECOND)


def closed_loop(slots: int, latency_s: float = 0.5, failed: int = 0) -> Requests:
    """So many requests open at any time from 0 s to 30 s, each of the same length."""
    begins = np.repeat(np.arange(0, 30 * SECOND, int(latency_s * SECOND)), slots)
    ok = np.ones(len(begins), dtype=bool)
    ok[:failed] = False
    none = np.zeros(0, dtype=np.int64)
    return Requests(
        start_ns=0,
        load_end_ns=30 * SECOND,
        scheduled_ns=begins,
        sent_ns=begins,
        first_token_ns=begins + SECOND // 10,
        last_ns=begins + int(latency_s * SECOND),
        ok=ok,
        output_tokens=np.full(len(begins), 16),
        input_tokens=np.full(len(begins), 64),
        cached_tokens=np.zeros(len(begins), dtype=np.int64),
        event_row=none,
        event_ns=none,
        gap_row=none,
        gap_s=np.zeros(0),
    )


def telemetry(running: float, waiting: float, looks: int = 20) -> Telemetry:
    at_ns = SPAN[0] + np.arange(looks, dtype=np.int64) * (SECOND // 2)
    return Telemetry(at_ns, {"vllm_running": np.full(looks, running), "vllm_waiting": np.full(looks, waiting)})


def series(running: float, waiting: float, looks: int = 20) -> ServedSeries:
    return tile_series(telemetry(running, waiting, looks), [SPAN])


def test_open_requests_are_those_of_the_counted_time() -> None:
    assert open_requests([closed_loop(4)], [SPAN]) == pytest.approx(4.0)
    assert open_requests([closed_loop(4)], [SPAN, (40 * SECOND, 50 * SECOND)]) == pytest.approx(2.0)
    assert math.isnan(open_requests([closed_loop(4, failed=30)], [SPAN])), "a server may go on with what was given up"
    assert math.isnan(open_requests([], []))


@pytest.mark.parametrize(
    ("running", "waiting", "ours", "looks", "told"),
    [
        (4.0, 0.0, 4.0, 20, False),
        (3.0, 9.0, 12.0, 20, False),  # a full batch of one's own
        (2.0, 0.0, 1.0, 20, False),  # one request more is none that is told from a look at the wrong moment
        (32.0, 40.0, 2.0, 20, True),
        (2.0, 2.0, 1.0, 20, True),
        (32.0, math.nan, 2.0, 20, True),
        (math.nan, math.nan, 2.0, 20, False),
        (32.0, 40.0, math.nan, 20, False),
        (32.0, 40.0, 2.0, 5, False),
    ],
)
def test_more_in_a_server_than_its_clients_have_open_are_others(
    running: float, waiting: float, ours: float, looks: int, told: bool
) -> None:
    assert bool(find_others(series(running, waiting, looks), ours)) is told


def test_the_words_say_how_many() -> None:
    assert find_others(series(32.0, 40.0), 2.0) == (
        "others asked the server meanwhile: it held 72.0 requests on average, this run's clients 2.0"
    )


def test_nobody_is_blamed_for_what_others_may_have_done() -> None:
    """The batch looks full and the server counts two seconds of queue a request; ours waited for half a second."""
    served, watched = [closed_loop(2)], WatchedServer(telemetry(32.0, 40.0), [SPAN])
    counted = {
        "vllm:request_queue_time_seconds_sum": 2400.0,
        "vllm:request_prefill_time_seconds_sum": 20.0,
        "vllm:request_decode_time_seconds_sum": 80.0,
        "vllm:e2e_request_latency_seconds_sum": 2500.0,
        "vllm:e2e_request_latency_seconds_count": 1200.0,
    }
    others = find_others(watched.tiled, open_requests(served, watched.spans))
    names = {"engine": "openai", "owner": lambda layer: f"the owner of {layer}", "watched": watched}
    alone = attribute_requests(served, counted, None, **names)
    told = attribute_requests(served, counted, None, **names, others=others)
    assert alone.bound is not Bound.UNDETERMINED, "without the doubt it is blamed"
    assert (told.bound, told.layer) == (Bound.UNDETERMINED, None)
    assert "others asked the server meanwhile" in told.sentence
    assert told.next_step == "measure again while nobody else asks the server"
