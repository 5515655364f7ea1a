"""How routes answer: JSON that has no NaN, ids that were found, and a line in the audit log for every change."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from starlette.responses import Response

from lynxbench.errors import BadInput, BadLedger, LynxbenchError
from lynxbench.server import ledger_views as reading
from lynxbench.server.auditing import REFUSED
from lynxbench.server.guard import remote_of
from lynxbench.server.rights import AccessScope, Principal, parse_scopes
from lynxbench.server.server_state import Server

T = TypeVar("T")

PROBLEM = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"status": {"type": "integer"}, "message": {"type": "string"}},
            "required": ["status", "message"],
        }
    },
    "required": ["error"],
}


def _said(words: str) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": PROBLEM}}}


RESPONSES: dict[int | str, dict[str, Any]] = {
    400: _said("The request cannot be read."),
    401: _said("Nobody known asks."),
    403: _said("Whoever asks may not."),
    404: _said("Not there."),
    409: _said("It would be unsound, or it is not its turn; the line says which."),
    413: _said("More was sent than is taken."),
    415: _said("Not sent as it is."),
    422: _said("A value is wrong, or evidence does not hold."),
    429: _said("Too many requests."),
}


def server_of(request: Request) -> Server:
    """The server that a request reached."""
    found = request.app.state.server
    assert isinstance(found, Server)
    return found


def who_of(request: Request) -> Principal:
    """Who asks."""
    found = request.state.principal
    assert isinstance(found, Principal)
    return found


def answer(document: Any, status: int = 200) -> Response:
    """One JSON document; what is not known is null."""
    text = json.dumps(reading.plain(document), ensure_ascii=False, allow_nan=False)
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def found_id(server: Server, text: str, what: str) -> str:
    """The id that is named; 404 where none is."""
    return there(server, lambda: reading.named(server, text, what))


def there(server: Server, make: Callable[[], T]) -> T:
    """What is asked for; 404 where it is not there."""
    try:
        return make()
    except (BadInput, BadLedger) as error:
        line = str(error).replace(server.ledger.log.database.name, "this ledger")
        raise HTTPException(404, line) from None


def changed(request: Request, action: str, subject: str, work: Callable[[], T]) -> T:
    """Carry out a change that pages show at once, and write down who asked and what came of it."""
    made = noted(request, action, subject, work)
    server_of(request).changed()
    return made


def noted(request: Request, action: str, subject: str, work: Callable[[], T]) -> T:
    """Carry out something that no page shows, or that the log tells; and write down who asked and what came of it."""
    server, who = server_of(request), who_of(request)
    remote = remote_of(request.scope, server)
    try:
        made = work()
    except LynxbenchError as error:
        server.audit.note(who.label, action, subject, outcome=REFUSED, remote=remote, detail=str(error))
        raise
    server.audit.note(who.label, action, subject, remote=remote)
    return made


def scopes_from(names: list[str]) -> frozenset[AccessScope]:
    """Scopes by their names; BadInput for one that does not exist."""
    try:
        return parse_scopes(names)
    except ValueError:
        raise BadInput(f"scopes are {', '.join(AccessScope)}") from None
