"""How fast an operator could have been on this executor, by ceilings measured in the same run, and what bounds it.

Roofline: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from lynxbench.attribute.read.operands import DTYPE_PRECISION
from lynxbench.model.attribution import Category, Ceiling
from lynxbench.model.precision import Precision

CPU_READS_AS_COPY = 0.5
READ_DOMINATED = 4.0
"""An operator that reads this many times what it writes is held against the read ceiling, where one was measured."""
TINY_OPERATOR_NS = 50_000
"""An operator shorter than this can be all fixed cost: dispatch, its result's allocation and the parallel region's
start take 5 to 30 µs on server CPUs under the profiler."""
TINY_WORK_SHARE = 0.2
"""… and is, when the roofline says that its work needs no more than this share of the time it took."""

FIXED_COST_NS = 10_000
"""Without a roofline to hold it against, an operator shorter than this is taken for fixed cost."""

TYPICAL_EFFICIENCY = 0.75
"""What a good kernel reaches of the ceiling: the estimate of a gain goes here, its upper bound to the ceiling."""
WIDE = "double"
"""Floating point of 64 bits, in the profiler's word: no precision of ours, so its ceiling has none."""
DECLARED = "declared:"
"""How a ceiling's `how` begins that was taken from a table."""
CONTRADICTED = 0.25
"""Copies and reads go through the same memory: one that is measured at less than this share of the other was disturbed,
or timed what it touched first."""
PRODUCT_INTENSITY = 2.0
"""Operations a byte above which an operator could be bound by arithmetic at all; passes over data stay below."""


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """One call: arithmetic operations (a multiply-add counts two), bytes, and the element type it computes in."""

    flops: float
    read_bytes: float
    written_bytes: float
    dtype: str

    @property
    def total_bytes(self) -> float:
        """Bytes read and written."""
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float:
        """Operations a byte; infinite where no byte moves."""
        return self.flops / self.total_bytes if self.total_bytes else math.inf


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Measured ceilings, looked up by what an operator needs."""

    all: tuple[Ceiling, ...]
    precision: Precision
    reads_as_copy: float = 1.0
    """Reading alone, as a share of the copy ceiling, where it was not measured: all of it where one bus carries both
    directions (an accelerator's memory), half on a CPU, whose cores have no more reads in flight than in a copy."""

    doubt: str = ""
    """Which of them is not believed, and why."""

    def believed(self) -> Ceilings:
        """The same without the copy or the read that the other contradicts: what it was measured at bounds nothing."""
        rates = {name: self.named(name, None) for name in ("copy", "read")}
        low, high = sorted(rates, key=lambda name: rates[name] or 0.0)
        slow, fast = rates[low], rates[high]
        if self.declared or not slow or not fast or slow >= CONTRADICTED * fast:
            return self
        kept = tuple(ceiling for ceiling in self.all if ceiling.name != low)
        doubt = (
            f"the measured {low} ({slow / 1e9:.3g} GB/s) is not believed: the {high} of the same memory reached "
            f"{fast / 1e9:.3g} GB/s"
        )
        return dataclasses.replace(self, all=kept, doubt=doubt)

    def on_host(self) -> Ceilings:
        """The same for a step that ran on a CPU."""
        return dataclasses.replace(self, reads_as_copy=CPU_READS_AS_COPY)

    @property
    def declared(self) -> bool:
        """Whether the figures come from a table rather than from this machine."""
        return bool(self.all) and all(ceiling.how.startswith(DECLARED) for ceiling in self.all)

    def arithmetic_per_s(self, dtype: str) -> float | None:
        """Operations a second at the precision an operator computed in."""
        computed = DTYPE_PRECISION.get(dtype)
        if dtype == WIDE:
            return max((c.per_s for c in self.all if c.name == "matmul" and c.precision is None), default=None)
        if computed is Precision.FP32 and self.precision is Precision.TF32:
            computed = Precision.TF32
        return None if computed is None else self.named("matmul", computed)

    @property
    def best_product_per_s(self) -> float | None:
        """Operations a second of the fastest product that was measured, at whatever precision."""
        return max((c.per_s for c in self.all if c.name == "matmul" and c.per_s > 0), default=None)

    @property
    def copy_bytes_per_s(self) -> float | None:
        """Bytes read and written a second by a plain copy."""
        return self.named("copy", None)

    @property
    def read_bytes_per_s(self) -> float | None:
        """Bytes a second that can be read; a share of the copy ceiling where reading alone was not measured."""
        measured, copied = self.named("read", None), self.copy_bytes_per_s
        return measured or (copied * self.reads_as_copy if copied else None)

    def named(self, name: str, precision: Precision | None) -> float | None:
        """A ceiling by name and precision; without a precision, the best of that name."""
        named = [c for c in self.all if c.name == name and c.per_s > 0]
        exact = [c.per_s for c in named if c.precision == precision]
        return max(exact or [c.per_s for c in named if precision is None], default=None)


@dataclass(frozen=True, slots=True)
class Attainable:
    """The least time by roofline, and the side that binds; not `exact` where another precision's ceiling stood in."""

    ns: float
    bound: Category
    exact: bool


def attain(work: OperatorWork, ceilings: Ceilings) -> Attainable | None:
    """The least time one call could have taken, or None without ceilings."""
    bandwidth = ceilings.copy_bytes_per_s
    if work.read_bytes >= READ_DOMINATED * work.written_bytes:
        bandwidth = ceilings.read_bytes_per_s
    own = ceilings.arithmetic_per_s(work.dtype)
    # Some product's ceiling tells which side of the roofline binds where the operator's own is missing.
    arithmetic = own or ceilings.best_product_per_s
    if not bandwidth:
        return None
    memory_ns = work.total_bytes / bandwidth * 1e9
    # A pass over data is bound by moving it: its few operations an element run on vector units, not on a product's.
    product = work.intensity > PRODUCT_INTENSITY
    compute_ns = work.flops / arithmetic * 1e9 if arithmetic and product else 0.0
    if compute_ns > memory_ns:
        return Attainable(compute_ns, Category.COMPUTE, own is not None)
    return Attainable(memory_ns, Category.MEMORY_BANDWIDTH, own is not None or not product)


def is_tiny(took_ns: float, attainable_ns: float | None) -> bool:
    """Whether an operator's time is its fixed cost rather than its work."""
    if attainable_ns is None:
        return took_ns <= FIXED_COST_NS
    return took_ns <= TINY_OPERATOR_NS and attainable_ns < TINY_WORK_SHARE * took_ns


# --- declared ceilings of known devices, for traces that come without a measured result -----------------------------

_H200 = f"{DECLARED} bare products of 8192³ and a 4 GiB copy on another NVIDIA H200, PyTorch 2.11"
_H200_TERA = {"fp32": 51, "tf32": 408, "fp16": 752, "bf16": 783, "fp8": 1420, "int8": 948}
DEVICES: dict[str, tuple[Ceiling, ...]] = {
    "h200": (
        *(
            Ceiling(name="matmul", precision=Precision(name), per_s=rate * 1e12, unit="operations/s", how=_H200)
            for name, rate in _H200_TERA.items()
        ),
        Ceiling(name="copy", precision=None, per_s=4.27 * 1e12, unit="bytes/s", how=_H200),
    ),
}


def ceilings_of(device: str) -> tuple[Ceiling, ...] | None:
    """Declared ceilings of a device by its short name; None where it is not in the table."""
    return DEVICES.get(device.lower().removeprefix("nvidia ").strip())
