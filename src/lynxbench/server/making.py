"""Pages are made a few at a time, each once for all who wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence

from anyio import CapacityLimiter, to_thread

from lynxbench.server.pages.page_shell import Page
from lynxbench.server.server_state import Server

MAKING = 2
"""Pages that are made at a time: they share one interpreter, and the one that answers needs its turn."""


class Maker:
    """Makes pages, each once for all who wait for it, and only a few at a time: whoever wants a page that is there
    already never waits for those that are not."""

    def __init__(self) -> None:
        self._few = CapacityLimiter(MAKING)
        self._going: dict[Hashable, asyncio.Task[Page]] = {}

    @property
    def busy(self) -> bool:
        """As many pages are being made as may be."""
        return len(self._going) >= MAKING

    def begin(self, server: Server, name: Hashable, topics: Sequence[str], make: Callable[[], Page]) -> None:
        """Have a page made that nobody waits for; a failure shows when somebody does."""
        self._start(server, name, topics, make).add_done_callback(lambda task: task.cancelled() or task.exception())

    async def made(self, server: Server, name: Hashable, topics: Sequence[str], make: Callable[[], Page]) -> Page:
        """A page, made now or being made already."""
        return await asyncio.shield(self._start(server, name, topics, make))

    def _start(
        self, server: Server, name: Hashable, topics: Sequence[str], make: Callable[[], Page]
    ) -> asyncio.Task[Page]:
        going = self._going.get(name)
        if going is None:
            work = lambda: server.cache.get(("page", name), topics, make)  # noqa: E731
            going = asyncio.create_task(self.alone(work))
            self._going[name] = going
            going.add_done_callback(lambda _: self._going.pop(name, None))
        return going

    async def alone(self, make: Callable[[], Page]) -> Page:
        """A page of one viewer's own."""
        return await to_thread.run_sync(make, limiter=self._few)
