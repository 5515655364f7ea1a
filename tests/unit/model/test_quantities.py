"""Quantities: strict to read, one form to write."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.model.quantities import (
    canonical_number,
    format_duration,
    format_rate,
    format_ratio,
    parse_duration,
    parse_rate,
    parse_ratio,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90 s", 90.0),
        ("90s", 90.0),
        ("  90  s  ", 90.0),
        ("1.5 min", 90.0),
        ("250 ms", 0.25),
        ("3 us", 3e-6),
        ("3 µs", 3e-6),
        ("3 \N{GREEK SMALL LETTER MU}s", 3e-6),
        ("7 ns", 7e-9),
        ("0.5 h", 1800.0),
        ("1e3 ms", 1.0),
        (".5 s", 0.5),
        ("+2 s", 2.0),
        ("-2 s", -2.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(("text", "fraction"), [("5 %", 0.05), ("95%", 0.95), ("7 %", 0.07), ("0.1 %", 0.001)])
def test_ratios_are_exact(text: str, fraction: float) -> None:
    assert parse_ratio(text) == fraction
    assert parse_ratio(format_ratio(fraction)) == fraction


@pytest.mark.parametrize(("text", "rate"), [("12 /s", 12.0), ("600 /min", 10.0), ("7200/h", 2.0)])
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        (parse_duration, 90, "90 has no unit; use one of ns, us"),
        (parse_duration, 0.5, "0.5 has no unit"),
        (parse_duration, "90", "the unit is missing"),
        (parse_duration, "90 tokens", "unit 'tokens' does not fit here"),
        (parse_duration, "90 S", "unit 'S' does not fit here"),
        (parse_duration, "90 s s", "unit 's s' does not fit here"),
        (parse_duration, "1 0 s", "is not a number with a unit"),
        (parse_duration, "1,5 s", "unit ',5 s' does not fit here"),
        (parse_duration, "soon", "is not a number with a unit"),
        (parse_duration, "", "is not a number with a unit"),
        (parse_duration, "\N{ARABIC-INDIC DIGIT THREE} s", "is not a number with a unit"),
        (parse_duration, "1e999 s", "is not finite"),
        (parse_duration, "nan s", "is not a number with a unit"),
        (parse_duration, True, "must be a number with a unit; use one of ns, us, µs, ms, s, min, h, such as '90 s'"),
        (parse_duration, None, "must be a number with a unit; use one of ns, us, µs, ms, s, min, h, such as '90 s'"),
        (
            parse_duration,
            ["90 s"],
            "must be a number with a unit; use one of ns, us, µs, ms, s, min, h, such as '90 s'",
        ),
        (parse_ratio, "0.05", "the unit is missing; use one of %"),
        (parse_ratio, "5 s", "unit 's' does not fit here; use one of %, such as '5 %'"),
        (parse_rate, "12 s", "use one of /s, /min, /h"),
    ],
)
def test_wrong_quantities_say_what_would_be_right(parse: Callable[[object], float], text: object, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse(text)


def test_an_endless_quantity_costs_nothing_and_is_not_repeated() -> None:
    started = time.process_time()
    with pytest.raises(ValueError, match="1000002 characters are no quantity") as caught:
        parse_duration("1" + " " * 1_000_000 + "x")
    assert time.process_time() - started < 1
    assert len(str(caught.value)) < 120


def test_zero_has_one_form() -> None:
    assert format_duration(parse_duration("-0 s")) == "0 s"


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_what_is_written_reads_back_as_the_same_number(value: float) -> None:
    value = canonical_number(value)
    for parse, write in ((parse_duration, format_duration), (parse_ratio, format_ratio), (parse_rate, format_rate)):
        assert parse(write(value)) == value
        assert write(parse(write(value))) == write(value)
