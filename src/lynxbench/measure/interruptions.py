"""What broke into a measurement: stalls, a clock that was set, telemetry that stopped. Pure: evidence in, reasons out.

A figure can look orderly although the process stood still for a part of it, or nobody watched. None of this makes a
figure wrong by itself; it makes it one that cannot be used without a second look.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from lynxbench.measure.device_conditions import known_values
from lynxbench.model.activity import WALL_STEP
from lynxbench.model.figures import Figure
from lynxbench.model.requests import Mask
from lynxbench.model.samples import CountedProcess, Float64, Int64, Telemetry

LONG = 10.0
"""An iteration of this many times the median is not one of the same kind."""
STANDSTILL_S = 0.5
"""A crowded machine holds a process up for tenths of a second, which foreign load tells; as long as this inside an
iteration, or between two where the harness does next to nothing, it stood still."""
RARE = 10
"""More long iterations than this in all belong to the work (a checkpoint every hundred steps); restarts show them."""
FEWER = 0.1
"""A process that counted less than this share of the others' iterations did not measure the same."""
WIDEST = 10.0
"""An interval from a figure to ten times it does not tell the order of magnitude."""
CLOCK_STEP_S = 1.0
"""Clocks are kept by changing their speed by less than 0.1 %; a step of a second is somebody's doing, or a sleep."""
LONGEST_PAUSE_S = 2.0
"""Readings come five to ten times a second; on a crowded machine they are late, but not by this."""
UNWATCHED_SHARE = 0.05


def judge_iterations(processes: Sequence[CountedProcess], bound: float) -> Iterator[str]:
    """Doubts that iterations one after another raise; `bound` is how far the contract lets a figure drift."""
    yield from _stalls(processes, bound)
    yield from _standstills(processes, bound)


def judge_agreement(processes: Sequence[CountedProcess], throughput: Figure) -> Iterator[str]:
    """Doubts that processes raise which differ beyond any noise."""
    counts = np.array([int(process.counted.sum()) for process in processes])
    few = np.flatnonzero(counts < FEWER * np.median(counts))
    for place in few.tolist():
        yield (
            f"process {processes[place].samples.process} counted {counts[place]} iterations where the others counted "
            f"about {np.median(counts):.0f}"
        )
    low, high = throughput.low, throughput.high
    if low is not None and high is not None and high > WIDEST * max(low, 0.0):
        ratio = high / low if low > 0 else math.inf
        factor = f"a factor of {ratio:,.0f}" if ratio < 1e6 else "more than a millionfold"
        yield f"the interval of the mean spans {factor}: the processes do not agree on the order of magnitude"


def judge_watch(
    telemetry: Telemetry, counted: Sequence[tuple[int, int]], longest_s: float = LONGEST_PAUSE_S
) -> Iterator[str]:
    """Doubts that the telemetry itself raises: it has gaps where samples were counted, or the clock was set."""
    watched = telemetry.at_ns[_readable(telemetry)]
    counted_s = sum(end - start for start, end in counted) / 1e9
    gaps_s = np.concatenate([_pauses_s(watched, span, longest_s) for span in counted]) if counted else np.empty(0)
    if gaps_s.sum() > UNWATCHED_SHARE * counted_s:
        yield (
            f"telemetry has gaps: {gaps_s.sum():.1f} of {counted_s:.1f} s counted went by without a reading (longest "
            f"{gaps_s.max():.1f} s); foreign load, clocks and memory are unknown then"
        )
    steps = known_values(telemetry.columns.get(WALL_STEP))
    for step in steps[np.abs(steps) > CLOCK_STEP_S]:
        yield (
            f"the time of day moved by {step:+.0f} s against the clock of the samples: it was set, or the machine was "
            "asleep; when this was measured is not known"
        )


def _stalls(processes: Sequence[CountedProcess], bound: float) -> Iterator[str]:
    """Single iterations so long that the mean hangs on how many of them happened to fall into the run.

    A sum of rare events is known to the root of the sum of their squares; twice that is held against the bound.
    """
    seconds = [process.samples.iterations.seconds[process.counted] for process in processes if process.counted.any()]
    if not seconds:
        return
    long_s = np.concatenate([each[each > max(LONG * np.median(each), STANDSTILL_S)] for each in seconds])
    counted_s = sum(float(each.sum()) for each in seconds)
    if 0 < len(long_s) <= RARE and 2 * math.sqrt(float(np.sum(long_s**2))) > bound * counted_s:
        count = "one iteration" if len(long_s) == 1 else f"{len(long_s)} iterations"
        yield (
            f"stalls: {count} took more than {LONG:g} times the median (longest {long_s.max():.2f} s) and "
            f"{long_s.sum() / counted_s:.1%} of the counted time: the mean hangs on them"
        )


def _standstills(processes: Sequence[CountedProcess], bound: float) -> Iterator[str]:
    """Time between counted iterations, which no figure contains."""
    pauses: list[Float64] = []
    counted_s = 0.0
    for process in processes:
        rows = np.flatnonzero(process.counted)
        iterations = process.samples.iterations
        counted_s += float(iterations.seconds[rows].sum())
        pauses.append((iterations.start_ns[rows[1:]] - iterations.end_ns[rows[:-1]]) / 1e9)
    between_s = np.concatenate(pauses) if pauses else np.empty(0)
    still_s = between_s[between_s > STANDSTILL_S]
    if still_s.sum() > bound * counted_s:
        yield (
            f"standstill: the process did nothing for {still_s.sum():.1f} s between counted iterations (longest "
            f"{still_s.max():.1f} s); it was stopped, or the machine was"
        )


def _readable(telemetry: Telemetry) -> Mask:
    """Readings that tell anything of foreign load; all of them where none does (a doubt of its own)."""
    foreign = telemetry.columns.get("cpu_busy_foreign")
    known = np.zeros(len(telemetry.at_ns), bool) if foreign is None else np.isfinite(foreign)
    return known if known.any() else np.ones(len(telemetry.at_ns), bool)


def _pauses_s(watched: Int64, span: tuple[int, int], longest_s: float) -> Float64:
    """Stretches of a span without a reading that are too long to be mere lateness."""
    inside = watched[(watched > span[0]) & (watched <= span[1])]
    pauses_s = np.diff(np.r_[span[0], inside, span[1]]) / 1e9
    return np.asarray(pauses_s[pauses_s > longest_s])
