"""To the company's provider and back; a page for each way in which that comes to nothing."""

from anyio import to_thread
from fastapi import HTTPException, Request
from starlette.responses import RedirectResponse, Response

from lynxbench.server.access import SESSION_S
from lynxbench.server.administration import REFUSED, ChangeAuthor
from lynxbench.server.form_routes import set_cookie
from lynxbench.server.guard import SESSION_COOKIE, safe_target
from lynxbench.server.limits import network_of
from lynxbench.server.page_routes import Here, PageVisit
from lynxbench.server.pages.account_page import sign_in_failed_page, signed_out_page
from lynxbench.server.provider import SIGN_IN_S, Provider, SignInFailed
from lynxbench.server.provider_accounts import AccountRefused
from lynxbench.server.provider_settings import rights_of
from lynxbench.server.routing import OPEN, Routes, TheAuthor
from lynxbench.server.server_state import RETURN_PATH

route = Routes()

PENDING_COOKIE = "lynx_signin"


@route("GET", "/signin/oidc", OPEN)
async def provider_begin(here: Here, by: TheAuthor, next: str = "/") -> Response:
    provider = _provider(here)
    _refuse_guessing(here, by)
    try:
        address, pending = await to_thread.run_sync(provider.begin, safe_target(next), limiter=here.server.signing_in)
    except SignInFailed as failed:
        return await _failed(here, provider, by, failed.status, str(failed))
    answer = RedirectResponse(address, 303, {"Cache-Control": "no-store"})
    set_cookie(answer, here.server, PENDING_COOKIE, pending, SIGN_IN_S)
    return answer


@route("GET", RETURN_PATH, OPEN)
async def provider_return(here: Here, request: Request, by: TheAuthor) -> Response:
    provider, server = _provider(here), here.server
    _refuse_guessing(here, by)
    given = dict(request.query_params)
    if len(given) != len(request.query_params.multi_items()):
        return await _failed(here, provider, by, 400, "the answer says something twice; begin again")

    def work() -> tuple[str, str]:
        person, target = provider.finish(request.cookies.get(PENDING_COOKIE, ""), given)
        rights = rights_of(provider.settings, person.groups)
        try:
            name = server.provider_accounts.admit(person.issuer, person.subject, person.wished_name, rights)
        finally:
            server.changed()
        server.audit.note(ChangeAuthor(name, by.remote), "sign in", person.issuer)
        return server.access.open_session(name), target

    try:
        session, target = await to_thread.run_sync(work, limiter=here.server.signing_in)
    except SignInFailed as failed:
        return await _failed(here, provider, by, failed.status, str(failed))
    except AccountRefused as refused:
        return await _failed(here, provider, by, 403, str(refused))
    answer = RedirectResponse(safe_target(target), 303, {"Cache-Control": "no-store"})
    set_cookie(answer, server, SESSION_COOKIE, session, SESSION_S)
    answer.delete_cookie(PENDING_COOKIE, path="/")
    return answer


@route("GET", "/signin/left", OPEN)
async def provider_left(here: Here) -> Response:
    return here.html(signed_out_page(_provider(here)))


def _provider(here: PageVisit) -> Provider:
    provider = here.server.provider
    if provider is None:
        raise HTTPException(404, "this server knows no provider; sign in with a password")
    return provider


def _refuse_guessing(here: PageVisit, by: ChangeAuthor) -> None:
    wait_s = here.server.failed_returns.wait_s(network_of(by.remote), take=False)
    if wait_s > 0:
        raise HTTPException(429, "too many sign-ins that failed; wait a little", {"Retry-After": str(int(wait_s) + 1)})


async def _failed(here: PageVisit, provider: Provider, by: ChangeAuthor, status: int, line: str) -> Response:
    server = here.server
    server.failed_returns.wait_s(network_of(by.remote))
    server.metrics.sign_ins_refused.inc()
    note = server.audit.note
    subject = provider.settings.issuer
    await to_thread.run_sync(lambda: note(by, "sign in", subject, outcome=REFUSED, detail=line))
    answer = here.html(sign_in_failed_page(provider, line, status))
    answer.headers["Cache-Control"] = "no-store"
    answer.delete_cookie(PENDING_COOKIE, path="/")
    return answer
