"""A 200 response without a token is a failure of its own kind, through a real server and the real driver."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.load.driver import run_probe
from lynxbench.load.load_record import COLUMNS, LoadRecord, RequestEnd
from lynxbench.load.load_summary import account
from lynxbench.load.plan import ClosedLoop, LoadPlan, parse_target
from lynxbench.load.probe_stream import row_latency_s
from lynxbench.load.response_reading import PlainRotation
from lynxbench.model.contract import SloMetric

STREAM, JSON = "text/event-stream", "application/json"
ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
NOTHING = b'data: {"choices":[{"delta":{"content":""},"finish_reason":"stop"}]}\n\n'
NULL = b'data: {"choices":[{"delta":{"content":null,"tool_calls":[]}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
TOKEN = b'data: {"choices":[{"delta":{"content":" the"}}]}\n\n'
SPACE = b'data: {"choices":[{"delta":{"content":" "}}]}\n\n'
DONE = b"data: [DONE]\n\n"

EMPTY = {
    "an empty stream": (STREAM, b""),
    "the end marker alone": (STREAM, DONE),
    "a role delta alone": (STREAM, ROLE + DONE),
    "content of nothing": (STREAM, ROLE + NOTHING + DONE),
    "null content and no calls": (STREAM, NULL + DONE),
    "usage alone": (STREAM, USAGE + DONE),
    "comments alone": (STREAM, b": keep-alive\n\n: keep-alive\n\n"),
    "an empty body": (JSON, b""),
    "empty choices": (JSON, b'{"choices":[]}'),
    "an empty object": (JSON, b"{}"),
    "a message of nothing": (JSON, b'{"choices":[{"message":{"role":"assistant","content":""}}]}'),
    "a text of nothing": (JSON, b'{"choices":[{"text":"","finish_reason":"stop"}]}'),
    "no vectors": (JSON, b'{"data":[]}'),
}
SERVED = {
    "one token": (STREAM, ROLE + TOKEN + DONE),
    "a space": (STREAM, SPACE + DONE),
    "a whole message": (JSON, b'{"choices":[{"message":{"content":"yes"}}]}'),
    "a call of a tool": (JSON, b'{"choices":[{"message":{"tool_calls":[{"function":{"name":"f"}}]}}]}'),
}


@contextmanager
def answering(kind: str, body: bytes) -> Iterator[str]:
    """A server that gives every request the same answer."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def asked(kind: str, body: bytes, requests: int = 6) -> LoadRecord:
    with answering(kind, body) as url:
        service = Service(url=url, model="m")
        script = PlainRotation((build_request(service, build_body(service, "hello", 4)),))
        load = ClosedLoop(2, requests=requests)
        return run_probe(
            LoadPlan(target=parse_target(url), script=script, language=OpenAiLanguage(), load=load, duration_s=20)
        )


@pytest.mark.parametrize("name", EMPTY)
def test_an_answer_without_a_token_is_an_error_of_its_own_kind(name: str) -> None:
    record = asked(*EMPTY[name])
    assert (record.kind == RequestEnd.EMPTY_ANSWER).all(), record.counts()
    assert (record.http_status == 200).all()
    assert (record.first_token_ns == 0).all()
    assert not len(record.first_token_s())
    counted = account(record)
    assert counted.ok == 0
    assert counted.failed == {"empty_answer": 6}
    (said,) = counted.said
    assert said.startswith("empty answer: 200 without output")
    assert ("4 tokens by its usage" in said) == (name == "usage alone")


@pytest.mark.parametrize("name", SERVED)
def test_the_smallest_answer_is_an_answer(name: str) -> None:
    record = asked(*SERVED[name])
    assert account(record).failed == {}
    assert (record.first_token_s() > 0).all()


@pytest.mark.parametrize("metric", list(SloMetric))
def test_in_the_objective_an_empty_answer_took_for_ever(metric: SloMetric) -> None:
    rows = np.zeros((2, len(COLUMNS)), dtype=np.int64)
    place = {name: index for index, name in enumerate(COLUMNS)}
    rows[:, place["last_ns"]] = 10**9
    rows[0, [place["first_token_ns"], place["first_answer_ns"]]] = 10**8
    rows[1, place["kind"]] = RequestEnd.EMPTY_ANSWER
    latency = row_latency_s(rows, metric)
    assert np.isfinite(latency[0])
    assert np.isinf(latency[1])


def test_a_row_that_an_older_record_calls_good_has_no_first_token_after_0_s() -> None:
    rows = np.zeros((1, len(COLUMNS)), dtype=np.int64)
    assert np.isinf(row_latency_s(rows, SloMetric.TIME_TO_FIRST_TOKEN)).all()
