"""What a pack says beside its decisions: how figures were established, and what they cannot say."""

from collections.abc import Sequence

from lynxbench.model.canonical import short
from lynxbench.model.decisions import PrecisionDecision, PurchaseDecision, WhatIf
from lynxbench.model.packs import MethodNote, PackedDecision
from lynxbench.model.planning import CapacityPlan, CostReport
from lynxbench.model.result import Result

_NOTES: dict[str, str] = {
    "Contract": "What is measured and how was agreed before the first sample. The contract's id is the SHA-256 of its "
    "canonical form; two results are compared only under one meaning of it.",
    "Steady state": "Setup, compilation, warm-up and transient are excluded and shown. A figure counts only where the "
    "drift of what is left was shown to lie inside the contract's bound.",
    "Intervals": "The unit of repetition is a fresh process. Intervals are Welch's on the logarithm of process means; "
    "tails rest on order statistics of the effective sample size.",
    "Saturation": "The largest open-loop Poisson rate at which every latency bound was shown to hold, next to the "
    "smallest at which one was shown to break, confirmed by a follow-up. Latency starts at the scheduled arrival.",
    "Attribution": "Every nanosecond of a profiled step belongs to one category. Shares are of time, never of credit. "
    "Profiling supplies no timing figure.",
    "Capacity": "Demand over the measured saturation, never over a peak. The measured node is fitted as a queue, the "
    "fit is held against the measured curve, and the fleet is simulated period by period with nodes gone.",
    "Cost": "Cost, efficiency and value stay apart. Money keeps its currency, energy its unit; nothing is added that "
    "does not count the same. An order exists only for a stated objective.",
    "Estimates": "What-if figures are computed from measured shares and public ceilings. They are marked as estimates; "
    "a test instance under the same contract is the measurement.",
    "Evidence": "Documents are canonical JSON, named by SHA-256, signed with Ed25519, and included in an append-only "
    "log with proofs. Contests, re-runs and retractions are entries of their own; nothing is deleted.",
}


def methodology_for(decisions: Sequence[PackedDecision]) -> tuple[MethodNote, ...]:
    """The notes that these decisions need."""
    kinds = {decision.kind for decision in decisions}
    skipped = set()
    if "capacity" not in kinds:
        skipped.add("Capacity")
    if "cost" not in kinds:
        skipped.add("Cost")
    if not kinds & {"whatif", "purchase"}:
        skipped.add("Estimates")
    return tuple(MethodNote(title=title, text=text) for title, text in _NOTES.items() if title not in skipped)


def limitations_of(decisions: Sequence[PackedDecision], results: Sequence[Result]) -> tuple[str, ...]:
    """Everything that weakens the decisions, gathered from them and from the results they cite."""
    limits: list[str] = []
    for decision in decisions:
        if isinstance(decision, PurchaseDecision):
            limits += [
                f"question {answer.number} ({answer.title}) is unanswered"
                for answer in decision.answers
                if not answer.answered
            ]
        if isinstance(decision, WhatIf):
            limits += [
                f"spec-sheet assumption {a.state}: {a.name} ({a.because})"
                for a in decision.assumptions
                if a.state != "holds"
            ]
        if isinstance(decision, CapacityPlan) and decision.power.measured_w_per_node is not None:
            limits.append(f"measured power is of the {decision.power.measured_how}")
        if isinstance(decision, PrecisionDecision) and decision.kv_cache.state == "not measured":
            limits.append(f"KV cache: {decision.kv_cache.says}")
        if isinstance(decision, CostReport):
            limits += [
                f"{c.name}: utilisation {c.utilisation_how}"
                for c in decision.candidates
                if c.utilisation_how != "declared"
            ]
        limits += decision.cautions
    for result in results:
        name = short(result.result_id)
        if result.validity.verdict != "valid":
            limits.append(f"result {name} is {result.validity.verdict}: {'; '.join(result.validity.reasons)}")
        limits += [f"result {name}: {loosened}" for loosened in result.conditions.loosened]
        if result.executor_drift:
            limits.append(f"result {name}: {len(result.executor_drift)} fields of the executor changed during the run")
    return tuple(dict.fromkeys(limits))
