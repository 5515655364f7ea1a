"""Every page in a real browser: light and dark, desk and phone; nothing on the console, nothing from elsewhere, and
readable for those who do not see it. A browser is needed; its absence is a failure, not a skip.

No page is forgotten: each route that answers with a page is held against the pages that are opened here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page
from sqlalchemy import delete
from starlette.routing import Match

from browsers import launched_browser
from compared import make_contract
from hosted import PASSWORD, World
from lynxbench.model.entries import ResultNoted, ResultTagged
from lynxbench.record.agreeing import render_signed, seal_agreement
from lynxbench.record.recording import seal
from lynxbench.server.app import make_app
from lynxbench.server.limits import SIGN_INS_PER_MIN, Limiter
from lynxbench.server.pages.claims_page import keep_claim
from lynxbench.server.provider import Provider
from lynxbench.server.provider_settings import GroupRight, ProviderSettings
from lynxbench.server.rights import API, AccessScope, Principal
from lynxbench.server.server_state import RETURN_PATH
from lynxbench.watch.store_tables import views as views_table
from page_checks import DESK, PHONE, TWO_FRAMES, PageChecker, show
from visits import NO_SUCCESS, Visit

NO_PAGES = {
    "/contracts/{contract}/series.{form}": "a file",
    "/contracts/{contract}/chart.json": "a plot's data",
    "/results/{result}/result.json": "a file",
    "/results/{result}/report.html": "a file; tests/e2e/test_report_browser.py opens such reports",
    "/results/{result}/plots/{name}.svg": "a file",
    "/experiments/{analysis}/analysis.json": "a file",
    "/experiments/{analysis}/report.html": "a file; as above",
    "/experiments/{analysis}/plots/{name}.svg": "a file",
    "/fleet/{analysis}/analysis.json": "a file",
    "/fleet/{analysis}/report.html": "a file; as above",
    "/fleet/{analysis}/plots/{name}.svg": "a file",
    "/decisions/{seq}/pack.html": "a file that is shown without its script; tests/e2e/test_pack_browser.py opens it",
    "/views/{view}": "leads on to another page",
    "/static/{name}": "style and script",
    "/healthz": "a word for what keeps the server running",
    "/readyz": "the same",
    "/metrics": "figures for Prometheus",
}
"""Routes that are asked with GET and answer with no page of their own, and what they answer with."""
UNREACHABLE = "http://127.0.0.1:9"
"""Nobody listens on the port of `discard`: a provider that is down."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched_browser() as made:
        yield made


@pytest.fixture(scope="module")
def checker() -> PageChecker:
    return PageChecker()


@pytest.fixture(scope="module")
def administrator(browser: Browser, world: World) -> Iterator[Visit]:
    visit = Visit(browser, world, name="administrator")
    yield visit
    visit.close()


@contextmanager
def with_provider(world: World) -> Iterator[None]:
    """A server whose company has a provider, which is down."""
    readers = GroupRight(group="readers", team="ml-platform", may=(AccessScope.READ,))
    given = {"lynxbench_sign_in": 1, "issuer": UNREACHABLE, "client_id": "bench", "name": "Example & Co"}
    settings = ProviderSettings.model_validate({**given, "groups": (readers,)})
    server, before = world.server, world.server.provider
    server.provider = Provider(settings, None, f"http://127.0.0.1:{world.port}{RETURN_PATH}")
    try:
        yield
    finally:
        server.provider = before
        server.failed_returns = Limiter(SIGN_INS_PER_MIN / 60, SIGN_INS_PER_MIN)


def signed_contract(world: World) -> str:
    """A contract that one of two teams has signed, and that amends one which nobody knows."""
    contract = make_contract(name="signed", teams=["infrastructure", "ml-platform"], amends="ab" * 32)
    entries = render_signed(seal_agreement(contract, world.team.key)).decode().splitlines()
    assert world.caller("submitter").json("POST", "/api/v1/agreements", {"entries": entries}).status == 200
    return contract.contract_id


def remarked(world: World) -> str:
    """A result with tags and a note, signed by a team."""
    name = world.results[1].result_id
    for body in (ResultTagged(result_id=name, put=("release-7", "golden")), ResultNoted(result_id=name, text="odd")):
        envelope = seal(body, world.team.key).to_bytes().decode("ascii")
        assert world.caller("contester").json("POST", "/api/v1/remarks", {"envelope": envelope}).status == 200
    return name


def begun_run(world: World) -> str:
    """A run in progress that has said something."""
    scheduler, team = world.server.scheduler, world.team.name
    scheduler.put("nightly", team, "every 1 s", world.results[0].contract, "test")
    claimed = scheduler.poll("looked-at", team, "test", datetime.now(UTC) + timedelta(seconds=2))
    assert claimed is not None
    run = claimed[0].run
    scheduler.pause("nightly", True)
    world.server.board.post(run, [(0.1 * n, "steady", "fp32, restart 1", 60.0 + n % 3, n) for n in range(30)])
    return run


def kept_claim(world: World) -> str:
    who = Principal("contester", world.team.name, frozenset({AccessScope.CONTEST}), "session", "c")
    return keep_claim(world.server, "The new card runs the model 3.1x faster.", who)


def decision_of(world: World) -> int:
    log = world.server.ledger.log
    return next(seq for seq in range(log.head().size) if log.read(seq).entry.body.kind.value == "decision")


@pytest.fixture(scope="module")
def pages(world: World) -> dict[str, str]:
    """What an administrator can open, by what it is."""
    a, b, c = world.results[0].result_id, world.results[-1].result_id, world.drawn[0]
    decision, contract = decision_of(world), world.results[0].contract_id
    return {
        "overview": "/",
        "contracts": "/contracts",
        "contract": f"/contracts/{contract}",
        "contract with its signs": f"/contracts/{contract}?signs=true",
        "results": "/results",
        "results of nothing": "/results?tag=never",
        "results by tag": "/results?tag=golden",
        "result": f"/results/{world.drawn[0]}",
        "served result": f"/results/{world.drawn[1]}",
        "hostile result": f"/results/{world.drawn[2]}",
        "result without samples": f"/results/{a}",
        "result with tags and a note": f"/results/{remarked(world)}",
        "contested result": f"/results/{world.results[3].result_id}",
        "compare": f"/compare?a={a}&b={b}",
        "compare form": "/compare",
        "comparison that is refused": f"/compare?a={a}&b={c}",
        "comparison of several": f"/compare?r={a}&r={b}&r={c}",
        "comparison of what is not there": "/compare?a=zz&b=zz",
        "executors": "/executors",
        "executor": f"/executors/{world.results[0].executor_id}",
        "executor diff": f"/executors/diff?a={a}&b={b}",
        "executor diff in full": f"/executors/diff?a={a}&b={b}&all=true",
        "executor diff form": "/executors/diff",
        "search": "/search?q=torch",
        "empty search": "/search?q=zzzz",
        "experiments": "/experiments",
        "experiment": f"/experiments/{world.analyses['experiment']}",
        "served experiment": f"/experiments/{world.analyses['served experiment']}",
        "hostile experiment": f"/experiments/{world.analyses['hostile experiment']}",
        "tuning": f"/experiments/{world.analyses['tuning']}",
        "fleet runs": "/fleet",
        "fleet": f"/fleet/{world.analyses['fleet']}",
        "contest": f"/results/{a}/contest",
        "agree": "/agree",
        "agreement": f"/contracts/{signed_contract(world)}",
        "decisions": "/decisions",
        "decision": f"/decisions/{decision}",
        "ledger": "/ledger",
        "entry": "/ledger/1",
        "claims": "/claims",
        "claim": f"/claims/{kept_claim(world)}",
        "runs": "/runs",
        "run": f"/runs/{begun_run(world)}",
        "saved views": "/views",
        "view to save": "/views/new?place=%2Fresults&valid=valid&sort=Throughput",
        "view of nowhere": "/views/new?place=%2Fadmin",
        "account": "/account",
        "admin": "/admin",
        "audit": "/admin/audit",
        "not there": "/results/" + "0" * 64,
    }


STATUS = {"comparison of what is not there": 404, "not there": 404, "view of nowhere": 422}
"""Of pages that say why nothing came of it."""
BEFORE_SIGN_IN = {
    "sign in": "/signin",
    "sign in by a provider that is down": "/signin/oidc",
    "return from a provider without having gone": RETURN_PATH,
    "signed out": "/signin/left",
}
"""What can be opened by nobody known, on a server with a provider."""


# --- pages that a form leads to ---------------------------------------------------------------------------------------


def _wrong_password(page: Page) -> None:
    page.get_by_label("Name").fill("reader")
    page.get_by_label("Password").fill(f"{PASSWORD}?")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_text("Name or password is wrong.").wait_for()


def _new_token(page: Page) -> None:
    page.get_by_label("Label").fill("nightly")
    page.get_by_role("button", name="Make a token").click()
    page.get_by_text("It is shown this once.").wait_for()


def _doubt(page: Page) -> None:
    page.get_by_label("Why it cannot be accepted").fill("the room was warm")
    page.get_by_role("button", name="Prepare the contest").click()
    page.get_by_text("Nothing was recorded yet.").wait_for()


def _bad_contact(page: Page) -> None:
    page.get_by_label("Owner, as contracts name them").fill("platform SRE")
    page.get_by_label("Address").fill("nowhere")
    page.get_by_role("button", name="Tell this owner").click()
    page.locator("[role=alert]").wait_for()


def _saved_view(page: Page) -> None:
    page.get_by_label("Name").fill("steady ones")
    page.get_by_role("button", name="Save for everybody").click()
    page.get_by_role("link", name="steady ones").wait_for()


def filled_forms(world: World) -> dict[str, tuple[str, Callable[[Page], None]]]:
    return {
        "token that was made": ("/account", _new_token),
        "contest to carry out": (f"/results/{world.results[0].result_id}/contest", _doubt),
        "form that is refused": ("/admin", _bad_contact),
        "view that was saved": ("/views/new?place=%2Fresults&valid=valid", _saved_view),
    }


# --- the tests --------------------------------------------------------------------------------------------------------


WRONG = """<html><head><style>
@media (prefers-color-scheme: dark) { .dim { color: #eee } }
@media (max-width: 500px) { .small { color: #ddd } }
.over { position: absolute; top: 0; left: 0; width: 90px; height: 40px; background: #777 }
td { background: #fff; color: #000 }
</style></head><body><p id=first>under</p><div class=over></div>
<img src='data:,'><button></button><p style='color:#ccc'>pale</p><p class=dim style='background:#fff'>dim</p>
<p class=small>small</p><div style='width:340px'>too wide</div>
<table><tr><td>first<tr><td>second<tr><td>third<tr><td id=late style='color:#bbb'>fourth</table>
<svg class=plot viewBox='0 0 900 90' width=300><text y=50 font-size=12>tiny</text></svg>
<a href=x style='font-size:9px'>a</a><a href=y style='font-size:9px'>b</a></body></html>"""


def test_what_is_wrong_is_seen(browser: Browser, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whichever look it shows, in whichever row, and by axe-core's contrast where our own audit is silent."""
    monkeypatch.setattr("page_checks.MOST_SHOWN", 99)
    visit, checker = Visit(browser, world), PageChecker()
    try:
        for _ in range(2):  # what was seen before is not asked about again; what is wrong with a page is
            visit.page.set_content(WRONG)
            found = {name: " ".join(lines) for name, lines in checker.check(visit.page).items()}
            for wrong in (
                "axe image-alt",
                "axe button-name",
                "axe html-has-lang",
                "contrast 1.6",
                "no name",
                "no language",
            ):
                assert wrong in found["1280 light"]
            assert "contrast 1.16: dim" in found["1280 dark"]
            assert "contrast 1.16: dim" not in found["1280 light"]
            assert "1 words of a plot are" in found["1280 light"]
            assert ": small" in found["390 light"]
            assert ": small" not in found["1280 light"]
            assert "axe target-size" in found["390 dark"]
            assert found["320"] == "scrolls sideways by 28 px"
        fresh = PageChecker()
        monkeypatch.setattr("page_checks.AUDIT", "() => []")
        visit.page.set_content(WRONG)
        found = {name: " ".join(lines) for name, lines in fresh.check(visit.page).items()}
        assert "axe color-contrast: #late" in found["1280 light"]
        assert "axe color-contrast: .dim" in found["1280 dark"]
        assert "axe color-contrast: .small" in found["390 dark"]
    finally:
        visit.close()


def test_no_route_is_left_out(world: World, pages: dict[str, str]) -> None:
    app = make_app(world.server, looking=False)
    routes = {route.path: route for route in app.routes if "GET" in route.methods and API not in route.path}  # type: ignore[attr-defined]
    left = dict(routes)
    for address in [*pages.values(), *BEFORE_SIGN_IN.values()]:
        scope = {"type": "http", "method": "GET", "path": address.partition("?")[0], "headers": []}
        fits = next(path for path, route in routes.items() if route.matches(scope)[0] is Match.FULL)
        left.pop(fits, None)
    assert set(left) == set(NO_PAGES)


@pytest.mark.slow
def test_every_page(administrator: Visit, pages: dict[str, str], checker: PageChecker) -> None:
    visit, wrong, page = administrator, {}, administrator.page
    for name, address in pages.items():
        status = visit.open(address)
        found = checker.check(page)
        if status != STATUS.get(name, 200):
            found["status"] = [str(status)]
        if found:
            wrong[name] = found
    assert wrong == {}
    assert [line for line in visit.said if not line.startswith(("verbose", NO_SUCCESS))] == []
    assert visit.elsewhere == []


@pytest.mark.slow
def test_pages_that_forms_lead_to(administrator: Visit, world: World, checker: PageChecker) -> None:
    wrong = {}
    for name, (address, fill) in filled_forms(world).items():
        administrator.open(address)
        fill(administrator.page)
        if found := checker.check(administrator.page):
            wrong[name] = found
    world.server.store.change(delete(views_table))  # other tests share this server
    assert wrong == {}


def test_pages_before_anybody_is_known(browser: Browser, world: World, checker: PageChecker) -> None:
    visit, wrong = Visit(browser, world), {}
    try:
        with with_provider(world):
            for name, address in BEFORE_SIGN_IN.items():
                visit.open(address)
                if found := checker.check(visit.page):
                    wrong[name] = found
        visit.open("/signin")
        _wrong_password(visit.page)
        wrong |= {"wrong password": found} if (found := checker.check(visit.page)) else {}
        assert wrong == {}
        assert [line for line in visit.said if not line.startswith(NO_SUCCESS)] == []
    finally:
        visit.close()
        world.calm()


def test_a_page_changed_under_the_reader_is_as_if_it_were_loaded_so(administrator: Visit, world: World) -> None:
    """What makes one load enough: width and scheme, changed afterwards, lead to the same page and the same colours."""
    page = administrator.page
    shape = (
        "() => [document.querySelector('main').innerHTML, getComputedStyle(document.body).backgroundColor,"
        " ...[...document.querySelectorAll('main *')].slice(0, 400).map((one) => getComputedStyle(one).color)]"
    )

    def seen() -> list[str]:
        # what is folded is measured when it is opened
        page.evaluate("() => { for (const one of document.querySelectorAll('details')) one.open = true; }")
        page.evaluate(TWO_FRAMES)
        found: list[str] = page.evaluate(shape)
        return found

    for address in (f"/contracts/{world.results[0].contract_id}", f"/results/{world.drawn[0]}", "/results"):
        show(page, DESK, "light")
        administrator.open(address)
        show(page, PHONE, "dark")
        changed = seen()
        administrator.open(address)
        assert seen() == changed
        assert changed[1] == "rgb(15, 20, 26)"
        show(page, DESK, "light")
        assert page.evaluate(shape)[1] == "rgb(246, 247, 249)"
