"""Figures in words: digits follow the interval, and a rate never appears without its precision, batch and load."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

from pydantic import JsonValue

from lynxbench.model.categories import Category
from lynxbench.model.figures import Figure
from lynxbench.model.interval import Interval
from lynxbench.model.plain_numbers import decimals_for_digits as decimals_for_digits
from lynxbench.model.plain_numbers import exponent_of, needs_power, plain, power_text
from lynxbench.model.precision import Precision
from lynxbench.visible import visible

if TYPE_CHECKING:  # words of figures alone, such as a list of results, need no form of a whole result
    from lynxbench.model.result import Conditions, Percentile

NBSP = "\u00a0"
"""Holds a number to its unit; the terminal's wrapping honours it and prints a plain space."""
MINUS = "\u2212"
UNRESOLVED = "unresolved"
NO_BOUND = 1e3
"""Times an estimate: an upper bound beyond that bounds nothing that anybody asks about."""
NO_FIGURE = "–"

MOST_DIGITS = 9
"""No measurement has more; what an interval of next to nothing would ask for beyond is noise of the arithmetic."""
WIDEST = 10.0
"""A rate or a time from a figure to ten times it: its order of magnitude is not known, and no estimate is shown."""

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def clean(text: str) -> str:
    """One line of somebody's text; what would drive a terminal or not be seen is written out."""
    return " ".join(visible(text).split())


def printable(text: str) -> str:
    """Any text in one line likewise; its spaces stay, since some hold a figure together."""
    return visible(text).replace("\n", " ").replace("\t", " ")


def decimals_of(interval: Interval) -> int:
    """Decimals that the interval's half width supports: one digit of it, two where it begins with a 1.

    Without a finite, positive half width the estimate gets three significant digits.
    """
    half = interval.half_width
    if math.isfinite(half) and half > 1e-300:
        place = math.floor(math.log10(half))
        leading_one = half / 10**place < 1.995  # a 0.2 that floating point made 0.1999… is a 2
        most = decimals_for_digits(max(abs(interval.low), abs(interval.high)), MOST_DIGITS)
        supported = min(-place + (1 if leading_one else 0), most)
        # However wide the interval, a rate of 20 is never shown as 0; a difference may be.
        return max(supported, decimals_for_digits(interval.estimate, 1)) if interval.low >= 0 else supported
    return decimals_for_digits(interval.estimate, 3)


def number(value: float | None, decimals: int, *, signed: bool = False) -> str:
    """A number with a true minus sign and grouped thousands; negative decimals round to tens, hundreds …"""
    if value is None or not math.isfinite(value):
        return "unknown"
    rounded = round(value, decimals)
    text = f"{abs(rounded):,.{max(0, decimals)}f}".replace(",", "\u202f")
    negative = rounded < 0 and float(text.replace("\u202f", "")) != 0
    return (MINUS if negative else "+" if signed else "") + text


def digits(value: float | None, figures: int = 3) -> str:
    """A number with so many significant digits; a very small or large one with its power of ten."""
    if value is None or not math.isfinite(value):
        return "unknown"
    if needs_power(value):
        return plain(value, figures).replace(" ", NBSP).replace("-", MINUS)
    return number(value, decimals_for_digits(value, figures))


def _is_shown(text: str, value: float) -> bool:
    """Whether rounding left something of a number that is not 0."""
    return value == 0 or any(digit in text for digit in "123456789")


def is_unresolved(interval: Interval) -> bool:
    """Whether a rate or a time is so uncertain that its estimate would only mislead."""
    return interval.known and 0 <= interval.low <= interval.high and interval.high > WIDEST * interval.low


def ends_text(interval: Interval) -> tuple[str, str]:
    """Both ends of such an interval: what is nothing beside the upper one is 0; a bound beyond all use is none."""
    low, high = interval.low, interval.high
    beyond = high > NO_BOUND * interval.estimate
    return "0" if low < high * 1e-3 else digits(low, 2), f"no{NBSP}bound" if beyond else digits(high, 2)


def interval_text(interval: Interval) -> str:
    """`18.9 [18.6, 19.2]`, kept in one piece; without bounds it says so."""
    if not math.isfinite(interval.estimate):
        return "unknown"
    if not interval.known:
        return f"{digits(interval.estimate)}{NBSP}[no{NBSP}interval]"
    if is_unresolved(interval):
        low, high = ends_text(interval)
        return f"{UNRESOLVED}{NBSP}[{low},{NBSP}{high}]"
    largest = max(abs(interval.low), abs(interval.high))
    power = exponent_of(largest) if needs_power(largest) else 0
    shown = interval if power == 0 else _scaled_down(interval, power)
    decimals = decimals_of(shown)
    low, estimate, high = (number(bound, decimals) for bound in (shown.low, shown.estimate, shown.high))
    suffix = "" if power == 0 else f"{NBSP}{power_text(power)}".replace(" ", NBSP)
    return f"{estimate}{NBSP}[{low},{NBSP}{high}]{suffix}"


def _scaled_down(interval: Interval, power: int) -> Interval:
    # In two steps: ten to the smallest power that a number can have is no number any more.
    half, rest = 10.0 ** (power // 2), 10.0 ** (power - power // 2)
    return Interval(*(bound / half / rest for bound in (interval.low, interval.estimate, interval.high)))


def figure_text(figure: Figure | None, *, unit: bool = True) -> str:
    """A figure with its interval, and its unit unless a table's heading already carries it."""
    if figure is None or figure.estimate is None:
        return "unknown"
    body = interval_text(figure.interval)
    return f"{body}{NBSP}{clean(figure.unit)}" if unit else body


def estimate_text(figure: Figure | None, like: Figure | None = None) -> str:
    """The estimate alone, with the digits of a figure that it stands beside."""
    if figure is None or figure.estimate is None:
        return NO_FIGURE
    model = like if like is not None and like.estimate is not None else figure
    text = number(figure.estimate, decimals_of(model.interval))
    return text if _is_shown(text, figure.estimate) and not needs_power(figure.estimate) else digits(figure.estimate)


def rate_sentence(
    figure: Figure, precision: Precision, conditions: Conditions, *, confidence: float, runs: int, steady: bool
) -> str:
    """The only way a rate is said: with interval, precision, batch and load, and whether it is a sustained one."""
    verb = "sustains" if steady else "is not steady; it averaged"
    basis = f"{percent(confidence)} interval over {count(runs, 'fresh process', 'fresh processes')}"
    return f"{precision} {verb} {figure_text(figure)} at {load_text(conditions)} ({basis})"


def load_text(conditions: Conditions) -> str:
    """Batch, load and lengths: the part of the context that a rate may not lose."""
    parts = [f"batch{NBSP}{conditions.batch}", clean(conditions.load)]
    if conditions.input_tokens and conditions.output_tokens:
        parts.append(f"{clean(conditions.input_tokens)} in / {clean(conditions.output_tokens)} out")
    elif conditions.input_tokens:
        parts.append(f"{clean(conditions.input_tokens)} in")
    return ", ".join(parts)


def percent(fraction: float | None, *, signed: bool = False, decimals: int | None = None) -> str:
    """`1.8 %`; two significant digits, never fewer than the whole percent."""
    if fraction is None or not math.isfinite(fraction):
        return "unknown"
    value = fraction * 100
    if decimals is None:
        decimals = 0 if abs(value) >= 10 or value == 0 else min(3, max(0, decimals_for_digits(value, 2)))
    text = number(value, decimals, signed=signed)
    if not _is_shown(text, value):
        text = f"{MINUS if value < 0 else '+' if signed else ''}<{number(10.0**-decimals, decimals)}"
    return f"{text}{NBSP}%"


def percent_interval(interval: Interval) -> str:
    """`−0.2 % [−0.7, +0.3]`: a relative change with its interval."""
    shown = interval.scaled(100)
    if not math.isfinite(shown.estimate):
        return "unknown"
    if not shown.known:
        return f"{number(shown.estimate, 1, signed=True)}{NBSP}% [no{NBSP}interval]"
    decimals = min(3, max(1, decimals_of(shown)))
    low, estimate, high = (number(x, decimals, signed=True) for x in (shown.low, shown.estimate, shown.high))
    return f"{estimate}{NBSP}% [{low},{NBSP}{high}]"


def change_text(ratio: Interval) -> str:
    """A ratio as the change that it is."""
    return percent_interval(Interval(ratio.low - 1, ratio.estimate - 1, ratio.high - 1))


def factor_text(interval: Interval) -> str:
    """`1.5–1.9×`: a speed-up by its bounds; by its estimate where there are none."""
    if interval.known and interval.low != interval.high:
        decimals = min(2, max(1, decimals_of(interval)))
        low, high = (_factor_end(bound, decimals) for bound in (interval.low, interval.high))
        return f"{low}×" if low == high else f"{low}–{high}×"
    return f"{_factor_end(interval.estimate, 2)}×" if math.isfinite(interval.estimate) else "unknown"


def _factor_end(factor: float, decimals: int) -> str:
    """A factor: of a hundred and more no decimals, of next to nothing its digits."""
    text = number(factor, decimals)
    return text if abs(factor) < 100 and _is_shown(text, factor) else digits(factor, 2 if abs(factor) < 1 else 3)


def seconds_text(seconds: float | None) -> str:
    """A duration as a person says it."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    if abs(seconds) < 1 and seconds != 0:
        return f"{digits(seconds * 1e3)}{NBSP}ms"
    if abs(seconds) < 300:
        return f"{number(seconds, 1)}{NBSP}s"
    minutes = seconds / 60
    if abs(minutes) < 120:
        return f"{number(minutes, 1)}{NBSP}min"
    return f"{number(minutes / 60, 1)}{NBSP}h"


def moment_text(stamp: str) -> str:
    """`2025-05-12 10:15:02 UTC` from an ISO stamp."""
    plain = clean(stamp)
    date, clock, time = plain.partition("T")
    if not clock:
        return plain
    time = re.sub(r"\.\d+", "", time)
    return f"{date} {re.sub(r'(Z|[+]00:00)$', ' UTC', time)}"


def percentile_name(percentile: float) -> str:
    """`p50`, `p99.9`."""
    return f"p{percentile:g}"


def percentile_text(percentile: Percentile | None, *, bounds: bool = True) -> str:
    """Milliseconds of one percentile; where the samples cannot resolve it, that is the answer."""
    if percentile is None:
        return "not measured"
    if not percentile.resolved or percentile.estimate is None:
        return UNRESOLVED
    interval = interval_of(percentile.low, percentile.estimate, percentile.high)
    if bounds:
        return f"{interval_text(interval)}{NBSP}ms"
    decimals = max(0, min(decimals_of(interval), decimals_for_digits(percentile.estimate, 3)))
    text = number(percentile.estimate, decimals)
    return text if _is_shown(text, percentile.estimate) else digits(percentile.estimate)


def interval_of(low: float | None, estimate: float | None, high: float | None) -> Interval:
    """An interval of which some numbers may be missing."""
    return Interval(or_nan(low), or_nan(estimate), or_nan(high))


def or_nan(value: float | None) -> float:
    """A number that may be missing."""
    return math.nan if value is None else value


def bytes_text(size: float | None) -> str:
    """Bytes in binary units."""
    if size is None or not math.isfinite(size):
        return "unknown"
    for limit, unit in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(size) >= limit:
            return f"{digits(size / limit)}{NBSP}{unit}"
    return f"{number(size, 0)}{NBSP}B"


def scaled_text(value: float, unit: str) -> str:
    """`51.2 TFLOP/s`: a large rate with an SI prefix."""
    if not math.isfinite(value):
        return "unknown"
    for limit, prefix in _PREFIXES:
        if abs(value) >= limit:
            return f"{digits(value / limit)}{NBSP}{prefix}{clean(unit)}"
    return f"{digits(value)}{NBSP}{clean(unit)}"


def shortened(text: str, longest: int) -> str:
    """A text that fits, its end cut off where it does not."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def abbreviated(identifier: str) -> str:
    """`3f9a…c2`: enough of an id to recognise it."""
    return identifier if len(identifier) <= 8 else f"{identifier[:4]}…{identifier[-2:]}"


def value_text(value: JsonValue, longest: int = 400) -> str:
    """A captured value in one line, cut where it is longer; the result's document has it whole."""
    if value is None:
        return "(absent)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else f"{text[:longest]}… ({number(len(text), 0)} characters)"


def category_name(category: Category) -> str:
    """A category as people say it."""
    return category.value.replace("_", " ")


def count(many: int, noun: str, plural: str = "") -> str:
    """`1 restart`, `5 restarts`."""
    return f"{number(many, 0)} {noun if many == 1 else plural or noun + 's'}"
