"""A result: verdict, figures with their context, four questions, load, what was counted, plots, causes, the record."""

import math
from collections.abc import Sequence
from functools import partial

from lynxbench.model.activity import DeviceActivity
from lynxbench.model.attribution import Attribution
from lynxbench.model.canonical import short
from lynxbench.model.evidence_gate import Shortfall, carried_attribution
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.report import doc, findings, words
from lynxbench.report.doc import Depth, Fact, Inline, Span, Style, Tone, code, said, strong
from lynxbench.report.documents.accuracy_facts import answer_facts, is_of_server
from lynxbench.report.documents.attribution_blocks import evidence_points, operators_table, shares_plot
from lynxbench.report.documents.endurance_section import endurance_section
from lynxbench.report.documents.load_section import load_section
from lynxbench.report.documents.measured_plots import peak_plot, phases_plot, plots_section
from lynxbench.report.documents.record_sections import context_section, evidence_section, executor_section
from lynxbench.report.documents.result_verdict import result_verdict
from lynxbench.report.four_answers import answer_four
from lynxbench.report.svg.bar_plots import draw_efficiency, draw_interval

MOST_OPERATORS = 12


def compose_result(
    result: Result,
    processes: Sequence[CountedProcess] = (),
    telemetry: Telemetry | None = None,
    standing: Sequence[str] = (),
    missing: str = "",
    also: Sequence[Shortfall] = (),
) -> doc.Report:
    """The report of a result.

    `standing` is what others say about it, where a ledger knows, and `also` what it lacks by that; `missing` is why its
    samples are not at hand.
    """
    stands = doc.Note((strong("Standing: "), said("; ".join(standing)))) if standing else None
    return doc.Report(
        f"{words.clean(result.contract.name)}: {words.clean(result.contract.question)[:120]}",
        (
            stands,
            result_verdict(result, also),
            _figures(result),
            doc.Section("questions", "Four questions", (doc.SideBySide(answer_four(result, also)),)),
            load_section(result, also),
            endurance_section(result),
            doc.Section("counted", "Counted and excluded", (phases_plot(result), counted_table(result))),
            plots_section(result, processes, telemetry, missing),
            _causes(result, also),
            executor_section(result),
            context_section(result),
            evidence_section(result),
        ),
        title=said(result.contract.question),
        brand="lynxbench measurement report",
        facts=(
            ("Model", said(result.conditions.model)),
            ("Contract", (said(result.contract.name), " ", code(words.abbreviated(result.contract_id)))),
            ("Executor", code(words.abbreviated(result.executor_id))),
            ("Measured", words.moment_text(result.started_at)),
        ),
        version=result.lynxbench_version,
        contents=True,
        scripted=True,
    )


# --- what was measured ----------------------------------------------------------------------------------------------


def _figures(result: Result) -> doc.Section:
    measured = findings.shown(result)
    if not measured:
        why = doc.Note(
            f"No figure is shown as this executor’s: {result_verdict(result).sentence}.",
            Style.EMPTY,
            Depth.WHOLE,
        )
        return doc.Section("figures", "Figures", (why, precisions_table(result), _holds(result)))
    cards = doc.Cards([_card(figures, result) for figures in measured])
    blocks = (
        cards,
        precisions_table(result),
        takes_table(result),
        *answers_blocks(result),
        _holds(result),
        peak_plot(result),
        _fidelity(result),
    )
    return doc.Section("figures", "Figures", blocks)


def _card(figures: PrecisionResult, result: Result) -> doc.Card:
    held, confidence = figures.sustained or figures.throughput, result.contract.protocol.confidence
    assert held is not None  # `shown` lets no precision through without one
    interval, decimals = held.interval, words.decimals_of(held.interval)
    bounds = "no interval: too few runs"
    unresolved = words.is_unresolved(interval)
    if interval.known:
        ends = tuple(words.number(bound, decimals) for bound in (interval.low, interval.high))
        low, high = words.ends_text(interval) if unresolved else ends
        bounds = f"{words.percent(confidence)} interval {low} to {high}"
    steady = figures.sustained is not None
    runs = len(figures.run_means) or figures.restarts
    sentence = words.rate_sentence(
        held, figures.precision, result.conditions, confidence=confidence, runs=runs, steady=steady
    )
    best = findings.best_window(figures)
    peak = math.nan if best is None or best.estimate is None else best.estimate
    picture = doc.Picture(partial(draw_interval, interval, peak), words.clean(sentence))
    state = "sustained" if steady else "mean, not steady"
    value = words.UNRESOLVED if unresolved else words.number(held.estimate, decimals)
    return doc.Card(figures.precision.value, state, value, words.clean(held.unit), picture, bounds)


def precisions_table(result: Result) -> doc.Table:
    """All precisions side by side: no speed without the accuracy beside it."""
    metric, fidelity = findings.main_latency(result), findings.accuracy_metric(result)
    latency = findings.latency_name(metric, served=findings.is_served(result))
    head: tuple[str, ...] = (
        "Precision",
        f"Sustained,{words.NBSP}{findings.rate_unit(result)}",
        "Best window",
        f"{latency[:1].upper()}{latency[1:]}, p50 / p99",
        f"Accuracy ({fidelity})",
        "Memory",
        "Executed as",
    )
    rows: list[tuple[Inline, ...]] = []
    for figures in result.per_precision:
        executed = findings.executed_as(figures)
        if note := findings.no_figures_because(figures, result):
            note += f" (executed as: {executed})" if executed != "unknown" else ""
            rows.append((figures.precision.value, Span(note, Tone.WARN)))
            continue
        peak = words.estimate_text(findings.best_window(figures), figures.sustained or figures.throughput)
        pair = findings.pair_text(*(findings.percentile_of(figures, metric, wanted) for wanted in (50, 99)))
        accuracy = Span(findings.accuracy_text(figures.accuracy, fidelity), findings.accuracy_tone(figures.accuracy))
        memory = words.bytes_text(figures.device_memory_bytes or figures.memory_bytes)
        rows.append(
            (figures.precision.value, findings.sustained_text(figures), peak, pair, accuracy, memory, said(executed))
        )
    if not findings.shown(result):
        head = ("Precision", "Figures")
    conditions = findings.conditions_line(result)
    title = conditions[:1].upper() + conditions[1:]
    return doc.Table(head, rows, title, (1, 2, 3, 4, 5) if len(head) > 2 else ())


def takes_table(result: Result) -> doc.Table:
    """Energy and busy units beside the speed; nothing where neither was read."""
    shown = findings.shown(result)
    if not any(figures.energy_j_per_unit is not None or figures.activity is not None for figures in shown):
        shown = ()
    rows = [
        (
            figures.precision.value,
            words.figure_text(figures.energy_j_per_unit),
            words.NO_FIGURE
            if figures.energy_j_per_request is None
            else words.figure_text(figures.energy_j_per_request),
            _activity_text(figures.activity),
        )
        for figures in shown
    ]
    head = ("Precision", "Energy", "Energy a request", "Units busy")
    told = [_whose_energy(figures) for figures in shown if figures.energy_j_per_unit is not None]
    return doc.Table(
        head, rows, "What each precision takes", (1, 2), said(" ".join(dict.fromkeys(told))) if told else ""
    )


def answers_blocks(result: Result) -> list[doc.Facts]:
    """What a server's answers are worth, where it was asked for them."""
    known = [figures.accuracy for figures in findings.shown(result) if figures.accuracy is not None]
    return [doc.Facts(answer_facts(accuracy), "Answers") for accuracy in known if is_of_server(accuracy)]


def _whose_energy(figures: PrecisionResult) -> str:
    """Which devices the energy is of, and what the package and other devices drew beside them."""
    beside = figures.energy_beside
    if beside is None:
        return "Energy is of all devices of the machine together: which were the run's own is not in the record."
    others = f"other devices ({', '.join(beside.other_devices)})"
    apart = {"the CPU package": beside.package_j_per_unit, others: beside.other_devices_j_per_unit}
    drew = [f"{name} {words.figure_text(figure)}" for name, figure in apart.items() if figure is not None]
    rest = f"; beside it, not added: {'; '.join(drew)}" if drew else ""
    return f"{figures.precision}: energy of {', '.join(beside.devices)} ({beside.how}){rest}."


def _activity_text(activity: DeviceActivity | None) -> str:
    """`SM 50 %, tensor 2 %, DRAM 40 %`."""
    if activity is None:
        return words.NO_FIGURE
    named = {"SM": activity.sm, "tensor": activity.tensor, "fp32": activity.fp32, "DRAM": activity.dram}
    return ", ".join(f"{name} {words.percent(share)}" for name, share in named.items() if share is not None)


def _holds(result: Result) -> doc.Facts:
    """Whether the objective was met, and whether the figures may be used."""
    outcomes = [] if findings.is_void(result) else [
        findings.slo_line(outcome, figures.precision) for figures in findings.shown(result) for outcome in figures.slo
    ]  # fmt: skip
    valid, tone = findings.validity_line(result)
    loosened = findings.loosened_line(result)
    return doc.Facts(
        (
            ("Objective", *(Span(text, tone) for text, tone in outcomes)) if outcomes else None,
            ("Valid", Span(valid, tone)),
            ("Notice", Span(f"looser than the default protocol: {loosened}", Tone.WARN)) if loosened else None,
            ("Evidence", f"sha256:{short(result.result_id)}…" if result.result_id else "not sealed"),
        )
    )


def _fidelity(result: Result) -> doc.Group | None:
    known = [(figures, figures.accuracy) for figures in findings.shown(result) if figures.accuracy is not None]
    measured = [(figures, accuracy) for figures, accuracy in known if not is_of_server(accuracy)]
    names = sorted({name for _, accuracy in measured for name in accuracy.metrics})
    rows = [
        (
            figures.precision.value,
            *(
                findings.metric_text(name, accuracy.metrics[name]) if name in accuracy.metrics else words.NO_FIGURE
                for name in names
            ),
            accuracy.verdict,
        )
        for figures, accuracy in measured
    ]
    head = ("Precision", *(name.replace("-", " ").capitalize() for name in names), "Verdict")
    inputs = "; ".join(dict.fromkeys(accuracy.inputs for _, accuracy in measured))
    untold: list[Fact] = [
        (figures.precision.value, *(said(note) for note in accuracy.notes))
        for figures, accuracy in measured
        if accuracy.notes
    ]
    executed: list[Fact] = [
        (figures.precision.value, said(findings.executed_how(figures))) for figures in findings.shown(result)
    ]
    blocks = (
        doc.Table(
            head,
            rows,
            "Accuracy against the reference precision",
            range(1, len(names) + 1),
            ("Inputs: ", said(inputs)),
        )
        if names
        else None,
        doc.Facts(untold, "What it cannot tell") if untold else None,
        doc.Facts(executed, "Executed as"),
    )
    return doc.Group(
        "All accuracy metrics, and how each precision was executed", blocks, folded=True, depth=Depth.WHOLE
    )


def counted_table(result: Result) -> doc.Table:
    """What of the executed time was counted, what was excluded, and whether it held."""
    rows: list[tuple[Inline, ...]] = []
    for figures in result.per_precision:
        if figures.skipped is not None:
            continue
        if figures.steady is None:
            rows.append((figures.precision.value, findings.counted_line(figures)[0]))
            continue
        drift, governed, tone = findings.stability_line(figures)
        counted, excluded = findings.counted_line(figures)
        iterations = words.number(figures.steady.counted_iterations, 0)
        rows.append((figures.precision.value, counted, iterations, excluded, Span(drift, tone), said(governed)))
    head = ("Precision", "Counted", "Iterations", "Excluded", "Stability", "Governed by")
    empty = "Nothing was executed to the end."
    return doc.Table(head, rows, "Counted, excluded and stability", (2,), empty=empty)


# --- where the time goes --------------------------------------------------------------------------------------------


def _causes(result: Result, also: Sequence[Shortfall]) -> doc.Section:
    """Shares are of time, never credit to a layer; the remainder is shown."""
    named = [
        (figures.precision.value, figures.attribution)
        for figures in findings.shown(result)
        if figures.attribution is not None
    ]
    if not named and result.attribution is not None:
        named = [(findings.attributed_precision(result) or "step", result.attribution)]
    ceilings = _ceilings(result)
    if findings.is_void(result) or not named:
        why = "Not shown: the run is void." if findings.is_void(result) else "Not measured: no profile was read."
        return doc.Section("time", "Where the time goes", (doc.Note(why, Style.EMPTY), ceilings), depth=Depth.READ)
    attribution = carried_attribution(result, also) or named[0][1]
    lead = f"A pass of its own over {words.count(attribution.steps, 'step')}; it supplies no timing figure. "
    if attribution.unprofiled_ms_per_step:
        slower = attribution.wall_ms_per_step / attribution.unprofiled_ms_per_step - 1
        lead += (
            f"A step took {words.digits(attribution.wall_ms_per_step)} ms under the profiler, "
            f"{words.digits(attribution.unprofiled_ms_per_step)} ms without it ({words.percent(slower, signed=True)})."
        )
    operators = operators_table(attribution, MOST_OPERATORS)
    title = f"Operators ({len(operators.rows)} of {len(attribution.operators)})"
    folded = doc.Group(title, (operators,), folded=True, depth=Depth.WHOLE) if operators.rows else None
    blocks = (
        shares_plot([(name, attributed.shares) for name, attributed in named]),
        *evidence_points(attribution),
        _efficiency(attribution),
        folded,
        ceilings,
    )
    return doc.Section("time", "Where the time goes", blocks, lead, Depth.READ)


def _efficiency(attribution: Attribution) -> doc.Plot | None:
    rows = tuple(
        (words.clean(operator.name), operator.category, operator.share, operator.efficiency)
        for operator in sorted(attribution.operators, key=lambda operator: -operator.share)
        if operator.efficiency is not None and math.isfinite(operator.efficiency)
    )[:MOST_OPERATORS]
    if not rows:
        return None
    caption = (
        "Filled: the share of its roofline that an operator reached, by ceilings measured here in this run. "
        "The outline is the envelope of a bare kernel, not a promise for the workload."
    )
    data = [(name, category.value, share, efficiency) for name, category, share, efficiency in rows]
    head = ("operator", "category", "share of a step", "share of the ceiling")
    return doc.Plot("roofline", "Achieved against the ceiling", caption, partial(draw_efficiency, rows), head, data)


def _ceilings(result: Result) -> doc.Group | None:
    rows = [
        (
            said(ceiling.name),
            ceiling.precision.value if ceiling.precision else words.NO_FIGURE,
            words.scaled_text(ceiling.per_s, ceiling.unit),
            said(ceiling.how),
        )
        for ceiling in result.ceilings
    ]
    head, title = ("Kernel", "Precision", "Rate", "How"), "Measured envelope: bare kernels, not the workload"
    inner = doc.Table(head, rows, title, (2,))
    return doc.Group("Measured ceilings of this executor", (inner,), folded=True, depth=Depth.WHOLE) if rows else None
