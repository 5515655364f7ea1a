"""How busy a device's units were while samples were counted, and what can hold its clock down, as it says itself."""

from lynxbench.model.document import Document
from lynxbench.model.figures import Figure

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

WALL_STEP = "wall_clock_step_s"
"""Telemetry's column: how far the time of day moved against the clock of the samples since the reading before."""


class EnergyBeside(Document):
    """Whose energy a result's figure is, and what drew beside it. Figures of their own: nothing here is added up."""

    devices: tuple[str, ...]
    """Those of the figure: the run's own, as telemetry names them (`gpu0`, `package`)."""
    how: str
    """How they are known to be its own."""
    package_j_per_unit: Figure | None
    """All processor packages of the machine, whoever used them."""
    other_devices: tuple[str, ...]
    other_devices_j_per_unit: Figure | None
    """Accelerators that the run did not use, idle or others': what a machine of its own would have cost beside."""


class DeviceActivity(Document):
    """Mean shares of the time or of the most, 0 to 1, over the counted time; None where a unit was not read."""

    device: str
    samples: int
    engine: float | None = None
    """With any work at all; not known to earlier versions."""
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
