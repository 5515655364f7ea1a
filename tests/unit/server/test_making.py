"""Pages are made a few at a time, each once for all who wait."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

from lynxbench.server.making import MAKING, Maker


class Cache:
    """Makes whatever it is asked for."""

    def get(self, name, topics, make):
        return make()


def test_all_who_wait_for_a_page_share_one_making() -> None:
    made: list[str] = []
    go_on = threading.Event()

    def make() -> str:
        assert go_on.wait(10)
        made.append("made")
        return "page"

    async def main() -> None:
        maker, server = Maker(), SimpleNamespace(cache=Cache())
        waiting = [asyncio.create_task(maker.made(server, "a", (), make)) for _ in range(5)]
        await asyncio.sleep(0)
        assert not maker.busy
        for number in range(MAKING - 1):
            maker.begin(server, number, (), make)
        assert maker.busy
        go_on.set()
        assert await asyncio.gather(*waiting) == ["page"] * 5
        while maker._going:
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert len(made) == MAKING


def test_a_page_that_nobody_waits_for_may_fail_unheard() -> None:
    def make() -> str:
        raise ValueError("no such page")

    async def main() -> None:
        maker, server = Maker(), SimpleNamespace(cache=Cache())
        maker.begin(server, "a", (), make)
        for _ in range(100):
            await asyncio.sleep(0.01)
            if not maker._going:
                return
        raise AssertionError("it never ended")

    asyncio.run(main())
