"""Getting to the server: the address once, the TLS context once, a connection for a request that found none idle."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Coroutine
from time import perf_counter_ns
from typing import Any, Protocol

from lynxbench.errors import CannotRun
from lynxbench.load.load_record import RequestEnd
from lynxbench.load.plan import Target
from lynxbench.load.wire import Connection, Ticket


class Asker(Protocol):
    """Who wants a connection."""

    connect_timeout_ns: int

    def begin_opening(self, opening: Opening) -> None:
        """Count and watch a connection attempt."""

    def connection(self) -> Connection:
        """A connection, not yet open."""

    def connect(self, connection: Connection) -> Coroutine[Any, Any, object]:
        """Open it."""

    def opened(self, opening: Opening, connection: Connection) -> None:
        """It is there."""

    def unreachable(self, opening: Opening, kind: RequestEnd, why: str) -> None:
        """It did not come about."""


class Opening:
    """A connection on its way, for one ticket: the one task there is, and only where no idle connection was left."""

    __slots__ = ("_probe", "_task", "since_ns", "ticket")

    def __init__(self, probe: Asker, ticket: Ticket) -> None:
        self._probe = probe
        self.ticket = ticket
        self.since_ns = perf_counter_ns()
        probe.begin_opening(self)
        self._task = asyncio.get_running_loop().create_task(self._open())

    def deadline_ns(self) -> int:
        return 0 if self._task.done() else self.since_ns + self._probe.connect_timeout_ns

    def expire(self) -> None:
        self._task.cancel()
        self._probe.unreachable(self, RequestEnd.TIMEOUT_CONNECT, "no connection in time")

    def abandon(self) -> None:
        self._task.cancel()

    async def _open(self) -> None:
        connection = self._probe.connection()
        try:
            await self._probe.connect(connection)
        except asyncio.CancelledError:
            connection.close()  # it may have opened in the very moment it was given up
        except OSError as error:
            self._probe.unreachable(self, RequestEnd.CONNECT_ERROR, error.strerror or str(error))
        else:
            self._probe.opened(self, connection)


class Way:
    """The server's address and TLS context, found once: a look-up in the middle of a run would be timed as its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: Target, address: tuple[str, int]) -> None:
        self._loop, self._address = loop, address
        self._tls = tls_context(target)
        self._name = target.host if self._tls is not None else None

    def connect(self, connection: Connection) -> Coroutine[Any, Any, object]:
        """Open a connection."""
        host, port = self._address
        return self._loop.create_connection(lambda: connection, host, port, ssl=self._tls, server_hostname=self._name)

    async def is_open(self, connection: Connection, timeout_ns: int) -> bool:
        """Open it before the clock starts; where that fails, the requests meet the same trouble and count it."""
        try:
            async with asyncio.timeout(timeout_ns / 1e9):
                await self.connect(connection)
        except (OSError, TimeoutError):
            return False
        return True


async def find_way(loop: asyncio.AbstractEventLoop, target: Target) -> Way:
    """Look the server's name up."""
    try:
        found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise CannotRun(f"server {target.host}:{target.port}: {error.strerror or error}; check the address") from None
    host, port = found[0][4][:2]
    return Way(loop, target, (str(host), int(port)))


def tls_context(target: Target) -> ssl.SSLContext | None:
    """None for plain connections."""
    if not target.tls:
        return None
    context = ssl.create_default_context(cafile=target.ca_file)
    if not target.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
