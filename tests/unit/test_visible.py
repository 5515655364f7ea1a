"""No character of somebody else's text drives a terminal, hides, turns a line or breaks printing."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.errors import BadInput
from lynxbench.visible import UNSAFE, visible, visible_json, visible_line

ANY = st.text(st.characters(exclude_categories=()))
"""Also lone surrogates."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b[Hholds", "\\x1b[2J\\x1b[Hholds"),
        ("\x9b2J", "\\x9b2J"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("gone\rholds", "gone\\x0dholds"),
        ("a\x08\x7fb", "a\\x08\\x7fb"),
        ("\u202eholds\u2066", "\\u202eholds\\u2066"),
        ("a\u200bb\u2060\ufeff", "a\\u200bb\\u2060\\ufeff"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("\udcff\ud800", "\\udcff\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("holds\ufe00\U000e0100\U000e01ef", "holds\\ufe00\\U000e0100\\U000e01ef"),  # bytes in variation selectors
        ("a\u3164\u115f\uffa0\u2800b", "a\\u3164\\u115f\\uffa0\\u2800b"),  # letters that are blank
        ("a\u034f\u180b\U0001d173b", "a\\u034f\\u180b\\U0001d173b"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("plain: 20 ± 0.1 calls/s, µs, 東京, e\u0301", "plain: 20 ± 0.1 calls/s, µs, 東京, e\u0301"),
    ],
)
def test_what_would_drive_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(ANY)
def test_whatever_is_made_visible_can_be_printed_and_drives_nothing(text: str) -> None:
    shown = visible(text)
    assert UNSAFE.search(shown) is None
    assert not [letter for letter in shown if unicodedata.category(letter) == "Cc" and letter not in "\n\t"]
    shown.encode("utf-8")
    assert visible(shown) == shown
    assert len(visible_line(text).splitlines()) <= 1
    assert UNSAFE.search(str(BadInput(text))) is None
    assert "\n" not in str(BadInput(text))


@given(ANY)
def test_a_json_document_stays_the_same(text: str) -> None:
    plain = json.dumps({text: [text]}, ensure_ascii=False, indent=1)
    shown = visible_json(plain)
    assert UNSAFE.search(shown) is None
    shown.encode("utf-8")
    assert json.loads(shown) == json.loads(plain)
