"""The verdict on a result, as a manager reads it; a missing steady state always stands beside it."""

from collections.abc import Sequence

from lynxbench.model.attribution import Attribution, Bound
from lynxbench.model.evidence_gate import Shortfall, carried_attribution, figures_fall_short, step_after_void
from lynxbench.model.load_figures import LoadFigures
from lynxbench.model.result import PrecisionResult, Result, ValidityVerdict
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.report import doc, findings, words
from lynxbench.report.doc import Tone, said
from lynxbench.report.documents.attribution_blocks import cause_facts, mark_of, sentence_of
from lynxbench.report.words import clean


def result_verdict(result: Result, also: Sequence[Shortfall] = ()) -> doc.Verdict:
    """Void before everything, then no figures, then a server's objective, then where the time goes.

    Nobody is blamed where the evidence falls short, or its standing (`also`) does.
    """
    measured = findings.shown(result)
    if findings.is_void(result):
        why = findings.listed(result.validity.reasons, findings.FEW) or "no reason was recorded"
        step = ("Next step", said(step_after_void(result)))
        return doc.Verdict(f"no figure of this run may be used: {why}", "void", Tone.BAD, (step,))
    if not measured:
        whys = "; ".join(
            f"{figures.precision} {findings.no_figures_because(figures, result)}" for figures in result.per_precision
        )
        return doc.Verdict(f"no precision was measured: {whys}", "no figures", Tone.BAD)
    attribution, cautions = carried_attribution(result, also), _cautions(result)
    for figures in measured:
        if figures.load is not None:
            return _served(figures, figures.load, result, cautions, also)
    if attribution is None:
        sentence = "where the time goes was not measured, so no layer is named; the figures below stand without a cause"
        return doc.Verdict(sentence, "not attributed", Tone.WARN, (), cautions)
    doubt = cautions or attribution.weak or attribution.bound is Bound.UNDETERMINED
    look = attribution.layer or (Tone.WARN if doubt else Tone.PLAIN)
    facts = cause_facts(attribution, result.contract.owner)
    return doc.Verdict(sentence_of(attribution), mark_of(attribution), look, facts, _weak(attribution, "") + cautions)


def _weak(attribution: Attribution, trace: str) -> tuple[str, ...]:
    text = f"the evidence is weak: a suspicion until {trace}an intervention confirms it"
    return (text,) if attribution.weak else ()


def _served(
    figures: PrecisionResult,
    load: LoadFigures,
    result: Result,
    cautions: tuple[str, ...],
    also: Sequence[Shortfall],
) -> doc.Verdict:
    """A server's verdict is on its objective at the load it was under, then where its own counters saw the time go."""
    sentence = f"{words.figure_text(figures.sustained or figures.throughput)} at {clean(load.load)}"
    verdicts = {outcome.verdict for outcome in figures.slo}
    mark, look = "objective unresolved" if verdicts else "no objective", Tone.WARN
    if "missed" in verdicts:
        mark, look = "objective missed", Tone.BAD
        lines = [
            findings.slo_line(outcome, figures.precision)[0] for outcome in figures.slo if outcome.verdict == "missed"
        ]
        sentence += f"; {'; '.join(lines)}"
    elif verdicts == {"met"}:
        mark, look = "objective met", Tone.WARN if cautions else Tone.GOOD
        sentence += f", within {', '.join(clean(bound) for bound in load.budget)}"
    short_of = (*also, *figures_fall_short(result, figures))
    if short_of and verdicts & {"met", "missed"}:
        mark, look = "objective unproven", Tone.WARN
        sentence += f"; nothing rests on it: {clean(short_of[0].line)}"
    attribution = carried_attribution(result, also)
    if attribution is None:
        return doc.Verdict(sentence, mark, look, (), cautions)
    sentence = f"{sentence}; {clean(attribution.sentence)}"
    facts = cause_facts(attribution, result.contract.owner)
    return doc.Verdict(sentence, mark, attribution.layer or look, facts, _weak(attribution, "a trace or ") + cautions)


def _cautions(result: Result) -> tuple[str, ...]:
    cautions = []
    for figures in findings.shown(result):
        steady = figures.steady
        if steady is not None and steady.verdict is not SteadyVerdict.STEADY:
            word = "no steady state" if steady.verdict is SteadyVerdict.NOT_STEADY else "steady state inconclusive"
            why = f" ({clean(steady.reason)})" if steady.reason else ""
            meaning = "its figure is a mean over the window, not a sustained rate"
            cautions.append(f"{word} at {figures.precision}{why}: {meaning}")
        if figures.accuracy is not None and figures.accuracy.verdict == "no-go":
            cautions.append(f"{figures.precision} loses more accuracy than the contract allows: no-go")
    if result.validity.verdict is ValidityVerdict.DOUBTFUL:
        reasons = result.validity.reasons or ("no reason was recorded",)
        more = f" (and {words.count(len(reasons) - 1, 'more reason')}, below)" if len(reasons) > 1 else ""
        cautions.append(f"doubtful: {clean(reasons[0])}{more}")
    return tuple(cautions)
