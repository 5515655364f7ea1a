"""Forms of signed-in people: each is checked for forgery before it comes here, and leaves a line in the audit log."""

import secrets
from collections.abc import Callable
from dataclasses import replace

from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from lynxbench.errors import BadInput, LynxbenchError
from lynxbench.server.access import SESSION_S
from lynxbench.server.administration import OK, REFUSED, Administration, ChangeAuthor
from lynxbench.server.api.request_models import Named
from lynxbench.server.guard import FORM_COOKIE, SESSION_COOKIE, FormFields, read_form, safe_target
from lynxbench.server.limits import network_of
from lynxbench.server.page_routes import Here, PageVisit, shown_line
from lynxbench.server.pages import claims_page as claims
from lynxbench.server.pages import contesting_page as contesting
from lynxbench.server.pages.account_page import account_page, sign_in_page
from lynxbench.server.pages.administration_page import admin_page, audit_page
from lynxbench.server.pages.page_shell import Page
from lynxbench.server.routing import ADMINISTER, CONTEST, OPEN, READ, Routes, TheAuthor, TheCaller
from lynxbench.server.server_state import Server

route = Routes()


@route("GET", "/signin", OPEN)
async def signin_form(here: Here, request: Request, next: str = "/") -> Response:
    # what ties the form to the browser that asked for it
    secret = request.cookies.get(FORM_COOKIE) or secrets.token_urlsafe(24)
    answer = here.html(sign_in_page(secret, safe_target(next), provider=here.server.provider))
    set_cookie(answer, here.server, FORM_COOKIE, secret, 3600)
    return answer


@route("POST", "/signin", OPEN)
async def signin(here: Here, request: Request, by: TheAuthor) -> Response:
    server, form = here.server, await read_form(request)
    name, target = form.text("name", 200), safe_target(form.text("next"))
    address = network_of(by.remote)
    wait_s = server.sign_ins.wait_s(name, address)
    if wait_s > 0:
        raise HTTPException(429, "too many wrong passwords; wait a little", {"Retry-After": str(int(wait_s) + 1)})
    session = await run_in_threadpool(server.access.sign_in, name, form.text("password", 400))
    author, outcome = ChangeAuthor(name or "nobody", by.remote), OK if session is not None else REFUSED
    await run_in_threadpool(lambda: server.audit.note(author, "sign in", outcome=outcome))
    if session is None:
        server.metrics.sign_ins_refused.inc()
        return here.html(_wrong_password(here.server, request, target))
    server.sign_ins.right(name, address)
    answer = RedirectResponse(target, 303)
    set_cookie(answer, server, SESSION_COOKIE, session, SESSION_S)
    answer.delete_cookie(FORM_COOKIE, path="/")
    return answer


def _wrong_password(server: Server, request: Request, target: str) -> Page:
    secret = request.cookies.get(FORM_COOKIE, "")
    return sign_in_page(secret, target, "Name or password is wrong.", provider=server.provider)


@route("POST", "/signout", OPEN)
async def signout(here: Here, request: Request, who: TheCaller) -> Response:
    server = here.server
    vouched = None
    if server.provider is not None:
        vouched = await run_in_threadpool(server.provider_accounts.issuer_of, who.name)
    await run_in_threadpool(server.access.sign_out, request.cookies.get(SESSION_COOKIE, ""))
    server.changed()
    answer = RedirectResponse("/signin/left" if vouched else "/signin", 303)
    answer.delete_cookie(SESSION_COOKIE, path="/")
    return answer


@route("GET", "/account", READ)
async def account(here: Here, who: TheCaller) -> Response:
    return here.html(await run_in_threadpool(account_page, here.server, who))


@route("POST", "/account/tokens", READ)
async def account_token(here: Here, request: Request, who: TheCaller, by: TheAuthor) -> Response:
    form, server = await read_form(request), here.server

    def work() -> Page:
        days = form.text("days")
        if not days.isdecimal() or not 1 <= int(days) <= 3650:
            raise BadInput("a token ends after 1 to 3650 days")
        make_token = server.administration.make_token
        made = make_token(by, who.name, form.text("label"), form.getlist("scope"), float(days))
        return account_page(server, who, made.text)

    answer = await _submitted(here, work, lambda line: account_page(server, who, "", line))
    answer.headers["Cache-Control"] = "no-store"
    return answer


@route("POST", "/account/tokens/revoke", READ)
async def account_token_revoke(here: Here, request: Request, who: TheCaller, by: TheAuthor) -> Response:
    token_id, server = (await read_form(request)).text("token_id", 40), here.server

    def work() -> str:
        server.administration.revoke_token(by, token_id, who.name)
        return "/account"

    return await _submitted(here, work, lambda line: account_page(server, who, "", line))


@route("POST", "/account/password", READ)
async def account_password(here: Here, request: Request, who: TheCaller, by: TheAuthor) -> Response:
    form, server = await read_form(request), here.server
    if server.password_changes.wait_s(who.name) > 0:
        raise HTTPException(429, "too many attempts; wait a minute", {"Retry-After": "60"})

    def work() -> str:
        server.administration.change_password(by, who.name, form.text("old", 400), form.text("new", 400))
        return "/signin"

    return await _submitted(here, work, lambda line: account_page(server, who, "", line))


@route("POST", "/claims", CONTEST)
async def keep_claim(here: Here, request: Request, who: TheCaller, by: TheAuthor) -> Response:
    text, server = (await read_form(request)).text("text", claims.MOST_TEXT), here.server

    def work() -> str:
        name = server.audit.carry_out(by, "keep claim", "", claims.keep_claim, server, text, who)
        return f"/claims/{name}"

    return await _submitted(here, work, lambda line: claims.claims_page(server, who, text, line))


@route("GET", "/results/{result}/contest", CONTEST)
async def contest_form(here: Here, request: Request, who: TheCaller, result: Named) -> Response:
    name = await here.find(result, "result")
    page = await run_in_threadpool(contesting.contest_page, here.server, who, name, _address_of(request))
    return here.html(page)


@route("POST", "/results/{result}/contest", CONTEST)
async def contest(here: Here, request: Request, who: TheCaller, by: TheAuthor, result: Named) -> Response:
    server, name, url = here.server, await here.find(result, "result"), _address_of(request)
    form = await read_form(request)
    reason, cites = form.text("reason", 2 * contesting.MOST_REASON), form.text("cites", 4000)

    def work() -> Page:
        doubt = contesting.parse_doubt(server, name, reason, cites)
        server.audit.note(by, "prepare contest", name)
        return contesting.contest_page(server, who, name, url, doubt, reason, cites)

    again = lambda line: contesting.contest_page(server, who, name, url, None, reason, cites, line)  # noqa: E731
    return await _submitted(here, work, again)


@route("GET", "/admin", ADMINISTER)
async def admin(here: Here, who: TheCaller) -> Response:
    return here.html(await run_in_threadpool(admin_page, here.server, who))


@route("GET", "/admin/audit", ADMINISTER)
async def audit(here: Here, before: int | None = None) -> Response:
    bounded = None if before is None else max(0, min(before, 2**53))
    return here.html(await run_in_threadpool(audit_page, here.server, bounded))


def _administering(path: str, change: Callable[[Administration, ChangeAuthor, FormFields], object]) -> None:
    """A form of the administration's page, which it leads back to."""

    @route("POST", f"/admin/{path}", ADMINISTER)
    async def administer(here: Here, request: Request, who: TheCaller, by: TheAuthor) -> Response:
        form = await read_form(request)

        def work() -> str:
            change(here.server.administration, by, form)
            return "/admin"

        return await _submitted(here, work, lambda line: admin_page(here.server, who, line))


def _add_user(administration: Administration, by: ChangeAuthor, form: FormFields) -> None:
    password = form.text("password", 400) or None
    administration.add_user(by, form.text("name", 200), form.text("team", 200), form.getlist("scope"), password)


def _set_contact(administration: Administration, by: ChangeAuthor, form: FormFields) -> None:
    channel, secret = form.text("channel", 20), form.text("secret", 200) or None
    administration.set_contact(by, form.text("owner", 400), channel, form.text("address"), secret)


_administering("users", _add_user)
_administering("users/disable", lambda admin, by, form: admin.disable_user(by, form.text("user", 200)))
_administering("teams", lambda admin, by, form: admin.add_team(by, form.text("team", 200)))
_administering("keys", lambda admin, by, form: admin.register_key(by, form.text("card", 20_000).encode()))
_administering(
    "keys/revoke", lambda admin, by, form: admin.revoke_key(by, form.text("keyid", 80), form.text("reason", 1000))
)
_administering("tokens/revoke", lambda admin, by, form: admin.revoke_token(by, form.text("token_id", 40)))
_administering("contacts", _set_contact)
_administering(
    "schedules/pause",
    lambda admin, by, form: admin.pause_schedule(by, form.text("schedule", 80), bool(form.text("paused", 10))),
)


async def _submitted(here: PageVisit, work: Callable[[], str | Page], again: Callable[[str], Page]) -> Response:
    """Carry out what a form asks for, and show the page or lead to the address that comes of it; or the form again."""
    try:
        outcome = await run_in_threadpool(work)
    except LynxbenchError as error:
        page = await run_in_threadpool(again, shown_line(here.server, error))
        return here.html(replace(page, status=422))
    return RedirectResponse(outcome, 303) if isinstance(outcome, str) else here.html(outcome)


def _address_of(request: Request) -> str:
    """Where the reader reached this server: what their own command line must reach, too."""
    return f"{request.url.scheme}://{request.url.netloc}"


def set_cookie(answer: Response, server: Server, name: str, value: str, seconds: int) -> None:
    """A cookie that no script reads and no other site's form sends."""
    secure = server.settings.secure
    answer.set_cookie(name, value, max_age=seconds, path="/", httponly=True, samesite="lax", secure=secure)
