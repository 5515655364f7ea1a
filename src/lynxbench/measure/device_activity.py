"""What the device's own counters say of the counted time. Pure: telemetry and counted spans in."""

from collections.abc import Sequence

import numpy as np

from lynxbench.measure.run_conditions import Span
from lynxbench.model.activity import DeviceActivity
from lynxbench.model.samples import Telemetry

UNITS = ("engine", "sm", "occupancy", "tensor", "fp32", "fp16", "dram")
FEWEST_READINGS = 5
"""Half a second at 10 Hz: fewer readings may all lie in one kind of kernel."""
SOURCE, EXPORTED = "NVML GPM", "DCGM profiling, by the node's exporter"


def device_activity(telemetry: Telemetry | None, spans: Sequence[Span], source: str = SOURCE) -> DeviceActivity | None:
    """Means over the readings whose whole interval was counted, of the busiest device; None where none were taken."""
    if telemetry is None or len(telemetry.at_ns) < 2:
        return None
    before_ns = np.r_[telemetry.at_ns[0], telemetry.at_ns[:-1]]
    inside = np.zeros(len(telemetry.at_ns), dtype=bool)
    for start_ns, end_ns in spans:
        inside |= (before_ns >= start_ns) & (telemetry.at_ns <= end_ns)  # a reading is about the time since the last
    devices = sorted({name.split("_gpm_")[0] for name in telemetry.columns if "_gpm_" in name})
    activities = [activity for device in devices if (activity := _mean(telemetry, device, inside, source)) is not None]
    return max(activities, key=lambda activity: activity.sm or 0.0, default=None)


def _mean(
    telemetry: Telemetry, device: str, inside: np.ndarray[tuple[int], np.dtype[np.bool_]], source: str
) -> DeviceActivity | None:
    means: dict[str, float] = {}
    samples = 0
    for unit in UNITS:
        column = telemetry.columns.get(f"{device}_gpm_{unit}")
        if column is None:
            continue
        known = column[inside & np.isfinite(column)]
        if len(known) >= FEWEST_READINGS:
            means[unit] = float(known.mean())
            samples = max(samples, len(known))
    return DeviceActivity(device=device, samples=samples, source=source, **means) if means else None
