"""Whether the machine was fit to measure on while samples were counted. Pure: telemetry in, reasons out."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from lynxbench.measure.device_conditions import (
    LOCKED_CLOCK,
    NEIGHBOUR_SHARE,
    DeviceFinding,
    device_findings,
    known_values,
)
from lynxbench.measure.vendor_readings import UNTESTED
from lynxbench.model.activity import POWER_CAP, THROTTLE_REASONS
from lynxbench.model.contract import Protocol
from lynxbench.model.evidence_gate import FOREIGN_LOAD
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.requests import Mask
from lynxbench.model.result import RULES
from lynxbench.model.samples import Float64, Telemetry

CLOCK_CHANGE = 0.03
"""Clocks that move by more than this move the figures by more than the usual regression budget."""
LEAST_MEMORY = 0.05
"""Below this share of free memory kernels start to reclaim, and the run pays for it."""
LONGEST_STALL = 0.01
"""Share of the counted time in which something waited for memory, or for pages from a disk."""
MAJOR_FAULTS_PER_S = 1.0
"""A warmed-up process reads no pages from disk; one a second is more than the tail of loading, unless nobody waited."""
PAGE_BYTES = 4096
REGIME_SHARE = 0.9
"""A power cap that holds all the time is the regime the result is about (the governor names it), and no doubt of it;
one that comes and goes, or moves the clocks, is."""
BRIEF = 0.01
"""A limit that held for less than this share of the counted time cannot move a mean by as much, whatever it did to the
clocks meanwhile; longer ones are named, and are doubts."""

OWNED_LOAD = 4
"""The edition of the rules since which a line about other programs says whose they are to stop."""

WAITED_FOR = 8
"""… since which pages from a disk are a doubt where somebody waited for it, or where that is not known."""

Span = tuple[int, int]


def judge_conditions(
    telemetry: Telemetry,
    counted: Sequence[Span],
    protocol: Protocol,
    owner: Callable[[Layer], str] = DEFAULT_OWNERS.__getitem__,
    rules: int = RULES,
) -> list[str]:
    """Reasons to doubt what was measured in the counted spans (start and end in ns), one readable line each."""
    spans = [span for span in counted if span[1] > span[0]]
    if not spans:
        return []
    masks = [(telemetry.at_ns > start) & (telemetry.at_ns <= end) for start, end in spans]
    seen = np.any(masks, axis=0) if len(telemetry.at_ns) else np.zeros(0, bool)
    if not seen.any():
        return ["no telemetry covers the counted time: foreign load, clocks and memory are unknown"]
    counted_s = sum(end - start for start, end in spans) / 1e9
    devices = device_findings(telemetry, seen)
    whose = f" (layer {Layer.SYSTEM}, {owner(Layer.SYSTEM)})" if rules >= OWNED_LOAD else ""
    return [
        *_foreign_load(telemetry, seen, protocol.foreign_load, whose),
        *(f"{each.cause}: {each.evidence} (layer {each.layer.value}, {owner(each.layer)})" for each in devices),
        *_throttling(telemetry, seen, masks, counted_s, devices),
        *_clock_changes(telemetry, masks),
        *_memory(telemetry, seen, masks, counted_s),
        *_paging(telemetry, masks, counted_s, rules),
        *_untested(telemetry, seen),
    ]


def _untested(telemetry: Telemetry, seen: Mask) -> list[str]:
    """Devices that worked while counting and whose readings come from a probe that never met the real chip."""
    devices = [name.removesuffix(f"_{UNTESTED}") for name in telemetry.columns if name.endswith(f"_{UNTESTED}")]
    busy = {name: known_values(telemetry.columns.get(f"{name}_utilisation"), seen) for name in devices}
    used = [name for name, shares in sorted(busy.items()) if len(shares) and shares.mean() >= NEIGHBOUR_SHARE]
    return [f"untested probe: readings of {name} come from one that is untested on the real chip" for name in used]


def judge_devices(
    devices: Telemetry, counted: Sequence[Span], owner: Callable[[Layer], str] = DEFAULT_OWNERS.__getitem__
) -> list[str]:
    """Limits, held clocks and clock changes of devices whose readings come without their host's."""
    masks = [(devices.at_ns > start) & (devices.at_ns <= end) for start, end in counted if end > start]
    if not masks or not np.any(masks):
        return []
    seen = np.any(masks, axis=0)
    found = device_findings(devices, seen)
    counted_s = sum(end - start for start, end in counted) / 1e9
    return [
        *(f"{each.cause}: {each.evidence} (layer {each.layer.value}, {owner(each.layer)})" for each in found),
        *_throttling(devices, seen, masks, counted_s, found),
        *_clock_changes(devices, masks),
    ]


def judge_host(host: Telemetry, counted: Sequence[Span]) -> list[str]:
    """Clock changes and shortage of memory of a host; whose load its CPUs carry cannot be told from outside."""
    masks = [(host.at_ns > start) & (host.at_ns <= end) for start, end in counted if end > start]
    if not masks or not np.any(masks):
        return []
    counted_s = sum(end - start for start, end in counted) / 1e9
    return [*_clock_changes(host, masks), *_memory(host, np.any(masks, axis=0), masks, counted_s)]


def _foreign_load(telemetry: Telemetry, seen: Mask, allowed: float, whose: str) -> list[str]:
    foreign = known_values(telemetry.columns.get("cpu_busy_foreign"), seen)
    if not len(foreign):
        return ["foreign load could not be read while counting"]
    mean = float(foreign.mean())
    if mean <= allowed:
        return []
    steal = known_values(telemetry.columns.get("cpu_steal"), seen)
    stolen = float(steal.mean()) if len(steal) else 0.0
    of_which = f", of which {stolen:.0%} taken by the hypervisor" if stolen >= 0.01 else ""
    return [
        f"{FOREIGN_LOAD}: other programs used {mean:.0%} of the CPUs while counting{of_which} "
        f"(the contract allows {allowed:.0%}, highest sample {foreign.max():.0%}){whose}"
    ]


def _throttling(
    telemetry: Telemetry, seen: Mask, masks: Sequence[Mask], counted_s: float, devices: Sequence[DeviceFinding]
) -> list[str]:
    """Limits that held a clock down; where its clock was set, the driver charges power and heat for it, wrongly."""
    lines: list[str] = []
    capped: set[str] = set()
    held = {each.device for each in devices if each.cause == LOCKED_CLOCK}
    for name, column in sorted(telemetry.columns.items()):
        if not name.endswith("_throttle_reasons"):
            continue
        gpu = name.removesuffix("_throttle_reasons")
        if gpu in held:
            continue
        bits = known_values(column, seen).astype(np.int64)
        for bit, reason in THROTTLE_REASONS.items():
            share = float(np.mean((bits & bit) != 0)) if len(bits) else 0.0
            if bit == POWER_CAP and share >= REGIME_SHARE:
                capped.add(gpu)
            elif share >= BRIEF:
                lines.append(f"throttling: {gpu} {reason} in {share:.0%} of {len(bits)} samples while counting")
    for name, column in sorted(telemetry.columns.items()):
        if name.endswith(("_power_violation_ns", "_thermal_violation_ns")):
            gpu, kind = name.split("_")[:2]
            held_s = sum(_growth(column, mask) for mask in masks) / 1e9
            explained = gpu in held or (kind == "power" and gpu in capped)
            if held_s >= BRIEF * counted_s and held_s > 0 and not explained:
                lines.append(
                    f"throttling: {gpu} clocks held down by {kind} for {held_s:.1f} of {counted_s:.1f} s counted"
                )
    return lines


def _clock_changes(telemetry: Telemetry, masks: Sequence[Mask]) -> list[str]:
    lines = []
    for name, column in sorted(telemetry.columns.items()):
        if name != "cpu_clock_mhz" and not name.endswith("_sm_clock_mhz"):
            continue
        # Medians of each span's thirds: single readings jump, a sustained change does not hide between spans.
        thirds = [part for mask in masks for part in np.array_split(known_values(column, mask), 3) if len(part)]
        if len(thirds) < 2:
            continue
        medians = [float(np.median(part)) for part in thirds]
        low, high = min(medians), max(medians)
        if high > 0 and (high - low) / high > CLOCK_CHANGE:
            what = name.removesuffix("_clock_mhz").replace("_", " ")
            lines.append(
                f"clock change: {what} between {low:.0f} and {high:.0f} MHz ({(high - low) / high:.0%}) while counting"
            )
    return lines


def _memory(telemetry: Telemetry, seen: Mask, masks: Sequence[Mask], counted_s: float) -> list[str]:
    columns = telemetry.columns
    lines = []
    free, total = (
        known_values(columns.get("memory_available_bytes"), seen),
        known_values(columns.get("memory_total_bytes"), seen),
    )
    if len(free) and len(total) and free.min() < LEAST_MEMORY * total.max():
        left, share = free.min() / 2**30, free.min() / total.max()
        lines.append(f"memory pressure: {left:.1f} GiB ({share:.0%}) of memory were free at the least")
    pages = sum(_growth(columns.get(name), mask) for name in ("swap_in_pages", "swap_out_pages") for mask in masks)
    if pages > 0:
        lines.append(f"swapping: {pages * PAGE_BYTES / 2**20:.1f} MiB moved to or from swap while counting")
    stalled = sum(_growth(columns.get("memory_stalled_us"), mask) for mask in masks) / 1e6
    if stalled > LONGEST_STALL * counted_s:
        lines.append(f"memory pressure: tasks waited for memory for {stalled:.1f} of {counted_s:.1f} s counted")
    return lines


def _paging(telemetry: Telemetry, masks: Sequence[Mask], counted_s: float, rules: int) -> list[str]:
    """Pages that came from a disk while counting; all tasks of the machine together waited no less than the process."""
    faults = sum(_growth(telemetry.columns.get("process_major_faults"), mask) for mask in masks)
    if faults <= MAJOR_FAULTS_PER_S * counted_s:
        return []
    line = f"paging: {faults:.0f} pages of the process came from disk in {counted_s:.1f} s counted"
    waits = telemetry.columns.get("io_stalled_us") if rules >= WAITED_FOR else None
    if waits is None or any(np.isfinite(waits[mask]).sum() < 2 for mask in masks):
        return [line]
    waited_s = sum(_growth(waits, mask) for mask in masks) / 1e6
    return [f"{line}; tasks waited {waited_s:.1f} s for a disk"] if waited_s > LONGEST_STALL * counted_s else []


def _growth(column: Float64 | None, mask: Mask) -> float:
    """How much a counter grew within one span; a counter that started anew counts as nothing."""
    known = known_values(column, mask)
    return max(float(known[-1] - known[0]), 0.0) if len(known) > 1 and not math.isnan(known[0]) else 0.0
