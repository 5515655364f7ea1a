"""Who is asked what and when: requests handed out by a schedule or a concurrency, over a pool of connections."""

from __future__ import annotations

import asyncio
import heapq
from abc import ABC, abstractmethod
from collections import deque
from time import perf_counter_ns

from lynxbench.load.connecting import Way
from lynxbench.load.grpc_wire import GrpcConnection
from lynxbench.load.load_record import RequestEnd, RowStore
from lynxbench.load.open_sessions import DueCall, OpenSessions, SessionScript
from lynxbench.load.plan import ClosedLoop, LoadPlan
from lynxbench.load.timers import PreciseTimer, TimerWheel
from lynxbench.load.wire import Connection, Ticket, unanswered_row

BACKOFF_NS = 100_000_000
"""A closed loop waits this long after a failed connect, and where as many requests as it has slots have failed without
a good one between them: who is down, or refuses at once, must not be hammered, nor fill the record."""
KEPT_NOTES = 50
SENT_TOGETHER = 16
"""A closed loop's next requests are written in one go, at the latest when so many are due: a server that waits is woken
once and not for each, which is a quarter of the client's cost a request. Below saturation a turn of the loop holds one
or two, and nothing waits; at saturation a request waits for at most fifteen others, under half a millisecond."""
MOST_AT_ONCE = 64
"""Requests sent in one turn of the event loop; a client that is behind must still read, or it would never catch up."""


class Opening:
    """A connection on its way, for one ticket: the one task there is, and only where no idle connection was left."""

    __slots__ = ("_task", "_traffic", "since_ns", "ticket")

    def __init__(self, traffic: Traffic, ticket: Ticket) -> None:
        self._traffic = traffic
        self.ticket = ticket
        self.since_ns = perf_counter_ns()
        self._task = asyncio.get_running_loop().create_task(traffic.open_connection(self))

    def deadline_ns(self) -> int:
        """When it is given up; 0 once it is decided."""
        return 0 if self._task.done() else self.since_ns + self._traffic.connect_timeout_ns

    def expire(self) -> None:
        """Give it up, and say so."""
        self._task.cancel()
        self._traffic.unreachable(self, RequestEnd.TIMEOUT_CONNECT, "no connection in time")

    def abandon(self) -> None:
        """Give it up: the run is over."""
        self._task.cancel()


class Traffic(ABC):
    """One process's requests and connections; when they end is told by who runs it (driver.py)."""

    _loop: asyncio.AbstractEventLoop
    _way: Way
    _wheel: TimerWheel
    _timer: PreciseTimer
    _start_ns: int
    _end_ns: int

    def __init__(self, plan: LoadPlan, part: int = 0, parts: int = 1) -> None:
        self._plan = plan
        self._part, self._parts = part, parts
        self._store = RowStore()
        self._notes: dict[str, int] = {}
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._opening: set[Opening] = set()
        self._waiting: deque[Ticket] = deque()
        self._held: list[tuple[Connection, Ticket]] = []
        self._later: list[tuple[int, int, Ticket | None]] = []
        self._outstanding = 0
        self._issued = self._failed_in_row = 0
        self._ending = False
        self._stop_reason = ""
        self._multi_turn = not plan.script.stands_alone
        self._sessions = OpenSessions(plan.script) if isinstance(plan.script, SessionScript) else None
        self.connect_timeout_ns = plan.timeouts.connect_ns
        load = plan.load
        self._closed = isinstance(load, ClosedLoop)
        if isinstance(load, ClosedLoop):
            self._slots = self._patience = share_of(load.concurrency, part, parts)
            self._quota = None if load.requests is None else share_of(load.requests, part, parts)
            self._offsets: list[int] = []
        else:
            self._slots, self._quota, self._patience = 0, None, 0
            mine = load.offsets_ns[part::parts]
            self._offsets = mine[mine < plan.duration_s * 1e9].tolist()

    @abstractmethod
    def _settle(self, now: int) -> None:
        """Something ended: is everything over?"""

    # --- handing out -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._next = 0
        if not self._closed:
            if self._offsets:
                self._timer.arm(self._start_ns + self._offsets[0])
            else:
                self._stop_reason = "the schedule is empty"
                self._loop.call_soon(self._settle, perf_counter_ns())
            return
        load = self._plan.load
        assert isinstance(load, ClosedLoop)
        step_ns = int(load.ramp_up_s * 1e9 / self._slots)
        for slot in range(self._slots):
            self._put_later(None, self._start_ns + slot * step_ns)
        self._arm_later()

    def _due(self) -> None:
        """The timer: send everything whose moment has come."""
        now = perf_counter_ns()
        start, offsets, place = self._start_ns, self._offsets, self._next
        count = min(len(offsets), place + MOST_AT_ONCE)
        while place < count and start + offsets[place] <= now:
            number = self._part + place * self._parts
            self._next = place = place + 1
            self._outstanding += 1
            self._dispatch(self._arrival(number, start + offsets[place - 1]))
            now = perf_counter_ns()
        for _ in range(MOST_AT_ONCE):
            if not self._later or self._later[0][0] > now:
                break
            due_ns, _, ticket = heapq.heappop(self._later)
            if ticket is None:
                self._next_of_slot(None)
            else:
                ticket.scheduled_ns = due_ns
                self._dispatch(ticket)
            now = perf_counter_ns()
        self._arm_later()

    def _arm_later(self) -> None:
        at = self._later[0][0] if self._later else 0
        if self._next < len(self._offsets):
            due = self._start_ns + self._offsets[self._next]
            at = min(at, due) if at else due
        if at:
            self._timer.arm(at)

    def _put_later(self, ticket: Ticket | None, at_ns: int) -> None:
        self._issued += 1
        heapq.heappush(self._later, (at_ns, self._issued, ticket))

    def _next_of_slot(self, connection: Connection | None) -> None:
        """A closed loop's slot is free: its next request, or the end."""
        now = perf_counter_ns()
        if now >= self._end_ns or (self._quota is not None and self._next >= self._quota):
            self._slots -= 1
            if connection is not None and connection.usable:
                self._idle.append(connection)
            self._settle(now)
            return
        number = self._part + self._next * self._parts
        self._next += 1
        self._outstanding += 1
        ticket = self._arrival(number, now)
        if connection is None or not connection.usable:
            self._dispatch(ticket)
            return
        self._held.append((connection, ticket))
        if len(self._held) >= SENT_TOGETHER:
            self._send_held()
        elif len(self._held) == 1:
            self._loop.call_soon(self._send_held)

    def _send_held(self) -> None:
        """Write the next requests of the slots that came free in this turn of the event loop."""
        held, self._held = self._held, []
        for connection, ticket in held:
            if connection.usable:
                self._send(connection, ticket, ticket.scheduled_ns)
            else:
                self._dispatch(ticket)  # the server closed it in between

    def _dispatch(self, ticket: Ticket) -> None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                self._send(connection, ticket, ticket.scheduled_ns)
                return
        if len(self._open) + len(self._opening) < self._plan.max_connections:
            self._open_for(ticket)
        else:
            self._waiting.append(ticket)

    def _send(self, connection: Connection, ticket: Ticket, now: int) -> None:
        connection.send(ticket)
        if not connection.watched:
            connection.watched = True
            self._wheel.watch(connection, now)

    # --- what connections tell ---------------------------------------------------------------------------------------

    def answered(self, connection: Connection, ticket: Ticket, kind: int) -> None:
        """A row is stored: go on with the conversation, the slot or the queue."""
        self._outstanding -= 1
        if self._ending:
            return
        good = kind == RequestEnd.OK
        self._failed_in_row = 0 if good or kind == RequestEnd.CANCELLED else self._failed_in_row + 1
        if self._sessions is not None:
            continued = self._go_on(self._sessions, ticket, good=good)
        else:
            continued = self._multi_turn and good and self._continue(ticket, connection.reader.text())
        if self._closed and not continued:
            if self._failed_in_row <= self._patience:
                self._next_of_slot(connection)
                return
            self._put_later(None, perf_counter_ns() + BACKOFF_NS)
            self._arm_later()
        if connection.usable:
            if self._waiting:
                self._send(connection, self._waiting.popleft(), perf_counter_ns())
            else:
                self._idle.append(connection)
        if self._outstanding == 0:
            self._settle(perf_counter_ns())

    def refused(self, ticket: Ticket) -> None:
        """Closed before the first byte by keep-alive's race: once more, on a connection of its own."""
        if self._ending:
            self._outstanding -= 1
            self._store_unanswered(ticket, RequestEnd.RESET)
        else:
            self._open_for(ticket)

    def gone(self, connection: Connection) -> None:
        """A connection has closed; its place can be used by who waits."""
        self._open.discard(connection)
        if self._waiting and not self._ending:
            self._open_for(self._waiting.popleft())

    def note(self, text: str) -> None:
        """Count what failing responses say, up to a number of distinct texts."""
        if text in self._notes or len(self._notes) < KEPT_NOTES:
            self._notes[text] = self._notes.get(text, 0) + 1

    def _opened(self, opening: Opening, connection: Connection) -> None:
        """A connection asked for by a ticket is there."""
        self._opening.discard(opening)
        self._open.add(connection)
        ticket = opening.ticket
        if self._ending:
            connection.close()
            return
        now = perf_counter_ns()
        if ticket.sent_ns == 0:  # the second connection of a retry comes after the first write
            ticket.connect_ns = now - opening.since_ns
        self._send(connection, ticket, now)

    def unreachable(self, opening: Opening, kind: RequestEnd, why: str) -> None:
        """A connection asked for by a ticket did not come about."""
        if opening not in self._opening:
            return
        self._opening.discard(opening)
        ticket = opening.ticket
        if ticket.sent_ns == 0:
            ticket.connect_ns = perf_counter_ns() - opening.since_ns
        self._outstanding -= 1
        self.note(f"{kind.word}: {why}")
        self._store_unanswered(ticket, kind)
        if self._ending:
            return
        if self._sessions is not None and self._go_on(self._sessions, ticket, good=False):
            return
        if self._closed:
            self._put_later(None, perf_counter_ns() + BACKOFF_NS)
            self._arm_later()
        elif self._outstanding == 0:
            self._settle(perf_counter_ns())

    def _continue(self, ticket: Ticket, answer: str) -> bool:
        """Queue the next turn of a conversation; False when it is over."""
        if perf_counter_ns() >= self._end_ns:
            return False
        answers = (*ticket.answers, answer)
        request = self._plan.script.follow(ticket.number, answers)
        if request is None:
            return False
        following = self._ticket(ticket.number, 0, request, ticket.turn + 1)
        following.answers = answers
        self._outstanding += 1
        self._put_later(following, perf_counter_ns() + int(self._plan.think_s * 1e9))
        self._arm_later()
        return True

    def _arrival(self, number: int, due_ns: int) -> Ticket:
        """The request of an arrival; of a session its first, and the others that wait for none are due later."""
        if self._sessions is not None:
            others = self._sessions.begin(number, due_ns)[1:]
            self._sessions.is_over(number, self._put_calls(self._sessions, number, others))
        return self._ticket(number, due_ns, self._plan.script.first(number))

    def _ticket(self, number: int, due_ns: int, request: bytes, turn: int = 0) -> Ticket:
        ticket = Ticket(number, due_ns, request)
        ticket.turn = turn
        leaving = self._plan.leaving
        if leaving is not None and leaving.is_left(number, turn):
            ticket.leave_events, ticket.leave_ns = leaving.after_events, leaving.after_ns
        return ticket

    def _go_on(self, sessions: OpenSessions, ticket: Ticket, *, good: bool) -> bool:
        """Queue the calls that waited for this one; False when its session is over."""
        due = sessions.end(ticket.number, ticket.turn, ticket.ended_ns, good=good)
        return not sessions.is_over(ticket.number, self._put_calls(sessions, ticket.number, due))

    def _put_calls(self, sessions: OpenSessions, number: int, calls: list[DueCall]) -> int:
        """Queue calls of a session; how many were left out, because they are due after the load."""
        asked = [call for call in calls if call.due_ns < self._end_ns]
        for call in asked:
            self._outstanding += 1
            request = sessions.request(number, call.place)
            self._put_later(self._ticket(number, call.due_ns, request, call.place), call.due_ns)
        if asked:
            self._arm_later()
        return len(calls) - len(asked)

    def _forget_calls(self, now: int) -> None:
        """The load is closed: calls of sessions that are not due yet are not owed."""
        if self._sessions is None:
            return
        later, self._later = self._later, []
        for due_ns, order, ticket in later:
            if ticket is None or due_ns <= now:
                heapq.heappush(self._later, (due_ns, order, ticket))
                continue
            self._outstanding -= 1
            if self._sessions.is_over(ticket.number, 1) and self._closed:
                self._slots -= 1

    def _store_unanswered(self, ticket: Ticket, kind: RequestEnd) -> None:
        self._store.add(unanswered_row(ticket, self._part, kind))
        if self._plan.keep_text or self._multi_turn:
            self._store.texts.append("")

    # --- connecting --------------------------------------------------------------------------------------------------

    def _connection(self) -> Connection:
        """A connection of this probe, not yet open."""
        keep = self._plan.keep_text or self._multi_turn
        reader = self._plan.language.reader(keep)
        wire = GrpcConnection if self._plan.over_http2 else Connection
        return wire(self, reader, self._store, self._plan.timeouts, process=self._part, keep_text=keep)

    def _open_for(self, ticket: Ticket) -> None:
        """Open a connection for a ticket that found none idle; count and watch the attempt."""
        opening = Opening(self, ticket)
        self._opening.add(opening)
        self._wheel.watch(opening, opening.since_ns)

    async def open_connection(self, opening: Opening) -> None:
        """Open the connection that a ticket waits for, and say how that ended."""
        connection = self._connection()
        try:
            await self._way.connect(connection)
        except asyncio.CancelledError:
            connection.close()  # it may have opened in the very moment it was given up
        except OSError as error:
            self.unreachable(opening, RequestEnd.CONNECT_ERROR, error.strerror or str(error))
        else:
            self._opened(opening, connection)

    async def _preconnect(self) -> None:
        connection = self._connection()
        if await self._way.is_open(connection, self.connect_timeout_ns):
            connection.used = True
            self._open.add(connection)
            self._idle.append(connection)


def share_of(whole: int, part: int, parts: int) -> int:
    """A part's share of a whole number; the first parts take what does not divide."""
    return whole // parts + (part < whole % parts)
