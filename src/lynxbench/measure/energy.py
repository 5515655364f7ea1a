"""What the work drew, and what held the rate under its peak. Pure: telemetry and counted spans in."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.measure.device_conditions import LOCKED_CLOCK, LOWERED_LIMIT, device_findings
from lynxbench.measure.run_conditions import Span
from lynxbench.model.activity import POWER_CAP, THERMAL, THROTTLE_REASONS, EnergyBeside
from lynxbench.model.figures import Figure
from lynxbench.model.result import Governor
from lynxbench.model.samples import CountedProcess, Float64, Int64, Telemetry

SHORTEST_ENERGY_S = 10.0
"""Counters tick slowly and GPU power is sampled part of the time; less than this in all gives no energy figure."""
SHORTEST_PART_S = 2.0
"""… and a process in which the counter was read over less than this is left out."""
PACKAGE = "package"
IN_USE = 0.01
"""Share of the counted time in which a kernel ran, from which on a device was used: an idle one shows none at all."""

VIOLATIONS = {
    "power_violation_ns": THROTTLE_REASONS[POWER_CAP],
    "thermal_violation_ns": THROTTLE_REASONS[THERMAL],
}
"""The driver's time counters, and the limit each is about."""
GOVERNED_SHARE = 0.10
"""A limit that was active in fewer of the readings than this did not govern the run."""


def counted_span_ns(process: CountedProcess) -> Span:
    """From the first counted iteration's start to the last one's end; without a steady part, all after warm-up."""
    chosen, iterations = process.counted, process.samples.iterations
    if not chosen.any():
        return (0, 0)
    return int(iterations.start_ns[chosen][0]), int(iterations.end_ns[chosen][-1])


def energy_per_unit(
    telemetry: Telemetry | None, processes: Sequence[CountedProcess], unit: str, *, every_device: bool = False
) -> Figure | None:
    """Joules a unit of the devices that the run itself used; None where their counters could not be read.

    `every_device` adds up all counters of the machine, as results before edition 3 of the rules did.
    """
    if telemetry is None:
        return None
    devices = _devices(telemetry) if every_device else own_devices(telemetry, processes)[0]
    return _spent(telemetry, devices, processes, unit)


def energy_beside(telemetry: Telemetry | None, processes: Sequence[CountedProcess], unit: str) -> EnergyBeside | None:
    """Whose energy the figure is, and what the package and other devices drew meanwhile; None without counters."""
    if telemetry is None or not _devices(telemetry):
        return None
    own, how = own_devices(telemetry, processes)
    others = tuple(name for name in _devices(telemetry) if name not in (*own, PACKAGE))
    return EnergyBeside(
        devices=own,
        how=how,
        package_j_per_unit=_spent(telemetry, (PACKAGE,), processes, unit),
        other_devices=others,
        other_devices_j_per_unit=_spent(telemetry, others, processes, unit),
    )


def own_devices(telemetry: Telemetry, processes: Sequence[CountedProcess]) -> tuple[tuple[str, ...], str]:
    """The devices that the run's processes worked on, and how that is known; the package where no accelerator was."""
    inside = _inside(telemetry, [counted_span_ns(process) for process in processes])
    accelerators = tuple(name for name in _devices(telemetry, readable=False) if name != PACKAGE)
    held, busy = (_means(telemetry, accelerators, reading, inside) for reading in ("own_processes", "utilisation"))
    if own := tuple(name for name in accelerators if held[name] > 0):
        return own, "held by the run's own processes"
    if working := tuple(name for name in accelerators if busy[name] >= IN_USE):
        return working, "busy while counting; whose processes held them could not be read"
    if all(share < IN_USE for share in busy.values()):
        return (PACKAGE,), "no accelerator was busy" if accelerators else "there is no accelerator"
    return accelerators, "all accelerators: which of them the run used could not be read"


def _devices(telemetry: Telemetry, *, readable: bool = True) -> tuple[str, ...]:
    """Devices with an energy counter, or all whose counter was asked for."""
    counters = {name: column for name, column in telemetry.columns.items() if name.endswith("_energy_j")}
    known = (name for name, column in counters.items() if not readable or np.isfinite(column).any())
    return tuple(name.removesuffix("_energy_j") for name in known)


def _means(
    telemetry: Telemetry, devices: Sequence[str], reading: str, inside: npt.NDArray[np.bool_]
) -> dict[str, float]:
    """The mean of a reading by device over the counted time; NaN where it was not taken."""
    means = {}
    for device in devices:
        column = telemetry.columns.get(f"{device}_{reading}", np.full(len(telemetry.at_ns), np.nan))
        known = column[inside & np.isfinite(column)]
        means[device] = float(known.mean()) if len(known) else float("nan")
    return means


def _spent(
    telemetry: Telemetry, devices: Sequence[str], processes: Sequence[CountedProcess], unit: str
) -> Figure | None:
    """Joules a unit of these devices together.

    The bounds are the lowest and highest process: a spread, not a confidence interval. Processes that are too short on
    their own speak together where they are long enough in sum: the counter's sampling averages out over all of them.
    """
    counters = [c for name in devices if (c := telemetry.columns.get(f"{name}_energy_j")) is not None]
    if not counters:
        return None
    spent = [_process_energy(telemetry.at_ns, counters, process) for process in processes]
    known = [part for part in spent if part is not None]
    if sum(part.seconds for part in known) < SHORTEST_ENERGY_S:
        return None
    each = [part.joules_per_unit for part in known]
    return Figure(low=min(each), estimate=float(np.mean(each)), high=max(each), unit=f"J/{unit}")


def energy_per_request(
    per_unit: Figure | None, processes: Sequence[CountedProcess], batch: int, iterations: int | None = None
) -> Figure | None:
    """Joules a request: a row of a batch is one, with all its units; None where that says nothing new.

    `iterations` says how many there were where the rows of the processes are slices of them.
    """
    rows = [process.samples.iterations for process in processes]
    units = sum(int(iteration.units.sum()) for iteration in rows)
    iterations = sum(len(iteration) for iteration in rows) if iterations is None else iterations
    if per_unit is None or per_unit.estimate is None or not iterations or units == iterations * batch:
        return None
    return per_unit.scaled(units / (iterations * batch), "J/request")


def find_governor(telemetry: Telemetry | None, spans: Sequence[Span]) -> Governor | None:
    """The limit that was active most of the counted time, where one was seen; None says that nothing was seen."""
    if telemetry is None:
        return None
    inside = _inside(telemetry, spans)
    settings = [each for each in device_findings(telemetry, inside) if each.cause in (LOCKED_CLOCK, LOWERED_LIMIT)]
    if settings:
        return Governor(cause=settings[0].cause, evidence=settings[0].evidence)
    governors: list[tuple[float, Governor]] = []
    for name, column in telemetry.columns.items():
        if not name.endswith("_throttle_reasons"):
            continue
        bits = column[inside & np.isfinite(column)].astype(np.int64)
        for bit, reason in THROTTLE_REASONS.items():
            share = float(np.mean((bits & bit) != 0)) if len(bits) else 0.0
            if share >= GOVERNED_SHARE:
                device = name.removesuffix("_throttle_reasons")
                evidence = f"{device}: active in {share:.0%} of {len(bits)} readings while counting"
                governors.append((share, Governor(cause=reason, evidence=evidence)))
    governors += _held_by_counters(telemetry, spans, {governor.cause for _, governor in governors})
    return max(governors, key=lambda pair: pair[0])[1] if governors else None


def _held_by_counters(telemetry: Telemetry, spans: Sequence[Span], seen: set[str]) -> list[tuple[float, Governor]]:
    """Limits by the driver's own time counters: readings ten times a second miss events that are shorter."""
    governors: list[tuple[float, Governor]] = []
    for name, column in telemetry.columns.items():
        device, _, kind = name.partition("_")
        if kind not in VIOLATIONS or VIOLATIONS[kind] in seen:
            continue
        held_ns = spanned_ns = 0.0
        for start_ns, end_ns in spans:
            known = (telemetry.at_ns >= start_ns) & (telemetry.at_ns <= end_ns) & np.isfinite(column)
            if known.sum() > 1:
                held_ns += max(float(column[known][-1] - column[known][0]), 0.0)
                spanned_ns += float(telemetry.at_ns[known][-1] - telemetry.at_ns[known][0])
        share = min(held_ns / spanned_ns, 1.0) if spanned_ns else 0.0
        if share >= GOVERNED_SHARE:
            evidence = f"{device}: clocks held down for {share:.0%} of {spanned_ns / 1e9:.1f} s by the driver's counter"
            governors.append((share, Governor(cause=VIOLATIONS[kind], evidence=evidence)))
    return governors


def _inside(telemetry: Telemetry, spans: Sequence[Span]) -> npt.NDArray[np.bool_]:
    inside = np.zeros(len(telemetry.at_ns), dtype=bool)
    for start_ns, end_ns in spans:
        inside |= (telemetry.at_ns >= start_ns) & (telemetry.at_ns <= end_ns)
    return inside


@dataclass(frozen=True, slots=True)
class _Spent:
    joules_per_unit: float
    seconds: float


def _process_energy(at_ns: Int64, counters: Sequence[Float64], process: CountedProcess) -> _Spent | None:
    start_ns, end_ns = counted_span_ns(process)
    inside = (at_ns >= start_ns) & (at_ns <= end_ns)
    each = [_of_counter(at_ns, counter, inside & np.isfinite(counter), process) for counter in counters]
    known = [part for part in each if part is not None]
    if len(known) < len(each):
        return None
    return _Spent(sum(part.joules_per_unit for part in known), min(part.seconds for part in known))


def _of_counter(at_ns: Int64, counter: Float64, read: npt.NDArray[np.bool_], process: CountedProcess) -> _Spent | None:
    """Between a counter's first and last reading: slow counters are read more rarely than the other columns."""
    stamps, readings = at_ns[read], counter[read]
    if len(stamps) < 2 or (stamps[-1] - stamps[0]) / 1e9 < SHORTEST_PART_S:
        return None
    rows = process.samples.iterations
    inside_ns = np.minimum(rows.end_ns, stamps[-1]) - np.maximum(rows.start_ns, stamps[0])
    # Iterations across an edge count in part.
    share = np.clip(inside_ns / np.maximum(rows.end_ns - rows.start_ns, 1), 0, 1)
    units = float((rows.units * share).sum())
    spent_j = float(readings[-1] - readings[0])
    if units <= 0 or spent_j <= 0:
        return None
    return _Spent(spent_j / units, float(stamps[-1] - stamps[0]) / 1e9)
