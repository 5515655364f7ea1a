"""Numbers as people write them: so many significant digits, and never a computer's exponent."""

import math
import re

SMALLEST, LARGEST = 1e-4, 1e15
"""Between them a number is written out; beyond, with its power of ten."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_EXPONENT = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?[eE][-+]?\d{1,3}(?![\w.])")


def decimals_for_digits(value: float, figures: int) -> int:
    """Decimals that show a value with that many significant digits."""
    if not math.isfinite(value) or value == 0:
        return 0
    return figures - 1 - exponent_of(value)


def exponent_of(value: float) -> int:
    """The power of ten of a number's first digit."""
    return math.floor(math.log10(abs(value)))


def needs_power(value: float) -> bool:
    """Whether a number is too small or too large to be written out."""
    return value != 0 and math.isfinite(value) and not SMALLEST <= abs(value) < LARGEST


def power_text(exponent: int) -> str:
    """`× 10⁻⁷`."""
    return f"× 10{str(exponent).translate(_RAISED)}"


def plain(value: float, figures: int = 4) -> str:
    """`12350`, `0.004614`, `4.614 × 10⁻⁷`: what `%g` says, without its exponent."""
    if not math.isfinite(value):
        return "unknown"
    if needs_power(value):
        mantissa, _, exponent = f"{value:.{figures - 1}e}".partition("e")
        return f"{_without_zeros(mantissa)} {power_text(int(exponent))}"
    return _rounded(value, figures)


def _rounded(value: float, figures: int) -> str:
    decimals = decimals_for_digits(value, figures)
    return _without_zeros(f"{round(value, decimals) + 0.0:.{max(0, decimals)}f}")


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def without_exponents(text: str) -> str:
    """A text in which numbers were written by a computer, as people write them."""
    return _EXPONENT.sub(lambda match: plain(float(match[0])), text)
