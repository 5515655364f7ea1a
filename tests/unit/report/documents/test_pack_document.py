from __future__ import annotations

import re

import pytest

from lynxbench.decide.demonstrating import INVENTED
from lynxbench.model.packs import Pack
from lynxbench.report.doc import Table
from lynxbench.report.documents.decision_document import TITLES, compose_decision, decision_blocks
from lynxbench.report.documents.pack_document import compose_pack
from lynxbench.report.render_html import render_html
from lynxbench.report.render_terminal import render_terminal
from lynxbench.report.words import moment_text
from packed import example_pack


@pytest.fixture(scope="module")
def pack() -> Pack:
    """The worked example, without a ledger."""
    return example_pack("<b>Should we?</b>", INVENTED)


def test_it_reads_back_as_the_same_document(pack: Pack) -> None:
    again = Pack.model_validate_json(pack.model_dump_json(by_alias=True))
    assert again.model_dump_json(by_alias=True) == pack.model_dump_json(by_alias=True)
    assert set(pack.cites) == {one.result_id for one in pack.results}


def test_the_page_needs_nothing_but_itself(pack: Pack) -> None:
    page = render_html(compose_pack(pack))
    assert not re.search(r"<script|<link|<img|src=|https?://(?!in-toto)", page)
    assert "Content-Security-Policy" in page
    identifiers = re.findall(r' id="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    for target in re.findall(r'href="#([^"]+)"', page):
        assert target in identifiers


def test_the_page_has_every_part_and_escapes_what_people_wrote(pack: Pack) -> None:
    page = render_html(compose_pack(pack))
    assert "<b>Should" not in page
    for part in ("decision", "comparison", "results", "contests", "methodology", "limitations", "evidence"):
        assert f'id="{part}"' in page
    for decision in pack.decisions:
        assert TITLES[decision.kind] in page
    for result in pack.results:
        assert result.result_id in page
    assert INVENTED in page


def test_a_page_says_when_its_results_stood_so(pack: Pack) -> None:
    """Found: a pack that was made before a result was taken back showed its standing as if it were today's."""
    page = render_html(compose_pack(pack))
    made = moment_text(pack.made_at)
    assert page.count(f"Standing on {made}") == len(pack.results)
    assert f"may have been contested, refuted or taken back since {made}: this page would not show it" in page
    assert f"Up to {made} nobody had contested" in page


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_terminal_never_gets_a_line_wider_than_it_is(pack: Pack, width: int) -> None:
    for decision in pack.decisions:
        text = render_terminal(compose_decision(decision), width=width)
        assert text.splitlines()[0] in " ".join(decision.sentence.split()) or width < len(decision.sentence)
        assert max(map(len, text.splitlines())) <= width
        assert "\u00a0" not in text


def test_every_estimate_is_marked(pack: Pack) -> None:
    whatif = next(one for one in pack.decisions if one.kind == "whatif")
    tables = [block for block in decision_blocks(whatif) if isinstance(block, Table)]
    gains = next(table for table in tables if table.title == "Expected gain")
    marks = {str(row[0]).split(":")[0]: row[2] for row in gains.rows}
    assert marks["swap to h200"] == "estimate"
    assert marks["fix"] == "estimate"
    assert marks["intervention"] == "measured"
