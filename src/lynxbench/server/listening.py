"""A server that listens, and ends in order."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lynxbench.errors import BadInput, LynxbenchError
from lynxbench.server.server_state import Server
from lynxbench.server.settings import ServerSettings

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

GRACE_S = 10
BACKLOG = 2048


def listen(server: Server, tls_cert: Path | None, tls_key: Path | None, ready: Callable[[int], None]) -> None:
    """Answer until interrupted; `ready` is told the port once everything is loaded."""
    import uvicorn

    from lynxbench.server.app import make_app

    settings = server.settings
    try:
        bound = _bound(settings)
    except OSError as error:
        server.stop()
        raise BadInput(f"{settings.host}:{settings.port}: {error.strerror or error}; give another --port") from error
    runner = uvicorn.Server(configured(make_app(server), settings, tls_cert, tls_key))
    if not server.read_pages.addresses():  # those that were read last are made before anybody is answered
        _look_around(server)
    gc.collect()
    gc.freeze()  # what is loaded by now stays: the collector need not walk over it while somebody waits for a page
    ready(bound.getsockname()[1])
    try:
        asyncio.run(runner.serve(sockets=[bound]))
    finally:
        bound.close()


def configured(
    app: FastAPI,
    settings: ServerSettings,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    *,
    grace_s: int = GRACE_S,
) -> uvicorn.Config:
    """How uvicorn runs the application."""
    import uvicorn

    from lynxbench.server.connections import bounded_connections

    return uvicorn.Config(
        app,
        http=bounded_connections(behind_proxy=settings.proxies > 0),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        lifespan="on",
        timeout_graceful_shutdown=grace_s,
        ssl_certfile=None if tls_cert is None else str(tls_cert),
        ssl_keyfile=None if tls_key is None else str(tls_key),
        proxy_headers=False,
    )


def _look_around(server: Server) -> None:
    """What everybody asks for first is read, and what drawing it needs is loaded, before anybody can ask."""
    from lynxbench.server.ledger_views import contract_ids
    from lynxbench.server.pages.contracts_page import contract_page
    from lynxbench.server.pages.overview_page import overview_page

    overview_page(server)
    for contract_id, _ in contract_ids(server)[:1]:
        with suppress(LynxbenchError):  # its own page will say so
            contract_page(server, contract_id, None)


def _bound(settings: ServerSettings) -> socket.socket:
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family is socket.AF_INET6 and socket.has_dualstack_ipv6()
    bound = socket.create_server((host, settings.port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
    bound.setblocking(False)
    return bound
