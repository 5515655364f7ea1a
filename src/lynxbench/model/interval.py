"""An estimate never travels without its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A named result: low ≤ estimate ≤ high. NaN bounds mean that the data could not give one."""

    low: float
    estimate: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the distance between the bounds."""
        return (self.high - self.low) / 2

    @property
    def known(self) -> bool:
        """Whether all three numbers are finite."""
        return all(math.isfinite(x) for x in (self.low, self.estimate, self.high))

    def inside(self, low: float, high: float) -> bool:
        """Whether the whole interval lies in [low, high]; NaN lies nowhere."""
        return self.low >= low and self.high <= high

    def scaled(self, factor: float) -> Interval:
        """The same interval in another unit; a negative factor turns it around."""
        bounds = sorted((self.low * factor, self.high * factor))
        return Interval(bounds[0], self.estimate * factor, bounds[1])


UNKNOWN_INTERVAL = Interval(math.nan, math.nan, math.nan)
