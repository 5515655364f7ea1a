"""The terminal text: golden at two widths, and what must hold at any."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.cells import cell_len

from lynxbench.model.result import Result
from lynxbench.report.doc import Facts, Note, Points, Report, Span, Style, Table, Tone, said
from lynxbench.report.documents.result_document import compose_result
from lynxbench.report.render_terminal import render_terminal

PATHS = {
    "report": "results/20250512-101502-quickstart/report.html",
    "result": "results/20250512-101502-quickstart/result.json",
}
NUMBER_TORN = re.compile(r"\[[^\]\n]*$|^\s*(ms|%|token/s)\b", re.MULTILINE)


def summary(result: Result, width: int, *, colour: bool = False, paths: dict[str, str] = PATHS) -> str:
    """As `lynxbench run` prints it: the report, then where everything is."""
    report = compose_result(result)
    return render_terminal(
        replace(report, blocks=(*report.blocks, Facts(list(paths.items())))), width=width, colour=colour
    )


@pytest.mark.parametrize("width", [80, 120])
def test_golden(build, golden, shape: str, width: int) -> None:
    text = summary(build.SHAPES[shape]().result, width)
    golden(f"{shape}-{width}.txt", text)


@pytest.mark.parametrize("width", [60, 72, 80, 100, 120, 160, 240])
def test_no_line_is_wider_than_the_terminal(build, shape: str, width: int) -> None:
    text = summary(build.SHAPES[shape]().result, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize("width", range(60, 200, 7))
def test_numbers_are_never_torn_apart(build, width: int) -> None:
    for shape in ("software-bound", "not-steady", "throttled-gpu"):
        text = summary(build.SHAPES[shape]().result, width, paths={})
        assert not NUMBER_TORN.search(text), text


def test_void_shows_no_throughput(build) -> None:
    text = summary(build.void().result, 120)
    assert "VOID: no figure of this run may be used" in text
    assert "token/s" not in text.replace("tokens/s", "")
    for figure in ("18.9", "27.1", "20.4", "52.8", "15.21", "58 %"):
        assert figure not in text


def test_colour_changes_nothing_but_colour(build) -> None:
    result = build.software_bound().result
    plain = summary(result, 120)
    coloured = summary(result, 120, colour=True)
    assert "\x1b[" not in plain
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_somebodys_text_cannot_drive_the_terminal(build) -> None:
    text = summary(build.hostile().result, 100, paths={"report": "\x1b]0;x\x07.html"})
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_what_a_manager_needs_stands_in_the_first_lines(build) -> None:
    lines = summary(build.software_bound().result, 120).splitlines()
    top = "\n".join(lines[:14])
    for needed in ("SOFTWARE-BOUND", "ML platform engineering", "Next step", "18.9 [18.6, 19.2]", "NO-GO", "skipped"):
        assert needed in top


def test_rich_is_imported_late() -> None:
    code = "import sys, lynxbench.report.render_terminal; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_table_is_squeezed_from_its_widest_words_and_numbers_stay_whole() -> None:
    rows = [
        ("a", "18.9\u00a0[18.6,\u00a019.2]", "words that may be broken over as many lines as there is room for")
    ] * 2
    lines = render_terminal(
        Report("x", (Table(("name", "a long heading", "why"), rows, right=(1,)),)), width=60
    ).splitlines()
    assert max(map(cell_len, lines)) <= 60
    assert sum("18.9 [18.6, 19.2]" in line for line in lines) == 2
    assert all(line.index("words") == lines[0].index("why") for line in lines if "words" in line)


def test_a_table_that_does_not_fit_becomes_lists() -> None:
    rows = [tuple("n" * 20 for _ in range(6)), ("alone", "why there are no figures")]
    text = render_terminal(Report("x", (Table(tuple("abcdef"), rows, right=range(6)),)), width=60)
    assert text.splitlines()[:2] == ["n" * 20, "  b  " + "n" * 20]
    assert text.endswith("alone\n  why there are no figures\n")


def test_longer_lists_are_counted_and_empty_ones_say_so() -> None:
    points = Points([str(n) for n in range(9)], "Numbers", most=2)
    none = Table(("a",), (), "Nothing", empty="nothing was measured")
    text = render_terminal(Report("x", (points, none, Table(("a",), ()))), width=80)
    assert text == "Numbers\n  - 0\n  - 1\n  and 7 more\n\nnothing was measured\n"


def test_a_line_breaks_between_words_alone_whatever_their_style() -> None:
    note = Note(
        (Span("bold", Style.STRONG), ": ", said("their\x1b[2J   words "), " ", Span("good", Tone.GOOD), "!" * 70)
    )
    text = render_terminal(Report("x", (note,)), width=60)
    assert text.splitlines()[0] == "bold: their\\x1b[2J words"
    assert text.replace("\n", "").endswith("good" + "!" * 70)


def test_evidence_is_named_once(build) -> None:
    assert summary(build.base_result(), 120).lower().count("evidence") == 1
