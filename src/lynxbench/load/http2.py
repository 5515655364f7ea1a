"""Frames of HTTP/2 (RFC 9113) and messages of gRPC, as bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import Final
from urllib.parse import unquote

from lynxbench.load.hpack import Headers, encode_headers
from lynxbench.load.http import Malformed

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
TABLE_SIZE, ENABLE_PUSH, MOST_STREAMS, INITIAL_WINDOW, MAX_FRAME = 1, 2, 3, 4, 5
REFUSED_STREAM: Final = 7
FIRST_WINDOW: Final = 65_535
"""Bytes that may be sent before the other side allows more."""
FRAME_BYTES: Final = 16_384
"""Of a frame's payload where nobody agreed on more."""
LARGEST_WINDOW: Final = 2**31 - 1
LARGEST_BLOCK: Final = 65_536
"""A header block beyond this is not one."""
LARGEST_MESSAGE: Final = 2**30
_HEAD = Struct(">BHBBI")
_SETTING = Struct(">HI")
_MESSAGE = Struct(">BI")

STATUS_NAMES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip


def frame_head(size: int, kind: int, flags: int, stream: int) -> bytes:
    """The nine bytes before a payload."""
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A whole frame."""
    return frame_head(len(payload), kind, flags, stream) + payload


def settings(values: Mapping[int, int]) -> bytes:
    """What one side asks of the other."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*value) for value in values.items()))


def read_settings(payload: bytes) -> Iterator[tuple[int, int]]:
    """What the other side asks."""
    if len(payload) % _SETTING.size:
        raise Malformed("a settings frame of an odd length")
    yield from _SETTING.iter_unpack(payload)


def window(stream: int, more: int) -> bytes:
    """Leave to send so many bytes more."""
    return frame(WINDOW, 0, stream, more.to_bytes(4))


def split_frames(data: bytes, largest: int = FRAME_BYTES) -> tuple[list[tuple[int, int, int, bytes]], bytes]:
    """Kind, flags, stream and payload of every whole frame, and what is left of the last."""
    frames, at, length = [], 0, len(data)
    unpack = _HEAD.unpack_from
    while length - at >= 9:
        high, low, kind, flags, stream = unpack(data, at)
        size = high << 16 | low
        if size > largest:
            raise Malformed(f"a frame of {size} bytes where {largest} are the most")
        end = at + 9 + size
        if end > length:
            break
        frames.append((kind, flags, stream & 0x7FFFFFFF, data[at + 9 : end]))
        at = end
    return frames, data[at:]


def unpadded(flags: int, payload: bytes) -> bytes:
    """What a frame carries, without padding and priority."""
    start, end = 0, len(payload)
    if flags & PADDED:
        if not payload:
            raise Malformed("padding without its length")
        start, end = 1, end - payload[0]
    if flags & PRIORITY:
        start += 5
    if start > end:
        raise Malformed("more padding than frame")
    return payload[start:end]


def message(data: bytes) -> bytes:
    """A gRPC message that is not compressed, with its length."""
    return _MESSAGE.pack(0, len(data)) + data


class MessageSplitter:
    """Cuts the data of one stream into messages, however it was cut."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def is_within(self) -> bool:
        """Whether a message has begun and is not whole."""
        return self._size > 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The messages that this piece completes."""
        self._parts.append(piece)
        self._size += len(piece)
        if self._size < 5:
            return []
        first = self._parts[0]
        if len(first) < 5 or self._size >= 5 + int.from_bytes(first[1:5]):
            first = b"".join(self._parts)
            self._parts = [first]
        whole, at = [], 0
        while len(first) - at >= 5:
            packed, size = _MESSAGE.unpack_from(first, at)
            if packed:
                raise Malformed("a compressed message, which nobody asked for")
            if size > LARGEST_MESSAGE:
                raise Malformed(f"a message of {size} bytes")
            if at + 5 + size > len(first):
                break
            whole.append(first[at + 5 : at + 5 + size])
            at += 5 + size
        if at:
            self._parts, self._size = ([first[at:]] if at < len(first) else []), len(first) - at
        return whole

    def clear(self) -> None:
        """Forget what began."""
        if self._size:
            self._parts, self._size = [], 0


def pack_call(path: str, authority: str, data: bytes, *, tls: bool, more: Iterable[tuple[str, str]] = ()) -> bytes:
    """A prepared call: the length of its header block, the block, and its one message."""
    block = encode_headers(
        (
            (":method", "POST"),
            (":scheme", "https" if tls else "http"),
            (":path", path),
            (":authority", authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *more,
        )
    )
    if len(block) > FRAME_BYTES:
        raise ValueError(f"headers of {len(block)} bytes do not go into one frame")
    return len(block).to_bytes(4) + block + message(data)


def said_status(headers: Headers) -> tuple[int, str] | None:
    """The gRPC status in headers or trailers and its text; None where there is none."""
    named = dict(headers)
    status = named.get("grpc-status", "")
    if not status.isascii() or not status.isdigit():
        return None
    return int(status), unquote(named.get("grpc-message", ""))


def status_words(status: int, text: str) -> str:
    """A status for people."""
    name = STATUS_NAMES[status] if status < len(STATUS_NAMES) else "not a known status"
    return f"gRPC status {status} {name}{': ' if text else ''}{text}"
