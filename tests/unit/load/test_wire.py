"""One connection, fed bytes by hand: framing, stamps, outcomes."""

import pytest

from lynxbench.engines.openai import OpenAiReader
from lynxbench.load.load_record import COLUMNS, RequestEnd, RowStore, assemble
from lynxbench.load.plan import TicketTimeouts
from lynxbench.load.response_reading import UNKNOWN_TOKENS
from lynxbench.load.wire import Connection, Ticket, unanswered_row

EVENT = b'data: {"choices":[{"index":0,"delta":{"content":" the"},"finish_reason":null}]}\n\n'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":7,'
    b'"prompt_tokens_details":{"cached_tokens":4}}}\n\n'
)
DONE = b"data: [DONE]\n\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream(*events: bytes) -> bytes:
    return STREAM_HEAD + b"".join(map(chunk, events)) + b"0\r\n\r\n"


class Clock:
    def __init__(self):
        self.now = 1_000

    def __call__(self):
        return self.now


class FakeTransport:
    """Pretends TLS, so that writes go through the transport."""

    def __init__(self):
        self.written = []
        self.aborted = False

    def get_extra_info(self, name):
        return object() if name == "ssl_object" else None

    def write(self, data):
        self.written.append(bytes(data))

    def abort(self):
        self.aborted = True


class Owner:
    def __init__(self):
        self.kinds, self.retried, self.lost, self.notes = [], [], 0, []

    def answered(self, connection, ticket, kind):
        self.kinds.append(RequestEnd(kind))

    def refused(self, ticket):
        self.retried.append(ticket)

    def gone(self, connection):
        self.lost += 1

    def note(self, text):
        self.notes.append(text)


class Bench:
    def __init__(self, timeouts=None):
        self.owner, self.store, self.clock, self.transport = Owner(), RowStore(), Clock(), FakeTransport()
        self.connection = Connection(
            self.owner, OpenAiReader(True), self.store, timeouts or TicketTimeouts(), keep_text=True, clock=self.clock
        )
        self.connection.connection_made(self.transport)

    def send(self, number=0):
        self.connection.send(Ticket(number, 900, b"request"))

    def feed(self, *pieces, step=10):
        for piece in pieces:
            self.clock.now += step
            self.connection.data_received(piece)

    def record(self):
        return assemble(self.store, start_ns=0, end_ns=1, stop_reason="", health=(), notes={})


def test_a_stream_in_one_read_is_one_arrival_and_says_so():
    bench = Bench()
    bench.send()
    bench.feed(stream(ROLE, EVENT, EVENT, EVENT, USAGE, DONE))
    record = bench.record()
    assert bench.owner.kinds == [RequestEnd.OK]
    assert bench.connection.usable
    assert not bench.transport.aborted
    assert record.sent_ns[0] == 1_000
    assert record.first_token_ns[0] == record.last_ns[0] == 1_010
    assert (record.events[0], record.coalesced[0]) == (3, 2)
    assert record.event_coalesced.tolist() == [False, True, True]
    assert (record.output_tokens[0], record.input_tokens[0], record.cached_tokens[0]) == (7, 10, 4)
    assert record.texts == (" the the the",)
    assert not record.gaps().clean.any()


def test_role_delta_and_usage_move_no_stamp():
    bench = Bench()
    bench.send()
    bench.feed(STREAM_HEAD + chunk(ROLE), chunk(EVENT), chunk(EVENT), chunk(USAGE), chunk(DONE) + b"0\r\n\r\n")
    record = bench.record()
    assert (record.first_byte_ns[0], record.first_token_ns[0], record.last_ns[0]) == (1_010, 1_020, 1_050)
    assert record.event_ns.tolist() == [1_020, 1_030]
    assert record.gaps().seconds.tolist() == pytest.approx([10e-9])
    assert record.gaps().clean.all()


def test_byte_by_byte_gives_the_same_answer():
    whole = stream(ROLE, EVENT, EVENT, USAGE, DONE)
    bench = Bench()
    bench.send()
    bench.feed(*(whole[i : i + 1] for i in range(len(whole))), step=1)
    record = bench.record()
    assert bench.owner.kinds == [RequestEnd.OK]
    assert (record.events[0], record.coalesced[0], record.output_tokens[0]) == (2, 0, 7)
    assert record.bytes[0] == len(whole)


def test_several_events_in_one_chunk_and_one_event_over_chunks():
    bench = Bench()
    bench.send()
    bench.feed(STREAM_HEAD + chunk(EVENT + EVENT), chunk(EVENT[:20]), chunk(EVENT[20:] + DONE) + b"0\r\n\r\n")
    record = bench.record()
    assert record.events[0] == 3
    assert record.event_ns.tolist() == [1_010, 1_010, 1_030]
    assert record.event_coalesced.tolist() == [False, True, False]


def test_an_event_inside_an_unfinished_chunk_is_seen_when_it_arrives():
    bench = Bench()
    bench.send()
    both = chunk(EVENT + EVENT)
    cut = len(b"%x\r\n" % (2 * len(EVENT))) + len(EVENT) + 5
    bench.feed(STREAM_HEAD + both[:cut], both[cut:] + b"0\r\n\r\n")
    assert bench.record().event_ns.tolist() == [1_010, 1_020]


def test_responses_follow_each_other_on_one_connection():
    bench = Bench()
    for number in range(3):
        bench.send(number)
        bench.feed(stream(EVENT, USAGE, DONE))
    record = bench.record()
    assert record.number.tolist() == [0, 1, 2]
    assert record.event_offsets.tolist() == [0, 1, 2, 3]
    assert bench.owner.kinds == [RequestEnd.OK] * 3


def test_a_body_with_a_length_and_interim_responses():
    body = b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"completion_tokens":2}}'
    bench = Bench()
    bench.send()
    bench.feed(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body[:9], body[9:]
    )
    record = bench.record()
    assert bench.owner.kinds == [RequestEnd.OK]
    assert (record.output_tokens[0], record.texts) == (2, ("hi",))
    assert record.first_token_ns[0] == 1_030


def test_trailers_and_chunk_extensions():
    bench = Bench()
    bench.send()
    whole = EVENT + DONE
    bench.feed(STREAM_HEAD + b"%x;a=b\r\n%s\r\n" % (len(whole), whole) + b"0\r\nX-T: 1\r\n", b"\r\n")
    assert bench.owner.kinds == [RequestEnd.OK]
    assert bench.connection.usable


def test_http_error_keeps_what_it_said():
    bench = Bench()
    bench.send()
    bench.feed(b'HTTP/1.1 429 Too Many Requests\r\nContent-Length: 16\r\n\r\n{"error":"slow"}')
    assert bench.owner.kinds == [RequestEnd.HTTP_ERROR]
    assert bench.record().http_status[0] == 429
    assert bench.owner.notes == ['429: {"error":"slow"}']
    assert bench.connection.usable


def test_an_error_inside_a_stream_is_an_error():
    bench = Bench()
    bench.send()
    bench.feed(stream(EVENT, b'data: {"error":{"message":"out of memory"}}\n\n', DONE))
    assert bench.owner.kinds == [RequestEnd.STREAM_ERROR]
    assert "out of memory" in bench.owner.notes[0]


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        STREAM_HEAD + b"xyz\r\n",
        STREAM_HEAD + chunk(b"data: {not json}\n\n"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{[}",
        b"x" * 70_000,
    ],
)
def test_what_cannot_be_read_is_malformed_and_ends_the_connection(answer):
    bench = Bench()
    bench.send()
    bench.feed(answer)
    assert bench.owner.kinds == [RequestEnd.MALFORMED]
    assert bench.transport.aborted
    assert not bench.connection.usable


def test_closing_before_the_first_byte_is_tried_again_once_only_on_a_used_connection():
    bench = Bench()
    bench.send()
    bench.connection.connection_lost(None)
    assert bench.owner.kinds == [RequestEnd.RESET]
    bench = Bench()
    bench.send()
    bench.feed(stream(EVENT, DONE))
    bench.send(1)
    bench.connection.connection_lost(ConnectionResetError())
    assert [t.number for t in bench.owner.retried] == [1]
    assert bench.owner.kinds == [RequestEnd.OK]
    second = Bench()
    second.connection.used = True
    second.connection.send(bench.owner.retried[0])
    second.connection.connection_lost(None)
    assert second.owner.kinds == [RequestEnd.RESET]
    assert second.record().retries[0] == 1


def test_a_stream_cut_in_the_middle_is_a_reset_with_its_events_kept():
    bench = Bench()
    bench.send()
    bench.feed(STREAM_HEAD + chunk(EVENT))
    bench.connection.connection_lost(None)
    assert bench.owner.kinds == [RequestEnd.RESET]
    assert bench.record().events[0] == 1
    assert bench.record().output_tokens[0] == -1


def test_a_body_until_close_is_whole_only_if_it_says_so():
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    for tail, kind in ((DONE, RequestEnd.OK), (b"", RequestEnd.RESET)):
        bench = Bench()
        bench.send()
        bench.feed(head + EVENT + tail)
        bench.connection.connection_lost(None)
        assert bench.owner.kinds == [kind]
    bench = Bench()
    bench.send()
    bench.feed(b"HTTP/1.1 200 OK\r\n\r\n{trunc")
    bench.connection.connection_lost(None)
    assert bench.owner.kinds == [RequestEnd.MALFORMED]


def test_timeouts_by_phase():
    timeouts = TicketTimeouts(connect_s=1e-6, first_byte_s=5e-6, idle_s=2e-6, total_s=20e-6)
    bench = Bench(timeouts)
    assert bench.connection.deadline_ns() == 0
    bench.send()
    assert bench.connection.deadline_ns() == 1_000 + 5_000
    bench.clock.now = 6_000
    bench.connection.expire()
    assert bench.owner.kinds == [RequestEnd.TIMEOUT_FIRST_BYTE]
    bench = Bench(timeouts)
    bench.send()
    bench.feed(STREAM_HEAD)
    assert bench.connection.deadline_ns() == 1_010 + 2_000
    bench.clock.now = 3_010
    bench.connection.expire()
    assert bench.owner.kinds == [RequestEnd.TIMEOUT_IDLE]
    bench = Bench(timeouts)
    bench.send()
    for _ in range(15):
        bench.feed(chunk(EVENT) if bench.clock.now > 1_000 else STREAM_HEAD, step=1_500)
    assert bench.connection.deadline_ns() == 21_000
    bench.connection.expire()
    assert bench.owner.kinds == [RequestEnd.TIMEOUT_TOTAL]
    with pytest.raises(ValueError, match="must end"):
        TicketTimeouts(total_s=float("inf"))


def test_unasked_bytes_close_and_columns_are_whole():
    bench = Bench()
    bench.feed(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert bench.transport.aborted
    assert bench.store.table().shape == (0, len(COLUMNS))


def test_an_unanswered_row_has_every_column() -> None:
    ticket = Ticket(7, 1000, b"")
    ticket.sent_ns, ticket.connect_ns, ticket.retries, ticket.turn = 1500, 20, 1, 2
    row = dict(zip(COLUMNS, unanswered_row(ticket, 3, RequestEnd.CUT_OFF), strict=True))
    assert {name: value for name, value in row.items() if value} == {
        "number": 7,
        "turn": 2,
        "process": 3,
        "scheduled_ns": 1000,
        "sent_ns": 1500,
        "connect_ns": 20,
        "output_tokens": UNKNOWN_TOKENS,
        "input_tokens": UNKNOWN_TOKENS,
        "cached_tokens": UNKNOWN_TOKENS,
        "reasoning_tokens": UNKNOWN_TOKENS,
        "kind": int(RequestEnd.CUT_OFF),
        "retries": 1,
    }
