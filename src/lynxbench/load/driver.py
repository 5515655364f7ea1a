"""Runs a probe: hands out requests by a schedule or a concurrency, keeps the pool, and always ends."""

from __future__ import annotations

import asyncio
import gc
import heapq
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from lynxbench.load.connecting import Opening, resolve, tls_context
from lynxbench.load.event_loop import new_event_loop, raise_file_limit
from lynxbench.load.plan import ClosedLoop, Plan
from lynxbench.load.pulse import TICK_NS, Pulse
from lynxbench.load.reading import UNKNOWN_TOKENS
from lynxbench.load.record import Kind, LoadRecord, RowStore, assemble, merge
from lynxbench.load.timers import PreciseTimer, TimerWheel
from lynxbench.load.wire import Connection, Ticket

BACKOFF_NS = 100_000_000
"""A closed loop waits this long after a failed connect: one that is down must not be hammered, nor fill the record."""
KEPT_NOTES = 50
SENT_TOGETHER = 16
"""A closed loop's next requests are written in one go, at the latest when so many are due: a server that waits is woken
once and not for each, which is a quarter of the client's cost a request. Below saturation a turn of the loop holds one
or two, and nothing waits; at saturation a request waits for at most fifteen others, under half a millisecond."""
MOST_AT_ONCE = 64
"""Requests sent in one turn of the event loop; a client that is behind must still read, or it would never catch up."""


JOURNAL_NS = 200_000_000
"""Finished rows are handed on this often: soon enough to decide by, seldom enough not to be felt."""


@dataclass(frozen=True, slots=True)
class Line:
    """To the process that started this one: rows go out as they finish; a byte coming in, or the end, stops."""

    journal_fd: int
    control_fd: int


class Probe:
    """One process's part of a plan, on one event loop."""

    def __init__(self, plan: Plan, part: int = 0, parts: int = 1, line: Line | None = None) -> None:
        self._line = line
        self._journal_ns = 0
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
        self._issued = 0
        self._ending = False
        self._stop_reason = ""
        self._multi_turn = not plan.script.stands_alone
        self._tls = tls_context(plan.target)
        self.connect_timeout_ns = plan.timeouts.connect_ns
        load = plan.load
        self._closed = isinstance(load, ClosedLoop)
        if isinstance(load, ClosedLoop):
            self._slots = _share(load.concurrency, part, parts)
            self._quota = None if load.requests is None else _share(load.requests, part, parts)
            self._offsets: list[int] = []
        else:
            self._slots, self._quota = 0, None
            mine = load.offsets_ns[part::parts]
            self._offsets = mine[mine < plan.duration_s * 1e9].tolist()

    # --- life of a probe ---------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Resolve the address and open the connections that should be there before the clock starts."""
        self._loop = asyncio.get_running_loop()
        self._address = await resolve(self._loop, self._plan.target)
        self._wheel = TimerWheel(TICK_NS, self._plan.timeouts.shortest_ns)
        wanted = max(self._slots, _share(self._plan.preconnect, self._part, self._parts))
        for first in range(0, min(wanted, self._plan.max_connections), 64):
            batch = [self._preconnect() for _ in range(first, min(wanted, first + 64))]
            await asyncio.gather(*batch)
        gc.collect()  # now, and not between the start and the first request
        gc.freeze()

    async def run(self, start_ns: int) -> LoadRecord:
        """Send, receive and end; whatever happens, there is a record."""
        plan = self._plan
        self._done = self._loop.create_future()
        self._start_ns = start_ns
        self._end_ns = start_ns + int(plan.duration_s * 1e9)
        self._give_up_ns = self._end_ns + int(plan.drain_s * 1e9)
        self._timer = PreciseTimer(self._loop, self._due)
        self._pulse = Pulse(self._loop, self._part, self._tick)
        if self._line is not None:
            self._loop.add_reader(self._line.control_fd, self._controlled)
        collecting = gc.isenabled()
        gc.disable()  # a collection in the middle of a run is a pause that would be read as the server's
        interrupt = self._watch_interrupt()
        try:
            self._begin()
            self._pulse.start(start_ns)
            await self._done
        finally:
            interrupt()
            if self._line is not None:
                self._loop.remove_reader(self._line.control_fd)
            if collecting:
                gc.enable()
            gc.unfreeze()
            self._timer.close()
            self._pulse.stop()
        self._close_all()
        await asyncio.sleep(0)
        return assemble(
            self._store,
            start_ns=start_ns,
            end_ns=perf_counter_ns(),
            stop_reason=self._stop_reason or "done",
            health=(self._pulse.health(),),
            notes=self._notes,
        )

    def close_load(self) -> None:
        """Ask nothing more; what is open may finish within the drain bound."""
        now = perf_counter_ns()
        self._end_ns = min(self._end_ns, now)
        self._give_up_ns = min(self._give_up_ns, now + int(self._plan.drain_s * 1e9))
        del self._offsets[self._next :]  # what is not due yet is not owed
        self._settle(now)

    def stop(self, reason: str) -> None:
        """End now: what is open is cut off, what is due is unsent."""
        self._stop_reason = self._stop_reason or reason
        self._end_ns = self._give_up_ns = 0
        self._settle(perf_counter_ns())

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
            self._dispatch(Ticket(number, start + offsets[place - 1], self._plan.script.first(number)))
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
        ticket = Ticket(number, now, self._plan.script.first(number))
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
            Opening(self, ticket)
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
        continued = self._multi_turn and kind == Kind.OK and self._continue(ticket, connection.reader.text())
        if self._closed and not continued:
            self._next_of_slot(connection)
            return
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
            self._store_unanswered(ticket, Kind.RESET)
        else:
            Opening(self, ticket)

    def gone(self, connection: Connection) -> None:
        """A connection has closed; its place can be used by who waits."""
        self._open.discard(connection)
        if self._waiting and not self._ending:
            Opening(self, self._waiting.popleft())

    def note(self, text: str) -> None:
        """Count what failing responses say, up to a number of distinct texts."""
        if text in self._notes or len(self._notes) < KEPT_NOTES:
            self._notes[text] = self._notes.get(text, 0) + 1

    def opened(self, opening: Opening, connection: Connection) -> None:
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

    def unreachable(self, opening: Opening, kind: Kind, why: str) -> None:
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
        following = Ticket(ticket.number, 0, request)
        following.turn = ticket.turn + 1
        following.answers = answers
        self._outstanding += 1
        self._put_later(following, perf_counter_ns() + int(self._plan.think_s * 1e9))
        self._arm_later()
        return True

    # --- ending ------------------------------------------------------------------------------------------------------

    def _controlled(self) -> None:
        assert self._line is not None
        self._loop.remove_reader(self._line.control_fd)
        if os.read(self._line.control_fd, 64):
            self.close_load()
        else:
            self.stop("the process that asked for this is gone")

    def _tick(self, now: int) -> None:
        if self._line is not None and now >= self._journal_ns:
            self._journal_ns = now + JOURNAL_NS
            self._store.hand_on(self._line.journal_fd)
        for thing in self._wheel.look(now):
            if isinstance(thing, Connection):
                thing.watched = False
                if thing.ticket is not None:  # a new request began while the old one was being looked at
                    thing.watched = True
                    self._wheel.watch(thing, now)
        if now >= self._end_ns:
            self._settle(now)

    def _settle(self, now: int) -> None:
        """End the run when nothing is open and nothing more is due, or when the drain bound has passed."""
        if self._ending:
            return
        more = self._slots > 0 if self._closed else self._next < len(self._offsets)
        if (self._outstanding or more) and now < self._give_up_ns:
            return
        self._ending = True
        if not self._stop_reason:
            self._stop_reason = "drain bound passed" if self._outstanding or more else "done"
        for connection in list(self._open):
            connection.cut_off()
        abandoned, self._opening = self._opening, set()
        for opening in abandoned:
            opening.abandon()
            self._store_unanswered(opening.ticket, Kind.UNSENT if opening.ticket.sent_ns == 0 else Kind.CUT_OFF)
        for ticket in self._waiting:
            self._store_unanswered(ticket, Kind.UNSENT)
        held, self._held = self._held, []
        for _, ticket in held:
            self._store_unanswered(ticket, Kind.UNSENT)
        for due_ns, _, following in self._later:
            if following is not None:
                following.scheduled_ns = due_ns
                self._store_unanswered(following, Kind.UNSENT)
        for place in range(self._next, len(self._offsets)) if not self._closed else ():
            self._store_unanswered(
                Ticket(self._part + place * self._parts, self._start_ns + self._offsets[place], b""), Kind.UNSENT
            )
        if not self._done.done():
            self._done.set_result(None)

    def _store_unanswered(self, ticket: Ticket, kind: Kind) -> None:
        unknown = UNKNOWN_TOKENS
        self._store.add(
            (
                *(ticket.number, ticket.turn, self._part, ticket.scheduled_ns, ticket.sent_ns, ticket.connect_ns),
                *(0, 0, 0, 0, 0, unknown, unknown, unknown, int(kind), 0, 0, ticket.retries, 0),
            )
        )
        if self._plan.keep_text or self._multi_turn:
            self._store.texts.append("")

    def _close_all(self) -> None:
        for connection in list(self._open):
            connection.close()

    def _watch_interrupt(self) -> Callable[[], None]:
        """Ctrl-C ends the run and keeps the record, where signals can be watched at all."""
        if threading.current_thread() is not threading.main_thread():
            return lambda: None
        previous = signal.getsignal(signal.SIGINT)
        self._loop.add_signal_handler(signal.SIGINT, self.stop, "interrupted")

        def undo() -> None:
            self._loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, previous)

        return undo

    # --- connecting --------------------------------------------------------------------------------------------------

    def connection(self) -> Connection:
        """A connection of this probe, not yet open."""
        keep = self._plan.keep_text or self._multi_turn
        reader = self._plan.language.reader(keep)
        return Connection(self, reader, self._store, self._plan.timeouts, process=self._part, keep_text=keep)

    def connect(self, connection: Connection) -> Coroutine[Any, Any, object]:
        """Open it."""
        host, port = self._address
        name = self._plan.target.host if self._tls is not None else None
        return self._loop.create_connection(lambda: connection, host, port, ssl=self._tls, server_hostname=name)

    async def _preconnect(self) -> None:
        connection = self.connection()
        try:
            async with asyncio.timeout(self._plan.timeouts.connect_ns / 1e9):
                await self.connect(connection)
        except (OSError, TimeoutError):
            return  # the requests themselves will meet the same trouble, and count it
        connection.used = True
        self._open.add(connection)
        self._idle.append(connection)

    def begin_opening(self, opening: Opening) -> None:
        """Count and watch a connection attempt."""
        self._opening.add(opening)
        self._wheel.watch(opening, opening.since_ns)


def run_probe(
    plan: Plan, part: int = 0, parts: int = 1, ready: Callable[[], int] | None = None, line: Line | None = None
) -> LoadRecord:
    """Run one process's part here; `ready` is called once connected and says when the clock starts."""

    async def whole() -> LoadRecord:
        probe = Probe(plan, part, parts, line)
        await probe.prepare()
        record = await probe.run(perf_counter_ns() + 1_000_000 if ready is None else ready())
        return merge((record,))  # rows by arrival, as every record has them

    raise_file_limit()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(whole())


def _share(whole: int, part: int, parts: int) -> int:
    return whole // parts + (part < whole % parts)
