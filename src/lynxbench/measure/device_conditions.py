"""What else held an accelerator while samples were counted: other processes, a locked clock, a lowered power limit.

Pure: telemetry in, findings out, each with the layer whose owner can change it.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lynxbench.model.activity import HARDWARE_SLOWDOWNS, POWER_CAP
from lynxbench.model.layers import Layer
from lynxbench.model.requests import Mask
from lynxbench.model.samples import Float64, Telemetry

NEIGHBOUR_SHARE = 0.01
"""A neighbour that was active for less of the counted time cannot move a mean by more."""
LEAST_FREE = 0.05
"""Below this share of free memory an allocator gives cached blocks back and asks again; who else holds it is named."""
CROWDS = 0.1
"""Of the memory: a neighbour that holds less does not fill it."""
UNSEEN_SHARE = 0.2
"""Activity while no process of the run was alive that somebody else must have caused; the driver's utilisation looks
back up to a second and is rounded up, so less is not held against anybody."""
LOOKS_BACK_S = 1.2
EQUAL_SLICES = 0.5
"""Of a device: the driver gives processes that want it equal slices of time, so one neighbour takes no more."""
BUSY = 0.5
"""Clocks of a device that mostly waits rest where they like; held clocks are judged on readings under load."""
FEWEST_READINGS = 10
HELD_BELOW = 0.9
"""Of the highest clock: devices come to rest a few steps below it of their own accord."""
HELD_WITHIN = 0.01
HELD_SHARE = 0.95
"""A clock that a limit moves does not stay within one step; one that was set does."""
FAR_FROM_LIMIT = 0.9
FAR_FROM_LIMIT_C = 5.0
CAPPED_SHARE = 0.01
LOWERED = 0.99
LOCKED_CLOCK = "locked clock"
LOWERED_LIMIT = "lowered power limit"
NEIGHBOUR = "another process on the device"

PROCESS = re.compile(r"gpu(?P<gpu>\d+)_process_(?P<pid>\d+)_(?P<name>.+)_(?P<kind>sm|bytes)$")
HIDDEN = "hidden"
"""The name of a process that is not in this process's own view of the machine: another container's, or the run's own
under the host's numbers."""


@dataclass(frozen=True, slots=True)
class DeviceFinding:
    """A condition of one device in words, and the layer it is a setting or a placement of."""

    device: str
    cause: str
    evidence: str
    layer: Layer
    most: float
    """How many times faster the device could be without it, at the most; NaN where nobody can say."""


def device_findings(telemetry: Telemetry, seen: Mask) -> list[DeviceFinding]:
    """Everything that held a device down, or took a share of it, in the readings that were counted."""
    devices = sorted({found.group(0) for name in telemetry.columns if (found := re.match(r"gpu\d+", name))})
    findings: list[DeviceFinding] = []
    for device in devices:
        findings += _neighbours(telemetry, device, seen)
        held = held_clock(telemetry, device, seen)
        memory = _held_memory_clock(telemetry, device, seen)
        lowered = _lowered_limit(telemetry, device, seen)
        findings += [finding for finding in (held, memory, lowered) if finding is not None]
    return findings


def held_clock(telemetry: Telemetry, device: str, seen: Mask) -> DeviceFinding | None:
    """A clock that stayed at one value below its highest although no limit of power or heat was near."""

    def read(name: str, mask: Mask | None = None) -> Float64:
        return known_values(telemetry.columns.get(f"{device}_{name}"), mask)

    highest, limit = read("sm_clock_max_mhz"), read("power_limit_w")
    utilisation = telemetry.columns.get(f"{device}_utilisation")
    if utilisation is None or not len(highest) or not len(limit):
        return None
    loaded = seen & (utilisation >= BUSY)
    clock, power = read("sm_clock_mhz", loaded), read("power_w", loaded)
    if len(clock) < FEWEST_READINGS or len(power) < FEWEST_READINGS:
        return None
    level, top = float(np.median(clock)), float(highest.max())
    constant = float(np.mean(np.abs(clock - level) <= HELD_WITHIN * level)) >= HELD_SHARE
    once_higher = float(read("sm_clock_mhz").max()) > level * (1 + HELD_WITHIN)
    if level >= HELD_BELOW * top or not constant or once_higher:
        return None
    if np.quantile(power, 0.9) > FAR_FROM_LIMIT * limit.min():
        return None
    heat, hottest = read("temperature_c", loaded), read("temperature_limit_c")
    if len(heat) and len(hottest) and heat.max() > hottest.min() - FAR_FROM_LIMIT_C:
        return None
    reasons = read("throttle_reasons", loaded).astype(np.int64)
    if len(reasons) and np.mean((reasons & HARDWARE_SLOWDOWNS) != 0) >= CAPPED_SHARE:
        return None
    evidence = (
        f"{device} ran at {level:.0f} of {top:.0f} MHz in {len(clock)} readings under load, with power at "
        f"{np.median(power):.0f} of {limit.min():.0f} W: as a clock does that was set (nvidia-smi -lgc, -ac)"
    )
    return DeviceFinding(device, LOCKED_CLOCK, evidence, Layer.SYSTEM, top / level)


def _held_memory_clock(telemetry: Telemetry, device: str, seen: Mask) -> DeviceFinding | None:
    """A memory clock that stayed at one value below its highest under load, and no slowdown of the hardware did it."""
    utilisation = telemetry.columns.get(f"{device}_utilisation")
    highest = known_values(telemetry.columns.get(f"{device}_memory_clock_max_mhz"))
    if utilisation is None or not len(highest):
        return None
    loaded = seen & (utilisation >= BUSY)
    clock = known_values(telemetry.columns.get(f"{device}_memory_clock_mhz"), loaded)
    reasons = known_values(telemetry.columns.get(f"{device}_throttle_reasons"), loaded).astype(np.int64)
    if len(clock) < FEWEST_READINGS or (len(reasons) and np.mean((reasons & HARDWARE_SLOWDOWNS) != 0) >= CAPPED_SHARE):
        return None
    level, top = float(np.median(clock)), float(highest.max())
    constant = float(np.mean(np.abs(clock - level) <= HELD_WITHIN * level)) >= HELD_SHARE
    if level >= HELD_BELOW * top or not constant:
        return None
    evidence = (
        f"{device} memory ran at {level:.0f} of {top:.0f} MHz in {len(clock)} readings under load: as a clock does "
        "that was set (nvidia-smi -lmc, -ac)"
    )
    return DeviceFinding(device, LOCKED_CLOCK, evidence, Layer.SYSTEM, top / level)


def _lowered_limit(telemetry: Telemetry, device: str, seen: Mask) -> DeviceFinding | None:
    """A power limit under the device's default that was also reached."""

    def read(name: str) -> Float64:
        return known_values(telemetry.columns.get(f"{device}_{name}"), seen)

    limit, normal, power = read("power_limit_w"), read("power_limit_default_w"), read("power_w")
    bits = read("throttle_reasons").astype(np.int64)
    capped = float(np.mean((bits & POWER_CAP) != 0)) if len(bits) else 0.0
    if not len(limit) or not len(normal) or not len(power) or limit.min() >= LOWERED * normal.max():
        return None
    # The cap's bit is also set for other reasons: what is far below its limit was not held by it.
    if capped < CAPPED_SHARE or np.quantile(power, 0.9) < FAR_FROM_LIMIT * limit.min():
        return None
    evidence = (
        f"{device} may draw {limit.min():.0f} W, {limit.min() / normal.max():.0%} of its default {normal.max():.0f} W, "
        f"and reached that in {capped:.0%} of {len(bits)} readings (nvidia-smi -pl)"
    )
    return DeviceFinding(device, LOWERED_LIMIT, evidence, Layer.SYSTEM, float(normal.max() / limit.min()))


def _neighbours(telemetry: Telemetry, device: str, seen: Mask) -> Iterator[DeviceFinding]:
    """Other processes on a device that the run used, by name where the driver tells, by activity where it does not."""
    own = known_values(telemetry.columns.get(f"{device}_own_processes"), seen)
    if len(own) and own.max() > 0:
        yield from _listed(telemetry, device, seen)
    elif _used(telemetry, device, seen):
        yield from _unseen(telemetry, device)


def _listed(telemetry: Telemetry, device: str, seen: Mask) -> Iterator[DeviceFinding]:
    turns = seen & np.isfinite(telemetry.columns[f"{device}_own_processes"])
    used, total = (
        known_values(telemetry.columns.get(f"{device}_memory_{name}_bytes"), seen) for name in ("used", "total")
    )
    full = len(used) > 0 and len(total) > 0 and used.max() > (1 - LEAST_FREE) * total.max()
    for column, readings in sorted(telemetry.columns.items()):
        process = PROCESS.match(column)
        if process is None or f"gpu{process['gpu']}" != device or process["kind"] != "bytes":
            continue
        there = turns & np.isfinite(readings)
        if not there.any():
            continue
        activity = telemetry.columns.get(column.removesuffix("bytes") + "sm")
        known = known_values(activity, there)
        active = float(known.sum()) / int(turns.sum())
        held = float(np.max(readings[there]))
        crowds = full and held >= CROWDS * total.max()
        if len(known) and active < NEIGHBOUR_SHARE and not crowds:
            continue
        share = f"was active for {active:.0%} of the counted time" if len(known) else "was there while counting"
        who = "a process whose name is hidden" if process["name"] == HIDDEN else process["name"]
        left = f", which left {1 - used.max() / total.max():.1%} of its memory free" if crowds else ""
        evidence = f"{who} (process {process['pid']}) {share} and held {held / 2**30:.1f} GiB of {device}{left}"
        most = 1.0 / (1.0 - min(active, EQUAL_SLICES)) if len(known) else math.nan
        yield DeviceFinding(device, NEIGHBOUR, evidence, Layer.SYSTEM, most)


def _unseen(telemetry: Telemetry, device: str) -> Iterator[DeviceFinding]:
    """Activity while nobody of the run was there to cause it."""
    alone, utilisation = telemetry.columns.get("cpu_busy_own"), telemetry.columns.get(f"{device}_utilisation")
    if alone is None or utilisation is None:
        return
    away = np.isnan(alone)
    # Since when nobody was there: the latest reading at which somebody was, carried on from reading to reading.
    left_ns = np.maximum.accumulate(np.where(away, telemetry.at_ns[0] - LOOKS_BACK_S * 2e9, telemetry.at_ns))
    readings = known_values(utilisation, away & (telemetry.at_ns - left_ns > LOOKS_BACK_S * 1e9))
    if len(readings) >= 2 and readings.mean() >= UNSEEN_SHARE:
        evidence = (
            f"{device} was {readings.mean():.0%} busy in {len(readings)} readings while no process of this run was "
            "alive; whose work it is, the driver does not tell from here"
        )
        yield DeviceFinding(device, NEIGHBOUR, evidence, Layer.SYSTEM, math.nan)


def _used(telemetry: Telemetry, device: str, seen: Mask) -> bool:
    utilisation = known_values(telemetry.columns.get(f"{device}_utilisation"), seen)
    return len(utilisation) > 0 and float(utilisation.mean()) >= NEIGHBOUR_SHARE


def known_values(column: Float64 | None, mask: Mask | None = None) -> Float64:
    """The finite readings of a column, all or those that a mask picks; none of a column that was not read."""
    if column is None:
        return np.empty(0)
    chosen = column if mask is None else column[mask]
    return chosen[np.isfinite(chosen)]
