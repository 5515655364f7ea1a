"""Servers whose counts and events do not say what they seem to: what cannot be known is doubted or left out."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from command_line import lynxbench_here
from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.plan import ClosedLoop, LoadPlan, parse_target
from lynxbench.load.processes import RunningProbe
from lynxbench.load.response_reading import PlainRotation
from lynxbench.load.truth_process import running_server
from served import expect_client_kept_up, served_contract

pytestmark = pytest.mark.usefixtures("one_preflight", "forked_clients")


def run_json(folder: Path, text: str) -> dict:
    folder.mkdir(exist_ok=True)
    (folder / "served.yaml").write_text(text, encoding="utf-8")
    done = lynxbench_here("run", "served.yaml", "--json", cwd=folder)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_more_tokens_than_were_asked_for_are_a_doubt(tmp_path: Path) -> None:
    """Whoever counts fifty tokens where four were ordered has fifty tokens' throughput."""
    with running_server(Behaviour(ttft_ms=2, itl_ms=0, tokens=50)) as server:
        result = run_json(tmp_path, served_contract(server.url, restarts=1, arrival="{process: constant, rate: 40 /s}"))
    assert result["per_precision"][0]["load"]["tokens"]["longer_share"] == 1.0
    reasons = result["validity"]["reasons"]
    assert any("100.0% of the answers have more output tokens than were asked for (50.0 on" in why for why in reasons)


def test_tokens_that_come_at_once_show_no_time_per_token(tmp_path: Path) -> None:
    """They took 0 ms each, which met every bound."""
    slo = "{metric: time-per-token, percentile: 90, at_most: 1 ms}"
    with running_server(Behaviour(ttft_ms=20, tokens_per_event=8)) as server:
        arrival = "{process: constant, rate: 40 /s}"
        result = run_json(tmp_path, served_contract(server.url, restarts=1, tokens=8, arrival=arrival, slo=slo))
    figures = result["per_precision"][0]
    assert "time-per-token" not in figures["latency_ms"]
    assert figures["load"]["tokens"]["unpaced_share"] == 1.0
    assert [bound["verdict"] for bound in figures["slo"]] == ["unresolved"]
    assert any("100.0% of the answers show no time per token" in why for why in result["validity"]["reasons"])
    folder = next((tmp_path / "results").iterdir())
    done = lynxbench_here("verify", str(folder), "--json", cwd=tmp_path)
    assert done.code == 0, done.out


def test_canned_answers_are_a_doubt_and_no_text_is_kept(tmp_path: Path) -> None:
    """A stub that says the same to everybody was a good server."""
    arrival = "{process: constant, rate: 40 /s}"
    with running_server(Behaviour(ttft_ms=20, itl_ms=0.2)) as server:
        result = run_json(tmp_path, served_contract(server.url, restarts=1, tokens=24, arrival=arrival))
        dummy = "launch: [vllm, serve, ground-truth, --load-format, dummy]"
        told = run_json(
            tmp_path / "dummy", served_contract(server.url, restarts=1, tokens=24, arrival=arrival, engine=dummy)
        )
    for one, doubted in ((result, True), (told, False)):
        alike = one["per_precision"][0]["load"]["tokens"]["alike"]
        assert alike["alike"] == alike["compared"] >= 10
        assert any("the answers do not depend on the prompts" in why for why in one["validity"]["reasons"]) == doubted
    folder = next((tmp_path / "results").iterdir())
    done = lynxbench_here("verify", str(folder), "--json", cwd=tmp_path)
    assert done.code == 0, done.out
    for file in folder.rglob("record.npz"):
        with np.load(file) as arrays:
            assert "said" not in arrays
            assert json.loads(arrays["about"].tobytes())["texts"] == []


def test_tokens_of_the_first_event_are_in_no_time_per_token(tmp_path: Path) -> None:
    """Five of ten tokens at 20 ms, five more 10 ms later: 2 ms each, and not 1.1."""
    with running_server(Behaviour(ttft_ms=20, itl_ms=10, tokens_per_event=5)) as server:
        arrival = "{process: constant, rate: 40 /s}"
        result = run_json(tmp_path, served_contract(server.url, restarts=1, tokens=10, arrival=arrival))
    figures = result["per_precision"][0]
    expect_client_kept_up(result)
    assert figures["load"]["tokens"]["first_share"] == pytest.approx(0.5)
    middle = next(p for p in figures["latency_ms"]["time-per-token"] if p["percentile"] == 50.0)
    between = next(p for p in figures["latency_ms"]["time-between-events"] if p["percentile"] == 50.0)
    assert middle["estimate"] == pytest.approx(between["estimate"] / 5, rel=0.05)


def test_requests_of_others_are_a_doubt_and_nobody_is_blamed_for_them(tmp_path: Path) -> None:
    """Nine requests of somebody else keep three slots full; this run has one at a time."""
    with running_server(Behaviour(ttft_ms=20, itl_ms=10, slots=3, shows_queue=True)) as server:
        service = Service(url=server.url, model="ground-truth")
        theirs = LoadPlan(
            target=parse_target(server.url),
            script=PlainRotation((build_request(service, build_body(service, "hello", 8)),)),
            language=OpenAiLanguage(),
            load=ClosedLoop(9),
            duration_s=300.0,
            processes=1,
        )
        text = served_contract(
            server.url,
            arrival="{process: closed, concurrency: 1}",
            restarts=1,
            shortest="5 s",
            longest="5 s",
            idle="3 s",
        )
        other = RunningProbe(theirs)
        try:
            result = run_json(tmp_path, text)
        finally:
            other.close()
    assert any("others asked the server meanwhile: it held" in why for why in result["validity"]["reasons"])
    assert (result["attribution"]["bound"], result["attribution"]["layer"]) == ("undetermined", None)
    folder = next((tmp_path / "results").iterdir())
    assert lynxbench_here("verify", str(folder), cwd=tmp_path).code == 0


def test_answers_that_end_early_in_a_later_run_are_told(tmp_path: Path) -> None:
    """The first client got what it asked for; the second was cut short from its first request on."""
    asked: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer({"data": []})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(len(asked))
            usage = {"prompt_tokens": 10, "completion_tokens": 4 if len(asked) <= 2 + 30 else 1}
            self._answer({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "usage": usage})

        def _answer(self, document: object) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        text = served_contract(
            f"http://127.0.0.1:{server.server_port}/v1",
            arrival="{process: constant, rate: 20 /s}",
            shortest="1490 ms",
            longest="1490 ms",
            engine="stream: false",
        )
        result = run_json(tmp_path, text)
        server.shutdown()
        thread.join()
    tokens = result["per_precision"][0]["load"]["tokens"]
    assert tokens["shorter_share"] == 0.5
    assert any("50.0% of the answers ended before the asked" in why for why in result["validity"]["reasons"])
