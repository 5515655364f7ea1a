"""Tables of few numbers, work that is the same in each step, slices that are copied: judged from what was followed."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from attributed import attribute_by
from launched_operators import Judge, Launched, dense, flow, launched_steps
from lynxbench.attribute.read.dataflow import FLOW_KEY, Dataflow
from lynxbench.model.attribution import Attribution, Bound, Ceiling
from lynxbench.model.layers import Layer

PRODUCT: Launched = ("aten::mm", [dense(1000, 1000), dense(1000, 1000)], 21.0)
"""2 GFLOP at 100 GFLOP/s: near the ceiling."""
TABLE: Launched = ("aten::mm", [dense(1000, 2000), dense(2000, 1000)], 42.0)
FACTORISED: Launched = ("aten::linalg_cholesky_ex", [dense(3000, 3000)], 60.0)
PICKED: Launched = ("aten::index", [dense(1000, 20_000)], 5.0)
"""Half of the places: 40 MB are read and as many written, at 16 GB/s."""
ADDED: Launched = ("aten::add", [dense(1000, 10_000), dense(1000, 10_000)], 7.0)
"""Passes over what is picked: 120 MB at 17 GB/s."""


def test_a_product_with_a_table_of_few_numbers_is_the_applications(followed: Judge) -> None:
    flows = [flow(TABLE, 1, structured=1, factored=1, few=0.0003)]
    found = followed([TABLE], *flows)
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert "tables that the step wrote out from far fewer numbers" in found.sentence
    assert "in turn" in found.next_step
    assert any("made of far fewer numbers than they have elements" in line for line in found.evidence)
    assert found.gain_if_removed.estimate > 5.0
    before = followed([TABLE], *flows, rules=12)
    assert before.bound is Bound.HARDWARE, "earlier results are recomputed by their rules"
    assert not any("far fewer" in line for line in before.evidence)


def test_the_other_operand_and_the_result_are_moved_however_it_is_done(followed: Judge) -> None:
    """Two stages of [100, 4000]: 2 × 3.2 MB at 20 GB/s, of a product that takes 32 ms in arithmetic."""
    wide: Launched = ("aten::mm", [dense(100, 4000), dense(4000, 4000)], 40.0)
    found = followed([wide], flow(wide, 1, structured=1, factored=1, few=1e-9))
    moved_ms = 2 * 3.2e6 / (20e9 * 0.75) * 1e3
    assert found.gain_if_removed.estimate == pytest.approx(40.0 / moved_ms, rel=0.05)


def test_a_kronecker_product_takes_the_operations_of_its_factors(followed: Judge) -> None:
    """Of two 64 × 64: 2 · 4096 numbers for 4096² elements, and 128 operations for each of 4096."""
    side = 4096
    square: Launched = ("aten::mm", [dense(side, side), dense(side, side)], 2.0 * side**3 / 95e9 * 1e3)
    found = followed([square], flow(square, 1, structured=1, factored=1, few=2 / side))
    share = 2 / math.sqrt(side)
    assert found.gain_if_removed.estimate == pytest.approx(1 / share, rel=0.2)
    assert found.gain_if_removed.low <= 1 / share <= found.gain_if_removed.high


def test_where_no_cheaper_order_is_known_nobody_is_blamed_and_the_cause_is_named(followed: Judge) -> None:
    found = followed([TABLE], flow(TABLE, 1, structured=1, few=0.001))
    assert (found.bound, found.layer) == (Bound.UNDETERMINED, None)
    assert "far fewer numbers" in found.sentence
    assert found.candidates[0].layer is Layer.APPLICATION
    assert "in turn" in found.next_step
    assert any("no cheaper order is known for sure" in line for line in found.evidence)
    assert found.gain_if_removed.low == 1.0
    assert found.gain_if_removed.high > 1.3


def test_a_doubt_names_what_may_save_most(followed: Judge) -> None:
    """A little that is surely the same in each step, beside a table of which nobody knows a cheaper order."""
    little: Launched = ("aten::add", [dense(100, 1000), dense(100, 1000)], 0.1)
    flows = flow(TABLE, 1, structured=1, few=0.001), flow(little, 1, constant=1)
    found, before = followed([TABLE, little], *flows), followed([TABLE, little], *flows, rules=14)
    assert (found.bound, before.bound) == (Bound.UNDETERMINED, Bound.UNDETERMINED)
    assert "far fewer numbers" in found.sentence
    assert "the same in each step" in before.sentence
    assert found.gain_if_removed == before.gain_if_removed


def test_a_table_that_takes_little_of_a_step_leaves_it_the_hardwares(followed: Judge) -> None:
    found = followed([PRODUCT] * 12 + [TABLE], flow(TABLE, 1, structured=1, factored=1, few=0.001))
    assert found.bound is Bound.HARDWARE


def test_what_is_the_same_in_each_step_is_the_applications(followed: Judge) -> None:
    flows = [flow(FACTORISED, 1, constant=1)]
    found = followed([FACTORISED, PRODUCT], *flows)
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert "what is the same in each step" in found.sentence
    assert "keep it" in found.next_step
    assert found.gain_if_removed.low <= 81.0 / 21.0 <= found.gain_if_removed.high
    assert "same in each step" not in followed([FACTORISED, PRODUCT], *flows, rules=12).sentence


def test_a_step_whose_inputs_stand_still_is_measured_and_not_blamed(followed: Judge) -> None:
    found = followed([PRODUCT] * 4, flow(PRODUCT, 4, constant=4))
    assert found.bound is Bound.HARDWARE


def test_a_number_that_differs_makes_no_input_of_a_step(
    make_event: Callable[..., dict[str, Any]], write_trace: Callable[..., Path], ceilings: tuple[Ceiling, ...]
) -> None:
    """19 of 20 parts are the same: a cause where products see what differs, and else a measurement on one input."""
    events, step_ms = launched_steps(make_event, [FACTORISED] * 6 + [PRODUCT])
    bounds = []
    for anew in (True, False):
        seen = msgspec.to_builtins(Dataflow(2, (flow(FACTORISED, 6, constant=6),), multiplies_anew=anew))
        bounds.append(attribute_by(13, write_trace(events, **{FLOW_KEY: seen}), ceilings, step_ms).sentence)
    assert ["same in each step" in sentence for sentence in bounds] == [True, False]


def test_little_that_is_the_same_is_no_cause(followed: Judge) -> None:
    found = followed([PRODUCT] * 8, flow(PRODUCT, 8, constant=1))
    assert found.bound is Bound.HARDWARE


def test_copies_that_a_slice_would_spare_are_the_applications(followed: Judge) -> None:
    flows = [flow(PICKED, 2, sliced=2, moved=80_000_000)]
    found = followed([PICKED, PICKED, ADDED], *flows)
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert "slice" in found.sentence
    assert found.gain_if_removed.low <= 17.0 / 7.0 <= found.gain_if_removed.high


def test_what_a_gather_moves_is_known_where_values_were_followed(followed: Judge) -> None:
    known = followed([PICKED], flow(PICKED, 1, moved=80_000_000))
    assert known.bound is Bound.HARDWARE
    unknown = followed([PICKED])
    assert unknown.bound is Bound.UNDETERMINED
    assert "shapes or ceilings are missing" in unknown.sentence


def test_where_the_least_work_is_not_known_the_gain_is_not_said_to_be_none(followed: Judge) -> None:
    found, before = (followed([PICKED], rules=rules) for rules in (13, 12))
    assert (found.gain_if_removed.low, found.gain_if_removed.estimate) == (1.0, 1.0)
    assert found.gain_if_removed.high > 10.0
    assert before.gain_if_removed.high == 1.0


def test_running_sums_write_what_they_read(followed: Judge) -> None:
    """80 MB read and 80 MB written at 19 GB/s; with room given for the result, the same."""
    alone: Launched = ("aten::cumsum", [dense(20_000_000)], 8.4)
    given: Launched = ("aten::cumsum", [dense(20_000_000), dense(20_000_000)], 8.4)
    assert followed([alone]).bound is followed([given]).bound is Bound.HARDWARE
    assert followed([alone], rules=12).bound is not Bound.HARDWARE


# --- where values were not followed -----------------------------------------------------------------------------------

KRON: Launched = ("aten::mul", [dense(20, 1, 50, 1), dense(1, 50, 1, 40)], 1.0)
TILED: Launched = ("aten::copy_", [dense(2000, 1000), ((2000, 1000), (0, 1))], 1.0)
CAST: Launched = ("aten::copy_", [dense(2000, 1000), dense(2000, 1000)], 1.0)
SHIFTED: Launched = ("aten::add", [dense(2000, 1000), dense(1000)], 1.0)
EXPONENTIAL: Launched = ("aten::exp", [dense(20, 50, 50, 40)], 1.0)
OUTER: Launched = ("aten::mul", [dense(16, 1), dense(1, 16)], 0.01)
THIN: Launched = ("aten::mm", [dense(400_000, 16), dense(16, 16)], 3.0)
"""51 MB at 17 GB/s."""
OF_SOMEBODY: Launched = ("somebodys::kernel", [], 0.5)


@pytest.mark.parametrize("operators", [[KRON, TABLE], [TILED, TABLE], [KRON, CAST, TABLE]])
def test_sizes_raise_a_doubt_where_values_were_not_followed(
    judge: Callable[..., Attribution], operators: list[Launched]
) -> None:
    found, before = judge(*operators, rules=13), judge(*operators, rules=12)
    assert before.bound is Bound.HARDWARE
    assert found.bound is Bound.UNDETERMINED
    assert "far fewer numbers" in found.sentence
    assert found.gain_if_removed.high > 1.3


@pytest.mark.parametrize(
    "operators",
    [
        pytest.param([CAST, TABLE], id="cast"),
        pytest.param([SHIFTED, TABLE], id="as many numbers as elements"),
        pytest.param([KRON, EXPONENTIAL, TABLE], id="a function of it is multiplied"),
        pytest.param([TABLE, KRON], id="multiplied before it was made"),
        pytest.param([KRON, OF_SOMEBODY, TABLE], id="somebody may read or write it"),
        pytest.param([KRON, PRODUCT], id="of another size"),
        pytest.param([OUTER, THIN], id="what else the product reads takes as long"),
    ],
)
def test_sizes_raise_none_where_it_may_be_something_else(
    judge: Callable[..., Attribution], operators: list[Launched]
) -> None:
    assert judge(*operators, rules=13).bound is Bound.HARDWARE


# --- calls in which the host waits between parts ----------------------------------------------------------------------

PARTS, KERNEL_US, DISPATCH_US, READ_US = 12, 500.0, 20.0, 60.0


def swept_steps(make_event: Callable[..., dict[str, Any]], freed_us: float, *, read: bool) -> list[dict[str, Any]]:
    """Steps of parts of one kernel each: behind each its value is read, and its memory given back to the driver."""
    events, number, at = [], 0, 0.0
    for step in range(5):
        began = device = at
        for _ in range(PARTS):
            number += 1
            device = max(device, at + DISPATCH_US)
            events += [
                make_event("aten::convolution", at, DISPATCH_US),
                make_event("cudaLaunchKernel", at + 5, 5.0, cat="cuda_runtime", correlation=number),
                make_event("some_kernel", device, KERNEL_US, cat="kernel", tid=7, stream=7, correlation=number),
            ]
            at += DISPATCH_US
            device += KERNEL_US
            if read:
                events.append(make_event("cudaStreamSynchronize", at, device + READ_US - at, cat="cuda_runtime"))
                at = device + READ_US
            if freed_us:
                events.append(make_event("cudaFree", at, max(device, at) + freed_us / 2 - at, cat="cuda_runtime"))
                at = max(device, at) + freed_us / 2
                events.append(make_event("cudaMalloc", at, freed_us / 2, cat="cuda_runtime"))
                at += freed_us / 2
        events.append(make_event("cudaDeviceSynchronize", at, max(device - at, 0.0) + 10.0, cat="cuda_runtime"))
        at = max(device, at) + 10.0
        events.append(make_event(f"step#{step}", began, at - began, cat="user_annotation"))
    return events


@pytest.mark.parametrize(("freed_us", "read"), [(160.0, True), (220.0, False)])
def test_memory_given_back_and_values_read_between_parts_are_named(
    make_event: Callable[..., dict[str, Any]],
    write_trace: Callable[..., Path],
    ceilings: tuple[Ceiling, ...],
    freed_us: float,
    read: bool,
) -> None:
    events = swept_steps(make_event, freed_us, read=read)
    each_us = KERNEL_US + DISPATCH_US + freed_us + (READ_US if read else 0.0)
    step_ms = (PARTS * each_us + 10.0) / 1e3
    found, before = (attribute_by(rules, write_trace(events), ceilings, step_ms) for rules in (13, 12))
    assert before.bound is Bound.UNDETERMINED
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.FRAMEWORK)
    assert "allocating and freeing memory takes" in found.sentence
    assert "empty the cache" in found.next_step
    assert ("reads of device values" in found.next_step) is read
    assert found.gain_if_removed.low <= each_us / KERNEL_US <= found.gain_if_removed.high


def test_parts_that_nothing_holds_up_blame_no_waits(
    make_event: Callable[..., dict[str, Any]], write_trace: Callable[..., Path], ceilings: tuple[Ceiling, ...]
) -> None:
    step_ms = (DISPATCH_US + PARTS * KERNEL_US + 10.0) / 1e3
    found = attribute_by(13, write_trace(swept_steps(make_event, 0.0, read=False)), ceilings, step_ms)
    assert found.bound is Bound.UNDETERMINED


MAKER: Launched = ("aten::mm", [dense(2000, 50), dense(50, 1000)], 30.0)
"""As large as a factor of the product behind it."""


def test_whoever_leaves_a_table_out_need_not_make_it(followed: Judge) -> None:
    flows = [flow(TABLE, 1, structured=1, factored=1, few=0.1), flow(MAKER, 1)]
    found, before = (followed([MAKER, TABLE], *flows, rules=rules).gain_if_removed for rules in (15, 14))
    assert found.estimate == pytest.approx(before.estimate, rel=0.05), "its results may be somebody else's"
    assert before.high < 72.0 / (0.1 * 42.0 + 0.1) <= found.high


def test_zeros_here_and_there_take_nothing_from_what_a_table_costs(followed: Judge) -> None:
    """No dense product leaves them out; one that leaves the table out does."""
    highs = [
        followed([TABLE], flow(TABLE, 1, structured=1, factored=1, few=0.05, nonzero=nonzero)).gain_if_removed.high
        for nonzero in (1.0, 0.6)
    ]
    assert highs[0] == highs[1]
