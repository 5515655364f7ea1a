"""Runs a probe from its first connection to its last answer, and always ends."""

import asyncio
import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns

from lynxbench.load.connecting import find_way
from lynxbench.load.event_loop import new_event_loop, raise_file_limit, watch_interrupt
from lynxbench.load.load_record import LoadRecord, RequestEnd, assemble, merge
from lynxbench.load.plan import LoadPlan
from lynxbench.load.pulse import TICK_NS, ClientPulse
from lynxbench.load.timers import PreciseTimer, TimerWheel
from lynxbench.load.traffic import Traffic, share_of
from lynxbench.load.wire import Connection, Ticket

JOURNAL_NS = 200_000_000
"""Finished rows are handed on this often: soon enough to decide by, seldom enough not to be felt."""


@dataclass(frozen=True, slots=True)
class ParentLine:
    """To the process that started this one: rows go out as they finish; a byte coming in, or the end, stops."""

    journal_fd: int
    control_fd: int


class DriverProbe(Traffic):
    """One process's part of a plan, on one event loop."""

    def __init__(self, plan: LoadPlan, part: int = 0, parts: int = 1, line: ParentLine | None = None) -> None:
        super().__init__(plan, part, parts)
        self._line = line
        self._journal_ns = 0

    # --- life of a probe ---------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Resolve the address and open the connections that should be there before the clock starts."""
        self._loop = asyncio.get_running_loop()
        self._way = await find_way(self._loop, self._plan.target, over_http2=self._plan.over_http2)
        self._wheel = TimerWheel(TICK_NS, self._plan.shortest_wait_ns)
        connections = max(self._slots, share_of(self._plan.preconnect, self._part, self._parts))
        for first in range(0, min(connections, self._plan.max_connections), 64):
            batch = [self._preconnect() for _ in range(first, min(connections, first + 64))]
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
        self._pulse = ClientPulse(self._loop, self._part, self._tick)
        if self._line is not None:
            self._loop.add_reader(self._line.control_fd, self._controlled)
        collecting = gc.isenabled()
        gc.disable()  # a collection in the middle of a run is a pause that would be read as the server's
        undo_interrupt = watch_interrupt(self._loop, self.stop)
        try:
            self._begin()
            self._pulse.start(start_ns)
            await self._done
        finally:
            undo_interrupt()
            if self._line is not None:
                self._loop.remove_reader(self._line.control_fd)
            if collecting:
                gc.enable()
            gc.unfreeze()
            self._timer.close()
            self._pulse.stop()
        for connection in list(self._open):
            connection.close()
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
        self._forget_calls(now)
        self._settle(now)

    def stop(self, reason: str) -> None:
        """End now: what is open is cut off, what is due is unsent."""
        self._stop_reason = self._stop_reason or reason
        self._end_ns = self._give_up_ns = 0
        self._settle(perf_counter_ns())

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
        self._abandon()
        if not self._done.done():
            self._done.set_result(None)

    def _abandon(self) -> None:
        """What is open is cut off, what is due and was never written is unsent; all of it is stored."""
        for connection in list(self._open):
            connection.cut_off()
        abandoned, self._opening = self._opening, set()
        for opening in abandoned:
            opening.abandon()
            self._store_unanswered(
                opening.ticket, RequestEnd.UNSENT if opening.ticket.sent_ns == 0 else RequestEnd.CUT_OFF
            )
        held, self._held = self._held, []
        for ticket in (*self._waiting, *(ticket for _, ticket in held)):
            self._store_unanswered(ticket, RequestEnd.UNSENT)
        for due_ns, _, following in self._later:
            if following is not None:
                following.scheduled_ns = due_ns
                self._store_unanswered(following, RequestEnd.UNSENT)
        for place in range(self._next, len(self._offsets)) if not self._closed else ():
            self._store_unanswered(
                Ticket(self._part + place * self._parts, self._start_ns + self._offsets[place], b""), RequestEnd.UNSENT
            )


def run_probe(
    plan: LoadPlan,
    part: int = 0,
    parts: int = 1,
    ready: Callable[[], int] | None = None,
    line: ParentLine | None = None,
) -> LoadRecord:
    """Run one process's part here; `ready` is called once connected and says when the clock starts."""

    async def whole() -> LoadRecord:
        probe = DriverProbe(plan, part, parts, line)
        await probe.prepare()
        record = await probe.run(perf_counter_ns() + 1_000_000 if ready is None else ready())
        return merge((record,))  # rows by arrival, as every record has them

    raise_file_limit()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(whole())
