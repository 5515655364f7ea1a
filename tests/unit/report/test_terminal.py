"""The terminal text: golden at two widths, and what must hold at any."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from rich.cells import cell_len

from lynxbench.report.terminal import render_terminal

PATHS = {
    "report": "results/20250512-101502-quickstart/report.html",
    "result": "results/20250512-101502-quickstart/result.json",
}
NUMBER_TORN = re.compile(r"\[[^\]\n]*$|^\s*(ms|%|token/s)\b", re.MULTILINE)


@pytest.mark.parametrize("width", [80, 120])
def test_golden(build, golden, shape: str, width: int) -> None:
    text = render_terminal(build.SHAPES[shape]().result, width=width, colour=False, paths=PATHS)
    golden(f"{shape}-{width}.txt", text)


@pytest.mark.parametrize("width", [60, 72, 80, 100, 120, 160, 240])
def test_no_line_is_wider_than_the_terminal(build, shape: str, width: int) -> None:
    text = render_terminal(build.SHAPES[shape]().result, width=width, colour=False, paths=PATHS)
    assert max(cell_len(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize("width", range(60, 200, 7))
def test_numbers_are_never_torn_apart(build, width: int) -> None:
    for shape in ("software-bound", "not-steady", "throttled-gpu"):
        text = render_terminal(build.SHAPES[shape]().result, width=width, colour=False, paths={})
        assert not NUMBER_TORN.search(text), text


def test_void_shows_no_throughput(build) -> None:
    text = render_terminal(build.void().result, width=120, colour=False, paths=PATHS)
    assert "void: no figure of this run may be used" in text
    assert "token/s" not in text.replace("tokens/s", "")
    for figure in ("18.9", "27.1", "20.4", "52.8", "15.21", "58 %"):
        assert figure not in text


def test_colour_changes_nothing_but_colour(build) -> None:
    result = build.software_bound().result
    plain = render_terminal(result, width=120, colour=False, paths=PATHS)
    coloured = render_terminal(result, width=120, colour=True, paths=PATHS)
    assert "\x1b[" not in plain
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_somebodys_text_cannot_drive_the_terminal(build) -> None:
    text = render_terminal(build.hostile().result, width=100, colour=False, paths={"report": "\x1b]0;x\x07.html"})
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_what_a_manager_needs_stands_in_the_first_lines(build) -> None:
    lines = render_terminal(build.software_bound().result, width=120, colour=False, paths=PATHS).splitlines()
    top = "\n".join(lines[:12])
    for needed in ("software-bound", "ML platform engineering", "next:", "18.9 [18.6, 19.2]", "NO-GO", "skipped"):
        assert needed in top


def test_rich_is_imported_late() -> None:
    code = "import sys, lynxbench.report.terminal; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_evidence_is_named_once(build) -> None:
    text = render_terminal(build.base_result(), width=120, colour=False, paths={"evidence": "sha256:9c1e…"})
    assert text.count("evidence") == 1
