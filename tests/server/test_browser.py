"""Every page in a real browser: light and dark, phone and desk; nothing on the console, nothing from elsewhere, and
readable for those who do not see it. A browser is needed; its absence is a failure, not a skip."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browsers import Look, launched_browser
from compared import make_contract
from hosted import PASSWORD, World
from lynxbench.record.agreeing import render_signed, seal_agreement

LOOKS = [("desk", 1280, "light"), ("desk", 1280, "dark"), ("phone", 390, "light"), ("phone", 390, "dark")]

AUDIT = (Path(__file__).parent / "page_audit.js").read_text()
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
RUN_AXE = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .flatMap((one) => one.nodes.slice(0, 2).map((node) => `axe ${one.id}: ${node.target.join(" ")}`.slice(0, 160)))"""

AXE_LOOKS = {("desk", "light"), ("phone", "dark")}
"""Both schemes and both widths, not all four pairs: axe-core is the dearer half."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched_browser() as made:
        yield made


class Visit(Look):
    """A browser's window onto the server."""

    def __init__(self, browser: Browser, world: World, width: int, scheme: str, name: str | None) -> None:
        super().__init__(browser, width, 900, scheme, accept_downloads=True)
        self.base = f"http://127.0.0.1:{world.port}"
        if name is not None:
            self.page.goto(f"{self.base}/signin")
            self.page.get_by_label("Name").fill(name)
            self.page.get_by_label("Password").fill(PASSWORD)
            self.page.get_by_role("button", name="Sign in").click()
            self.page.wait_for_url(f"{self.base}/")
            world.calm()

    @property
    def elsewhere(self) -> list[str]:
        """What was asked of anybody else."""
        return [url for url in self.asked if not url.startswith((self.base, "data:", "blob:"))]

    def problems(self, *, axe: bool = False) -> list[str]:
        """By our own audit, and what axe-core calls serious or critical."""
        found: list[str] = self.page.evaluate(AUDIT)
        if axe:
            self.page.evaluate(AXE)
            found += self.page.evaluate(RUN_AXE)
        return found


def signed_contract(world: World) -> str:
    """A contract that one of two teams has signed, and that amends one which nobody knows."""
    contract = make_contract(name="signed", teams=["infrastructure", "ml-platform"], amends="ab" * 32)
    entries = render_signed(seal_agreement(contract, world.team.key)).decode().splitlines()
    assert world.caller("submitter").json("POST", "/api/v1/agreements", {"entries": entries}).status == 200
    return contract.contract_id


def every_page(world: World) -> dict[str, str]:
    a, b = world.results[0].result_id, world.results[-1].result_id
    pack = next(
        seq
        for seq in range(world.server.ledger.log.head().size)
        if world.server.ledger.log.read(seq).entry.body.kind.value == "decision"
    )
    return {
        "overview": "/",
        "contracts": "/contracts",
        "contract": f"/contracts/{world.results[0].contract_id}?signs=true",
        "results": "/results",
        "result": f"/results/{world.drawn[0]}",
        "served result": f"/results/{world.drawn[1]}",
        "hostile result": f"/results/{world.drawn[2]}",
        "result without samples": f"/results/{a}",
        "compare": f"/compare?a={a}&b={b}",
        "compare form": "/compare",
        "executors": "/executors",
        "executor": f"/executors/{world.results[0].executor_id}",
        "executor diff": f"/executors/diff?a={a}&b={b}",
        "comparison of several": f"/compare?r={a}&r={b}&r={world.drawn[0]}",
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
        "decision": f"/decisions/{pack}",
        "ledger": "/ledger",
        "entry": "/ledger/1",
        "claims": "/claims",
        "runs": "/runs",
        "account": "/account",
        "admin": "/admin",
        "audit": "/admin/audit",
    }


def test_the_audit_sees_what_is_wrong(browser: Browser, world: World) -> None:
    visit = Visit(browser, world, 390, "light", None)
    try:
        visit.page.set_content(
            "<html><body><img src='data:,'><button></button><p style='color:#ccc'>pale</p></body></html>"
        )
        found = " ".join(visit.problems(axe=True))
        for wrong in (
            "axe image-alt",
            "axe button-name",
            "axe html-has-lang",
            "contrast 1.6",
            "no name",
            "no language",
        ):
            assert wrong in found
    finally:
        visit.close()


@pytest.mark.slow
@pytest.mark.parametrize(("form", "width", "scheme"), LOOKS)
def test_every_page(browser: Browser, world: World, form: str, width: int, scheme: str) -> None:
    visit = Visit(browser, world, width, scheme, "administrator")
    wrong = {}
    try:
        for name, address in every_page(world).items():
            answer = visit.page.goto(visit.base + address)
            assert answer is not None
            axe = (form, scheme) in AXE_LOOKS
            problems = visit.problems(axe=axe) if answer.status == 200 else [f"status {answer.status}"]
            if problems:
                wrong[name] = problems[:6]
        assert wrong == {}
        assert [line for line in visit.said if not line.startswith("verbose")] == []
        assert visit.elsewhere == []
        assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(246, 247, 249)" if scheme == "light" else "rgb(15, 20, 26)"
        )
    finally:
        visit.close()


def test_the_keyboard_reaches_everything_in_order(browser: Browser, world: World) -> None:
    visit = Visit(browser, world, 1280, "light", "administrator")
    try:
        visit.page.goto(f"{visit.base}/results")
        visit.page.keyboard.press("Tab")
        assert visit.page.evaluate("document.activeElement.textContent") == "Skip to the content"
        visit.page.keyboard.press("Enter")
        assert visit.page.evaluate("document.activeElement.id") == "content"
        seen = []
        for _ in range(9):
            visit.page.keyboard.press("Tab")
            seen.append(
                visit.page.evaluate("document.activeElement.getAttribute('name') || document.activeElement.tagName")
            )
            outline = visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            # inside a date field the browser's own parts take the focus, and show it themselves
            assert outline != "none" or seen[-1] == "since"
        assert seen[:4] == ["contract", "executor", "precision", "valid"]
    finally:
        visit.close()


def test_plots_and_their_data_can_be_taken_away(browser: Browser, world: World, tmp_path: Path) -> None:
    visit = Visit(browser, world, 1280, "light", "reader")
    try:
        visit.page.goto(f"{visit.base}/contracts/{world.results[0].contract_id}")
        for words, begins in (("Plot as SVG", "<svg"), ("Data as CSV", "started,")):
            with visit.page.expect_download() as waiting:
                visit.page.get_by_text(words).first.click()
            waiting.value.save_as(tmp_path / "file")
            assert (tmp_path / "file").read_text().startswith(begins)
        visit.page.goto(f"{visit.base}/results/{world.drawn[0]}")
        figures = visit.page.locator("figure").count()
        assert figures >= 4
        assert visit.page.get_by_text("Plot as SVG").count() == figures
        with visit.page.expect_download() as waiting:
            visit.page.get_by_text("Plot as SVG").first.click()
        waiting.value.save_as(tmp_path / "plot.svg")
        visit.page.goto((tmp_path / "plot.svg").as_uri())
        assert visit.page.evaluate("document.documentElement.tagName") == "svg"
    finally:
        visit.close()


def test_a_run_in_progress_is_followed_without_loading_again(browser: Browser, world: World) -> None:
    scheduler, board = world.server.scheduler, world.server.board
    scheduler.put("watched", world.team.name, "every 1 s", world.results[0].contract, "test")
    visit = Visit(browser, world, 1280, "light", "reader")
    try:
        visit.page.wait_for_timeout(1100)
        claimed = scheduler.poll("watcher", world.team.name, "test")
        scheduler.remove("watched", world.team.name)
        assert claimed is not None
        run = claimed[0].run
        scheduler.beat(run, world.team.name)
        visit.page.goto(f"{visit.base}/runs")
        now = visit.page.locator("#now")
        assert "waiting for its first word" in now.inner_text()
        board.post(run, [(0.05, "compile", "fp32, restart 1", None, 0)])
        expect(now).to_contain_text("compile", timeout=60_000)  # by itself
        visit.page.goto(f"{visit.base}/runs/{run}")
        phase = visit.page.locator("[data-live=phase]")
        expect(phase).to_have_text("compile")
        board.post(run, [(0.1 * n, "warm-up", "fp32, restart 1", 40.0 + n, n) for n in range(20)])
        expect(phase).to_have_text("warm-up")
        board.post(run, [(2 + 0.1 * n, "steady", "fp32, restart 1", 60.0, 20 + n) for n in range(20)])
        expect(phase).to_have_text("steady")
        expect(visit.page.locator("svg.live path")).to_have_count(1)
        board.end(run, "done")
        expect(phase).to_have_text("ended: done")
        assert visit.said == []
    finally:
        visit.close()


def test_a_claim_is_linted_and_kept_through_the_form(browser: Browser, world: World) -> None:
    visit = Visit(browser, world, 390, "dark", "contester")
    try:
        visit.page.goto(f"{visit.base}/claims")
        visit.page.get_by_label("The claim").fill("The new card runs the model 3.1x faster.")
        visit.page.get_by_role("button", name="Lint and keep").click()
        visit.page.wait_for_url(f"{visit.base}/claims/*")
        assert visit.page.get_by_text("3.1x faster").count() >= 1
        assert visit.problems() == []
    finally:
        visit.close()


def test_a_signature_is_handed_in_by_file(browser: Browser, world: World, tmp_path: Path) -> None:
    contract = make_contract(name="by-file", teams=["infrastructure", "ml-platform"])
    file = tmp_path / "signed.jsonl"
    file.write_bytes(render_signed(seal_agreement(contract, world.team.key)))
    visit = Visit(browser, world, 390, "light", "submitter")
    try:
        visit.page.goto(f"{visit.base}/agree")
        visit.page.get_by_label("From the file").set_input_files(str(file))
        visit.page.wait_for_function("document.getElementById('field-entry').value.length > 100")
        visit.page.get_by_role("button", name="Hand it in").click()
        visit.page.wait_for_url(f"{visit.base}/contracts/{contract.contract_id}**")
        assert visit.page.get_by_text("not agreed (1 of 2; missing: infrastructure)").count() == 1
        assert visit.problems() == []
    finally:
        visit.close()
