"""One HTTP/1.1 connection as the driver sees it: write a request, stamp what comes back, then read it.

Stamps are taken at the socket write and at the very top of `data_received`; parsing follows. There is no task, future
or timer per request or per token.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from time import perf_counter_ns
from typing import Protocol

from lynxbench.load.http import (
    LARGEST_CHUNK_LINE_BYTES,
    LARGEST_HEAD_BYTES,
    EventSplitter,
    Framing,
    Head,
    Malformed,
    parse_chunk_size,
    parse_head,
)
from lynxbench.load.reading import FAILED, OUTPUT, UNKNOWN_TOKENS, Reader
from lynxbench.load.record import Kind, RowStore

KEPT_ERROR_BYTES = 65_536
_REMEMBERED = 256
"""Distinct heads and chunk lines remembered; servers repeat themselves, and a dict look-up is cheaper than parsing."""

# Plain ints: enum members cost a look-up more on every read.
_LENGTH, _CHUNKED, _UNTIL_CLOSE = int(Framing.LENGTH), int(Framing.CHUNKED), int(Framing.UNTIL_CLOSE)
_OK = int(Kind.OK)
_STREAM_ERROR = int(Kind.STREAM_ERROR)

# One event in one chunk is what servers send: one pass of the regular-expression engine cuts a read into those.
# Whatever else follows falls into the second alternative whole, so that nothing is skipped, and takes the general way.
_EVENTS = re.compile(rb"([0-9a-fA-F]{1,8})\r\ndata: ([^\n]*)\n\n\r\n|[\s\S]+")
_END = b"0\r\n\r\n"


class Timeouts:
    """How long to wait, in nanoseconds; all are on by default."""

    __slots__ = ("connect_ns", "first_byte_ns", "idle_ns", "total_ns")

    def __init__(
        self, connect_s: float = 10.0, first_byte_s: float = 120.0, idle_s: float = 60.0, total_s: float = 600.0
    ) -> None:
        for name, value in (("connect", connect_s), ("first byte", first_byte_s), ("idle", idle_s), ("total", total_s)):
            if not 0 < value < 1e6:
                raise ValueError(f"{name} timeout {value} s must be positive and finite: a run must end")
        self.connect_ns = int(connect_s * 1e9)
        self.first_byte_ns = int(first_byte_s * 1e9)
        self.idle_ns = int(idle_s * 1e9)
        self.total_ns = int(total_s * 1e9)

    @property
    def shortest_ns(self) -> int:
        """The first moment after which anything can have timed out."""
        return min(self.connect_ns, self.first_byte_ns, self.idle_ns, self.total_ns)


class Ticket:
    """One request on its way: what is due, when, and what already happened to it."""

    __slots__ = ("answers", "connect_ns", "number", "request", "retries", "scheduled_ns", "sent_ns", "turn")

    def __init__(self, number: int, scheduled_ns: int, request: bytes) -> None:
        self.number = number
        self.turn = 0
        self.scheduled_ns = scheduled_ns
        self.request = request
        self.sent_ns = 0
        self.connect_ns = 0
        self.retries = 0
        self.answers: tuple[str, ...] = ()


class Owner(Protocol):
    """Who hands out tickets and gets connections back."""

    def answered(self, connection: Connection, ticket: Ticket, kind: int) -> None:
        """The ticket's row is stored; the connection is idle, or closed when not `usable`."""

    def refused(self, ticket: Ticket) -> None:
        """A kept-alive connection closed before the first byte: the ticket deserves another connection."""

    def gone(self, connection: Connection) -> None:
        """The connection has closed."""

    def note(self, text: str) -> None:
        """Something a failing response said."""


class Connection(asyncio.Protocol):
    """A keep-alive connection that carries one request at a time."""

    __slots__ = (
        "_body", "_bytes", "_carry", "_chunk_left", "_clock", "_events", "_fd", "_first_byte_ns", "_first_token_ns",
        "_head", "_keep_text", "_last_ns", "_outcome", "_owner", "_process", "_reads", "_splitter", "_store",
        "_timeouts", "_transport", "reader", "ticket", "usable", "used", "watched",
    )  # fmt: skip

    # Shared on purpose: all connections of a run talk to one server.
    _heads: dict[bytes, Head] = {}
    _sizes: dict[bytes, int] = {}

    def __init__(
        self,
        owner: Owner,
        reader: Reader,
        store: RowStore,
        timeouts: Timeouts,
        *,
        process: int = 0,
        keep_text: bool = False,
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._owner = owner
        self.reader = reader
        self._store = store
        self._timeouts = timeouts
        self._process = process
        self._keep_text = keep_text
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self._splitter = EventSplitter()
        self._reads: list[int] = []
        self._body: list[bytes] = []
        self._head: Head | None
        self._carry: bytes
        self._first_byte_ns: int
        self._first_token_ns: int
        self._bytes: int
        self._events: int
        self.ticket: Ticket | None = None
        self.usable = False
        self.used = False
        """It has been idle since it opened, or has answered before: the server may have closed it meanwhile."""
        self.watched = False
        self._reset()

    # --- the socket --------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open for use. Plain sockets are written directly, so that the stamp is the write and not a queue's."""
        self._transport = transport  # type: ignore[assignment]
        self.usable = True
        if transport.get_extra_info("ssl_object") is None:
            self._fd = transport.get_extra_info("socket").fileno()

    def send(self, ticket: Ticket) -> None:
        """Write the request and stamp it."""
        transport = self._transport
        assert transport is not None
        self.ticket = ticket
        request = ticket.request
        self.reader.begin()
        now = self._clock()
        if ticket.sent_ns == 0:
            ticket.sent_ns = now
        self._last_ns = now
        if self._fd < 0:
            transport.write(request)
            return
        try:
            written = os.write(self._fd, request)
        except BlockingIOError:
            written = 0
        except OSError:
            transport.abort()  # connection_lost decides between another try and a reset
            return
        if written != len(request):
            self._fd = -1  # from here on the transport keeps the order of what it has queued
            transport.write(memoryview(request)[written:])

    def data_received(self, data: bytes) -> None:
        """Stamp first, then read."""
        now = self._clock()
        if self.ticket is None:
            self.close()  # bytes nobody asked for: whatever follows could not be told apart from an answer
            return
        if self._first_byte_ns == 0:
            self._first_byte_ns = now
        self._last_ns = now
        self._bytes += len(data)
        try:
            self._read(data, now)
        except ValueError as error:  # Malformed, and the JSON decoder's own
            self._give_up(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side, or we, closed."""
        self.usable = False
        self._fd = -1
        ticket = self.ticket
        if ticket is not None:
            head = self._head
            if self._first_byte_ns == 0 and self.used and ticket.retries == 0:
                ticket.retries = 1
                self.ticket = None
                self._reset()
                self._owner.refused(ticket)
            elif head is not None and head.framing == _UNTIL_CLOSE and exc is None:
                try:
                    self._end_of_body(complete=False)
                except ValueError as error:
                    self._give_up(error)
            else:
                self._finish(Kind.RESET, reusable=False)
        self._owner.gone(self)

    def close(self) -> None:
        """Close at once; nothing more is read."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    # --- timeouts ----------------------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        """When the open request times out as things stand; 0 while idle."""
        ticket = self.ticket
        if ticket is None:
            return 0
        total = ticket.sent_ns + self._timeouts.total_ns
        if self._first_byte_ns == 0:
            return min(self._last_ns + self._timeouts.first_byte_ns, total)
        return min(self._last_ns + self._timeouts.idle_ns, total)

    def expire(self) -> None:
        """Give the request up."""
        ticket = self.ticket
        if ticket is None:
            return
        if self._clock() >= ticket.sent_ns + self._timeouts.total_ns:
            self._finish(Kind.TIMEOUT_TOTAL, reusable=False)
        elif self._first_byte_ns == 0:
            self._finish(Kind.TIMEOUT_FIRST_BYTE, reusable=False)
        else:
            self._finish(Kind.TIMEOUT_IDLE, reusable=False)

    def cut_off(self) -> None:
        """The run is over."""
        if self.ticket is not None:
            self._finish(Kind.CUT_OFF, reusable=False)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, data: bytes, now: int) -> None:
        if self._carry:
            data = self._carry + data
            self._carry = b""
        position = 0
        head = self._head
        while head is None:
            end = data.find(b"\r\n\r\n", position)
            if end < 0:
                if len(data) - position > LARGEST_HEAD_BYTES:
                    raise Malformed(f"no end of the response head in {LARGEST_HEAD_BYTES} bytes")
                self._carry = data[position:]
                return
            raw = data[position:end]
            position = end + 4
            head = self._heads.get(raw)
            if head is None:
                head = parse_head(raw)
                if len(self._heads) >= _REMEMBERED:
                    self._heads.clear()
                self._heads[raw] = head
            if head.status < 200:
                head = None  # an interim response; the real one follows
        if self._head is None:
            self._head = head
            self._chunk_left = head.length if head.framing == _LENGTH else 0
        if head.framing == _CHUNKED:
            self._read_chunks(data, position, now, head.event_stream and head.good)
        else:
            self._read_plain(data, position, now, head)

    def _read_chunks(self, data: bytes, position: int, now: int, events: bool) -> None:
        size_of = self._sizes.get
        find = data.find
        length = len(data)
        read_event = self.reader.event
        outputs = 0
        left = self._chunk_left  # data and its CRLF still to come of the current chunk
        if left:
            taken = min(left - 2, length) if left > 2 else 0
            if taken:
                piece = data[:taken]
                if events:
                    outputs += self._read_events(self._splitter.feed(piece))
                else:
                    self._keep(piece)
            skip = min(left - taken, length - taken) if taken == max(left - 2, 0) else 0
            position = taken + skip
            self._chunk_left = left = left - position
        if not left:
            splitter = self._splitter
            if events and not splitter.held:
                for line, event in _EVENTS.findall(data, position):
                    size = size_of(line)
                    if size is None:
                        if not line:
                            break
                        size = self._parse_size(line)
                    if size != len(event) + 8:
                        break  # it only looked like one event in one chunk
                    position += size + len(line) + 4
                    what = read_event(event)
                    if what == OUTPUT:
                        outputs += 1
                    elif what == FAILED:
                        self._outcome = _STREAM_ERROR
            if data[position:] == _END:
                if outputs:
                    self._note_outputs(outputs, now)
                self._end_of_body(complete=True)
                return
            while True:
                line_end = find(b"\r\n", position)
                if line_end < 0:
                    if length - position > LARGEST_CHUNK_LINE_BYTES:
                        raise Malformed("a chunk size line without an end")
                    self._carry = data[position:]
                    break
                line = data[position:line_end]
                size = size_of(line)
                if size is None:
                    size = self._parse_size(line)
                start = line_end + 2
                if size == 0:
                    end = start + 2
                    if data[start:end] != b"\r\n":
                        blank = find(b"\r\n\r\n", start)
                        if blank < 0:
                            if length - position > LARGEST_HEAD_BYTES:
                                raise Malformed("trailers without an end")
                            self._carry = data[position:]
                            break
                        end = blank + 4
                    if outputs:
                        self._note_outputs(outputs, now)
                    self._end_of_body(complete=end == length)
                    return
                stop = start + size
                position = stop + 2
                if events:
                    outputs += self._read_events(splitter.feed(data[start:stop]))
                else:
                    self._keep(data[start:stop])
                if position >= length:
                    self._chunk_left = position - length
                    break
        if outputs:
            self._note_outputs(outputs, now)

    def _read_plain(self, data: bytes, position: int, now: int, head: Head) -> None:
        piece = data[position:] if position else data
        extra = False
        if head.framing == _LENGTH:
            extra = len(piece) > self._chunk_left
            piece = piece[: self._chunk_left]
            self._chunk_left -= len(piece)
        if head.event_stream and head.good:
            outputs = self._read_events(self._splitter.feed(piece))
            if outputs:
                self._note_outputs(outputs, now)
        else:
            self._keep(piece)
        if head.framing == _LENGTH and self._chunk_left == 0:
            self._end_of_body(complete=not extra)

    def _parse_size(self, line: bytes) -> int:
        size = parse_chunk_size(line)
        if len(self._sizes) >= _REMEMBERED * 16:
            self._sizes.clear()
        self._sizes[line] = size
        return size

    def _read_events(self, events: list[bytes]) -> int:
        outputs = 0
        for data in events:
            what = self.reader.event(data)
            if what == OUTPUT:
                outputs += 1
            elif what == FAILED:
                self._outcome = _STREAM_ERROR
        return outputs

    def _note_outputs(self, outputs: int, now: int) -> None:
        if self._first_token_ns == 0:
            self._first_token_ns = now
        self._events += outputs
        self._reads += (now, outputs)

    def _keep(self, piece: bytes) -> None:
        head = self._head
        if head is not None and not head.good and sum(map(len, self._body)) > KEPT_ERROR_BYTES:
            return
        self._body.append(piece)

    def _end_of_body(self, complete: bool) -> None:
        """The framing says that the body is over; `complete` also says that the connection is in step."""
        head = self._head
        assert head is not None
        outcome = self._outcome
        now = self._last_ns
        if not head.good:
            outcome = int(Kind.HTTP_ERROR)
            self._owner.note(f"{head.status}: {b''.join(self._body)[:200].decode('utf-8', 'replace')}")
        elif head.event_stream:
            if self._splitter.held:
                outputs = self._read_events(self._splitter.flush())
                outcome = self._outcome
                if outputs:
                    self._note_outputs(outputs, now)
            if head.framing == _UNTIL_CLOSE and not self.reader.finished and outcome == _OK:
                outcome = int(Kind.RESET)  # nothing but the answer itself can say that it is whole
        else:
            what = self.reader.body(b"".join(self._body), head.inference_header_bytes)
            if what == FAILED:
                outcome = _STREAM_ERROR
            elif what == OUTPUT:
                self._note_outputs(1, now)
        if outcome == _STREAM_ERROR:
            self._owner.note(f"stream error: {self.reader.failure[:200]}")
        self._finish(outcome, reusable=complete and head.keep_alive)

    def _finish(self, kind: int, *, reusable: bool) -> None:
        ticket = self.ticket
        if ticket is None:
            return
        reader, reads, head = self.reader, self._reads, self._head
        reads_count = len(reads) >> 1
        known = kind == _OK
        self._store.add(
            (
                ticket.number,
                ticket.turn,
                self._process,
                ticket.scheduled_ns,
                ticket.sent_ns,
                ticket.connect_ns,
                self._first_byte_ns,
                self._first_token_ns,
                self._last_ns if self._first_byte_ns else 0,
                self._bytes,
                self._events,
                reader.output_tokens if known else UNKNOWN_TOKENS,
                reader.input_tokens if known else UNKNOWN_TOKENS,
                reader.cached_tokens if known else UNKNOWN_TOKENS,
                kind,
                0 if head is None else head.status,
                self._events - reads_count,
                ticket.retries,
                reads_count,
            )
        )
        if reads_count:
            self._store.reads.fromlist(reads)
        if self._keep_text:
            self._store.texts.append(reader.text())
        self.ticket = None
        self._reset()
        self.used = True
        if not reusable:
            self.close()
        self._owner.answered(self, ticket, kind)

    def _give_up(self, error: ValueError) -> None:
        """What came cannot be read; nothing after it could be trusted."""
        self._owner.note(f"malformed: {error}"[:300])
        self._finish(Kind.MALFORMED, reusable=False)

    def _reset(self) -> None:
        self._head = None
        self._carry = b""
        self._chunk_left = 0
        self._first_byte_ns = 0
        self._first_token_ns = 0
        self._last_ns = 0
        self._bytes = 0
        self._events = 0
        self._outcome = _OK
        if self._reads:
            self._reads.clear()
        if self._body:
            self._body.clear()
        self._splitter.held = b""
