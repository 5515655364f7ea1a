"""Phases are found in the series: a slow start is excluded, a steady tail counts, a drifting run has no steady part."""

from __future__ import annotations

import numpy as np

from lynxbench.measure.phases import busy_time, find_phases, rate_series
from lynxbench.model.contract import Protocol
from lynxbench.model.samples import Iterations, Phase

RULE = Protocol()


def iterations_of(seconds: np.ndarray, units: int = 10, gap_s: float = 0.0) -> Iterations:
    """Back-to-back iterations of the given lengths, with the same pause after each."""
    lasted_ns = (np.asarray(seconds) * 1e9).astype(np.int64)
    ends_ns = np.cumsum(lasted_ns + int(gap_s * 1e9)) - int(gap_s * 1e9)
    return Iterations(ends_ns - lasted_ns, ends_ns, np.full(len(lasted_ns), units, dtype=np.int64))


def _noisy(n: int, seed: int = 1, sigma: float = 0.01) -> np.ndarray:
    return 0.05 * np.exp(np.random.default_rng(seed).normal(0, sigma, n))


def test_a_flat_run_counts_nearly_everything() -> None:
    found = find_phases(iterations_of(_noisy(4000)), RULE)
    assert found.steady
    assert (found.phase == Phase.STEADY).mean() > 0.75


def test_a_slow_start_is_warm_up() -> None:
    seconds = _noisy(4000)
    seconds[:300] *= np.linspace(4, 1, 300)
    found = find_phases(iterations_of(seconds), RULE)
    assert found.steady
    assert (found.phase[:100] == Phase.WARMUP).all()
    assert not found.counted[:200].any()
    assert found.counted[-2000:].all()


def test_a_drifting_run_has_no_steady_iteration() -> None:
    seconds = _noisy(4000) * np.linspace(1, 1.06, 4000)
    found = find_phases(iterations_of(seconds), RULE)
    assert not found.steady
    assert not (found.phase == Phase.STEADY).any()
    assert found.counted.any()


def test_pauses_of_the_harness_leave_no_dip() -> None:
    iterations = iterations_of(_noisy(2000), gap_s=0.02)
    gapless = iterations_of(_noisy(2000))
    assert np.allclose(rate_series(iterations, 1.0).rate_per_s, rate_series(gapless, 1.0).rate_per_s)
    starts_ns, ends_ns = busy_time(iterations)
    assert ends_ns[-1] == (iterations.end_ns - iterations.start_ns).sum()
    assert np.array_equal(starts_ns[1:], ends_ns[:-1])


def test_long_iterations_are_their_own_windows() -> None:
    series = rate_series(iterations_of(np.full(20, 0.8), units=4), 1.0)
    assert len(series.rate_per_s) == 20
    assert np.allclose(series.rate_per_s, 5.0)


def test_windows_conserve_work() -> None:
    iterations = iterations_of(_noisy(1000))
    series = rate_series(iterations, 1.0)
    widths_s = np.diff(series.until_ns, prepend=0) / 1e9
    assert np.isclose((series.rate_per_s * widths_s).sum(), iterations.units.sum(), rtol=1e-6)
