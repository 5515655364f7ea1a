"""What one can touch, in a real browser: plots, tables, search, selection; with a pointer, by keyboard, on a phone.

One browser and one server for all of it. What is asked for is the promise itself: that a hover tells the value that the
ledger has, that a zoom shows what was dragged over, that a click opens the result of that very point.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from browsers import Look, launched_browser
from hosted import World, hosted, make_world
from lynxbench.model.comparison import Comparability
from lynxbench.server.pages.compare_page import comparison_of

PLOT = "#levels svg.touched"
POINTS = """() => [...document.querySelectorAll("#levels svg.touched path.dots")].flatMap((path) => {
  const box = path.closest("svg.touched").getBoundingClientRect();
  const places = [...path.getAttribute("d").matchAll(/M([\\d.]+) ([\\d.]+)/g)];
  return places.map((place) => [box.left + Number(place[1]), box.top + Number(place[2])]);
})"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One of its own: what others push into the shared one would be the newest point."""
    shapes = ("software-bound", "served", "hostile")
    made = make_world(tmp_path_factory.mktemp("touched"), shapes=shapes, decisions=False)
    with hosted(made) as listening:
        yield listening


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched_browser() as made:
        yield made


@pytest.fixture(scope="module")
def desk(browser: Browser, world: World) -> Iterator[Look]:
    yield from opened(browser, world, 1280)


@pytest.fixture(scope="module")
def phone(browser: Browser, world: World) -> Iterator[Look]:
    yield from opened(browser, world, 390)


def opened(browser: Browser, world: World, width: int) -> Iterator[Look]:
    headers = {"Authorization": f"Bearer {world.tokens['reader']}"}
    look = Look(browser, width, extra_http_headers=headers, base_url=f"http://127.0.0.1:{world.port}")
    yield look
    assert look.said == []
    look.close()


@pytest.fixture
def series(desk: Look, world: World) -> Page:
    desk.page.goto(f"/contracts/{world.results[0].contract_id}")
    desk.page.locator(PLOT).scroll_into_view_if_needed()
    return desk.page


def points(page: Page) -> list[tuple[float, float]]:
    return [(x, y) for x, y in page.evaluate(POINTS)]


def ticks(page: Page) -> list[str]:
    return page.locator(f"{PLOT} text.tick[text-anchor=middle]").all_text_contents()


def test_a_hover_tells_the_figure_its_interval_and_its_result(series: Page, world: World) -> None:
    x, y = max(points(series))
    series.mouse.move(x + 3, y + 2)
    newest = world.results[-1]
    told = series.locator(".tip.lines").inner_text()
    figure = newest.per_precision[0].throughput
    assert figure is not None
    assert figure.estimate is not None
    assert newest.result_id[:12] in told
    assert newest.started_at[:10] in told
    assert f"{figure.estimate:.2f}"[:4] in told
    assert "[" in told


def test_a_point_leads_to_its_result(series: Page, world: World) -> None:
    series.mouse.click(*max(points(series)))
    series.wait_for_url(f"**/results/{world.results[-1].result_id}")


def test_dragging_zooms_shift_moves_and_a_button_shows_all(series: Page) -> None:
    before, all_ticks = points(series), ticks(series)
    assert all(re.search(r"\d\d", tick) for tick in all_ticks), "dates stand on the axis"
    xs = sorted({x for x, _ in before})
    start, end = (xs[4] + xs[5]) / 2, (xs[10] + xs[11]) / 2
    series.mouse.move(start, before[0][1] + 60)
    series.mouse.down()
    series.mouse.move(end, before[0][1] + 60, steps=4)
    series.mouse.up()
    expect(series.locator("#levels.zoomed")).to_have_count(1)
    plot = series.locator(PLOT).bounding_box()
    assert plot is not None
    inside = [x for x, _ in points(series) if plot["x"] + 60 <= x <= plot["x"] + plot["width"] - 8]
    assert len(inside) == sum(start <= x <= end for x in xs)
    zoomed = ticks(series)
    series.keyboard.down("Shift")
    series.mouse.move(plot["x"] + 300, plot["y"] + 150)
    series.mouse.down()
    series.mouse.move(plot["x"] + 500, plot["y"] + 150, steps=4)
    series.mouse.up()
    series.keyboard.up("Shift")
    expect(series.locator(PLOT)).not_to_contain_text(zoomed[-1])
    series.locator("#levels").get_by_role("button", name="Show the whole axis").click()
    expect(series.locator("#levels.zoomed")).to_have_count(0)
    assert ticks(series) == all_ticks


def test_points_are_coloured_by_executor_and_by_what_changed_in_a_layer(series: Page) -> None:
    colours = lambda: series.locator(f"{PLOT} path.dots").count()  # noqa: E731
    assert colours() == 1
    series.locator("#levels select[name=overlay]").select_option("version of framework")
    legend = series.locator("#levels .toggles button")
    assert [text for text in legend.all_text_contents() if "torch" in text] == ["torch 2.5.0", "torch 2.6.0"]
    assert colours() == 2
    many = len(points(series))
    legend.filter(has_text="2.6.0").click()
    expect(legend.filter(has_text="2.6.0")).to_have_attribute("aria-pressed", "false")
    assert len(points(series)) == many - 12


def test_latency_stands_below_throughput_when_it_is_asked_for(series: Page) -> None:
    series.get_by_role("button", name="Add the other precisions").click()
    expect(series.locator(f"{PLOT} text.strong", has_text="Latency per iteration p99")).to_have_count(1)
    assert series.locator(f"{PLOT} path.bars").count() == 3, "an error bar for each of the three panels"


def test_the_keyboard_goes_from_point_to_point_and_opens_one(series: Page, world: World) -> None:
    series.locator(PLOT).focus()
    for key in ("End", "ArrowLeft", "+", "+", "Shift+ArrowLeft", "0", "End"):
        series.keyboard.press(key)
    expect(series.locator("#levels p[role=status]")).to_contain_text(world.results[-1].result_id[:12])
    series.keyboard.press("ArrowLeft")
    expect(series.locator("#levels p[role=status]")).to_contain_text(world.results[-2].result_id[:12])
    series.keyboard.press("Enter")
    series.wait_for_url(f"**/results/{world.results[-2].result_id}")


def test_a_runs_own_plots_can_be_touched_too(desk: Look, world: World) -> None:
    page = desk.page
    page.goto(f"/results/{world.drawn[0]}")
    plot = page.locator("#rate-fp32 svg.touched")
    plot.scroll_into_view_if_needed()
    titles = plot.locator("text.strong").all_text_contents()
    assert any(title.startswith("Process 0") for title in titles)
    assert any(title.startswith("Time to first token") for title in titles)
    assert page.locator("#telemetry svg.touched path.curve").count() >= 2
    plot.focus()
    page.keyboard.press("ArrowRight")
    assert "process 0" in page.locator("#rate-fp32 p[role=status]").inner_text()
    assert page.locator("svg.plot.wide:not(.touched)").count() > 0, "bars stay pictures"


def test_without_its_script_the_page_is_as_it_was(browser: Browser, world: World) -> None:
    headers = {"Authorization": f"Bearer {world.tokens['reader']}"}
    base = f"http://127.0.0.1:{world.port}"
    look = Look(browser, 1280, extra_http_headers=headers, base_url=base, java_script_enabled=False)
    try:
        look.page.goto(f"/contracts/{world.results[0].contract_id}")
        assert look.page.locator("#levels svg.plot.wide").is_visible()
        assert look.page.locator("#levels .tools").count() == 0
        look.page.goto("/results")
        for place in (0, 13):
            look.page.locator("input.pick").nth(place).check()
        look.page.get_by_role("button", name="Compare the selected").click()
        assert "/compare?r=" in look.page.url
        assert look.page.locator("#verdict").count() == 1
    finally:
        look.close()


def test_tables_are_sorted_by_value_and_narrowed_by_words(desk: Look) -> None:
    page = desk.page
    page.goto("/results")
    column = page.locator("table tbody tr td.num")
    whole = column.count()
    head = page.get_by_role("button", name="Throughput")
    head.click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_count(1)
    firsts = [
        float(text.replace("\u202f", "").split("\u00a0")[0])
        for text in page.evaluate(
            "() => [...document.querySelectorAll('table tbody tr')].filter((r) => r.cells[0].textContent.trim())"
            ".map((r) => r.querySelector('td.num').textContent).filter((t) => t.endsWith('sequences/s'))"
        )
    ]
    assert len(firsts) > 20
    assert firsts == sorted(firsts)
    field = page.get_by_placeholder(re.compile("Filter"))
    field.fill("contested compared")
    assert page.locator("table tbody tr:visible").count() == 1
    expect(page.locator(".narrowing [role=status]")).to_contain_text("1 of")
    field.fill("")
    assert page.locator("table tbody tr td.num:visible").count() == whole


def test_two_to_eight_are_selected_and_held_against_one_another(desk: Look, world: World) -> None:
    page = desk.page
    page.goto("/results")
    chosen = [world.results[0], world.results[13], world.results[25]]
    for result in chosen:
        page.locator(f"input.pick[value='{result.result_id}']").check()
    page.goto(f"/contracts/{world.results[0].contract_id}")
    expect(page.locator("[data-count]")).to_have_text("3 selected")  # kept from page to page
    page.goto("/results")
    page.locator(f"input.pick[value='{world.drawn[0]}']").check()
    page.get_by_role("button", name="Compare the selected").click()
    page.wait_for_url("**/compare?**")
    cells = page.locator("#matrix tbody td")
    assert cells.count() == 9
    said = cells.all_text_contents()
    assert [text.startswith("refused") for text in said[:3]] == [True] * 3, "the oldest is of another contract"
    assert "R01" in said[0]
    for cell, (a, b) in {4: (0, 1), 5: (0, 2), 8: (1, 2)}.items():
        comparison = comparison_of(world.server, chosen[a].result_id, chosen[b].result_id, None)
        assert comparison.comparability is not Comparability.INCOMPARABLE
        assert comparison.effect is not None
        assert f"{(comparison.effect.estimate - 1) * 100:+.1f}".replace("-", "−") in said[cell]
    assert page.locator("#refusals").count() == 1
    page.goto("/results")
    page.get_by_role("button", name="Clear").click()
    assert page.locator("input.pick:checked").count() == 0
    many = "&".join(f"r={result.result_id}" for result in world.results[:9])
    answer = page.goto(f"/compare?{many}")
    assert answer is not None
    assert "choose 2 to 8 results; 9 were" in page.inner_text("main")
    desk.said.clear()  # the browser itself notes that this page's status is no success


@pytest.mark.parametrize(
    ("words", "where"),
    [("does it hold", "#contracts"), ("torch 2.6.0", "#executors"), ("inlet air", "#said"), ("{result}", "#results")],
)
def test_everything_is_found_from_one_field(desk: Look, world: World, words: str, where: str) -> None:
    page = desk.page
    page.goto("/runs")
    page.keyboard.press("/")
    page.keyboard.type(words.format(result=world.results[4].result_id[:10]))
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?**")
    assert page.locator(f"{where} tbody tr").count() >= 1
    if where == "#results":
        assert page.locator(f"#results a[href='/results/{world.results[4].result_id}']").count() == 1


def test_a_search_for_nothing_says_what_was_searched(desk: Look) -> None:
    desk.page.goto("/search?q=" + "<b>nothing</b>")
    assert "Nothing fits" in desk.page.inner_text("main")
    assert desk.page.locator("main b, h1 b").count() == 0


def test_a_words_meaning_is_told_by_hover_and_by_focus(desk: Look) -> None:
    page = desk.page
    page.goto("/results")
    page.locator("th .term", has_text="Validity").hover()
    expect(page.locator(".tip:not(.lines)")).to_contain_text("what all doubts come to")
    page.mouse.move(5, 5)
    page.keyboard.press("Tab")
    page.locator("th .sort", has_text="Executor").focus()
    expect(page.locator(".tip:not(.lines)")).to_contain_text("everything that produces a figure")


def test_a_phone_is_told_that_a_table_goes_on(phone: Look, world: World) -> None:
    page = phone.page
    page.goto("/results")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert page.locator(".sideways").first.is_visible()
    box = page.locator(".scroll").first
    expect(box).to_have_class(re.compile("more-right"))
    box.evaluate("(one) => { one.scrollLeft = one.scrollWidth; }")
    expect(box).to_have_class(re.compile("more-left"))
    page.goto(f"/contracts/{world.results[0].contract_id}")
    plot = page.locator(PLOT).bounding_box()
    assert plot is not None
    assert plot["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


def test_pages_of_a_list_hold_every_result_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lynxbench.server.pages.results_page.PER_PAGE", 10)
    world.server.changed()
    caller, place, seen = world.caller("reader"), "/results?valid=valid", []
    while place:
        text = caller.get(place).text
        seen += re.findall(r'name="r" value="([0-9a-f]{64})"', text)
        older = re.search(r'href="(/results\?[^"]*before=[^"]*)"', text)
        place = older.group(1).replace("&amp;", "&") if older else ""
    assert len(seen) == len(set(seen)) > 20
    assert {result.result_id for result in world.results} <= set(seen)
    assert caller.get("/results?before=x").status == 422
    world.server.changed()


def test_pages_of_analyses_hold_every_one_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lynxbench.server.pages.analyses_page.SHOWN", 1)
    world.server.changed()
    caller, place, seen = world.caller("reader"), "/experiments", []
    while place:
        text = caller.get(place).text
        seen += re.findall(r'href="/experiments/([0-9a-f]{64})"', text)
        older = re.search(r'href="(/experiments\?before=[0-9]+)"', text)
        place = older.group(1) if older else ""
    planted = {identifier for name, identifier in world.analyses.items() if name != "fleet"}
    assert len(seen) == len(set(seen))
    assert planted <= set(seen)
    world.server.changed()


def test_the_data_of_a_plot_is_for_readers_alone_and_says_when_there_is_none(world: World) -> None:
    place = f"/contracts/{world.results[0].contract_id}/chart.json"
    assert world.caller().get(place).status in (401, 303)
    answer = world.caller("reader").get(place)
    assert answer.status == 200
    assert json.loads(answer.body)["panels"][0]["title"] == "Throughput"
    assert world.caller("reader").get(f"/contracts/{'0' * 64}/chart.json").status == 404
