"""Figures as people read them, over the whole range of numbers: no exponents, no false zeros, no false digits."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lynxbench.model.figures import Figure
from lynxbench.model.interval import Interval
from lynxbench.model.plain_numbers import plain, without_exponents
from lynxbench.report import words

POSITIVE = st.floats(min_value=1e-300, max_value=1e300, allow_nan=False)
"""Beyond, a text that is rounded as it should be reads back as 0 or infinity."""
ANY = st.floats(allow_nan=False, allow_infinity=False)
LONGEST = 80
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_NUMBER = re.compile(r"([−+<-]?[0-9]+(?:\.[0-9]+)?)(?: × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?")
_INTERVAL = re.compile(r"([0-9.]+) \[([0-9.]+), ([0-9.]+)\](?: × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?")


def unwrapped(text: str) -> str:
    """The text with plain spaces, and thousands ungrouped."""
    return text.replace("\u202f", "").replace(words.NBSP, " ").replace("− ", "−")


def numbers_in(text: str) -> list[float]:
    """Every number of a text, read back."""
    read = []
    for mantissa, power in _NUMBER.findall(unwrapped(text)):
        value = float(mantissa.replace("−", "-").lstrip("+<"))
        read.append(value * 10.0 ** int(power.translate(_RAISED)) if power else value)
    return read


def assert_readable(text: str) -> None:
    assert not re.search(r"[0-9]e[-+]?[0-9]", text), text
    assert "nan" not in text
    assert "inf" not in text
    assert len(text) <= LONGEST, text


@given(ANY, st.integers(2, 6))
@example(4.614e-07, 4)
@example(12345.6, 4)
@example(999999.0, 3)
@example(9.9996e-05, 4)
@example(5e-324, 3)
@example(1.7e308, 3)
def test_digits_and_plain_read_back(value: float, figures: int) -> None:
    for text in (words.digits(value, figures), plain(value, figures)):
        assert_readable(text)
        (back,) = numbers_in(text.replace("-", "−"))
        if value == 0 or 1e-300 < abs(value) < 1e300:  # beyond, a rounded text reads back as another float
            assert back == pytest.approx(value, rel=0.51 * 10.0 ** (1 - figures))


@given(POSITIVE, st.floats(0, 1), st.floats(1, 10))
@example(18.9, 0.98, 1.02)
@example(4.614e-07, 0.9, 1.1)
@example(3.2e15, 0.9, 1.1)
def test_an_interval_is_ordered_and_never_says_nothing(estimate: float, below: float, above: float) -> None:
    interval = Interval(estimate * below, estimate, estimate * above)
    assume(interval.known)
    text = words.interval_text(interval)
    assert_readable(text)
    if words.is_unresolved(interval):
        assert text.startswith(words.UNRESOLVED)
        low, high = numbers_in(text.removeprefix(words.UNRESOLVED))
        assert low < high
        return
    match = _INTERVAL.fullmatch(unwrapped(text))
    assert match is not None, text
    middle, low, high = (float(part) for part in match.groups()[:3])
    assert 0 <= low <= middle <= high
    assert middle > 0, "a rate is never shown as 0"
    power = match.group(4)
    assert (power is None) == (1e-4 <= interval.high < 1e15)
    if estimate > 1e-300:
        back = middle * 10.0 ** int(power.translate(_RAISED)) if power else middle
        assert abs(back - estimate) <= max(interval.half_width, 0.06 * estimate)


def test_a_figure_without_a_magnitude_is_unresolved() -> None:
    """Found in a verdict: `0.6 [0.0, 834 035.4] tokens/s`."""
    text = words.figure_text(Figure(low=4e-07, estimate=0.6, high=834035.4, unit="tokens/s"))
    assert unwrapped(text) == "unresolved [0, no bound] tokens/s"


def test_an_unresolved_figure_keeps_a_bound_that_can_be_used() -> None:
    text = words.figure_text(Figure(low=4e-07, estimate=1000.0, high=834035.4, unit="tokens/s"))
    assert unwrapped(text) == "unresolved [0, 830000] tokens/s"


@given(ANY)
@example(0.0)
@example(1e-12)
@example(-1e-12)
def test_a_percentage_is_0_only_where_it_is(fraction: float) -> None:
    assume(abs(fraction) < 1e12)
    text = words.percent(fraction, signed=True)
    assert_readable(text)
    assert any(digit in text for digit in "123456789") or fraction * 100 == 0


@given(POSITIVE, st.floats(1, 100))
def test_a_factor_reads_back(low: float, spread: float) -> None:
    interval = Interval(low, low, low * spread)
    assume(interval.known)
    text = words.factor_text(interval)
    assert_readable(text)
    assert all(any(digit in end for digit in "123456789") for end in text.split("–")), text


@given(ANY)
def test_an_estimate_beside_another_keeps_a_digit(value: float) -> None:
    assume(value != 0)
    text = words.estimate_text(
        Figure(low=None, estimate=value, high=None, unit="x"), Figure(low=1.0, estimate=3.2, high=5.0, unit="x")
    )
    assert any(digit in text for digit in "123456789"), text
    assert not re.search(r"[0-9]e[-+]?[0-9]", text)


@given(st.floats(min_value=1e-300, max_value=1e300, allow_nan=False))
def test_what_a_computer_wrote_is_rewritten(value: float) -> None:
    text = without_exponents(f"relative-error {value:.4g}, cosine 1")
    assert_readable(text)
    assert text.startswith("relative-error ")
    assert text.endswith(", cosine 1")


def test_an_id_is_left_alone() -> None:
    assert without_exponents("result 12e4567890ab of 5.e3") == "result 12e4567890ab of 5.e3"
