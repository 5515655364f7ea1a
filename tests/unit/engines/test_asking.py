"""The first requests of a run: a server that stumbles is asked again, one that refuses is quoted at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.engines import asking
from lynxbench.engines.asking import LONGEST_WAIT_S, TRIES, calibrate, retry_after_s
from lynxbench.engines.served import ask_first, build_exchange, service_of
from lynxbench.errors import CannotRun
from lynxbench.model.serving import Timeouts
from served import served_contract

WHOLE = {"choices": [{"message": {"content": "yes"}}], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
KSERVE = """\
lynxbench: 1
name: tensors
question: Does it answer?
regime: latency
workload:
  task: classify
  model: {{source: served, name: double}}
  precisions: [fp32]
  arrival: {{process: closed, concurrency: 1}}
engine:
  name: kserve
  url: {url}
  inputs: [{{name: values, datatype: FP32, shape: [1, 4]}}]
objective:
  slo: [{{metric: latency, percentile: 90, at_most: 1 s}}]
"""


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server of one handler, on a thread of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def answering(
    *answers: tuple[int, bytes | Callable[[bytes], bytes]], headers: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """A server that gives these answers in turn, the last one for ever; status 0 closes without a word."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            status, given = answers[min(len(asked), len(answers) - 1)]
            body = given if isinstance(given, bytes) else given(sent)
            asked.append(self.path)
            if status == 0:
                self.connection.close()
                return
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Location", "https://models.example/v1/chat/completions")
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with served(Handler) as url:
        yield url, asked


def calibrated(url: str, engine: str = "", timeouts: Timeouts | None = None):
    contract = parse_contract(served_contract(f"{url}/v1", engine=engine))
    asked = contract.engine.model_copy(update={} if timeouts is None else {"timeouts": timeouts})
    return calibrate(asked, service_of(contract, contract.engine, contract.workload.model))


GOOD = (200, json.dumps(WHOLE).encode())


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited, without waiting."""
    waited: list[float] = []
    monkeypatch.setattr(asking, "sleep", waited.append)
    return waited


@pytest.mark.parametrize("stumble", [(500, b"oh"), (503, b"loading"), (0, b"")])
def test_a_server_that_stumbles_is_asked_again(stumble, waits) -> None:
    with answering(stumble, GOOD) as (url, asked):
        assert calibrated(url).has_usage
    assert asked == ["/v1/chat/completions"] * 3  # one stumble, two questions


def test_a_server_that_only_stumbles_is_given_up(waits) -> None:
    with answering((503, b"loading the model")) as (url, asked):
        with pytest.raises(CannotRun, match=r"answers 503: loading the model \(asked 3 times, with waits of 3 s\)"):
            calibrated(url)
        assert len(asked) == TRIES
    with answering((500, b"broken")) as (url, asked), pytest.raises(CannotRun, match=r"answers 500: broken$"):
        calibrated(url)
    assert waits == [1.0, 2.0], "only for one that asks for time"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("headers", "waited"),
    [({"Retry-After": "7"}, [7.0]), ({"retry-after": "0"}, [0.0]), ({}, [1.0]), ({"Retry-After": "soon"}, [1.0])],
)
def test_a_busy_server_is_asked_again_after_the_time_that_it_names(status, headers, waited, waits) -> None:
    """Found: a limit on requests a minute ended the run at its first question."""
    said: list[str] = []
    with answering((status, b"slow down"), GOOD, headers=headers) as (url, asked):
        contract = parse_contract(served_contract(f"{url}/v1"))
        known = ask_first(contract, said.append)
    assert known is not None
    assert known.has_usage
    assert (len(asked), waits) == (3, waited)
    named = "as it asks" if headers.get("Retry-After", headers.get("retry-after", "x")).isdigit() else "names no time"
    assert [f"answers {status}; asked again in {waited[0]:g} s" in line and named in line for line in said] == [True]


def test_a_server_that_stays_busy_is_asked_a_bounded_number_of_times(waits) -> None:
    told = r"answers 429: slow down \(asked 3 times, with waits of 8 s\)"
    busy = answering((429, b"slow down"), headers={"Retry-After": "4"})
    with busy as (url, asked), pytest.raises(CannotRun, match=told):
        calibrated(url)
    assert (len(asked), waits) == (TRIES, [4.0, 4.0])


@pytest.mark.parametrize(("wait", "waited"), [("3600", []), ("40", [40.0]), ("1e9", [])])
def test_waits_beyond_the_bound_are_left_to_whoever_started_the_run(wait, waited, waits) -> None:
    told = r"it asks to wait \d+ s, a greeting waits 60 s: run it again then"
    busy = answering((429, b"slow down"), headers={"Retry-After": wait})
    with busy as (url, asked), pytest.raises(CannotRun, match=told):
        calibrated(url)
    assert waits == waited
    assert len(asked) == len(waited) + 1
    assert sum(waited) <= LONGEST_WAIT_S


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        *(("12", 12.0), ("0.5", 0.5), (" 3 ", 3.0), ("", None), ("-1", None), ("nan", None), ("inf", None)),
        *(("soon", None), ("9" * 400, None), ("Wed, 99 Foo 2026", None)),
        (format_datetime(datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC), usegmt=True), 30.0),
        (format_datetime(datetime(2025, 1, 1, tzinfo=UTC), usegmt=True), 0.0),
        ("Thu, 01 Jan 2026 00:00:09 -0000", 9.0),
    ],
)
def test_how_long_a_server_asks_to_wait(said: str, seconds: float | None) -> None:
    headers = Message()
    headers["Retry-After"] = said
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after_s(asking.HttpAnswer(429, headers, b""), now) == seconds
    assert retry_after_s(asking.HttpAnswer(429, Message(), b""), now + timedelta(days=1)) is None


def test_a_refusal_is_quoted_at_once() -> None:
    with answering((401, b'{"error": "no key"}')) as (url, asked):
        with pytest.raises(CannotRun, match=rf"{url}/v1/chat/completions: the server answers 401: .*no key"):
            calibrated(url)
        assert len(asked) == 1


def test_a_redirect_says_where_it_leads() -> None:
    with answering((308, b"")) as (url, asked):
        with pytest.raises(
            CannotRun, match=r"answers 308: it leads to https://models\.example/v1/chat/completions; name"
        ):
            calibrated(url)
        assert len(asked) == 1


def test_an_answer_nested_without_end_is_told_in_one_line() -> None:
    deep = b'{"error": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with answering((200, deep)) as (url, _), pytest.raises(CannotRun, match=r"the answer cannot be read: .*recursion"):
        calibrated(url)


def test_a_server_that_answers_in_drops_is_given_up() -> None:
    def drops(asked: bytes) -> bytes:
        time.sleep(1)
        return GOOD[1]

    short = Timeouts(first_byte="300 ms", total="400 ms")
    with answering((200, drops)) as (url, _), pytest.raises(CannotRun, match=r"no answer within 0\.3 s"):
        calibrated(url, timeouts=short)
    with dripping() as url, pytest.raises(CannotRun, match=r"no whole answer within 0\.4 s"):
        calibrated(url, timeouts=short)


@contextmanager
def dripping() -> Iterator[str]:
    """A server that keeps its stream alive with comments, and says nothing else."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            with suppress(OSError):
                while not over.wait(0.05):
                    self.wfile.write(b": ping\n\n")

        def log_message(self, *arguments: object) -> None:
            pass

    with served(Handler) as url:
        try:
            yield url
        finally:
            over.set()


TEMPLATE, LETTERS = 20, 10


def counting(sent: bytes) -> bytes:
    """A token a word, ten for the letters that make a prompt unique, twenty for the template around it."""
    words = json.loads(sent)["messages"][0]["content"].split()
    tokens = TEMPLATE + sum(LETTERS if len(word) == LETTERS and "qz" in word else 1 for word in words)
    return json.dumps({**WHOLE, "usage": {"prompt_tokens": tokens, "completion_tokens": 1}}).encode()


@pytest.mark.parametrize(
    ("engine", "overhead"),
    [
        ("", TEMPLATE + LETTERS),
        ("dialect: llamacpp\ncache: bypassed", TEMPLATE),
        ("dialect: vllm\ncache: bypassed", TEMPLATE),
        ("cache: allowed", TEMPLATE),
    ],
)
def test_letters_that_make_a_prompt_unique_are_counted_where_prompts_have_them(engine: str, overhead: int) -> None:
    """Prompts that begin without them were shorter than agreed by as much, and the result doubtful for it."""
    with answering((200, counting)) as (url, _):
        known = calibrated(url, engine)
    assert (known.tokens_a_word, known.overhead) == (1.0, overhead)


def test_an_answer_that_is_no_answer_is_said() -> None:
    with answering((200, b"<html>")) as (url, _), pytest.raises(CannotRun, match="cannot be read"):
        calibrated(url)


def test_what_was_learned_first_is_not_asked_again() -> None:
    with answering(GOOD) as (url, asked):
        contract = parse_contract(served_contract(f"{url}/v1"))
        known = ask_first(contract)
        assert known is not None
        assert len(asked) == 2
        build_exchange(contract, run=0, calibration=known)
        assert len(asked) == 2
        build_exchange(contract, run=0)
        assert len(asked) == 4


def test_a_tensor_server_is_asked_one_inference() -> None:
    with answering((200, b"{}")) as (url, asked):
        assert ask_first(parse_contract(KSERVE.format(url=url))) is None
    assert asked == ["/v2/models/double/infer"]
    with answering((404, b"no such model")) as (url, _), pytest.raises(CannotRun, match="404: no such model"):
        ask_first(parse_contract(KSERVE.format(url=url)))
