"""What people see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import JsonValue

from lynxbench.executor.capture import capture_host
from lynxbench.executor.compatibility import check_compatibility
from lynxbench.executor.executor_conditions import notable_conditions
from lynxbench.executor.host import Host
from lynxbench.executor.native_precisions import precision_table
from lynxbench.executor.view import ANSI, expand_change, format_value, render_difference, render_executor
from lynxbench.model.executor import FieldChange, Tier, difference
from lynxbench.model.layers import DEFAULT_OWNERS, Layer


def test_every_layer_with_its_owner(make_host: Callable[..., Host], fake_nvml: Callable[..., Any]) -> None:
    taken = capture_host(host=make_host(), nvml=fake_nvml, plugins=())
    text = render_executor(
        taken, check_compatibility(taken), notable_conditions(taken), precision_table(taken), ink=ANSI, width=100
    )
    for layer in Layer:
        assert layer.value.upper() in text
        assert DEFAULT_OWNERS[layer] in text
    assert taken.executor_id[:12] in text
    assert "NVIDIA H100 80GB HBM3 x 8" in text
    assert "\x1b[2munreadable: not declared" in text
    assert "power_limit_enforced_w is 650" in text
    assert "known after a run" in text
    assert "tensor cores of capability 9.0 take fp8" in text
    names = [line for line in text.splitlines() if line.startswith("  gpu_")]
    assert len({len(line) - len(line[37:]) for line in names}) == 1


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


def test_difference_names_layer_and_owner(make_host: Callable[..., Host], fake_nvml: Callable[..., Any]) -> None:
    host = make_host()
    one = capture_host(host=host, nvml=fake_nvml, plugins=())
    other = fake_nvml(nvmlDeviceGetEnforcedPowerLimit=lambda g: 700000)
    two = capture_host(host=host, nvml=lambda: other, plugins=())
    text = render_difference(difference(one, two, [Tier.CONFIGURATION]), ("a.json", "here"))
    assert "1 fields differ in 1 layers   a.json -> here" in text
    assert "owner: hardware engineering" in text
    assert "gpu_power_limit_enforced_w[3]      650 -> 700" in text
    assert render_difference((), ("a", "b")) == "no difference between a and b"
