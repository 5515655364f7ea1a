from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from experiments import PLANTED, planted_document
from lynxbench.model.experiment import Decomposability, OwnerJudgement
from lynxbench.report.documents.experiment_document import compose_experiment
from lynxbench.report.render_html import render_html
from lynxbench.report.render_terminal import render_terminal


def test_the_word_comes_first_and_every_part_is_there(tmp_path: Path) -> None:
    document = planted_document(tmp_path, interaction=0.4)
    text = render_terminal(compose_experiment(document), width=120)
    lines = text.splitlines()
    assert lines[lines.index("") + 1].startswith("NOT DECOMPOSABLE: ")
    parts = ["Cells: ", "Effects with their intervals", "The cube", "threads × graph", "Share of the variation"]
    parts += ["All changes together", "What each change adds", "What each owner would have concluded alone"]
    for part in parts:
        assert part in text, part
    assert "threads × graph interact: together +4" in text
    assert all(len(line) <= 120 for line in lines)
    narrow = render_terminal(compose_experiment(document), width=70)
    assert max(len(line) for line in narrow.splitlines()) <= 70


def test_additive_responses_are_decomposable_and_owners_are_right(tmp_path: Path) -> None:
    document = planted_document(tmp_path, interaction=0.0)
    assert document.analysis is not None
    assert document.analysis.word is Decomposability.DECOMPOSABLE
    assert {one.judgement for one in document.analysis.owners} == {OwnerJudgement.HOLDS}
    assert "DECOMPOSABLE: the effects of threads, graph, batch multiply" in render_terminal(
        compose_experiment(document), width=120
    )


def test_an_owner_who_measures_alone_is_told_what_was_missed(tmp_path: Path) -> None:
    document = planted_document(tmp_path, interaction=-0.5)
    assert document.analysis is not None
    by_name = {one.factor: one for one in document.analysis.owners}
    assert by_name["graph"].judgement is OwnerJudgement.WRONG_SIGN
    assert by_name["graph"].owner == "ML platform engineering"
    assert by_name["threads"].judgement is OwnerJudgement.WRONG_SIGN
    assert by_name["batch"].judgement is OwnerJudgement.HOLDS
    assert "the conclusion has the wrong sign, because threads × graph interact" in by_name["graph"].sentence
    assert "because" not in by_name["batch"].sentence


def test_shapley_and_orders_agree_with_the_plant(tmp_path: Path) -> None:
    document = planted_document(tmp_path, interaction=0.4, noise=1e-6)
    found = document.analysis
    assert found is not None
    assert found.joint is not None
    assert found.gap is not None
    assert found.gap.estimate == pytest.approx(2.718281828**0.4, rel=1e-3)
    graph = next(one for one in found.shapley if one.factor == "graph")
    assert graph.ratio.estimate == pytest.approx(2.718281828**0.3, rel=1e-3)
    assert graph.least == pytest.approx(2.718281828**0.1, rel=1e-3)
    assert graph.most == pytest.approx(2.718281828**0.5, rel=1e-3)
    assert graph.most_after[:1] == ("threads",)
    product = 1.0
    for one in found.shapley:
        product *= one.ratio.estimate
    assert product == pytest.approx(found.joint.estimate, rel=1e-6)


def test_a_fraction_prints_its_aliases(tmp_path: Path) -> None:
    text = PLANTED.replace("factors:", "design: {kind: fractional, generated: 1}\nfactors:")
    document = planted_document(tmp_path, interaction=0.0, text=text)
    assert document.resolution == 3
    assert "threads = graph × batch" in document.aliases
    shown = render_terminal(compose_experiment(document), width=100)
    assert "the fraction cannot tell apart" in shown
    assert "threads = graph × batch" in shown
    assert "or any of: graph × batch" in shown
    assert document.analysis is not None
    assert document.analysis.word is Decomposability.UNDETERMINED


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []
        self.links += [given[key] or "" for key in ("href", "src") if key in given]
        if tag not in ("meta", "br", "hr", "img", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_fetches_nothing(tmp_path: Path) -> None:
    page = render_html(compose_experiment(planted_document(tmp_path, interaction=0.4)))
    parsed = _Page()
    parsed.feed(page)
    assert parsed.open == []
    assert {"verdict", "cells", "cube", "effects-plot", "interaction-0", "interaction-2", "owners", "blocks"} <= set(
        parsed.ids
    )
    assert len(parsed.ids) == len(set(parsed.ids))
    assert all(link.startswith(("#", "data:text/csv")) for link in parsed.links)
    assert "default-src &#x27;none&#x27;" in page
    assert "<script" not in page
    assert len(re.findall(r"<svg ", page)) == 2 * (1 + 1 + 3 + 1)


def test_somebody_s_words_are_no_markup(tmp_path: Path) -> None:
    document = planted_document(tmp_path, interaction=0.4)
    hostile = document.model_copy(update={"question": "<b>\x1b[31m?", "notes": ("<i>note",)})
    assert "<b>" not in render_html(compose_experiment(hostile))
    assert "\x1b" not in render_terminal(compose_experiment(hostile), width=100)
