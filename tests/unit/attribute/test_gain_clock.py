"""Traced and bare steps may run while the machine is differently fast: a gain is counted by one clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attributed import attribute_by
from launched_operators import Launched, dense, flow, launched_steps
from lynxbench.attribute.read.dataflow import FLOW_KEY, Dataflow
from lynxbench.model.attribution import Attribution, Bound, Ceiling

Event = dict[str, Any]
PRODUCT: Launched = ("aten::mm", [dense(1000, 1000), dense(1000, 1000)], 21.0)
AGAIN: Launched = ("aten::mm", [dense(1000, 2000), dense(2000, 1000)], 42.0)
NEEDLESS_MS, WHOLE_MS = 42.0, 63.0
"""Two thirds of the kernels compute what was there: three times as fast without."""


@pytest.fixture
def judged(
    make_event: Callable[..., Event], write_trace: Callable[..., Path], ceilings: tuple[Ceiling, ...]
) -> Callable[..., Attribution]:
    """A product that is needed and one that the step had computed; on the host, or on a device."""

    def judge(bare_ms: float, *, rules: int, on_device: bool) -> Attribution:
        operators = [PRODUCT, AGAIN]
        events = launched_steps(make_event, operators)[0] if on_device else _on_host(make_event, operators)
        seen = msgspec.to_builtins(Dataflow(2, (flow(AGAIN, 1, again=1),)))
        return attribute_by(rules, write_trace(events, **{FLOW_KEY: seen}), ceilings, bare_ms)

    return judge


def _on_host(make_event: Callable[..., Event], operators: list[Launched]) -> list[Event]:
    events, at = [], 0.0
    for step in range(5):
        events.append(make_event(f"step#{step}", at, WHOLE_MS * 1e3, cat="user_annotation"))
        for name, operands, ms in operators:
            sizes = [list(sizes) for sizes, _ in operands]
            events.append(make_event(name, at, ms * 1e3, **{"Input Dims": sizes, "Input type": ["float"] * len(sizes)}))
            at += ms * 1e3
        at += 50.0
    return events


@given(st.floats(0.2, 5.0), st.booleans())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_how_fast_the_machine_was_while_profiling_changes_no_gain(
    judged: Callable[..., Attribution], slower: float, on_device: bool
) -> None:
    found = judged(WHOLE_MS / slower, rules=14, on_device=on_device)
    assert found.bound is Bound.SOFTWARE
    assert found.gain_if_removed.estimate == pytest.approx(WHOLE_MS / (WHOLE_MS - NEEDLESS_MS), rel=0.05)


def test_earlier_editions_took_traced_time_off_a_bare_step(judged: Callable[..., Attribution]) -> None:
    """Profiled on a machine that was half as fast: nothing would have been left of the step."""
    assert judged(WHOLE_MS / 2, rules=13, on_device=False).gain_if_removed.estimate > 50.0
    assert judged(WHOLE_MS / 2, rules=14, on_device=False).gain_if_removed.estimate == pytest.approx(3.0, rel=0.02)


def test_under_equal_conditions_both_editions_say_the_same(judged: Callable[..., Attribution]) -> None:
    for on_device in (False, True):
        before, now = (judged(WHOLE_MS, rules=rules, on_device=on_device) for rules in (13, 14))
        assert now.gain_if_removed.estimate == pytest.approx(before.gain_if_removed.estimate, rel=0.01)
