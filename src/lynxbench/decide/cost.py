"""Cost, efficiency and value: three metrics that are never folded into one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lynxbench.compare.sittings import in_one_sitting
from lynxbench.decide.capacity import MOST_NODES
from lynxbench.decide.front import FIGURES, LEVEL, is_left_out, leads_by_little, mark_front, rank_options
from lynxbench.decide.power_plan import energy_boundary, measured_draw
from lynxbench.decide.tenure import Rates, Terms, break_even, price_tenures
from lynxbench.decide.usable_figures import measured_precision
from lynxbench.errors import BadInput, Refused
from lynxbench.model.canonical import short
from lynxbench.model.contract import Regime
from lynxbench.model.figures import Figure
from lynxbench.model.interval import Interval
from lynxbench.model.plain_numbers import plain
from lynxbench.model.planning import (
    CandidateCost,
    CostReport,
    EnergyEfficiency,
    MoneyFigure,
    Option,
    Ranking,
    Tenure,
    Value,
)
from lynxbench.model.precision import Precision
from lynxbench.model.quantities import Quantity, format_ratio, parse_unit, quantity, rate_unit, words_of
from lynxbench.model.result import Percentile, PrecisionResult, Result

PER_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class PricedOption:
    """A result at one precision with what a node of it costs."""

    name: str
    result: Result
    terms: Terms
    precision: Precision | None = None


@dataclass(frozen=True, slots=True)
class CostQuestion:
    """What is asked about the candidates."""

    utilisation: float | None = None
    demand_per_s: float | None = None
    wall_factor: float | None = None
    """Power at the wall over the accelerators' own, where somebody measured it."""
    objective: Regime | None = None
    rank: bool = False
    regimes: bool = False
    incomparable: Mapping[str, str] = field(default_factory=dict)
    """Candidates that may not stand beside the first one, with the rule they break."""


def report_cost(candidates: Sequence[PricedOption], question: CostQuestion) -> CostReport:
    """The three metrics of every candidate, the Pareto front, and an order only for a stated objective."""
    if not candidates:
        raise BadInput("no result is given; name at least one")
    _refuse_impossible(candidates, question)
    judged = [_judge(candidate, question) for candidate in candidates]
    _refuse_units(judged)
    options = mark_front(_options(judged), question.incomparable)
    rankings = _rankings(options, question)
    first = candidates[0].result
    return CostReport(
        sentence=_sentence(judged, options, rankings, question),
        contract_id=first.contract_id,
        contract_name=first.contract.name,
        candidates=tuple(row.cost for row in judged),
        options=options,
        axes=tuple(FIGURES),
        rankings=rankings,
        objective=None if question.objective is None else question.objective.value,
        cautions=_cautions(judged, question),
        cites=tuple(dict.fromkeys(candidate.result.result_id for candidate in candidates)),
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    candidate: PricedOption
    figures: PrecisionResult
    rate: Figure
    cost: CandidateCost


def _refuse_impossible(candidates: Sequence[PricedOption], question: CostQuestion) -> None:
    if question.rank and question.objective is None and not question.regimes:
        raise Refused(
            "a ranking by one number needs a stated objective: --objective latency, throughput or cost; "
            "--regimes shows all three orders"
        )
    if question.utilisation is not None and not 0 < question.utilisation <= 1:
        raise BadInput(f"--utilisation: {format_ratio(question.utilisation)} must be above 0 % and at most 100 %")
    if question.demand_per_s is not None and not 0 < question.demand_per_s < math.inf:
        raise BadInput(f"--demand: {question.demand_per_s:g} requests/s is no demand; give a rate above 0")
    if question.wall_factor is not None and not 1 <= question.wall_factor <= 10:
        raise BadInput(
            f"--wall-factor: {question.wall_factor:g} must be from 1 to 10: wall power over accelerator power"
        )
    names = [candidate.name for candidate in candidates]
    if len(set(names)) != len(names):
        raise BadInput(f"two candidates are called {max(names, key=names.count)!r}; give each a name of its own")
    currencies = {currency for candidate in candidates for currency in candidate.terms.currencies}
    if len(currencies) > 1:
        raise Refused(f"prices in {' and '.join(sorted(currencies))} cannot be added; state all in one currency")


def _refuse_units(judged: Sequence[_Judged]) -> None:
    dimensions = dict.fromkeys(parse_unit(rate_unit(row.rate.unit))[1] for row in judged)
    if len(dimensions) > 1:
        units = " and ".join(words_of(dimension) for dimension in dimensions)
        raise Refused(f"throughputs in {units} cannot stand in one table; compare results of one contract")


def _rate(figures: PrecisionResult, candidate: PricedOption) -> Figure:
    figure = figures.sustained or figures.throughput
    if figure is None or figure.estimate is None or figure.estimate <= 0:
        raise Refused(
            f"{candidate.name}: result {short(candidate.result.result_id)} has no sustained throughput at "
            f"{figures.precision}: no cost follows from it"
        )
    return figure


def _judge(candidate: PricedOption, question: CostQuestion) -> _Judged:
    figures = measured_precision(candidate.result, candidate.precision)
    rate = _rate(figures, candidate)
    utilisation, how, nodes = _utilisation(figures, question)
    draw = measured_draw(figures)
    watts = None if draw is None or draw.estimate is None else draw.estimate * (question.wall_factor or 1.0)
    rates = Rates(work=rate, requests_per_s=_requests_per_s(figures), utilisation=utilisation, watts=watts)
    tenures = price_tenures(candidate.terms, rates)
    return _Judged(
        candidate,
        figures,
        rate,
        CandidateCost(
            name=candidate.name,
            result_id=candidate.result.result_id,
            precision=figures.precision,
            tenures=tenures,
            break_even=break_even(candidate.terms, tenures, utilisation),
            efficiency=_efficiency(figures, rate, draw, question.wall_factor),
            value=_value(figures, tenures, nodes, utilisation),
            utilisation=utilisation,
            utilisation_how=how,
        ),
    )


def _requests_per_s(figures: PrecisionResult) -> Figure | None:
    if figures.load is not None and figures.load.requests_per_s is not None:
        return figures.load.requests_per_s
    rate = figures.sustained or figures.throughput
    if rate is not None and parse_unit(rate_unit(rate.unit))[1] == parse_unit("requests/s")[1]:
        return rate
    return None


def _within_objective(figures: PrecisionResult) -> tuple[float | None, str]:
    """Requests a second of one node that keep every bound, and what that rests on."""
    load = figures.load
    if load is None:
        return None, "no load run: nothing is known about requests within an objective"
    if load.saturation is not None and load.saturation.passed_per_s is not None:
        if not load.saturation.confirmed and load.saturation.at_least_per_s is not None:
            return load.saturation.at_least_per_s, "at least this within the objective; not shown beyond"
        return load.saturation.passed_per_s, "saturation within the objective"
    if load.goodput_per_s is not None and load.goodput_per_s.estimate is not None:
        return load.goodput_per_s.estimate, "goodput at the measured load"
    return None, "no request was shown to be within the objective"


def _utilisation(figures: PrecisionResult, question: CostQuestion) -> tuple[float, str, int | None]:
    capacity, basis = _within_objective(figures)
    if question.demand_per_s is not None and capacity:
        needed = question.demand_per_s / capacity
        if needed > MOST_NODES:
            asked = f"{question.demand_per_s:g} requests/s would need {needed:.3g} nodes"
            raise BadInput(f"--demand: {asked}; is the demand in requests a second?")
        nodes = math.ceil(question.demand_per_s / capacity - 1e-9)
        share = question.demand_per_s / (nodes * capacity)
        return share, f"demand {question.demand_per_s:g} /s on {nodes} nodes of {plain(capacity)} /s ({basis})", nodes
    if question.utilisation is not None:
        return question.utilisation, "declared", None
    if question.demand_per_s is not None:
        return 1.0, f"assumed: always busy at the sustained rate; no demand can be held against it: {basis}", None
    return 1.0, "assumed: always busy at the sustained rate; declare --utilisation or --demand", None


def _efficiency(figures: PrecisionResult, rate: Figure, draw: Figure | None, wall: float | None) -> EnergyEfficiency:
    energy = figures.energy_j_per_unit
    if energy is None or energy.estimate is None or draw is None:
        return EnergyEfficiency(per_joule=None, per_watt=None, boundary="not measured: no energy in this result")
    factor = wall or 1.0
    work = rate.unit.split("/")[0]
    inverse = [None if not part else 1 / (part * factor) for part in (energy.high, energy.estimate, energy.low)]
    figure = Figure(low=inverse[0], estimate=inverse[1], high=inverse[2], unit=f"{work}/J")
    per_watt = figure.model_copy(update={"unit": f"{rate.unit}/W"})  # a unit a joule is a unit a second a watt
    boundary = f"at the wall: counters × {factor:g}, declared" if wall else energy_boundary(figures)
    return EnergyEfficiency(per_joule=figure, per_watt=per_watt, boundary=boundary)


def _value(figures: PrecisionResult, tenures: Sequence[Tenure], nodes: int | None, utilisation: float) -> Value:
    capacity, basis = _within_objective(figures)
    if capacity is None or not tenures:
        why = basis if capacity is None else "no price: value is work for money"
        return Value(per_money=None, nodes=nodes, utilisation=None, words=why)
    cheapest = min(tenures, key=lambda tenure: tenure.per_hour.estimate)
    hour = cheapest.per_hour
    if not hour.low > 0:
        free = f"{cheapest.kind} costs nothing: there is no value for money"
        return Value(per_money=None, nodes=nodes, utilisation=None, words=free)
    served = capacity * utilisation * 3600
    low, middle, high = (served / money for money in (hour.high, hour.estimate, hour.low))
    return Value(
        per_money=MoneyFigure(low=low, estimate=middle, high=high, currency=hour.currency, per="request"),
        nodes=nodes,
        utilisation=utilisation,
        words=f"requests within the objective for 1 {hour.currency}, {cheapest.kind}; from {basis}",
    )


def _options(judged: Sequence[_Judged]) -> tuple[Option, ...]:
    unit = judged[-1].rate.unit
    return tuple(_option(row, tenure, unit) for row in judged for tenure in row.cost.tenures or (None,))


def _option(row: _Judged, tenure: Tenure | None, unit: str) -> Option:
    figures, cost, accuracy = row.figures, row.cost, row.figures.accuracy
    capacity, _ = _within_objective(figures)
    hour = None if tenure is None else tenure.per_hour.estimate
    per_joule = cost.efficiency.per_joule
    tail = _tail(figures)
    return Option(
        name=cost.name if tenure is None else f"{cost.name} ({tenure.kind})",
        result_id=cost.result_id,
        contract_id=row.candidate.result.contract_id,
        precision=figures.precision,
        tenure="no price" if tenure is None else tenure.kind,
        throughput=row.rate,
        latency_p99_ms=None if tail is None else tail.estimate,
        latency_p99_bounds=_bounds(tail) if tail is not None and tail.resolved else None,
        accuracy_loss=None if accuracy is None else accuracy.loss,
        accuracy="not measured" if accuracy is None else accuracy.verdict,
        cost=None if tenure is None else _per_work(tenure, row.rate, cost.utilisation, unit),
        per_joule=None if per_joule is None else per_joule.estimate,
        per_joule_bounds=None if per_joule is None else _bounds(per_joule),
        value=capacity * cost.utilisation * 3600 / hour if capacity is not None and hour else None,
        on_front=False,
    )


def _per_work(tenure: Tenure, rate: Figure, utilisation: float, unit: str) -> MoneyFigure:
    """Money for a million units of work."""
    hour = tenure.per_hour
    per_s = quantity(1.0, rate_unit(rate.unit)) * utilisation

    def cost(money: float, work: float | None) -> float:
        price = Quantity(money / 3600, ((hour.currency, 1), ("s", -1)))
        amount: Quantity = price / (per_s * (math.nan if work is None else work))
        return amount.value * PER_MILLION

    middle = cost(hour.estimate, rate.estimate)
    low = cost(hour.low, rate.high) if rate.high else middle
    high = cost(hour.high, rate.low) if rate.low else middle
    noun = unit.split("/")[0].removesuffix("s")
    return MoneyFigure(low=low, estimate=middle, high=high, currency=hour.currency, per=f"million {noun}s")


def _tail(figures: PrecisionResult) -> Percentile | None:
    for metric in ("time-to-first-token", "latency"):
        for percentile in figures.latency_ms.get(metric, ()):
            if percentile.percentile == 99 and percentile.estimate is not None:
                return percentile
    return None


def _bounds(figure: Figure | Percentile) -> Interval | None:
    """Its interval, where it has one."""
    low, estimate, high = figure.low, figure.estimate, figure.high
    return None if low is None or estimate is None or high is None else Interval(low, estimate, high)


def _rankings(options: Sequence[Option], question: CostQuestion) -> tuple[Ranking, ...]:
    wanted = [question.objective] if question.objective is not None else []
    if question.regimes:
        wanted += [regime for regime in Regime if regime not in wanted]
    comparable = [option for option in options if not is_left_out(option, question.incomparable)]
    return tuple(rank_options(comparable, regime, asked=regime is question.objective) for regime in wanted)


def _sentence(
    judged: Sequence[_Judged], options: Sequence[Option], rankings: Sequence[Ranking], question: CostQuestion
) -> str:
    chosen = next((ranking for ranking in rankings if ranking.asked), None)
    if chosen is not None and chosen.order:
        first = chosen.order[0]
        if len(chosen.order) == 1:
            return f"for the objective {chosen.regime}, there is nothing to order: {_alone(first, judged)}"
        near = _near(chosen, options, judged)
        if near:
            lead = f"{first} leads {', '.join(near)} by less than {LEVEL:.0%}, by {chosen.by}"
            why = "what sittings and machines differ by is in no interval, and they were not measured in one"
            return f"for the objective {chosen.regime}, undetermined: {lead}; {why}"
        if first not in chosen.level:
            return f"for the objective {chosen.regime}, {first} comes first, by {chosen.by}"
        others = ", ".join(chosen.level[first])
        return f"for the objective {chosen.regime}, undetermined: {first} is level with {others}, by {chosen.by}"
    if question.regimes:
        firsts = {ranking.regime.value: _first(ranking, options, judged) for ranking in rankings if ranking.order}
        return "no objective was asked for: " + "; ".join(f"{regime}: {words}" for regime, words in firsts.items())
    many = f"{len(judged)} candidates" if len(judged) > 1 else judged[0].cost.name
    return f"{many}: cost, efficiency and value stand apart; no order is given without an objective"


def _alone(only: str, judged: Sequence[_Judged]) -> str:
    """One option is no order: said with how many others may not stand beside it, or have no figure for it."""
    others = sum(max(len(row.cost.tenures), 1) for row in judged) - 1
    return f"{only} alone could be; {others} left out" if others else f"{only} is the only option"


def _near(ranking: Ranking, options: Sequence[Option], judged: Sequence[_Judged]) -> list[str]:
    """Whom the first leads by so little that another sitting, or another machine, may turn the order round."""
    named = {option.name: option for option in options}
    results = {row.candidate.result.result_id: row.candidate.result for row in judged}
    first = named[ranking.order[0]]
    if first.name in ranking.level:
        return []
    return [
        name
        for name in ranking.order[1:]
        if leads_by_little(first, named[name], ranking.regime)
        and not _one_sitting(results[first.result_id], results[named[name].result_id])
    ]


def _one_sitting(one: Result, other: Result) -> bool:
    """Whether what sittings and machines differ by is in both alike."""
    if one.result_id == other.result_id:
        return True
    return one.instance_id == other.instance_id and in_one_sitting(one.started_at, other.started_at)


def _first(ranking: Ranking, options: Sequence[Option], judged: Sequence[_Judged]) -> str:
    first, others = ranking.order[0], ranking.level.get(ranking.order[0], ())
    if near := _near(ranking, options, judged):
        return f"{first} leads {', '.join(near)} by less than {LEVEL:.0%}, not in one sitting on one machine"
    if len(ranking.order) == 1:
        return f"nothing to order, {_alone(first, judged)}"
    return f"{first} level with {', '.join(others)}" if others else f"{first} first"


def _cautions(judged: Sequence[_Judged], question: CostQuestion) -> tuple[str, ...]:
    lines = [
        f"{name} is left out of the front and of every order: {why}" for name, why in question.incomparable.items()
    ]
    for row in judged:
        if row.figures.validity.verdict != "valid":
            lines.append(f"{row.cost.name}: {row.figures.validity.verdict}: {'; '.join(row.figures.validity.reasons)}")
        if row.cost.tenures and row.candidate.terms.energy_price is None:
            lines.append(f"{row.cost.name}: no energy price; energy is not in its cost")
        elif row.cost.tenures and measured_draw(row.figures) is None and row.candidate.terms.own is not None:
            lines.append(f"{row.cost.name}: no measured draw; energy is not in its cost")
        elif row.cost.tenures and row.candidate.terms.own is not None and row.cost.utilisation < 1:
            lines.append(f"{row.cost.name}: energy counts busy time only; the draw of an idle node was not measured")
        if row.cost.utilisation_how.startswith("assumed"):
            lines.append(f"{row.cost.name}: utilisation is {row.cost.utilisation_how}")
    return tuple(dict.fromkeys(lines))
