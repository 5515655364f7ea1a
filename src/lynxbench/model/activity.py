"""How busy a device's units were while samples were counted, and what can hold its clock down, as it says itself."""

from lynxbench.model.document import Document

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

HARDWARE_SLOWDOWNS = 0x08 | 0x40 | 0x80
"""Of these, what the board does of its own accord, whatever the driver was told."""


class DeviceActivity(Document):
    """Mean shares of the time or of the most, 0 to 1, over the counted time; None where a unit was not read."""

    device: str
    samples: int
    sm: float | None = None
    """Streaming multiprocessors with work."""
    occupancy: float | None = None
    tensor: float | None = None
    fp32: float | None = None
    fp16: float | None = None
    dram: float | None = None
    """Of the memory's bandwidth."""
    source: str

    @property
    def arithmetic(self) -> float | None:
        """The busiest arithmetic unit."""
        known = [share for share in (self.tensor, self.fp32, self.fp16) if share is not None]
        return max(known, default=None)
