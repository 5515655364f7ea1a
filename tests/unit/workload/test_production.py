"""Fits to logs drawn from known laws recover those laws."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.model.samples import Float64, Int64
from lynxbench.model.workload import (
    ConstantArrival,
    EmpiricalLength,
    FixedLength,
    GammaArrival,
    LognormalLength,
    PoissonArrival,
    UniformLength,
)
from lynxbench.workload.lengths import sample_length
from lynxbench.workload.production import (
    arrival_burstiness,
    concurrency,
    fit_arrival,
    fit_length,
    fit_log,
    length_cdf,
    token_distance,
)
from lynxbench.workload.request_log import RequestLog

LOGNORMAL = LognormalLength(distribution="lognormal", median=300.0, sigma=0.9, low=1, high=4096)


def log_of(arrival_s: Float64, inputs: Int64 | None = None, durations: Float64 | None = None) -> RequestLog:
    tokens = np.full(len(arrival_s), 100) if inputs is None else inputs
    return RequestLog("log", arrival_s - arrival_s[0], tokens, tokens, durations, None, 0)


def gamma_arrivals(count: int, rate: float, variation: float, seed: int) -> Float64:
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.gamma(1 / variation**2, variation**2 / rate, count))


@pytest.mark.parametrize(
    "length",
    [
        FixedLength(distribution="fixed", value=37),
        UniformLength(distribution="uniform", low=10, high=400),
        LOGNORMAL,
        EmpiricalLength(distribution="empirical", values=(3, 3, 9, 200)),
    ],
)
def test_the_distribution_function_is_that_of_the_draws(length: LognormalLength) -> None:
    draws = np.array([sample_length(length, seed=1, index=index) for index in range(4000)])
    points = np.unique(np.quantile(draws, np.linspace(0, 1, 40), method="inverted_cdf"))
    drawn = np.searchsorted(np.sort(draws), points, side="right") / len(draws)
    assert np.abs(length_cdf(length, points) - drawn).max() < 0.03
    assert length_cdf(length, np.array([0]))[0] == 0.0
    assert length_cdf(length, np.array([1_000_000]))[0] == 1.0
    assert token_distance(length, draws) < 0.05


def test_one_length_is_fixed() -> None:
    assert fit_length(np.full(50, 128)).length == FixedLength(distribution="fixed", value=128)


def test_uniform_lengths_are_recovered() -> None:
    found = fit_length(np.random.default_rng(1).integers(50, 500, 3000, endpoint=True)).length
    assert isinstance(found, UniformLength)
    assert found.low == pytest.approx(50, abs=3)
    assert found.high == pytest.approx(500, abs=3)


@pytest.mark.parametrize(("median", "sigma", "high"), [(300.0, 0.9, 100_000), (300.0, 0.9, 600), (5.0, 0.7, 1000)])
def test_lognormal_lengths_are_recovered_even_when_cut_off(median: float, sigma: float, high: int) -> None:
    draws = np.round(median * np.exp(sigma * np.random.default_rng(2).standard_normal(12_000))).astype(np.int64)
    found = fit_length(draws[(draws >= 1) & (draws <= high)])
    assert isinstance(found.length, LognormalLength)
    assert found.length.median == pytest.approx(median, rel=0.06)
    assert found.length.sigma == pytest.approx(sigma, rel=0.06)
    assert found.tokens < 0.05


def test_two_kinds_of_requests_are_kept_as_they_were_recorded() -> None:
    rng = np.random.default_rng(3)
    draws = np.concatenate((rng.integers(10, 30, 3000), rng.integers(2000, 2100, 1000)))
    found = fit_length(draws)
    assert isinstance(found.length, EmpiricalLength)
    assert len(found.length.values) == 500
    assert found.ks < 0.01


def test_poisson_arrivals_are_recovered() -> None:
    found = [fit_arrival(log_of(gamma_arrivals(1500, 7.0, 1.0, seed))) for seed in range(20)]
    assert sum(isinstance(each.arrival, PoissonArrival) for each in found) >= 19
    assert np.mean([each.rate_per_s for each in found]) == pytest.approx(7.0, rel=0.03)
    assert not any(each.varies for each in found)


@pytest.mark.parametrize("variation", [0.5, 1.5, 3.0])
def test_bursty_and_even_arrivals_are_recovered(variation: float) -> None:
    found = fit_arrival(log_of(gamma_arrivals(20_000, 7.0, variation, 4))).arrival
    assert isinstance(found, GammaArrival)
    assert found.variation == pytest.approx(variation, rel=0.08)
    assert found.rate_per_s == pytest.approx(7.0, rel=0.06)


def test_a_clock_is_constant() -> None:
    found = fit_arrival(log_of(np.arange(500) * 0.25)).arrival
    assert isinstance(found, ConstantArrival)
    assert found.rate_per_s == pytest.approx(4.0)


def test_a_daily_cycle_is_noted_and_not_read_as_burstiness() -> None:
    rng = np.random.default_rng(5)
    times = np.sort(rng.uniform(0, 86_400, 60_000))
    kept = times[rng.random(len(times)) < 0.5 * (1 + 0.8 * np.sin(times / 86_400 * 2 * np.pi))]
    fitted = fit_log(log_of(kept))
    assert isinstance(fitted.arrival.arrival, PoissonArrival)
    assert fitted.arrival.varies
    assert any(note.startswith("the rate moves between") for note in fitted.notes)


def test_coarse_stamps_are_counted_instead() -> None:
    whole_seconds = np.floor(gamma_arrivals(20_000, 12.0, 1.0, 6))
    burst = arrival_burstiness(log_of(whole_seconds))
    assert burst.by == "counts"
    assert burst.variation == pytest.approx(1.0, abs=0.08)


def test_concurrency_is_littles_law() -> None:
    times = gamma_arrivals(20_000, 10.0, 1.0, 7)
    lasts = np.random.default_rng(8).exponential(0.5, 20_000)
    found = concurrency(log_of(times, durations=lasts))
    assert found is not None
    assert found.mean == pytest.approx(5.0, rel=0.03)
    assert 10 < found.peak < 30
    assert concurrency(log_of(times)) is None


def test_a_fit_says_what_it_leaves_out() -> None:
    times = gamma_arrivals(400, 5.0, 1.0, 9)
    outputs = np.full(400, 20)
    outputs[:7] = 0
    log = RequestLog("log", times - times[0], np.full(400, 100), outputs, None, np.arange(400) // 4, 3)
    fitted = fit_log(log)
    assert fitted.output is not None
    assert fitted.output.length == FixedLength(distribution="fixed", value=20)
    notes = " | ".join(fitted.notes)
    assert "7 of 400 requests have no output tokens" in notes
    assert "3 rows stood after a later arrival" in notes
    assert "sessions have 4.0 requests each" in notes
    assert all("\n" not in line for line in fitted.remarks())


def test_keys_are_written_as_a_contract_has_them() -> None:
    fitted = fit_log(log_of(gamma_arrivals(2000, 5.0, 2.0, 10), np.random.default_rng(1).integers(1, 50, 2000)))
    keys = fitted.workload_keys()
    assert keys["input_tokens"] == {"distribution": "uniform", "low": 1, "high": 49}
    arrival = keys["arrival"]
    assert isinstance(arrival, dict)
    assert arrival["process"] == "gamma"
    assert str(arrival["rate"]).endswith(" /s")
