"""Which pages people read lately: after a restart those are made before anybody is answered, not all at once after."""

import asyncio
import json
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from sqlalchemy import select
from starlette.types import ASGIApp, Message
from starlette.types import Scope as AsgiScope

from lynxbench.ledger.database import upsert
from lynxbench.server.rights import INSIDE
from lynxbench.watch.store import Store
from lynxbench.watch.store_tables import properties

MOST_PAGES: Final = 200
MOST_ADDRESS: Final = 300
LONGEST_S: Final = 15.0
"""A restart takes at most so much longer; what is not made by then is made when somebody asks for it."""
HERE: Final = "here"
ELSEWHERE: Final = "elsewhere"
"""Who is to make a page that the server itself asks for."""
_PROPERTY: Final = "pages_read"


class ReadPages:
    """Addresses of pages that are the same for everybody, by how recently they were asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        row = store.row(select(properties.c.value).where(properties.c.name == _PROPERTY))
        self._kept: list[str] = [] if row is None else json.loads(row.value)
        self._read: OrderedDict[str, None] = OrderedDict.fromkeys(reversed(self._kept))

    def note(self, scope: AsgiScope) -> None:
        """Somebody asked for a page."""
        query = scope["query_string"].decode("latin-1")
        address = f"{scope['path']}?{query}" if query else scope["path"]
        if len(address) <= MOST_ADDRESS:
            self._read[address] = None
            self._read.move_to_end(address)
            if len(self._read) > MOST_PAGES:
                self._read.popitem(last=False)

    def addresses(self) -> list[str]:
        """The last ones first."""
        return list(self._read)[::-1]

    def keep(self) -> None:
        """Write down which they are, where that changed: a server that is killed has no time for it."""
        addresses = self.addresses()
        if set(addresses) != set(self._kept):
            with self._store.writing() as connection:
                upsert(connection, properties, {"name": _PROPERTY}, {"value": json.dumps(addresses)})
            self._kept = addresses

    async def make_all(self, app: ASGIApp, seconds: float = LONGEST_S) -> int:
        """Have them made and kept, for so long at most, by two at a time: here, and by the process that makes pages.

        How many were. One that cannot be made tells whoever asks.
        """
        until, left = time.monotonic() + seconds, self.addresses()[::-1]

        async def make(where: str) -> int:
            made = 0
            while left and time.monotonic() < until:
                with suppress(Exception):
                    await app(_scope_of(left.pop(), where), _nothing, _ignored)
                    made += 1
            return made

        return sum(await asyncio.gather(make(HERE), make(ELSEWHERE)))


def _scope_of(address: str, where: str) -> dict[str, Any]:
    """A request that no other program can make: the server's own."""
    parts = urlsplit(address)
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": parts.path,
        "raw_path": parts.path.encode("latin-1", "replace"),
        "query_string": parts.query.encode("latin-1", "replace"),
        "root_path": "",
        "headers": [],
        "client": None,
        "server": None,
        INSIDE: where,
    }


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignored(_: Message) -> None:
    return None
