"""The bundled server does what it says it does, by a client that shares no code with ours."""

import http.client
import json
import time
from contextlib import closing

import numpy as np
import pytest

from lynxbench.errors import BadInput
from lynxbench.load.ground_truth import Behaviour, GroundTruthServer, ServedOutcome
from lynxbench.load.truth_process import running_server


def ask(url, stream=True, tokens=4, path="/v1/chat/completions"):
    body = {"stream": stream, "max_tokens": tokens, "messages": [], "stream_options": {"include_usage": True}}
    with closing(http.client.HTTPConnection(url.split("/")[2], timeout=600)) as connection:
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        try:
            return answer.status, answer.read().decode()
        except http.client.IncompleteRead:
            return answer.status, None


def test_the_schedule_is_kept():
    with running_server(Behaviour(ttft_ms=50, itl_ms=10)) as server:
        began = time.perf_counter()
        _, text = ask(server.url, tokens=6)
        took = time.perf_counter() - began
        for _ in range(9):
            ask(server.url, tokens=6)
        truth = server.stop()
    events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["usage"]["completion_tokens"] == 6
    assert len(events) == 8
    assert took >= 0.1
    first_s, last_s = ((at_ns - truth.arrival_ns) / 1e9 for at_ns in (truth.first_ns, truth.last_ns))
    assert (first_s >= 0.05).all()
    assert (last_s >= 0.1).all()
    # Never early; how late, the least disturbed of ten shows.
    assert first_s.min() < 0.2
    assert last_s.min() == pytest.approx(0.1, abs=0.03)
    assert (truth.events == 6).all()


def test_it_ends_without_a_word(capfd):
    """What it writes lands on the terminal of whoever measures: it is tried before every run against a server."""
    with running_server(Behaviour()) as server:
        ask(server.url)
        server.stop()
    assert capfd.readouterr().err == ""


def test_faults_come_in_their_exact_shares():
    with running_server(Behaviour(drop=0.1, http500=0.2)) as server:
        seen = {"ok": 0, "drop": 0, "http500": 0}
        for _ in range(100):
            status, text = ask(server.url)
            seen["http500" if status == 500 else "drop" if text is None else "ok"] += 1
        truth = server.stop()
    assert seen == {"ok": 70, "drop": 10, "http500": 20}
    assert (truth.count(ServedOutcome.OK), truth.count(ServedOutcome.DROP), truth.count(ServedOutcome.HTTP500)) == (
        70,
        10,
        20,
    )


def test_small_endpoints_and_bad_requests():
    with (
        running_server(Behaviour()) as server,
        closing(http.client.HTTPConnection(server.url.split("/")[2], timeout=600)) as connection,
    ):
        for path, status in (("/health", 200), ("/v1/models", 200), ("/metrics", 200), ("/nowhere", 404)):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
        connection.request("POST", "/v1/completions", "{nonsense")
        answer = connection.getresponse()
        assert answer.status == 400
        assert "error" in json.loads(answer.read())


@pytest.mark.parametrize("wrong", [{"drop": 1.5}, {"drop": 0.6, "stall": 0.6}, {"ttft_ms": -1}, {"tokens": 0}])
def test_behaviour_is_checked(wrong):
    with pytest.raises(BadInput):
        Behaviour(**wrong)


def test_slots_make_requests_wait_in_order_of_arrival():
    state = GroundTruthServer(Behaviour(ttft_ms=10, slots=2))
    for at in (0, 1, 2, 3):
        number, _ = state.admit()
        state.arrival[number] = at * 1_000_000
    starts = [state.occupy(number, 10_000_000)[0] / 1e6 for number in range(4)]
    assert starts == [0, 1, 10, 11]


def test_exponential_service_times_have_the_mean_they_should():
    state = GroundTruthServer(Behaviour(ttft_ms=10, service="exponential"))
    state.arrival.append(0)
    scales = [state.occupy(0, 10_000_000)[1] for _ in range(4000)]
    assert np.mean(scales) == pytest.approx(1, abs=0.06)
    assert np.std(scales) == pytest.approx(1, abs=0.1)


def test_a_repeated_body_comes_from_the_cache():
    with running_server(Behaviour(prefix_cache=True)) as server:
        usages = [json.loads(ask(server.url, stream=False)[1])["usage"] for _ in range(2)]
    assert [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages] == [0, 8]
