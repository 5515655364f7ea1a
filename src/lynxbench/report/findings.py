"""What a result says, in words that the terminal, Markdown and HTML share. Nothing is computed here."""

import math

from lynxbench.model.contract import SloMetric
from lynxbench.model.figures import Figure
from lynxbench.model.precision import Precision
from lynxbench.model.result import Accuracy, Percentile, PrecisionResult, Result, SloOutcome, ValidityVerdict
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.model.workload import Task
from lynxbench.report import words
from lynxbench.report.doc import Tone
from lynxbench.report.words import NBSP, clean

FEW = 2
"""Reasons that a headline names; all of them stand in the line about validity."""


def is_void(result: Result) -> bool:
    """Whether no figure of this run may be shown as the executor's."""
    return result.validity.verdict is ValidityVerdict.VOID


def is_shown(figures: PrecisionResult, result: Result) -> bool:
    """Whether a precision has figures that may be shown."""
    usable = figures.skipped is None and figures.validity.verdict is not ValidityVerdict.VOID
    return usable and not is_void(result) and figures.throughput is not None


def shown(result: Result) -> tuple[PrecisionResult, ...]:
    """The precisions whose figures may be shown."""
    return tuple(figures for figures in result.per_precision if is_shown(figures, result))


def no_figures_because(figures: PrecisionResult, result: Result) -> str:
    """Why a precision shows no figures; empty where it shows some."""
    if figures.skipped is not None:
        reason = clean(figures.skipped.reason)
        return reason if "skipped" in reason else f"skipped: {reason}"
    if figures.validity.verdict is ValidityVerdict.VOID:
        return f"void: {listed(figures.validity.reasons, FEW) or 'no reason was recorded'}"
    if is_void(result):
        return "void with the run: no figure is shown"
    return "" if figures.throughput is not None else "no figure: nothing was counted"


def listed(reasons: tuple[str, ...], most: int | None = None) -> str:
    """Reasons in one line; beyond `most` they are only counted."""
    shown_reasons = reasons if most is None else reasons[:most]
    text = "; ".join(clean(reason) for reason in shown_reasons)
    left = len(reasons) - len(shown_reasons)
    return f"{text}; and {words.count(left, 'more reason')}" if left else text


def attributed_precision(result: Result) -> Precision | None:
    """The precision whose steps the run's attribution looked at."""
    for figures in result.per_precision:
        if figures.attribution is not None and figures.attribution == result.attribution:
            return figures.precision
    measured = shown(result)
    return measured[0].precision if result.attribution is not None and measured else None


# --- the precision table --------------------------------------------------------------------------------------------


def rate_unit(result: Result) -> str:
    """The unit of the rates in the table."""
    units = (clean(figures.throughput.unit) for figures in result.per_precision if figures.throughput is not None)
    return next(units, "units/s")


def main_latency(result: Result) -> SloMetric:
    """Time per token for generation, otherwise the latency of an iteration."""
    generates = result.contract.workload.task is Task.GENERATE
    known = any(SloMetric.TIME_PER_TOKEN in figures.latency_ms for figures in result.per_precision)
    return SloMetric.TIME_PER_TOKEN if generates and known else SloMetric.LATENCY


def is_served(result: Result) -> bool:
    """Whether a server was asked, and not an engine in a process of ours."""
    return any(figures.load is not None for figures in result.per_precision)


def latency_name(metric: str, *, served: bool = False) -> str:
    """A latency metric as people say it."""
    if metric == SloMetric.LATENCY:
        return "latency per request" if served else "latency per iteration"
    return metric.replace("-", " ")


def percentile_of(figures: PrecisionResult, metric: str, wanted: float) -> Percentile | None:
    """One percentile of one metric, where it was measured."""
    return next((value for value in figures.latency_ms.get(metric, ()) if value.percentile == wanted), None)


def pair_text(middle: Percentile | None, tail: Percentile | None) -> str:
    """`52.8 / 61.0 ms`; an unresolved tail is said, not left out."""
    left, right = words.percentile_text(middle, bounds=False), words.percentile_text(tail, bounds=False)
    if middle is None or not middle.resolved:
        return left
    if tail is None or not tail.resolved:
        return f"{left}{NBSP}ms{NBSP}/{NBSP}{right}"
    return f"{left}{NBSP}/{NBSP}{right}{NBSP}ms"


def best_window(figures: PrecisionResult) -> Figure | None:
    """The rate of the best window, where it is one: below the mean of the whole it was not seen, and is not shown."""
    held, peak = figures.sustained or figures.throughput, figures.peak
    if peak is None or peak.estimate is None or held is None or held.estimate is None:
        return peak
    return peak if peak.estimate >= held.estimate else None


def sustained_text(figures: PrecisionResult) -> str:
    """The sustained rate; without steady state the mean of the window, and the words that it is only that."""
    if figures.sustained is not None:
        return words.figure_text(figures.sustained, unit=False)
    verdict = SteadyVerdict.NOT_STEADY if figures.steady is None else figures.steady.verdict
    return f"{verdict.replace(' ', NBSP)}; mean{NBSP}{words.figure_text(figures.throughput, unit=False)}"


def executed_as(figures: PrecisionResult) -> str:
    """Native or emulated, by the kernels that ran, and with which tool chain."""
    if figures.executed is None:
        return figures.native.value
    toolchain = clean(figures.executed.toolchain)
    return figures.executed.native.value + (f", {toolchain}" if toolchain else "")


def executed_how(figures: PrecisionResult) -> str:
    """The same with every detail the engine gives: casts, scales, what stayed in a wider format."""
    how = clean(figures.executed.how) if figures.executed is not None else ""
    return f"{executed_as(figures)}: {how}" if how else executed_as(figures)


# --- what was counted, and whether it holds -------------------------------------------------------------------------


def counted_line(figures: PrecisionResult) -> tuple[str, str]:
    """What was counted of what was executed, and what was excluded, in seconds by phase."""
    steady = figures.steady
    if steady is None:
        return "nothing was counted", ""
    word = "steady" if steady.verdict is SteadyVerdict.STEADY else "counted"
    executed = words.seconds_text(steady.executed_s)
    counted = f"{words.seconds_text(steady.counted_s)} {word} of {executed}"
    phases = " · ".join(f"{clean(part.phase)}{NBSP}{phase_seconds(part.seconds)}" for part in steady.excluded)
    return counted, f"{phases}{NBSP}s" if phases else "nothing"


def phase_seconds(seconds: float) -> str:
    """Seconds of a phase: a short one keeps its digits, none at all is 0."""
    if seconds == 0:
        return "0"
    return words.number(seconds, 1 if seconds >= 1 else 2)


def stability_line(figures: PrecisionResult) -> tuple[str, str, Tone]:
    """Drift with its verdict, what governed the rate, and a tone."""
    steady = figures.steady
    governed = clean(figures.governed_by.cause) if figures.governed_by else "nothing seen"
    if steady is None:
        return "not tested", governed, Tone.WARN
    tone = Tone.GOOD if steady.verdict is SteadyVerdict.STEADY else Tone.BAD
    if steady.verdict is SteadyVerdict.INCONCLUSIVE:
        tone = Tone.WARN
    how = f" ({clean(steady.reason)})" if steady.verdict is SteadyVerdict.STEADY and steady.reason else ""
    return f"drift {words.percent_interval(steady.drift)} {steady.verdict}{how}", governed, tone


def validity_line(result: Result) -> tuple[str, Tone]:
    """Whether the figures may be used, with the reasons."""
    verdict, reasons = result.validity.verdict, listed(result.validity.reasons)
    answer, tone = {
        ValidityVerdict.VALID: ("yes", Tone.GOOD),
        ValidityVerdict.DOUBTFUL: ("doubtful", Tone.WARN),
        ValidityVerdict.VOID: ("no, void", Tone.BAD),
    }[verdict]
    return f"{answer}: {reasons}" if reasons else answer, tone


def slo_line(outcome: SloOutcome, precision: Precision) -> tuple[str, Tone]:
    """One bound of the objective and whether it held."""
    bound = f"{words.percentile_name(outcome.percentile)} {outcome.metric.replace('-', ' ')}"
    limit = f"≤{NBSP}{words.digits(outcome.at_most_ms)}{NBSP}ms"
    tone = {"met": Tone.GOOD, "missed": Tone.BAD}.get(outcome.verdict, Tone.WARN)
    return f"{precision} {outcome.verdict}: {bound} {limit}, measured {_bounded(outcome.measured)}", tone


def _bounded(measured: Percentile) -> str:
    """A percentile with its bounds; where one is out of reach, what is known of it."""
    if measured.resolved:
        return words.percentile_text(measured)
    if measured.low is not None:
        return f"at least {words.digits(measured.low)}{NBSP}ms (upper bound unresolved)"
    if measured.high is not None:
        return f"at most {words.digits(measured.high)}{NBSP}ms (lower bound unresolved)"
    return "unresolved"


def conditions_line(result: Result) -> str:
    """The context without which the figures mean nothing."""
    it = result.conditions
    parts = [
        words.load_text(it),
        words.count(it.threads, "thread")
        if it.clients is None
        else words.count(it.clients, "client process", "client processes"),
        " ".join(clean(part) for part in (it.engine, it.graph or "") if part),
        f"regime {clean(it.regime)}",
        f"division {clean(it.division)}",
        words.count(it.restarts_planned, "restart"),
    ]
    return ", ".join(part for part in parts if part)


def loosened_line(result: Result) -> str:
    """Where the contract asks for less than the default protocol; empty where it does not."""
    single = any(figures.restarts == 1 and figures.latency_ms for figures in result.per_precision)
    lines = [clean(item) for item in result.conditions.loosened]
    return "; ".join([*lines, *(["intervals of latency are those of one process alone"] if single else [])])


# --- accuracy: the metric, its change against the reference, the policy's verdict ------------------------------------


def accuracy_metric(result: Result) -> str:
    """The policy's metric, else the first that the task has."""
    policy = result.contract.policy.accuracy
    present = {name for figures in result.per_precision if figures.accuracy for name in figures.accuracy.metrics}
    if policy is not None and policy.metric.value in present:
        return policy.metric.value
    usual = (
        *("task", "perplexity", "top1", "cosine", "training-loss", "relative-error", "token-agreement"),
        "self-agreement",
    )
    fallback = "no metric of its own" if present else "not measured"
    return next((metric for metric in usual if metric in present), fallback)


def accuracy_text(accuracy: Accuracy | None, metric: str) -> str:
    """`15.48 (+1.8 %) go`: the metric, its change against the reference, the policy's verdict."""
    if accuracy is None or accuracy.verdict == "not measured":
        return "not measured"
    value = accuracy.metrics.get(metric)
    shown_value = metric_text(metric, value)
    if accuracy.is_reference:
        return f"{shown_value}{NBSP}(reference)" if value is not None else "reference"
    change = accuracy.metrics.get(f"{metric}-change")
    text = shown_value if change is None else f"{shown_value}{NBSP}({words.percent(change, signed=True)})"
    said = {"go": " go", "no-go": " NO-GO", "undetermined": " undetermined", "no policy": " (no policy)"}
    verdict = said.get(accuracy.verdict, "")
    return text + verdict.replace(" ", NBSP)


def metric_text(metric: str, value: float | None) -> str:
    """A value of an accuracy metric with the digits that make sense for it."""
    if value is None or not math.isfinite(value):
        return "unknown"
    if metric.endswith("-change"):
        return words.percent(value, signed=True)
    if metric == "relative-error":
        return words.percent(value)
    if metric in ("top1", "token-agreement", "self-agreement"):
        return words.percent(value, decimals=1)
    if metric == "cosine":
        return words.number(value, 5)
    return words.digits(value, 4)


def accuracy_tone(accuracy: Accuracy | None) -> Tone:
    """Red for a no-go, quiet otherwise."""
    if accuracy is None or accuracy.verdict == "not measured":
        return Tone.WARN
    tones = {"no-go": Tone.BAD, "go": Tone.GOOD, "undetermined": Tone.WARN}
    return tones.get(accuracy.verdict, Tone.PLAIN)
