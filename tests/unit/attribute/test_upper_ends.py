"""The upper ends of a gain without copies or waits, on traces written by hand whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import attribute_by
from launched_operators import LAYERS, Make, awaited_layers
from lynxbench.model.attribution import Attribution, Category, Ceiling

Attribute = Callable[..., Attribution]


@pytest.fixture
def attribute(write_trace: Callable[..., Path], ceilings: tuple[Ceiling, ...]) -> Attribute:
    def judged(events: list[dict[str, Any]], step_ms: float, rules: int) -> Attribution:
        return attribute_by(rules, write_trace(events), ceilings, step_ms)

    return judged


def fetched_layers(make_event: Make, dispatch_us: float) -> list[dict[str, Any]]:
    """Steps of layers of 10 µs of kernel whose results are fetched, 90 µs each; the host dispatches slowly between."""
    events, number = [], 0
    each = dispatch_us + 100.0
    for step in range(5):
        at = step * (LAYERS * each + 30.0)
        events.append(make_event(f"step#{step}", at, LAYERS * each + 25.0, cat="user_annotation"))
        for layer in range(LAYERS):
            begin, number = at + layer * each, number + 2
            ends = begin + dispatch_us
            kernel, copy = ({"correlation": one, "External id": one} for one in (number, number + 1))
            events += [
                make_event("aten::relu", begin, dispatch_us - 1.0, **{"External id": number}),
                make_event("cudaLaunchKernel", ends - 6, 4.0, cat="cuda_runtime", **kernel),
                make_event("elementwise", ends, 10.0, cat="kernel", tid=7, stream=7, **kernel),
                make_event("aten::copy_", ends, 100.0, **{"External id": number + 1}),
                make_event("cudaMemcpyAsync", ends + 1, 98.0, cat="cuda_runtime", **copy),
                make_event("Memcpy DtoH (Device -> Pageable)", ends + 10, 90.0, cat="gpu_memcpy", tid=7, **copy),
            ]
    return events


def test_a_host_that_copies_hold_up_may_start_operators_as_fast_as_any(make_event: Make, attribute: Attribute) -> None:
    """60 µs an operator beside copies; without them 5 to 10: at the least the kernels of 0.4 ms are left."""
    events, step_ms = fetched_layers(make_event, 60.0), LAYERS * 160e-3
    said, before = (attribute(events, step_ms, rules=edition) for edition in (11, 10))
    assert said.bottleneck is before.bottleneck is Category.TRANSFER
    assert said.gain_if_removed.low == before.gain_if_removed.low
    assert said.gain_if_removed.estimate == before.gain_if_removed.estimate
    assert before.gain_if_removed.high < 6.4 / 0.5 <= said.gain_if_removed.high


def test_who_takes_waits_out_may_write_the_calls_as_one(make_event: Make, attribute: Attribute) -> None:
    events = awaited_layers(make_event, 60.0, 12.0, wait=True)
    said, before = (attribute(events, LAYERS * 60e-3, rules=edition) for edition in (11, 10))
    assert said.bottleneck is before.bottleneck is Category.SYNCHRONIZATION
    assert said.gain_if_removed.high >= before.gain_if_removed.high
    assert said.gain_if_removed.low == before.gain_if_removed.low
    assert any("calls that are alike made one" in line for line in said.evidence)


def test_what_the_host_picked_of_its_own_table_the_device_may_pick(make_event: Make, attribute: Attribute) -> None:
    """2 ms of an index on the host, 4 ms over the link, a kernel of 1 ms: the table may lie on the device."""
    table = {"Input Dims": [[100_000, 64]], "Input type": ["float"]}
    events = []
    for step in range(6):
        at, number = step * 7_100.0, 2 * step
        copy, kernel = ({"correlation": one, "External id": one} for one in (number, number + 1))
        events += [
            make_event(f"step#{step}", at, 7_090.0, cat="user_annotation"),
            make_event("aten::index", at + 5, 1_990.0, **table),
            make_event("aten::copy_", at + 2_000, 4_010.0, **{"External id": number}),
            make_event("cudaMemcpyAsync", at + 2_002, 4_005.0, cat="cuda_runtime", **copy),
            make_event("Memcpy HtoD (Pageable -> Device)", at + 2_005, 4_000.0, cat="gpu_memcpy", tid=7, **copy),
            make_event("aten::relu", at + 6_010, 15.0, **{"External id": number + 1}),
            make_event("cudaLaunchKernel", at + 6_015, 5.0, cat="cuda_runtime", **kernel),
            make_event("elementwise", at + 6_025, 1_000.0, cat="kernel", tid=7, stream=7, **kernel),
        ]
    said, before = (attribute(events, 7.1, rules=edition) for edition in (15, 14))
    assert said.bottleneck is before.bottleneck is Category.TRANSFER
    assert said.gain_if_removed.low == before.gain_if_removed.low
    assert before.gain_if_removed.high < 7.1 / 1.1 <= said.gain_if_removed.high
