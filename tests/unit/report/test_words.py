"""Digits follow the interval, and a rate never loses its context."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.model.figures import Figure
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.precision import Precision
from lynxbench.model.result import Percentile
from lynxbench.report import findings, words
from lynxbench.report.doc import plain_text
from lynxbench.report.documents.result_document import precisions_table


def plain(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u202f", " ")


@pytest.mark.parametrize(
    ("low", "estimate", "high", "said"),
    [
        (18.6, 18.9, 19.2, "18.9 [18.6, 19.2]"),
        (18.83, 18.9, 18.97, "18.90 [18.83, 18.97]"),
        (18.88, 18.9, 18.92, "18.90 [18.88, 18.92]"),
        (12_789, 12_840, 12_891, "12 840 [12 790, 12 890]"),
        (-0.5, 0.04, 0.6, "0.0 [−0.5, 0.6]"),
        (0.000_118, 0.000_12, 0.000_122, "0.000120 [0.000118, 0.000122]"),
    ],
)
def test_digits_follow_the_interval(low: float, estimate: float, high: float, said: str) -> None:
    assert plain(words.interval_text(Interval(low, estimate, high))) == said


def test_a_missing_interval_is_said() -> None:
    nan = math.nan
    assert plain(words.interval_text(Interval(nan, 18.94, nan))) == "18.9 [no interval]"
    assert words.interval_text(UNKNOWN_INTERVAL) == "unknown"
    assert words.figure_text(None) == "unknown"


def test_an_upper_bound_beyond_all_use_is_none() -> None:
    assert plain(words.interval_text(Interval(1e-9, 60.0, 2.4e11))) == "unresolved [0, no bound]"
    assert plain(words.interval_text(Interval(0.6, 60.0, 59_000.0))) == "unresolved [0, 59 000]"


def test_an_unresolved_percentile_is_said() -> None:
    open_one = Percentile(percentile=99.9, low=None, estimate=70.0, high=None, resolved=False)
    assert words.percentile_text(open_one) == "unresolved"
    assert words.percentile_text(None) == "not measured"


@pytest.mark.parametrize(
    ("fraction", "said"),
    [(0.0178, "+1.8 %"), (-0.0004, "−0.040 %"), (0.5, "+50 %"), (0.0, "+0 %"), (math.nan, "unknown")],
)
def test_percent(fraction: float, said: str) -> None:
    assert plain(words.percent(fraction, signed=True)) == said


def test_a_drift_carries_its_interval() -> None:
    assert plain(words.percent_interval(Interval(-0.007, -0.002, 0.003))) == "−0.2 % [−0.7, +0.3]"


def test_a_gain_is_said_by_its_bounds() -> None:
    assert words.factor_text(Interval(1.5, 1.7, 1.9)) == "1.5–1.9×"
    assert words.factor_text(Interval(1.05, 1.06, 1.07)) == "1.05–1.07×"
    assert words.factor_text(UNKNOWN_INTERVAL) == "unknown"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.0, "0.0 s"), (0.25, "250 ms"), (61.2, "61.2 s"), (600, "10.0 min"), (8000, "2.2 h")]
)
def test_durations(seconds: float, said: str) -> None:
    assert plain(words.seconds_text(seconds)) == said


def test_large_rates_and_sizes() -> None:
    assert plain(words.scaled_text(71.3e9, "FLOP/s")) == "71.3 GFLOP/s"
    assert plain(words.bytes_text(1_231_000_000)) == "1.15 GiB"


def test_moments_are_readable() -> None:
    assert words.moment_text("2025-05-12T10:15:02.123456+00:00") == "2025-05-12 10:15:02 UTC"
    assert words.moment_text("2025-05-12T10:15:02Z") == "2025-05-12 10:15:02 UTC"
    assert words.moment_text("yesterday") == "yesterday"


def test_a_rate_sentence_carries_precision_batch_load_and_basis(build) -> None:
    figure = Figure(low=18.6, estimate=18.9, high=19.2, unit="token/s")
    where = build.conditions(build.contract())
    said = plain(words.rate_sentence(figure, Precision.FP32, where, confidence=0.95, runs=3, steady=True))
    assert said == (
        "fp32 sustains 18.9 [18.6, 19.2] token/s at batch 1, closed loop, 1 at a time, 64 in / 128 out "
        "(95 % interval over 3 fresh processes)"
    )
    assert "not steady" in words.rate_sentence(figure, Precision.FP32, where, confidence=0.95, runs=3, steady=False)


@given(st.text())
def test_cleaned_text_drives_no_terminal_and_turns_no_line(text: str) -> None:
    cleaned = words.clean(text)
    assert "\x1b" not in cleaned
    assert "\n" not in cleaned
    assert not set(cleaned) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@given(st.floats(allow_nan=True, allow_infinity=True), st.integers(-8, 8))
def test_any_number_can_be_written(value: float, decimals: int) -> None:
    assert words.number(value, decimals)


@given(*[st.floats(min_value=-1e12, max_value=1e12)] * 3)
def test_rounding_stays_within_the_half_width(a: float, b: float, c: float) -> None:
    low, estimate, high = sorted((a, b, c))
    interval = Interval(low, estimate, high)
    if interval.half_width > 1e-9:
        shown = round(estimate, words.decimals_of(interval))
        assert abs(shown - estimate) <= interval.half_width * 0.51 + 1e-9 * abs(estimate)


def test_a_best_window_below_the_mean_is_none(build) -> None:
    """Found: `peak 0.0` beside a mean of 3.2."""
    figures = build.base_result().per_precision[0]
    assert findings.best_window(figures) is figures.peak
    nothing = figures.model_copy(update={"peak": Figure(low=None, estimate=0.0, high=None, unit="token/s")})
    assert findings.best_window(nothing) is None
    row = precisions_table(build.base_result(per_precision=(nothing,))).rows[0]
    assert plain_text(row[2]) == words.NO_FIGURE
