"""The figures behind a verdict, in lines a person can check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.attribute.accounting import OperatorGroup, TimeBook
from lynxbench.attribute.causes import CategoryCause
from lynxbench.attribute.contention import Contention
from lynxbench.attribute.fusion import Fusion
from lynxbench.attribute.inflation import CORRECTION_MATTERS, Shares
from lynxbench.attribute.roofline import PRODUCT_INTENSITY, Ceilings
from lynxbench.attribute.trace_columns import quartiles
from lynxbench.model.attribution import Category

STABLE_VARIATION = 0.05
"""Steps whose lengths vary by less than this (quartiles around the median) count as one regime."""
SATURATED = 0.6
"""Units at this share of the measured ceiling count as saturated."""


@dataclass(frozen=True, slots=True)
class KernelEfficiency:
    """Kernel time taken, the part of it with known work, and the least time that part could have taken."""

    taken_ns: dict[Category, float]
    known_ns: dict[Category, float]
    best_ns: dict[Category, float]
    above_ceiling_ns: float

    def coverage(self) -> float:
        """Share of the kernels' time whose work is known."""
        taken = sum(self.taken_ns.values())
        return sum(self.known_ns.values()) / taken if taken else 0.0

    def overall(self) -> float:
        """Attainable over taken time; operators above the ceiling count as at it."""
        known = sum(self.known_ns.values())
        return sum(self.best_ns.values()) / known if known else 0.0

    def of(self, category: Category) -> float | None:
        """The same for one category."""
        known = self.known_ns.get(category, 0.0)
        return self.best_ns[category] / known if known else None


def write_evidence(
    book: TimeBook,
    shares: Shares,
    efficiency: KernelEfficiency,
    fusion: Fusion,
    ceilings: Ceilings,
    *,
    steps_how: str,
    device: str,
    notes: Sequence[str],
    contention: Contention | None = None,
    cause: CategoryCause | None = None,
) -> tuple[str, ...]:
    """Every figure that the verdict rests on."""
    count = len(book.wall_ns)
    each = f"{np.median(book.wall_ns) / 1e6:.3g} ms{' each' if count > 1 else ''} under the profiler"
    lines = [f"{count} step{'s' if count > 1 else ''} ({steps_how}), {each}"]
    lines += _inflation(book, shares)
    lines += _utilisation(book, shares, efficiency, ceilings)
    lines += _achieved(book, efficiency, ceilings)
    if book.gaps is not None and book.gaps.count:
        per_step = book.gaps.total_ns / len(book.wall_ns)
        lines.append(
            f"{book.operators_per_step:.0f} operators a step; between them {per_step / 1e6:.3g} ms without any "
            f"(median gap {book.gaps.median_ns / 1e3:.3g} µs)"
        )
        if book.gaps.leading_ns > 0:
            lines.append(
                f"{book.gaps.leading_ns / 1e6:.3g} ms pass in a step before its first operator, not annotated: "
                "input preparation, or other host code that the work waits for"
            )
    if book.stalled_ns > 0:
        lines.append(
            f"{book.stalled_ns / 1e6:.3g} ms a step in calls that took over twenty times as long as their like: "
            "the process lost its core (counted as idle)"
        )
    if fusion.chains:
        lines.append(
            f"{fusion.chains} chains of up to {fusion.longest} neighbouring passes over the same data; merging would "
            f"save {fusion.saved_ns.low / 1e6:.3g} to {fusion.saved_ns.high / 1e6:.3g} ms a step"
        )
    if contention is not None:
        lines.append(contention.line)
    if cause is not None and cause.layer is not None and cause.symptom not in (None, cause.layer):
        lines.append(f"the symptom shows in layer {cause.symptom}, the cause lies in layer {cause.layer}: {cause.why}")
    lines += _assumptions(book, shares, efficiency)
    if book.misnested:
        lines.append(f"{book.misnested} events outlast the one around them: a clock jumped, or threads were mixed up")
    lines += [f"note: {note}" for note in notes]
    if ceilings.declared:
        lines = [say_declared(line) for line in lines]
        lines.append(f"ceilings are not measured on this machine ({ceilings.all[0].how})")
    lines.append(f"attributed on {device}: shares are of time, and removing one share can uncover another")
    return tuple(lines)


def say_declared(text: str) -> str:
    """The same line where the ceilings come from a table."""
    for measured, declared in _DECLARED_WORDS:
        text = text.replace(measured, declared)
    return text


_DECLARED_WORDS = (
    ("the ceiling measured on this machine", "the declared ceiling"),
    (" measured on bare products", " declared for bare products"),
    (" measured on a copy", " declared for a copy"),
    (" measured: ", " declared: "),
    ("the measured ", "the declared "),
)


def _inflation(book: TimeBook, shares: Shares) -> list[str]:
    wall = float(np.median(book.wall_ns))
    events = float(np.median(book.events))
    if not shares.known:
        if shares.moved < CORRECTION_MATTERS:
            return [f"the profiler's own cost ({events:.0f} events a step) does not change the shares"]
        return [
            f"the step time without the profiler is not known; its cost of up to 3.3 µs on {events:.0f} events a step "
            f"may have moved shares by {shares.moved:.0%}, hence the ranges"
        ]
    change = wall / shares.step_ns - 1 if shares.step_ns else 0.0
    matters = "matters and is made" if shares.moved >= CORRECTION_MATTERS else "does not change the shares"
    lines = [
        f"a step takes {shares.step_ns / 1e6:.3g} ms without the profiler, {wall / 1e6:.3g} with it ({change:+.0%}); "
        f"the correction {matters}"
    ]
    if shares.unexplained > CORRECTION_MATTERS:
        lines.append(
            f"{shares.unexplained:.0%} of the profiled step is more than the profiler costs: conditions differed"
        )
    return lines


def _utilisation(book: TimeBook, shares: Shares, efficiency: KernelEfficiency, ceilings: Ceilings) -> list[str]:
    busy = shares.total(Category.COMPUTE, Category.MEMORY_BANDWIDTH)
    lines = [f"kernels were at work {busy:.0%} of a step: what a utilisation gauge shows, and not how well they worked"]
    per_step = _flops(book) / len(book.wall_ns)
    peak = ceilings.arithmetic_per_s(_main_dtype(book)) or ceilings.any_arithmetic_per_s()
    if per_step > 0 and peak and shares.step_ns > 0:
        rate = per_step / shares.step_ns * 1e9
        lines.append(
            f"model arithmetic {rate / 1e9:.3g} GFLOP/s of {peak / 1e9:.3g} measured on bare products: "
            f"utilisation of arithmetic (MFU) {rate / peak:.1%}"
        )
    moved = sum(g.work.total_bytes * g.calls for g in book.groups if g.work is not None) / len(book.wall_ns)
    copied = ceilings.copy_bytes_per_s
    if moved > 0 and copied and shares.step_ns > 0:
        rate = moved / shares.step_ns * 1e9
        lines.append(
            f"over the whole step at least {rate / 1e9:.3g} GB/s move of {copied / 1e9:.3g} measured on a copy: "
            f"{rate / copied:.1%}"
        )
    return lines


def _achieved(book: TimeBook, efficiency: KernelEfficiency, ceilings: Ceilings) -> list[str]:
    lines = []
    if efficiency.above_ceiling_ns > 0:
        share = efficiency.above_ceiling_ns / max(1.0, sum(efficiency.taken_ns.values()))
        lines.append(
            f"{share:.0%} of the kernels' time beats the ceiling (operands in cache); counted as at the ceiling"
        )
    for category, verb, scale, unit in (
        (Category.COMPUTE, "arithmetic-bound operators achieve", 1e9, "GFLOP/s"),
        (Category.MEMORY_BANDWIDTH, "memory-bound operators achieve", 1e9, "GB/s"),
    ):
        groups = [g for g in book.groups if g.category is category and g.attainable_ns is not None]
        took = sum(group.self_ns for group in groups)
        reached = efficiency.of(category)
        if took <= 0 or reached is None:
            continue
        done = sum(_amount(group, category) for group in groups)
        ceiling = done / sum(group.attainable_ns or 0.0 for group in groups)
        rate, best = done / took * 1e9 / scale, ceiling * 1e9 / scale
        lines.append(f"{verb} {rate:.3g} {unit} of {best:.3g} measured: {reached:.0%}")
    unknown = 1.0 - efficiency.coverage()
    if unknown > 0.1 and sum(efficiency.taken_ns.values()) > 0:
        lines.append(f"for {unknown:.0%} of the kernels' time shapes or ceilings are missing: efficiency unknown")
    return lines


def _amount(group: OperatorGroup, category: Category) -> float:
    if group.work is None:
        return 0.0
    each = group.work.flops if category is Category.COMPUTE else group.work.total_bytes
    return each * group.calls


def _flops(book: TimeBook) -> float:
    return sum(
        g.work.flops * g.calls for g in book.groups if g.work is not None and g.work.intensity > PRODUCT_INTENSITY
    )


def _main_dtype(book: TimeBook) -> str:
    best = max((g for g in book.groups if g.work is not None), key=lambda g: _amount(g, Category.COMPUTE), default=None)
    return best.work.dtype if best is not None and best.work is not None else ""


def _assumptions(book: TimeBook, shares: Shares, efficiency: KernelEfficiency) -> list[str]:
    """The five assumptions behind a spec sheet's figure, one by one."""
    compute = shares.estimate(Category.COMPUTE)
    word = "holds" if compute >= 0.5 else "broken"
    lines = [f"assumption 1, compute-bound: {word} (arithmetic {compute:.0%} of a step)"]
    reached = efficiency.of(Category.COMPUTE)
    if reached is None:
        lines.append("assumption 2, units saturated: unknown (no arithmetic-bound operator with known shapes)")
    else:
        word = "holds" if reached >= SATURATED else "broken"
        lines.append(f"assumption 2, units saturated: {word} ({reached:.0%} of the measured arithmetic ceiling)")
    fed = shares.total(Category.INPUT, Category.TRANSFER, Category.COMMUNICATION, Category.MEMORY_BANDWIDTH)
    word = "holds" if fed < 0.25 else "broken"
    lines.append(f"assumption 3, data movement keeps up: {word} (moving and awaiting data {fed:.0%} of a step)")
    if efficiency.coverage() > 0:
        overall = efficiency.overall()
        word = "holds" if overall >= SATURATED else "broken"
        lines.append(f"assumption 4, fast paths taken: {word} (kernels at {overall:.0%} of their ceilings)")
    else:
        lines.append("assumption 4, fast paths taken: unknown (no shapes or ceilings)")
    if len(book.wall_ns) >= 3:
        low, mid, high = quartiles(book.wall_ns)
        variation = float((high - low) / mid) if mid else 0.0
        word = "holds" if variation <= STABLE_VARIATION else "broken"
        lines.append(f"assumption 5, stable over time: {word} over these steps (quartiles {variation:.1%} apart)")
    else:
        lines.append("assumption 5, stable over time: unknown (fewer than three steps)")
    return lines
