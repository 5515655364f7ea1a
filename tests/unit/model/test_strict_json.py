"""JSON that two readers could read differently is read by none."""

from __future__ import annotations

import pytest

from lynxbench.model.strict_json import NotStrictJson, parse_strict_json


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "Infinity"),
        ('{"a": 1e999}', "beyond"),
        ('{"a": -1e400}', "beyond"),
        ("[" * 300 + "]" * 300, "deep"),
        ("[" * 100_000 + "]" * 100_000, "deep"),
        ('{"a":' * 300 + "1" + "}" * 300, "deep"),
        ("9" * 10_000, "usable"),
        ('{"a": 1} x', "not JSON"),
        ("", "not JSON"),
    ],
)
def test_it_is_refused_in_one_line(text: str, told: str) -> None:
    with pytest.raises(NotStrictJson, match=told) as refused:
        parse_strict_json(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e308", 1e308),
        ("1e-999", 0.0),
        ("[" * 100 + "]" * 100, None),
        ('{"a": [1, null, "é"]}', {"a": [1, None, "é"]}),
    ],
)
def test_plain_json_is_read(text: str, value: object) -> None:
    found = parse_strict_json(text)
    assert value is None or found == value
