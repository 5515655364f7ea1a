"""However the network cuts a response, what was said and counted is the same; stamps only depend on when bytes came."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lynxbench.engines.openai import OpenAiReader
from lynxbench.load import send_schedule as schedule
from lynxbench.load.http import EventSplitter
from lynxbench.load.load_record import RequestEnd, RowStore, assemble
from lynxbench.load.plan import TicketTimeouts
from lynxbench.load.response_reading import UNKNOWN_TOKENS
from lynxbench.load.wire import Connection, Ticket
from silent_transport import SilentTransport


class _Owner:
    def answered(self, connection, ticket, kind):
        pass

    def refused(self, ticket):
        pass

    def gone(self, connection):
        pass

    def note(self, text):
        pass


words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=6)


@st.composite
def responses(draw):
    """A stream of events, chunked anyhow: (bytes, said)."""
    import json

    said = draw(st.lists(words, max_size=6))
    ending = draw(st.sampled_from([b"\n\n", b"\r\n\r\n"]))
    events = [b"data: " + json.dumps({"choices": [{"delta": {"content": w}}]}).encode() + ending for w in said]
    if draw(st.booleans()):
        events.insert(0, b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}' + ending)
    if draw(st.booleans()):
        events.insert(draw(st.integers(0, len(events))), b": keep-alive" + ending)
    events.append(b'data: {"choices":[],"usage":{"completion_tokens":%d}}' % (2 * len(said)) + ending)
    if draw(st.booleans()):
        events.append(b"data: [DONE]" + ending)
    body = b"".join(events)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    framing = draw(st.sampled_from(["events", "anyhow", "length"]))
    if framing == "length":
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body, said
    if framing == "events":
        pieces = events
    else:
        cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=8)))
        pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True) if a < b]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n", said


@settings(max_examples=300, deadline=None)
@given(st.lists(responses(), min_size=1, max_size=3), st.data())
def test_any_cut_of_any_framing_reads_the_same(answers, data):
    store, time = RowStore(), [0]
    connection = Connection(
        _Owner(), OpenAiReader(True), store, TicketTimeouts(), keep_text=True, clock=lambda: time[0]
    )
    connection.connection_made(SilentTransport())
    for number, (raw, _) in enumerate(answers):
        time[0] += 1
        connection.send(Ticket(number, time[0], b""))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
        for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True):
            if a < b:
                time[0] += 1
                connection.data_received(raw[a:b])
        assert connection.ticket is None
        assert connection.usable
    record = assemble(store, start_ns=0, end_ns=0, stop_reason="", health=(), notes={})
    kinds = [RequestEnd.OK if said else RequestEnd.EMPTY_ANSWER for _, said in answers]
    assert record.kind.tolist() == kinds
    assert record.texts == tuple("".join(said) for _, said in answers)
    assert record.events.tolist() == [len(said) for _, said in answers]
    assert record.output_tokens.tolist() == [2 * len(said) or UNKNOWN_TOKENS for _, said in answers]
    assert record.bytes.tolist() == [len(raw) for raw, _ in answers]
    assert len(record.event_ns) == record.events.sum()
    assert record.coalesced.sum() == record.event_coalesced.sum()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6))
def test_no_bytes_at_all_break_the_connection_beyond_its_request(pieces):
    store = RowStore()
    connection = Connection(_Owner(), OpenAiReader(False), store, TicketTimeouts(), clock=lambda: 5)
    connection.connection_made(SilentTransport())
    connection.send(Ticket(0, 1, b""))
    for piece in pieces:
        if connection.ticket is not None and piece:
            connection.data_received(piece)
    connection.connection_lost(None)
    assert len(store.table()) == 1


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=10))
def test_the_splitter_does_not_care_where_it_is_cut(raw, cuts):
    whole = EventSplitter()
    expected = whole.feed(raw) + whole.flush()
    parts = EventSplitter()
    places = sorted(min(cut, len(raw)) for cut in cuts)
    got = []
    for a, b in zip([0, *places], [*places, len(raw)], strict=True):
        got += parts.feed(raw[a:b])
    assert got + parts.flush() == expected


@given(st.floats(0.5, 500), st.floats(0.05, 5), st.integers(0, 2**32 - 1), st.floats(0.2, 4))
def test_schedules_ascend_within_the_duration(rate, duration, seed, variation):
    for offsets in (
        schedule.constant(rate, duration),
        schedule.gamma(rate, variation, duration, seed),
        schedule.bursts(rate, 5, 0.01, duration, seed),
        schedule.ramp(rate, rate * 2, duration, seed),
    ):
        assert (offsets[1:] >= offsets[:-1]).all()
        assert len(offsets) == 0 or (offsets[0] >= 0 and offsets[-1] <= duration * 1e9)
