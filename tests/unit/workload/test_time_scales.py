"""Dispersion by time scale against processes whose index of dispersion is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.model.workload import (
    Arrival,
    BurstArrival,
    ConstantArrival,
    GammaArrival,
    PoissonArrival,
    RampArrival,
)
from lynxbench.workload.time_scales import day_shape, dispersion, expected_dispersion, stamp_step_s


def made(**keys: object) -> Arrival:
    kinds = {
        "poisson": PoissonArrival,
        "gamma": GammaArrival,
        "constant": ConstantArrival,
        "bursts": BurstArrival,
        "ramp": RampArrival,
    }
    return kinds[str(keys["process"])].model_validate(keys)


def drawn(rng: np.random.Generator, process: str) -> np.ndarray:
    """20,000 s of five arrivals a second."""
    if process == "gamma":
        return np.cumsum(rng.gamma(1 / 1.8**2, 1.8**2 / 5, 100_000))
    if process == "constant":
        return np.arange(100_000) / 5
    if process == "bursts":
        return np.repeat(np.cumsum(rng.exponential(8 / 5, 12_500)), 8)
    if process == "ramp":
        return np.sqrt(np.sort(rng.random(100_000))) * 20_000
    return np.cumsum(rng.exponential(0.2, 100_000))


@pytest.mark.parametrize("scale_s", [1.0, 4.0, 16.0])
@pytest.mark.parametrize(
    "keys",
    [
        {"process": "poisson", "rate": "5 /s"},
        {"process": "gamma", "rate": "5 /s", "variation": 1.8},
        {"process": "constant", "rate": "5 /s"},
        {"process": "bursts", "rate": "5 /s", "size": 8},
        {"process": "ramp", "from": "0 /s", "to": "10 /s"},
    ],
    ids=lambda keys: str(keys["process"]),
)
def test_what_a_contract_is_expected_to_show_is_what_its_arrivals_show(keys: dict[str, object], scale_s: float) -> None:
    times = drawn(np.random.default_rng(7), str(keys["process"]))
    found = dispersion(times, float(times[-1]), scale_s)
    low, high = expected_dispersion(made(**keys), found.mean, 1)
    assert low == high
    assert found.mean == pytest.approx(5 * scale_s, rel=0.03)
    assert found.away(low, high) < 0.1
    assert found.away(low, high) < 4 * found.error(high) + 0.08


def test_turns_of_a_conversation_are_between_alone_and_together() -> None:
    assert expected_dispersion(made(process="poisson", rate="5 /s"), 10.0, 4) == (1.0, 4.0)


def test_a_scale_longer_than_half_the_log_has_no_dispersion() -> None:
    times = np.linspace(0, 100, 500)
    assert math.isnan(dispersion(times, 100.0, 64.0).index)
    assert dispersion(times, 100.0, 64.0).error(1.0) == math.inf


def test_years_of_arrivals_take_no_memory_of_empty_windows() -> None:
    times = np.sort(np.random.default_rng(1).uniform(0, 3e8, 2000))
    assert dispersion(times, 3e8, 1.0).index == pytest.approx(1.0, abs=0.01)


def test_the_step_of_coarse_stamps_and_the_hours_of_whole_days() -> None:
    times = np.sort(np.random.default_rng(2).uniform(0, 200_000, 20_000))
    assert stamp_step_s(times) == 0.0
    assert stamp_step_s(np.floor(times / 60) * 60) == 60.0
    assert day_shape(times[times < 80_000], 80_000.0) is None
    hours = day_shape(times, 200_000.0)
    assert hours is not None
    assert len(hours) == 24
    assert hours.sum() == np.count_nonzero(times < 2 * 86_400)
