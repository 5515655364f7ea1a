"""Frames and messages, cut in every way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.load import http2
from lynxbench.load.hpack import HeaderDecoder
from lynxbench.load.http import Malformed

PIECES = st.lists(st.integers(1, 9), max_size=30)


def cut(data, sizes):
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    yield data[at:]


@given(PIECES)
def test_frames_are_the_same_however_they_are_cut(sizes):
    frames = [(http2.DATA, 1, 3, b"abc"), (http2.PING, 0, 0, bytes(8)), (http2.HEADERS, 4, 5, b"")]
    data = b"".join(http2.frame(*one) for one in frames)
    found, held = [], b""
    for piece in cut(data, sizes):
        new, held = http2.split_frames(held + piece)
        found += new
    assert found == frames
    assert held == b""


@given(st.lists(st.binary(max_size=12), max_size=5), PIECES)
def test_messages_are_the_same_however_they_are_cut(messages, sizes):
    splitter = http2.MessageSplitter()
    data = b"".join(map(http2.message, messages))
    assert [whole for piece in cut(data, sizes) for whole in splitter.feed(piece)] == messages
    assert not splitter.is_within
    splitter.feed(b"\0\0\0\0\x05ab")
    assert splitter.is_within
    splitter.clear()
    assert not splitter.is_within


def test_a_large_message_in_many_pieces():
    body = bytes(range(256)) * 400
    data = http2.message(body)
    splitter = http2.MessageSplitter()
    found = [whole for at in range(0, len(data), 1000) for whole in splitter.feed(data[at : at + 1000])]
    assert found == [body]


def test_what_nobody_agreed_to_is_refused():
    with pytest.raises(Malformed, match="16385 bytes where 16384"):
        http2.split_frames(http2.frame_head(16_385, http2.DATA, 0, 1))
    with pytest.raises(Malformed, match="compressed"):
        http2.MessageSplitter().feed(b"\x01\0\0\0\0")
    with pytest.raises(Malformed, match="a message of"):
        http2.MessageSplitter().feed(b"\0\xff\xff\xff\xff")
    with pytest.raises(Malformed, match="odd length"):
        list(http2.read_settings(b"12345"))
    for payload in (b"", b"\x05abc"):
        with pytest.raises(Malformed, match="padding"):
            http2.unpadded(http2.PADDED, payload)


def test_padding_and_priority_are_left_out():
    assert http2.unpadded(http2.PADDED | http2.PRIORITY, b"\x02" + bytes(5) + b"abc" + b"\0\0") == b"abc"


def test_a_prepared_call_says_where_it_goes():
    call = http2.pack_call("/s/M", "h:1", b"xy", tls=True, more=[("authorization", "Bearer k")])
    size = int.from_bytes(call[:4])
    headers = dict(HeaderDecoder().decode(call[4 : 4 + size]))
    assert headers[":path"] == "/s/M"
    assert headers[":scheme"] == "https"
    assert headers["authorization"] == "Bearer k"
    assert call[4 + size :] == b"\0\0\0\0\x02xy"
    with pytest.raises(ValueError, match="one frame"):
        http2.pack_call("/s/M", "h:1", b"", tls=False, more=[("x", "y" * 20_000)])


def test_a_status_for_people():
    assert http2.said_status((("grpc-status", "5"), ("grpc-message", "no%20such%20model"))) == (5, "no such model")
    assert http2.said_status((("a", "b"),)) is None
    assert http2.said_status((("grpc-status", "x"),)) is None
    assert http2.status_words(5, "no") == "gRPC status 5 NOT_FOUND: no"
    assert http2.status_words(99, "") == "gRPC status 99 not a known status"
