"""Steps beside their rivals: the sums without a matrix are those with one, and each kind of motion is named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from lynxbench.model.history import Motion
from lynxbench.stats.wandering import CURVES, NOISES, _normal_equations, explain


@pytest.mark.parametrize(("phi", "theta"), [(0.0, 0.0), (0.5, 0.0), (0.9, 0.54), (1.0, 0.0), (1.0, 0.92)])
def test_sums_over_steps_are_those_of_the_whole_matrix(phi: float, theta: float) -> None:
    values = np.random.default_rng(1).standard_normal(50)
    starts = [0, 1, 12, 33]
    columns = [(np.arange(50) >= start).astype(float) for start in starts] + [np.linspace(-0.5, 0.5, 50), values]
    white = lfilter([1.0, -phi], [1.0, -theta], np.stack(columns))
    gram, moments, power = _normal_equations(values, starts, phi, theta)
    assert gram[:5, :5] == pytest.approx(white[:-1] @ white[:-1].T)
    assert moments[:5] == pytest.approx(white[:-1] @ white[-1])
    assert power == pytest.approx(float(white[-1] @ white[-1]))
    assert gram.shape == (len(starts) + CURVES[-1],) * 2


def test_a_step_in_noise_stays_and_is_measured() -> None:
    rng = np.random.default_rng(2)
    values = rng.standard_normal(200) + 4 * (np.arange(200) >= 90)
    explained = explain(values, [40, 90, 150])
    assert explained.places == (90,)
    assert explained.motion is Motion.LEVELS
    interval = explained.step(90).interval(0.99)
    assert interval.low < 4 < interval.high
    assert explained.step(1).p == 1, "at the very start nothing is known"


def test_a_line_takes_the_place_of_its_steps() -> None:
    rng = np.random.default_rng(3)
    explained = explain(rng.standard_normal(200) + np.linspace(0, 12, 200), [50, 100, 150])
    assert explained.places == ()
    assert explained.motion is Motion.DRIFT
    interval = explained.slope.interval(0.99)
    assert interval.low < 12 < interval.high
    assert interval.half_width < 2


def test_a_walk_takes_the_place_of_its_steps() -> None:
    rng = np.random.default_rng(4)
    explained = explain(np.cumsum(rng.standard_normal(300)), [50, 100, 150, 200, 250])
    assert explained.places == ()
    assert explained.motion is Motion.WANDERING


def test_no_candidate_is_an_explanation_too() -> None:
    explained = explain(np.random.default_rng(5).standard_normal(60), [])
    assert explained.places == ()
    assert (explained.phi, explained.theta) in NOISES


@pytest.mark.parametrize("levels", [(10, 11), (10, 11, 10), (1, 2, 3), (3.3, 3.1), (1e6, 1e6 + 1)])
@pytest.mark.parametrize("length", [8, 20, 61])
def test_levels_without_noise_do_not_wander_as_well(levels: tuple[float, ...], length: int) -> None:
    """Found: `1 change`, and `wandering, in no step`: rounding chose among models that all fit exactly."""
    values = np.repeat(np.array(levels, dtype=float), length)
    explained = explain((values - values.mean()) / np.ptp(values), [length * place for place in range(1, len(levels))])
    assert explained.motion is Motion.LEVELS
    assert len(explained.places) == len(levels) - 1
