"""Kernels inside an operator that carry no operands: layouts made anew, calls cut into several, work nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import attribute_by
from lynxbench.attribute.read.operator_names import is_layout
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.layers import Layer

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]
Kernels = list[tuple[str, float]]
"""Names and milliseconds; the longest is the one that the operator's operands are held against."""
COMPUTES = "sm90_xmma_fprop_implicit_gemm"


@pytest.fixture
def attribute(write_trace: Write, make_event: Make, ceilings: tuple[Ceiling, ...]) -> Callable[..., Attribution]:
    """Five steps of operators with several kernels each, the host far ahead."""

    def judged(*operators: tuple[str, dict[str, Any], Kernels], rules: int = 5, made_ms: float = 0.0) -> Attribution:
        events, number = [], 0
        whole_us = sum(ms for _, _, kernels in operators for _, ms in kernels) * 1e3 + made_ms * 1e3
        for step in range(5):
            at = step * (whole_us + 100.0)
            events.append(make_event(f"step#{step}", at, whole_us + 90.0, cat="user_annotation"))
            if made_ms:
                events.append(make_event("aten::normal_", at + 1, made_ms * 1e3))
                at += made_ms * 1e3 + 2
            device = at + 20.0
            for name, args, kernels in operators:
                number += 1
                outer = {"External id": number}
                events.append(make_event(name, at, 6.0 * len(kernels), **args, **outer))
                for place, (kernel, ms) in enumerate(kernels):
                    number += 1
                    launched = {"cat": "cuda_runtime", "correlation": number, **outer}
                    ran = {"cat": "kernel", "tid": 7, "stream": 7, "correlation": number, **outer}
                    events.append(make_event("cudaLaunchKernel", at + 6.0 * place + 1, 4.0, **launched))
                    events.append(make_event(kernel, device, ms * 1e3, **ran))
                    device += ms * 1e3
                at += 6.0 * len(kernels) + 2
        return attribute_by(rules, write_trace(events), ceilings, whole_us / 1e3)

    return judged


def product(make_operands: Make) -> dict[str, Any]:
    """1e9 operations on 100e9 a second: 10 ms at the least."""
    return make_operands((500, 1000), (1000, 1000))


@pytest.mark.parametrize(
    "layout",
    [
        "void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16>",
        "void cudnn::ops::nhwc_to_nchw_kernel<float>",
        "void at::native::im2col_kernel<float>",
    ],
)
def test_operands_laid_out_anew_are_the_softwares(
    make_operands: Make, attribute: Callable[..., Attribution], layout: str
) -> None:
    """The product is at its ceiling for 10.5 of 17.5 ms: the rest would not be there in another layout."""
    kernels = [(layout, 3.5), (COMPUTES, 10.5), (layout, 3.5)]
    said = attribute(("aten::mm", product(make_operands), kernels))
    assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert "channels_last" in said.next_step
    assert said.gain_if_removed.low <= 17.5 / 10.5 <= said.gain_if_removed.high
    few = attribute(("aten::mm", product(make_operands), [(layout, 0.3), (COMPUTES, 10.5)]))
    assert few.bound is Bound.HARDWARE, "a little of it is not the bottleneck"


def test_kernels_of_unknown_work_forbid_the_word_hardware(
    make_operands: Make, attribute: Callable[..., Attribution]
) -> None:
    kernels = [("somebodys_kernel", 3.0), (COMPUTES, 10.5), ("another_one", 3.0)]
    said = attribute(("aten::mm", product(make_operands), kernels))
    assert said.bound is Bound.UNDETERMINED
    assert "work is not known" in said.sentence
    assert said.gain_if_removed.high >= 16.5 / 10.5 - 0.02, "all of it may be needless"
    earlier = attribute(("aten::mm", product(make_operands), kernels), rules=4)
    assert earlier.bound is Bound.HARDWARE, "results of earlier editions are recomputed by theirs"


def test_an_operator_cut_into_two_kernels_does_not_break_a_chain(
    make_operands: Make, attribute: Callable[..., Attribution]
) -> None:
    """Attention written out, one of its casts in two kernels: scores of 2·10⁷ numbers, 80 MB."""
    scores = make_operands((20, 1000, 1000))
    first, last = make_operands((20, 1000, 16), (20, 16, 1000)), make_operands((20, 1000, 1000), (20, 1000, 16))
    written = (
        ("aten::bmm", first, [("gemm_one", 10.0)]),
        ("aten::mul", scores, [("elementwise_mul", 9.0)]),
        ("aten::copy_", make_operands((20, 1000, 1000), (20, 1000, 1000)), [("copy_a", 4.5), ("copy_b", 4.4)]),
        ("aten::_softmax", scores, [("softmax_kernel", 15.0)]),
        ("aten::bmm", last, [("gemm_two", 10.0)]),
    )
    said = attribute(*written)
    assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.RUNTIME)
    assert "fused attention" in said.next_step
    assert said.gain_if_removed.estimate > attribute(*written, rules=4).gain_if_removed.estimate
    assert said.gain_if_removed.low <= 52.9 / (2 * 6.4 / 0.6) <= said.gain_if_removed.high


def test_input_that_is_made_on_the_host_may_take_its_pauses_along(
    make_operands: Make, attribute: Callable[..., Attribution]
) -> None:
    said = attribute(("aten::mm", make_operands((50, 100), (100, 100)), [(COMPUTES, 0.05)]), made_ms=40.0)
    assert said.bottleneck is Category.INPUT
    assert said.gain_if_removed.high >= 40.05 / 0.05 * 0.5, "the kernels are the least that is left"


@pytest.mark.parametrize("kernel", ["sm90_xmma_fprop_implicit_gemm_nhwckrsc_nhwc", "elementwise_kernel", "nvjet_sm90"])
def test_a_kernel_that_computes_is_no_change_of_layout(kernel: str) -> None:
    assert not is_layout(kernel)
