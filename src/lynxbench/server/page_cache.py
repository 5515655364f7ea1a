"""Rendered pages: made a few at a time, each once for all who wait for it, and kept until what they speak of changes.

The log says what changed: each new entry names its contract, executor and result, and only pages about those are made
again. While results stream in, a page may be older by twenty times what making it takes, and by ten seconds at most: no
page ever takes more than a twentieth of the server's time. Nobody waits long for a page that is there: one that is ten
seconds older than that at most is shown as it is while the new one is made, unless that is a matter of a moment. What
people change here themselves shows at once.
"""

import asyncio
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, cast

from anyio import CapacityLimiter, to_thread
from sqlalchemy import func, select

from lynxbench.ledger.ledger_tables import entries, results
from lynxbench.ledger.log import Ledger
from lynxbench.model.entries import EntryKind

T = TypeVar("T")

EVERYTHING = "everything"
OWN = "own"
"""What people changed in the server's own tables: schedules, keys, users, accepted levels."""
WORK = "work"
"""What agents and the server itself did: runs that began and ended, notices, messages. A page may lag behind these."""
CLOCK = "clock"
"""Changes every second: for pages that show what time it is for somebody."""
SHARE = 20.0
OLDEST_S = 10.0
MOST_BYTES = 96 << 20
STEP = 2000
PATIENCE_S = 0.02
"""So long somebody waits for a new page before an older one is shown: on a quiet server most are made by then."""
MAKING = 2
"""Pages that are made at a time: they share one interpreter, and the one that answers needs its turn."""


class ChangeCounter:
    """Which things changed how often since the server started."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._generations: dict[str, int] = defaultdict(int)
        self._last = self._newest()

    def generation(self, topic: str) -> int:
        """How often a topic changed."""
        if topic == CLOCK:
            return int(time.monotonic())
        return self._generations.get(topic, 0)

    def bump(self, *topics: str) -> None:
        """Something changed that the log does not say."""
        with self._lock:
            for topic in topics:
                self._generations[topic] += 1

    def refresh(self) -> bool:
        """Look at the log; whether anything is new."""
        with self._lock:
            newest = self._newest()
            if newest == self._last:
                return False
            imported = newest - self._last > STEP  # then everything is new
            for topic in list(self._generations) if imported else self._topics(self._last):
                self._generations[topic] += 1
            self._generations[EVERYTHING] += 1
            self._last = newest
            return True

    def _newest(self) -> int:
        with self._ledger.database.reading() as connection:
            return int(connection.execute(_NEWEST).scalar_one())

    def _topics(self, after: int) -> set[str]:
        chosen = select(entries.c.contract_id, entries.c.executor_id, entries.c.result_id, entries.c.kind)
        topics: set[str] = set()
        names: set[str] = set()
        agreed: set[str] = set()
        with self._ledger.database.reading() as connection:
            for row in connection.execute(chosen.where(entries.c.seq > after)):
                topics |= {f"kind:{row.kind}"}
                topics |= {name for name in (row.contract_id, row.executor_id, row.result_id) if name}
                if row.result_id and not row.contract_id:
                    names.add(row.result_id)
                if row.kind == EntryKind.AGREEMENT.value and row.contract_id:
                    agreed.add(row.contract_id)
            if names:
                about = select(results.c.contract_id).where(results.c.result_id.in_(names))
                topics |= {row.contract_id for row in connection.execute(about)}
            if agreed:  # a signature changes what is said of every result under its contract
                under = select(results.c.result_id).where(results.c.contract_id.in_(agreed))
                topics |= {row.result_id for row in connection.execute(under)}
        return topics


_NEWEST = select(func.coalesce(func.max(entries.c.seq), -1))


class _Cached:
    __slots__ = ("at", "generations", "size", "until", "value")

    def __init__(self, value: Any, generations: tuple[int, ...], size: int, spent_s: float) -> None:
        self.value, self.generations, self.size, self.at = value, generations, size, time.monotonic()
        self.until = self.at + min(SHARE * spent_s, OLDEST_S)


class PageCache:
    """Values by name, made once for as long as nothing changed, by one thread at a time."""

    def __init__(self, pulse: ChangeCounter, most_bytes: int = MOST_BYTES) -> None:
        self._pulse = pulse
        self._most = most_bytes
        self._lock = threading.Lock()
        self._cached: OrderedDict[Hashable, _Cached] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._bytes = 0
        self.hits = 0
        self.misses = 0

    def peek(self, name: Hashable, topics: Sequence[str]) -> Any | None:
        """What is kept and still true; None where it must be made. Never waits."""
        cached = self._cached.get(name)
        if cached is None or not self._holds(cached, topics):
            return None
        self.hits += 1
        return cached.value

    def aged(self, name: Hashable, topics: Sequence[str]) -> Any | None:
        """What is kept though it is no longer true, where it lacks nobody's own change and is not too old."""
        cached = self._cached.get(name)
        if cached is None or self._lacks_own(cached, topics) or time.monotonic() > cached.until + OLDEST_S:
            return None
        return cached.value

    def get(self, name: Hashable, topics: Sequence[str], make: Callable[[], T]) -> T:
        """What is kept and still true, or made now. Whoever comes while it is being made gets what was true before."""
        value: T | None = self.peek(name, topics)
        if value is not None:
            return value
        with self._lock:
            gate = self._making.setdefault(name, threading.Lock())
        cached = self._cached.get(name)
        if not gate.acquire(blocking=cached is None):
            assert cached is not None
            return cast(T, cached.value)
        try:
            cached = self._cached.get(name)
            if cached is not None and self._holds(cached, topics):
                return cast(T, cached.value)
            generations = tuple(self._pulse.generation(topic) for topic in topics)
            self.misses += 1
            began = time.thread_time()
            value = make()
            self._keep(name, _Cached(value, generations, _size_of(value), time.thread_time() - began))
            return value
        finally:
            gate.release()
            with self._lock:
                self._making.pop(name, None)

    def _holds(self, cached: _Cached, topics: Sequence[str]) -> bool:
        if cached.generations == tuple(self._pulse.generation(topic) for topic in topics):
            return True
        return not self._lacks_own(cached, topics) and time.monotonic() < cached.until

    def _lacks_own(self, cached: _Cached, topics: Sequence[str]) -> bool:
        return OWN in topics and cached.generations[topics.index(OWN)] != self._pulse.generation(OWN)

    def _keep(self, name: Hashable, cached: _Cached) -> None:
        with self._lock:
            old = self._cached.pop(name, None)
            self._bytes += cached.size - (old.size if old else 0)
            self._cached[name] = cached
            while self._bytes > self._most and len(self._cached) > 1:
                _, dropped = self._cached.popitem(last=False)
                self._bytes -= dropped.size


def _size_of(value: Any) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    size = getattr(value, "size_bytes", None)
    return int(size) if isinstance(size, int) else 4096


class PageMaker:
    """Makes pages, each once for all who wait for it, and only a few at a time: whoever wants a page that is there
    already never waits for those that are not."""

    def __init__(self, cache: PageCache) -> None:
        self._cache = cache
        self._few = CapacityLimiter(MAKING)
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def page(self, name: Hashable, topics: Sequence[str], make: Callable[[], Any]) -> Any:
        """A page that is kept and still true, a new one, or one that has aged a little while that is being made."""
        page = self._cache.peek(name, topics)
        if page is not None:
            return page
        crowded, task = len(self._tasks) >= MAKING, self._start(name, topics, make)
        older = self._cache.aged(name, topics)
        if older is None:
            return await asyncio.shield(task)
        if not crowded:
            await asyncio.wait([task], timeout=PATIENCE_S)
        if task.done():
            return task.result()
        # nobody waits for the new one: its failure shows when somebody does
        task.add_done_callback(lambda made: made.cancelled() or made.exception())
        return older

    async def alone(self, make: Callable[[], Any]) -> Any:
        """A page of one viewer's own."""
        return await to_thread.run_sync(make, limiter=self._few)

    def _start(self, name: Hashable, topics: Sequence[str], make: Callable[[], Any]) -> asyncio.Task[Any]:
        task = self._tasks.get(name)
        if task is None:
            task = asyncio.create_task(self.alone(lambda: self._cache.get(name, topics, make)))
            self._tasks[name] = task
            task.add_done_callback(lambda _: self._tasks.pop(name, None))
        return task
