"""Response framing from bytes."""

import pytest

from lynxbench.load.http import EventSplitter, Framing, Malformed, parse_chunk_size, parse_head


def test_heads():
    head = parse_head(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked"
    )
    assert (head.status, head.good, head.framing) == (200, True, Framing.CHUNKED)
    assert head.keep_alive
    assert head.event_stream
    head = parse_head(b"HTTP/1.1 404 Not Found\r\ncontent-length:  12 \r\nConnection: close")
    assert (head.good, head.framing, head.length, head.keep_alive) == (False, Framing.LENGTH, 12, False)
    head = parse_head(b"HTTP/1.0 200 OK")
    assert (head.framing, head.keep_alive) == (Framing.UNTIL_CLOSE, False)
    assert parse_head(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0").keep_alive
    assert parse_head(b"HTTP/1.1 204 No Content").length == 0
    assert (
        parse_head(
            b"HTTP/1.1 200 OK\r\nInference-Header-Content-Length: 77\r\nContent-Length: 90"
        ).inference_header_bytes
        == 77
    )


def test_chunked_outranks_a_length():
    head = parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked")
    assert head.framing is Framing.CHUNKED


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/2 200",
        b"hello",
        b"HTTP/1.1 200 OK\r\nno colon here",
        b"HTTP/1.1 200 OK\r\n folded: x",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip",
    ],
)
def test_malformed_heads(raw):
    with pytest.raises(Malformed):
        parse_head(raw)


def test_chunk_sizes():
    assert parse_chunk_size(b"1aF") == 0x1AF
    assert parse_chunk_size(b"10;name=value") == 16
    for bad in (b"", b"0x10", b"-1", b"1_0", b"g", b"1" * 16):
        with pytest.raises(Malformed):
            parse_chunk_size(bad)


def test_events_in_every_spelling():
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\n\ndata:b\n\n: comment\n\nevent: x\ndata: c\ndata: d\n\n") == [b"a", b"b", b"c\nd"]
    assert splitter.feed(b"data: e\r\n\r\ndata: f\r\n\r") == [b"e"]
    assert splitter.feed(b"\n") == [b"f"]
    assert splitter.feed(b"data: left over") == []
    assert splitter.flush() == [b"left over"]
    assert splitter.held == b""
