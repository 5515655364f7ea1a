"""A number with its interval and unit: how every figure stands in a document."""

from __future__ import annotations

from lynxbench.model.document import Document
from lynxbench.model.interval import Interval


class Figure(Document):
    """A number with its interval and unit."""

    low: float | None
    estimate: float | None
    high: float | None
    unit: str

    @property
    def interval(self) -> Interval:
        """The bare interval; missing bounds are NaN."""
        nan = float("nan")
        return Interval(*(nan if x is None else x for x in (self.low, self.estimate, self.high)))

    def scaled(self, factor: float, unit: str) -> Figure:
        """The same in another unit; what is missing stays missing."""
        low, estimate, high = (None if x is None else x * factor for x in (self.low, self.estimate, self.high))
        return Figure(low=low, estimate=estimate, high=high, unit=unit)
