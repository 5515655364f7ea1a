"""Markdown for tickets: golden, and nobody's text becomes markup."""

from __future__ import annotations

import re

from lynxbench.report.documents.result_document import compose_result
from lynxbench.report.render_markdown import escape_markdown, render_markdown


def test_golden(build, golden, shape: str) -> None:
    golden(f"{shape}.md", render_markdown(compose_result(build.SHAPES[shape]().result)))


def test_table_rows_have_equal_cells(build, shape: str) -> None:
    text = render_markdown(compose_result(build.SHAPES[shape]().result))
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.strip().splitlines()}
        assert len(counts) == 1, block


def test_hostile_text_stays_text(build) -> None:
    text = render_markdown(compose_result(build.hostile().result))
    assert not re.search(r"(?<!\\)<", text)
    assert not re.search(r"(?<!\\)\]\(", text)
    assert "https:" not in text
    assert escape_markdown("a|b`c`<d>") == r"a\|b\`c\`\<d\>"


def test_void_shows_no_throughput(build) -> None:
    text = render_markdown(compose_result(build.void().result))
    for figure in ("18.9", "27.1", "52.8", "15.21", "58 %"):
        assert figure not in text
