"""Quantities as people write them ("90 s", "5 %", "12 /s"), parsed strictly and written back in one form."""

from __future__ import annotations

import math
import re

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?) *([^ 0-9].*|)")

SIGNIFICANT_DIGITS = 12
"""Kept of every quantity: enough for any clock, few enough to hide the rounding of a change of unit (0.07 * 100)."""
LONGEST_QUANTITY = 64
"""Characters; no quantity a person writes is longer, and an error message may repeat it."""

DURATIONS_S: dict[str, float] = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
RATES_PER_S: dict[str, float] = {"/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600}
RATIOS: dict[str, float] = {"%": 0.01}


def parse_quantity(text: object, units: dict[str, float], example: str) -> float:
    """A number with one of the units, in the base unit; ValueError says what would be right."""
    allowed = ", ".join(units)
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise ValueError(f"must be a quantity such as {example!r}")
    if not isinstance(text, str):
        raise ValueError(f"{text} has no unit; write it with one of {allowed}, such as {example!r}")
    if len(text) > LONGEST_QUANTITY:
        raise ValueError(f"{len(text)} characters are no quantity; write for example {example!r}")
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a number with a unit; write for example {example!r}")
    number = float(match.group(1))
    unit = match.group(2).replace("\N{GREEK SMALL LETTER MU}", "\N{MICRO SIGN}")  # keyboards give either
    if unit not in units:
        said = f"unit {unit!r} does not fit here" if unit else "the unit is missing"
        raise ValueError(f"{text!r}: {said}; use one of {allowed}, such as {example!r}")
    scale = units[unit]
    value = number / round(1 / scale) if scale < 1 else number * scale  # 95 / 100 is 0.95; 95 * 0.01 is not
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not finite")
    return canonical_number(value)


def canonical_number(value: float) -> float:
    """The value that its canonical text reads back as, so that equal contracts and equal ids are the same thing."""
    return float(_shortest(value)) + 0.0  # + 0.0 turns -0.0 into 0.0


def parse_duration(text: object) -> float:
    """Seconds from "90 s", "1.5 min" or "250 ms"."""
    return parse_quantity(text, DURATIONS_S, "90 s")


def parse_ratio(text: object) -> float:
    """A fraction from "5 %"."""
    return parse_quantity(text, RATIOS, "5 %")


def parse_rate(text: object) -> float:
    """Events per second from "12 /s" or "600 /min"."""
    return parse_quantity(text, RATES_PER_S, "12 /s")


def format_duration(seconds: float) -> str:
    """The one canonical form of a duration."""
    return f"{_shortest(seconds)} s"


def format_ratio(fraction: float) -> str:
    """The one canonical form of a ratio."""
    return f"{_shortest(fraction * 100)} %"


def format_rate(per_second: float) -> str:
    """The one canonical form of a rate."""
    return f"{_shortest(per_second)} /s"


def _shortest(value: float) -> str:
    return f"{value:.{SIGNIFICANT_DIGITS}g}"
