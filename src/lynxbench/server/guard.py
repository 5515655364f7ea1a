"""What stands before every route: whose name is called, how much is sent, who asks, and may they."""

import hmac
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import parse_qsl, quote, urlsplit

from anyio import CancelScope, current_time
from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import Headers, ImmutableMultiDict
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from lynxbench.errors import BadInput
from lynxbench.server.access import digest_of
from lynxbench.server.administration import REFUSED, ChangeAuthor
from lynxbench.server.limits import network_of
from lynxbench.server.pages.page_shell import POLICY
from lynxbench.server.rights import ANONYMOUS, API, INSIDE, AccessScope, Principal, nobody
from lynxbench.server.server_state import ACCESS, Server
from lynxbench.server.settings import (
    MOST_BODY_BYTES,
    MOST_CHUNK_BYTES,
    MOST_FORM_BYTES,
    MOST_LOG_BYTES,
    MOST_PUSHED_BYTES,
)

SESSION_COOKIE = "lynx_session"
FORM_COOKIE = "lynx_form"
ACCESS_FRESH_S = 1.0
"""A token or session that was ended by another process opens nothing after so long; by this one, at once."""
MOST_REMEMBERED = 5000
MOST_FIELDS = 50
MOST_FIELD = 4000
PUSHING = f"{API}/bundles"
"""Where a whole bundle comes by one request."""
SAFE_METHODS = frozenset({"GET", "HEAD"})
SPENT_BY_GET = "/signin/"
"""Where a GET does something once: the provider's answer is spent by it, and who only looks spends nothing."""
HEAD_S = 1.0
"""How long what answers a HEAD may go on with a body that nobody reads: a live view's has no end."""
FOR_ANY_NAME = frozenset({"/healthz", "/readyz"})
"""Asked by what keeps the server running, which calls it by an address; they say nothing that others may not know."""
_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"interest-cohort=()"),
    (b"cache-control", b"private, no-cache"),  # no cache between gives one reader's answer to another
)


class NeedsSignIn(Exception):
    """A page that nobody may read without a name."""

    def __init__(self, target: str) -> None:
        self.target = target


class Guard:
    """Plain ASGI around the whole application: host, sizes, headers, one log line for each request."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server
        self._hosts = server.settings.allowed_hosts

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or INSIDE in scope:
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        headers = dict(scope["headers"])
        bare = scope["method"] == "HEAD" and not scope["path"].startswith(SPENT_BY_GET)
        asked: AsgiScope = {**scope, "method": "GET"} if bare else scope

        async def respond(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                # whoever parsed the body may have called what was cut off a wrong one
                status = 413 if counted.overflowed else message["status"]
                spent = f"app;dur={1000 * (time.perf_counter() - began):.1f}".encode()
                given = {name.lower() for name, _ in message["headers"]}
                added = [header for header in _HEADERS if header[0] not in given]
                headers_ = [*message["headers"], *added, (b"server-timing", spent)]
                message = {**message, "status": status, "headers": headers_}
            if not bare or message["type"] == "http.response.start":
                await send(message)
            elif message.get("more_body"):
                rest.cancel()
            if bare and message["type"] == "http.response.start":
                await send({"type": "http.response.body", "body": b""})
                rest.deadline = current_time() + HEAD_S

        rest = CancelScope()
        counted = _Counted(receive, most_bytes(scope["method"], scope["path"]))
        refusal = self._refusal(scope, headers)
        try:
            with rest:
                if refusal is not None:
                    await refusal(asked, receive, respond)
                else:
                    await self._app(asked, counted, respond)
        finally:
            self._tell({**asked, "method": scope["method"]}, status, time.perf_counter() - began)

    def _refusal(self, scope: AsgiScope, headers: dict[bytes, bytes]) -> Response | None:
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:  # RFC 9112, 3.2: which one is meant, nobody knows
            return problem(400, "the request names two hosts")
        host = headers.get(b"host", b"").decode("latin-1")
        name = urlsplit(f"//{host}").hostname if _plain(host) else None
        if scope["path"] not in FOR_ANY_NAME and (name is None or name.lower() not in self._hosts):
            return problem(421, "this server is not called by that name; see --origin")
        if b"content-encoding" in headers:
            return problem(415, "send it as it is: nothing packed is taken")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > most_bytes(scope["method"], scope["path"]):
            return problem(413, "more was sent than is taken here")
        if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
            return problem(400, "a name holds a zero byte")
        return None

    def _tell(self, scope: AsgiScope, status: int, seconds: float) -> None:
        route = template_of(scope)
        who = scope.get("state", {}).get("principal")
        server = self._server
        server.metrics.requests.labels(route, scope["method"], str(status)).inc()
        server.metrics.durations.labels(route).observe(seconds)
        fields = {
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "ms": round(1000 * seconds, 2),
            "who": who.name if who is not None else "",
            "remote": remote_of(scope, server),
        }
        server.log.info("request", extra=fields)


class Doorkeeper:
    """Finds out who asks, and whether they may do what a route is for."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._remembered: OrderedDict[str, tuple[float, int, Principal]] = OrderedDict()
        self._open: tuple[float, bool] | None = None

    async def admit(self, request: Request, need: AccessScope | None) -> None:
        """Let the request pass to a route that asks for this scope, or raise; None is open to everybody."""
        server = self._server
        if INSIDE in request.scope and need is AccessScope.READ:
            request.state.principal = nobody(may_read=True)
            return
        who = await self.principal(request)
        request.state.principal = who
        request.state.author = ChangeAuthor(who.label, remote_of(request.scope, server))
        wait_s = server.reads.wait_s(who.credential or network_of(request.state.author.remote))
        if wait_s > 0:
            raise HTTPException(429, "too many requests; wait a little", {"Retry-After": str(int(wait_s) + 1)})
        page = not template_of(request.scope).startswith(API)
        if not who.may(need):
            await self._deny(request, who, need, page=page)
        if request.method not in SAFE_METHODS:
            await self._refuse_forgery(request, who, page=page)

    async def principal(self, request: Request) -> Principal:
        """Who asks: by a token, by a session, or nobody known."""
        given = request.headers.get("authorization")
        if given is not None:
            return await self._by_token(given, network_of(remote_of(request.scope, self._server)))
        cookie = request.cookies.get(SESSION_COOKIE)
        if cookie:
            principal = await self._ask("session", cookie, self._server.access.by_session)
            if principal is not None:
                return principal
        return nobody(may_read=self._server.settings.public_read or await self._is_open())

    async def _is_open(self) -> bool:
        """On this machine alone, and nobody is registered: whoever is here may read."""
        if not self._server.settings.is_local or self._server.provider is not None:
            return False
        if self._open is None or time.monotonic() - self._open[0] > ACCESS_FRESH_S:
            known = await run_in_threadpool(self._server.access.has_users)
            self._open = (time.monotonic(), not known)
        return self._open[1]

    async def _by_token(self, given: str, address: str) -> Principal:
        kind, _, text = given.partition(" ")
        if self._key("token", text) not in self._remembered:  # what opened something before is not held up by others
            wait_s = self._server.wrong_tokens.wait_s(address, take=False)
            if wait_s > 0:
                raise HTTPException(429, "too many wrong tokens; wait a little", {"Retry-After": str(int(wait_s) + 1)})
        principal = await self._ask("token", text, self._server.access.by_token) if kind.lower() == "bearer" else None
        if principal is None:
            self._server.wrong_tokens.wait_s(address)
            raise HTTPException(401, "this token opens nothing here", {"WWW-Authenticate": "Bearer"})
        return principal

    async def _ask(self, kind: str, text: str, ask: Callable[[str], Principal | None]) -> Principal | None:
        """Whose a token or session is; only what opens something is remembered, and by its hash."""
        key, generation = self._key(kind, text), self._server.pulse.generation(ACCESS)
        held = self._remembered.get(key)
        if held is not None and held[1] == generation and time.monotonic() - held[0] < ACCESS_FRESH_S:
            return held[2]
        principal = await run_in_threadpool(ask, text)
        self._remembered.pop(key, None)
        if principal is not None:
            self._remembered[key] = (time.monotonic(), generation, principal)
            while len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        return principal

    @staticmethod
    def _key(kind: str, text: str) -> str:
        return f"{kind} {digest_of(text)}"

    async def _deny(self, request: Request, who: Principal, need: AccessScope | None, *, page: bool) -> None:
        if who.via == ANONYMOUS:
            if page and request.method in SAFE_METHODS:
                target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                raise NeedsSignIn(target)
            raise HTTPException(401, "say who you are: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})
        action, by = f"{request.method} {template_of(request.scope)}", request.state.author
        note = self._server.audit.note
        await run_in_threadpool(lambda: note(by, action, outcome=REFUSED, detail=f"needs {need}"))
        raise HTTPException(403, f"{who.name} may not {need}")

    async def _refuse_forgery(self, request: Request, who: Principal, *, page: bool) -> None:
        if not page:
            if who.via == "session":
                raise HTTPException(403, "the API is changed with a token, not with a browser's session")
            return
        if who.via == "token":
            raise HTTPException(403, "pages are for browsers; use the API with a token")
        origin = request.headers.get("origin")
        own = {self._server.settings.base_url, f"{request.url.scheme}://{request.headers.get('host', '')}"}
        if origin is not None and origin not in own:
            raise HTTPException(403, "this form was not sent from a page of this server")
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise HTTPException(403, "this form was not sent from a page of this server")
        sent = (await read_form(request)).text("csrf")
        expected = request.cookies.get(FORM_COOKIE, "") if template_of(request.scope) == "/signin" else who.csrf
        if not expected or not hmac.compare_digest(sent.encode(), expected.encode()):
            raise HTTPException(403, "this form is out of date; load the page again")


class FormFields(ImmutableMultiDict[str, str]):
    """The fields of a form, asked for by name."""

    def text(self, name: str, most: int = MOST_FIELD) -> str:
        """One field; empty where it was not sent."""
        value = next(iter(self.getlist(name)), "")
        if len(value) > most:
            raise BadInput(f"{name} has more than {most} characters")
        return value


async def read_form(request: Request) -> FormFields:
    """The fields of a form; read once, kept with the request."""
    held: FormFields | None = getattr(request.state, "form", None)
    if held is not None:
        return held
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/x-www-form-urlencoded":
        raise HTTPException(415, "a form is sent as application/x-www-form-urlencoded")
    body = await request.body()
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise HTTPException(422, "this form cannot be read") from None
    if any("\x00" in value for _, value in pairs):
        raise HTTPException(422, "a field holds a zero byte")
    form = request.state.form = FormFields(pairs)
    return form


def safe_target(text: str) -> str:
    """Where to go after signing in: a path of this server, never another place."""
    if (
        not text.startswith("/")
        or text.startswith(("//", "/\\"))
        or any(ord(letter) < 33 or ord(letter) == 127 for letter in text)
    ):
        return "/"
    parts = urlsplit(text)
    if parts.scheme or parts.netloc or "\\" in text:
        return "/"
    return quote(text, safe="/?&=%-._~+:,")[:2000]


def template_of(scope: AsgiScope) -> str:
    """The route's own form of the address; `none` where no route fits."""
    return str(getattr(scope.get("route"), "path", "none"))


def remote_of(scope: AsgiScope, server: Server) -> str:
    """From where somebody asks; a proxy's word counts only where so many were said to stand before.

    Each proxy adds whom it heard at the right: what stands further left than the proxies are many, anybody can write.
    """
    client, proxies = scope.get("client"), server.settings.proxies
    peer = str(client[0]) if client else "unknown"
    lines = Headers(scope=scope).getlist("x-forwarded-for") if proxies else []
    named = [text.strip() for text in ",".join(lines).split(",") if text.strip()][-proxies:]
    return named[0][:60] if named and _is_address(named[0]) else peer


def problem(status: int, line: str, exit_code: int | None = None) -> Response:
    """One error, as the API says it, with the exit code that a command of lynxbench ends in, where it has one."""
    ends = {} if exit_code is None else {"exit_code": exit_code}
    text = json.dumps({"error": {"status": status, "message": line, **ends}})  # ASCII: nothing in it is not seen
    return Response(text, status, media_type="application/json")


def most_bytes(method: str, path: str) -> int:
    """How much a request may carry."""
    if path.startswith(f"{API}/uploads/") and method == "PATCH":
        return MOST_CHUNK_BYTES
    if path == PUSHING and method == "POST":
        return MOST_PUSHED_BYTES
    if path.endswith("/likeness"):
        return MOST_LOG_BYTES
    return MOST_BODY_BYTES if path.startswith(API) else MOST_FORM_BYTES


class _Counted:
    """The body as it comes, up to a bound."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most, self._seen = receive, most, 0
        self.overflowed = False

    async def __call__(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if self._seen > self._most:
            self.overflowed = True
            raise HTTPException(413, "more was sent than is taken here")
        return message


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _plain(host: str) -> bool:
    return bool(host) and len(host) < 300 and not any(letter in host for letter in "/@\\ \t?#")
