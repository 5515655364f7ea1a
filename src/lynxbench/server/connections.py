"""Connections that keep others from none: headers in time, few to an address, and always room for one more.

uvicorn waits for ever for the headers of a request, and takes connections until the process has no numbers left for
them: then nobody gets in.
"""

from __future__ import annotations

import asyncio
import resource
from collections import defaultdict
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lynxbench.server.limits import network_of

HEADERS_S = 10.0
"""From the connection, or the first byte of a further request, to the end of its headers."""
BODY_S = 120.0
"""From there to the end of the body: the largest piece of a bundle at 70 kB/s."""
STALL_S = 60.0
"""How long somebody may leave an answer unread once the system's buffers are full."""
MOST_AN_ADDRESS = 128
"""A browser opens six; an office behind one address, some dozens."""
MOST_CONNECTIONS = 4096
MOST_HEADER_BYTES = 64 << 10
KEPT_FILES = 256
"""Files that the server needs for itself: databases, uploads, documents."""


class ConnectionBook:
    """Which connections there are, by address. Where there is no room, one that asks for nothing makes some."""

    def __init__(self, most: int, most_an_address: int | None) -> None:
        self._most, self._most_an_address = most, most_an_address
        self._by_address: dict[str, dict[BoundedConnection, None]] = defaultdict(dict)
        self.count = 0

    def admit(self, connection: BoundedConnection) -> bool:
        """Whether a new connection may stay; another one may have to go for it."""
        mine = self._by_address.get(connection.address, {})
        if self._most_an_address is not None and len(mine) >= self._most_an_address:
            return False
        if self.count >= self._most and not self._make_room():
            return False
        self._by_address[connection.address][connection] = None
        self.count += 1
        return True

    def leave(self, connection: BoundedConnection) -> None:
        """A connection has ended; one that was never admitted changes nothing."""
        mine = self._by_address.get(connection.address, {})
        if connection in mine:
            del mine[connection]
            self.count -= 1
            if not mine:
                del self._by_address[connection.address]

    def _make_room(self) -> bool:
        """End the oldest connection that waits for nothing of ours, of the address that has most of them."""
        for held in sorted(self._by_address.values(), key=len, reverse=True):
            idle = next((connection for connection in held if connection.is_idle), None)
            if idle is not None:
                self.leave(idle)
                idle.drop()
                return True
        return False


class BoundedConnection(HttpToolsProtocol):
    """One connection with a deadline for everything that its other end could draw out."""

    book: ClassVar[ConnectionBook]
    address = ""
    _timer: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None
    _heading, _head_bytes = False, 0

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def drop(self) -> None:
        """End it without waiting for the other end."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self.address = network_of(self.client[0]) if self.client else ""
        if self.book.admit(self):
            self._expect_headers()
        else:
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._expect(None)
        self.resume_writing()
        self.book.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something came; whatever it is, it begins the time for headers where no request is under way."""
        if self.is_idle and self._timer is None:
            self._expect_headers()
        super().data_received(data)
        if self._heading:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEADER_BYTES:
                self.drop()

    def on_headers_complete(self) -> None:
        """The request is known; its body follows."""
        self._heading = False
        self._expect(BODY_S)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is here as a whole."""
        self._expect(None)
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The other end does not read."""
        if self._stall is None:
            self._stall = self.loop.call_later(STALL_S, self.drop)
        super().pause_writing()

    def resume_writing(self) -> None:
        """It does again."""
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        super().resume_writing()

    def _expect_headers(self) -> None:
        self._heading, self._head_bytes = True, 0
        self._expect(HEADERS_S)

    def _expect(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.drop)


def bounded_connections(*, behind_proxy: bool) -> type[BoundedConnection]:
    """Connections of one server. Behind a proxy all come from its address, and it is the proxy that counts them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + KEPT_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = max(MOST_AN_ADDRESS, min(MOST_CONNECTIONS, soft - KEPT_FILES))

    class ServedConnection(BoundedConnection):
        book = ConnectionBook(most, None if behind_proxy else MOST_AN_ADDRESS)

    return ServedConnection
