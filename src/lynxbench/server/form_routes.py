"""Forms of signed-in people: each is checked for forgery before it comes here, and leaves a line in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from lynxbench.errors import BadInput, LynxbenchError
from lynxbench.server.access import SESSION_S
from lynxbench.server.auditing import REFUSED
from lynxbench.server.guard import (
    FORM_COOKIE,
    SESSION_COOKIE,
    new_form_secret,
    read_form,
    remote_of,
    safe_target,
)
from lynxbench.server.page_routes import html, server_of, shown_line
from lynxbench.server.pages import claims_page as claim_pages
from lynxbench.server.pages.account_page import account_page, sign_in_page
from lynxbench.server.pages.administration_page import admin_page, audit_page
from lynxbench.server.pages.page_shell import Page
from lynxbench.server.rights import Principal, parse_scopes
from lynxbench.server.server_state import Server

T = TypeVar("T")
MOST_FIELD = 4000

router = APIRouter(include_in_schema=False)


class FormFields:
    """The fields of a form, asked for by name."""

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._fields = fields

    def text(self, name: str, most: int = MOST_FIELD) -> str:
        """One field; empty where it was not sent."""
        found = self._fields.get(name, [""])[0]
        if len(found) > most:
            raise BadInput(f"{name} has more than {most} characters")
        return found

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return self._fields.get(name, [])


@router.get("/signin")
async def signin_form(request: Request, next: str = "/") -> Response:
    secret = request.cookies.get(FORM_COOKIE) or new_form_secret()
    answer = html(request, sign_in_page(secret, safe_target(next)))
    _set(answer, server_of(request), FORM_COOKIE, secret, 3600)
    return answer


@router.post("/signin")
async def signin(request: Request) -> Response:
    server = server_of(request)
    form = FormFields(await read_form(request))
    name, remote = form.text("name", 200), remote_of(request.scope, server)
    secret = request.cookies.get(FORM_COOKIE, "")
    target = safe_target(form.text("next"))
    if max(server.sign_ins.wait_s(f"address {remote}"), server.sign_ins.wait_s(f"user {name}")) > 0:
        raise HTTPException(429, "too many attempts; wait a minute", {"Retry-After": "60"})
    made = await run_in_threadpool(server.access.sign_in, name, form.text("password", 400))
    outcome = {} if made is not None else {"outcome": REFUSED}
    await run_in_threadpool(lambda: server.audit.note(name or "nobody", "sign in", remote=remote, **outcome))
    if made is None:
        server.metrics.count("sign_ins_refused", "Sign-ins that were refused.")
        return html(request, sign_in_page(secret, target, "Name or password is wrong."))
    answer = RedirectResponse(target, 303)
    _set(answer, server, SESSION_COOKIE, made.text, SESSION_S)
    answer.delete_cookie(FORM_COOKIE, path="/")
    return answer


@router.post("/signout")
async def signout(request: Request) -> Response:
    server = server_of(request)
    await run_in_threadpool(server.access.sign_out, request.cookies.get(SESSION_COOKIE, ""))
    server.changed()
    answer = RedirectResponse("/signin", 303)
    answer.delete_cookie(SESSION_COOKIE, path="/")
    return answer


@router.get("/account")
async def account(request: Request) -> Response:
    return html(request, await run_in_threadpool(account_page, server_of(request), request.state.principal))


@router.post("/account/tokens")
async def account_token(request: Request) -> Response:
    server, who = server_of(request), request.state.principal
    form = FormFields(await read_form(request))

    def work() -> str:
        scopes = parse_scopes(form.all("scope"))
        made = server.access.make_token(who.name, form.text("label"), scopes, _days(form.text("days")))
        return made.text

    try:
        made = await _done(request, "make token", form.text("label"), work)
    except (LynxbenchError, ValueError) as error:
        return html(request, _wrong(await run_in_threadpool(account_page, server, who, "", _line(server, error))))
    answer = html(request, await run_in_threadpool(account_page, server, who, made))
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.post("/account/tokens/revoke")
async def account_token_revoke(request: Request) -> Response:
    server, who = server_of(request), request.state.principal
    token_id = FormFields(await read_form(request)).text("token_id", 40)
    try:
        await _done(request, "revoke token", token_id, lambda: server.access.revoke_token(token_id, who.name))
    except LynxbenchError as error:
        return html(request, _wrong(await run_in_threadpool(account_page, server, who, "", _line(server, error))))
    return RedirectResponse("/account", 303)


@router.post("/account/password")
async def account_password(request: Request) -> Response:
    server, who = server_of(request), request.state.principal
    form = FormFields(await read_form(request))
    if server.sign_ins.wait_s(f"user {who.name}") > 0:
        raise HTTPException(429, "too many attempts; wait a minute", {"Retry-After": "60"})

    def work() -> None:
        if server.access.sign_in(who.name, form.text("old", 400)) is None:
            raise BadInput("the password now is another one")
        server.access.set_password(who.name, form.text("new", 400))

    try:
        await _done(request, "change password", who.name, work)
    except LynxbenchError as error:
        return html(request, _wrong(await run_in_threadpool(account_page, server, who, "", _line(server, error))))
    return RedirectResponse("/signin", 303)


@router.post("/claims")
async def claims(request: Request) -> Response:
    server, who = server_of(request), request.state.principal
    text = FormFields(await read_form(request)).text("text", claim_pages.MOST_TEXT)
    try:
        name = await _done(request, "keep claim", "", lambda: claim_pages.keep_claim(server, text, who))
    except LynxbenchError as error:
        page = await run_in_threadpool(claim_pages.claims_page, server, who, text, _line(server, error))
        return html(request, _wrong(page))
    return RedirectResponse(f"/claims/{name}", 303)


@router.get("/admin")
async def admin(request: Request) -> Response:
    return html(request, await run_in_threadpool(admin_page, server_of(request), request.state.principal))


@router.get("/admin/audit")
async def audit(request: Request, before: int | None = None) -> Response:
    bounded = None if before is None else max(0, min(before, 2**53))
    return html(request, await run_in_threadpool(audit_page, server_of(request), bounded))


@router.post("/admin/users")
async def admin_user(request: Request) -> Response:
    server, form = server_of(request), FormFields(await read_form(request))
    name = form.text("name", 200)

    def work() -> object:
        password = form.text("password", 400) or None
        return server.access.add_user(name, form.text("team", 200), parse_scopes(form.all("scope")), password)

    return await _administer(request, "add user", name, work)


@router.post("/admin/users/disable")
async def admin_user_disable(request: Request) -> Response:
    server, name = server_of(request), FormFields(await read_form(request)).text("user", 200)
    return await _administer(request, "disable user", name, lambda: server.access.disable_user(name))


@router.post("/admin/teams")
async def admin_team(request: Request) -> Response:
    server, name = server_of(request), FormFields(await read_form(request)).text("team", 200)
    return await _administer(request, "add team", name, lambda: server.access.add_team(name))


@router.post("/admin/keys")
async def admin_key(request: Request) -> Response:
    server, who = server_of(request), request.state.principal
    card = FormFields(await read_form(request)).text("card", 20_000)
    return await _administer(request, "register key", "", lambda: server.keys.register(card.encode(), None, who.label))


@router.post("/admin/keys/revoke")
async def admin_key_revoke(request: Request) -> Response:
    server, form = server_of(request), FormFields(await read_form(request))
    keyid, reason = form.text("keyid", 80), form.text("reason", 1000)
    return await _administer(request, "revoke key", keyid, lambda: server.keys.revoke(keyid, reason))


@router.post("/admin/tokens/revoke")
async def admin_token_revoke(request: Request) -> Response:
    server, name = server_of(request), FormFields(await read_form(request)).text("token_id", 40)
    return await _administer(request, "revoke token", name, lambda: server.access.revoke_token(name))


@router.post("/admin/contacts")
async def admin_contact(request: Request) -> Response:
    server, form = server_of(request), FormFields(await read_form(request))
    owner = form.text("owner", 400)

    def work() -> object:
        secret = form.text("secret", 200) or None
        return server.contacts.put(owner, form.text("channel", 20), form.text("address"), secret)

    return await _administer(request, "set contact", owner, work)


@router.post("/admin/schedules/pause")
async def admin_schedule(request: Request) -> Response:
    server, form = server_of(request), FormFields(await read_form(request))
    name, paused = form.text("schedule", 80), bool(form.text("paused", 10))
    return await _administer(request, "pause schedule", name, lambda: server.scheduler.pause(name, paused))


async def _administer(request: Request, action: str, subject: str, work: Callable[[], object]) -> Response:
    try:
        await _done(request, action, subject, work)
    except (LynxbenchError, ValueError) as error:
        server = server_of(request)
        page = await run_in_threadpool(admin_page, server, request.state.principal, _line(server, error))
        return html(request, page)
    return RedirectResponse("/admin", 303)


async def _done(request: Request, action: str, subject: str, work: Callable[[], T]) -> T:
    """Carry out what a form asks for, and write down who asked and what came of it."""
    server = server_of(request)
    who: Principal = request.state.principal
    remote = remote_of(request.scope, server)

    def whole() -> T:
        try:
            made = work()
        except (LynxbenchError, ValueError) as error:
            server.audit.note(who.label, action, subject, outcome=REFUSED, remote=remote, detail=str(error))
            raise
        server.audit.note(who.label, action, subject, remote=remote)
        return made

    try:
        return await run_in_threadpool(whole)
    finally:
        server.changed()


def _wrong(page: Page) -> Page:
    return Page(page.title, page.header, page.main, 422)


def _line(server: Server, error: Exception) -> str:
    return shown_line(server, error) if isinstance(error, LynxbenchError) else "a scope is none that exists"


def _days(text: str) -> float:
    if not text.isdecimal() or not 1 <= int(text) <= 3650:
        raise BadInput("a token ends after 1 to 3650 days")
    return float(text)


def _set(answer: Response, server: Server, name: str, value: str, seconds: int) -> None:
    secure = server.settings.secure
    answer.set_cookie(name, value, max_age=seconds, path="/", httponly=True, samesite="lax", secure=secure)
