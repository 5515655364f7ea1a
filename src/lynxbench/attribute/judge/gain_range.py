"""The range of a gain: a 90 % prediction interval, from how far true gains lay from estimates in recorded cases.

Removing the share f of a step makes it 1/(1 − f) times as fast, so the same error in what is left weighs little where
little is removed and all of itself where nearly everything is. Errors are therefore counted as ln(true / estimated)
over f, and the range is the estimate times exp(quantile × f): a split conformal interval (Vovk, Gammerman and Shafer,
"Algorithmic Learning in a Random World", 2005) whose cases stand in gain_cases.toml, by the edition of the rules that
estimated them. Verdicts with two level causes are a group of their own, as in the same book: which of the two is
removed first, and what goes with it, nobody knows. Their range is that of clear causes, widened to their own errors.
"""

import math
from functools import cache

import numpy as np

from lynxbench.model.interval import Interval
from lynxbench.model.result import RULES
from lynxbench.tables import read_table

COVERED = 0.9
FEWEST = 19
"""Cases below which the outermost of them do not bound nine in ten."""
_FIRST_MET = {
    8: {True: (4, 15), False: (14, 26)},
    9: {True: (8, 21), False: (14, 26)},
    10: {True: (15, 32), False: (14, 26)},
    11: {True: (22, 44), False: (14, 26)},
    13: {True: (25, 51), False: (14, 26)},
    15: {True: (41, 76), False: (40, 75)},
}
"""By edition, on a device and on a CPU: gains inside the range, of functions that no rule had met and that were called
software-bound when they were first judged (docs/benchmarks-attribution.md; healthy ones and open verdicts do not
count). What an edition says of a trace stays as it is: later ones are counted by the next."""
ROUNDING = 1e-9
LEAST_REMOVED = 0.05
"""What two timings of one step differ by, however little is removed."""


def error_of(estimated: float, true: float) -> float:
    """How far a true gain lay from its estimate, in the scale in which errors are alike."""
    return math.log(true / estimated) / _removed(estimated)


def recorded(rules: int = RULES, *, level: bool = False) -> dict[str, dict[str, float]]:
    """The cases that calibrate an edition's ranges, of clear causes or level ones: the newest not newer than it.

    An edition without cases of level causes takes them for cases like any other.
    """
    editions = {int(name.removeprefix("edition_")): cases for name, cases in _TABLE.items()}
    newest: dict[str, dict[str, float]] = editions[max(edition for edition in editions if edition <= rules)]
    apart = any(case.get("level") for case in newest.values())
    return {name: case for name, case in newest.items() if not apart or bool(case.get("level")) is level}


def first_met(rules: int, *, on_device: bool) -> tuple[int, int]:
    """Gains inside their range, and among how many, as an edition counts them: the newest count not newer than it."""
    return _FIRST_MET[max(edition for edition in _FIRST_MET if edition <= rules)][on_device]


def predict_range(estimated: float, rules: int = RULES, *, level: bool = False) -> Interval:
    """The range in which the true gain of the fix lies in nine of ten cases like the recorded ones; never below 1."""
    estimated = max(1.0, estimated)
    low, high = (estimated * math.exp(error * _removed(estimated)) for error in _errors(rules, level))
    return Interval(max(1.0, min(low, estimated)), estimated, max(high, estimated))


def cap_range(gain: Interval, most: float) -> Interval:
    """The range up to what a ceiling allows: no kernel that does the same work passes its own."""
    return Interval(gain.low, gain.estimate, max(gain.estimate, min(gain.high, most)))


def calibrate(errors: list[float], covered: float = COVERED) -> tuple[float, float]:
    """The errors between which so much of the next case's chance lies; the outermost where there are too few cases."""
    ordered = np.sort(np.asarray(errors))
    outside = (1.0 - covered) / 2
    below = math.floor(outside * (len(ordered) + 1) + ROUNDING)
    return float(ordered[max(below - 1, 0)]), float(ordered[min(len(ordered) - below, len(ordered) - 1)])


def _removed(estimated: float) -> float:
    return max(1.0 - 1.0 / estimated, LEAST_REMOVED)


_TABLE = read_table("attribute/judge/gain_cases.toml")


@cache
def _errors(rules: int, level: bool) -> tuple[float, float]:
    cases = recorded(rules, level=level).values()
    low, high = calibrate([case.get("error", error_of(case["estimated"], case["true"])) for case in cases])
    if level:
        clear = _errors(rules, False)
        return min(low, clear[0]), max(high, clear[1])
    return low, high
