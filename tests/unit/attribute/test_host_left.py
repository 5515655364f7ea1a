"""What a fix leaves of a step on a CPU, on traces written by hand whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import attribute_by
from lynxbench.attribute.judge.fix_left import LEAST_DISPATCH_NS
from lynxbench.attribute.judge.gain_range import predict_range
from lynxbench.attribute.judge.host_left import HostParts
from lynxbench.attribute.judge.time_book import COMPILED_OPERATOR_NS
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.layers import Layer

Event = dict[str, Any]
Make = Callable[..., Event]
Judge = Callable[..., Attribution]
STEPS = 5


@pytest.fixture
def attribute(write_trace: Callable[..., Path], ceilings: tuple[Ceiling, ...]) -> Judge:
    def judged(events: list[Event], step_ms: float, rules: int = 8) -> Attribution:
        return attribute_by(rules, write_trace(events), ceilings, step_ms)

    return judged


def steps(make_event: Make, each_us: float, work: list[tuple[str, float, float, Event]]) -> list[Event]:
    """Steps of so long, each with these operators: name, begin, how long, operands."""
    events = []
    for step in range(STEPS):
        at = step * (each_us + 10.0)
        events.append(make_event(f"step#{step}", at, each_us, cat="user_annotation"))
        events += [make_event(name, at + begin, dur, **operands) for name, begin, dur, operands in work]
    return events


def test_calls_that_are_alike_may_become_one(make_event: Make, make_operands: Make, attribute: Judge) -> None:
    """200 calls on 64 numbers each, 4 µs apart: compiled they still are 200, made one they are a start."""
    work = [("aten::tanh", 4.0 * number, 3.0, make_operands([64])) for number in range(200)]
    said, before = (attribute(steps(make_event, 800.0, work), 0.8, rules) for rules in (8, 7))
    assert (said.bottleneck, said.bound) == (Category.LAUNCH, Bound.SOFTWARE)
    assert said.gain_if_removed.high == pytest.approx(800 / (4 + 5), rel=0.1)
    assert said.gain_if_removed.low <= before.gain_if_removed.low
    assert before.gain_if_removed.high < 10
    assert any("at the most, calls that are alike made one" in line for line in said.evidence)
    assert any("the step replayed as a graph" in line for line in before.evidence), "earlier editions keep their words"
    assert "alike" in said.next_step
    assert any("of functions that no rule had met, 14 of 26 gains lay in their range" in line for line in said.evidence)


def test_memory_that_each_of_them_asks_for_goes_with_them(
    make_event: Make, make_operands: Make, attribute: Judge
) -> None:
    """200 calls of 3 µs on 64 numbers, and as many of 1 µs that ask for room: one asks once."""
    work = [("aten::tanh", 5.0 * number, 3.0, make_operands([64])) for number in range(200)]
    work += [("aten::empty", 5.0 * number + 3.0, 1.0, make_operands()) for number in range(200)]
    said, before = (attribute(steps(make_event, 1000.0, work), 1.0, rules) for rules in (15, 14))
    assert (said.bottleneck, said.shares[Category.ALLOCATOR]) == (Category.LAUNCH, pytest.approx(0.2, abs=0.05))
    assert said.gain_if_removed.high > 50
    assert before.gain_if_removed.high < 10
    assert said.gain_if_removed.estimate == pytest.approx(before.gain_if_removed.estimate, rel=0.01)


def test_code_between_operators_may_go_with_the_making_of_input(
    make_event: Make, make_operands: Make, attribute: Judge
) -> None:
    """6 ms before the first operator of 10, and 3 between two: ready before the step is the one, or both."""
    work = [("aten::tanh", 6000.0, 500.0, make_operands([64])), ("aten::tanh", 9500.0, 500.0, make_operands([64]))]
    said, before = (attribute(steps(make_event, 10_000.0, work), 10.0, rules) for rules in (15, 14))
    assert (said.bottleneck, said.layer) == (Category.INPUT, Layer.APPLICATION)
    assert said.gain_if_removed.high >= 10 / 1.1
    assert before.gain_if_removed.high < 10 / 1.1
    assert said.gain_if_removed.low == pytest.approx(before.gain_if_removed.low)


def test_calls_of_many_kinds_do_not(make_event: Make, make_operands: Make, attribute: Judge) -> None:
    work = [("aten::tanh", 4.0 * number, 3.0, make_operands([64 + number])) for number in range(200)]
    said, before = (attribute(steps(make_event, 800.0, work), 0.8, rules) for rules in (8, 7))
    assert said.bottleneck is Category.LAUNCH
    assert said.gain_if_removed.high <= before.gain_if_removed.high


def test_merged_calls_still_move_what_no_cache_holds(make_event: Make, make_operands: Make, attribute: Judge) -> None:
    """400 calls on 4096 numbers: 13 MB in all, read and written, take 655 µs of 8 ms: 12 times, and not 320."""
    work = [("aten::tanh", 20.0 * number, 19.0, make_operands([4096])) for number in range(400)]
    said = attribute(steps(make_event, 8000.0, work), 8.0)
    assert said.bottleneck is Category.LAUNCH
    compiled = predict_range(8000 / (400 * COMPILED_OPERATOR_NS / 1e3 + 5), 8)
    assert said.gain_if_removed.high == pytest.approx(max(compiled.high, 8000 / (20 + 655 + 5)), rel=0.05)


def test_what_lies_between_operators_may_go_with_those_that_are_removed(
    make_event: Make, make_operands: Make, attribute: Judge
) -> None:
    """6 ms of a copy, 2 ms in which its buffer is given back, 1 ms of a product: usually 3 times, at the most 9."""
    copied = make_operands([2048, 2048], [2048, 2048])
    work = [
        ("aten::copy_", 0.0, 6000.0, copied),
        ("aten::mm", 8000.0, 1000.0, make_operands([360, 360], [360, 360])),
    ]
    said, before = (attribute(steps(make_event, 9000.0, work), 9.0, rules) for rules in (8, 7))
    assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert said.gain_if_removed.estimate == pytest.approx(3.0, rel=0.05)
    assert said.gain_if_removed.high == pytest.approx(9.0, rel=0.05)
    assert before.gain_if_removed.high < 6


def product(make_operands: Make, took_us: float, dtype: str) -> list[tuple[str, float, float, Event]]:
    """A product of 384³, 1.13 ms at the ceiling of fp32, and a pass of 1 ms over numbers of the same kind."""
    square = [384, 384]
    return [
        ("aten::mm", 0.0, took_us, make_operands(square, square, dtype=dtype)),
        ("aten::clamp_min", took_us, 1000.0, make_operands([1280, 1024], dtype=dtype)),
    ]


def test_products_in_64_bits_are_the_applications_without_a_ceiling_of_their_own(
    make_event: Make, make_operands: Make, attribute: Judge
) -> None:
    events = steps(make_event, 5000.0, product(make_operands, 4000.0, "double"))
    said, before = (attribute(events, 5.0, rules) for rules in (8, 7))
    assert (said.bottleneck, said.bound, said.layer) == (Category.COMPUTE, Bound.SOFTWARE, Layer.APPLICATION)
    left_ms = 1.13 / 0.75 + 0.5
    assert said.gain_if_removed.estimate == pytest.approx(5.0 / left_ms, rel=0.05)
    assert said.gain_if_removed.high >= 5.0 / (1.13 + 0.5)
    assert "wider format" in said.sentence
    assert before.bound is Bound.UNDETERMINED


@pytest.mark.parametrize("dtype", ["long int", "int", "short int"])
def test_products_of_whole_numbers_are_the_applications(
    make_event: Make, make_operands: Make, attribute: Judge, dtype: str
) -> None:
    """A product that floating point takes 1.5 ms for, in 40."""
    events = steps(make_event, 41_500.0, product(make_operands, 40_000.0, dtype))
    said, before = (attribute(events, 41.5, rules) for rules in (15, 14))
    assert (said.bottleneck, said.bound, said.layer) == (Category.COMPUTE, Bound.SOFTWARE, Layer.APPLICATION)
    assert "whole numbers" in said.sentence
    assert "floating point" in said.next_step
    assert said.gain_if_removed.low < 41.5 / 2 < said.gain_if_removed.high
    assert before.bound is Bound.UNDETERMINED


@pytest.mark.parametrize(("took_us", "dtype"), [(1600.0, "double"), (4000.0, "float")])
def test_wide_products_that_are_quick_enough_and_narrow_ones_are_not(
    make_event: Make, make_operands: Make, attribute: Judge, took_us: float, dtype: str
) -> None:
    said = attribute(steps(make_event, took_us + 1000, product(make_operands, took_us, dtype)), took_us / 1e3 + 1)
    assert "wider format" not in said.sentence


def test_whatever_is_removed_an_operator_is_started_in_its_place() -> None:
    parts = HostParts(step_ns=1e6, kernels_ns=1e6, launch_ns=0.0, merged_ns=0.0)
    assert parts.gain_without(1e6) == pytest.approx(1e6 / (1e4 + LEAST_DISPATCH_NS))
    assert parts.gain_without(0.0) == pytest.approx(1.0, abs=0.01)
    assert parts.most_without(5e5) == pytest.approx(2.0)
    assert parts.most_without(2e6) == pytest.approx(100.0)
    assert parts.gain_of_merging == pytest.approx(1.0, abs=0.01)
