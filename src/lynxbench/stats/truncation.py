"""Where the warm-up ends: MSER-5 (White 1997; Franklin & White 2008)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lynxbench.stats.arrays import Floats

MSER_BATCH = 5
MIN_BATCHES = 12  # fewer batches than this and the batches shrink, down to single points
SPARED_END = 5  # batches at the end that are no candidates: the statistic is unstable there (White 1997)
LATEST = 0.5  # of the run: a truncation point beyond half of it means that the run had not settled


@dataclass(frozen=True, slots=True)
class Truncation:
    """How many points to leave out, within half of the run, and where the unconstrained rule would have cut."""

    points: int
    wanted: int

    @property
    def late(self) -> bool:
        """Whether the rule wanted to cut beyond half of the run."""
        return self.wanted > self.points


def mser(values: Floats) -> Truncation:
    """The cut that minimises the squared standard error of what is left, on batch means."""
    batch = max(1, min(MSER_BATCH, values.size // MIN_BATCHES))
    count = values.size // batch
    if count < 4:
        return Truncation(0, 0)
    # The batches end with the last point, so that no recent point is left out.
    means = values[values.size - count * batch :].reshape(count, batch).mean(axis=1)
    centred = means - means.mean()
    left = np.arange(count, 0, -1, dtype=np.float64)
    tail_sum = np.cumsum(centred[::-1])[::-1]
    tail_squares = np.cumsum((centred * centred)[::-1])[::-1]
    error = np.maximum(tail_squares - tail_sum**2 / left, 0.0) / left**2
    candidates = max(1, count - min(SPARED_END, count // 3))
    half = int(count * LATEST)
    wanted = int(np.argmin(error[:candidates]))
    within = int(np.argmin(error[: min(candidates, half + 1)]))
    lead = values.size - count * batch

    def points(cut: int) -> int:
        return cut * batch + lead if cut else 0

    return Truncation(points(within), points(wanted))
