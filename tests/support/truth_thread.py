"""The ground-truth server in a thread of the test: starts in milliseconds, for what is counted and not timed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lynxbench.load.ground_truth import Behaviour, GroundTruthServer
from lynxbench.load.truth_peer import listen


@contextmanager
def truth_in_thread(behaviour: Behaviour) -> Iterator[tuple[str, GroundTruthServer]]:
    """Its address and itself."""
    server, loop, addresses, ready = GroundTruthServer(behaviour), asyncio.new_event_loop(), [], threading.Event()

    async def serve() -> asyncio.Server:
        listening = await listen(server, "127.0.0.1", 0)
        addresses.append(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1")
        return listening

    def run() -> None:
        listening = loop.run_until_complete(serve())
        ready.set()
        loop.run_forever()
        listening.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(300)
        yield addresses[0], server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
