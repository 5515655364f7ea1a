"""Telemetry held against itself: what its writer's own arithmetic excludes was changed by somebody.

Only what cannot come of an honest reading fails: the sampler's own clock, and the sums that it makes itself. What a
kernel, a driver or a container may get wrong on its own (more CPU time of a run than of its whole machine, more memory
in use than there is) is told as what it is, and accuses nobody.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lynxbench.measure.telemetry import read_stretches
from lynxbench.model.requests import Mask
from lynxbench.model.samples import Float64, Telemetry
from lynxbench.model.verification import Check, cannot, fails, holds

NAME = "telemetry"
WRITTEN_TO = 1e-6
"""Shares are written with nine digits."""
LONG_NS = 10_000_000_000
"""Over so long the ticks of 10 ms that CPU times come in are no thousandth."""
BEYOND = 0.05
"""By so much of a machine the CPU time of a run may exceed that of the whole, by clocks that are read in turn."""


def check_telemetry(file: Path) -> list[Check]:
    """A line on each thing that its columns contradict each other in, or one that they do not."""
    stretches = read_stretches(file)
    wrong = [problem for part in stretches for problem in _impossible(part)]
    if wrong:
        return [fails(NAME, wrong[0] if len(wrong) == 1 else f"{wrong[0]} (and {len(wrong) - 1} more)")]
    odd = next((line for part in stretches for line in _unlikely(part)), "")
    if odd:
        return [cannot(NAME, odd)]
    rows = sum(len(part.at_ns) for part in stretches)
    return [holds(NAME, f"{rows} readings, in the order of their clock, do not contradict each other")]


def _impossible(part: Telemetry) -> Iterator[str]:
    """What no sampler writes."""
    if len(part.at_ns) > 1 and np.diff(part.at_ns).min() <= 0:
        row = int(np.argmax(np.diff(part.at_ns) <= 0)) + 1
        yield f"its clock stands still or goes back at {part.at_ns[row]} ns"
    used, available, total = (_column(part, f"memory_{name}_bytes") for name in ("used", "available", "total"))
    yield from _first(part, np.abs(total - available - used) > 1, "used and available memory are not the total")
    busy, harness, foreign = (_column(part, f"cpu_busy{name}") for name in ("", "_harness", "_foreign"))
    own = np.nan_to_num(_column(part, "cpu_busy_own"), nan=0.0)
    left = np.maximum(busy - own - harness, 0.0)
    words = "cpu_busy_foreign is not what own load and lynxbench's leave of cpu_busy"
    yield from _first(part, np.abs(left - foreign) > WRITTEN_TO, words)


def _unlikely(part: Telemetry) -> Iterator[str]:
    """What is wrong somewhere, and perhaps in what was read."""
    for name in [name for name in part.columns if name.endswith("_memory_used_bytes")]:
        there = _column(part, name.replace("_used_", "_total_"))
        yield from _first(part, part.columns[name] > there, f"{name} is more than there is")
    for name in [name for name in part.columns if name.endswith("_energy_j")]:
        read = part.columns[name][np.isfinite(part.columns[name])]
        if len(read) > 1 and np.diff(read).min() < 0:
            yield f"{name}, which only grows, goes back"
    own, busy = _column(part, "cpu_busy_own"), _column(part, "cpu_busy")
    known = np.isfinite(own) & np.isfinite(busy)
    if not known.any() or np.ptp(part.at_ns[known]) < LONG_NS:
        return
    mine, whole = float(own[known].mean()), float(busy[known].mean())
    if mine > min(whole, 1.0) + BEYOND:
        yield (
            f"the run's own processes took {mine:.0%} of the machine, of which {whole:.0%} was busy: one of the two "
            "accounts is wrong, of a kernel or of whoever wrote it"
        )


def _column(part: Telemetry, name: str) -> Float64:
    return part.columns.get(name, np.full(len(part.at_ns), np.nan))


def _first(part: Telemetry, wrong: Mask, words: str) -> Iterator[str]:
    if wrong.any():
        yield f"{words} at {part.at_ns[int(np.argmax(wrong))]} ns"
