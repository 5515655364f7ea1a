"""One HTTP/1.1 connection as the driver sees it: write a request, stamp what comes back, then read it.

Stamps are taken at the socket write and at the very top of `data_received`; parsing follows. There is no task, future
or timer per request or per token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Protocol

from lynxbench.load.answer import UNTIL_CLOSE, AnswerStream
from lynxbench.load.direct_write import write_request
from lynxbench.load.load_record import RequestEnd, RowStore
from lynxbench.load.plan import TicketTimeouts
from lynxbench.load.response_reading import UNKNOWN_TOKENS, ResponseReader
from lynxbench.load.said_answers import sketch

_OK = int(RequestEnd.OK)  # a plain int: enum members cost a look-up more
_CANCELLED = int(RequestEnd.CANCELLED)


class Ticket:
    """One request on its way: what is due, when, and what already happened to it."""

    __slots__ = (
        "answers", "connect_ns", "ended_ns", "leave_events", "leave_ns", "number", "request", "retries", "scheduled_ns",
        "sent_ns", "turn",
    )  # fmt: skip

    def __init__(self, number: int, scheduled_ns: int, request: bytes) -> None:
        self.number = number
        self.turn = 0
        self.scheduled_ns = scheduled_ns
        self.request = request
        self.sent_ns = 0
        self.connect_ns = 0
        self.ended_ns = 0
        self.retries = 0
        self.answers: tuple[str, ...] = ()
        self.leave_events = self.leave_ns = 0
        """The client gives it up after so many pieces of output, or so long after it was due; 0 is never."""


def unanswered_row(ticket: Ticket, part: int, kind: RequestEnd) -> tuple[int, ...]:
    """A row of the record, in the order of its columns, for a request that got no answer."""
    unknown = UNKNOWN_TOKENS
    return (
        *(ticket.number, ticket.turn, part, ticket.scheduled_ns, ticket.sent_ns, ticket.connect_ns),
        *(0, 0, 0, 0, 0, unknown, unknown, unknown, int(kind), 0, 0, ticket.retries, 0, unknown, 0),
    )


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


class Connection(AnswerStream, asyncio.Protocol):
    """A keep-alive connection that carries one request at a time."""

    __slots__ = (
        "_clock", "_fd", "_keep_text", "_owner", "_pieces", "_process", "_store", "_timeouts", "_transport", "ticket",
        "usable", "used", "watched",
    )  # fmt: skip

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
        super().__init__(reader)
        self._owner = owner
        self._store = store
        self._timeouts = timeouts
        self._process = process
        self._keep_text = keep_text
        self._pieces: Callable[[], Sequence[str]] | None = getattr(reader, "pieces", None)
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self.ticket: Ticket | None = None
        self.usable = False
        self.used = False
        """It has been idle since it opened, or has answered before: the server may have closed it meanwhile."""
        self.watched = False

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
        self.reader.begin(ticket.number)
        now = self._clock()
        if ticket.sent_ns == 0:
            ticket.sent_ns = now
        self._last_ns = now
        self._fd = write_request(transport, self._fd, request)

    def data_received(self, data: bytes) -> None:
        """Stamp first, then read."""
        now = self._clock()
        ticket = self.ticket
        if ticket is None:
            self.close()  # bytes nobody asked for: whatever follows could not be told apart from an answer
            return
        if self._first_byte_ns == 0:
            self._first_byte_ns = now
        self._last_ns = now
        self._bytes += len(data)
        try:
            self._read(data, now)
        except (ValueError, RecursionError) as error:  # Malformed, and the JSON decoder's own
            self._give_up(error)
        if ticket.leave_events and self.ticket is ticket and self._events >= ticket.leave_events:
            self._finish(RequestEnd.CANCELLED, reusable=False)

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
            elif head is not None and head.framing == UNTIL_CLOSE and exc is None:
                try:
                    self._end_of_body(complete=False)
                except (ValueError, RecursionError) as error:
                    self._give_up(error)
            else:
                self._finish(RequestEnd.RESET, reusable=False)
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
        if ticket.leave_ns:
            total = min(total, ticket.scheduled_ns + ticket.leave_ns)
        if self._first_byte_ns == 0:
            return min(self._last_ns + self._timeouts.first_byte_ns, total)
        return min(self._last_ns + self._timeouts.idle_ns, total)

    def expire(self) -> None:
        """Give the request up."""
        ticket = self.ticket
        if ticket is None:
            return
        now = self._clock()
        if ticket.leave_ns and now >= ticket.scheduled_ns + ticket.leave_ns:
            self._last_ns = now  # that long it was waited for, whether or not anything came
            self._finish(RequestEnd.CANCELLED, reusable=False)
        elif now >= ticket.sent_ns + self._timeouts.total_ns:
            self._finish(RequestEnd.TIMEOUT_TOTAL, reusable=False)
        elif self._first_byte_ns == 0:
            self._finish(RequestEnd.TIMEOUT_FIRST_BYTE, reusable=False)
        else:
            self._finish(RequestEnd.TIMEOUT_IDLE, reusable=False)

    def cut_off(self) -> None:
        """The run is over."""
        if self.ticket is not None:
            self._finish(RequestEnd.CUT_OFF, reusable=False)

    # --- the end of an answer ----------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self._owner.note(text)

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
                self._last_ns if self._first_byte_ns or kind == _CANCELLED else 0,
                self._bytes,
                self._events,
                # An answer has output: a count of none is no count.
                (reader.output_tokens or UNKNOWN_TOKENS) if known else UNKNOWN_TOKENS,
                reader.input_tokens if known else UNKNOWN_TOKENS,
                reader.cached_tokens if known else UNKNOWN_TOKENS,
                kind,
                0 if head is None else head.status,
                self._events - reads_count,
                ticket.retries,
                self._first_answer_ns,
                reader.reasoning_tokens if known else UNKNOWN_TOKENS,
                reads_count,
            )
        )
        if reads_count:
            self._store.reads.fromlist(reads)
        if self._keep_text:
            self._store.texts.append(reader.text())
        if known and self._pieces is not None and (pieces := self._pieces()):
            said = sketch(ticket.number, ticket.turn, pieces, self._events, reader.output_tokens)
            self._store.said.fromlist(list(said))
        ticket.ended_ns = self._last_ns
        self.ticket = None
        self._reset()
        self.used = True
        if not reusable:
            self.close()
        self._owner.answered(self, ticket, kind)

    def _give_up(self, error: ValueError | RecursionError) -> None:
        """What came cannot be read; nothing after it could be trusted."""
        self._owner.note(f"malformed: {error}"[:300])
        self._finish(RequestEnd.MALFORMED, reusable=False)
