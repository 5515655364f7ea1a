"""The report in a real browser: it opens without a network, says nothing on the console, and fits a desk and a phone.

A browser is needed; its absence is a failure, not a skip: `apt-get install chromium`, or LYNXBENCH_CHROMIUM=its path.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from browsers import Look, launched_browser
from lynxbench.report.documents.result_document import compose_result
from lynxbench.report.render_html import render_html
from page_checks import PageChecker
from report_cases import SHAPES

PROBE = """() => {
  const root = document.documentElement;
  const visible = (one) => getComputedStyle(one).display !== "none";
  const plots = [...document.querySelectorAll("svg.plot")].filter(visible);
  const small = [...document.querySelectorAll("svg.plot text")].filter((one) => one.getClientRects().length)
    .map((one) => one.getBoundingClientRect().height).filter((height) => height > 0 && height < 8).length;
  const outside = [...document.querySelectorAll("svg.plot text")].filter((one) => {
    if (!one.getClientRects().length) return false;
    const own = one.getBoundingClientRect(), box = one.ownerSVGElement.getBoundingClientRect();
    return own.left < box.left - 3 || own.right > box.right + 3;
  }).map((one) => one.textContent);
  return {
    overflow: root.scrollWidth - root.clientWidth, plots: plots.length, narrow: plots.filter((one) =>
    one.classList.contains("narrow")).length, touched: plots.filter((one) => one.classList.contains("touched")).length,
    small, outside,
    requests: performance.getEntriesByType("resource").length,
    tips: document.querySelectorAll("[data-tip]").length,
    injected: document.querySelectorAll("img, script:not(:last-of-type)").length + (window.hacked ? 1 : 0) };
}"""

Open = Callable[..., Look]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched_browser() as made:
        yield made


@pytest.fixture
def look(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page of its own for a text, in a window of a given size; all are closed in the end."""
    looks: list[Look] = []

    def open_page(text: str, width: int = 1280, height: int = 1000, scheme: str = "light") -> Look:
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        looks.append(Look(browser, width, height, scheme))
        looks[-1].page.goto(file.as_uri())
        assert looks[-1].asked == [file.as_uri()]
        return looks[-1]

    yield open_page
    for one in looks:
        one.close()


def page_of(shape: str) -> str:
    case = SHAPES[shape]()
    return render_html(compose_result(case.result, case.processes, case.telemetry))


def read_png(data: bytes) -> tuple[int, int, int]:
    """Width, height and how many different rows of pixels there are: a blank picture has one."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    packed, at = b"", 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += size + 12
    rows = zlib.decompress(packed)
    stride = len(rows) // height
    return width, height, len({rows[i * stride : (i + 1) * stride] for i in range(height)})


@pytest.mark.parametrize(
    "shape", ["software-bound", "void", "throttled-gpu", "hostile", "all-unknown", "without-attribution"]
)
def test_it_opens_and_the_console_stays_silent(look: Open, shape: str) -> None:
    seen = look(page_of(shape))
    assert seen.said == []
    content = seen.page.content()
    assert 'id="verdict"' in content
    assert "Open all layers" in content, "the page's own script did not run"


@pytest.mark.parametrize("shape", ["software-bound", "throttled-gpu", "hostile"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_it_fits_without_scrolling_sideways(look: Open, shape: str, width: int) -> None:
    seen = look(page_of(shape), width)
    answer: dict[str, Any] = seen.page.evaluate(PROBE)
    assert answer["overflow"] <= 0
    assert answer["plots"] >= 8
    assert answer["touched"] >= 3, "plots over time are drawn anew, at whatever width there is"
    assert answer["narrow"] == (answer["plots"] - answer["touched"] if width < 720 else 0)
    assert answer["small"] == 0
    assert answer["requests"] == 0
    assert answer["injected"] == 0
    assert answer["tips"] > 100
    if shape != "hostile":  # a unit of forty letters may leave a plot's edge; the page still does not scroll
        assert answer["outside"] == []
    assert seen.said == []


def test_it_is_readable_for_those_who_do_not_see_it(look: Open) -> None:
    checker = PageChecker()
    wrong = {shape: checker.check(look(page_of(shape)).page) for shape in ("software-bound", "served", "hostile")}
    assert {shape: found for shape, found in wrong.items() if found} == {}


def test_light_and_dark_are_two_pictures(look: Open) -> None:
    pictures = []
    for scheme in ("light", "dark"):
        pictures.append(look(page_of("software-bound"), 1280, 1400, scheme).page.screenshot())
        width, height, rows = read_png(pictures[-1])
        assert (width, height) == (1280, 1400)
        assert rows > 300
    assert pictures[0] != pictures[1]


def test_a_phone_gets_a_picture(look: Open) -> None:
    width, _, rows = read_png(look(page_of("software-bound"), 390, 3000).page.screenshot())
    assert width == 390
    assert rows > 600


def test_it_prints(look: Open) -> None:
    data = look(page_of("software-bound")).page.pdf()
    assert data.startswith(b"%PDF")
    assert len(data) > 20_000


def test_the_policy_blocks_a_script_that_is_not_the_pages_own(look: Open) -> None:
    text = page_of("software-bound")
    seen = look(text.replace("</body>", '<script>document.title = "HACKED"</script></body>'))
    assert seen.page.title() != "HACKED"
    assert any("Content Security Policy" in line for line in seen.said), "the console is not captured"
