"""The driver over gRPC: against a server whose truth is known, and against bytes of a server that misbehaves."""

import socket
import subprocess
import threading

import numpy as np
import pytest

from lynxbench.engines.kserve_grpc import GrpcLanguage, build_grpc_probe
from lynxbench.load import http2, protobuf
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.hpack import encode_headers
from lynxbench.load.leaving import LeavingRule
from lynxbench.load.plan import ClosedLoop, LoadPlan, OpenLoop, TicketTimeouts, parse_target
from lynxbench.load.processes import RunningProbe
from lynxbench.load.response_reading import PlainRotation
from lynxbench.load.send_schedule import constant
from lynxbench.load.truth_process import running_server
from truth_thread import truth_in_thread

LANGUAGE = GrpcLanguage(streamed=True)
HEAD = encode_headers(((":status", "200"), ("content-type", "application/grpc")))
GOOD = encode_headers((("grpc-status", "0"),))
ENDS = http2.END_HEADERS | http2.END_STREAM
OUTPUT = protobuf.text(1, "y") + protobuf.text(2, "FP32") + protobuf.numbers(3, (1, 2))
STREAMED = protobuf.text(2, protobuf.text(5, OUTPUT) + protobuf.text(6, bytes(8)))


def plan(url, load, seconds=20.0, answers=4, language=LANGUAGE, **options):
    script = PlainRotation((build_grpc_probe(url, answers),))
    return LoadPlan(parse_target(url), script, language, load, seconds, **options)


def counted(record):
    assert sum(record.counts().values()) == len(record)
    return {word: count for word, count in record.counts().items() if count}


def test_every_answer_is_counted_and_stamped_after_the_server_sent_it():
    with truth_in_thread(Behaviour(ttft_ms=20, itl_ms=5)) as (url, server):
        record = run_probe(plan(url, ClosedLoop(3, requests=12)))
    truth = server.truth()
    assert counted(record) == {"ok": 12}
    assert record.events.tolist() == [4] * 12
    assert truth.count(ServedOutcome.OK) == 12
    assert truth.connections == 3, "a connection carries one call after the other"
    # By arrival, since three are open at a time: no stamp of the client is before the server's own.
    order = np.argsort(record.sent_ns)
    assert (np.sort(record.first_token_ns) >= np.sort(truth.first_ns)).all()
    assert (np.sort(record.last_ns) >= np.sort(truth.last_ns)).all()
    assert (record.sent_ns[order] <= truth.arrival_ns).all()
    assert record.server_first_token_s().min() >= 0.020
    assert (truth.last_ns - truth.arrival_ns).min() >= 35_000_000, "the server is never before its schedule"


def test_an_open_loop_keeps_its_schedule():
    offsets = constant(50, 0.5)
    with truth_in_thread(Behaviour(ttft_ms=2)) as (url, server):
        record = run_probe(plan(url, OpenLoop(offsets), answers=1))
    assert counted(record) == {"ok": len(offsets)}
    assert np.array_equal(record.scheduled_ns - record.start_ns, offsets)
    assert (record.sent_ns >= record.scheduled_ns).all()
    assert server.truth().count(ServedOutcome.OK) == len(offsets)


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        ("error-body", "grpc_error"),
        ("error-event", "stream_error"),
        ("cut", "stream_error"),
        ("empty", "empty_answer"),
        ("other", "malformed"),
        ("shape", "malformed"),
    ],
)
def test_wrong_answers_are_counted_exactly(fault, end):
    with truth_in_thread(Behaviour(wrong=0.1, fault=fault)) as (url, server):
        record = run_probe(plan(url, ClosedLoop(4, requests=200)))
    assert counted(record) == {"ok": 180, end: 20}
    assert server.truth().count(ServedOutcome.WRONG) == 20
    assert sum(record.notes.values()) == 20
    said = " ".join(record.notes)
    words = {
        "error-body": "gRPC status 3 INVALID_ARGUMENT: a fault on demand",
        "error-event": "a fault on demand",
        "cut": "without its status",
        "empty": "without output",
        "other": "malformed",
        "shape": "shape [1] of FP32 is 4 bytes, 2 came",
    }
    assert words[fault] in said


def test_refusals_cuts_and_stalls_are_counted_exactly_and_the_run_ends():
    with truth_in_thread(Behaviour(ttft_ms=1, itl_ms=1, drop=0.05, http500=0.05, stall=0.01)) as (url, server):
        record = run_probe(plan(url, ClosedLoop(16, requests=400), 60, timeouts=TicketTimeouts(idle_s=1.5)))
    assert counted(record) == {"ok": 356, "grpc_error": 20, "reset": 20, "timeout_idle": 4}
    truth = server.truth()
    assert truth.count(ServedOutcome.DROP) == truth.count(ServedOutcome.HTTP500) == 20
    assert truth.count(ServedOutcome.STALL) == 4
    assert record.stop_reason == "done"
    assert record.notes == {"gRPC status 13 INTERNAL: a fault on demand": 20}


def test_a_server_that_goes_away_before_it_served_is_asked_again_once():
    with truth_in_thread(Behaviour(close_after=1)) as (url, _):
        record = run_probe(plan(url, ClosedLoop(2, requests=20)))
    assert counted(record) == {"ok": 20}
    assert 9 <= record.retries.sum() <= 19
    assert (record.retries <= 1).all()


def test_a_call_that_is_given_up_leaves_the_server():
    # The second answer is two seconds away: what a held-up client reads at once, it counts at once.
    with truth_in_thread(Behaviour(ttft_ms=5, itl_ms=2000)) as (url, server):
        leaving = LeavingRule(leaves=b"\x01", after_events=1, after_ns=0)
        record = run_probe(plan(url, ClosedLoop(2, requests=6), answers=100, leaving=leaving))
        assert counted(record) == {"cancelled": 6}
        assert record.events.tolist() == [1] * 6
    assert server.truth().count(ServedOutcome.OK) == 0


def test_two_client_processes_share_the_load():
    with running_server(Behaviour(ttft_ms=1)) as server:
        with RunningProbe(plan(server.url, ClosedLoop(4, requests=40), answers=2, processes=2)) as probe:
            record = probe.finish()
        truth = server.stop()
    assert counted(record) == {"ok": 40}
    assert sorted(set(record.process.tolist())) == [0, 1]
    assert truth.events.tolist() == [2] * 40


def test_a_large_request_waits_for_leave_to_send():
    """The server gives leave by 65,535 bytes at a time: a request of a megabyte takes sixteen of them."""
    with truth_in_thread(Behaviour()) as (url, server):
        small = build_grpc_probe(url, 1)
        size = 4 + int.from_bytes(small[:4])
        body = small[size + 5 :] + b"\x3a" + b"\x80\x80\x40" + bytes(1 << 20)  # one more raw input
        call = small[:size] + http2.message(body)
        load = LoadPlan(parse_target(url), PlainRotation((call,)), LANGUAGE, ClosedLoop(2, requests=6), 20)
        record = run_probe(load)
    assert counted(record) == {"ok": 6}
    assert server.truth().count(ServedOutcome.OK) == 6


def test_over_tls(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {cert} -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost,IP:127.0.0.1",
        shell=True,
        check=True,
        capture_output=True,
    )
    with truth_in_thread(Behaviour(cert_file=str(cert), key_file=str(key))) as (plain, _):
        url = plain.replace("http:", "https:")
        script = PlainRotation((build_grpc_probe(url, 3),))
        target = parse_target(url, ca_file=str(cert))
        record = run_probe(LoadPlan(target, script, LANGUAGE, ClosedLoop(2, requests=8), 20))
    assert counted(record) == {"ok": 8}
    assert record.events.tolist() == [3] * 8


# --- a server's bytes, written by hand -------------------------------------------------------------------------------


class Scripted:
    """Answers every connection with the same bytes once a whole call has come, then waits for the client to leave."""

    def __init__(self, *answers, early=b""):
        self._answers, self._early = list(answers), early
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.read = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        for answer in self._answers:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.sendall(http2.settings({}) + self._early)
                held, waits = b"", True
                while True:
                    data = connection.recv(65_536)
                    if not data:
                        break
                    held += data
                    self.read += data
                    frames, _ = http2.split_frames(held[len(http2.PREFACE) :])
                    if any(kind == http2.DATA and flags & 1 for kind, flags, _, _ in frames) and waits:
                        connection.sendall(answer)
                        waits = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()


def answer_frames(*frames):
    return b"".join(http2.frame(*one) for one in frames)


def one_call(*answers, seconds=3.0, **options):
    with Scripted(*answers, **options) as server:
        record = run_probe(plan(server.url, ClosedLoop(1, requests=1), seconds, answers=1, drain_s=0.5))
    return record, server


def good_answer(stream=1, head=HEAD, trailers=GOOD):
    return answer_frames(
        (http2.HEADERS, http2.END_HEADERS, stream, head),
        (http2.DATA, 0, stream, http2.message(STREAMED)),
        (http2.HEADERS, ENDS, stream, trailers),
    )


def test_frames_that_do_not_concern_a_call_are_answered_and_passed_over():
    early = answer_frames(
        (http2.PING, 0, 0, b"12345678"), (http2.SETTINGS, http2.ACK, 0, b""), (0x42, 0, 0, b"unknown")
    )
    record, server = one_call(good_answer() + http2.frame(http2.RESET, 0, 1, bytes(4)), early=early)
    assert counted(record) == {"ok": 1}
    frames, _ = http2.split_frames(server.read[len(http2.PREFACE) :])
    assert (http2.PING, http2.ACK, 0, b"12345678") in frames
    assert (http2.SETTINGS, http2.ACK, 0, b"") in frames


def test_a_header_block_may_come_in_pieces():
    split = answer_frames((http2.HEADERS, 0, 1, HEAD[:7]), (http2.CONTINUATION, http2.END_HEADERS, 1, HEAD[7:]))
    whole = http2.frame(http2.HEADERS, http2.END_HEADERS, 1, HEAD)
    record, _ = one_call(good_answer().replace(whole, split))
    assert counted(record) == {"ok": 1}


@pytest.mark.parametrize(
    ("answer", "end", "said"),
    [
        (answer_frames((http2.RESET, 0, 1, (2).to_bytes(4))), "reset", "HTTP/2 error 2"),
        (answer_frames((http2.HEADERS, ENDS, 1, encode_headers(((":status", "503"),)))), "http_error", "503"),
        (
            answer_frames(
                (http2.HEADERS, ENDS, 1, encode_headers(((":status", "200"), ("content-type", "text/html"))))
            ),
            "http_error",
            "not a gRPC answer",
        ),
        (answer_frames((http2.HEADERS, ENDS, 1, HEAD)), "stream_error", "without its status"),
        (answer_frames((http2.HEADERS, http2.END_HEADERS, 1, b"\xff")), "malformed", "header block"),
        (answer_frames((http2.HEADERS, 0, 1, HEAD), (http2.PING, 0, 0, bytes(8))), "malformed", "interrupts"),
        (answer_frames((http2.PUSH, 0, 1, bytes(8))), "malformed", "pushed"),
        (
            answer_frames((http2.HEADERS, http2.END_HEADERS, 1, HEAD), (http2.DATA, 0, 1, b"\x01\0\0\0\0")),
            "malformed",
            "compressed",
        ),
        (
            answer_frames(
                (http2.HEADERS, http2.END_HEADERS, 1, HEAD),
                (http2.DATA, 0, 1, b"\0\0\0\0\x09ab"),
                (http2.HEADERS, ENDS, 1, GOOD),
            ),
            "stream_error",
            "within a message",
        ),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "malformed", "a frame of"),
    ],
)
def test_what_is_not_an_answer_is_told_apart(answer, end, said):
    record, _ = one_call(answer)
    assert counted(record) == {end: 1}
    assert said in " ".join(record.notes)


def test_a_call_that_the_server_did_not_take_is_asked_again_and_then_given_up():
    refused = http2.frame(http2.RESET, 0, 1, (http2.REFUSED_STREAM).to_bytes(4))
    record, _ = one_call(refused, good_answer())
    assert counted(record) == {"ok": 1}
    assert record.retries.tolist() == [1]
    gone = http2.frame(http2.GOAWAY, 0, 0, bytes(8))
    record, _ = one_call(gone, gone)
    assert counted(record) == {"reset": 1}
    assert "goes away" in " ".join(record.notes)


def test_control_frames_are_not_the_first_byte_of_an_answer():
    ping = http2.frame(http2.PING, 0, 0, bytes(8))
    with Scripted(ping) as server:
        timeouts = TicketTimeouts(first_byte_s=0.4)
        record = run_probe(plan(server.url, ClosedLoop(1, requests=1), 3, answers=1, timeouts=timeouts))
    assert counted(record) == {"timeout_first_byte": 1}
