"""The procurement pack in a real browser: silent, without a network, and no wider than a desk or a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from browsers import Look, launched_browser
from lynxbench.report.documents.pack_document import compose_pack
from lynxbench.report.render_html import render_html
from packed import example_pack
from page_checks import PageChecker

PROBE = """() => {
  const root = document.documentElement;
  const cut = [...document.querySelectorAll("[id^=part-] .scroll")]
    .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.getAttribute("aria-label"));
  return { overflow: root.scrollWidth - root.clientWidth, cut,
    requests: performance.getEntriesByType("resource").length };
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worked example's pack as a page."""
    pack = example_pack("Should the chat service move to H200?")
    made = tmp_path_factory.mktemp("pack")
    (made / "pack.html").write_text(render_html(compose_pack(pack)), encoding="utf-8")
    return made


def test_it_opens_in_silence_and_fits(folder: Path) -> None:
    with launched_browser() as browser:
        for width in (1280, 390):
            look = Look(browser, width)
            look.page.goto((folder / "pack.html").as_uri())
            answer = look.page.evaluate(PROBE)
            assert look.said == []
            assert look.asked == [(folder / "pack.html").as_uri()]
            assert (answer["overflow"], answer["requests"]) == (0, 0)
            assert width < 720 or answer["cut"] == []
            if width == 1280:
                assert PageChecker().check(look.page) == {}
            look.close()
