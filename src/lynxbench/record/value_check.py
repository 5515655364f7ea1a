"""Stated against recomputed values: exact in words and counts, to the last digits in floating point."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Final, cast

from pydantic import BaseModel

from lynxbench.load.completion_ceiling import find_ceiling
from lynxbench.load.saturation_curve import find_knee
from lynxbench.model.attribution import Attribution, Bound
from lynxbench.model.canonical import JsonValue
from lynxbench.model.document import Document
from lynxbench.model.interval import Interval
from lynxbench.model.load_figures import SaturationRecord
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES, PrecisionResult, Result, Validity
from lynxbench.model.verification import Check, CheckOutcome, cannot, fails, holds

ROUNDING: Final = 1e-9
"""Relative difference that other processors and numpy builds make in sums of the same samples (they add in another
order: about n · 2⁻⁵³ for n samples); far below every interval that is stated."""
_SHOWN = 60
_BOUNDS: Final = tuple(field.name for field in fields(Interval))
_spell = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode
_UNTOUCHED: Final = ("shares", "wall_ms_per_step", "unprofiled_ms_per_step", "steps", "operators", "ceilings")
"""What interventions leave as the trace gave it."""
_BLAME: Final = ("bound", "layer", "owner", "symptom_layer")
"""Interventions take blame back; they lay it on nobody whom the trace does not name."""


@dataclass(frozen=True, slots=True)
class Apart:
    """Where two documents first differ."""

    path: str
    stated: JsonValue
    recomputed: JsonValue

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}stated {_shown(self.stated)}, recomputed {_shown(self.recomputed)}"


def compare(name: str, stated: object, recomputed: object) -> Check:
    """One line on one value."""
    if _surely_alike(stated, recomputed):
        return holds(name)
    documents = plain(stated), plain(recomputed)
    apart = None if _spelled_alike(*documents) else first_difference(*documents)
    return holds(name) if apart is None else fails(name, str(apart))


def check_attribution(name: str, stated: Attribution | None, recomputed: Attribution | None) -> Check:
    """An attribution against its trace; interventions came later and may have changed the verdict's words."""
    exact = compare(name, stated, recomputed)
    if stated is not None and recomputed is None and is_by_intervention_alone(stated):
        return cannot(name, "it rests on interventions' own processes alone, and names nobody")
    if exact.outcome is CheckOutcome.HOLDS or stated is None or recomputed is None:
        return exact
    added = stated.evidence[len(recomputed.evidence) :]
    intervened = any("intervention" in line for line in added)
    if not intervened or stated.evidence[: len(recomputed.evidence)] != recomputed.evidence:
        return exact
    same_trace = _compare_traces(name, stated, recomputed)
    if same_trace.outcome is not CheckOutcome.HOLDS:
        return same_trace
    if not _follows(stated, recomputed):
        return exact
    return holds(name, "the trace's part; what interventions added rests on their own processes")


def _follows(stated: Attribution, trace: Attribution) -> bool:
    """Whether interventions can have made one attribution of the other: its cause, with blame and gain or without."""
    named = [getattr(stated, part) for part in _BLAME]
    if named not in ([getattr(trace, part) for part in _BLAME], [Bound.UNDETERMINED, None, None, None]):
        return False
    said = trace.sentence.removeprefix(f"{trace.bound}-bound: ")
    if (stated.bottleneck, stated.candidates) != (trace.bottleneck, trace.candidates) or said not in stated.sentence:
        return False
    gained = [tried.measured for tried in stated.interventions if tried.measured.known]
    none = [Interval(1.0, 1.0, max(1.0, gain.high)) for gain in gained]
    possible = (trace.gain_if_removed, *gained, *none, *([Interval(1.0, 1.0, 1.0)] if gained else []))
    return any(compare("", stated.gain_if_removed, gain).outcome is CheckOutcome.HOLDS for gain in possible)


def is_by_intervention_alone(stated: Attribution) -> bool:
    """Of a server that tells nothing of itself: no time is divided, and nobody is named."""
    blames = stated.bound is not Bound.UNDETERMINED or stated.layer or stated.owner or stated.candidates
    return bool(stated.interventions) and not (blames or stated.shares or stated.operators or stated.steps)


def _compare_traces(name: str, stated: Attribution, recomputed: Attribution) -> Check:
    """All that comes from the trace alone, whatever the verdicts."""
    return compare(name, *({part: getattr(side, part) for part in _UNTOUCHED} for side in (stated, recomputed)))


def check_saturation(name: str, stated: SaturationRecord | None) -> list[Check]:
    """What follows from the curve; the probes' own verdicts were reached while requests were still open."""
    if stated is None:
        return []
    rates = [point.rate_per_s for point in stated.curve]
    place = find_knee(rates, [math.nan if point.p99_s is None else point.p99_s for point in stated.curve])
    knee = None if place is None else rates[place]
    good = next((point.goodput_per_s for point in stated.curve if point.rate_per_s == stated.passed_per_s), None)
    ceiling = []
    if stated.loops:  # earlier versions ran one, and kept nothing of it
        rates_by_number = {loop.in_flight: loop.rate_per_s for loop in stated.loops}
        again = find_ceiling(rates_by_number.get, stated.loops[0].in_flight, max(rates_by_number), stated.slots)
        ceiling = [
            compare(f"{name} ceiling", stated.ceiling_per_s, again.rate_per_s),
            compare(f"{name} ceiling is the highest", stated.is_ceiling_highest, again.is_highest),
        ]
    asked = [rate for rate in (stated.passed_per_s, stated.failed_per_s) if rate is not None]
    unasked = [rate for rate in asked if rate not in rates]
    if unasked:
        ceiling.append(fails(f"{name} rates", f"{unasked[0]:.4g} /s stands on no probe of the curve"))
    return [
        *ceiling,
        compare(f"{name} knee", stated.knee_per_s, knee),
        compare(f"{name} goodput", stated.goodput_per_s, good),
        cannot(f"{name} probes", "each was stopped on what was seen at that moment; the claimed rate's runs are above"),
    ]


def plain(value: object) -> JsonValue:
    """A value as its document holds it."""
    if isinstance(value, BaseModel):
        return cast("JsonValue", value.model_dump(mode="json", by_alias=True))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return cast("JsonValue", value)


def _surely_alike(stated: object, recomputed: object) -> bool:
    """Whether two values have the same document, as far as that is seen without making it; False: look closely."""
    kind = type(stated)
    if kind is not type(recomputed):
        return False
    if kind is float or kind is str or kind is int or kind is bool or stated is None:
        return stated == recomputed  # what is not a number is not itself
    if kind is tuple or kind is list:
        one, other = cast("Sequence[object]", stated), cast("Sequence[object]", recomputed)
        return len(one) == len(other) and all(map(_surely_alike, one, other))
    if kind is dict:
        left, right = cast("dict[object, object]", stated), cast("dict[object, object]", recomputed)
        return left.keys() == right.keys() and all(_surely_alike(item, right[key]) for key, item in left.items())
    if isinstance(stated, Enum):
        return stated is recomputed
    if isinstance(stated, Document):  # its document follows from its fields
        names = tuple(type(stated).model_fields)
    elif kind is Interval:
        names = _BOUNDS
    else:
        return False
    return all(_surely_alike(getattr(stated, name), getattr(recomputed, name)) for name in names)


def _spelled_alike(stated: JsonValue, recomputed: JsonValue) -> bool:
    """Whether two documents are the same text: then no value in them differs, and none has to be looked at."""
    try:
        return _spell(stated) == _spell(recomputed)
    except (ValueError, TypeError, RecursionError):  # a number without a form, or what is no document
        return False


def first_difference(stated: JsonValue, recomputed: JsonValue, path: str = "") -> Apart | None:
    """The first place where two documents differ by more than rounding; None where there is none."""
    if isinstance(stated, Mapping) and isinstance(recomputed, Mapping):
        for key in (*stated, *(key for key in recomputed if key not in stated)):
            below = f"{path}.{key}" if path else str(key)
            if key not in stated or key not in recomputed:
                return Apart(below, stated.get(key, "nothing"), recomputed.get(key, "nothing"))
            if (apart := first_difference(stated[key], recomputed[key], below)) is not None:
                return apart
        return None
    if isinstance(stated, (list, tuple)) and isinstance(recomputed, (list, tuple)):
        if len(stated) != len(recomputed):
            return Apart(path, f"{len(stated)} of them", f"{len(recomputed)} of them")
        for index, (left, right) in enumerate(zip(stated, recomputed, strict=True)):
            if (apart := first_difference(left, right, f"{path}[{index}]")) is not None:
                return apart
        return None
    return None if _same(stated, recomputed) else Apart(path, stated, recomputed)


def _same(stated: JsonValue, recomputed: JsonValue) -> bool:
    sides = (stated, recomputed)
    numbers = [value for value in sides if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) == 2 and any(isinstance(value, float) for value in numbers):
        return math.isclose(numbers[0], numbers[1], rel_tol=ROUNDING, abs_tol=0.0)
    return type(stated) is type(recomputed) and stated == recomputed


def _shown(value: JsonValue) -> str:
    text = repr(value) if isinstance(value, str) else "null" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# --- verdicts of an earlier edition of the rules ----------------------------------------------------------------------


def under_older_rules(
    result: Result,
    per_precision: Mapping[Precision, PrecisionResult],
    validity: Validity | None,
    checks: Sequence[Check],
) -> list[Check]:
    """The checks with those excused that an earlier edition explains; one that is not known here explains nothing.

    Figures are held against the raw files as ever. A verdict is excused only where the change of the rules explains it,
    and then the line says what today's rules make of the same evidence; everything else stays a difference.
    """
    if not 1 <= result.rules < RULES:
        return [*checks, fails("rules", f"edition {result.rules} is not known; this program has 1 to {RULES}")]
    excused: dict[str, Check] = {}

    def excuse(name: str, verdict: str) -> None:
        excused[name] = cannot(name, f"reached by edition {result.rules} of the rules; by edition {RULES}: {verdict}")

    if validity is not None and _fewer_doubts(result.validity, validity):
        excuse("validity", validity.verdict.value)
    for stated in result.per_precision:
        label, today = stated.precision.value, per_precision.get(stated.precision)
        if today is None:
            continue
        if _fewer_doubts(stated.validity, today.validity):
            excuse(f"{label} validity", today.validity.verdict.value)
        before, now = stated.attribution, today.attribution
        if before is not None and now is not None and _says_more(before, now):
            excuse(f"{label} attribution", now.sentence)
    return [
        excused.get(check.name, check) if check.outcome is CheckOutcome.DOES_NOT_HOLD else check for check in checks
    ]


def _fewer_doubts(stated: Validity, today: Validity) -> bool:
    """Edition 2 dropped a doubt and added none."""
    return set(today.reasons) < set(stated.reasons)


def _says_more(stated: Attribution, today: Attribution) -> bool:
    """Edition 2 says more where the first said undetermined for want of operands, from the same trace and evidence."""
    if stated.bound is not Bound.UNDETERMINED or not set(stated.evidence) <= set(today.evidence):
        return False
    return _compare_traces("trace", stated, today).outcome is CheckOutcome.HOLDS
