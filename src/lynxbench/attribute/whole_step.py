"""How near its ceilings a step ran as a whole, by the work that its workload cannot do without.

For kernels without operands (replayed graphs, compiled code) no roofline can be drawn one by one. One can be drawn for
the step: the bytes it must read, the operations it must do, against the same ceilings. The time beyond that floor is
then split by kernel names alone: products, kernels too short to be anything but fixed cost, and others.
"""

from __future__ import annotations

from dataclasses import dataclass

from lynxbench.attribute.accounting import TimeBook
from lynxbench.attribute.inflation import Shares
from lynxbench.attribute.kernels import is_attention, kernel_kind
from lynxbench.attribute.operators import OperatorKind
from lynxbench.attribute.roofline import Ceilings
from lynxbench.model.attribution import Category, StepWork

SMALL_KERNEL_NS = 5_000
"""Kernels on a few thousand elements took 1.1 to 3.5 µs on an H200 whatever they did; what is shorter than this cannot
have moved more than some 20 MB there, and is start, drain and little else."""

KERNELS = (Category.COMPUTE, Category.MEMORY_BANDWIDTH)


@dataclass(frozen=True, slots=True)
class WholeStep:
    """A step against its floor; times in nanoseconds a step."""

    work: StepWork
    bound: Category
    step_ns: float
    least_ns: float
    per_s: float
    """The ceiling that gives the floor: bytes or operations a second."""
    products_ns: float
    small_ns: float
    small_count: float
    idle: float
    """Share of the step in which the device waited to be given the next kernel."""

    @property
    def floor(self) -> float:
        """The share of the step that its least work takes at the measured ceiling."""
        return min(1.0, self.least_ns / self.step_ns)

    @property
    def small(self) -> float:
        """The share of a step in kernels too small to fill the device, with the waits between kernels."""
        return min(1.0, self.small_ns / self.step_ns + self.idle)

    @property
    def slow_products(self) -> float:
        """The share of a step that the products took beyond the floor."""
        return max(0.0, (self.products_ns - self.least_ns) / self.step_ns)

    @property
    def lines(self) -> tuple[str, ...]:
        """The figures, for people."""
        in_bytes = self.bound is Category.MEMORY_BANDWIDTH
        amount = (
            f"read {self.work.read_bytes / 1e9:.3g} GB" if in_bytes else f"do {self.work.operations:.3g} operations"
        )
        rate = f"{self.per_s / 1e12:.3g} T{'B' if in_bytes else 'FLOP'}/s"
        lines = [
            f"a step must {amount} at the least ({self.work.how}): {self.least_ns / 1e6:.3g} ms at the measured "
            f"{rate}, {self.floor:.0%} of the step"
        ]
        if self.products_ns > 0:
            reached = min(1.0, self.least_ns / self.products_ns)
            lines.append(
                f"its products take {self.products_ns / 1e6:.3g} ms ({self.products_ns / self.step_ns:.0%} of the "
                f"step), at {reached:.0%} of that ceiling or more"
            )
        if self.small_count >= 1:
            lines.append(
                f"{self.small_count:.0f} kernels of {SMALL_KERNEL_NS // 1000} µs or less take "
                f"{self.small_ns / 1e6:.3g} ms ({self.small_ns / self.step_ns:.0%} of the step): fixed cost"
            )
        return tuple(lines)


def measure_whole_step(book: TimeBook, shares: Shares, ceilings: Ceilings, work: StepWork | None) -> WholeStep | None:
    """The step against its least work; None without that, or without the ceilings for it."""
    read, product = ceilings.read_bytes_per_s, ceilings.named("matmul", ceilings.precision)
    if work is None or not read or not product or shares.step_ns <= 0 or not len(book.wall_ns):
        return None
    read_ns, compute_ns = work.read_bytes / read * 1e9, work.operations / product * 1e9
    in_bytes = read_ns >= compute_ns
    steps = len(book.wall_ns)
    products = small = count = 0.0
    for group in book.groups:
        if group.category not in KERNELS or not group.calls:
            continue
        if group.kind is OperatorKind.PRODUCT and kernel_kind(group.name) is OperatorKind.PRODUCT:
            products += 0.0 if is_attention(group.name) else group.self_ns / steps
        elif group.self_ns / group.calls <= SMALL_KERNEL_NS:
            small += group.self_ns / steps
            count += group.calls / steps
    return WholeStep(
        work=work,
        bound=Category.MEMORY_BANDWIDTH if in_bytes else Category.COMPUTE,
        step_ns=shares.step_ns,
        least_ns=max(read_ns, compute_ns),
        per_s=read if in_bytes else product,
        products_ns=products,
        small_ns=small,
        small_count=count,
        idle=shares.estimate(Category.LAUNCH),
    )
