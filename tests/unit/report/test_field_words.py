"""Captured values in words."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from lynxbench.model.executor import FieldChange, Tier
from lynxbench.model.layers import Layer
from lynxbench.report.field_words import expand_change, format_value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "yes"),
        (3.0, "3"),
        (12345678.0, "12345678"),
        ("", "(empty)"),
        ("ab" * 32, "abababababab…"),
        ([700, 700], "700 x 2"),
        ([700, 650], "700, 650"),
        ([], "none"),
        ({"a": 1}, "a 1"),
        ({}, "none"),
        ({str(i): i for i in range(5)}, "5: 0 0, 1 1, 2 2, 3 3, 4 4"),
    ],
)
def test_format_value(value: JsonValue, text: str) -> None:
    assert format_value(value) == text


def change(before: JsonValue, after: JsonValue) -> FieldChange:
    return FieldChange(layer=Layer.SYSTEM, name="x", tier=Tier.CONFIGURATION, before=before, after=after)


def test_changes_are_shown_item_by_item() -> None:
    steps = expand_change(change({"a": "1", "b": "2", "n": None}, {"a": "1", "b": "3", "c": "4"}))
    assert [(s.label, s.before, s.after) for s in steps] == [
        ("x.b", "2", "3"),
        ("x.c", "(absent)", "4"),
        ("x.n", "none", "(absent)"),
    ]
    assert [s.label for s in expand_change(change([1, 2, 3], [1, 5, 3]))] == ["x[1]"]
    assert [s.label for s in expand_change(change([1], [1, 2]))] == ["x"]
