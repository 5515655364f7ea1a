"""Keys, users, tokens, contacts and the audit log, for administrators and their scripts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from lynxbench.server.access import Token, User
from lynxbench.server.api.json_answers import answer, changed, scopes_from, server_of, there, who_of
from lynxbench.server.api.request_models import MOST_NUMBER, Limit, NewContact, NewKey, NewToken, NewUser, Short, Why
from lynxbench.server.rights import scopes_text

router = APIRouter(tags=["administering"])


@router.get("/whoami", tags=["access"])
def whoami(request: Request) -> Response:
    """Who this token or session is, and what it may do."""
    who = who_of(request)
    return answer({"name": who.name, "team": who.team, "scopes": scopes_text(who.scopes).split(), "via": who.via})


@router.get("/keys", tags=["access"])
def keys(request: Request) -> Response:
    """Registered public keys, and the server's own, which signs what is pulled."""
    server = server_of(request)
    rows = [
        {
            "card": one.card.model_dump(mode="json"),
            "registered_at": one.registered_at,
            "registered_by": one.registered_by,
            "revoked_at": one.revoked_at,
            "reason": one.reason,
        }
        for one in server.keys.list()
    ]
    return answer({"server": server.signing_key().card.model_dump(mode="json"), "keys": rows})


@router.post("/keys")
def register_key(request: Request, asked: NewKey) -> Response:
    """Register a team's public key."""
    server, who = server_of(request), who_of(request)
    card = changed(request, "register key", "", lambda: server.keys.register(asked.card.encode(), None, who.label))
    return answer(card.model_dump(mode="json"), 201)


@router.post("/keys/{keyid}/revoke")
def revoke_key(request: Request, keyid: Short, asked: Why) -> Response:
    """What the key signs from now on counts no longer."""
    server = server_of(request)
    changed(request, "revoke key", keyid, lambda: server.keys.revoke(keyid, asked.reason))
    return answer({"revoked": keyid})


@router.get("/users")
def users(request: Request) -> Response:
    """Everybody who may come in."""
    return answer({"users": [_user(one) for one in server_of(request).access.users()]})


@router.post("/users")
def add_user(request: Request, asked: NewUser) -> Response:
    """Let somebody in."""
    server = server_of(request)
    made = changed(
        request,
        "add user",
        asked.name,
        lambda: server.access.add_user(asked.name, asked.team, scopes_from(asked.scopes), asked.password),
    )
    return answer(_user(made), 201)


@router.post("/users/{user}/disable")
def disable_user(request: Request, user: Short) -> Response:
    """From now on neither password, sessions nor tokens of this user count."""
    server = server_of(request)
    there(server, lambda: server.access.user(user))
    changed(request, "disable user", user, lambda: server.access.disable_user(user))
    return answer({"disabled": user})


@router.get("/tokens")
def tokens(request: Request) -> Response:
    """Every token, without its text."""
    return answer({"tokens": [_token(one) for one in server_of(request).access.tokens()]})


@router.post("/tokens")
def make_token(request: Request, asked: NewToken) -> Response:
    """A token of a user; its text is in this answer and nowhere else."""
    server = server_of(request)
    made = changed(
        request,
        "make token",
        asked.user,
        lambda: server.access.make_token(asked.user, asked.label, scopes_from(asked.scopes), asked.days),
    )
    said = answer({"token_id": made.token_id, "token": made.text}, 201)
    said.headers["Cache-Control"] = "no-store"
    return said


@router.delete("/tokens/{token_id}")
def revoke_token(request: Request, token_id: Short) -> Response:
    """End a token."""
    server = server_of(request)
    there(server, lambda: changed(request, "revoke token", token_id, lambda: server.access.revoke_token(token_id)))
    return answer({"revoked": token_id})


@router.get("/contacts")
def contacts(request: Request) -> Response:
    """Who is told of regressions, and where."""
    return answer({"contacts": [asdict(one) for one in server_of(request).contacts.list()]})


@router.put("/contacts")
def put_contact(request: Request, asked: NewContact) -> Response:
    """Tell an owner; `*` is everybody who has no contact of their own."""
    server = server_of(request)
    made = changed(
        request,
        "set contact",
        asked.owner,
        lambda: server.contacts.put(asked.owner, asked.channel, asked.address, asked.secret),
    )
    return answer(asdict(made))


@router.delete("/contacts")
def remove_contact(
    request: Request,
    owner: Annotated[str, Query(min_length=1, max_length=200)],
    channel: Annotated[str, Query(pattern="^(webhook|mail)$")],
) -> Response:
    """Tell this owner no longer."""
    server = server_of(request)
    there(server, lambda: changed(request, "remove contact", owner, lambda: server.contacts.remove(owner, channel)))
    return answer({"removed": owner})


@router.get("/audit")
def audit(
    request: Request, before: Annotated[int | None, Query(ge=0, le=MOST_NUMBER)] = None, limit: Limit = 100
) -> Response:
    """Who did what, newest first."""
    return answer({"lines": [asdict(one) for one in server_of(request).audit.list(before, limit)]})


def _user(one: User) -> dict[str, object]:
    return {
        "name": one.name,
        "team": one.team,
        "scopes": scopes_text(one.scopes).split(),
        "made_at": one.made_at,
        "disabled_at": one.disabled_at,
        "has_password": one.has_password,
    }


def _token(one: Token) -> dict[str, object]:
    return {
        "token_id": one.token_id,
        "user": one.user,
        "label": one.label,
        "scopes": scopes_text(one.scopes).split(),
        "made_at": one.made_at,
        "expires_at": one.expires_at,
        "revoked_at": one.revoked_at,
    }
