"""Rendered pages: made a few at a time, each once for all who wait for it, and kept until what they speak of changes.

The log says what changed: each new entry names its contract, executor and result, and only pages about those are made
again. While results stream in, a page may be older by twenty times what making it takes, and by ten seconds at most: no
page ever takes more than a twentieth of the server's time. Where they pour in, all pages together would take much more
than that: then each is made again when it is ten seconds old, or once none came for a second.
Nobody waits long for a page that is there: one that was true a minute ago is shown as it is while the new one is made,
unless that is a matter of a moment. Those are made one after the other, with a rest after each, and elsewhere where
somebody else can: whoever waits for a page that was never made does not wait for them. What people change here
themselves shows at once.
"""

import asyncio
import math
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from functools import partial
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
TRUST = "trust"
"""Whose signatures count: what a series, a comparison or a standing is made from changes with it."""
EVERY_TOPIC = "every topic"
"""So much changed that nothing which is kept still holds."""
WORK = "work"
"""What agents and the server itself did: runs that began and ended, notices, messages. A page may lag behind these."""
CLOCK = "clock"
"""Changes every second: for pages that show what time it is for somebody."""
SHARE = 20.0
OLDEST_S = 10.0
POURING_S, POURING_MOMENTS = 1.0, 3
"""They pour in where the ledger changed in three different quarters of the last second. Pages are as old as they may be
then: whoever looks sees the last of them a little later, and pages do not take what taking in and recomputing need."""
STALE_S = 60.0
"""A page that has been wrong for longer is not shown any more."""
NOTED_S = 0.25
NOTED = int(2 * STALE_S / NOTED_S)
"""So many moments of change of a topic are known, one in a quarter of a second: more than a page may be wrong for."""
MOST_BYTES = 96 << 20
STEP = 2000
PATIENCE_S = 0.02
"""So long somebody waits for a new page before an older one is shown: on a quiet server most are made by then."""
MAKING = 2
"""Pages that somebody waits for are made so many at a time: they share one interpreter, which also answers."""
REST_SHARE = 0.5
"""After a page was made again, half as long as that took passes before the next."""


class ChangeCounter:
    """Which things changed how often since the server started."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._generations: dict[str, int] = defaultdict(int)
        self._epoch = 0
        self._moments: dict[str, list[tuple[int, float]]] = {}
        self._bumped: set[str] = set()
        self._last = self._newest()

    def generation(self, topic: str) -> int:
        """How often a topic changed."""
        if topic == CLOCK:
            return int(time.monotonic())
        return self._epoch + self._generations.get(topic, 0)

    def changed_at(self, topic: str, since: int) -> float:
        """When a topic first changed after it had changed so often, or a little before; long ago where nobody knows."""
        before, count = -math.inf, since - self._epoch
        for generation, at in tuple(self._moments.get(topic, ())):
            if generation > count:
                return at if generation == count + 1 else before
            before = at
        return before

    @property
    def pours(self) -> bool:
        """Whether the ledger changes all the time just now."""
        last = self._moments.get(EVERYTHING, [])[-POURING_MOMENTS:]
        return len(last) == POURING_MOMENTS and time.monotonic() - last[0][1] < POURING_S

    def bump(self, *topics: str) -> None:
        """Something changed that the log does not say."""
        with self._lock:
            self._count(topics)
            self._bumped.update(topics)
            if len(self._bumped) > STEP:
                self._bumped = {EVERY_TOPIC}

    def take_bumped(self) -> list[str]:
        """What changed that the log does not say, since this was asked last: for who keeps something elsewhere."""
        with self._lock:
            bumped, self._bumped = self._bumped, set()
        return sorted(bumped)

    def refresh(self) -> bool:
        """Look at the log; whether anything is new."""
        with self._lock:
            newest = self._newest()
            if newest == self._last:
                return False
            imported = newest - self._last > STEP  # then everything is new
            self._count((EVERYTHING, EVERY_TOPIC) if imported else {EVERYTHING, *self._topics(self._last)})
            self._last = newest
            return True

    def _count(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if topic == EVERY_TOPIC:
                self._epoch += 1
                continue
            self._generations[topic] += 1
            now, moments = time.monotonic(), self._moments.setdefault(topic, [])
            if not moments or now - moments[-1][1] >= NOTED_S:
                self._moments[topic] = [*moments[-NOTED:], (self._generations[topic], now)]

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
    __slots__ = ("at", "generations", "size", "until", "value", "wrong_at")

    def __init__(
        self, value: Any, generations: tuple[int, ...], size: int, spent_s: float, wrong_at: float = math.inf
    ) -> None:
        self.value, self.generations, self.size, self.at = value, generations, size, time.monotonic()
        self.until = self.at + min(SHARE * spent_s, OLDEST_S)
        self.wrong_at = wrong_at
        """Since when it is wrong by something kept that it was made from."""


class _Wrong(threading.local):
    """For every value that a thread is making, the outermost first: since when what it was given is wrong."""

    def __init__(self) -> None:
        self.parts: list[float] = []


class PageCache:
    """Values by name, made once for as long as nothing changed, by one thread at a time."""

    def __init__(self, pulse: ChangeCounter, most_bytes: int = MOST_BYTES) -> None:
        self._pulse = pulse
        self._most = most_bytes
        self._lock = threading.Lock()
        self._cached: OrderedDict[Hashable, _Cached] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._wrong = _Wrong()
        self._bytes = 0
        self.hits = 0
        self.misses = 0

    def peek(self, name: Hashable, topics: Sequence[str]) -> Any | None:
        """What is kept and still true; None where it must be made. Never waits."""
        cached = self._cached.get(name)
        if cached is None or not self._holds(cached, topics):
            return None
        self.hits += 1
        return self._given(cached, topics)

    def aged(self, name: Hashable, topics: Sequence[str]) -> Any | None:
        """What is kept though it is no longer true, where it lacks nobody's own change and was true a while ago."""
        cached = self._cached.get(name)
        if cached is None or self._lacks_own(cached, topics):
            return None
        if time.monotonic() - self._wrong_since(cached, topics) > STALE_S:
            return None
        return self._given(cached, topics)

    def get(self, name: Hashable, topics: Sequence[str], make: Callable[[], T]) -> T:
        """What is kept and still true, or made now. Whoever comes while it is being made gets what was true a while
        ago, where there is that, and waits otherwise."""
        known = self.peek(name, topics)
        if known is not None:
            return cast(T, known)
        with self._lock:
            gate = self._making.setdefault(name, threading.Lock())
        older = self.aged(name, topics)
        if not gate.acquire(blocking=older is None):
            return cast(T, older)
        try:
            known = self.peek(name, topics)
            if known is not None:
                return cast(T, known)
            generations = tuple(self._pulse.generation(topic) for topic in topics)
            self.misses += 1
            began = time.monotonic()  # by the clock: where other work slows it down, it is done less often
            value, wrong_at = self.made(make)
            self._keep(name, _Cached(value, generations, _size_of(value), time.monotonic() - began, wrong_at))
            self.note(wrong_at)
            return value
        finally:
            gate.release()
            with self._lock:
                self._making.pop(name, None)

    def made(self, make: Callable[[], T]) -> tuple[T, float]:
        """What a function makes, and since when something kept that it was given is wrong; never, where none is."""
        self._wrong.parts.append(math.inf)
        try:
            value = make()
        finally:
            wrong_at = self._wrong.parts.pop()
        return value, wrong_at

    def note(self, wrong_at: float) -> None:
        """What this thread is making was given something that is wrong since then."""
        if self._wrong.parts:
            self._wrong.parts[-1] = min(self._wrong.parts[-1], wrong_at)

    def _given(self, cached: _Cached, topics: Sequence[str]) -> Any:
        """Its value; where it is wrong, whatever is being made from it is wrong as well, and made again."""
        if not self._is_true(cached, topics):
            self.note(self._wrong_since(cached, topics))
        return cached.value

    def _is_true(self, cached: _Cached, topics: Sequence[str]) -> bool:
        now = tuple(self._pulse.generation(topic) for topic in topics)
        return cached.wrong_at == math.inf and cached.generations == now

    def _holds(self, cached: _Cached, topics: Sequence[str]) -> bool:
        if self._is_true(cached, topics):
            return True
        if self._lacks_own(cached, topics):
            return False
        now = time.monotonic()
        return now < cached.until or (now < cached.at + OLDEST_S and self._pulse.pours)

    def _wrong_since(self, cached: _Cached, topics: Sequence[str]) -> float:
        pulse, held = self._pulse, dict(zip(topics, cached.generations, strict=True))
        if CLOCK in held:  # it changes every second: as of when it was made
            return cached.at
        changed = [topic for topic, generation in held.items() if pulse.generation(topic) != generation]
        return min([cached.wrong_at, *(pulse.changed_at(topic, held[topic]) for topic in changed)])

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
        self._few, self._one = CapacityLimiter(MAKING), CapacityLimiter(1)
        self._turn = asyncio.Semaphore()
        self._awaited: dict[Hashable, asyncio.Task[Any]] = {}
        self._remade: dict[Hashable, asyncio.Task[Any]] = {}

    @property
    def idle(self) -> bool:
        """Whether no page is being made."""
        return not self._awaited and not self._remade

    async def page(
        self,
        name: Hashable,
        topics: Sequence[str],
        make: Callable[[], Any],
        elsewhere: Callable[[], Any] | None = None,
    ) -> Any:
        """A page that is kept and still true, a new one, or one that has aged a little while that is being made.

        `elsewhere` makes the same without taking this interpreter's time: for pages that nobody waits for.
        """
        page = self._cache.peek(name, topics)
        if page is not None:
            return page
        crowded, older = not self.idle, self._cache.aged(name, topics)
        if older is None:
            work = partial(self._cache.get, name, topics, make)
            return await asyncio.shield(self._started(self._awaited, name, lambda: self.alone(work)))
        work = partial(self._cache.get, name, topics, elsewhere or make)
        task = self._started(self._remade, name, lambda: self._behind(work))
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

    async def _behind(self, make: Callable[[], Any]) -> Any:
        """A page that is shown as it was meanwhile: one after the other, with a rest after each."""
        await self._turn.acquire()
        began = time.monotonic()
        try:
            return await to_thread.run_sync(make, limiter=self._one)
        finally:
            rest_s = REST_SHARE * (time.monotonic() - began)
            asyncio.get_running_loop().call_later(rest_s, self._turn.release)

    def _started(
        self,
        tasks: dict[Hashable, asyncio.Task[Any]],
        name: Hashable,
        work: Callable[[], Coroutine[Any, Any, Any]],
    ) -> asyncio.Task[Any]:
        task = tasks.get(name)
        if task is None:
            task = tasks[name] = asyncio.create_task(work())
            task.add_done_callback(lambda _: tasks.pop(name, None))
        return task
