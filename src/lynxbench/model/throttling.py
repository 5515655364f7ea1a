"""What can hold an accelerator's clock down, by the bit its driver reports."""

from __future__ import annotations

POWER_CAP = 0x04
THERMAL = 0x20
THROTTLE_REASONS: dict[int, str] = {
    POWER_CAP: "software power cap",
    0x08: "hardware slowdown",
    THERMAL: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""NVML's nvmlClocksEventReasons that hold a clock down against its will; an idle device, chosen application clocks and
sync boost do not count."""
