"""What the work drew, and what held the rate under its peak. Pure: telemetry and counted spans in."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lynxbench.measure.conditions import Span
from lynxbench.model.result import Figure, Governor
from lynxbench.model.samples import CountedProcess, Float64, Int64, Phase, Telemetry
from lynxbench.model.throttling import THROTTLE_REASONS

SHORTEST_ENERGY_S = 10.0
"""Counters tick slowly and GPU power is sampled part of the time; shorter windows than this give no energy figure."""

GOVERNED_SHARE = 0.10
"""A limit that was active in fewer of the readings than this did not govern the run."""


def counted_span_ns(process: CountedProcess) -> Span:
    """From the first counted iteration's start to the last one's end; without a steady part, all after warm-up."""
    steady = process.phase == Phase.STEADY
    chosen = steady if steady.any() else process.phase >= Phase.TRANSIENT
    iterations = process.samples.iterations
    if not chosen.any():
        return (0, 0)
    return int(iterations.start_ns[chosen][0]), int(iterations.end_ns[chosen][-1])


def energy_per_unit(telemetry: Telemetry | None, processes: Sequence[CountedProcess], unit: str) -> Figure | None:
    """Joules a unit from the energy counters of all devices together; None where none could be read.

    The bounds are the lowest and highest process: a spread, not a confidence interval.
    """
    if telemetry is None:
        return None
    counters = [c for name, c in telemetry.columns.items() if name.endswith("_energy_j") and np.isfinite(c).any()]
    if not counters:
        return None
    per_unit = [_process_energy(telemetry.at_ns, counters, process) for process in processes]
    known = [value for value in per_unit if math.isfinite(value)]
    if not known:
        return None
    return Figure(low=min(known), estimate=float(np.mean(known)), high=max(known), unit=f"J/{unit}")


def find_governor(telemetry: Telemetry | None, spans: Sequence[Span]) -> Governor | None:
    """The limit that was active most of the counted time, where one was seen; None says that nothing was seen."""
    if telemetry is None:
        return None
    inside = np.zeros(len(telemetry.at_ns), dtype=bool)
    for start_ns, end_ns in spans:
        inside |= (telemetry.at_ns >= start_ns) & (telemetry.at_ns <= end_ns)
    found: list[tuple[float, Governor]] = []
    for name, column in telemetry.columns.items():
        if not name.endswith("_throttle_reasons"):
            continue
        bits = column[inside & np.isfinite(column)].astype(np.int64)
        for bit, reason in THROTTLE_REASONS.items():
            share = float(np.mean((bits & bit) != 0)) if len(bits) else 0.0
            if share >= GOVERNED_SHARE:
                device = name.removesuffix("_throttle_reasons")
                evidence = f"{device}: active in {share:.0%} of {len(bits)} readings while counting"
                found.append((share, Governor(cause=reason, evidence=evidence)))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _process_energy(at_ns: Int64, counters: Sequence[Float64], process: CountedProcess) -> float:
    start_ns, end_ns = counted_span_ns(process)
    inside = (at_ns >= start_ns) & (at_ns <= end_ns)
    return sum(_joules_per_unit(at_ns, counter, inside & np.isfinite(counter), process) for counter in counters)


def _joules_per_unit(at_ns: Int64, counter: Float64, read: npt.NDArray[np.bool_], process: CountedProcess) -> float:
    """Between a counter's first and last reading: slow counters are read more rarely than the other columns."""
    stamps, readings = at_ns[read], counter[read]
    if len(stamps) < 2 or (stamps[-1] - stamps[0]) / 1e9 < SHORTEST_ENERGY_S:
        return math.nan
    rows = process.samples.iterations
    inside_ns = np.minimum(rows.end_ns, stamps[-1]) - np.maximum(rows.start_ns, stamps[0])
    share = np.clip(
        inside_ns / np.maximum(rows.end_ns - rows.start_ns, 1), 0, 1
    )  # iterations across an edge count in part
    units = float((rows.units * share).sum())
    spent_j = float(readings[-1] - readings[0])
    return spent_j / units if units > 0 and spent_j > 0 else math.nan
