"""The range of a gain: it holds the promised share of cases like those it was calibrated on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.attribute.judge.gain_range import calibrate, error_of, first_met, predict_range, recorded
from lynxbench.model.result import RULES


@pytest.mark.parametrize("cases", [19, 39, 99])
def test_nine_in_ten_of_the_next_cases_lie_between_calibrated_errors(cases: int) -> None:
    """Heavy-tailed and skewed errors: the promise is about ranks, not about a shape."""
    draws = np.random.default_rng(17)
    held = []
    for _ in range(400):
        errors = draws.standard_t(3, cases + 20) + draws.exponential(1.0, cases + 20)
        low, high = calibrate(errors[:cases].tolist())
        held.append(np.mean((errors[cases:] >= low) & (errors[cases:] <= high)))
    assert np.mean(held) == pytest.approx(0.9, abs=0.03) if cases > 19 else np.mean(held) >= 0.87


def test_few_cases_give_the_outermost_errors() -> None:
    assert calibrate([0.3, -0.2, 0.1]) == (-0.2, 0.3)


@given(st.floats(1.0, 1e4))
def test_a_range_holds_its_estimate_and_is_never_a_loss(gain: float) -> None:
    found = predict_range(gain)
    assert 1.0 <= found.low <= found.estimate <= found.high
    assert found.estimate == pytest.approx(gain)


@given(st.floats(1.05, 1e3), st.floats(1.05, 1e3))
def test_the_range_widens_with_what_is_removed(one: float, other: float) -> None:
    small, large = (predict_range(gain) for gain in sorted((one, other)))
    assert small.high / small.estimate <= large.high / large.estimate + 1e-9


def test_an_error_is_read_back_from_the_scale_it_is_counted_in() -> None:
    assert error_of(4.0, 4.0) == 0.0
    assert 4.0 * math.exp(error_of(4.0, 6.0) * 0.75) == pytest.approx(6.0)
    assert abs(error_of(1.01, 1.02)) < abs(math.log(1.02 / 1.01)) / 0.01, "two timings differ however little is removed"


@pytest.mark.parametrize("edition", [4, 5, 6, 7])
def test_the_recorded_cases_lie_in_their_own_ranges(edition: int) -> None:
    cases = recorded(edition)
    errors = [case.get("error", error_of(case["estimated"], case["true"])) for case in cases.values()]
    low, high = calibrate(errors)
    assert len(cases) >= 19, "fewer cases carry no range of nine in ten"
    assert np.mean([low <= error <= high for error in errors]) >= 0.9


def test_an_edition_keeps_the_range_that_its_results_were_printed_with() -> None:
    assert recorded(4) != recorded(5) != recorded(6) != recorded(7)
    assert recorded(8) == recorded(7), "an edition without cases of its own has those before it"
    assert predict_range(4.0, 4) != predict_range(4.0, 5)


@given(st.floats(1.0, 1e3))
def test_level_causes_have_a_range_of_their_own_that_holds_the_clear_ones(gain: float) -> None:
    clear, level = predict_range(gain, 7), predict_range(gain, 7, level=True)
    assert level.low <= clear.low
    assert level.high >= clear.high
    assert predict_range(gain, 6, level=True) == predict_range(gain, 6), "earlier editions had no such group"


def test_cases_of_level_causes_do_not_widen_the_ranges_of_clear_ones() -> None:
    clear, level = recorded(7), recorded(7, level=True)
    assert not set(clear) & set(level)
    for case in level.values():
        found = predict_range(case["estimated"], 7, level=True)
        assert found.low <= case["true"] <= found.high * 1.001
    assert predict_range(3.0, 7).high < predict_range(3.0, 7, level=True).high


def test_an_edition_counts_what_was_first_met_when_it_was_made_and_a_later_one_takes_the_last_count() -> None:
    assert first_met(8, on_device=True) == (4, 15)
    assert first_met(RULES, on_device=True) == first_met(RULES + 7, on_device=True)
