"""Hardware counters sampled beside a trace: how busy arithmetic and memory were, kernel by kernel. They decide.

A roofline from shapes says what a kernel must do at the least; a counter says what its units did. Where both are there,
the counter is the measurement.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FEWEST_SAMPLES = 3
"""Samples inside a kernel's runs before they are believed: sampling at 10 kHz falls into short kernels by chance."""
LEAST_BUSY = 0.05
"""Units below this share of their ceiling in all samples tell nothing about which of them binds."""

ARITHMETIC_WORDS = ("tensor active", "tensor pipe", "sm issue", "fp16 pipe", "fp32 pipe", "fma pipe", "alu pipe")
HALF_MEMORY_WORDS = ("dram read", "dram write")
MEMORY_WORDS = ("dram active", "dram bandwidth", "dram throughput")
"""Parts of metric names, in lower case, over the versions of Nsight Systems and NVML's GPM."""


Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Counted:
    """What the counters say of a kernel: mean shares over its samples."""

    arithmetic: float
    memory: float

    @property
    def arithmetic_binds(self) -> bool:
        """Whether arithmetic was nearer its ceiling than memory."""
        return self.arithmetic >= self.memory

    @property
    def reached(self) -> float:
        """How near the binding ceiling was."""
        return min(1.0, max(self.arithmetic, self.memory))


@dataclass(frozen=True, slots=True)
class Counters:
    """Samples in time order: shares of the arithmetic units' and of the memory's ceiling, 0 to 1."""

    at_ns: Int64
    arithmetic: Float64
    memory: Float64

    def __len__(self) -> int:
        return len(self.at_ns)

    def by_name(self, start_ns: Int64, dur_ns: Int64, name: npt.NDArray[np.int32]) -> dict[int, Counted]:
        """Samples dealt to the kernels they fell into (by the latest one begun), by the kernels' names."""
        if not len(start_ns) or not len(self):
            return {}
        at = np.searchsorted(start_ns, self.at_ns, side="right") - 1
        inside = (at >= 0) & (self.at_ns < start_ns[at] + dur_ns[at])
        of = name[at[inside]]
        number = np.bincount(of)
        arithmetic = np.bincount(of, weights=self.arithmetic[inside])
        memory = np.bincount(of, weights=self.memory[inside])
        by_name = {}
        for index in np.flatnonzero(number >= FEWEST_SAMPLES).tolist():
            means = Counted(float(arithmetic[index] / number[index]), float(memory[index] / number[index]))
            if means.reached >= LEAST_BUSY:
                by_name[index] = means
        return by_name


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """What was measured on kernels one by one, by their names."""

    of: Mapping[str, Counted]
    measured: int
    """Launches that were measured."""


def combine_metrics(series: Mapping[str, tuple[Int64, Float64]]) -> Counters | None:
    """Metrics by name (times, percent) to the two shares; None where arithmetic or memory was not sampled."""

    def named(words: tuple[str, ...]) -> list[tuple[Int64, Float64]]:
        return [samples for name, samples in series.items() if any(word in name.lower() for word in words)]

    arithmetic, memory, halves = named(ARITHMETIC_WORDS), named(MEMORY_WORDS), named(HALF_MEMORY_WORDS)
    if not arithmetic or not (memory or halves):
        return None
    at = arithmetic[0][0]
    busiest = np.max([np.interp(at, *samples) for samples in arithmetic], axis=0)
    # Reads and writes share one bus: their shares of it add up.
    combine, parts = (np.max, memory) if memory else (np.sum, halves)
    moved = combine([np.interp(at, *samples) for samples in parts], axis=0)
    return Counters(at, np.clip(busiest / 100.0, 0.0, 1.0), np.clip(moved / 100.0, 0.0, 1.0))
