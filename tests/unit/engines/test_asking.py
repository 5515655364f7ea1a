"""The first requests of a run: a server that stumbles is asked again, one that refuses is quoted at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.engines.asking import TRIES, calibrate
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
def answering(*answers: tuple[int, bytes | Callable[[bytes], bytes]]) -> Iterator[tuple[str, list[str]]]:
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


@pytest.mark.parametrize("stumble", [(503, b"loading"), (0, b"")])
def test_a_server_that_stumbles_is_asked_again(stumble) -> None:
    with answering(stumble, GOOD) as (url, asked):
        assert calibrated(url).has_usage
    assert asked == ["/v1/chat/completions"] * 3  # one stumble, two questions


def test_a_server_that_only_stumbles_is_given_up() -> None:
    with answering((503, b"loading the model")) as (url, asked):
        with pytest.raises(CannotRun, match="answers 503: loading the model"):
            calibrated(url)
        assert len(asked) == TRIES


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
