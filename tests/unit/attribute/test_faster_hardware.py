from __future__ import annotations

import pytest

from lynxbench.attribute.judge.faster_hardware import STANDARD_SWAPS, Swap, compare_swaps, estimate_swap
from lynxbench.attribute.judge.roofline import Ceilings, OperatorWork
from lynxbench.attribute.judge.time_book import OperatorGroup
from lynxbench.attribute.read.operator_names import OperatorKind
from lynxbench.model.attribution import Category, Ceiling
from lynxbench.model.interval import Interval
from lynxbench.model.precision import Precision

CEILINGS = Ceilings(
    (
        Ceiling(name="matmul", precision=Precision.FP32, per_s=100e9, unit="", how="measured"),
        Ceiling(name="copy", precision=None, per_s=20e9, unit="", how="measured"),
    ),
    Precision.FP32,
)


def group(flops: float, nbytes: float, took_ns: int, category: Category) -> OperatorGroup:
    return OperatorGroup(
        "mm", OperatorKind.PRODUCT, category, 1, took_ns, OperatorWork(flops, nbytes, 0.0, "float"), 1.0
    )


def test_a_launch_bound_step_gains_nothing_from_a_faster_accelerator() -> None:
    shares = {Category.LAUNCH: 0.9, Category.COMPUTE: 0.1}
    faster = estimate_swap(shares, Swap(compute=4.0, bandwidth=4.0)).gain
    assert faster.high == pytest.approx(1 / (0.9 + 0.025))
    host = estimate_swap(shares, Swap(host=2.0)).gain
    assert host.estimate == pytest.approx(1 / (0.45 + 0.1))
    said = compare_swaps([estimate_swap(shares, Swap(compute=4.0, bandwidth=4.0))], Interval(4.0, 9.0, 9.5), "replay")
    assert said == "estimate: compute ×4, bandwidth ×4 gains 4 to 8 %; replay gains 4 to 9.5×"


def test_the_same_machine_gains_nothing() -> None:
    for shares in ({Category.COMPUTE: 1.0}, {Category.IDLE: 0.5, Category.TRANSFER: 0.5}):
        assert estimate_swap(shares, Swap()).gain == Interval(1.0, 1.0, 1.0)
    assert Swap().words == "the same machine"


def test_kernels_are_replayed_against_both_sides_of_the_roofline() -> None:
    # 1e9 operations: 10 ms of arithmetic; 160 MB: 8 ms of memory. At the ceiling, and compute-bound.
    work = group(1e9, 160e6, 10_000_000, Category.COMPUTE)
    gain = estimate_swap({Category.COMPUTE: 1.0}, Swap(compute=10.0), [work], CEILINGS).gain
    assert gain.high == pytest.approx(10 / 8, rel=1e-6)  # memory binds after that
    both = estimate_swap({Category.COMPUTE: 1.0}, Swap(compute=2.0, bandwidth=2.0), [work], CEILINGS).gain
    assert both.estimate == pytest.approx(2.0)


def test_kernels_below_their_ceiling_may_not_follow_it() -> None:
    slow = group(1e9, 1e6, 100_000_000, Category.COMPUTE)  # a tenth of the ceiling
    gain = estimate_swap({Category.COMPUTE: 1.0}, Swap(compute=2.0), [slow], CEILINGS).gain
    assert gain.low == pytest.approx(1 / 0.95)
    assert gain.high == pytest.approx(2.0)
    assert gain.low < gain.estimate < gain.high


def test_what_nothing_explains_is_not_sped_up() -> None:
    shares = {Category.UNATTRIBUTED: 1.0}
    assert all(estimate_swap(shares, swap).gain.estimate == 1.0 for swap in STANDARD_SWAPS)
