"""The size of a fleet from steady-state saturation, simulated with the measured node; never from peak or nameplate."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lynxbench.decide.power_plan import plan_power
from lynxbench.decide.usable_figures import OPEN_LOOP_COMMAND, measured_precision
from lynxbench.errors import BadInput, Refused
from lynxbench.model.canonical import short
from lynxbench.model.contract import Slo, SloMetric
from lynxbench.model.load_figures import SaturationRecord
from lynxbench.model.plain_numbers import plain
from lynxbench.model.planning import CapacityPlan, CheckedPoint, DemandForecast, FittedNode, FleetSize, PowerPlan
from lynxbench.model.precision import Precision
from lynxbench.model.quantities import format_ratio
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.stats.fleets import (
    Balancing,
    NodeFit,
    Point,
    counted_requests,
    fit_node,
    late_shares,
    node_capacity,
)

NEEDED_PERIODS = 0.975
"""Share of simulated periods that must hold: half the 5 % that a plan may miss, the other half is the fit's."""
RUNS = 80
MOST_STEPS = 6_000
"""Requests of one simulated queue in a period; a longer period is simulated by its first part, which is the noisier."""
CURVE_TOLERANCE = 0.25
"""Largest |log ratio| of a simulated percentile to the measured one, beyond its own doubt, for a fit to be believed."""
CAPACITY_TOLERANCE = 0.25
"""Largest |log ratio| of the fitted queue's own capacity to the measured one."""
MOST_NODES = 100_000
SIMULATED_NODES = 2_000
"""A larger fleet is sized by the split alone: at that size rounding to whole nodes no longer matters."""


@dataclass(frozen=True, slots=True)
class CapacityDemand:
    """What the fleet must survive."""

    demand: DemandForecast
    headroom: float = 0.0
    failures: int = 0
    balancing: Balancing = Balancing.RANDOM
    period_s: float = 3600.0
    claimed_per_s: float | None = None
    """A vendor's requests a second for one node: what a naive plan would divide by."""
    nameplate_w: float | None = None
    pue: float | None = None


@dataclass(frozen=True, slots=True)
class _Checked:
    fit: NodeFit
    scale: float
    """Rates of the fitted queue over measured ones, so that both have the same capacity."""
    agrees: bool


@dataclass(frozen=True, slots=True)
class _Simulation:
    """A demand against fleets of the fitted node; unfitted where the measured curve is no such queue's."""

    checked: _Checked | None
    slo: Slo
    rate: float
    """Requests a second with headroom."""
    target: CapacityDemand
    rng: np.random.Generator

    def fitted(self, nodes: int) -> _Checked | None:
        """The checked fit, where it is believed and such a fleet can be simulated."""
        return self.checked if self.checked is not None and self.checked.agrees and nodes <= SIMULATED_NODES else None

    def smallest(self, split: int) -> int | None:
        """The fewest working nodes that hold in simulation; None where the fitted queue is not believed."""
        checked = self.fitted(split)
        if checked is None:
            return None
        if self.target.balancing is Balancing.RANDOM:
            fewest = split
        else:  # spreading evenly can carry more than nodes by themselves, never more than their ceilings together
            fewest = max(1, math.ceil(self.rate * checked.scale / checked.fit.node.ceiling_per_s))
        sizes = range(fewest, 2 * split + 8)
        return next((nodes for nodes in sizes if self.periods(checked, nodes)[0] >= NEEDED_PERIODS), None)

    def periods(self, checked: _Checked, nodes: int) -> tuple[float, float]:
        """Share of periods that held, and the share of late requests over all."""
        late = late_shares(
            checked.fit.node,
            self.rate * checked.scale,
            nodes,
            self.target.balancing,
            self.slo.at_most_s,
            runs=RUNS,
            period_s=self.target.period_s / checked.scale,
            most_steps=MOST_STEPS,
            rng=self.rng,
        )
        return float((late <= 1 - self.slo.percentile / 100).mean()), float(late.mean())

    def simulated_share(self, checked: _Checked, nodes: int) -> float | None:
        """How much of a period the simulation of such a fleet goes through; None where it is overrun from the start."""
        rate, period_s = self.rate * checked.scale, self.target.period_s / checked.scale
        if nodes < 1 or rate >= nodes * checked.fit.node.ceiling_per_s:
            return None
        counted = counted_requests(rate, nodes, self.target.balancing, period_s=period_s, most_steps=MOST_STEPS)
        queues = 1 if self.target.balancing is Balancing.SHARED_QUEUE else nodes
        return min(1.0, counted / (rate / queues * period_s))

    def sized(self, name: str, nodes: int, per_node_per_s: float, basis: str) -> FleetSize:
        """A fleet with what is left of it when nodes are gone."""
        left = nodes - self.target.failures
        met: float | None = None
        late: float | None = None
        share: float | None = None
        checked = self.fitted(left)
        if checked is not None:
            share = self.simulated_share(checked, left)
            met, late = self.periods(checked, left) if left > 0 else (0.0, 1.0)
        return FleetSize(
            name=name,
            nodes=nodes,
            per_node_per_s=per_node_per_s,
            basis=basis,
            periods_met=met,
            late_share=late,
            load=self.rate / (left * per_node_per_s) if left > 0 else None,
            simulated_share=share,
        )

    def naive(self, ceiling_per_s: float) -> FleetSize:
        """Average demand over the highest figure at hand, no spare node: how fleets are sized from a data sheet."""
        demand, claimed = self.target.demand, self.target.claimed_per_s
        per_node = max(ceiling_per_s, claimed or 0.0)
        mean = demand.mean_per_s
        divided = demand.planned_per_s if mean is None else mean * (1 + demand.growth)
        nodes = max(1, math.ceil(divided / per_node - 1e-9))
        figure = "the vendor's figure" if claimed == per_node else "peak completions a second, no latency bound"
        over = "planned" if mean is None else "average"
        basis = f"{over} demand {plain(divided)} /s over {figure}, no headroom, no spare node"
        return self.sized("naive", nodes, per_node, basis)


def plan_capacity(
    result: Result, target: CapacityDemand, precision: Precision | None = None, seed: int = 7
) -> CapacityPlan:
    """The smallest fleet that holds the objective at the planned demand with so many nodes gone."""
    _refuse_impossible(target)
    figures = measured_precision(result, precision)
    saturation, passed_per_s, slo = measured_saturation(result, figures)
    plan_power(result, figures, 1, target.nameplate_w, target.pue)  # refuses what is impossible before any simulation
    rng = np.random.default_rng(seed)
    checked = _check(saturation, passed_per_s, slo, seed)
    rate = target.demand.planned_per_s * (1 + target.headroom)
    split = math.ceil(rate / passed_per_s - 1e-9)
    if split > MOST_NODES:
        raise BadInput(f"{rate:g} requests/s would need {split:.3g} nodes; is the demand in requests a second?")
    simulation = _Simulation(checked, slo, rate, target, rng)
    simulated = simulation.smallest(split)
    needed = split if simulated is None else simulated
    proposed = simulation.sized("proposed", needed + target.failures, passed_per_s, _basis(saturation, passed_per_s))
    naive = simulation.naive(saturation.ceiling_per_s)
    power = plan_power(result, figures, proposed.nodes, target.nameplate_w, target.pue)
    return CapacityPlan(
        sentence=capacity_sentence(proposed, target, result),
        contract_id=result.contract_id,
        contract_name=result.contract.name,
        result_id=result.result_id,
        precision=figures.precision,
        objective=tuple(_bound_words(bound) for bound in result.contract.objective.slo),
        demand=target.demand,
        headroom=target.headroom,
        failures=target.failures,
        balancing=target.balancing.value,
        period_s=target.period_s,
        proposed=proposed,
        naive=naive,
        wrong=_wrong(naive, proposed, target, passed_per_s, power),
        node=_fitted(checked),
        check=_points(checked, saturation),
        power=power,
        cautions=_cautions(result, figures, saturation, checked, simulated, target, split),
        cites=(result.result_id,),
    )


def _refuse_impossible(target: CapacityDemand) -> None:
    if not 0 <= target.headroom <= 10:
        raise BadInput(f"--headroom: {format_ratio(target.headroom)} must be from 0 % to 1000 %")
    if not 0 <= target.failures <= 1000:
        raise BadInput(f"--failures: {target.failures} must be from 0 to 1000 nodes")
    if not 0 < target.period_s < math.inf:
        raise BadInput(f"--period: {target.period_s:g} s is no period; give one above 0")
    if target.claimed_per_s is not None and not 0 < target.claimed_per_s < math.inf:
        raise BadInput(f"--claimed: {target.claimed_per_s:g} is no rate; give one above 0")


def measured_saturation(result: Result, figures: PrecisionResult) -> tuple[SaturationRecord, float, Slo]:
    """The search, the rate that held the objective, and the first of its bounds."""
    search = figures.load.saturation if figures.load is not None else None
    if search is None or search.passed_per_s is None:
        why = (
            "holds no saturation search" if search is None else f"shows no rate that held the objective ({search.note})"
        )
        raise Refused(
            f"result {short(result.result_id)} {why}: a fleet is sized from its steady saturation, never from a peak. "
            f"{OPEN_LOOP_COMMAND}"
        )
    if not result.contract.objective.slo:
        raise Refused(f"contract {result.contract.name} bounds no latency: saturated has no meaning there")
    return search, search.lower_per_s or search.passed_per_s, result.contract.objective.slo[0]


@lru_cache(maxsize=32)
def _check(saturation: SaturationRecord, passed_per_s: float, slo: Slo, seed: int) -> _Checked | None:
    """The measured curve as a queue; points that failed are left out, because a growing queue has no percentile."""
    rng = np.random.default_rng((seed, 1))
    points = [
        Point(point.rate_per_s, point.p50_s, point.p99_s, max(1, point.requests))
        for point in saturation.curve
        if point.outcome != "fail" and point.p50_s and point.p99_s and not math.isnan(point.p99_s)
    ]
    fit = fit_node(points, saturation.ceiling_per_s, is_whole_latency=slo.metric is SloMetric.LATENCY, rng=rng)
    if fit is None:
        return None
    own = node_capacity(fit.node, slo.at_most_s, 1 - slo.percentile / 100, rng)
    if own <= 0:
        return _Checked(fit, 1.0, agrees=False)
    scale = own / passed_per_s
    agrees = fit.error <= CURVE_TOLERANCE and abs(math.log(scale)) <= CAPACITY_TOLERANCE
    return _Checked(fit, scale, agrees)


def _basis(saturation: SaturationRecord, passed_per_s: float) -> str:
    upper = f", failed at {plain(saturation.upper_per_s)} /s" if saturation.upper_per_s is not None else ""
    if not saturation.confirmed and saturation.at_least_per_s is not None:
        return f"a lower bound of the saturation: at least {plain(passed_per_s)} /s held the objective{upper}"
    return f"steady-state saturation: {plain(passed_per_s)} /s held the objective{upper}"


def _wrong(
    naive: FleetSize, proposed: FleetSize, target: CapacityDemand, passed_per_s: float, power: PowerPlan
) -> tuple[str, ...]:
    faults = []
    short_by = proposed.nodes - naive.nodes
    if short_by > 0:
        faults.append(f"{short_by} of {proposed.nodes} nodes are missing")
    if naive.periods_met is not None and naive.late_share is not None and naive.periods_met < NEEDED_PERIODS:
        gone = f" with {target.failures} gone" if target.failures else ""
        faults.append(
            f"at the planned demand{gone} the objective holds in {naive.periods_met:.0%} of periods; "
            f"{naive.late_share:.0%} of requests are late"
        )
    over = naive.per_node_per_s / passed_per_s
    if over > 1.01:
        faults.append(f"its figure for one node is {over:.2f} times what was measured within the objective")
    if target.failures and naive.nodes <= target.failures:
        faults.append(f"{target.failures} failed nodes leave none")
    measured, nameplate_w = power.measured_w_per_node, power.nameplate_w_per_node
    if nameplate_w is not None and measured is not None and measured.estimate:
        faults.append(f"its power budget is {nameplate_w / measured.estimate:.2f} times the measured draw of a node")
    return tuple(faults)


def _cautions(
    result: Result,
    figures: PrecisionResult,
    saturation: SaturationRecord,
    checked: _Checked | None,
    simulated: int | None,
    target: CapacityDemand,
    split: int,
) -> tuple[str, ...]:
    notes = [*figures.validity.reasons] if figures.validity.verdict != "valid" else []
    if not saturation.confirmed:
        notes.append(f"the saturation was not confirmed by a follow-up: {saturation.note or 'the search ended early'}")
        if saturation.at_least_per_s is not None:
            notes.append("it is sized from a lower bound of the saturation: fewer nodes may do, and none is shown to")
    if checked is None:
        notes.append("fewer than two stable points of the curve: the size rests on the split of demand, unsimulated")
    elif not checked.agrees:
        notes.append(
            "the measured curve is not that of the fitted queue: the size rests on the split of demand, unsimulated"
        )
    if simulated is None and target.balancing is not Balancing.RANDOM:
        notes.append(f"balancing {target.balancing} could not be simulated: sized as if requests were spread at random")
    if simulated is not None and target.balancing is not Balancing.RANDOM and simulated < split:
        notes.append(
            f"{split - simulated} fewer nodes than without trust in the balancer ({target.balancing}); "
            "a balancer that spreads worse needs them"
        )
    if len(result.contract.objective.slo) > 1:
        notes.append("the simulation checks the first bound; the measured rate held all of them")
    return tuple(notes)


def _fitted(checked: _Checked | None) -> FittedNode | None:
    if checked is None:
        return None
    node, error = checked.fit.node, checked.fit.error
    return FittedNode(
        slots=node.slots,
        form=node.family.value,
        variation=node.variation,
        service_s=node.service_s,
        worst_error=math.exp(max(0.0, error)) - 1,
        agrees=checked.agrees,
        words=(
            f"behaves like {node.slots} slots with {node.family} service times "
            f"(mean {plain(node.service_s, 3)} s, coefficient of variation {node.variation:g}); "
            + (
                "no simulated percentile is off by more than the measured one's doubt"
                if error <= 0
                else f"worst simulated percentile off by a factor {math.exp(error):.2f} beyond the measured one's doubt"
            )
        ),
    )


def _points(checked: _Checked | None, saturation: SaturationRecord) -> tuple[CheckedPoint, ...]:
    if checked is None:
        return ()
    measured = {point.rate_per_s: point for point in saturation.curve}
    rows = []
    for point in checked.fit.simulated:
        known = measured[point.rate_per_s]
        assert known.p50_s is not None
        assert known.p99_s is not None
        rows.append(
            CheckedPoint(
                rate_per_s=point.rate_per_s,
                measured_p50_s=known.p50_s,
                measured_p99_s=known.p99_s,
                simulated_p50_s=point.p50_s,
                simulated_p99_s=point.p99_s,
            )
        )
    return tuple(sorted(rows, key=lambda row: row.rate_per_s))


def _bound_words(slo: Slo) -> str:
    return f"p{slo.percentile:g} {slo.metric} ≤ {slo.at_most_s * 1e3:g} ms"


def capacity_sentence(proposed: FleetSize, target: CapacityDemand, result: Result) -> str:
    """A plan in a sentence."""
    nodes = "1 node holds" if proposed.nodes == 1 else f"{proposed.nodes} nodes hold"
    gone = f" with {target.failures} of them gone" if target.failures else ""
    room = f" and {target.headroom:.0%} headroom" if target.headroom else ""
    bounds = ", ".join(_bound_words(bound) for bound in result.contract.objective.slo)
    return f"{nodes} {bounds} at {plain(target.demand.planned_per_s)} requests/s{room}{gone}"
