from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.tile.steps import find_period, find_steps, is_input

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


def test_annotated_steps_and_the_first_dropped(write_trace: Write, make_event: Make) -> None:
    events = [make_event(f"step#{i}", 100.0 * i, 90.0, cat="user_annotation") for i in range(4)]
    steps = find_steps(read_trace(write_trace([*events, make_event("aten::add", 5.0, 1.0)])))
    assert steps.start_ns.tolist() == [100_000, 200_000, 300_000]
    assert steps.end_ns.tolist() == [190_000, 290_000, 390_000]
    assert steps.annotated


def test_two_steps_are_both_kept(write_trace: Write, make_event: Make) -> None:
    events = [make_event(f"ProfilerStep#{i}", 100.0 * i, 90.0, cat="user_annotation") for i in range(2)]
    assert len(find_steps(read_trace(write_trace(events)))) == 2


def test_nested_families_count_once(write_trace: Write, make_event: Make) -> None:
    events = [make_event(f"ProfilerStep#{i}", 100.0 * i, 100.0, cat="user_annotation") for i in range(5)]
    events += [make_event(f"step#{i}", 100.0 * i + 5, 80.0, cat="user_annotation") for i in range(5)]
    assert len(find_steps(read_trace(write_trace(events)))) == 4


def test_a_loader_between_steps_belongs_to_the_next(write_trace: Write, make_event: Make) -> None:
    events = []
    for i in range(4):
        events.append(make_event(f"step#{i}", 100.0 * i + 60, 40.0, cat="user_annotation"))
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        events.append(make_event(name, 100.0 * i + 10, 45.0, cat="user_annotation"))
    steps = find_steps(read_trace(write_trace(events)))
    assert (steps.end_ns - steps.start_ns).tolist() == [100_000, 100_000, 100_000]


def test_without_marks_the_repeating_run_is_found(write_trace: Write, make_event: Make) -> None:
    events, at = [], 0.0
    for _ in range(6):
        for name in ("aten::embedding", *("aten::mm", "aten::add") * 4, "aten::argmax"):
            events.append(make_event(name, at, 8.0))
            at += 10.0
    steps = find_steps(read_trace(write_trace(events)))
    assert not steps.annotated
    assert len(steps) == 5
    assert set((steps.end_ns - steps.start_ns)[:-1].tolist()) == {100_000}


def test_a_trace_without_repetition_is_one_step(write_trace: Write, make_event: Make) -> None:
    events = [make_event(f"aten::op{i}", 10.0 * i, 5.0) for i in range(7)]
    steps = find_steps(read_trace(write_trace(events)))
    assert len(steps) == 1
    assert int(steps.end_ns[0] - steps.start_ns[0]) == 65_000


def test_a_period_of_a_layer_is_not_the_step() -> None:
    step = [0] + [1, 2, 3] * 90 + [4]
    assert find_period(np.array(step * 4, dtype=np.int64)) == len(step)
    assert find_period(np.arange(50)) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("input", True),
        ("prepare_input", True),
        ("dataloader", True),
        ("data loading", True),
        ("Tokenize prompt", True),
        ("preprocess", True),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", True),
        ("forward", False),
        ("Optimizer.step#SGD.step", False),
        ("inputless", False),
        ("step#3", False),
    ],
)
def test_input_ranges_by_name(name: str, expected: bool) -> None:
    assert is_input(name) is expected
