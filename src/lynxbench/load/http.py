"""HTTP/1.1 response framing, read from bytes (RFC 9112): the head, chunk sizes, server-sent events. Pure."""

import json
import re
from dataclasses import dataclass
from enum import IntEnum

LARGEST_HEAD_BYTES = 65_536
"""A response head beyond this is not one; servers themselves stop at 8–64 KiB."""
LARGEST_CHUNK_LINE_BYTES = 4_096
LARGEST_EVENT_BYTES = 16 * 1024 * 1024
"""An event that has not ended by then never will; every read would copy all of it again."""
_BOM = b"\xef\xbb\xbf"
"""It may stand before the first event."""
_STATUS = re.compile(rb"^HTTP/1\.([01]) (\d{3})(?: [^\r\n]*)?$")
_CHUNK = re.compile(rb"^([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?$")


class Malformed(ValueError):
    """Bytes that are not the HTTP, events or JSON they should be."""


class Framing(IntEnum):
    """How the end of a body is known."""

    LENGTH = 0
    CHUNKED = 1
    UNTIL_CLOSE = 2


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What the client needs to know of a response head."""

    status: int
    good: bool
    framing: Framing
    length: int
    keep_alive: bool
    event_stream: bool
    inference_header_bytes: int
    """KServe's `Inference-Header-Content-Length`: how much of a binary body is JSON; -1 where absent."""


def parse_head(head: bytes) -> ResponseHead:
    """The head of a response, without its final blank line."""
    lines = head.split(b"\r\n")
    first = _STATUS.match(lines[0])
    if first is None:
        raise Malformed(f"not an HTTP/1.1 status line: {lines[0][:60]!r}")
    status = int(first.group(2))
    keep_alive = first.group(1) == b"1"
    length: int | None = None
    chunked = event_stream = False
    encoding = b""
    inference_header = -1
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise Malformed(f"not a header line: {line[:60]!r}")
        name, value = name.lower(), value.strip()
        if name == b"content-length":
            if not value.isdigit() or (length is not None and length != int(value)):
                raise Malformed(f"content-length {value[:40]!r}")
            length = int(value)
        elif name == b"transfer-encoding":
            codings = [coding.strip() for coding in value.lower().split(b",")]
            if codings != [b"chunked"]:
                raise Malformed(f"transfer-encoding {value[:40]!r} is not understood")
            chunked = True
        elif name == b"connection":
            options = {option.strip() for option in value.lower().split(b",")}
            keep_alive = b"close" not in options and (keep_alive or b"keep-alive" in options)
        elif name == b"content-encoding" and value.lower() != b"identity":
            encoding = value
        elif name == b"content-type":
            event_stream = value.lower().startswith(b"text/event-stream")
        elif name == b"inference-header-content-length" and value.isdigit():
            inference_header = int(value)
    good = 200 <= status < 300
    if good and encoding:
        raise Malformed(f"content-encoding {encoding[:40]!r}, which was not asked for")
    if status < 200 or status in (204, 304):
        return ResponseHead(status, good, Framing.LENGTH, 0, keep_alive, event_stream, inference_header)
    if chunked:  # outranks a length, RFC 9112 section 6.3
        return ResponseHead(status, good, Framing.CHUNKED, 0, keep_alive, event_stream, inference_header)
    if length is None:
        return ResponseHead(status, good, Framing.UNTIL_CLOSE, 0, False, event_stream, inference_header)
    return ResponseHead(status, good, Framing.LENGTH, length, keep_alive, event_stream, inference_header)


def parse_chunk_size(line: bytes) -> int:
    """The size a chunk line announces; extensions are ignored."""
    match = _CHUNK.match(line)
    if match is None:
        raise Malformed(f"not a chunk size: {line[:40]!r}")
    return int(match.group(1), 16)


class EventSplitter:
    """Cuts a body into the data of its server-sent events, wherever the reads happened to be cut."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = b""
        """The part of an event that has come so far."""

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of every event that this piece completes."""
        text = self.held + piece
        if b"\r" in text:
            # Lines may end in CRLF or CR too; a CR at the very end may be half of a CRLF, so it waits.
            tail = b"\r" if text.endswith(b"\r") else b""
            text = text[: len(text) - len(tail)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + tail
        *complete, self.held = text.split(b"\n\n")
        if len(self.held) > LARGEST_EVENT_BYTES:
            raise Malformed(f"no end of an event in {LARGEST_EVENT_BYTES >> 20} MiB")
        return [data for data in map(_event_data, complete) if data]

    def flush(self) -> list[bytes]:
        """The last event of a body that ended without its blank line."""
        left, self.held = self.held.replace(b"\r", b"\n"), b""
        data = _event_data(left)
        return [data] if data else []


def _event_data(block: bytes) -> bytes:
    """The joined `data:` lines of one event; comments and other fields say nothing to us, but that it is an error."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines, failed = [], False
    for line in block.removeprefix(_BOM).split(b"\n"):
        name, _, value = line.partition(b":")
        failed = failed or name == b"error" or (name == b"event" and value.strip() == b"error")
        if name in (b"data", b"error"):  # llama.cpp had the second for what went wrong
            lines.append(value[1:] if value.startswith(b" ") else value)
    data = b"\n".join(lines)
    return data if not failed or b'"error"' in data else json.dumps({"error": data.decode("utf-8", "replace")}).encode()
