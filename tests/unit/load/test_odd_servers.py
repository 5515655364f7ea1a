"""Servers that answer in ways nobody wrote down: what failed is counted as failed, what is not known is not counted."""

import gzip
import json

import pytest

from lynxbench.engines.embeddings import EmbeddingsLanguage
from lynxbench.engines.messages import MessagesReader
from lynxbench.engines.openai import OpenAiReader
from lynxbench.engines.rerank import RerankReader
from lynxbench.engines.response_events import ResponsesReader
from lynxbench.engines.structured import StructuredReader
from lynxbench.load.http import EventSplitter, Malformed, parse_head
from lynxbench.load.load_record import RequestEnd, RowStore, assemble
from lynxbench.load.plan import TicketTimeouts
from lynxbench.load.response_reading import FAILED, UNKNOWN_TOKENS, ResponseReader
from lynxbench.load.wire import Connection, Ticket
from silent_transport import SilentTransport

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
DEEP = b"[" * 100_000 + b"]" * 100_000


def event(document: object, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(document).encode() + b"\n\n"


def piece(text: str = " the", **keys: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text}, **keys}]})


def usage(**tokens: int) -> bytes:
    return event({"choices": [], "usage": tokens})


FINISH = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
USAGE = usage(prompt_tokens=10, completion_tokens=7)


class Owner:
    def __init__(self):
        self.kinds, self.notes = [], []

    def answered(self, connection, ticket, kind):
        self.kinds.append(RequestEnd(kind))

    def refused(self, ticket):
        raise AssertionError("nothing is asked again")

    def gone(self, connection):
        pass

    def note(self, text):
        self.notes.append(text)


def answer(*events, reader=None, whole=None):
    """One answer to one request: how it ended, what was said of it, and its row."""
    owner, store = Owner(), RowStore()
    connection = Connection(owner, reader or OpenAiReader(False), store, TicketTimeouts())
    connection.connection_made(SilentTransport())
    connection.send(Ticket(0, 900, b"request"))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(data), data) for data in events)
    connection.data_received(HEAD + chunks + b"0\r\n\r\n" if whole is None else whole)
    assert len(owner.kinds) == 1, "an answer ends once, and ends at all"
    return owner.kinds[0], owner.notes, assemble(store, start_ns=0, end_ns=1, stop_reason="", health=(), notes={})


def test_a_usual_answer_is_whole():
    kind, notes, record = answer(piece(), FINISH, USAGE, DONE)
    assert (kind, notes, record.output_tokens[0]) == (RequestEnd.OK, [], 7)


@pytest.mark.parametrize("tokens", [0, -5, 2**31, 2**63, 10**30])
def test_a_count_that_no_answer_can_have_is_unknown(tokens):
    kind, _, record = answer(piece(), FINISH, usage(prompt_tokens=10, completion_tokens=tokens), DONE)
    assert kind is RequestEnd.OK
    assert (record.output_tokens[0], record.input_tokens[0]) == (UNKNOWN_TOKENS, 10)
    assert answer(piece(), FINISH, usage(prompt_tokens=-1 - abs(tokens)), DONE)[2].input_tokens[0] == UNKNOWN_TOKENS


RESPONSE = {"type": "response.completed", "response": {"status": "completed", "usage": {"output_tokens": 10**30}}}
MESSAGE = {"type": "message_delta", "usage": {"output_tokens": 10**30}}


@pytest.mark.parametrize(
    ("reader", "events"),
    [
        (ResponsesReader(), [event({"type": "response.output_text.delta", "delta": "a"}), event(RESPONSE)]),
        (MessagesReader(), [event({"type": "content_block_delta", "delta": {"text": "a"}}), event(MESSAGE)]),
        (RerankReader([1], None), [event({"results": [{"index": 0, "score": 1}], "usage": {"total_tokens": 10**30}})]),
    ],
)
def test_a_count_beyond_any_answer_is_malformed_where_the_form_has_a_count(reader, events):
    kind, notes, _ = answer(*events, reader=reader)
    assert kind is RequestEnd.MALFORMED
    assert "2147483647" in notes[0]


@pytest.mark.parametrize("reader", [OpenAiReader(False), ResponsesReader(), MessagesReader(), RerankReader([1], None)])
@pytest.mark.parametrize("key", [b"error", b"foreign"])
def test_an_answer_nested_without_end_is_malformed(reader, key):
    kind, notes, _ = answer(b'data: {"%s":%s}\n\n' % (key, DEEP), reader=reader)
    assert kind is RequestEnd.MALFORMED
    assert "recursion" in notes[0]


@pytest.mark.parametrize("index", [-1, 10**9])
def test_a_call_at_an_impossible_place_is_kept_nowhere(index):
    call = {"index": index, "function": {"name": "f", "arguments": "{}"}}
    reader = StructuredReader(False)
    kind, _, _ = answer(event({"choices": [{"delta": {"tool_calls": [call]}}]}), FINISH, USAGE, DONE, reader=reader)
    assert kind is RequestEnd.OK
    assert json.loads(reader.text()) == {"content": "", "calls": []}


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_an_answer_that_the_server_gave_up_has_failed(reason):
    gave_up = event({"choices": [{"delta": {}, "finish_reason": reason}]})
    kind, notes, record = answer(piece(), gave_up, USAGE, DONE)
    assert kind is RequestEnd.STREAM_ERROR
    assert notes == [f"stream error: finish_reason {reason}"]
    assert record.output_tokens[0] == UNKNOWN_TOKENS


def test_an_empty_reason_does_not_end_an_answer():
    kind, notes, _ = answer(piece(finish_reason=""), piece(finish_reason=""))
    assert kind is RequestEnd.STREAM_ERROR
    assert "broke off" in notes[0]
    assert answer(piece(finish_reason=""), piece(finish_reason=""), USAGE, DONE)[0] is RequestEnd.OK


@pytest.mark.parametrize(
    "failing",
    [
        event({"object": "error", "message": "out of memory", "code": 500}),
        event({"type": "error", "message": "out of memory"}),
        event({"message": "out of memory"}, name="error"),
        b"event: error\ndata: out of memory\n\n",
        b'error: {"code": 500, "message": "out of memory"}\n\n',
    ],
)
def test_an_error_told_in_any_form_is_a_failure(failing):
    kind, notes, _ = answer(piece(), failing, USAGE, DONE)
    assert kind is RequestEnd.STREAM_ERROR
    assert "out of memory" in notes[0]


def test_events_without_choices_that_are_no_errors_are_none():
    filters = event({"choices": [], "error": None, "prompt_filter_results": [{"error": {"filtered": False}}]})
    assert answer(filters, piece(), FINISH, USAGE, DONE)[0] is RequestEnd.OK


def vectors(*given: object) -> bytes:
    body = json.dumps({"data": given, "usage": {"prompt_tokens": 9, "total_tokens": 9}}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


FULL, IN_BASE64 = {"embedding": [0.5, 1]}, {"embedding": "AAAAPwAAgD8="}


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ((FULL, FULL, FULL), RequestEnd.OK, ""),
        ((IN_BASE64, {"embedding": [1]}, FULL), RequestEnd.OK, ""),
        ((FULL,), RequestEnd.STREAM_ERROR, "1 vectors, where 3 were asked for"),
        ((FULL, {"embedding": []}, FULL), RequestEnd.STREAM_ERROR, "2 vectors, where 3 were asked for"),
        ((FULL, None, {"embedding": "  "}), RequestEnd.STREAM_ERROR, "1 vectors, where 3 were asked for"),
        ((FULL,) * 4, RequestEnd.STREAM_ERROR, "4 vectors, where 3 were asked for"),
        (({"embedding": []}, {"embedding": None}, {}), RequestEnd.EMPTY_ANSWER, "without output"),
        ((), RequestEnd.EMPTY_ANSWER, "without output"),
        ((7,), RequestEnd.MALFORMED, "Expected `object | null`"),
    ],
)
def test_every_text_has_its_vector_or_nothing_was_served(given, kind, says):
    """A server that embedded one text of three was three times as quick, and nothing was said."""
    ended, notes, record = answer(reader=EmbeddingsLanguage(3).reader(False), whole=vectors(*given))
    assert (ended, record.output_tokens[0]) == (kind, UNKNOWN_TOKENS)
    assert says in "".join(notes)


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("kind", "bound", "says"),
    [
        (b"text/event-stream", "http.LARGEST_EVENT_BYTES", "no end of an event in 1 MiB"),
        (b"application/json", "answer.LARGEST_BODY_BYTES", "no end of the answer in 1 MiB"),
    ],
)
def test_an_answer_without_an_end_is_given_up(kind, bound, says, monkeypatch):
    """A server that never ends an event, or a body: what is held of it has a bound."""
    monkeypatch.setattr(f"lynxbench.load.{bound}", 1 << 20)
    chunk = b"10000\r\n" + b"a" * 65_536 + b"\r\n"
    owner, store = Owner(), RowStore()
    connection = Connection(owner, OpenAiReader(False), store, TicketTimeouts())
    connection.connection_made(SilentTransport())
    connection.send(Ticket(0, 900, b"request"))
    connection.data_received(PLAIN % kind + b"6\r\ndata: \r\n")
    for _ in range(16):
        connection.data_received(chunk)
    assert owner.kinds == [RequestEnd.MALFORMED]
    assert says in owner.notes[0]


def test_an_error_beside_choices_that_are_null_is_one_where_forms_are_checked():
    kind, notes, _ = answer(event({"choices": None, "error": "out of memory"}), reader=StructuredReader(False))
    assert (kind, notes) == (RequestEnd.STREAM_ERROR, ['stream error: "out of memory"'])


@pytest.mark.parametrize("early", [{"prompt_tokens": 10}, {"prompt_tokens": 10, "completion_tokens": 0}])
def test_usage_that_comes_first_ends_no_answer(early):
    """It counts the prompt; what breaks off after it was taken for whole."""
    kind, notes, _ = answer(usage(**early), piece(), piece())
    assert (kind, notes) == (RequestEnd.STREAM_ERROR, ["stream error: the answer broke off before its last event"])
    kind, _, record = answer(usage(**early), piece(), piece(), USAGE)
    assert (kind, record.output_tokens[0]) == (RequestEnd.OK, 7)


def test_an_input_of_no_tokens_takes_no_count_back():
    """Servers that count the prompt at the start of a message write 0 at its end."""
    told = {"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 1}
    start = event({"type": "message_start", "message": {"usage": told}})
    delta = event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}})
    last = event({"type": "message_delta", "usage": {"input_tokens": 0, "output_tokens": 2}})
    stop = event({"type": "message_stop"})
    kind, _, record = answer(start, delta, last, stop, reader=MessagesReader())
    assert (kind, record.output_tokens[0]) == (RequestEnd.OK, 2)
    assert (record.input_tokens[0], record.cached_tokens[0]) == (25, 20)
    kind, _, record = answer(delta, last, stop, reader=MessagesReader())
    assert (kind, record.input_tokens[0]) == (RequestEnd.OK, UNKNOWN_TOKENS)


def test_choices_that_are_null_are_none():
    kind, _, record = answer(piece(), FINISH, event({"choices": None, "usage": {"completion_tokens": 7}}), DONE)
    assert (kind, record.output_tokens[0]) == (RequestEnd.OK, 7)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_thoughts_are_output_before_the_answer_whatever_they_are_called(name):
    thought = event({"choices": [{"delta": {name: "hm"}}]})
    kind, _, record = answer(thought, FINISH, USAGE, DONE)
    assert (kind, record.first_token_ns[0] > 0, record.first_answer_ns[0]) == (RequestEnd.OK, True, 0)


@pytest.mark.parametrize("cached", [11, 2**31 - 1])
def test_no_more_comes_from_a_cache_than_was_read(cached):
    """A report said that 400 % of the input came from it."""
    counts = {"prompt_tokens": 10, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": cached}}
    _, _, record = answer(piece(), FINISH, event({"choices": [], "usage": counts}), DONE)
    assert (record.input_tokens[0], record.cached_tokens[0]) == (10, UNKNOWN_TOKENS)
    told = {"input_tokens": 10, "output_tokens": 7, "input_tokens_details": {"cached_tokens": cached}}
    whole = {"type": "response.completed", "response": {"status": "completed", "usage": told}}
    delta = event({"type": "response.output_text.delta", "delta": "a"})
    kind, _, record = answer(delta, event(whole), reader=ResponsesReader())
    assert (kind, record.input_tokens[0], record.cached_tokens[0]) == (RequestEnd.OK, 10, UNKNOWN_TOKENS)


def test_a_byte_order_mark_takes_no_event_away():
    assert EventSplitter().feed(b"\xef\xbb\xbfdata: a\n\ndata: b\n\n") == [b"a", b"b"]
    assert answer(b"\xef\xbb\xbf" + piece(), FINISH, USAGE, DONE)[2].events[0] == 1


def test_a_compressed_answer_is_named():
    packed = gzip.compress(piece() + FINISH + DONE)
    head = b"HTTP/1.1 %d X\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    kind, notes, _ = answer(whole=head % (200, len(packed)) + packed)
    assert kind is RequestEnd.MALFORMED
    assert "content-encoding b'gzip'" in notes[0]
    assert answer(whole=head % (503, len(packed)) + packed)[0] is RequestEnd.HTTP_ERROR, "its status says enough"
    with pytest.raises(Malformed):
        parse_head(b"HTTP/1.1 200 OK\r\nContent-Encoding: br")
    assert parse_head(b"HTTP/1.1 200 OK\r\nContent-Encoding: identity").good


@pytest.mark.parametrize(
    ("reader", "events"),
    [
        (OpenAiReader(False), [{"choices": [{"delta": {"content": "a"}}]}, {"detail": "out of memory"}]),
        (
            ResponsesReader(),
            [
                {"type": "response.output_text.delta", "delta": "a"},
                {"type": "response.completed", "response": {"status": "failed", "usage": {"output_tokens": 1}}},
            ],
        ),
        (
            MessagesReader(),
            [{"type": "content_block_delta", "delta": {"text": "a"}, "error": {"message": "out of memory"}}],
        ),
    ],
)
def test_what_fails_inside_an_answer_is_a_failure_whatever_its_event_is_called(
    reader: ResponseReader, events: list[dict[str, object]]
) -> None:
    reader.begin()
    assert FAILED in [reader.event(json.dumps(one).encode()) for one in events]
    assert reader.failure
