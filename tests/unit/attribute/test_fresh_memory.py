"""Memory that the system hands out anew, as the kernel accounts it to steps without a profiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import attribute_by
from lynxbench.attribute.attributing import RESOURCE_FILE
from lynxbench.attribute.judge.fresh_memory import DEAREST_FAULT_NS, measure_fresh
from lynxbench.attribute.read.resource_record import ResourceRecord, ResourceStep
from lynxbench.engines.python_resources import write_accounts
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.layers import Layer

STEPS, STEP_MS = 6, 20.0


def accounted(
    system_ms: float, faults: int, *, wall_ms: float = STEP_MS, ran_ms: float | None = None
) -> list[ResourceStep]:
    ran_ns = int((wall_ms if ran_ms is None else ran_ms) * 1e6)
    return [
        ResourceStep(
            wall_ns=int(wall_ms * 1e6), thread_cpu_ns=min(ran_ns, int(wall_ms * 1e6)), process_cpu_ns=ran_ns,
            minor_faults=faults, system_ns=int(system_ms * 1e6),
        )
        for _ in range(STEPS)
    ]  # fmt: skip


def record(steps: list[ResourceStep]) -> ResourceRecord:
    return ResourceRecord(kind="resource", steps=steps)


@pytest.mark.parametrize(
    ("steps", "share"),
    [
        (accounted(15.0, 4000), 0.75),
        (accounted(15.0, 4000, ran_ms=40.0), 0.375),  # two threads, one of them in the system for three quarters
        (accounted(15.0, 4000, wall_ms=40.0, ran_ms=20.0), 0.375),  # asleep for half of the step
        (accounted(15.0, 500), 500 * DEAREST_FAULT_NS / 20e6),  # the rest is something else
        (accounted(0.0, 4000), 0.0),
    ],
)
def test_the_systems_part_is_that_of_the_pages(steps: list[ResourceStep], share: float) -> None:
    fresh = measure_fresh(record(steps))
    assert fresh is not None
    assert fresh.share == pytest.approx(share)


def test_few_pages_are_no_memory() -> None:
    assert measure_fresh(record(accounted(15.0, 60))) is None


@pytest.fixture
def judged(
    write_trace: Callable[..., Path],
    make_event: Callable[..., dict[str, Any]],
    make_operands: Callable[..., dict[str, Any]],
    ceilings: tuple[Ceiling, ...],
) -> Callable[..., Attribution]:
    """Steps of two operators that are far from each other, and what the kernel accounted beside their trace."""

    def attribute(
        steps: list[ResourceStep], took_ms: float, name: str = "aten::mm", *sizes: list[int], rules: int = 15
    ) -> Attribution:
        events = []
        for step in range(STEPS):
            at = step * (STEP_MS + 1) * 1e3
            events.append(make_event(f"step#{step}", at, STEP_MS * 1e3, cat="user_annotation"))
            shape = make_operands(*(sizes or ([1000, 1000], [1000, 1000])))
            events.append(make_event(name, at + 5, took_ms * 1e3, **shape))
        path = write_trace(events)
        write_accounts(steps, "module:function", 1, path.parent / RESOURCE_FILE)
        return attribute_by(rules, path, ceilings, STEP_MS)

    return attribute


def test_a_step_that_mostly_maps_pages_is_not_the_hardwares(judged: Callable[..., Attribution]) -> None:
    """A product of 20 ms at the ceiling, by an account that knows better."""
    said, before = (judged(accounted(15.0, 4000), 19.9, rules=rules) for rules in (15, 14))
    assert (said.bottleneck, said.bound, said.layer) == (Category.COMPUTE, Bound.SOFTWARE, Layer.FRAMEWORK)
    assert "memory mapped that each step asks for anew" in said.sentence
    assert said.gain_if_removed.low < 4 < said.gain_if_removed.high
    assert "MALLOC_MMAP_THRESHOLD_" in said.next_step
    assert any(
        line.startswith("75% of a step without the profiler is the system's, in 4,000 pages") for line in said.evidence
    )
    assert before.bound is Bound.HARDWARE
    assert not any("pages" in line for line in before.evidence)


@pytest.mark.parametrize("system_ms", [0.0, 1.0, 4.0])
def test_a_few_pages_change_no_verdict(judged: Callable[..., Attribution], system_ms: float) -> None:
    assert judged(accounted(system_ms, 4000), 19.9).bound is Bound.HARDWARE


def test_what_gains_more_is_named_first(judged: Callable[..., Attribution]) -> None:
    """Nothing but 18 ms before the first operator, of which the pages of some table are a third."""
    said = judged(accounted(6.0, 4000), 0.5, "aten::tanh", [64])
    assert "memory mapped" not in said.sentence
    assert any("pages that it maps" in line for line in said.evidence)
