"""Prometheus' text, and what spoils only itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from lynxbench.measure.exposition import parse_exposition


def test_names_labels_values_and_times_are_read() -> None:
    text = '# HELP x y\nx{a="1",b="c,}\\"\\n\\\\"} 2.5e3 1700000000000\ny 7\nz{} +Inf\n'
    exposition = parse_exposition(text)
    assert exposition.malformed == 0
    assert [(s.name, dict(s.labels), s.value) for s in exposition.samples] == [
        ("x", {"a": "1", "b": 'c,}"\n\\'}, 2500.0),
        ("y", {}, 7.0),
        ("z", {}, math.inf),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "x{",
        'x{a="1} 2',
        "x{a=1} 2",
        'x{a="1" b="2"} 3',
        'x{a="1",a="2"} 3',
        "x 1_000",
        "x 0x10",
        "x one",
        "x 1 2 3",
        "<html>",
        "1x 2",
    ],
)
def test_a_line_that_is_not_in_the_format_spoils_no_other(line: str) -> None:
    exposition = parse_exposition(f"before 1\n{line}\nafter 2\n")
    assert [sample.name for sample in exposition.samples] == ["before", "after"]
    assert exposition.malformed == 1


def test_a_text_that_breaks_off_loses_its_last_line() -> None:
    exposition = parse_exposition("x 1\ny 12")  # the 12 may have been 1234
    assert ([s.name for s in exposition.samples], exposition.malformed) == (["x"], 1)


@given(some.text(max_size=200))
def test_any_text_is_survived(text: str) -> None:
    for sample in parse_exposition(text).samples:
        assert isinstance(sample.value, float)
