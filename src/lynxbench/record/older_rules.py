"""A result whose verdicts were reached by an earlier edition of the rules: what today's edition may say differently.

Figures are held against the raw files as ever. A verdict is excused only where the change of the rules explains it, and
then the line says what today's rules make of the same evidence; everything else stays a difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from lynxbench.model.attribution import Attribution, Bound
from lynxbench.model.result import RULES, Result, Validity
from lynxbench.model.verification import Check, CheckOutcome, cannot, fails
from lynxbench.record.recomputing import Recomputed
from lynxbench.record.value_check import same_trace


def under_older_rules(result: Result, again: Recomputed, checks: Sequence[Check]) -> list[Check]:
    """The checks with those excused that an earlier edition explains; one that is not known here explains nothing."""
    if not 1 <= result.rules < RULES:
        return [*checks, fails("rules", f"edition {result.rules} is not known; this program has 1 to {RULES}")]
    excused: dict[str, Check] = {}
    if again.validity is not None and _fewer_doubts(result.validity, again.validity):
        excused["validity"] = _said_anew("validity", result.rules, again.validity.verdict.value)
    for stated in result.per_precision:
        label, found = stated.precision.value, again.per_precision.get(stated.precision)
        if found is None:
            continue
        if _fewer_doubts(stated.validity, found.validity):
            excused[f"{label} validity"] = _said_anew(f"{label} validity", result.rules, found.validity.verdict.value)
        said, now = stated.attribution, found.attribution
        if said is not None and now is not None and _says_more(said, now):
            excused[f"{label} attribution"] = _said_anew(f"{label} attribution", result.rules, now.sentence)
    return [excused.get(one.name, one) if one.outcome is CheckOutcome.DOES_NOT_HOLD else one for one in checks]


def _said_anew(name: str, edition: int, verdict: str) -> Check:
    return cannot(name, f"reached by edition {edition} of the rules; by edition {RULES}: {verdict}")


def _fewer_doubts(stated: Validity, found: Validity) -> bool:
    """Edition 2 dropped a doubt and added none."""
    return set(found.reasons) < set(stated.reasons)


def _says_more(stated: Attribution, found: Attribution) -> bool:
    """Edition 2 says more where the first said undetermined for want of operands, from the same trace and evidence."""
    kept = set(stated.evidence) <= set(found.evidence)
    return stated.bound is Bound.UNDETERMINED and kept and same_trace(stated, found)
