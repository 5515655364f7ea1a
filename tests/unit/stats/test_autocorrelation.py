"""Autocorrelation times against the exact ones of AR(1) processes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from lynxbench.errors import BadSeries
from lynxbench.stats.autocorrelation import (
    AT_ONCE,
    autocorrelation,
    effective_count,
    exceedance_time,
    exceedance_times,
    integrated_time,
)


def ar1(phi: float, count: int, seed: int = 0) -> np.ndarray:
    return np.asarray(lfilter([1.0], [1.0, -phi], np.random.default_rng(seed).standard_normal(count + 200))[200:])


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.9])
def test_integrated_time_of_ar1(phi: float) -> None:
    exact = (1 + phi) / (1 - phi)
    found = np.median([integrated_time(ar1(phi, 20_000, seed)) for seed in range(9)])
    assert found == pytest.approx(exact, rel=0.15)


def test_fft_agrees_with_the_definition() -> None:
    x = ar1(0.5, 100)
    centred = x - x.mean()
    direct = [float(centred[: x.size - k] @ centred[k:]) / float(centred @ centred) for k in range(x.size)]
    assert autocorrelation(x) == pytest.approx(direct, abs=1e-12)


@pytest.mark.parametrize("values", [[5.0] * 50, [0.1] * 1000, [0.0] * 10])
def test_constants_are_independent(values: list[float]) -> None:
    assert effective_count(values) == len(values)


def test_negative_correlation_earns_nothing() -> None:
    assert effective_count([1.0, -1.0] * 100) == 200


@pytest.mark.parametrize(("values", "count"), [([], 0.0), ([1.0], 1.0), ([1.0, 2.0], 2.0)])
def test_tiny_series(values: list[float], count: float) -> None:
    assert effective_count(values) == count


def test_nan_is_an_error() -> None:
    with pytest.raises(BadSeries, match="value 1 of the series is nan"):
        effective_count([1.0, float("nan")])
    with pytest.raises(BadSeries, match="one dimension"):
        effective_count(np.ones((2, 2)))


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.2, 0.8])
def test_exceedances_take_no_shorter_way_to_another_answer(phi: float) -> None:
    """Known published figures rest on this to the last bit: a rank is the next one where it differs at all."""
    rng = np.random.default_rng(3)
    shortened = 0
    for seed in range(150):
        values = ar1(phi, int(rng.integers(2, 120)), seed)
        for hits in {1, 2, int(rng.integers(1, values.size)), values.size - 1} - {values.size}:
            beyond = values > np.sort(values)[-hits - 1]
            expected = integrated_time(beyond.astype(np.float64))
            assert exceedance_time(beyond) == expected
            shortened += expected == 1.0
    assert shortened


@pytest.mark.parametrize("pattern", [[0, 1] * 20, [1, 1, 0, 0] * 9, [0] * 40 + [1], [1] + [0] * 40, [1] * 9 + [0] * 9])
def test_exceedances_in_patterns(pattern: list[int]) -> None:
    assert exceedance_time(np.array(pattern, dtype=bool)) == integrated_time(np.array(pattern, dtype=np.float64))


@pytest.mark.parametrize("phi", [-0.4, 0.0, 0.3, 0.8])
def test_exceedances_together_are_those_of_each_alone(phi: float) -> None:
    """Whatever is transformed with it: the same but for rounding, another in a row of many on some machines."""
    rng = np.random.default_rng(4)
    for seed in range(60):
        masks = []
        for number in range(int(rng.integers(1, 5))):
            values = ar1(phi, int(rng.integers(2, 300)), 10 * seed + number)
            hits = rng.integers(1, values.size, int(rng.integers(1, 7)))
            masks.append(values > np.sort(values)[values.size - 1 - hits][:, None])
        for together, rows in zip(exceedance_times(masks), masks, strict=True):
            assert together == pytest.approx([exceedance_time(row) for row in rows], rel=1e-12, abs=0)


def test_exceedances_of_long_series_are_not_laid_out_together() -> None:
    long = ar1(0.5, AT_ONCE // 4 + 1) > np.array([0.0, 1.0])[:, None]
    short = ar1(0.5, 50) > np.array([0.5])[:, None]
    assert exceedance_times([long, short]) == [[exceedance_time(row) for row in rows] for rows in (long, short)]
    assert exceedance_times([]) == []
