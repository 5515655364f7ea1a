"""The procurement pack in a real browser: silent, without a network, and no wider than a desk or a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from browsers import Look, launched_browser
from lynxbench.decide.deciding import Gathered, compare_cited
from lynxbench.decide.demonstrating import decide_demo, demo_results
from lynxbench.decide.pack_words import limitations_of, methodology_for
from lynxbench.model.packs import Pack
from lynxbench.report.documents.pack_document import compose_pack
from lynxbench.report.render_html import render_html

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
    results = demo_results()
    decisions = decide_demo(Gathered(results))
    pack = Pack(
        title="Should the chat service move to H200?",
        made_at="2026-11-15T08:00:00+00:00",
        lynxbench_version="0",
        decided_by="ML platform",
        decisions=decisions,
        comparison=compare_cited(results[:2], {}),
        results=results,
        standings=(),
        methodology=methodology_for(decisions),
        limitations=limitations_of(decisions, results),
    )
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
            look.close()
