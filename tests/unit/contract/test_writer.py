"""A contract written back to YAML means the same, and marks what was left to the defaults."""

from __future__ import annotations

import pytest

from lynxbench.contract.loader import bundled_names, parse_contract, read_bundled
from lynxbench.contract.writer import Marked, render_contract, render_scalar


@pytest.mark.parametrize("name", bundled_names())
def test_what_is_shown_loads_to_the_same_id(name: str) -> None:
    contract = read_bundled(name)
    assert parse_contract(render_contract(contract, Marked())).contract_id == contract.contract_id


def test_defaults_are_marked_and_stated_values_are_not() -> None:
    lines = {
        line.split(":")[0].strip(): line for line in render_contract(read_bundled("embedding"), Marked()).split("\n")
    }
    assert lines["restarts"].endswith("# default")
    assert "#" not in lines["min_duration"]
    assert "#" not in lines["demand"]
    assert lines["runtime"].endswith("# usual owner")


def test_long_lists_are_wrapped() -> None:
    text = render_contract(read_bundled("embedding"), Marked())
    block = text[text.index("    distribution: lognormal") : text.index("  arrival:")]
    values = ", ".join(map(str, range(1, 61)))
    contract = parse_contract(text.replace(block, f"    distribution: empirical\n    values: [{values}]\n"))
    shown = render_contract(contract, Marked())
    assert "      [1, 2, 3" in shown
    assert parse_contract(shown) == contract


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain words", "plain words"),
        ("5 %", "5 %"),
        ("0.25 s", "0.25 s"),
        ("true", '"true"'),
        ("NULL", '"NULL"'),
        ("2026-01-31", '"2026-01-31"'),
        ("a: b", '"a: b"'),
        ("a #b", '"a #b"'),
        ("", '""'),
        ("line\u2028separator", '"line\\u2028separator"'),
        (95.0, "95"),
        (0.5, "0.5"),
        (True, "true"),
    ],
)
def test_scalars_read_back_as_what_they_are(value: object, text: str) -> None:
    assert render_scalar(value) == text
