"""Getting to the server: the address once, the TLS context once, connections as they are asked for."""

import asyncio
import socket
import ssl
from collections.abc import Coroutine
from typing import Any

from lynxbench.errors import CannotRun
from lynxbench.load.plan import Target
from lynxbench.load.wire import Connection


class Way:
    """The server's address and TLS context, found once: a look-up in the middle of a run would be timed as its own."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, target: Target, address: tuple[str, int], over_http2: bool
    ) -> None:
        self._loop, self._address = loop, address
        self._tls = tls_context(target)
        if self._tls is not None and over_http2:
            self._tls.set_alpn_protocols(["h2"])
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


async def find_way(loop: asyncio.AbstractEventLoop, target: Target, *, over_http2: bool = False) -> Way:
    """Look the server's name up."""
    try:
        addresses = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise CannotRun(f"server {target.host}:{target.port}: {error.strerror or error}; check the address") from None
    host, port = addresses[0][4][:2]
    return Way(loop, target, (str(host), int(port)), over_http2)


def tls_context(target: Target) -> ssl.SSLContext | None:
    """None for plain connections."""
    if not target.tls:
        return None
    context = ssl.create_default_context(cafile=target.ca_file)
    if not target.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
