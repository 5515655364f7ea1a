"""Decisions and claims: the sentence, then what it rests on."""

from functools import singledispatch

from lynxbench.model.canonical import short
from lynxbench.model.claims import ClaimReport
from lynxbench.model.decisions import PrecisionDecision, PrecisionLine, PurchaseDecision, WhatIf
from lynxbench.model.interval import Interval
from lynxbench.model.planning import CapacityPlan, CostReport, FleetSize, MoneyFigure
from lynxbench.report import doc
from lynxbench.report.doc import Fact, Inline, Span, Tone, code, said
from lynxbench.report.words import (
    NBSP,
    NO_FIGURE,
    bytes_text,
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
TITLES = {
    "purchase": "Purchase: five questions",
    "capacity": "Capacity",
    "cost": "Cost, efficiency, value",
    "precision": "Precision",
    "whatif": "What if",
    "claim": "Claim",
}
_TONES = {"go": Tone.GOOD, "no-go": Tone.BAD, "holds": Tone.GOOD, "broken": Tone.BAD}

Decision = PurchaseDecision | CapacityPlan | CostReport | PrecisionDecision | WhatIf | ClaimReport


def compose_decision(decision: Decision) -> doc.Report:
    """A decision by itself."""
    return doc.Report(
        TITLES[decision.kind], (doc.Verdict(said(decision.sentence), title="Decision"), *decision_blocks(decision))
    )


@singledispatch
def decision_blocks(decision: Decision) -> tuple[doc.Block, ...]:
    """What stands under a decision's sentence."""
    raise TypeError(f"no blocks for {type(decision).__name__}")


@decision_blocks.register
def _(decision: PurchaseDecision) -> tuple[doc.Block, ...]:
    rows: list[tuple[Inline, ...]] = []
    for answer in decision.answers:
        mark, tone = ("✓", Tone.GOOD) if answer.answered else ("✗", Tone.BAD)
        evidence: Inline = ("run: ", code(answer.command))
        if answer.answered:
            evidence = f"evidence {', '.join(map(short, answer.evidence))}"
        rows.append((Span(f"{answer.number}{NBSP}{mark}{NBSP}{answer.title}", tone), said(answer.says), evidence))
    blocks: list[doc.Block] = [
        doc.Table(("", "Answer", "Evidence, or what would answer it"), rows, "The five questions")
    ]
    if (planned := decision.follow_up) is not None:
        pairs: list[Fact | None] = [
            ("re-measured by", said(planned.remeasured_by)),
            ("baseline", short(planned.baseline)),
            ("expected", f"{_factor(planned.expected)} of the baseline's throughput"),
            ("due", said(planned.due)) if planned.due else None,
        ]
        blocks.append(doc.Facts(pairs, "Follow-up"))
    return (*blocks, *_cautions(decision.cautions))


@decision_blocks.register
def _(plan: CapacityPlan) -> tuple[doc.Block, ...]:
    planned = (
        f"{digits(plan.demand.planned_per_s, 4)} requests/s, headroom {percent(plan.headroom)}, "
        f"{count(plan.failures, 'failed node')}, balancing {plan.balancing}"
    )
    facts: tuple[Fact, ...] = (
        ("demand", said(plan.demand.words)),
        ("planned for", planned),
        ("objective", said(", ".join(plan.objective))),
        ("evidence", f"{short(plan.result_id)} ({plan.precision})"),
    )
    head = ("Plan", "Nodes", "For one node", "Load of what is left", "Periods held", "Late", "From")
    rows = [_fleet_row(size) for size in (plan.proposed, plan.naive)]
    note = f"A period is {seconds_text(plan.period_s)} at the planned demand with the failed nodes gone; "
    note += _simulated(plan.proposed)
    check_head = ("Requests/s", "p50 measured", "p50 simulated", "p99 measured", "p99 simulated")
    checked = [
        (digits(point.rate_per_s, 4),
         *(f"{digits(seconds * 1e3)}{NBSP}ms" for seconds in (
             point.measured_p50_s, point.simulated_p50_s, point.measured_p99_s, point.simulated_p99_s)))
        for point in plan.check
    ]  # fmt: skip
    node = "" if plan.node is None else f"The node {plan.node.words}."
    power = plan.power
    nameplate = "" if power.nameplate_w_per_node is None else f"{digits(power.nameplate_w_per_node, 4)}{NBSP}W "
    drawn: tuple[Fact, ...] = (
        ("measured draw of a node", f"{figure_text(power.measured_w_per_node)} ({power.measured_how})"),
        ("nameplate of a node", f"{nameplate}({power.nameplate_how})" if nameplate else power.nameplate_how),
        ("fleet, measured", figure_text(power.fleet_kw)),
        ("fleet, by nameplate", "unknown" if power.nameplate_kw is None else f"{digits(power.nameplate_kw)}{NBSP}kW"),
        ("to be cooled", figure_text(power.cooling_kw)),
        ("facility, with PUE", figure_text(power.facility_kw) if power.pue else "PUE not declared"),
    )
    return (
        doc.Facts(facts, "What was asked"),
        doc.Table(head, rows, "The plan beside the naive one", (1, 2, 3, 4, 5), note),
        doc.Points(plan.wrong or ("nothing at this demand",), "What the naive plan would get wrong"),
        doc.Table(check_head, checked, "Queueing, simulated against the measured curve", range(5), node),
        doc.Facts(drawn, "Power and cooling"),
        *_cautions(plan.cautions),
    )


@decision_blocks.register
def _(report: CostReport) -> tuple[doc.Block, ...]:
    costs: list[tuple[Inline, ...]] = []
    efficiency: list[tuple[Inline, ...]] = []
    value: list[tuple[Inline, ...]] = []
    for candidate in report.candidates:
        for tenure in candidate.tenures:
            requests, tokens = _money(tenure.per_request, PER_MILLION), _money(tenure.per_million_tokens)
            costs.append((candidate.name, tenure.kind, _money(tenure.per_hour), requests, tokens, said(tenure.words)))
        if not candidate.tenures:
            costs.append((candidate.name, "no price", *(NO_FIGURE,) * 3, "give --price, --rent or --plan"))
        spent, worth = candidate.efficiency, candidate.value.per_money
        efficiency.append((candidate.name, figure_text(spent.per_joule), figure_text(spent.per_watt), spent.boundary))
        per_money = NO_FIGURE if worth is None else f"{_worth(worth)} requests/{worth.currency}"
        value.append((candidate.name, per_money, percent(candidate.utilisation), said(candidate.value.words)))
    cost_head = ("Candidate", "Tenure", "Hour", "Million requests", "Million tokens", "Made of")
    evens: list[Fact] = [
        (candidate.name, said(candidate.break_even.words))
        for candidate in report.candidates
        if candidate.break_even is not None
    ]
    blocks: list[doc.Block] = [
        doc.Table(cost_head, costs, "Cost", (2, 3, 4)),
        doc.Table(("Candidate", "Work a joule", "Rate a watt", "Measured where"), efficiency, "Efficiency", (1, 2)),
        doc.Table(("Candidate", "Within the objective", "Utilisation", "Rests on"), value, "Value", (1, 2)),
        *([doc.Facts(evens, "Own against rent")] if evens else []),
        *([_front(report)] if len(report.options) > 1 else []),
    ]
    for ranking in report.rankings:
        request = "asked for" if ranking.asked else "not asked for: shown beside the others"
        title = f"Order for {ranking.regime} ({ranking.by}; {request})"
        level = {name: f", level with {', '.join(others)}" for name, others in ranking.level.items()}
        places = [f"{name}{level.get(name, '')}" for name in ranking.order]
        blocks.append(doc.Points(places or ("no option has it",), title, doc.Bullet.ORDERED))
        if ranking.left_out:
            blocks.append(doc.Points(ranking.left_out, f"Left out of the order for {ranking.regime}"))
    return (*blocks, *_cautions(report.cautions))


@decision_blocks.register
def _(decision: PrecisionDecision) -> tuple[doc.Block, ...]:
    speed: list[tuple[Inline, ...]] = []
    quality: list[tuple[Inline, ...]] = []
    for line in decision.lines:
        name = f"{line.name}{' (reference)' if line.is_reference else ''}"
        speedup = NO_FIGURE if line.speedup is None else _factor(line.speedup)
        latency = NO_FIGURE if line.latency is None else percentile_text(line.latency)
        speed.append(
            (name, _toned(line.verdict), figure_text(line.throughput), speedup, latency, bytes_text(line.memory_bytes))
        )
        metrics = ", ".join(f"{key} {digits(value)}" for key, value in line.accuracy.items() if value is not None)
        loss = NO_FIGURE if line.loss is None else f"{percent(line.loss.estimate)} ({line.loss_how})"
        executed = f"{line.native}{', ' + line.executed if line.executed else ''}"
        quality.append((name, _energy_text(line), loss, metrics or NO_FIGURE, said(executed), said(line.toolchain)))
    metric = next((line.latency_metric for line in decision.lines if line.latency_metric), "latency")
    head = ("Precision", "Verdict", "Sustained", "Against reference", f"p99 {metric}", "Memory")
    quality_head = ("Precision", "Energy", "Loss", "Metrics", "Executed as", "Tool chain")
    whys: list[Fact] = [(line.name, f"{line.verdict}: {line.why}") for line in decision.lines]
    cache = decision.kv_cache
    return (
        doc.Facts([("accuracy", said(decision.policy))], "Policy"),
        doc.Table(head, speed, "Speed and what it takes", (2, 3, 4, 5)),
        doc.Table(quality_head, quality, "Energy, accuracy and how it was executed", (1,)),
        doc.Facts(whys, "Why"),
        doc.Facts([(cache.state, f"{cache.says}; {cache.command}" if cache.command else cache.says)], "KV cache"),
        *_cautions(decision.cautions),
    )


@decision_blocks.register
def _(estimate: WhatIf) -> tuple[doc.Block, ...]:
    shares = sorted(estimate.shares.items(), key=lambda item: -item[1])
    goes = ", ".join(f"{name.replace('_', ' ')} {percent(part)}" for name, part in shares[:5])
    measured: tuple[Fact, ...] = (
        ("evidence", f"{short(estimate.result_id)} ({estimate.precision})"),
        ("where time goes", goes),
    )
    swap, fix = estimate.swap, estimate.fix
    rows = []
    if swap is not None:
        rows.append((f"swap to {swap.device}", _factor(swap.gain), ESTIMATE, "measured shares, scaled ceilings"))
    if fix is not None:
        owner = f" ({fix.owner})" if fix.owner else ""
        rows.append((f"fix: {fix.fix}{owner}", _factor(fix.gain), ESTIMATE, "measured shares"))
        for name, gain in fix.measured.items():
            rows.append((f"intervention: {name}", _factor(gain), "measured", "run for real on this executor"))
    if estimate.both is not None:
        rows.append(("fix, then swap", _factor(estimate.both), ESTIMATE, "the swap on what the fix leaves"))
    factors = [] if swap is None else [(name, _factor(factor), swap.how[name]) for name, factor in swap.factors.items()]
    assumptions = [
        (checked.name, _toned(checked.state.value), said(checked.because)) for checked in estimate.assumptions
    ]
    return (
        doc.Facts(measured, "Measured"),
        doc.Table(("Change", "Gain", "", "From"), rows, "Expected gain", (1,)),
        doc.Table(("Part", "Factor", "From"), factors, "The device, new over old", (1,)),
        doc.Table(("Assumption", "State", "Because"), assumptions, "Five assumptions of a spec sheet"),
        *_cautions(estimate.cautions),
    )


@decision_blocks.register
def _(report: ClaimReport) -> tuple[doc.Block, ...]:
    claimed: list[Fact] = [(figure.kind, said(figure.text)) for figure in report.claimed[:8]]
    contexts: list[Fact] = [(stated.context.value, said(stated.words)) for stated in report.stated]
    return (
        doc.Facts(claimed or [("figures", "none found")], "Claimed"),
        doc.Facts(contexts or [("nothing", "–")], "Stated"),
        doc.Points([context.value for context in report.missing], "Missing", empty="Missing: nothing"),
        doc.Points(report.comparable_with, "Comparable with"),
        doc.Points(report.questions, "Questions for whoever claims it"),
        *_cautions(report.warnings),
    )


def _energy_text(line: PrecisionLine) -> str:
    text = figure_text(line.energy)
    return text if line.energy_per_request is None else f"{text}, {figure_text(line.energy_per_request)}"


def _front(report: CostReport) -> doc.Table:
    rows: list[tuple[Inline, ...]] = []
    for option in report.options:
        place: Inline = f"beaten by {option.dominated_by}" if option.dominated_by else "left out"
        if option.on_front:
            place = Span("on the front", Tone.GOOD)
        latency = NO_FIGURE if option.latency_p99_ms is None else f"{digits(option.latency_p99_ms)}{NBSP}ms"
        work = digits(option.per_joule) if option.per_joule else NO_FIGURE
        rows.append(
            (option.name, place, figure_text(option.throughput), latency, _money(option.cost), work, option.accuracy)
        )
    per = next((option.cost.per for option in report.options if option.cost is not None), "")
    head = ("Option", "Pareto", "Sustained", "p99", f"Cost of a {per}" if per else "Cost", "Work a joule", "Accuracy")
    return doc.Table(head, rows, "Pareto front", (2, 3, 4, 5), f"Taken over {'; '.join(report.axes)}.")


def _simulated(size: FleetSize) -> str:
    """How much of each period the words `periods held` rest on."""
    if size.periods_met is None:
        return "not simulated."
    if size.simulated_share is None or size.simulated_share >= 1:
        return "simulated."
    part = f"the first {percent(size.simulated_share)} of each was simulated"
    return f"{part} for the {size.name} plan, and a part is noisier than the whole."


def _fleet_row(size: FleetSize) -> tuple[Inline, ...]:
    return (
        size.name,
        str(size.nodes),
        f"{digits(size.per_node_per_s, 4)}{NBSP}/s",
        "no node is left" if size.load is None else percent(size.load),
        "not simulated" if size.periods_met is None else percent(size.periods_met),
        NO_FIGURE if size.late_share is None else percent(size.late_share),
        said(size.basis),
    )


def _toned(word: str) -> Inline:
    return Span(word, _TONES[word]) if word in _TONES else word


def _cautions(cautions: tuple[str, ...]) -> tuple[doc.Block, ...]:
    return (doc.Points(cautions, "Cautions", doc.Bullet.WARNS),) if cautions else ()


def _factor(interval: Interval) -> str:
    if not interval.known:
        return f"{number(interval.estimate, 2)}× [no{NBSP}interval]"
    low, middle, high = (number(x, 2) for x in (interval.low, interval.estimate, interval.high))
    return f"{middle}×" if low == high else f"{middle}×{NBSP}[{low},{NBSP}{high}]"


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
