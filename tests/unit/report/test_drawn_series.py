"""Binning for drawing conserves work and time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lynxbench.model.samples import CountedProcess, Iterations, Marks, Phase, ProcessSamples, Telemetry
from lynxbench.report.drawn_series import (
    MOST_BINS,
    counted_ms,
    histogram,
    latency_track,
    process_spans,
    rate_series,
    throttle_tracks,
    tracks,
)
from report_samples import process as counted_process

NOTHING = np.zeros(0, dtype=np.int64)


def process(durations_ms: list[float], phases: list[int], units: int = 10) -> CountedProcess:
    edges = (np.concatenate([[0.0], np.cumsum(durations_ms)]) * 1e6 + 2e9).astype(np.int64)
    iterations = Iterations(edges[:-1], edges[1:], np.full(len(durations_ms), units, dtype=np.int64))
    samples = ProcessSamples(0, "fp32", (0, 2_000_000_000), None, iterations, Marks(NOTHING, NOTHING))
    return CountedProcess(samples, np.array(phases, dtype=np.int8))


def test_a_constant_rate_is_drawn_constant_although_iterations_are_longer_than_windows() -> None:
    one = rate_series(process([2500.0] * 8, [Phase.STEADY] * 8), 1.0)
    assert one.per_s == pytest.approx(4.0)
    assert one.window_s == 1.0
    assert one.at_s[0] == pytest.approx(2.5)


def test_work_is_conserved() -> None:
    random = np.random.default_rng(3)
    durations = list(random.uniform(5, 80, 400))
    one = rate_series(process(durations, [Phase.STEADY] * 400), 0.25)
    covered = len(one.at_s) * one.window_s
    assert float(one.per_s.sum()) * one.window_s == pytest.approx(4000 * covered / (sum(durations) / 1e3), rel=0.02)


def test_long_runs_are_thinned() -> None:
    one = rate_series(process([1000.0] * 3000, [Phase.STEADY] * 3000), 1.0)
    assert len(one.at_s) <= MOST_BINS + 1
    assert one.per_s == pytest.approx(10.0)


def test_phases_become_spans() -> None:
    one = rate_series(process([1000.0] * 6, [2, 2, 3, 4, 4, 4]), 1.0)
    assert [(span.phase, span.start_s, span.end_s) for span in one.spans] == [
        (Phase.SETUP, 0.0, 2.0),
        (Phase.WARMUP, 2.0, 4.0),
        (Phase.TRANSIENT, 4.0, 5.0),
        (Phase.STEADY, 5.0, 8.0),
    ]


def test_without_a_steady_state_all_after_warm_up_is_counted() -> None:
    drifting = process([900.0, 10.0, 11.0], [2, 3, 3])
    assert counted_ms(drifting, "latency") == pytest.approx([10.0, 11.0])
    assert [span.counted for span in rate_series(drifting, 1.0).spans] == [False, False, True]
    settled = process([900.0, 10.0, 11.0], [2, 3, 4])
    assert [span.counted for span in rate_series(settled, 1.0).spans] == [False, False, False, True]


def test_an_empty_process_draws_nothing() -> None:
    one = rate_series(process([], []), 1.0)
    assert len(one.at_s) == 0
    assert one.length_s == 2.0


def test_only_counted_samples_enter_the_histogram() -> None:
    counted = counted_ms(process([900.0, 10.0, 11.0], [2, 4, 4]), "latency")
    assert counted == pytest.approx([10.0, 11.0])
    found = histogram([counted], "latency")
    assert found is not None
    assert (found.total, found.counts.sum() + found.beyond) == (2, 2)
    assert histogram([np.zeros(0)], "latency") is None


def test_token_times_do_not_cross_iterations(build) -> None:
    one = counted_process(0, "fp32", rate=20.0, seconds=20, start_ns=0, tokens=4)
    counted = int((one.phase == Phase.STEADY).sum())
    assert len(counted_ms(one, "time-per-token")) == counted * 3
    assert len(counted_ms(one, "time-to-first-token")) == counted
    assert counted_ms(one, "time-per-token").max() < 0.5 * 1e3


def test_identical_samples_still_have_a_histogram() -> None:
    found = histogram([np.full(50, 3.0)], "latency")
    assert found is not None
    assert found.counts.sum() + found.beyond == 50


def test_telemetry_is_thinned_and_silent_columns_are_left_out(build) -> None:
    read = tracks(build.telemetry(2000.0))
    assert "cpu_temperature_c" not in {track.name for track in read}
    assert all(len(track.values) <= MOST_BINS for track in read)
    assert tracks(Telemetry(NOTHING, {})) == ()


def test_throttle_masks_are_split_into_reasons(build) -> None:
    found = throttle_tracks(build.telemetry(100.0, gpu=True))
    assert [track.name for track in found] == ["gpu0 software power cap", "gpu0 software thermal slowdown"]
    assert [float(track.values.mean()) for track in found] == pytest.approx([0.65, 0.2], abs=0.02)
    assert throttle_tracks(build.telemetry(100.0)) == ()


def test_processes_are_placed_on_the_telemetrys_clock(build) -> None:
    spans = process_spans(build.processes(), build.telemetry())
    assert [span.precision for span in spans] == ["fp32", "int8"] * 3
    assert spans[0].start_s == 0.0
    assert all(a.end_s < b.start_s for a, b in itertools.pairwise(spans))


def test_latencies_are_medians_of_their_windows_and_first_tokens_come_from_marks() -> None:
    slow_once = process([100.0] * 13 + [900.0] + [100.0] * 16 + [300.0] * 10, [Phase.STEADY] * 40)
    track = latency_track(slow_once, "latency", 1.0)
    assert track is not None
    assert set(np.round(track.values[:3])) == {100.0}, "one that is slow moves no median"
    assert track.values[-1] == pytest.approx(300.0)
    assert latency_track(slow_once, "time-to-first-token", 1.0) is None
    it = slow_once.samples.iterations
    marks = Marks(np.arange(40).repeat(2), np.stack([it.start_ns + 30_000_000, it.start_ns + 60_000_000], 1).ravel())
    told = ProcessSamples(0, "fp32", (0, 2_000_000_000), None, it, marks)
    first = latency_track(CountedProcess(told, slow_once.phase), "time-to-first-token", 1.0)
    assert first is not None
    assert first.values == pytest.approx(30.0)
    assert np.all(np.diff(first.at_s) > 0)
