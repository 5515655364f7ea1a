"""The load a server was under: every request accounted for, the curve to saturation, the instrument."""

from collections.abc import Sequence
from functools import partial

from lynxbench.model.contract import SloMetric
from lynxbench.model.evidence_gate import Shortfall, cause_falls_short
from lynxbench.model.load_figures import LoadFigures, SaturationRecord, Speculation
from lynxbench.model.node_record import NodeRecord
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.report import doc, findings, words
from lynxbench.report.doc import Depth, Fact, Span, Tone, said
from lynxbench.report.documents.asked_facts_text import asked_facts, expected_text
from lynxbench.report.documents.kernel_facts import kernel_table, kernel_text
from lynxbench.report.documents.measured_charts import curve_chart
from lynxbench.report.documents.mlperf_facts import mlperf_facts
from lynxbench.report.svg.load_curve_plot import draw_curve
from lynxbench.report.words import NBSP, clean

MOST_ANSWERS = 10
TOKENS_FROM = {
    "usage": "counted by the server's usage",
    "tokenizer": "counted by the contract's tokenizer over the text",
    "unknown": "unknown: no usage and no tokenizer; events are not tokens",
    "none": "none to count in this task",
}


LATENCIES = (
    ("First token", SloMetric.TIME_TO_FIRST_TOKEN),
    ("First answer token", SloMetric.TIME_TO_FIRST_ANSWER),
    ("Latency", SloMetric.LATENCY),
)


def load_section(result: Result, also: Sequence[Shortfall] = ()) -> doc.Section | None:
    """Nothing where no server was asked; `also`: what the result's standing lacks to blame anybody."""
    blocks: list[doc.Block | None] = []
    for figures in result.per_precision:
        if (load := figures.load) is not None:
            answers = list(load.accounting.said.items())[:MOST_ANSWERS]
            failing = [(said(text), words.number(many, 0)) for text, many in answers]
            counters = [(said(name), words.digits(value, 4)) for name, value in load.server_counters.items()]
            title = "What the server's own metrics counted during the run"
            blocks += [
                doc.Facts(load_facts(figures, load, result, also)),
                None if load.saturation is None or findings.is_void(result) else curve_plot(load.saturation, load),
                _folded("What failing answers said", doc.Table(("Answer", "Times"), failing, right=(1,))),
                _folded(title, doc.Table(("Metric", "Change"), counters, right=(1,))),
                _folded("The server's node while counting", node_table(load)),
                None if load.kernels is None else _folded("Kernels of the server", kernel_table(load.kernels)),
            ]
    return doc.Section("load", "Load", blocks) if blocks else None


def _folded(title: str, table: doc.Table) -> doc.Group | None:
    return doc.Group(title, (table,), folded=True, depth=Depth.WHOLE) if table.rows else None


def load_facts(
    figures: PrecisionResult, load: LoadFigures, result: Result, also: Sequence[Shortfall] = ()
) -> list[Fact]:
    """Everything about the load beside the figures; of a void run only what was sent and how the client fared."""
    accounted = load.accounting.failures == 0
    facts: list[Fact] = [("Load", Span(accounting_text(load), Tone.PLAIN if accounted else Tone.WARN))]
    if findings.is_shown(figures, result):
        facts += _figures(figures, load)
        facts += mlperf_facts(load.mlperf) if load.mlperf is not None else []
    if (search := load.saturation) is not None and not findings.is_void(result):
        sure = search.confirmed and search.passed_per_s is not None
        facts.append(("Saturation", Span(saturation_text(search, load), Tone.GOOD if sure else Tone.WARN)))
        facts.append(("Saturated", said(search.saturated)))
    tokens = Span(_tokens_text(load), Tone.WARN if load.tokens.source == "unknown" else Tone.PLAIN)
    facts.append(("Tokens", tokens))
    if (drafting := load.speculation) is not None and not findings.is_void(result):
        facts.append(("Speculation", _speculation_text(drafting)))
    if load.node is not None:
        facts.append(("Server's node", Span(node_text(load.node), Tone.WARN if load.node.notes else Tone.PLAIN)))
    if load.kernels is not None:
        seen = load.kernels.attribution
        short_of = () if seen is None else (*also, *cause_falls_short(result, figures, seen))
        facts.append(("Kernels of the server", kernel_text(load.kernels, short_of)))
    asked = asked_facts(load) if not findings.is_void(result) else []
    return [*facts, ("Cache", _cache_text(load)), *asked, ("Instrument", _instrument(load))]


def node_text(node: NodeRecord) -> str:
    """Whose word it is, how often it was given, and what is missing of it."""
    every = "" if node.every_s is None else f", a new one every {words.seconds_text(node.every_s)}"
    skew = "" if node.skew_s is None else f"; its clock is {node.skew_s:+.3f} s against this machine's"
    bound = "" if node.skew_bound_s is None else f" (±{node.skew_bound_s:.3f} s)"
    devices = ", ".join(f"{name} {clean(model)}".strip() for name, model in node.devices.items()) or "no device"
    text = f"{clean(node.source)}: {devices}; {words.count(node.readings, 'reading')}{every}"
    text += f", {words.percent(node.covered)} of the counted time covered{skew}{bound}"
    throttled = ", ".join(f"{clean(what)} in {words.percent(share)}" for what, share in node.throttled.items())
    text += f"; throttled: {throttled}" if throttled else ""
    return "; ".join((text, *map(clean, node.notes)))


def node_table(load: LoadFigures) -> doc.Table:
    """Every quantity of the node over the counted time."""
    rows = [
        (
            clean(each.column),
            *(words.digits(value, 4) for value in (each.low, each.mean, each.high)),
            words.number(each.readings, 0),
        )
        for each in (load.node.quantities if load.node is not None else ())
    ]
    return doc.Table(("Column", "Lowest", "Mean", "Highest", "Readings"), rows, right=(1, 2, 3, 4))


def _speculation_text(drafting: Speculation) -> str:
    share = drafting.accepted_share
    accepted = "" if share is None else f"{words.percent(share)} of drafted tokens accepted, "
    return f"{accepted}{words.digits(drafting.tokens_a_step, 3)} tokens a step of an answer"


def accounting_text(load: LoadFigures) -> str:
    """`1204 offered = 1190 ok + 14 failed (http error 9, reset 5)`."""
    counted = load.accounting
    failed = counted.failures
    kinds = ", ".join(f"{kind.replace('_', ' ')} {words.number(many, 0)}" for kind, many in counted.failed.items())
    text = f"{words.number(counted.offered, 0)} offered = {words.number(counted.ok, 0)} ok"
    text += f" + {words.number(counted.cancelled, 0)} cancelled by the client" if counted.cancelled else ""
    text += f" + {words.number(failed, 0)} failed ({kinds})" if failed else " + 0 failed"
    return text + (f"; {words.count(counted.retries, 'retry', 'retries')}" if counted.retries else "")


def budget_text(load: LoadFigures) -> str:
    """The latency budget a throughput must not be said without."""
    return ", ".join(clean(bound) for bound in load.budget) or "no latency bound agreed"


def _figures(figures: PrecisionResult, load: LoadFigures) -> list[Fact]:
    facts: list[Fact] = []
    if load.requests_per_s is not None:
        text = f"{words.figure_text(load.requests_per_s)} answered of {words.figure_text(load.offered_per_s)} offered"
        at = f"{words.digits(load.in_flight_mean)} in flight on average"
        facts.append(("Requests", f"{text}; {clean(load.load)}; {at}"))
    if load.goodput_per_s is not None:
        facts.append(("Goodput", f"{words.figure_text(load.goodput_per_s)} within {budget_text(load)}"))
    for label, metric in LATENCIES:
        pair = [findings.percentile_of(figures, metric, wanted) for wanted in (50, 99)]
        if pair[0] is not None:
            facts.append((label, f"p50 / p99 {findings.pair_text(*pair)} from the scheduled arrival"))
    return facts


def saturation_text(search: SaturationRecord, load: LoadFigures) -> str:
    """The pair, never one rate alone, with the budget it is within."""
    within = f"within {budget_text(load)}"
    if search.passed_per_s is None:
        return f"no rate was shown to hold {within}: {clean(search.note)}"
    upper = f"no rate failed up to the ceiling of {words.digits(search.ceiling_per_s, 4)}{NBSP}/s"
    if search.is_ceiling_highest:
        loops = ", ".join(f"{words.digits(at.rate_per_s, 4)} with {at.in_flight}" for at in search.loops)
        loops += f"; it was started to work on {search.slots} at once" if search.slots is not None else ""
        upper = f"no more than {words.digits(search.ceiling_per_s, 4)}{NBSP}/s are completed (in flight: {loops})"
    if search.upper_per_s is not None:
        upper = f"{words.digits(search.upper_per_s, 4)}{NBSP}/s fails"
    undecided = search.failed_per_s if search.failed_outcome == "undecided" else search.undecided_per_s
    if undecided is not None:
        upper += f", {words.digits(undecided, 4)}{NBSP}/s is not decided"
    knee = f"; knee at {words.digits(search.knee_per_s)}{NBSP}/s" if search.knee_per_s is not None else ""
    goodput = f"; goodput {words.digits(search.goodput_per_s)}{NBSP}/s" if search.goodput_per_s is not None else ""
    sure = "confirmed" if search.confirmed else "not confirmed"
    note = f"; {clean(search.note)}" if search.note else ""
    held = f"holds {words.digits(search.passed_per_s, 4)}{NBSP}/s {within} ({sure})"
    if not search.confirmed and search.at_least_per_s is not None:
        held = f"holds at least {words.digits(search.at_least_per_s, 4)}{NBSP}/s {within}, not shown beyond ({sure})"
    unseen = ""
    if search.rarest_s is not None:
        unseen = f", disturbances rarer than one in {words.seconds_text(search.rarest_s)} may not have been seen"
    return f"{held}; {upper}{goodput}{knee}; {words.seconds_text(search.probe_s)} of probes{unseen}{note}"


def _tokens_text(load: LoadFigures) -> str:
    """Where token counts come from, and how events were read."""
    tokens = load.tokens
    parts = [TOKENS_FROM[tokens.source]]
    if tokens.input_mean is not None or tokens.output_mean is not None:
        parts.append(f"{words.digits(tokens.input_mean)} in / {words.digits(tokens.output_mean)} out on average")
    if tokens.reasoning_mean is not None:
        parts.append(f"{words.digits(tokens.reasoning_mean)} of them before the answer itself")
    if tokens.shorter_share:
        parts.append(f"{words.percent(tokens.shorter_share)} of answers shorter than asked")
    if tokens.longer_share:
        parts.append(f"{words.percent(tokens.longer_share)} of answers longer than asked")
    if tokens.unpaced_share:
        parts.append(f"{words.percent(tokens.unpaced_share)} of answers without a time per token (all sent at once)")
    if tokens.first_share:
        share = words.percent(tokens.first_share)
        parts.append(f"several tokens an event; the first held {share} of an answer, and is in no time per token")
    if tokens.alike is not None and tokens.alike.alike > 1:
        parts.append(f"{tokens.alike.alike} of {tokens.alike.compared} different prompts answered alike to the letter")
    if tokens.coalesced_share:
        parts.append(f"{words.percent(tokens.coalesced_share)} of events read together with others")
    return ", ".join(parts)


def _cache_text(load: LoadFigures) -> str:
    """The prefix cache's state."""
    cache = load.cache
    prompts = "every prompt unique" if cache.distinct_prompts is None else f"{cache.distinct_prompts} prompts in turn"
    share = "the server does not say what came from it"
    if cache.cached_share is not None:
        share = f"{words.percent(cache.cached_share)} of input tokens came from it"
    counters = ", ".join(f"{clean(name)} +{words.digits(value)}" for name, value in cache.counters.items())
    expected = f"; {expected_text(cache)}" if cache.expected is not None else ""
    reset = f"; {clean(cache.reset)}" if cache.reset else ""
    return f"{cache.regime} ({prompts}); {share}{expected}{reset}" + (f"; {counters}" if counters else "")


def _instrument(load: LoadFigures) -> Span:
    """How the client fared during the run and before it."""
    it = load.instrument
    if it.verdict == "void":
        return Span(f"void: {findings.listed(it.reasons)}", Tone.BAD)
    parts = [
        f"good: {words.count(it.processes, 'client process', 'client processes')}",
        f"requests {words.digits(it.mean_lateness_ms)}{NBSP}ms late on average",
        f"loop lag p99 {words.digits(it.p99_lag_ms)}{NBSP}ms",
        f"busiest {words.percent(it.busiest_share)} of a core",
    ]
    if (flown := it.preflight) is not None:
        parts.append(
            f"before the run {words.digits(flown.requests_per_s)} requests/s at most, first token "
            f"{words.digits(flown.ttft_error_mean_ms)}{NBSP}ms off at {flown.streams} streams"
        )
    parts += map(clean, it.cautions)
    return Span(", ".join(parts), Tone.WARN if it.cautions else Tone.GOOD)


def curve_plot(search: SaturationRecord, load: LoadFigures) -> doc.Plot | None:
    """Latency over the offered rate, between the rate that held and the one that did not."""
    points = tuple(point for point in search.curve if point.p99_s is not None and point.p50_s is not None)
    if len(points) < 2:
        return None
    caption = (
        f"Open-loop Poisson probes; the bound is {budget_text(load)}. Upper line p99, lower line p50 of the first "
        "bounded latency, from the scheduled arrival; failed requests took for ever. Filled: passed; hollow: not."
    )
    data = [
        (p.rate_per_s, p.outcome, p.requests, (p.p50_s or 0) * 1e3, (p.p99_s or 0) * 1e3, p.goodput_per_s)
        for p in points
    ]
    head = ("requests/s", "outcome", "requests", "p50 ms", "p99 ms", "goodput /s")
    drawing = partial(draw_curve, points, search.passed_per_s, search.upper_per_s)
    chart = curve_chart(points, search.passed_per_s, search.upper_per_s)
    return doc.Plot("saturation", "Latency over offered rate", caption, drawing, head, data, chart=chart)
