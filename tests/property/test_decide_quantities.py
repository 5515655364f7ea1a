"""Money and units: like adds to like, everything else is refused; conversions lose nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lynxbench.errors import BadInput, Refused
from lynxbench.model.quantities import CURRENCIES, Quantity, parse_quantity, parse_unit, quantity

UNITS = (
    "token",
    "tokens/s",
    "requests/s",
    "W",
    "kWh",
    "J/token",
    "EUR",
    "USD",
    "EUR/h",
    "EUR/kWh",
    "s",
    "year",
    "GB",
    "%",
)
VALUES = st.floats(min_value=1e-6, max_value=1e9, allow_nan=False)
UNIT = st.sampled_from(UNITS)
CURRENCY = st.sampled_from(sorted(CURRENCIES))


@given(VALUES, VALUES, UNIT)
def test_addition_commutes_and_keeps_the_dimension(a: float, b: float, unit: str) -> None:
    one, two = quantity(a, unit), quantity(b, unit)
    assert one + two == two + one
    assert (one + two).dimension == one.dimension
    assert (one + two).in_unit(unit) == pytest.approx(a + b, rel=1e-9)


@given(VALUES, VALUES, UNIT, UNIT)
def test_unlike_units_are_refused_never_added(a: float, b: float, first: str, second: str) -> None:
    one, two = quantity(a, first), quantity(b, second)
    assume(one.dimension != two.dimension)
    for act in (lambda: one + two, lambda: one.in_unit(second)):
        with pytest.raises(Refused):
            act()


@given(VALUES, VALUES, CURRENCY, CURRENCY)
def test_two_currencies_never_add(a: float, b: float, first: str, second: str) -> None:
    assume(first != second)
    with pytest.raises(Refused, match="currency"):
        _ = quantity(a, first) + quantity(b, second)
    assert (quantity(a, first) + quantity(b, first)).currency == first


@given(VALUES, UNIT)
def test_text_reads_back(value: float, unit: str) -> None:
    assert parse_quantity(f"{value!r} {unit}").value == pytest.approx(quantity(value, unit).value, rel=1e-12)
    assert quantity(value, unit).in_unit(unit) == pytest.approx(value, rel=1e-12)


@given(VALUES, VALUES)
def test_power_times_time_is_energy_and_energy_has_a_price(watts: float, hours: float) -> None:
    energy = quantity(watts, "W") * quantity(hours, "h")
    assert energy.in_unit("kWh") == pytest.approx(watts * hours / 1000, rel=1e-9)
    cost = energy * quantity(0.25, "EUR/kWh")
    assert cost.dimension == (("EUR", 1),)
    assert cost.value == pytest.approx(watts * hours / 1000 * 0.25, rel=1e-9)


@given(VALUES, VALUES, UNIT, UNIT)
def test_dividing_undoes_multiplying(a: float, b: float, first: str, second: str) -> None:
    one, two = quantity(a, first), quantity(b, second)
    assert ((one * two) / two).dimension == one.dimension
    assert ((one * two) / two).value == pytest.approx(one.value, rel=1e-9)


@pytest.mark.parametrize(
    ("one", "two", "hint"),
    [
        ("40 requests/s", "40 tokens/s", "tokens a request"),
        ("700 W", "3 kWh", "power times hours"),
        ("5 EUR", "5 USD", "one currency"),
    ],
)
def test_the_usual_mistakes_say_what_is_wrong(one: str, two: str, hint: str) -> None:
    with pytest.raises(Refused, match=hint):
        _ = parse_quantity(one) + parse_quantity(two)


@pytest.mark.parametrize("text", ["12", "EUR", "1e999 EUR", "12 bananas/s", "5 $/h", "1 EUR//h", "- 4 W", "4 W " * 40])
def test_what_is_no_quantity_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInput) as raised:
        parse_quantity(text, None, "--price")
    assert "\n" not in str(raised.value)
    assert "--price" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "like"), [("700 kWh", "W"), ("12 tokens/s", "requests/s"), ("3 W", "EUR/kWh"), ("4 EUR/h", "EUR/kWh")]
)
def test_an_option_takes_only_its_own_dimension(text: str, like: str) -> None:
    with pytest.raises(BadInput):
        parse_quantity(text, like)


def test_any_currency_fits_where_a_price_is_wanted() -> None:
    assert parse_quantity("4.10 USD/h", "EUR/h").currency == "USD"
    assert parse_quantity("9 GBP", "EUR").currency == "GBP"
    assert parse_quantity("3 €/h", "EUR/h").currency == "EUR"


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_quantity(text)
    except BadInput:
        return
    assert math.isfinite(found.value)


def test_nan_is_no_quantity_and_zero_divides_nothing() -> None:
    with pytest.raises(BadInput):
        Quantity(math.nan, parse_unit("W")[1])
    with pytest.raises(Refused):
        _ = quantity(1, "EUR") / quantity(0, "token")
