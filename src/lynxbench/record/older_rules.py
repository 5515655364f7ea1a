"""A result whose verdicts were reached by an earlier edition of the rules: what today's edition may say differently.

Figures are held against the raw files as ever. A verdict is excused only where the change of the rules explains it, and
then the line says what today's rules make of the same evidence; everything else stays a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lynxbench.model.attribution import Attribution, Bound
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES, PrecisionResult, Result, Validity
from lynxbench.model.verification import Check, CheckOutcome, cannot, fails
from lynxbench.record.value_check import same_trace


def under_older_rules(
    result: Result,
    per_precision: Mapping[Precision, PrecisionResult],
    validity: Validity | None,
    checks: Sequence[Check],
) -> list[Check]:
    """The checks with those excused that an earlier edition explains; one that is not known here explains nothing."""
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
    same_evidence = set(stated.evidence) <= set(today.evidence)
    return stated.bound is Bound.UNDETERMINED and same_evidence and same_trace(stated, today)
