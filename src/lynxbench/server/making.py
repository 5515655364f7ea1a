"""Pages are made a few at a time, each once for all who wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence

from anyio import CapacityLimiter, to_thread

from lynxbench.server.pages.shell import Page
from lynxbench.server.state import Server

MAKING = 2
"""Pages that are made at a time: they share one interpreter, and the one that answers needs its turn."""


class Maker:
    """Makes pages, each once for all who wait for it, and only a few at a time: whoever wants a page that is there
    already never waits for those that are not."""

    def __init__(self) -> None:
        self._few = CapacityLimiter(MAKING)
        self._going: dict[Hashable, asyncio.Task[Page]] = {}

    async def made(self, server: Server, name: Hashable, topics: Sequence[str], make: Callable[[], Page]) -> Page:
        """A page, made now or being made already."""
        going = self._going.get(name)
        if going is None:
            work = lambda: server.cache.get(("page", name), topics, make)  # noqa: E731
            going = asyncio.create_task(self.alone(work))
            self._going[name] = going
            going.add_done_callback(lambda _: self._going.pop(name, None))
        return await asyncio.shield(going)

    async def alone(self, make: Callable[[], Page]) -> Page:
        """A page of one viewer's own."""
        return await to_thread.run_sync(make, limiter=self._few)
