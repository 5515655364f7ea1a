"""What a change should gain if the shares of a step are right: the prediction that an intervention is held against."""

from __future__ import annotations

from collections.abc import Mapping

from lynxbench.model.attribution import Category
from lynxbench.model.interval import Interval
from lynxbench.model.interventions import Change
from lynxbench.model.precision import Precision

MOST_REMOVED = 0.99
REMOVES: Mapping[Change, tuple[Category, ...]] = {
    Change.REPLAY: (Category.LAUNCH, Category.ALLOCATOR),
    Change.COMPILE: (Category.LAUNCH, Category.ALLOCATOR),
    Change.PRESTAGE: (Category.INPUT, Category.TRANSFER),
    Change.PIN: (Category.TRANSFER,),
    Change.NO_TRANSFER: (Category.TRANSFER,),
    Change.NO_SYNC: (Category.SYNCHRONIZATION,),
    Change.DOUBLE_BATCH: (Category.MEMORY_BANDWIDTH, Category.LAUNCH, Category.ALLOCATOR),
}
"""Categories that a change takes away, wholly or in part."""
HALVED_BY_A_BATCH = 0.5
"""What is read or launched once for the whole batch is paid half as often for each unit of work."""
PINNED_SAVES = 0.7
"""Of a pageable copy's time: 15.6 GB/s become 53.4 GB/s from pinned memory (host to H200 over PCIe 5)."""
TENSOR_CORE_TIMES = 8.0
"""TF32 products over fp32 ones by data sheets (A100: 156 against 19.5 TFLOP/s; H200 measured: 408 against 51)."""
BITS: Mapping[Precision, int] = {
    Precision.FP32: 32,
    Precision.TF32: 32,
    Precision.BF16: 16,
    Precision.FP16: 16,
    Precision.FP8: 8,
    Precision.INT8: 8,
    Precision.INT8_WEIGHT_ONLY: 8,
}
"""Width in memory: bytes moved go with it, and the rate of matrix units with its inverse."""


def predict(
    change: Change, shares: Mapping[Category, float], precision: Precision, narrower: Precision | None
) -> Interval:
    """The gain in work per second that the shares promise, as a range."""
    if change is Change.STEP_PRECISION:
        return _of_precision(shares, precision, narrower)
    removed = sum(shares.get(category, 0.0) for category in REMOVES[change])
    if change is Change.DOUBLE_BATCH:
        removed *= HALVED_BY_A_BATCH
    if change is Change.PIN:
        removed *= PINNED_SAVES
    return gain_range(removed)


def gain_range(share: float) -> Interval:
    """Removing a share of the step entirely, half of it, or a little more than was seen."""
    return Interval(_speedup(share / 2), _speedup(share), _speedup(share * 1.2))


def _of_precision(shares: Mapping[Category, float], precision: Precision, narrower: Precision | None) -> Interval:
    if narrower is None:
        return Interval(1.0, 1.0, 1.0)
    compute, memory = shares.get(Category.COMPUTE, 0.0), shares.get(Category.MEMORY_BANDWIDTH, 0.0)
    if narrower is Precision.TF32:  # the same bytes, on other units
        best, usual = compute * (1 - 1 / TENSOR_CORE_TIMES), compute * (1 - 2 / TENSOR_CORE_TIMES)
    else:
        saved = 1 - BITS[narrower] / BITS[precision]
        # Activations, norms and the conversions themselves stay wide: half of the saving is what usually comes.
        best, usual = (compute + memory) * saved, (compute + memory) * saved / 2
    return Interval(1.0, _speedup(usual), _speedup(best))


def _speedup(removed: float) -> float:
    return 1.0 / (1.0 - min(removed, MOST_REMOVED))
