"""One HTTP/2 connection as the driver sees it: a gRPC call at a time, stamped as HTTP/1.1 is (wire.py).

A connection carries one call and then the next, as a kept-alive one carries requests; calls of a real channel share
one. What is timed is then the server and not the order in which a shared connection lets calls through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from time import perf_counter_ns

from lynxbench.load import http2
from lynxbench.load.direct_write import write_request
from lynxbench.load.hpack import HeaderDecoder, Headers
from lynxbench.load.http import Framing, Malformed, ResponseHead
from lynxbench.load.http2 import MessageSplitter
from lynxbench.load.load_record import RequestEnd, RowStore
from lynxbench.load.plan import TicketTimeouts
from lynxbench.load.response_reading import FAILED, OUTPUT, ResponseReader
from lynxbench.load.wire import Connection, Owner, Ticket

OPENING = (
    http2.PREFACE
    + http2.settings({http2.TABLE_SIZE: 0, http2.ENABLE_PUSH: 0, http2.INITIAL_WINDOW: http2.LARGEST_WINDOW})
    + http2.window(0, http2.LARGEST_WINDOW - http2.FIRST_WINDOW)
)
"""No header is remembered, so that equal blocks say the same; answers are never held back by the client."""
RENEWED_BYTES = 1 << 30
"""Read since the server was last given leave to send more."""
LAST_STREAM = 2**31 - 3
_REMEMBERED = 256
_OK = int(RequestEnd.OK)


class GrpcConnection(Connection):
    """A connection that carries one call at a time."""

    __slots__ = (
        "_block", "_block_flags", "_buffer", "_decoder", "_first_window", "_frame_bytes", "_going", "_left",
        "_messages", "_new", "_next_stream", "_stream", "_stream_window", "_unread", "_window",
    )  # fmt: skip

    _blocks: dict[bytes, Headers] = {}
    _new: int

    def __init__(
        self,
        owner: Owner,
        reader: ResponseReader,
        store: RowStore,
        timeouts: TicketTimeouts,
        *,
        process: int = 0,
        keep_text: bool = False,
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        super().__init__(owner, reader, store, timeouts, process=process, keep_text=keep_text, clock=clock)
        self._decoder = HeaderDecoder()
        self._buffer = b""
        self._block: bytes | None = None
        self._block_flags = 0
        self._next_stream, self._stream = 1, 0
        self._window = self._first_window = self._stream_window = http2.FIRST_WINDOW
        self._frame_bytes = http2.FRAME_BYTES
        self._unread = 0
        self._going = False

    # --- sending -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open it in HTTP/2's own way; a first call need not wait for the other side's settings."""
        super().connection_made(transport)
        self._put(OPENING)

    def send(self, ticket: Ticket) -> None:
        """Write the call and stamp it."""
        self.ticket = ticket
        request = ticket.request
        self.reader.begin(ticket.number)
        size = int.from_bytes(request[:4])
        stream = self._stream = self._next_stream
        self._next_stream += 2
        self._stream_window = self._first_window
        self._left = memoryview(request)[4 + size :]
        head = http2.frame_head(size, http2.HEADERS, http2.END_HEADERS, stream) + request[4 : 4 + size]
        data = head + self._data()
        now = self._clock()
        if ticket.sent_ns == 0:
            ticket.sent_ns = now
        self._last_ns = now
        self._put(data)

    def _data(self) -> bytes:
        """As much of the message as may be sent now."""
        pieces = []
        while self._left:
            size = min(len(self._left), self._frame_bytes, self._window, self._stream_window)
            if size <= 0:
                break
            last = size == len(self._left)
            pieces.append(http2.frame_head(size, http2.DATA, http2.END_STREAM if last else 0, self._stream))
            pieces.append(bytes(self._left[:size]))
            self._left = self._left[size:]
            self._window -= size
            self._stream_window -= size
        return b"".join(pieces)

    def _put(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or not data:
            return
        self._fd = write_request(transport, self._fd, data)

    # --- receiving ---------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Stamp first, then read."""
        now = self._clock()
        try:
            frames, self._buffer = http2.split_frames(self._buffer + data if self._buffer else data)
            for kind, flags, stream, payload in frames:
                if self._block is not None and (kind != http2.CONTINUATION or stream != self._stream):
                    raise Malformed("a header block that another frame interrupts")
                if stream == 0:
                    self._of_connection(kind, flags, payload)
                elif stream == self._stream and self.ticket is not None:
                    self._of_call(kind, flags, payload, now)
                elif kind == http2.HEADERS:
                    self._decode(http2.unpadded(flags, payload))  # it may be remembered all the same
                elif kind == http2.DATA:
                    self._account(len(payload))
        except ValueError as error:  # Malformed, and a reader's own
            if self.ticket is None:
                self.close()
            else:
                self._give_up(error)
            return
        ticket = self.ticket
        if ticket is None:
            return
        if self._new:
            self._note_outputs(self._new, now)
            self._new = 0
        if ticket.leave_events and self._events >= ticket.leave_events:
            self._finish(RequestEnd.CANCELLED, reusable=False)

    def _of_connection(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == http2.SETTINGS and not flags & http2.ACK:
            for name, value in http2.read_settings(payload):
                if name == http2.INITIAL_WINDOW:
                    self._stream_window += value - self._first_window
                    self._first_window = value
                elif name == http2.MAX_FRAME:
                    self._frame_bytes = max(http2.FRAME_BYTES, min(value, 2**24 - 1))
            self._put(http2.frame(http2.SETTINGS, http2.ACK, 0))
            self._send_more()
        elif kind == http2.PING and not flags & http2.ACK:
            self._put(http2.frame(http2.PING, http2.ACK, 0, payload))
        elif kind == http2.WINDOW:
            self._window += int.from_bytes(payload) & 0x7FFFFFFF
            self._send_more()
        elif kind == http2.GOAWAY:
            self._going = True
            if self.ticket is None:
                self.close()
            elif self._stream > int.from_bytes(payload[:4]) & 0x7FFFFFFF:
                self._not_served("the server goes away")

    def _of_call(self, kind: int, flags: int, payload: bytes, now: int) -> None:
        if kind == http2.WINDOW:
            self._stream_window += int.from_bytes(payload) & 0x7FFFFFFF
            self._send_more()
            return
        if kind == http2.RESET:
            self._reset_by_server(int.from_bytes(payload))
            return
        if kind not in (http2.DATA, http2.HEADERS, http2.CONTINUATION):
            if kind == http2.PUSH:
                raise Malformed("a pushed answer, which nobody asked for")
            return
        if self._first_byte_ns == 0:
            self._first_byte_ns = now
        self._last_ns = now
        self._bytes += len(payload) + 9
        if kind == http2.DATA:
            self._account(len(payload))
            self._read_data(http2.unpadded(flags & ~http2.PRIORITY, payload))
            if flags & http2.END_STREAM:
                self._end_of_call((), now)
            return
        if kind == http2.HEADERS:
            self._block, self._block_flags = http2.unpadded(flags, payload), flags
        elif self._block is None:
            raise Malformed("a header block that goes on before it began")
        else:
            self._block += payload
        if len(self._block) > http2.LARGEST_BLOCK:
            raise Malformed(f"no end of the header block in {http2.LARGEST_BLOCK} bytes")
        if not flags & http2.END_HEADERS:
            return
        block, self._block = self._block, None
        headers = self._decode(block)
        if self._head is None:
            self._head = _head_of(headers)
        if self._block_flags & http2.END_STREAM:
            self._end_of_call(headers, now)

    def _decode(self, block: bytes) -> Headers:
        known = self._blocks.get(block) if self._decoder.is_empty else None
        if known is None:
            stateless = self._decoder.is_empty
            known = self._decoder.decode(block)
            if stateless and self._decoder.is_empty:
                if len(self._blocks) >= _REMEMBERED:
                    self._blocks.clear()
                self._blocks[block] = known
        return known

    def _read_data(self, piece: bytes) -> None:
        for message in self._messages.feed(piece):
            what = self.reader.event(message)
            if what == OUTPUT:
                self._new += 1
            elif what == FAILED:
                self._outcome = int(RequestEnd.STREAM_ERROR)

    def _account(self, size: int) -> None:
        """Leave to send is renewed long before it runs out."""
        self._unread += size
        if self._unread > RENEWED_BYTES:
            self._put(http2.window(0, self._unread))
            self._unread = 0

    def _send_more(self) -> None:
        if self.ticket is not None and self._left:
            self._put(self._data())

    # --- the end of a call -------------------------------------------------------------------------------------------

    def _end_of_call(self, trailers: Headers, now: int) -> None:
        if self._new:
            self._note_outputs(self._new, now)
            self._new = 0
        head = self._head
        status = http2.said_status(trailers)
        outcome = self._outcome
        if head is None or not head.good:
            outcome = int(RequestEnd.HTTP_ERROR)
            self._say(f"{0 if head is None else head.status}: not a gRPC answer")
        elif status is None:
            outcome = int(RequestEnd.STREAM_ERROR)
            self._say("stream error: the call ended without its status")
        elif status[0]:
            outcome = int(RequestEnd.GRPC_ERROR)
            self._say(http2.status_words(*status)[:300])
        elif self._messages.is_within:
            outcome = int(RequestEnd.STREAM_ERROR)
            self._say("stream error: the answer broke off within a message")
        elif outcome != _OK:
            self._say(f"stream error: {self.reader.failure[:200]}")
        elif not self._events:
            outcome = int(RequestEnd.EMPTY_ANSWER)
            self._say("empty answer: status OK without output")
        self._finish(outcome, reusable=not self._left and not self._going and self._next_stream < LAST_STREAM)

    def _reset_by_server(self, code: int) -> None:
        if code == http2.REFUSED_STREAM:
            self._not_served("the server refused the call")
            return
        self._say(f"reset: the server ended the call with HTTP/2 error {code}")
        self._finish(RequestEnd.RESET, reusable=False)

    def _not_served(self, why: str) -> None:
        """The server says itself that it did nothing for this call: it deserves another connection, once."""
        ticket = self.ticket
        assert ticket is not None
        if ticket.retries:
            self._say(f"reset: {why}")
            self._finish(RequestEnd.RESET, reusable=False)
            return
        ticket.retries = 1
        self.ticket = None
        self._reset()
        self.close()
        self._owner.refused(ticket)

    def _reset(self) -> None:
        super()._reset()
        self._messages = MessageSplitter()
        self._left = memoryview(b"")
        self._new = 0


@lru_cache(maxsize=_REMEMBERED)
def _head_of(headers: Headers) -> ResponseHead:
    named = dict(headers)
    text = named.get(":status", "")
    if not (text.isascii() and text.isdigit()):
        raise Malformed("an answer without a status")
    grpc = named.get("content-type", "application/grpc").startswith("application/grpc")
    good = int(text) == 200 and grpc
    return ResponseHead(int(text), good, Framing.LENGTH, 0, True, True, -1)
