"""Launches and waits that are level, copies that are alike, and reductions behind a chain: what the range covers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import attribute_by
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.layers import Layer

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]
Events = list[dict[str, Any]]
TURNS = 20


@pytest.fixture
def attribute(write_trace: Write, ceilings: tuple[Ceiling, ...]) -> Callable[..., Attribution]:
    def judged(events: Events, step_ms: float, rules: int = 7) -> Attribution:
        return attribute_by(rules, write_trace(events), ceilings, step_ms)

    return judged


def asked_turns(make_event: Make, *, small: int, wait_us: float) -> Events:
    """Turns of small operators, dispatched in 30 µs each for 2 of kernel; after each turn the host waits so long."""
    events, number = [], 0
    turn_us = small * 30.0 + wait_us
    for step in range(5):
        at = step * (TURNS * turn_us + 30.0)
        events.append(make_event(f"step#{step}", at, TURNS * turn_us + 25.0, cat="user_annotation"))
        for _ in range(TURNS):
            for _ in range(small):
                number += 1
                events += [
                    make_event("aten::relu", at, 30.0),
                    make_event("cudaLaunchKernel", at + 22, 4.0, cat="cuda_runtime", correlation=number),
                    make_event("elementwise", at + 27, 2.0, cat="kernel", tid=7, stream=7, correlation=number),
                ]
                at += 30.0
            if wait_us:
                events.append(make_event("cudaStreamSynchronize", at, wait_us, cat="cuda_runtime"))
            at += wait_us
        events.append(make_event("cudaDeviceSynchronize", at, 20.0, cat="cuda_runtime"))
    return events


def test_where_waits_and_launches_are_level_the_range_covers_either_and_both(
    make_event: Make, attribute: Callable[..., Attribution]
) -> None:
    """A turn: four operators of 30 µs, 2 of them kernel, and 90 µs of waiting. Without the waits 1.75 times as fast,
    replayed with them 2.1 times, replayed without them 21 times."""
    events = asked_turns(make_event, small=4, wait_us=90.0)
    said = attribute(events, TURNS * 210e-3)
    assert (said.bottleneck, said.layer, said.weak) == (Category.SYNCHRONIZATION, Layer.APPLICATION, True)
    gain = said.gain_if_removed
    assert gain.low <= 210 / 120
    assert gain.high >= 210 / (8 + 2)
    assert "level with launch" in said.sentence
    assert "reads of device values" in said.next_step
    assert "replay" in said.next_step, "both are named, the one that forbids the other first"
    (supposed,) = [line for line in said.evidence if "supposes" in line]
    assert "at the most the step replayed as a graph, too" in supposed
    assert "too few for nine in ten" in supposed
    assert "written in another way may gain far more" in supposed
    earlier = attribute(events, TURNS * 210e-3, rules=6)
    assert earlier.gain_if_removed.high < gain.high
    assert "replay" not in earlier.next_step or "reads of device" not in earlier.next_step


def test_launches_without_waits_stay_launches(make_event: Make, attribute: Callable[..., Attribution]) -> None:
    events = asked_turns(make_event, small=4, wait_us=0.0)
    said, before = (attribute(events, TURNS * 120e-3, rules) for rules in (7, 6))
    assert (said.bottleneck, said.layer) == (Category.LAUNCH, Layer.RUNTIME)
    assert "reads of device values" not in said.next_step
    assert said.gain_if_removed == before.gain_if_removed


def test_waits_that_lead_clearly_keep_their_range(make_event: Make, attribute: Callable[..., Attribution]) -> None:
    """One operator and 900 µs of waiting: launches are a thirtieth of it, whatever the profiler added."""
    events = asked_turns(make_event, small=1, wait_us=900.0)
    said, before = (attribute(events, TURNS * 930e-3, rules) for rules in (7, 6))
    assert said.bottleneck is before.bottleneck is Category.SYNCHRONIZATION
    assert said.gain_if_removed == before.gain_if_removed
    assert not said.weak


def crumbs(make_event: Make, make_operands: Make, *, copies: int, copy_us: float) -> Events:
    """Copies to the device, each with its dispatch and a wait, and one kernel."""
    events, number = [], 0
    each = 45.0 + copy_us
    for step in range(5):
        at = step * (copies * each + 100.0)
        events.append(make_event(f"step#{step}", at, copies * each + 90.0, cat="user_annotation"))
        for _ in range(copies):
            number += 1
            ids = {"correlation": number, "External id": number}
            begun = {"cat": "gpu_memcpy", "tid": 7, "stream": 7, "bytes": 8192}
            events += [
                make_event(
                    "aten::copy_", at, 44.0 + copy_us, **make_operands((2048,), (2048,)), **{"External id": number}
                ),
                make_event("cudaMemcpyAsync", at + 35, 4.0, cat="cuda_runtime", **ids),
                make_event("Memcpy HtoD (Pageable -> Device)", at + 39, copy_us, **begun, **ids),
                make_event("cudaStreamSynchronize", at + 39, copy_us + 3, cat="cuda_runtime"),
            ]
            at += each
        number += 1
        events += [
            make_event("aten::relu", at, 10.0),
            make_event("cudaLaunchKernel", at + 4, 4.0, cat="cuda_runtime", correlation=number),
            make_event("elementwise", at + 9, 5.0, cat="kernel", tid=7, stream=7, correlation=number),
        ]
    return events


def test_alike_copies_may_become_one_with_the_waits_for_them(
    make_event: Make, make_operands: Make, attribute: Callable[..., Attribution]
) -> None:
    """A hundred copies of 1 µs in 46 µs each: one copy of 100 µs is left, or less."""
    events = crumbs(make_event, make_operands, copies=100, copy_us=1.0)
    said, before = (attribute(events, 100 * 46e-3 + 0.015, rules) for rules in (7, 6))
    assert said.bottleneck is before.bottleneck is Category.LAUNCH
    assert said.gain_if_removed.high >= 4.615 / 0.2 > before.gain_if_removed.high


def test_copies_that_fill_the_link_are_not_shortened_by_being_one(
    make_event: Make, make_operands: Make, attribute: Callable[..., Attribution]
) -> None:
    """Ten copies of 2 ms each: their bytes take as long in one."""
    events = crumbs(make_event, make_operands, copies=10, copy_us=2000.0)
    said, before = (attribute(events, 20.5, rules) for rules in (7, 6))
    assert said.bottleneck is before.bottleneck is Category.TRANSFER
    assert said.gain_if_removed == before.gain_if_removed


def chained(make_event: Make, make_operands: Make, last: str) -> Events:
    """Three passes over 40 MB each way and one behind them: 4 ms each, and 2 for what only reads."""
    events, number = [], 0
    passes = [("aten::sub", ((10_000, 1000), (10_000, 1000)), 6.2), ("aten::pow", ((10_000, 1000),), 4.1)]
    passes += [("aten::mul", ((10_000, 1000),), 4.1), (last, ((10_000, 1000),), 2.1)]
    for step in range(5):
        at = device = step * 17_000.0
        events.append(make_event(f"step#{step}", at, 16_900.0, cat="user_annotation"))
        for name, sizes, ms in passes:
            number += 1
            ids = {"correlation": number, "External id": number}
            device = max(device, at + 6.0)
            events += [
                make_event(name, at, 6.0, **make_operands(*sizes), **{"External id": number}),
                make_event("cudaLaunchKernel", at + 1, 4.0, cat="cuda_runtime", **ids),
                make_event("pass_of_it", device, ms * 1e3, cat="kernel", tid=7, stream=7, **ids),
            ]
            device, at = device + ms * 1e3, at + 8.0
    return events


def test_a_reduction_behind_a_chain_may_be_its_end(
    make_event: Make, make_operands: Make, attribute: Callable[..., Attribution]
) -> None:
    """Merged with the sum, 80 MB are read and nothing is written: 4 ms of 16.5."""
    said, before = (attribute(chained(make_event, make_operands, "aten::sum"), 16.55, rules) for rules in (7, 6))
    assert (said.bound, said.bottleneck) == (Bound.SOFTWARE, Category.MEMORY_BANDWIDTH)
    assert said.gain_if_removed.estimate == before.gain_if_removed.estimate
    assert said.gain_if_removed.high >= 16.5 / 4.2 > before.gain_if_removed.high
    other, earlier = (attribute(chained(make_event, make_operands, "aten::mm"), 16.55, rules) for rules in (7, 6))
    assert other.gain_if_removed == earlier.gain_if_removed, "a product is not"
