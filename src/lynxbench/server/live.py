"""Runs in progress: the last minutes of each one's series in memory, streamed to whoever looks."""

import asyncio
import json
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field

MOST_EVENTS = 2000
MOST_RUNS = 64
MOST_STREAMS = 200
MOST_STREAMS_A_CALLER = 8
HEARTBEAT_S = 15.0
LOOK_S = 0.25
EVENT_STREAM = "text/event-stream"
"""Server-sent events: HTML Living Standard, 9.2."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """One moment of a run."""

    number: int
    at_s: float
    """Seconds since the run began."""
    phase: str
    label: str
    value: float | None
    """Iterations or requests a second since the last event."""
    iterations: int


@dataclass(slots=True)
class _Channel:
    events: deque[LiveEvent] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    count: int = 0
    ended: str | None = None


class LiveBoard:
    """What runs say of themselves while they run. A restart forgets it; the record of a run is its result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: OrderedDict[str, _Channel] = OrderedDict()
        self._streams: Counter[str] = Counter()

    def post(self, run: str, events: Sequence[tuple[float, str, str, float | None, int]]) -> int:
        """Take what a run says; how many events it has said."""
        with self._lock:
            channel = self._channel(run)
            for event in events:
                channel.events.append(LiveEvent(channel.count, *event))
                channel.count += 1
            return channel.count

    def end(self, run: str, state: str) -> None:
        """The run is over."""
        with self._lock:
            self._channel(run).ended = state

    def events(self, run: str, after: int = -1) -> tuple[list[LiveEvent], str | None]:
        """What was said after an event, and how the run ended, if it did."""
        with self._lock:
            channel = self._channels.get(run)
            if channel is None:
                return [], None
            return [event for event in channel.events if event.number > after], channel.ended

    def open_stream(self, caller: str) -> bool:
        """Whether one more stream may be opened; it must be closed again."""
        with self._lock:
            fits = self._streams.total() < MOST_STREAMS and self._streams[caller] < MOST_STREAMS_A_CALLER
            self._streams[caller] += fits
            return fits

    def close_stream(self, caller: str) -> None:
        """A stream has ended."""
        with self._lock:
            self._streams -= Counter([caller])

    @property
    def streams(self) -> int:
        """Streams that are open now."""
        return self._streams.total()

    async def stream(self, run: str, after: int, caller: str) -> AsyncIterator[str]:
        """The same, from an event on until the run ends or the reader leaves."""
        try:
            quiet_since = time.monotonic()
            while True:
                events, ended = self.events(run, after)
                if events or ended is not None:
                    yield event_text(events, ended)
                    after = events[-1].number if events else after
                    quiet_since = time.monotonic()
                if ended is not None:
                    return
                if time.monotonic() - quiet_since > HEARTBEAT_S:
                    yield ": still here\n\n"
                    quiet_since = time.monotonic()
                await asyncio.sleep(LOOK_S)
        finally:
            self.close_stream(caller)

    def _channel(self, run: str) -> _Channel:
        channel = self._channels.pop(run, None) or _Channel()
        self._channels[run] = channel
        while len(self._channels) > MOST_RUNS:
            self._channels.popitem(last=False)
        return channel


def event_text(events: Sequence[LiveEvent], ended: str | None) -> str:
    """Events as a stream has them, and the end, where the run has one."""
    lines = [f"id: {event.number}\nevent: sample\ndata: {json.dumps(asdict(event))}\n\n" for event in events]
    return "".join(lines) + (f"event: end\ndata: {json.dumps({'state': ended})}\n\n" if ended is not None else "")
