"""Words that a gain bears out: software-bound where a change of code gains 1.3, hardware-bound where none does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attributed import attribute_by
from launched_operators import Launched, dense, launched_steps
from lynxbench.attribute.judge.kernel_verdict import WORTH_CHANGING
from lynxbench.attribute.read.dataflow import FLOW_KEY, Dataflow, OperatorFlow
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.layers import Layer

Make = Callable[..., dict[str, Any]]
Events = list[dict[str, Any]]
Write = Callable[..., Path]
Judged = Callable[..., Attribution]
CALLS = 100
FACTORED = "aten::linalg_lu_factor_ex"
LAYER: Launched = ("aten::mm", [dense(1000, 1000), dense(1000, 1000)], 21.0)
"""2 GFLOP at 100 GFLOP/s: near the ceiling."""


def one_by_one(make_event: Make, host_us: float, kernel_us: float, wait_us: float) -> tuple[Events, float]:
    """Steps of small systems solved one by one: factors, a small product, a look at it; and a step's milliseconds."""
    events, number, at, each_us = [], 0, 0.0, 0.0
    for step in range(5):
        begin = free = at
        for _ in range(CALLS):
            for name, sizes, took_us in ((FACTORED, [[24, 24]], kernel_us), ("aten::mm", [[24, 24], [24, 1]], 1.0)):
                number += 1
                ids = {"correlation": number, "External id": number}
                shown = {"Input Dims": sizes, "Input type": ["float"] * len(sizes), "External id": number}
                free = max(free, at + host_us)
                events += [
                    make_event(name, at, host_us, **shown),
                    make_event("cudaLaunchKernel", at + host_us - 2, 1.0, cat="cuda_runtime", **ids),
                    make_event("small_kernel", free, took_us, cat="kernel", tid=7, stream=7, **ids),
                ]
                free, at = free + took_us, at + host_us
            if wait_us:
                events.append(make_event("cudaStreamSynchronize", at, wait_us, cat="cuda_runtime"))
                at += wait_us
        at = max(at, free)
        events.append(make_event("cudaDeviceSynchronize", at, 20.0, cat="cuda_runtime"))
        at += 20.0
        each_us = at - begin
        events.append(make_event(f"step#{step}", begin, each_us, cat="user_annotation"))
    return events, each_us / 1e3


@pytest.fixture
def solved(make_event: Make, write_trace: Write, ceilings: tuple[Ceiling, ...]) -> Judged:
    def judged(host_us: float, kernel_us: float, wait_us: float, *, bare: float = 1.0, rules: int = 12) -> Attribution:
        """`bare`: the step without the profiler, over the one with it."""
        events, step_ms = one_by_one(make_event, host_us, kernel_us, wait_us)
        return attribute_by(rules, write_trace(events), ceilings, step_ms * bare)

    return judged


def test_what_is_too_small_on_the_host_and_on_the_device_is_one_cause(solved: Judged) -> None:
    """One uncovers the other, and the waits both: calls that are made one remove all three."""
    said, before = (solved(50.0, 49.0, 20.0, bare=0.6, rules=rules) for rules in (12, 11))
    assert (before.bound, before.gain_if_removed.high < WORTH_CHANGING) == (Bound.SOFTWARE, True), "the contradiction"
    assert (said.bound, said.bottleneck, said.layer) == (Bound.SOFTWARE, Category.LAUNCH, Layer.RUNTIME)
    assert "too small to fill the device" in said.sentence
    assert "calls that are alike one call" in said.next_step
    assert said.gain_if_removed.estimate >= WORTH_CHANGING
    assert said.gain_if_removed.high > 50.0


def test_without_waits_to_go_with_them_it_stays_open(solved: Judged) -> None:
    """A replay alone would gain 1.2, calls made one far more: whether these need each other nobody saw."""
    said = solved(50.0, 49.0, 0.0, bare=0.6)
    assert (said.bound, said.layer) == (Bound.UNDETERMINED, None)
    assert said.gain_if_removed.estimate < WORTH_CHANGING < said.gain_if_removed.high


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    host_us=st.floats(5.0, 60.0),
    kernel_us=st.floats(2.0, 200.0),
    wait_us=st.sampled_from([0.0, 5.0, 30.0]),
    bare=st.floats(0.6, 1.0),
)
def test_no_software_verdict_on_kernels_has_a_gain_that_is_none(
    solved: Judged, host_us: float, kernel_us: float, wait_us: float, bare: float
) -> None:
    said = solved(host_us, kernel_us, wait_us, bare=bare)
    if said.bound is Bound.SOFTWARE:
        assert said.gain_if_removed.high >= WORTH_CHANGING
    if said.bound is Bound.HARDWARE:
        assert said.gain_if_removed.high < WORTH_CHANGING


def test_kernels_that_are_slow_and_large_stay_slow_kernels(solved: Judged) -> None:
    said, before = solved(10.0, 400.0, 0.0), solved(10.0, 400.0, 0.0, rules=11)
    assert said.bound is before.bound is Bound.SOFTWARE
    assert said.sentence == before.sentence
    assert "far below" in said.sentence


# --- values that show too little, or perhaps enough -------------------------------------------------------------------


@pytest.fixture
def followed(make_event: Make, write_trace: Write, ceilings: tuple[Ceiling, ...]) -> Judged:
    def judged(calls: int, rules: int = 12, **seen: Any) -> Attribution:
        events, step_ms = launched_steps(make_event, [LAYER] * calls)
        flow = OperatorFlow(LAYER[0], tuple(sizes for sizes, _ in LAYER[1]), calls, **seen)
        document = msgspec.to_builtins(Dataflow(2, (flow,)))
        return attribute_by(rules, write_trace(events, **{FLOW_KEY: document}), ceilings, step_ms)

    return judged


def test_where_what_is_needless_may_be_worth_a_change_nobody_says_hardware(followed: Judged) -> None:
    """Two of nine calls: without them the step is 1.29 times as fast."""
    said = followed(9, again=2)
    assert (said.bound, said.layer) == (Bound.UNDETERMINED, None)
    assert "compute what the step had computed before" in said.sentence
    assert said.gain_if_removed.low <= 9 / 7 <= said.gain_if_removed.high
    assert "keep the results" in said.next_step
    assert followed(9, rules=11, again=2).bound is Bound.HARDWARE, "earlier results are recomputed by their rules"


@pytest.mark.parametrize(
    ("calls", "seen"),
    [
        pytest.param(20, {"again": 1}, id="a twentieth"),
        pytest.param(8, {"nonzero": 0.5}, id="zeros here and there, as behind every ReLU"),
        pytest.param(8, {"nonzero": 0.3, "zero_rows": 0.05}, id="… and a few rows"),
        pytest.param(8, {"batches": 1}, id="parts that are large enough"),
        pytest.param(8, {"sums": 1}, id="parts of a sum that are large enough"),
    ],
)
def test_what_is_near_the_ceiling_and_needed_stays_the_hardwares(
    followed: Judged, calls: int, seen: dict[str, Any]
) -> None:
    said = followed(calls, **seen)
    assert said.bound is Bound.HARDWARE
    assert said.gain_if_removed.high < WORTH_CHANGING
