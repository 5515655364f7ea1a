"""What can hold an accelerator's clock down, by the bit its driver reports."""

from __future__ import annotations

THROTTLE_REASONS: dict[int, str] = {
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""NVML's nvmlClocksEventReasons that hold a clock down against its will; an idle device, chosen application clocks and
sync boost do not count."""
