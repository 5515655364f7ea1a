"""One result inside a pack: its question, figures with context, where its time goes, its executor, its standing."""

from __future__ import annotations

from lynxbench.model.canonical import short
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.model.standing import Standing
from lynxbench.report import findings, words
from lynxbench.report.load_words import saturation_text
from lynxbench.report.markup import Child, Safe, code, said, tag
from lynxbench.report.sections.record_section import value_text
from lynxbench.report.sections.section_parts import fact, plot, table
from lynxbench.report.svg.bar_plots import draw_shares
from lynxbench.report.svg.canvas import NARROW, WIDE
from lynxbench.report.svg.load_curve_plot import draw_curve


def render_result_part(result: Result, standing: Standing | None) -> Safe:
    """Everything about one result that a decision may rest on."""
    name = short(result.result_id)
    shown = [one for one in result.per_precision if findings.is_shown(one, result)]
    return tag(
        "article",
        tag("h3", f"Result {name}: ", said(result.contract.name)),
        tag("p", said(result.contract.question), class_="lead"),
        _context(result, standing),
        _figures(result),
        [_saturation(result, one, name) for one in shown],
        [_shares(one, name) for one in shown],
        _executor(result),
        class_="part",
        id=f"result-{name}",
    )


def _context(result: Result, standing: Standing | None) -> Safe:
    here = result.conditions
    bounds = ", ".join(
        f"p{slo.percentile:g} {slo.metric} ≤ {words.seconds_text(slo.at_most_s)}"
        for slo in result.contract.objective.slo
    )
    valid = result.validity
    reasons = f": {'; '.join(valid.reasons)}" if valid.reasons else ""
    return tag(
        "dl",
        fact("Measured", words.moment_text(result.started_at)),
        fact("Model", said(here.model)),
        fact("Load", tag("bdi", words.load_text(here))),
        fact("Regime", here.regime),
        fact("Objective", bounds or "no latency bound"),
        fact("Engine", said(here.engine)),
        fact("Restarts", str(here.restarts_planned)),
        fact("Division", here.division),
        fact("Validity", said(f"{valid.verdict}{reasons}")),
        fact("Standing", said("; ".join(standing.words) if standing is not None else "not in a ledger")),
        fact("Contract", code(short(result.contract_id))),
        fact("Executor", code(short(result.executor_id))),
        class_="facts grid",
    )


def _figures(result: Result) -> Safe:
    rows: list[list[Child]] = []
    for one in result.per_precision:
        if not findings.is_shown(one, result):
            why = one.skipped.reason if one.skipped is not None else "; ".join(one.validity.reasons) or "void"
            rows.append([one.precision.value, said(f"not measured: {why}"), *("",) * 5])
            continue
        steady = one.steady
        counted = (
            "by its probes" if steady is None else f"{steady.verdict}, {words.seconds_text(steady.counted_s)} counted"
        )
        rows.append(
            [
                one.precision.value,
                words.figure_text(one.sustained or one.throughput),
                words.estimate_text(one.peak, one.sustained),
                counted,
                "not measured" if one.accuracy is None else one.accuracy.verdict,
                f"{one.native}",
                words.figure_text(one.energy_j_per_unit),
            ]
        )
    head = ("Precision", "Sustained", "Peak", "Steady", "Accuracy", "Executed", "Energy")
    return table("Figures", head, rows, (1, 2, 6))


def _saturation(result: Result, one: PrecisionResult, name: str) -> Safe | None:
    found = one.load.saturation if one.load is not None else None
    if found is None or one.load is None or not found.curve:
        return None
    title = f"Latency over load, result {name}"
    pictures = [draw_curve(found.curve, found.passed_per_s, found.failed_per_s, title, width)
                for width in (WIDE, NARROW)]  # fmt: skip
    rows = [(p.rate_per_s, p.p50_s or "", p.p99_s or "", p.outcome) for p in found.curve]
    head = ("requests/s", "p50 s", "p99 s", "outcome")
    return plot(f"curve-{name}", title, tag("bdi", saturation_text(found, one.load)), pictures, head, rows)


def _shares(one: PrecisionResult, name: str) -> Safe | None:
    said_ = one.attribution
    if said_ is None:
        return None
    title = f"Where a step's time goes, result {name} at {one.precision}"
    pictures = [draw_shares(((one.precision.value, dict(said_.shares)),), title, width) for width in (WIDE, NARROW)]
    owner = f" Layer {said_.layer}, owner {words.clean(said_.owner)}." if said_.layer and said_.owner else ""
    caption = f"{words.clean(said_.sentence)}: {said_.bound}-bound.{owner}"
    rows = [(category.value, share) for category, share in said_.shares.items()]
    return plot(f"shares-{name}-{one.precision}", title, tag("bdi", caption), pictures, ("category", "share"), rows)


def _executor(result: Result) -> Safe:
    rows: list[list[Child]] = []
    for layer, fields in result.executor.layers.items():
        for field_name, field in sorted(fields.items()):
            value = "unreadable: " + field.source if field.value is None else value_text(field.value)
            rows.append(
                [layer.value, said(result.contract.owner(layer)), code(field_name), said(value), field.status.value]
            )
    inner = table("Executor by layer", ("Layer", "Owner", "Field", "Value", "Status"), rows)
    return tag(
        "details", tag("summary", f"Executor: {words.count(len(rows), 'field')} in nine layers, with owners"), inner
    )
