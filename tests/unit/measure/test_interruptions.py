"""Stalls, standstills, gaps and clock steps planted in made evidence; and what must not be taken for one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lynxbench.measure.interruptions import judge_agreement, judge_iterations, judge_watch
from lynxbench.model.activity import WALL_STEP
from lynxbench.model.figures import Figure
from lynxbench.model.samples import CountedProcess, Iterations, Marks, Phase, ProcessSamples, Telemetry

SECOND = 10**9
BOUND = 0.05


def process(
    *,
    typical_s: float = 0.02,
    rows: int = 1000,
    stalls: dict[int, float] | None = None,
    gaps: dict[int, float] | None = None,
    index: int = 0,
    sigma: float = 0.05,
) -> CountedProcess:
    """Iterations one after another; `stalls` are seconds inside a row, `gaps` seconds before one."""
    rng = np.random.default_rng(index)
    seconds = typical_s * np.exp(rng.normal(0, sigma, rows))
    pauses = np.full(rows, 1e-5)
    for row, length in (stalls or {}).items():
        seconds[row] += length
    for row, length in (gaps or {}).items():
        pauses[row] += length
    ends = np.cumsum(((seconds + pauses) * 1e9).astype(np.int64))
    starts = ends - (seconds * 1e9).astype(np.int64)
    none = np.empty(0, np.int64)
    iterations = Iterations(starts, ends, np.ones(rows, np.int64))
    samples = ProcessSamples(index, "fp32", (-SECOND, 0), None, iterations, Marks(none, none))
    return CountedProcess(samples, np.full(rows, Phase.STEADY, np.int8))


def watched(seconds: float, *, without: tuple[float, float] = (0, 0), **columns: np.ndarray) -> Telemetry:  # type: ignore[type-arg]
    """Readings five times a second, but for a stretch."""
    at_s = np.arange(0.2, seconds, 0.2)
    kept = (at_s <= without[0]) | (at_s >= without[1])
    full = {"cpu_busy_foreign": np.zeros(len(at_s)), **columns}
    return Telemetry((at_s[kept] * 1e9).astype(np.int64), {name: column[kept] for name, column in full.items()})


def test_an_undisturbed_run_gives_no_reason() -> None:
    processes = [process(index=index) for index in range(3)]
    assert list(judge_iterations(processes, BOUND)) == []
    assert list(judge_agreement(processes, Figure(low=49, estimate=50, high=51, unit="calls/s"))) == []
    assert list(judge_watch(watched(60), [(0, 30 * SECOND), (30 * SECOND, 59 * SECOND)])) == []


@pytest.mark.parametrize(
    ("stalls", "words"),
    [
        ({400: 10.0}, "one iteration took more than 10 times the median (longest 10.0"),
        ({0: 3.0}, "one iteration"),
        ({999: 3.0}, "one iteration"),
        ({100: 2.0, 500: 2.0, 900: 2.0}, "3 iterations"),
    ],
)
def test_a_stopped_process_is_a_stall(stalls: dict[int, float], words: str) -> None:
    (line,) = judge_iterations([process(stalls=stalls), process(index=1), process(index=2)], BOUND)
    assert line.startswith("stalls: ")
    assert words in line


@pytest.mark.parametrize(
    "undisturbed",
    [
        process(stalls={500: 0.3}, rows=3000),  # held up for a moment: foreign load's to tell
        process(stalls={500: 1.0}, rows=6000),  # under the bound of what the contract lets a figure drift
        process(sigma=0.8),  # inputs of very different length
        process(typical_s=2.0, rows=30, stalls={7: 6.0}),  # slow steps: a long one is not ten times the median
        process(stalls=dict.fromkeys(range(0, 6000, 60), 0.6), rows=6000),  # a checkpoint every sixty steps
        process(rows=1),
    ],
)
def test_what_belongs_to_the_work_is_no_stall(undisturbed: CountedProcess) -> None:
    assert list(judge_iterations([undisturbed], BOUND)) == []


def test_time_between_iterations_is_a_standstill() -> None:
    (line,) = judge_iterations([process(gaps={300: 8.0})], BOUND)
    assert line.startswith("standstill: the process did nothing for 8.0 s between counted iterations")
    assert list(judge_iterations([process(gaps={300: 0.4})], BOUND)) == []


def test_what_is_not_counted_is_not_held_against_it() -> None:
    started_badly = process(stalls={3: 20.0})
    phase = started_badly.phase.copy()
    phase[:50] = Phase.WARMUP
    assert list(judge_iterations([replace(started_badly, phase=phase)], BOUND)) == []
    nothing = replace(started_badly, phase=np.full(1000, Phase.WARMUP, np.int8))
    assert list(judge_iterations([nothing], BOUND)) == []


@pytest.mark.parametrize(
    ("low", "high", "words"), [(0.0, 24_657_470.0, "more than a millionfold"), (5, 80, "a factor of 16")]
)
def test_an_interval_without_an_order_of_magnitude(low: float, high: float, words: str) -> None:
    (line,) = judge_agreement([process(), process(index=1)], Figure(low=low, estimate=50, high=high, unit="calls/s"))
    assert words in line


def test_wide_and_missing_intervals_are_not_absurd() -> None:
    for low, high in ((30.0, 90.0), (None, None)):
        assert list(judge_agreement([process()], Figure(low=low, estimate=50, high=high, unit="calls/s"))) == []


def test_a_process_that_counted_next_to_nothing() -> None:
    processes = [process(), process(index=1), process(index=7, rows=12)]
    (line,) = judge_agreement(processes, Figure(low=49, estimate=50, high=51, unit="calls/s"))
    assert line == "process 7 counted 12 iterations where the others counted about 1000"


@pytest.mark.parametrize("without", [(20.0, 61.0), (0.0, 10.0), (30.0, 34.0)])
def test_telemetry_that_stopped_begins_late_or_pauses(without: tuple[float, float]) -> None:
    (line,) = judge_watch(watched(60, without=without), [(0, 59 * SECOND)])
    assert line.startswith("telemetry has gaps: ")


def test_readings_that_failed_are_gaps_too() -> None:
    foreign = np.zeros(len(np.arange(0.2, 60, 0.2)))
    foreign[100:] = np.nan
    (line,) = judge_watch(watched(60, cpu_busy_foreign=foreign), [(0, 59 * SECOND)])
    assert "39." in line


def test_a_short_pause_or_one_outside_the_counted_time_is_no_gap() -> None:
    assert list(judge_watch(watched(60, without=(20, 21.5)), [(0, 59 * SECOND)])) == []
    assert list(judge_watch(watched(60, without=(20, 40)), [(0, 20 * SECOND), (40 * SECOND, 59 * SECOND)])) == []
    assert list(judge_watch(watched(60, without=(20, 40)), [])) == []


@pytest.mark.parametrize(("step", "words"), [(-3600.0, "-3600 s"), (86_400.0, "+86400 s"), (-2.0, "-2 s")])
def test_a_clock_that_was_set_is_told(step: float, words: str) -> None:
    steps = np.zeros(len(np.arange(0.2, 60, 0.2)))
    steps[123] = step
    (line,) = judge_watch(watched(60, **{WALL_STEP: steps}), [(0, 59 * SECOND)])
    assert words in line
    steps[123] = 0.2
    assert list(judge_watch(watched(60, **{WALL_STEP: steps}), [(0, 59 * SECOND)])) == []
