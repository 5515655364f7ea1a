"""What people do on the shared page, in a real browser: by keyboard, by file, by form, and while a run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browsers import launched_browser
from compared import make_contract
from hosted import PASSWORD, World
from lynxbench.record.agreeing import render_signed, seal_agreement
from page_checks import audit
from visits import Visit

CONTROLS = """() => {
  const all = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  const shown = [...document.querySelectorAll(all)].filter((one) => one.checkVisibility() && !one.disabled);
  for (const one of shown) one.dataset.control = "";
  return shown.length;
}"""
"""Marks every control that is shown; how many there are."""
MISSED = """() => [...document.querySelectorAll("[data-control]:not([data-reached])")]
  .map((one) => one.outerHTML.slice(0, 90))"""
SHOWS_FOCUS = """() => {
  const one = document.activeElement, box = one.getBoundingClientRect(), style = getComputedStyle(one);
  if (one === document.body) return true;  // past the last one: the browser's own controls
  const inside = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return inside && (style.outlineStyle !== "none" || one.type === "date");
}"""
"""Whether what has the focus can be seen, and is marked; a date's own parts mark themselves."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched_browser() as made:
        yield made


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


def test_a_whole_visit_without_a_pointer(browser: Browser, world: World) -> None:
    visit = Visit(browser, world)
    page = visit.page
    try:
        page.goto(f"{visit.base}/signin?next=%2Fcontracts")
        tab_to(page, "[name=name]")
        page.keyboard.type("reader")
        page.keyboard.press("Tab")
        page.keyboard.type(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{visit.base}/contracts")
        tab_to(page, "nav.around a[href='/results']")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{visit.base}/results")
        ticked = []
        for _ in range(2):
            tab_to(page, "input.pick")
            page.keyboard.press("Space")
            ticked.append(page.evaluate("document.activeElement.value"))
        expect(page.locator("[data-count]")).to_have_text("2 selected")
        tab_to(page, "#compare-selected button")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{visit.base}/compare?**")
        assert all(name in page.url for name in ticked)
        assert page.locator("#verdict").count() == 1
        tab_to(page, ".who form button")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{visit.base}/signin")
        assert visit.said == []
    finally:
        visit.close()
        world.calm()


def test_every_control_is_reached_by_keyboard_and_shows_it(browser: Browser, world: World) -> None:
    visit = Visit(browser, world, name="administrator")
    page = visit.page
    addresses = (f"/contracts/{world.results[0].contract_id}", "/compare", "/claims", "/account", "/views/new")
    try:
        for address in addresses:
            visit.open(address)
            wanted = page.evaluate(CONTROLS)
            assert wanted > 15
            for _ in range(wanted + 3):  # a date's or a plot's own parts may take a step more
                page.keyboard.press("Tab")
                assert page.evaluate(SHOWS_FOCUS), (address, page.evaluate("document.activeElement.outerHTML"))
                page.evaluate("document.activeElement.dataset.reached = ''")
            missed = page.evaluate(MISSED)
            assert missed == [], address
    finally:
        visit.close()


def tab_to(page: Page, wanted: str, most: int = 400) -> None:
    """Go on by the tabulator alone until a control of this kind has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(wanted) => document.activeElement.matches(wanted)", wanted):
            assert page.evaluate(SHOWS_FOCUS), wanted
            return
    pytest.fail(f"{wanted}: not reached")


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
        assert audit(visit.page) == []
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
        assert audit(visit.page) == []
    finally:
        visit.close()
