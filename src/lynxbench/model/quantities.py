"""Quantities as people write them ("90 s", "5 %", "4.10 EUR/h"), parsed strictly, that refuse to be mixed.

A value knows what it counts, and only like adds to like. Base units: second, joule, token, request and so on; each
currency is a dimension of its own, because a rate of exchange is a decision that somebody has to state.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lynxbench.errors import BadQuantity, Refused
from lynxbench.tables import read_table

Dimension = tuple[tuple[str, int], ...]
"""Base unit and exponent, sorted by name, without zeros; empty for a bare number."""

HOUR_S = 3600.0
YEAR_S = 365.25 * 24 * HOUR_S
"""The Julian year, as astronomers and most amortisation tables have it."""
LONGEST_TEXT = 64
"""Characters; no quantity a person writes is longer, and an error message may repeat it."""
SIGNIFICANT_DIGITS = 12
"""Kept of a contract's quantities: enough for any clock, few enough to hide the rounding of a change of unit."""
DURATIONS = ("ns", "us", "µs", "ms", "s", "min", "h")
RATES = ("/s", "/min", "/h")
RATIOS = ("%",)
"""What a contract's quantities are written in; every unit of a list has its meaning from the table below."""

_TABLE = read_table("model/units.toml")
_UNITS: dict[str, tuple[float, Mapping[str, int]]] = {
    name: (size, group["counts"]) for group in _TABLE["units"] for name, size in group["sizes"].items()
} | {
    f"{prefix}{name}": (scale, {kind: 1})
    for kind, names in _TABLE["counted"].items()
    for name in names
    for prefix, scale in {"": 1.0, "k": 1e3, "M": 1e6}.items()
}
CURRENCIES: frozenset[str] = frozenset(_TABLE["currencies"])
"""ISO 4217 codes that are taken; a sign such as $ names several currencies and is refused."""

_TEXT = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9].*|)")
_FACTOR = re.compile(r"([A-Za-zµ%€$£¥]+)(?:\^([0-9]))?")
_SIGNS = {"€": "EUR"}
_MICRO = ("\N{GREEK SMALL LETTER MU}", "\N{MICRO SIGN}")
"""Keyboards give either."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value in base units with what it counts."""

    value: float
    dimension: Dimension

    def __post_init__(self) -> None:
        if math.isnan(self.value):
            raise BadQuantity("a quantity is not a number (NaN)")

    def __add__(self, other: Quantity) -> Quantity:
        if self.dimension != other.dimension:
            kinds = f"{words_of(other.dimension)} cannot be added to {words_of(self.dimension)}"
            raise Refused(kinds + _hint(self, other))
        return Quantity(self.value + other.value, self.dimension)

    def __mul__(self, other: Quantity | float) -> Quantity:
        if isinstance(other, Quantity):
            return Quantity(self.value * other.value, _combined(self.dimension, other.dimension, 1))
        return Quantity(self.value * other, self.dimension)

    __rmul__ = __mul__

    def __truediv__(self, other: Quantity | float) -> Quantity:
        divisor = other.value if isinstance(other, Quantity) else other
        if divisor == 0:
            raise Refused(f"{words_of(self.dimension)} divided by zero {_words(other)}: no figure is given")
        if isinstance(other, Quantity):
            return Quantity(self.value / divisor, _combined(self.dimension, other.dimension, -1))
        return Quantity(self.value / divisor, self.dimension)

    def in_unit(self, unit: str) -> float:
        """The bare number in a unit of the same dimension; Refused for any other."""
        scale, dimension = parse_unit(unit)
        if dimension != self.dimension:
            raise Refused(f"{words_of(self.dimension)} cannot be given in {unit}, which counts {words_of(dimension)}")
        return self.value / scale

    @property
    def currency(self) -> str | None:
        """The currency it is in, where it is an amount of money or a price."""
        return _currency(self.dimension)


def parse_quantity(value: object, like: str | None = None, where: str = "") -> Quantity:
    """`"4.10 EUR/h"` as a quantity; with `like`, only of the same dimension. BadQuantity says what would be right."""
    example = f"12 {like}" if like else "4.10 EUR/h"
    with _at(where):
        number, unit = _split(value, f"write for example {example!r}")
        scale, dimension = parse_unit(unit)
        if like is not None and not _is_like(dimension, like):
            raise BadQuantity(f"{value!r} is {words_of(dimension)}; write for example {example!r}")
        return Quantity(_finite(number * scale, value), dimension)


def parse_duration(value: object) -> float:
    """Seconds from "90 s", "1.5 min" or "250 ms"."""
    return _parse_in(DURATIONS, value, "90 s", where="")


def parse_ratio(value: object, *, where: str = "") -> float:
    """A fraction from "5 %"."""
    return _parse_in(RATIOS, value, "5 %", where)


def parse_rate(value: object, *, where: str = "") -> float:
    """Events per second from "12 /s" or "600 /min"."""
    return _parse_in(RATES, value, "12 /s", where)


def format_duration(seconds: float) -> str:
    """The one canonical form of a duration."""
    return f"{_shortest(seconds)} s"


def format_ratio(fraction: float) -> str:
    """The one canonical form of a ratio."""
    return f"{_shortest(fraction * 100)} %"


def format_rate(per_second: float) -> str:
    """The one canonical form of a rate."""
    return f"{_shortest(per_second)} /s"


def canonical_number(value: float) -> float:
    """The value that its canonical text reads back as, so that equal contracts and equal ids are the same thing."""
    return float(_shortest(value)) + 0.0  # + 0.0 turns -0.0 into 0.0


def _shortest(value: float) -> str:
    return f"{value:.{SIGNIFICANT_DIGITS}g}"


def _parse_in(units: Sequence[str], value: object, example: str, where: str) -> float:
    """A number with one of the units, in the base unit, as canonical as its text."""
    hint = f"use one of {', '.join(units)}, such as {example!r}"
    with _at(where):
        number, unit = _split(value, hint)
        if unit not in units:
            raise BadQuantity(f"{value!r}: unit {unit!r} does not fit here; {hint}")
        return canonical_number(_finite(number * parse_unit(unit)[0], value))


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Puts the place, such as an option's name, before what is wrong there."""
    try:
        yield
    except BadQuantity as error:
        raise BadQuantity(f"{where}: {error}" if where else str(error)) from None


def _split(value: object, hint: str) -> tuple[float, str]:
    """The number and the unit of a text; `hint` says what would be right."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadQuantity(f"must be a number with a unit; {hint}")
    if not isinstance(value, str):
        raise BadQuantity(f"{value} has no unit; {hint}")
    if len(value) > LONGEST_TEXT:
        raise BadQuantity(f"{len(value)} characters are no quantity; {hint}")
    match = _TEXT.fullmatch(value.strip())
    if match is None:
        raise BadQuantity(f"{value!r} is not a number with a unit; {hint}")
    if not match.group(2):
        raise BadQuantity(f"{value!r}: the unit is missing; {hint}")
    return float(match.group(1)), match.group(2).replace(*_MICRO)


def _finite(number: float, value: object) -> float:
    if not math.isfinite(number):
        raise BadQuantity(f"{value!r} is not finite")
    return number


def _is_like(dimension: Dimension, like: str) -> bool:
    """Whether a dimension is that of a unit; EUR in it stands for any currency."""
    currency = _currency(dimension)
    in_euros = tuple(sorted(("EUR" if name == currency else name, exponent) for name, exponent in dimension))
    return in_euros == parse_unit(like)[1]


def _currency(dimension: Dimension) -> str | None:
    return next((name for name, exponent in dimension if name in CURRENCIES and exponent == 1), None)


def quantity(value: float, unit: str) -> Quantity:
    """A number in a unit."""
    scale, dimension = parse_unit(unit)
    return Quantity(value * scale, dimension)


def parse_unit(text: str) -> tuple[float, Dimension]:
    """The scale and dimension of `kWh`, `tokens/s`, `EUR/kWh` …; BadQuantity for what is no unit."""
    dimension: dict[str, int] = {}
    scale, sign = 1.0, 1
    for index, part in enumerate(re.split(r"(\s*(?:/|\*|·|\bper\b)\s*)", text.strip())):
        if index % 2:
            sign = -1 if part.strip() in {"/", "per"} else 1
            continue
        if not part and index == 0 and text.strip().startswith("/"):
            continue  # "/s"
        match = _FACTOR.fullmatch(part)
        if match is None:
            raise BadQuantity(f"{text[:LONGEST_TEXT]!r} is no unit; write for example 'tokens/s', 'kWh', 'EUR/h'")
        factor, exponents = _factor(match.group(1), text)
        power = sign * int(match.group(2) or 1)
        scale *= factor**power
        for name, exponent in exponents.items():
            dimension[name] = dimension.get(name, 0) + exponent * power
    return scale, _sorted(dimension)


def words_of(dimension: Dimension) -> str:
    """`token/s`, `EUR/J`, `a bare number`."""
    if not dimension:
        return "a bare number"
    if dimension == (("J", 1), ("s", -1)):
        return "power (W)"
    if dimension == (("J", 1),):
        return "energy (J, kWh)"
    above = "·".join(_power(name, exponent) for name, exponent in dimension if exponent > 0) or "1"
    below = "·".join(_power(name, -exponent) for name, exponent in dimension if exponent < 0)
    return f"{above}/{below}" if below else above


def _factor(name: str, text: str) -> tuple[float, Mapping[str, int]]:
    name = _SIGNS.get(name, name)
    if name in CURRENCIES:
        return 1.0, {name: 1}
    if name in {"$", "£", "¥"}:
        raise BadQuantity(f"{text!r}: {name} names several currencies; write its code, such as USD")
    if name not in _UNITS:
        raise BadQuantity(f"{text[:LONGEST_TEXT]!r}: unit {name!r} is not known here")
    return _UNITS[name]


def _hint(left: Quantity, right: Quantity) -> str:
    if left.currency and right.currency and left.currency != right.currency:
        return "; state one currency for all prices"
    kinds = {left.dimension, right.dimension}
    if kinds == {(("J", 1),), (("J", 1), ("s", -1))}:
        return "; power times hours is energy"
    if {"token", "request"} <= {name for dimension in kinds for name, _ in dimension}:
        return "; requests become tokens only through a stated number of tokens a request"
    return ""


def _words(other: Quantity | float) -> str:
    return words_of(other.dimension) if isinstance(other, Quantity) else "as a bare number"


def _power(name: str, exponent: int) -> str:
    return name if exponent == 1 else f"{name}^{exponent}"


def _combined(left: Dimension, right: Dimension, sign: int) -> Dimension:
    total = dict(left)
    for name, exponent in right:
        total[name] = total.get(name, 0) + sign * exponent
    return _sorted(total)


def _sorted(dimension: Mapping[str, int]) -> Dimension:
    return tuple(sorted((name, exponent) for name, exponent in dimension.items() if exponent))


def rate_unit(unit: str) -> str:
    """A rate's unit; a word that is no unit here, such as an engine's own `frame`, counts as a call."""
    parts = [part if _known(part) else "call" for part in re.split(r"(?<=.)/", unit.strip())]
    return "/".join(parts)


def _known(name: str) -> bool:
    return name in _UNITS or name in CURRENCIES or name in _SIGNS
