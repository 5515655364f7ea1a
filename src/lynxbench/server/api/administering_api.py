"""Keys, users, tokens, contacts and the audit log, for administrators and their scripts."""

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from lynxbench.evidence.keys import KeyCard
from lynxbench.server.access import Token, User
from lynxbench.server.administration import AuditLine
from lynxbench.server.api.request_models import MOST_NUMBER, Limit, NewContact, NewKey, NewToken, NewUser, Short, Why
from lynxbench.server.key_registry import RegisteredKey
from lynxbench.server.rights import API, AccessScope
from lynxbench.server.routing import ADMINISTER, READ, Routes, TheAuthor, TheCaller, TheServer, answer
from lynxbench.watch.notifying import Contact

access = Routes(API, "access")
route = Routes(API, "administering")


@access("GET", "/whoami", READ, {"name": str, "team": str, "scopes": list[AccessScope], "via": str})
def whoami(who: TheCaller) -> Response:
    """Who this token or session is, and what it may do."""
    scopes = [scope for scope in AccessScope if scope in who.scopes]
    return answer({"name": who.name, "team": who.team, "scopes": scopes, "via": who.via})


@access("GET", "/keys", READ, {"server": KeyCard, "keys": list[RegisteredKey]})
def keys(server: TheServer) -> Response:
    """Registered public keys, and the server's own, which signs what is pulled."""
    return answer({"server": server.signing_key().card, "keys": server.keys.list()})


@route("POST", "/keys", ADMINISTER, KeyCard, status=201)
def register_key(server: TheServer, by: TheAuthor, body: NewKey) -> Response:
    """Register a team's public key."""
    return answer(server.administration.register_key(by, body.card.encode()), 201)


@route("POST", "/keys/{keyid}/revoke", ADMINISTER, {"revoked": str})
def revoke_key(server: TheServer, by: TheAuthor, keyid: Short, body: Why) -> Response:
    """What the key signs from now on counts no longer."""
    server.administration.revoke_key(by, keyid, body.reason)
    return answer({"revoked": keyid})


@route("GET", "/users", ADMINISTER, {"users": list[User]})
def users(server: TheServer) -> Response:
    """Everybody who may come in."""
    return answer({"users": server.access.users()})


@route("POST", "/users", ADMINISTER, User, status=201)
def add_user(server: TheServer, by: TheAuthor, body: NewUser) -> Response:
    """Let somebody in."""
    return answer(server.administration.add_user(by, body.name, body.team, body.scopes, body.password), 201)


@route("POST", "/users/{user}/disable", ADMINISTER, {"disabled": str})
def disable_user(server: TheServer, by: TheAuthor, user: Short) -> Response:
    """From now on neither password, sessions nor tokens of this user count."""
    server.administration.disable_user(by, user)
    return answer({"disabled": user})


@route("GET", "/tokens", ADMINISTER, {"tokens": list[Token]})
def tokens(server: TheServer) -> Response:
    """Every token, without its text."""
    return answer({"tokens": server.access.tokens()})


@route("POST", "/tokens", ADMINISTER, {"token_id": str, "token": str}, status=201)
def make_token(server: TheServer, by: TheAuthor, body: NewToken) -> Response:
    """A token of a user; its text is in this answer and nowhere else."""
    made = server.administration.make_token(by, body.user, body.label, body.scopes, body.days)
    response = answer({"token_id": made.token_id, "token": made.text}, 201)
    response.headers["Cache-Control"] = "no-store"
    return response


@route("DELETE", "/tokens/{token_id}", ADMINISTER, {"revoked": str})
def revoke_token(server: TheServer, by: TheAuthor, token_id: Short) -> Response:
    """End a token."""
    server.administration.revoke_token(by, token_id)
    return answer({"revoked": token_id})


@route("GET", "/contacts", ADMINISTER, {"contacts": list[Contact]})
def contacts(server: TheServer) -> Response:
    """Who is told of regressions, and where."""
    return answer({"contacts": server.contacts.list()})


@route("PUT", "/contacts", ADMINISTER, Contact)
def put_contact(server: TheServer, by: TheAuthor, body: NewContact) -> Response:
    """Tell an owner; `*` is everybody who has no contact of their own."""
    return answer(server.administration.set_contact(by, body.owner, body.channel, body.address, body.secret))


@route("DELETE", "/contacts", ADMINISTER, {"removed": str})
def remove_contact(
    server: TheServer,
    by: TheAuthor,
    owner: Annotated[str, Query(min_length=1, max_length=200)],
    channel: Annotated[str, Query(pattern="^(webhook|mail|otlp)$")],
) -> Response:
    """Tell this owner no longer."""
    server.administration.remove_contact(by, owner, channel)
    return answer({"removed": owner})


@route("GET", "/audit", ADMINISTER, {"lines": list[AuditLine]})
def audit(
    server: TheServer, before: Annotated[int | None, Query(ge=0, le=MOST_NUMBER)] = None, limit: Limit = 100
) -> Response:
    """Who did what, newest first."""
    return answer({"lines": server.audit.list(before, limit)})
