"""The four questions that every report answers (requirement R23), from what the result holds."""

import math
from collections.abc import Sequence

from lynxbench.model.attribution import FAR_BELOW_CEILING, NEAR_CEILING, Attribution, Bound, Category
from lynxbench.model.evidence_gate import Shortfall, carried_attribution
from lynxbench.model.precision import Native
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.report import findings, words
from lynxbench.report.doc import Points
from lynxbench.report.words import clean


def answer_four(result: Result, also: Sequence[Shortfall] = ()) -> tuple[Points, Points, Points, Points]:
    """What bounds it; what sustained load does; whether the hardware is used; which assumptions it rests on."""
    void = ("Not answered: the run is void.",) if findings.is_void(result) else ()
    return (
        Points(void or _bounds(result, also), "What bounds it?"),
        Points(void or _sustained(result), "How does it change under sustained load?"),
        Points(void or _strengths(result), "Does the stack use the hardware’s strengths?"),
        Points(_assumptions(result), "Which assumptions does a comparison rest on?"),
    )


def _bounds(result: Result, also: Sequence[Shortfall]) -> tuple[str, ...]:
    attribution = carried_attribution(result, also)
    if attribution is None:
        return ("Not established: no profile was taken or it could not be read. A remedy chosen now would be a guess.",)
    precision = findings.attributed_precision(result)
    at = f" at {precision}" if precision else ""
    share = attribution.shares.get(attribution.bottleneck)
    word = "Undetermined" if attribution.bound is Bound.UNDETERMINED else f"The {attribution.bound}"
    first = f"{word}: {words.category_name(attribution.bottleneck)} takes {words.percent(share)} of a step{at}."
    hidden = attribution.shares.get(Category.UNATTRIBUTED, 0.0)
    rest = f"{words.percent(hidden)} of the time could not be attributed." if hidden > 0 else ""
    others = tuple(
        f"Also possible: layer {other.layer} ({clean(other.owner)}): {clean(other.reason)}."
        for other in attribution.candidates
    )
    return tuple(s for s in (first, rest) if s) + others


def _sustained(result: Result) -> tuple[str, ...]:
    return tuple(_sustained_at(figures, result) for figures in findings.shown(result)) or ("Nothing was measured.",)


def _sustained_at(figures: PrecisionResult, result: Result) -> str:
    steady, peak, held = figures.steady, findings.best_window(figures), figures.sustained or figures.throughput
    parts = []
    if held and peak and held.estimate and peak.estimate and steady and steady.verdict is SteadyVerdict.STEADY:
        gap = 1 - held.estimate / peak.estimate
        parts.append(
            f"{figures.precision}: holds {words.figure_text(held)} at {words.load_text(result.conditions)}, "
            f"{words.percent(gap)} below its best window ({words.estimate_text(peak, held)})"
        )
    elif steady is not None:
        parts.append(f"{figures.precision}: {steady.verdict}, {clean(steady.reason) or 'no reason was recorded'}")
    else:
        parts.append(f"{figures.precision}: not tested")
    if steady is not None:
        parts.append(f"drift {words.percent_interval(steady.drift)} over the counted window")
    governed = figures.governed_by
    if governed is not None:
        parts.append(f"held back by {clean(governed.cause)} ({clean(governed.evidence)})")
    else:
        parts.append("nothing was seen holding it back")
    return "; ".join(parts) + "."


def _strengths(result: Result) -> tuple[str, ...]:
    sentences = [
        f"{figures.precision} is emulated here: its speed says nothing about hardware that has it."
        for figures in findings.shown(result)
        if figures.native is Native.EMULATED
    ]
    natives = [figures.precision.value for figures in findings.shown(result) if figures.native is Native.NATIVE]
    if natives:
        sentences.append(f"Executed natively: {', '.join(natives)}.")
    if result.attribution is not None:
        sentences.extend(_efficiency(result.attribution))
    if result.ceilings:
        best = ", ".join(
            f"{clean(c.name)}{f' {c.precision}' if c.precision else ''} {words.scaled_text(c.per_s, c.unit)}"
            for c in result.ceilings
        )
        sentences.append(f"Measured envelope (bare kernels, not the workload): {best}.")
    else:
        sentences.append("No ceiling was measured in this run, so the distance to the hardware’s limit is unknown.")
    sentences.append("Utilisation is not performance: a busy device may be waiting.")
    return tuple(sentences)


def _efficiency(attribution: Attribution) -> tuple[str, ...]:
    known = [op for op in attribution.operators if op.efficiency is not None and math.isfinite(op.efficiency)]
    if not known:
        return ("How near the operators ran to their ceilings is unknown: shapes or ceilings are missing.",)
    top = max(known, key=lambda op: op.share)
    reached = top.efficiency or 0.0
    where = "far below its roofline" if reached <= FAR_BELOW_CEILING else "below its roofline, neither near it nor far"
    where = "near its roofline" if reached >= NEAR_CEILING else where
    return (
        f"The largest operator, {clean(top.name)} ({words.percent(top.share)} of a step), runs {where}: "
        f"{words.percent(top.efficiency)} of what the measured ceilings allow.",
    )


def _assumptions(result: Result) -> tuple[str, ...]:
    sentences = [f"Same contract, executor, precision and {words.load_text(result.conditions)}."]
    if loosened := findings.loosened_line(result):
        sentences.append(f"Looser than the default protocol: {loosened}.")
    sentences.extend(clean(item) for item in result.assumptions)
    if result.executor_drift:
        changes = words.count(len(result.executor_drift), "field")
        sentences.append(f"The executor changed during the run: {changes}, listed below.")
    return tuple(sentences)
