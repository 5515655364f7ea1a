"""A decision as plain blocks (facts, tables, points): one form that the terminal, HTML and the pack share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from lynxbench.model.canonical import short
from lynxbench.model.claims import ClaimReport
from lynxbench.model.decisions import PrecisionDecision, PrecisionLine, PurchaseDecision, WhatIf
from lynxbench.model.interval import Interval
from lynxbench.model.planning import CapacityPlan, CostReport, FleetSize, MoneyFigure
from lynxbench.report.words import (
    NBSP,
    NO_FIGURE,
    bytes_text,
    clean,
    count,
    digits,
    figure_text,
    interval_text,
    number,
    percent,
    percentile_text,
    seconds_text,
)

ESTIMATE = "estimate"
PER_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with values."""

    title: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head; columns in `right` are numbers."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """A list."""

    title: str
    items: tuple[str, ...]
    warns: bool = False
    ordered: bool = False


Block = Facts | Table | Points
Decision = PurchaseDecision | CapacityPlan | CostReport | PrecisionDecision | WhatIf | ClaimReport


@singledispatch
def blocks_of(decision: Decision) -> tuple[Block, ...]:
    """What stands under a decision's sentence."""
    raise TypeError(f"no blocks for {type(decision).__name__}")


def title_of(decision: Decision) -> str:
    """A heading for a decision."""
    titles = {
        "purchase": "Purchase: five questions",
        "capacity": "Capacity",
        "cost": "Cost, efficiency, value",
        "precision": "Precision",
        "whatif": "What if",
        "claim": "Claim",
    }
    return titles[decision.kind]


@blocks_of.register
def _(decision: PurchaseDecision) -> tuple[Block, ...]:
    rows = []
    for answer in decision.answers:
        evidence = ", ".join(short(one) for one in answer.evidence)
        how = f"evidence {evidence}" if answer.answered else f"run: {clean(answer.command)}"
        mark = "✓" if answer.answered else "✗"
        rows.append((f"{answer.number}{NBSP}{mark}{NBSP}{answer.title}", clean(answer.says), how))
    blocks: list[Block] = [
        Table("The five questions", ("", "Answer", "Evidence, or what would answer it"), tuple(rows))
    ]
    if decision.follow_up is not None:
        one = decision.follow_up
        pairs = [
            ("re-measured by", clean(one.remeasured_by)),
            ("baseline", short(one.baseline)),
            ("expected", f"{_factor(one.expected)} of the baseline's throughput"),
        ]
        pairs += [("due", clean(one.due))] if one.due else []
        blocks.append(Facts("Follow-up", tuple(pairs)))
    return (*blocks, *_cautions(decision.cautions))


@blocks_of.register
def _(plan: CapacityPlan) -> tuple[Block, ...]:
    facts = (
        ("demand", clean(plan.demand.words)),
        ("planned for", f"{digits(plan.demand.planned_per_s, 4)} requests/s, headroom {percent(plan.headroom)}, "
                        f"{count(plan.failures, 'failed node')}, balancing {plan.balancing}"),
        ("objective", ", ".join(clean(one) for one in plan.objective)),
        ("evidence", f"{short(plan.result_id)} ({plan.precision})"),
    )  # fmt: skip
    rows = tuple(_fleet_row(one) for one in (plan.proposed, plan.naive))
    head = ("Plan", "Nodes", "For one node", "Load of what is left", "Periods held", "Late", "From")
    note = f"A period is {seconds_text(plan.period_s)} at the planned demand with the failed nodes gone; simulated."
    blocks: list[Block] = [
        Facts("What was asked", facts),
        Table("The plan beside the naive one", head, rows, (1, 2, 3, 4, 5), note),
        Points("What the naive plan would get wrong", plan.wrong or ("nothing at this demand",)),
    ]
    if plan.check:
        checked = tuple(
            (
                digits(one.rate_per_s, 4),
                *(_ms(x) for x in (one.measured_p50_s, one.simulated_p50_s, one.measured_p99_s, one.simulated_p99_s)),
            )
            for one in plan.check
        )
        columns = ("Requests/s", "p50 measured", "p50 simulated", "p99 measured", "p99 simulated")
        words = "" if plan.node is None else f"The node {clean(plan.node.words)}."
        blocks.append(Table("Queueing, simulated against the measured curve", columns, checked, (0, 1, 2, 3, 4), words))
    power = plan.power
    blocks.append(
        Facts(
            "Power and cooling",
            (
                ("measured draw of a node", f"{figure_text(power.measured_w_per_node)} ({power.measured_how})"),
                ("nameplate of a node", _w(power.nameplate_w_per_node, power.nameplate_how)),
                ("fleet, measured", figure_text(power.fleet_kw)),
                ("fleet, by nameplate", _unit(power.nameplate_kw, "kW")),
                ("to be cooled", figure_text(power.cooling_kw)),
                ("facility, with PUE", figure_text(power.facility_kw) if power.pue else "PUE not declared"),
            ),
        )
    )
    return (*blocks, *_cautions(plan.cautions))


@blocks_of.register
def _(report: CostReport) -> tuple[Block, ...]:
    costs: list[tuple[str, ...]] = []
    efficiency: list[tuple[str, ...]] = []
    value: list[tuple[str, ...]] = []
    for one in report.candidates:
        for tenure in one.tenures:
            costs.append(
                (
                    one.name,
                    tenure.kind,
                    _money(tenure.per_hour),
                    _money(tenure.per_request, PER_MILLION),
                    _money(tenure.per_million_tokens),
                    clean(tenure.words),
                )
            )
        if not one.tenures:
            costs.append((one.name, "no price", *(NO_FIGURE,) * 3, "give --price, --rent or --plan"))
        efficiency.append(
            (
                one.name,
                figure_text(one.efficiency.per_joule),
                figure_text(one.efficiency.per_watt),
                one.efficiency.boundary,
            )
        )
        worth = one.value.per_money
        said = NO_FIGURE if worth is None else f"{_worth(worth)} requests/{worth.currency}"
        value.append((one.name, said, percent(one.utilisation), clean(one.value.words)))
    blocks: list[Block] = [
        Table(
            "Cost",
            ("Candidate", "Tenure", "Hour", "Million requests", "Million tokens", "Made of"),
            tuple(costs),
            (2, 3, 4),
        ),
        Table("Efficiency", ("Candidate", "Work a joule", "Rate a watt", "Measured where"), tuple(efficiency), (1, 2)),
        Table("Value", ("Candidate", "Within the objective", "Utilisation", "Rests on"), tuple(value), (1, 2)),
    ]
    evens = [(one.name, clean(one.break_even.words)) for one in report.candidates if one.break_even is not None]
    if evens:
        blocks.append(Facts("Own against rent", tuple(evens)))
    if len(report.options) > 1:
        blocks.append(_front(report))
    for ranking in report.rankings:
        asked = "asked for" if ranking.asked else "not asked for: shown beside the others"
        title = f"Order for {ranking.regime} ({ranking.by}; {asked})"
        blocks.append(
            Points(title, tuple(clean(name) for name in ranking.order) or ("no option has it",), ordered=True)
        )
        if ranking.left_out:
            blocks.append(Points(f"Left out of the order for {ranking.regime}", tuple(map(clean, ranking.left_out))))
    return (*blocks, *_cautions(report.cautions))


def _energy_text(line: PrecisionLine) -> str:
    text = figure_text(line.energy)
    return text if line.energy_per_request is None else f"{text}, {figure_text(line.energy_per_request)}"


@blocks_of.register
def _(decision: PrecisionDecision) -> tuple[Block, ...]:
    speed, quality = [], []
    for line in decision.lines:
        name = f"{line.precision}{' (reference)' if line.is_reference else ''}"
        speed.append(
            (
                name,
                line.verdict,
                figure_text(line.throughput),
                NO_FIGURE if line.speedup is None else _factor(line.speedup),
                NO_FIGURE if line.latency is None else percentile_text(line.latency),
                bytes_text(line.memory_bytes),
            )
        )
        metrics = ", ".join(f"{key} {digits(value)}" for key, value in line.accuracy.items() if value is not None)
        loss = NO_FIGURE if line.loss is None else f"{percent(line.loss.estimate)} ({line.loss_how})"
        executed = f"{line.native}{', ' + clean(line.executed) if line.executed else ''}"
        quality.append((name, _energy_text(line), loss, clean(metrics) or NO_FIGURE, executed, clean(line.toolchain)))
    metric = next((line.latency_metric for line in decision.lines if line.latency_metric), "latency")
    head = ("Precision", "Verdict", "Sustained", "Against reference", f"p99 {metric}", "Memory")
    whys = tuple((line.precision.value, f"{line.verdict}: {clean(line.why)}") for line in decision.lines)
    cache = decision.kv_cache
    said = clean(cache.says) + (f"; {clean(cache.command)}" if cache.command else "")
    return (
        Facts("Policy", (("accuracy", clean(decision.policy)),)),
        Table("Speed and what it takes", head, tuple(speed), (2, 3, 4, 5)),
        Table(
            "Energy, accuracy and how it was executed",
            ("Precision", "Energy", "Loss", "Metrics", "Executed as", "Tool chain"),
            tuple(quality),
            (1,),
        ),
        Facts("Why", whys),
        Facts("KV cache", ((cache.state, said),)),
        *_cautions(decision.cautions),
    )


@blocks_of.register
def _(found: WhatIf) -> tuple[Block, ...]:
    shares = sorted(found.shares.items(), key=lambda item: -item[1])
    blocks: list[Block] = [
        Facts(
            "Measured",
            (
                ("evidence", f"{short(found.result_id)} ({found.precision})"),
                (
                    "where time goes",
                    ", ".join(f"{name.replace('_', ' ')} {percent(part)}" for name, part in shares[:5]),
                ),
            ),
        )
    ]
    rows = []
    if found.swap is not None:
        rows.append(
            (f"swap to {found.swap.device}", _gain(found.swap.gain), ESTIMATE, "measured shares, scaled ceilings")
        )
    if found.fix is not None:
        owner = f" ({clean(found.fix.owner)})" if found.fix.owner else ""
        rows.append((f"fix: {clean(found.fix.fix)}{owner}", _gain(found.fix.gain), ESTIMATE, "measured shares"))
        for name, gain in found.fix.measured.items():
            rows.append((f"intervention: {clean(name)}", _gain(gain), "measured", "run for real on this executor"))
    if found.both is not None:
        rows.append(("fix, then swap", _gain(found.both), ESTIMATE, "the swap on what the fix leaves"))
    blocks.append(Table("Expected gain", ("Change", "Gain", "", "From"), tuple(rows), (1,)))
    if found.swap is not None:
        factors = tuple((name, _gain(factor), found.swap.how[name]) for name, factor in found.swap.factors.items())
        blocks.append(Table("The device, new over old", ("Part", "Factor", "From"), factors, (1,)))
    if found.assumptions:
        checked = tuple((one.name, one.state.value, clean(one.because)) for one in found.assumptions)
        blocks.append(Table("Five assumptions of a spec sheet", ("Assumption", "State", "Because"), checked))
    return (*blocks, *_cautions(found.cautions))


@blocks_of.register
def _(report: ClaimReport) -> tuple[Block, ...]:
    claimed = tuple((one.kind, clean(one.text)) for one in report.claimed[:8]) or (("figures", "none found"),)
    stated = tuple((one.context.value, clean(one.words)) for one in report.stated) or (("nothing", "–"),)
    blocks: list[Block] = [
        Facts("Claimed", claimed),
        Facts("Stated", stated),
        Points("Missing", tuple(one.value for one in report.missing) or ("nothing",)),
        Points("Comparable with", tuple(clean(one) for one in report.comparable_with)),
    ]
    if report.questions:
        blocks.append(Points("Questions for whoever claims it", report.questions))
    return (*blocks, *_cautions(report.warnings))


def _front(report: CostReport) -> Table:
    rows = tuple(
        (
            one.name,
            "on the front" if one.on_front else f"beaten by {one.dominated_by}" if one.dominated_by else "left out",
            figure_text(one.throughput),
            NO_FIGURE if one.latency_p99_ms is None else f"{digits(one.latency_p99_ms)}{NBSP}ms",
            _money(one.cost),
            digits(one.per_joule) if one.per_joule else NO_FIGURE,
            one.accuracy,
        )
        for one in report.options
    )
    head = ("Option", "Pareto", "Sustained", "p99", _cost_name(report), "Work a joule", "Accuracy")
    return Table("Pareto front", head, rows, (2, 3, 4, 5), f"Taken over {'; '.join(report.axes)}.")


def _cost_name(report: CostReport) -> str:
    per = next((one.cost.per for one in report.options if one.cost is not None), "")
    return f"Cost of a {per}" if per else "Cost"


def _fleet_row(one: FleetSize) -> tuple[str, ...]:
    return (
        one.name,
        str(one.nodes),
        f"{digits(one.per_node_per_s, 4)}{NBSP}/s",
        percent(one.load),
        "not simulated" if one.periods_met is None else percent(one.periods_met),
        NO_FIGURE if one.late_share is None else percent(one.late_share),
        clean(one.basis),
    )


def _cautions(said: tuple[str, ...]) -> tuple[Block, ...]:
    return (Points("Cautions", tuple(clean(one) for one in said), warns=True),) if said else ()


def _factor(interval: Interval) -> str:
    if not interval.known:
        return f"{number(interval.estimate, 2)}× [no{NBSP}interval]"
    low, middle, high = (number(x, 2) for x in (interval.low, interval.estimate, interval.high))
    return f"{middle}×" if low == high else f"{middle}×{NBSP}[{low},{NBSP}{high}]"


def _gain(interval: Interval) -> str:
    return _factor(interval)


def _money(figure: MoneyFigure | None, many: float = 1.0) -> str:
    if figure is None:
        return NO_FIGURE
    low, middle, high = (digits(part * many, 3) for part in (figure.low, figure.estimate, figure.high))
    if low == high:
        return f"{middle}{NBSP}{figure.currency}"
    return f"{middle}{NBSP}[{low},{NBSP}{high}]{NBSP}{figure.currency}"


def _worth(figure: MoneyFigure) -> str:
    if figure.low == figure.high:
        return digits(figure.estimate, 3)
    return interval_text(Interval(figure.low, figure.estimate, figure.high))


def _ms(seconds: float) -> str:
    return f"{digits(seconds * 1e3)}{NBSP}ms"


def _w(watts: float | None, how: str) -> str:
    return clean(how) if watts is None else f"{digits(watts, 4)}{NBSP}W ({clean(how)})"


def _unit(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{digits(value)}{NBSP}{unit}"
