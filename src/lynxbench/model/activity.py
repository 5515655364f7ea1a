"""How busy the units of a device were while samples were counted, as its own counters saw it."""

from __future__ import annotations

from lynxbench.model.document import Document


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
        known = [one for one in (self.tensor, self.fp32, self.fp16) if one is not None]
        return max(known, default=None)
