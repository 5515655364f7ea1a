"""Steps whose kernels show no operands: held against the least work of their workload, and split by kernel names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.read.operator_names import OperatorKind, kernel_kind
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling, StepWork
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.precision import Precision

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]
READ_PER_S = 4e12
CEILINGS = (
    Ceiling(name="matmul", precision=Precision.BF16, per_s=800e12, unit="operations/s", how="measured"),
    Ceiling(name="copy", precision=None, per_s=3.8e12, unit="bytes/s", how="measured"),
    Ceiling(name="read", precision=None, per_s=READ_PER_S, unit="bytes/s", how="measured"),
)
PRODUCT, SMALL, LONG = "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT", "vectorized_elementwise_kernel<4>", "copy_kernel"


def replayed(write: Write, make: Make, step: list[tuple[str, float, int]], gap_us: float = 0.0) -> tuple[Path, float]:
    """A graph of kernels (name, µs each, how many), replayed five times by one launch; its path and step in ms."""
    length = sum(us * count + gap_us * count for _, us, count in step)
    events = []
    for i in range(5):
        at = i * length
        events.append(make(f"step#{i}", at, length - 1.0, cat="user_annotation"))
        events.append(make("cudaGraphLaunch", at + 0.1, 0.5, cat="cuda_runtime", correlation=i + 1))
        for name, us, count in step:
            for _ in range(count):
                events.append(make(name, at, us, cat="kernel", tid=7, stream=7, correlation=i + 1))
                at += us + gap_us
    return write(events), length / 1e3


def said(path: Path, step_ms: float, work: StepWork | None) -> Attribution:
    return attribute_trace(
        path,
        ceilings=CEILINGS,
        precision=Precision.BF16,
        unprofiled_step_ms=step_ms,
        owner=DEFAULT_OWNERS.__getitem__,
        work=work,
    )


def reading(seconds: float, operations: float = 0.0) -> StepWork:
    return StepWork(seconds * READ_PER_S, operations, "weights once")


def test_products_that_read_the_weights_at_the_ceiling_are_the_hardware(write_trace: Write, make_event: Make) -> None:
    path, step_ms = replayed(write_trace, make_event, [(PRODUCT, 50.0, 80), (SMALL, 2.0, 200)])
    found = said(path, step_ms, reading(3.5e-3))  # of 4.4 ms
    assert (found.bottleneck, found.bound, found.layer) == (
        Category.MEMORY_BANDWIDTH,
        Bound.HARDWARE,
        Layer.ACCELERATOR,
    )
    assert found.gain_if_removed.high == pytest.approx(4.4 / 3.5, rel=0.01)
    assert any("must read 14 GB" in line and "80% of the step" in line for line in found.evidence)


def test_a_step_of_small_kernels_is_software(write_trace: Write, make_event: Make) -> None:
    path, step_ms = replayed(write_trace, make_event, [(PRODUCT, 20.0, 80), (SMALL, 2.0, 1400)])
    found = said(path, step_ms, reading(1.2e-3))  # of 4.4 ms, the small ones 2.8
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.RUNTIME)
    assert "kernels too small to fill the device" in found.sentence
    assert "27% of the step" in found.sentence
    assert found.gain_if_removed.estimate == pytest.approx(4.4 / 1.6, rel=0.02)
    assert "fuse" in found.next_step
    assert any("1400 kernels of 5 µs or less take 2.8 ms" in line for line in found.evidence)


def test_slow_products_are_named_as_such(write_trace: Write, make_event: Make) -> None:
    path, step_ms = replayed(write_trace, make_event, [(PRODUCT, 50.0, 80), (SMALL, 2.0, 100)])
    found = said(path, step_ms, reading(1.0e-3))
    assert found.bound is Bound.SOFTWARE
    assert "far below the ceiling" in found.sentence
    assert "too small" not in found.sentence


def test_other_long_kernels_do_not_pass_for_small_ones(write_trace: Write, make_event: Make) -> None:
    path, step_ms = replayed(write_trace, make_event, [(PRODUCT, 20.0, 80), (LONG, 44.0, 60), (SMALL, 2.0, 200)])
    found = said(path, step_ms, reading(1.2e-3))
    assert found.bound is Bound.SOFTWARE
    assert "too small" not in found.sentence


def test_between_the_two_it_stays_open_and_says_how_near(write_trace: Write, make_event: Make) -> None:
    path, step_ms = replayed(write_trace, make_event, [(PRODUCT, 50.0, 60), (SMALL, 2.0, 700)])
    found = said(path, step_ms, reading(2.2e-3))  # half of 4.4 ms
    assert found.bound is Bound.UNDETERMINED
    assert "would take 50% of it" in found.sentence
    assert found.gain_if_removed.high == pytest.approx(2.0, rel=0.01)


def test_arithmetic_gives_the_floor_where_it_takes_longer(write_trace: Write, make_event: Make) -> None:
    name = "nvjet_sm90_tst_256x128_64x4_2x1_v_bz_TNT"
    path, step_ms = replayed(write_trace, make_event, [(name, 500.0, 8), (SMALL, 2.0, 100)])
    found = said(path, step_ms, reading(0.5e-3, operations=800e12 * 3.6e-3))
    assert (found.bottleneck, found.bound) == (Category.COMPUTE, Bound.HARDWARE)
    assert any("operations at the least" in line and "800 TFLOP/s" in line for line in found.evidence)


def test_without_the_workload_or_its_ceilings_nothing_changes(write_trace: Write, make_event: Make) -> None:
    path, step_ms = replayed(write_trace, make_event, [(PRODUCT, 50.0, 80), (SMALL, 2.0, 200)])
    without = said(path, step_ms, None)
    assert without.bound is Bound.UNDETERMINED
    assert "shapes or ceilings are missing" in without.sentence
    bare = attribute_trace(
        path,
        ceilings=CEILINGS[1:],
        precision=Precision.BF16,
        unprofiled_step_ms=step_ms,
        owner=DEFAULT_OWNERS.__getitem__,
        work=reading(3.5e-3),
    )
    assert bare.sentence == without.sentence


def test_a_return_type_does_not_hide_a_product() -> None:
    hidden = "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(cublasGemvParamsEx<int>)"
    assert kernel_kind(hidden) is OperatorKind.PRODUCT
