"""The room's door: a trace file in, an attribution out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from lynxbench.attribute.accounting import keep_book
from lynxbench.attribute.device_book import keep_device_book
from lynxbench.attribute.kineto import read_trace
from lynxbench.attribute.roofline import Ceilings
from lynxbench.attribute.steps import find_steps
from lynxbench.attribute.timeline import tile_steps
from lynxbench.attribute.trace import Trace
from lynxbench.attribute.verdict import Owner, attribute_steps
from lynxbench.model.attribution import Attribution, Ceiling
from lynxbench.model.interval import Interval
from lynxbench.model.precision import Precision

CPU_READS_AS_COPY = 0.5
MISNESTED_LIMIT = 0.01
"""Share of a trace's events that may outlast the one around them before its clock is not believed."""


def attribute_trace(
    path: Path | str,
    *,
    ceilings: tuple[Ceiling, ...],
    precision: Precision,
    unprofiled_step_ms: Interval | float | None,
    owner: Owner,
    device: str = "cpu",
) -> Attribution:
    """Read a profiler trace and say where its time went; BadInput in one line where the file cannot be used."""
    trace = read_trace(path)
    attribute = attribute_device if trace.has_device_work else attribute_cpu
    return attribute(
        trace,
        ceilings=Ceilings(ceilings, precision),
        unprofiled_step_ms=unprofiled_step_ms,
        owner=owner,
        device=device,
    )


def attribute_device(
    trace: Trace, *, ceilings: Ceilings, unprofiled_step_ms: Interval | float | None, owner: Owner, device: str
) -> Attribution:
    """Where the time of a trace's steps went on its accelerator, and why that idled."""
    book, windows = keep_device_book(trace, ceilings)
    return attribute_steps(
        book,
        ceilings=ceilings,
        unprofiled_step_ms=unprofiled_step_ms,
        owner=owner,
        steps_how=windows.how,
        annotated=windows.annotated,
        notes=trace.notes,
        damaged=trace.damaged or book.misnested > MISNESTED_LIMIT * max(1, len(trace)),
        device=trace.device or device,
    )


def attribute_cpu(
    trace: Trace, *, ceilings: Ceilings, unprofiled_step_ms: Interval | float | None, owner: Owner, device: str = "cpu"
) -> Attribution:
    """Where the time of a trace's steps went on the host."""
    ceilings = dataclasses.replace(ceilings, reads_as_copy=CPU_READS_AS_COPY)
    steps = find_steps(trace)
    timeline = tile_steps(trace, steps)
    book = keep_book(trace, steps, timeline, ceilings)
    return attribute_steps(
        book,
        ceilings=ceilings,
        unprofiled_step_ms=unprofiled_step_ms,
        owner=owner,
        steps_how=steps.how,
        annotated=steps.annotated,
        notes=trace.notes,
        damaged=trace.damaged or timeline.misnested > MISNESTED_LIMIT * max(1, len(trace)),
        device=device,
    )
