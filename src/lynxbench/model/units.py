"""Quantities as people write them ("90 s", "5 %", "12 /s"), parsed strictly and written back in one form."""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"^\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*$")

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
    match = _NUMBER.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number with a unit; write for example {example!r}")
    number, unit = float(match.group(1)), match.group(2)
    if unit not in units:
        said = f"unit {unit!r} does not fit here" if unit else "the unit is missing"
        raise ValueError(f"{text!r}: {said}; use one of {allowed}, such as {example!r}")
    scale = units[unit]
    value = number / round(1 / scale) if scale < 1 else number * scale  # 95 / 100 is 0.95; 95 * 0.01 is not
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not finite")
    return value


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
    # 12 significant digits survive the trip through the base unit and hide its rounding (0.07 * 100).
    return f"{value:.12g}"
