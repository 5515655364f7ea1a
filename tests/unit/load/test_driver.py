"""The driver against the bundled server: every request is accounted for, and every run ends."""

import json
import os
import signal
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

from lynxbench.engines.openai import ChatScript, Endpoint, OpenAiLanguage, Service, build_body, build_request
from lynxbench.errors import CannotRun
from lynxbench.load import send_schedule as schedule
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.load_record import RequestEnd
from lynxbench.load.plan import ClosedLoop, LoadPlan, OpenLoop, Target, TicketTimeouts, parse_target
from lynxbench.load.response_reading import PlainRotation
from lynxbench.load.truth_process import running_server


def requests(url, tokens=4, **changes):
    service = Service(url=url, model="ground-truth", **changes)
    return PlainRotation((build_request(service, build_body(service, "hello", tokens)),))


def plan(url, load, duration_s=1.0, tokens=4, **changes):
    values = {"target": parse_target(url), "script": requests(url, tokens), "language": OpenAiLanguage(), "load": load}
    return LoadPlan(**(values | {"duration_s": duration_s} | changes))


def conserved(record):
    assert sum(record.counts().values()) == len(record)
    assert (record.sent_ns[record.kind == RequestEnd.OK] > 0).all()
    assert len(record.event_ns) == record.events.sum() == record.event_offsets[-1]
    return {name: count for name, count in record.counts().items() if count}


def test_a_closed_loop_keeps_its_concurrency_and_its_quota():
    with running_server(Behaviour(ttft_ms=5, itl_ms=1)) as server:
        record = run_probe(plan(server.url, ClosedLoop(8, requests=100), 20))
        truth = server.stop()
    assert conserved(record) == {"ok": 100}
    assert truth.count(ServedOutcome.OK) == 100
    assert truth.connections == 8
    assert sorted(record.number) == list(range(100))
    assert (record.output_tokens == 4).all()
    assert (record.input_tokens == 10).all()
    assert record.stop_reason == "done"
    edges = np.concatenate([record.sent_ns, record.last_ns])
    steps = np.concatenate([np.ones(100), -np.ones(100)])[np.argsort(edges, kind="stable")]
    assert np.cumsum(steps).max() <= 8


def test_open_loop_sends_the_schedule_whatever_the_server_does():
    offsets = schedule.poisson(100, 1.0, seed=2)
    with running_server(Behaviour(ttft_ms=300)) as server:
        record = run_probe(plan(server.url, OpenLoop(offsets)))
        truth = server.stop()
    assert conserved(record) == {"ok": len(offsets)}
    assert np.array_equal(record.scheduled_ns - record.start_ns, offsets)
    assert np.array_equal(record.number, np.arange(len(offsets)))
    assert (record.sent_ns >= record.scheduled_ns).all()
    assert truth.count(ServedOutcome.OK) == len(offsets)
    assert np.median(record.first_token_s()) >= 0.3
    assert record.connect_ns.max() > 0


def test_faults_are_counted_exactly_and_the_run_ends():
    with running_server(Behaviour(ttft_ms=2, itl_ms=1, drop=0.05, http500=0.05, stall=0.01)) as server:
        timeouts = TicketTimeouts(idle_s=1.5)
        record = run_probe(plan(server.url, ClosedLoop(16, requests=400), 60, timeouts=timeouts))
        truth = server.stop()
    assert conserved(record) == {"ok": 356, "http_error": 20, "reset": 20, "timeout_idle": 4}
    assert truth.count(ServedOutcome.DROP) == truth.count(ServedOutcome.HTTP500) == 20
    assert truth.count(ServedOutcome.STALL) == 4
    assert record.stop_reason == "done", "the quota ended it, not the clock"
    assert record.notes == {'500: {"error":{"message":"a fault on demand"}}': 20}


def test_an_empty_role_delta_is_not_the_first_token():
    with running_server(Behaviour(ttft_ms=60, itl_ms=1, role_at_start=True)) as server:
        record = run_probe(plan(server.url, ClosedLoop(1, requests=5), 10))
    assert conserved(record) == {"ok": 5}
    assert record.server_first_token_s().min() >= 0.06
    assert ((record.first_byte_ns - record.sent_ns) / 1e9).min() < 0.06
    assert (record.events == 4).all()


def test_split_writes_and_several_tokens_an_event():
    with running_server(
        Behaviour(ttft_ms=2, itl_ms=2, split_writes=True, tokens_per_event=3, end_marker=False)
    ) as server:
        record = run_probe(plan(server.url, ClosedLoop(4, requests=20), 10, tokens=8))
    assert conserved(record) == {"ok": 20}
    assert (record.events == 3).all()
    assert (record.output_tokens == 8).all(), "tokens are the usage's, not the events'"


def test_a_kept_alive_connection_that_closed_is_tried_again_and_counted():
    with running_server(Behaviour(close_after=1)) as server:
        record = run_probe(plan(server.url, ClosedLoop(2, requests=20), 10))
    assert conserved(record) == {"ok": 20}
    assert 9 <= record.retries.sum() <= 19
    assert (record.retries <= 1).all()
    assert record.lateness_ns().min() >= 0


def test_without_usage_tokens_are_unknown():
    with running_server(Behaviour(usage=False)) as server:
        record = run_probe(plan(server.url, ClosedLoop(1, requests=3), 10, keep_text=True))
    assert (record.output_tokens == -1).all()
    assert record.texts == (" the the the the",) * 3


@pytest.mark.parametrize(
    ("endpoint", "stream"),
    [(Endpoint.CHAT, False), (Endpoint.COMPLETIONS, True), (Endpoint.COMPLETIONS, False), (Endpoint.EMBEDDINGS, False)],
)
def test_other_endpoints(endpoint, stream):
    with running_server(Behaviour(ttft_ms=3)) as server:
        script = requests(server.url, endpoint=endpoint, stream=stream)
        record = run_probe(plan(server.url, ClosedLoop(2, requests=6), 10, script=script))
    assert conserved(record) == {"ok": 6}
    assert (record.input_tokens == 10).all()
    assert (record.first_token_ns > record.sent_ns).all()


def test_conversations_take_turns():
    with running_server(Behaviour(ttft_ms=2)) as server:
        service = Service(url=server.url, model="m")
        script = ChatScript(service, [["a", "b", "c"], ["d"]], 2)
        for load in (ClosedLoop(2, requests=6), OpenLoop(schedule.constant(20, 0.3))):
            record = run_probe(plan(server.url, load, 5, script=script, think_s=0.01))
            assert conserved(record) == {"ok": 12}
            assert sorted(zip(record.number.tolist(), record.turn.tolist(), strict=True)) == [
                (n, t) for n in range(6) for t in range(3 if n % 2 == 0 else 1)
            ]
            for number in (0, 2, 4):
                rows = np.flatnonzero(record.number == number)
                rows = rows[np.argsort(record.turn[rows])]
                assert (record.scheduled_ns[rows[1:]] - record.last_ns[rows[:-1]] >= 10_000_000).all()
            assert record.texts[0] == " the the"


def test_nobody_listens():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    record = run_probe(plan(url, OpenLoop(schedule.constant(50, 0.4)), 0.4))
    assert conserved(record) == {"connect_error": 20}
    assert record.sent == 0
    record = run_probe(plan(url, ClosedLoop(3), 0.5))
    counts = conserved(record)
    assert set(counts) == {"connect_error"}
    assert 3 <= counts["connect_error"] <= 30, "a server that is down is not hammered"


def test_a_name_that_does_not_exist_cannot_run():
    with pytest.raises(CannotRun, match=r"no-such-host\.invalid"):
        run_probe(plan("http://no-such-host.invalid:80/v1", ClosedLoop(1), 0.2))


def test_a_silent_server_times_out_by_phase_and_the_drain_bound_holds():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        record = run_probe(
            plan(url, OpenLoop(schedule.constant(20, 0.2)), 0.2, timeouts=TicketTimeouts(first_byte_s=0.3))
        )
        assert conserved(record) == {"timeout_first_byte": 4}
        record = run_probe(plan(url, OpenLoop(schedule.constant(20, 0.2)), 0.2, drain_s=0.3))
        assert conserved(record) == {"cut_off": 4}
        assert record.stop_reason == "drain bound passed"


@pytest.mark.parametrize("drain_s", [0.0, 2.0])
def test_connections_that_never_open_time_out_once_even_at_the_end(drain_s):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        time.sleep(0.1)
        offsets = schedule.constant(10, 3.0)  # long beside what a busy machine leaves out
        timeouts = TicketTimeouts(connect_s=0.2)
        record = run_probe(
            plan(f"http://127.0.0.1:{address[1]}/v1", OpenLoop(offsets), 3.0, drain_s=drain_s, timeouts=timeouts)
        )
        for filler in fillers:
            filler.close()
    counts = conserved(record)
    assert len(record) == len(offsets)
    assert counts.pop("timeout_connect") >= 5
    assert set(counts) <= {"unsent"}
    assert record.sent == 0


def test_a_client_that_is_behind_still_reads():
    offsets = np.zeros(3000, dtype=np.int64)
    with running_server(Behaviour()) as server:
        record = run_probe(plan(server.url, OpenLoop(offsets), 1.0))
    assert conserved(record) == {"ok": 3000}
    assert np.median(record.lateness_ns()[:64]) < np.median(record.lateness_ns()[-64:])


def test_too_few_connections_leave_requests_waiting_then_unsent():
    with running_server(Behaviour(ttft_ms=400)) as server:
        load = OpenLoop(schedule.constant(20, 0.5))
        record = run_probe(plan(server.url, load, 0.5, max_connections=2, drain_s=0.45))
    counts = conserved(record)
    assert counts["ok"] >= 2
    assert counts["unsent"] >= 4
    assert record.lateness_ns().max() > 200_000_000


def test_garbage_is_malformed():
    def answer(listening):
        for _ in range(3):
            peer, _ = listening.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(b"this is not HTTP at all\r\n\r\n")

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        # Opened by the requests themselves: a closed loop's own connections would wait in this server's queue.
        record = run_probe(plan(url, OpenLoop(schedule.constant(10, 0.3)), 0.3, drain_s=5))
        thread.join(10)
    assert conserved(record) == {"malformed": 3}


def test_tls(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {cert} -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost,IP:127.0.0.1",
        shell=True,
        check=True,
        capture_output=True,
    )
    with running_server(Behaviour(ttft_ms=2, cert_file=str(cert), key_file=str(key))) as server:
        target = parse_target(server.url, ca_file=str(cert))
        assert target.tls
        record = run_probe(plan(server.url, ClosedLoop(2, requests=6), 10, target=target))
        assert conserved(record) == {"ok": 6}
        record = run_probe(plan(server.url, OpenLoop(schedule.constant(10, 0.2)), 0.2))
        assert conserved(record) == {"connect_error": 2}
        assert any("certificate" in note.lower() for note in record.notes)
        loose = Target(target.host, target.port, tls=True, verify=False)
        assert conserved(run_probe(plan(server.url, ClosedLoop(1, requests=2), 10, target=loose))) == {"ok": 2}


def test_an_interrupt_keeps_the_record():
    with running_server(Behaviour(ttft_ms=20)) as server:
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))

        def connected() -> int:
            timer.start()
            return time.perf_counter_ns()

        record = run_probe(plan(server.url, ClosedLoop(2), 30), ready=connected)
        timer.join()
    counts = conserved(record)
    assert record.stop_reason == "interrupted"
    assert counts["ok"] > 5
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_health_is_recorded_through_the_run():
    with running_server(Behaviour(ttft_ms=5)) as server:
        record = run_probe(plan(server.url, ClosedLoop(2), 1.0))
    health = record.health[0]
    # A hundred times a second, and four; late where the machine is busy, never more often.
    assert 1 <= len(health.lag_ns) <= 130
    assert (health.lag_ns >= 0).all()
    assert 1 <= len(health.cpu_share) <= 6
    assert (health.cpu_share > 0).all()
    assert (health.cpu_share < 1.2).all()


def test_the_key_is_in_the_request_and_nowhere_in_the_record(monkeypatch):
    monkeypatch.setenv("SOME_KEY", "s3cret-value")
    with running_server(Behaviour()) as server:
        script = requests(server.url, api_key_env="SOME_KEY")
        assert b"s3cret-value" in script.first(0)
        record = run_probe(plan(server.url, ClosedLoop(1, requests=2), 10, script=script))
    assert "s3cret-value" not in json.dumps([record.notes, record.stop_reason, list(record.texts)])


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [(Behaviour(http500=1.0), RequestEnd.HTTP_ERROR), (Behaviour(wrong=1.0), RequestEnd.STREAM_ERROR)],
)
def test_a_closed_loop_does_not_hammer_a_server_that_refuses_at_once(behaviour, kind):
    """Four slots asked eight thousand times a second, and kept every refusal."""
    with running_server(behaviour) as server:
        record = run_probe(plan(server.url, ClosedLoop(4), 1.0))
    assert set(record.kind) == {kind}
    assert 4 < len(record) <= 4 + 1 + 4 * 10  # all at once, one more, and each slot every 100 ms
