"""From what exporters showed of a node to telemetry that may be judged. Pure: kept readings and counted spans in.

An exporter looks at its devices when it likes (dcgm-exporter every 30 s unless told otherwise) and shows the same
values until it looks again. Only readings that moved on are readings; when they were taken is known to one such step.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.measure.device_conditions import known_values
from lynxbench.measure.run_conditions import Span
from lynxbench.measure.telemetry import join_telemetry
from lynxbench.model.activity import THROTTLE_REASONS
from lynxbench.model.node_record import NodeNotes, NodeQuantity, NodeRecord
from lynxbench.model.requests import Mask
from lynxbench.model.samples import Float64, Telemetry

ENERGY_EDGE = 0.05
"""Energy is the difference of two readings, each up to one step old: a step longer than this share of the span would
decide the figure's second digit."""
COVERED = 0.9
"""Less of the counted time with readings is said as a doubt."""
LATE = 3.0
"""Steps of the exporter's own after which a reading no longer speaks for now."""
DEVICE = re.compile(r"gpu\d+_")
ENERGY = "_energy_j"
SUMMED = re.compile(
    r"_(power_w|sm_clock_mhz|memory_clock_mhz|temperature_c|utilisation|memory_used_bytes)$|_(gpm|prof)_|^cpu_busy$|^cpu_steal$"
    r"|^load_1min$|^memory_used_bytes$|^cpu_clock_mhz$"
)
"""Columns whose level over the counted time stands in the result."""


@dataclass(frozen=True, slots=True)
class NodeTelemetry:
    """A node's readings on the run's clock: of its devices, of its host, and both together."""

    devices: Telemetry
    host: Telemetry
    step_ns: int
    """The usual time between two readings of the devices; how old one may be when it is seen."""
    record: NodeRecord

    @property
    def whole(self) -> Telemetry:
        """Both on one axis."""
        return in_order([self.devices, self.host])

    def spans(self, counted: Sequence[Span]) -> list[Span]:
        """Counted spans without their first step: what is seen there may be about what was before."""
        return [(start + self.step_ns, end) for start, end in counted if end > start + self.step_ns]


def in_order(parts: Sequence[Telemetry]) -> Telemetry:
    """Readings of several sources on one axis of time."""
    joined = join_telemetry([(part, 0) for part in parts if len(part.at_ns)])
    if joined is None:
        return Telemetry(np.empty(0, np.int64), {})
    order = np.argsort(joined.at_ns, kind="stable")
    return Telemetry(joined.at_ns[order], {name: column[order] for name, column in joined.columns.items()})


def node_telemetry(kept: Telemetry, seen: NodeNotes, counted: Sequence[Span]) -> NodeTelemetry:
    """Readings that moved on, shares made of counters, and what cannot be said of them."""
    spans = [span for span in counted if span[1] > span[0]]
    notes = [*seen.notes, *(_mixed_words(name) for name in seen.mixed)]
    kept = _without_mixed(kept, seen.mixed)
    devices, certain = _moved_on(_part(kept, devices=True))
    if len(devices.at_ns) and not certain:
        notes.append("no counter of energy is among the readings: whether an exporter repeats itself cannot be told")
    host = _with_shares(_part(kept, devices=False))
    steps_ns = np.diff(devices.at_ns)
    step_ns = int(np.median(steps_ns)) if len(steps_ns) else 0
    devices = _without_energy(devices, spans, step_ns, notes)
    host = _without_energy(host, spans, 0, notes)
    covered = _covered(devices, spans, step_ns)
    notes += _gaps(devices, spans, step_ns)
    node = NodeTelemetry(devices, host, step_ns, _empty_record(seen))
    record = _empty_record(seen).model_copy(
        update={
            "readings": len(devices.at_ns),
            "every_s": step_ns / 1e9 if step_ns else None,
            "covered": covered,
            "quantities": (*_quantities(devices, node.spans(spans)), *_quantities(host, spans)),
            "throttled": _throttled(devices, node.spans(spans)),
            "notes": tuple(dict.fromkeys(notes)),
        }
    )
    return NodeTelemetry(devices, host, step_ns, record)


def node_doubts(record: NodeRecord) -> list[str]:
    """What the contract asked to be watched and was not."""
    if record.covered >= COVERED:
        return []
    return [
        f"the node's telemetry covers {record.covered:.0%} of the counted time ({record.source}): clocks, power and "
        "limits of the server's devices are unknown for the rest"
    ]


def _empty_record(seen: NodeNotes) -> NodeRecord:
    return NodeRecord(
        source=seen.source,
        devices=seen.devices,
        readings=0,
        every_s=None,
        covered=0.0,
        skew_s=seen.skew_s,
        skew_bound_s=seen.skew_bound_s,
    )


def _mixed_words(name: str) -> str:
    return f"{name}: several answered under this name in turn (an address that is shared out?); none of it is used"


def _without_mixed(kept: Telemetry, mixed: Sequence[str]) -> Telemetry:
    def used(column: str) -> bool:
        device = DEVICE.match(column)
        return ("host" if device is None else device[0].removesuffix("_")) not in mixed

    return Telemetry(kept.at_ns, {name: column for name, column in kept.columns.items() if used(name)})


def _part(kept: Telemetry, *, devices: bool) -> Telemetry:
    """The columns of the devices or of the host, in the rows that have one."""
    columns = {name: column for name, column in kept.columns.items() if bool(DEVICE.match(name)) is devices}
    columns.pop("answered_s", None)
    if not columns:
        return Telemetry(kept.at_ns[:0], {})
    rows = np.any([np.isfinite(column) for column in columns.values()], axis=0)
    order = np.argsort(kept.at_ns[rows], kind="stable")
    return Telemetry(kept.at_ns[rows][order], {name: column[rows][order] for name, column in columns.items()})


def _moved_on(part: Telemetry) -> tuple[Telemetry, bool]:
    """The rows in which some device's energy counter differs from the row before; all where there is no counter."""
    counters = [column for name, column in part.columns.items() if name.endswith(ENERGY)]
    counters = [column for column in counters if np.isfinite(column).any()]
    if not counters:
        return part, False
    fresh = np.zeros(len(part.at_ns), dtype=bool)
    for column in counters:
        known = np.flatnonzero(np.isfinite(column))
        fresh[known[0]] = True
        fresh[known[1:][np.diff(column[known]) != 0]] = True
    return _rows(part, fresh), True


def _rows(part: Telemetry, chosen: Mask) -> Telemetry:
    return Telemetry(part.at_ns[chosen], {name: column[chosen] for name, column in part.columns.items()})


def _with_shares(host: Telemetry) -> Telemetry:
    """CPU seconds as shares since the reading before; a counter that went back says nothing of that step."""
    columns = dict(host.columns)
    total, free, steal = (columns.pop(f"cpu_{name}_s", None) for name in ("total", "free", "steal"))
    if total is not None and free is not None:
        spent, unused = _steps(total), _steps(free)
        columns["cpu_busy"] = np.where((spent > 0) & (unused >= 0) & (unused <= spent), 1 - unused / spent, np.nan)
        if steal is not None:
            stolen = _steps(steal)
            columns["cpu_steal"] = np.where((spent > 0) & (stolen >= 0) & (stolen <= spent), stolen / spent, np.nan)
    available, whole = columns.get("memory_available_bytes"), columns.get("memory_total_bytes")
    if available is not None and whole is not None:
        columns["memory_used_bytes"] = whole - available
    return Telemetry(host.at_ns, columns)


def _steps(column: Float64) -> Float64:
    """Growth since the last known value before; NaN where there is none."""
    grown = np.full(len(column), np.nan)
    known = np.flatnonzero(np.isfinite(column))
    grown[known[1:]] = np.diff(column[known])
    return np.where(grown == 0, np.nan, grown)


def _without_energy(part: Telemetry, spans: Sequence[Span], step_ns: int, notes: list[str]) -> Telemetry:
    """No energy of a counter that went back while counting, or of one that was read too rarely for these spans."""
    columns = dict(part.columns)
    shortest_ns = min((end - start for start, end in spans), default=0)
    for name in [name for name in columns if name.endswith(ENERGY)]:
        column = columns[name]
        for start, end in spans:
            known = known_values(column, (part.at_ns >= start) & (part.at_ns <= end))
            if len(known) > 1 and np.diff(known).min() < 0:
                notes.append(f"{name.removesuffix(ENERGY)}: its energy counter went back while counting: no energy")
                columns[name] = np.full(len(column), np.nan)
        if step_ns > ENERGY_EDGE * shortest_ns:
            columns[name] = np.full(len(column), np.nan)
            notes.append(
                f"no energy: the exporter looks every {step_ns / 1e9:.3g} s, the shortest counted stretch has "
                f"{shortest_ns / 1e9:.3g} s; it would be known to {step_ns / max(shortest_ns, 1):.0%} only"
            )
    return Telemetry(part.at_ns, columns)


def _reach_ns(step_ns: int) -> int:
    return int(LATE * max(step_ns, 1_000_000_000))


def _covered(devices: Telemetry, spans: Sequence[Span], step_ns: int) -> float:
    """The share of the counted time no longer after a reading than a few of the exporter's steps."""
    whole_ns = sum(end - start for start, end in spans)
    if not whole_ns or not len(devices.at_ns):
        return 0.0
    reach_ns, covered_ns = _reach_ns(step_ns), 0
    until_ns = np.minimum(devices.at_ns + reach_ns, np.r_[devices.at_ns[1:], devices.at_ns[-1] + reach_ns])
    for start, end in spans:
        covered_ns += int(np.maximum(np.minimum(until_ns, end) - np.maximum(devices.at_ns, start), 0).sum())
    return covered_ns / whole_ns


def _gaps(devices: Telemetry, spans: Sequence[Span], step_ns: int) -> list[str]:
    """Stretches of the counted time without a reading."""
    if not len(devices.at_ns):
        return ["no reading of a device came"]
    reach_ns, lines = _reach_ns(step_ns), []
    edges = np.r_[devices.at_ns, np.iinfo(np.int64).max]
    for place, (start, end) in enumerate(spans):
        stamps = np.r_[start, devices.at_ns[(devices.at_ns > start) & (devices.at_ns < end)], end]
        before = devices.at_ns[devices.at_ns <= start]
        stamps[0] = before[-1] if len(before) else start
        widest = int(np.diff(stamps).max())
        if widest <= reach_ns:
            continue
        at = int(np.argmax(np.diff(stamps)))
        last = not np.any(edges[:-1] > stamps[at])
        ended = "; none came after it" if last else ""
        lines.append(
            f"run {place + 1}: no new reading for {widest / 1e9:.1f} s, from {(stamps[at] - start) / 1e9:.1f} s "
            f"into its counted time{ended}"
        )
    return lines


def _mask(part: Telemetry, spans: Sequence[Span]) -> Mask:
    inside = np.zeros(len(part.at_ns), dtype=bool)
    for start, end in spans:
        inside |= (part.at_ns > start) & (part.at_ns <= end)
    return inside


def _quantities(part: Telemetry, spans: Sequence[Span]) -> list[NodeQuantity]:
    inside, quantities = _mask(part, spans), []
    for name, column in sorted(part.columns.items()):
        known = known_values(column, inside)
        if SUMMED.search(name) and len(known):
            low, mean, high = float(known.min()), float(known.mean()), float(known.max())
            quantities.append(NodeQuantity(column=name, low=low, mean=mean, high=high, readings=len(known)))
    return quantities


def _throttled(devices: Telemetry, spans: Sequence[Span]) -> dict[str, float]:
    inside, shares = _mask(devices, spans), {}
    for name, column in sorted(devices.columns.items()):
        bits = known_values(column, inside) if name.endswith("_throttle_reasons") else np.empty(0)
        for bit, reason in THROTTLE_REASONS.items() if len(bits) else ():
            share = float(np.mean((bits.astype(np.int64) & bit) != 0))
            if share > 0:
                shares[f"{name.removesuffix('_throttle_reasons')} {reason}"] = share
    return shares
