"""What a result says about load, in words that the terminal, Markdown and HTML share. Nothing is computed here."""

from __future__ import annotations

from lynxbench.model.contract import SloMetric
from lynxbench.model.load_figures import LoadFigures, SaturationRecord
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.report import findings, words
from lynxbench.report.doc import Tone
from lynxbench.report.words import NBSP, clean

Line = tuple[str, str, Tone]
"""A label, what is said, and how it is coloured."""


def load_lines(one: PrecisionResult, result: Result) -> tuple[Line, ...]:
    """Everything about the load beside the figures; of a void run only what was sent and how the client fared."""
    load = one.load
    if load is None:
        return ()
    lines: list[Line] = [("load", accounting_text(load), _accounting_tone(load))]
    if findings.is_shown(one, result):
        lines += _figures(one, load)
    if load.saturation is not None and not findings.is_void(result):
        lines.append(("saturation", saturation_text(load.saturation, load), _saturation_tone(load.saturation)))
        lines.append(("saturated", clean(load.saturation.saturated), Tone.PLAIN))
    lines.append(("tokens", tokens_text(load), Tone.WARN if load.tokens.source == "unknown" else Tone.PLAIN))
    lines.append(("cache", cache_text(load), Tone.PLAIN))
    lines.append(("instrument", *instrument_text(load)))
    return tuple(lines)


def accounting_text(load: LoadFigures) -> str:
    """`1204 offered = 1190 ok + 14 failed (http error 9, reset 5)`."""
    counted = load.accounting
    failed = counted.offered - counted.ok
    kinds = ", ".join(f"{kind.replace('_', ' ')} {words.number(many, 0)}" for kind, many in counted.failed.items())
    text = f"{words.number(counted.offered, 0)} offered = {words.number(counted.ok, 0)} ok"
    text += f" + {words.number(failed, 0)} failed ({kinds})" if failed else " + 0 failed"
    return text + (f"; {words.count(counted.retries, 'retry', 'retries')}" if counted.retries else "")


def _accounting_tone(load: LoadFigures) -> Tone:
    return Tone.PLAIN if load.accounting.offered == load.accounting.ok else Tone.WARN


def budget_text(load: LoadFigures) -> str:
    """The latency budget a throughput must not be said without."""
    return ", ".join(clean(bound) for bound in load.budget) or "no latency bound agreed"


def _figures(one: PrecisionResult, load: LoadFigures) -> list[Line]:
    lines: list[Line] = []
    at = f"{words.digits(load.in_flight_mean)} in flight on average"
    if load.requests_per_s is not None:
        text = f"{words.figure_text(load.requests_per_s)} answered of {words.figure_text(load.offered_per_s)} offered"
        lines.append(("requests", f"{text}; {clean(load.load)}; {at}", Tone.PLAIN))
    if load.goodput_per_s is not None:
        text = f"{words.figure_text(load.goodput_per_s)} within {budget_text(load)}"
        lines.append(("goodput", text, Tone.PLAIN))
    for metric in (SloMetric.TIME_TO_FIRST_TOKEN, SloMetric.LATENCY):
        pair = [findings.percentile_of(one, metric, wanted) for wanted in (50, 99)]
        if pair[0] is not None:
            label, name = (
                ("ttft", "time to first token ") if metric is SloMetric.TIME_TO_FIRST_TOKEN else ("latency", "")
            )
            text = f"{name}p50 / p99 {findings.pair_text(*pair)} from the scheduled arrival"
            lines.append((label, text, Tone.PLAIN))
    return lines


def saturation_text(found: SaturationRecord, load: LoadFigures) -> str:
    """The pair, never one rate alone, with the budget it is within."""
    within = f"within {budget_text(load)}"
    if found.passed_per_s is None:
        return f"no rate was shown to hold {within}: {clean(found.note)}"
    held = f"holds {words.digits(found.passed_per_s, 4)}{NBSP}/s {within}"
    if found.failed_per_s is None:
        upper = f"no rate failed up to the ceiling of {words.digits(found.ceiling_per_s, 4)}{NBSP}/s"
    else:
        word = "fails" if found.failed_outcome == "fail" else "is not shown to hold"
        upper = f"{words.digits(found.failed_per_s, 4)}{NBSP}/s {word}"
    knee = f"; knee at {words.digits(found.knee_per_s)}{NBSP}/s" if found.knee_per_s is not None else ""
    goodput = f"; goodput {words.digits(found.goodput_per_s)}{NBSP}/s" if found.goodput_per_s is not None else ""
    note = f"; {clean(found.note)}" if found.note else ""
    sure = "confirmed" if found.confirmed else "not confirmed"
    return f"{held} ({sure}); {upper}{goodput}{knee}; {words.seconds_text(found.probe_s)} of probes{note}"


def _saturation_tone(found: SaturationRecord) -> Tone:
    return Tone.GOOD if found.confirmed and found.passed_per_s is not None else Tone.WARN


def tokens_text(load: LoadFigures) -> str:
    """Where token counts come from, and how events were read."""
    tokens = load.tokens
    source = {
        "usage": "counted by the server's usage",
        "tokenizer": "counted by the contract's tokenizer over the text",
        "unknown": "unknown: no usage and no tokenizer; events are not tokens",
        "none": "none to count in this task",
    }[tokens.source]
    parts = [source]
    if tokens.input_mean is not None or tokens.output_mean is not None:
        parts.append(f"{words.digits(tokens.input_mean)} in / {words.digits(tokens.output_mean)} out on average")
    if tokens.shorter_share:
        parts.append(f"{words.percent(tokens.shorter_share)} of answers shorter than asked")
    if tokens.coalesced_share:
        parts.append(f"{words.percent(tokens.coalesced_share)} of events read together with others")
    return ", ".join(parts)


def cache_text(load: LoadFigures) -> str:
    """The prefix cache's state."""
    cache = load.cache
    prompts = "every prompt unique" if cache.distinct_prompts is None else f"{cache.distinct_prompts} prompts in turn"
    share = (
        "the server does not say what came from it"
        if cache.cached_share is None
        else f"{words.percent(cache.cached_share)} of input tokens came from it"
    )
    counters = ", ".join(f"{clean(name)} +{words.digits(value)}" for name, value in cache.counters.items())
    return f"{cache.regime} ({prompts}); {share}" + (f"; {counters}" if counters else "")


def instrument_text(load: LoadFigures) -> tuple[str, Tone]:
    """How the client fared during the run and before it."""
    it = load.instrument
    if it.verdict == "void":
        return f"void: {findings.listed(it.reasons)}", Tone.BAD
    parts = [
        f"good: {words.count(it.processes, 'client process', 'client processes')}",
        f"requests {words.digits(it.mean_lateness_ms)}{NBSP}ms late on average",
        f"loop lag p99 {words.digits(it.p99_lag_ms)}{NBSP}ms",
        f"busiest {words.percent(it.busiest_share)} of a core",
    ]
    flown = it.preflight
    if flown is not None:
        parts.append(
            f"before the run {words.digits(flown.requests_per_s)} requests/s at most, first token "
            f"{words.digits(flown.ttft_error_mean_ms)}{NBSP}ms off at {flown.streams} streams"
        )
    parts += [clean(caution) for caution in it.cautions]
    return ", ".join(parts), Tone.GOOD if not it.cautions else Tone.WARN
