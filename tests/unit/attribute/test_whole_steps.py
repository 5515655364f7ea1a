"""Hardware-bound is said of whole steps: what code could leave out around good kernels, or in pieces of one, counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attributed import attribute_by
from lynxbench.attribute.read.operator_names import is_many_passes
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.layers import Layer

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]
Kernels = list[tuple[str, float]]
Judge = Callable[..., Attribution]
COUNT = 6


@pytest.fixture
def judge(write_trace: Write, make_event: Make, ceilings: tuple[Ceiling, ...]) -> Judge:
    """Steps of operators, each with a wait for the device behind it where asked, and pauses of the host around."""

    def judged(
        *operators: tuple[str, dict[str, Any], Kernels],
        waits_ms: float = 0.0,
        before_ms: float = 0.0,
        after_ms: float = 0.0,
        slower_under_profiler: float = 1.0,
        rules: int = 6,
    ) -> Attribution:
        events, number, bare_ms, at = [], 0, 0.0, 0.0
        for step in range(COUNT):
            began, bare_ms = at, 0.0
            at += before_ms * 1e3 * slower_under_profiler
            for name, args, kernels in operators:
                number += 1
                outer = {"External id": number}
                took = sum(ms for _, ms in kernels)
                events.append(make_event(name, at, 6.0 * len(kernels), **args, **outer))
                device = at + 6.0 * len(kernels)
                for place, (kernel, ms) in enumerate(kernels):
                    number += 1
                    launched = {"cat": "cuda_runtime", "correlation": number, **outer}
                    ran = {"cat": "kernel", "tid": 7, "stream": 7, "correlation": number, **outer}
                    events.append(make_event("cudaLaunchKernel", at + 6.0 * place + 1, 4.0, **launched))
                    events.append(make_event(kernel, device, ms * 1e3, **ran))
                    device += ms * 1e3
                at = device
                if waits_ms:
                    events.append(make_event("cudaStreamSynchronize", at - 1, waits_ms * 1e3 + 1, cat="cuda_runtime"))
                    at += waits_ms * 1e3
                bare_ms += took + waits_ms
            at += after_ms * 1e3
            bare_ms += before_ms + after_ms
            events.append(make_event(f"step#{step}", began, at - began, cat="user_annotation"))
            at += 5.0
        return attribute_by(rules, write_trace(events), ceilings, bare_ms)

    return judged


def product(make_operands: Make) -> dict[str, Any]:
    """1e9 operations on 100e9 a second: 10 ms at the least."""
    return make_operands((500, 1000), (1000, 1000))


def test_waits_around_good_kernels_are_not_the_hardwares(judge: Judge, make_operands: Make) -> None:
    """Sixteen products at their ceiling, a wait nearly as long behind each: without the waits 1.9 times as fast."""
    layers = [("aten::mm", product(make_operands), [("gemm", 10.2)]) for _ in range(4)]
    said = judge(*layers, waits_ms=9.0)
    assert (said.bound, said.bottleneck) == (Bound.SOFTWARE, Category.SYNCHRONIZATION)
    assert said.weak, "the kernels take more of it"
    assert said.gain_if_removed.low <= 19.2 / 10.2 <= said.gain_if_removed.high
    assert judge(*layers, waits_ms=9.0, rules=5).bound is Bound.HARDWARE, (
        "earlier results are recomputed by their rules"
    )
    assert judge(*layers, waits_ms=1.0).bound is Bound.HARDWARE, "a tenth is not worth a word so strong"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    reached=st.floats(0.2, 1.0),
    waits=st.floats(0.0, 2.0),
    before=st.floats(0.0, 2.0),
    after=st.floats(0.0, 2.0),
    pieces=st.integers(1, 4),
)
def test_nothing_that_waits_or_pauses_lengthen_by_a_third_is_called_hardware_bound(
    judge: Judge, make_operands: Make, reached: float, waits: float, before: float, after: float, pieces: int
) -> None:
    """The truth is known: the same step with kernels at their ceiling, and nothing around them."""
    took = 10.0 / reached
    kernels = [("gemm", took / pieces)] * pieces
    said = judge(
        ("aten::mm", product(make_operands), kernels),
        waits_ms=waits * took, before_ms=before * took, after_ms=after * took,
    )  # fmt: skip
    best = took * min(1.0, reached / 0.75)
    gain = took * (1.0 + waits + before + after) / best
    if said.bound is Bound.HARDWARE:
        assert gain <= 1.3 * 1.05, "1.3, and the gaps between events that were written by hand"
        assert said.gain_if_removed.high >= 1.0


def test_the_work_of_an_operator_is_held_against_all_pieces_of_its_kernel(judge: Judge, make_operands: Make) -> None:
    """An optimiser's call on a hundred tensors: one kernel, launched for so many at a time."""
    moved = make_operands((20_000_000,), (20_000_000,))  # 240 MB: 12 ms
    said = judge(("aten::add", moved, [("multi_tensor_apply", 2.6)] * 5))
    assert (said.bottleneck, said.bound) == (Category.MEMORY_BANDWIDTH, Bound.HARDWARE)
    assert judge(("aten::add", moved, [("multi_tensor_apply", 2.6)] * 5), rules=5).bound is Bound.UNDETERMINED
    slow = judge(("aten::add", moved, [("multi_tensor_apply", 12.0)] * 5))
    assert slow.bound is Bound.SOFTWARE, "60 ms for what takes 12"
    others = [("multi_tensor_apply", 12.5), ("somebodys", 4.0), ("anothers", 4.0)]
    assert judge(("aten::add", moved, others)).bound is Bound.UNDETERMINED, "nobody knows what those are for"


@pytest.mark.parametrize("name", ["aten::sort", "aten::topk", "aten::_unique2", "aten::_fft_r2c", "aten::median"])
def test_operators_of_many_passes_are_not_judged_by_the_size_of_their_operands(
    judge: Judge, make_operands: Make, name: str
) -> None:
    assert is_many_passes(name)
    said = judge((name, make_operands((20_000_000,)), [("radix_sort", 40.0)] * 4))
    assert said.bound is Bound.UNDETERMINED
    assert not is_many_passes("aten::mm")


def test_a_pause_at_the_end_of_a_step_is_not_the_next_ones_input(judge: Judge, make_operands: Make) -> None:
    layer = ("aten::mm", product(make_operands), [("gemm", 10.2)])
    said = judge(layer, after_ms=30.0)
    assert (said.bottleneck, said.layer) == (Category.IDLE, Layer.APPLICATION)
    assert said.gain_if_removed.low <= 40.2 / 10.2 <= said.gain_if_removed.high
    rewritten = judge(layer, after_ms=30.0, rules=15).gain_if_removed
    assert rewritten.low <= 40.2 / (10.2 + 15.0), "what the host does may be done quicker, and not be left out"
    assert rewritten.high == judge(layer, after_ms=30.0, rules=14).gain_if_removed.high
    assert judge(layer, after_ms=30.0, rules=5).bottleneck is Category.INPUT
    assert judge(layer, before_ms=30.0).bottleneck is Category.INPUT, "before the first kernel it is"


def test_kernels_keep_the_time_that_the_device_gave_them(judge: Judge, make_operands: Make) -> None:
    """Input that the profiler made twice as slow: the kernels behind it did not get faster with it."""
    layer = ("aten::mm", product(make_operands), [("gemm", 10.2)])
    said = judge(layer, before_ms=100.0, slower_under_profiler=2.0)
    assert said.bottleneck is Category.INPUT
    assert said.gain_if_removed.estimate == pytest.approx(110.2 / 10.2, rel=0.05)
    earlier = judge(layer, before_ms=100.0, slower_under_profiler=2.0, rules=5)
    assert earlier.gain_if_removed.estimate > 1.5 * 110.2 / 10.2, "half of the kernels' time was taken from them"


def test_a_chain_that_makes_a_products_operand_may_be_run_once(judge: Judge, make_operands: Make) -> None:
    """Weights widened at every step, 400 MB each time, for one row."""
    wide = make_operands((10_000, 10_000))
    passes = [("aten::mul", wide, [("elementwise", 40.0)]), ("aten::add", wide, [("elementwise", 40.0)])]
    said = judge(*passes, ("aten::mm", make_operands((1, 10_000), (10_000, 10_000)), [("gemv", 22.0)]))
    assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.RUNTIME)
    assert said.gain_if_removed.low <= 102.0 / 62.0 <= said.gain_if_removed.high, "one pass instead of two"
    assert said.gain_if_removed.high >= 102.0 / 22.0, "or none at all"
