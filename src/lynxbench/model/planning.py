"""What capacity and cost decisions say: documents with every figure beside what it rests on."""

from typing import Annotated, Literal

from pydantic import Field

from lynxbench.model.contract import Regime
from lynxbench.model.decisions import DecisionDocument
from lynxbench.model.document import Bounds, Document
from lynxbench.model.figures import Figure
from lynxbench.model.precision import Precision


class DemandForecast(Document):
    """What will be asked of the fleet, and where that number comes from."""

    source: Literal["declared", "log"]
    words: str
    mean_per_s: float | None
    peak_per_s: float
    """Largest rate in a window, before growth."""
    percentile: float | None = None
    percentile_per_s: float | None = None
    window_s: float | None = None
    growth: float = 0.0
    planned_per_s: float
    """What the plan is made for: peak or percentile, with growth, before headroom."""


class FittedNode(Document):
    """The measured node as a queue, and whether that queue gives the measured curve."""

    slots: int
    form: str
    variation: float
    service_s: float
    worst_error: float
    agrees: bool
    words: str


class CheckedPoint(Document):
    """A measured percentile pair beside the simulated one."""

    rate_per_s: float
    measured_p50_s: float
    measured_p99_s: float
    simulated_p50_s: float
    simulated_p99_s: float


class FleetSize(Document):
    """One plan: how many nodes, from which figure, and what simulation says of it."""

    name: str
    nodes: int
    per_node_per_s: float
    basis: str
    periods_met: float | None
    """Share of simulated periods in which the objective held with the declared failures; null where not simulated."""
    late_share: float | None
    load: float | None
    """Planned demand over what the surviving nodes were measured to hold; null where no node survives."""
    simulated_share: Annotated[float | None, Field(exclude_if=lambda share: share is None)] = None
    """How much of each period was simulated, its first part; null where none was, and in earlier versions."""


class PowerPlan(Document):
    """Power and cooling from measured draw, beside what the nameplate would have ordered."""

    measured_w_per_node: Figure | None
    measured_how: str
    nameplate_w_per_node: float | None
    nameplate_how: str
    pue: float | None
    fleet_kw: Figure | None
    nameplate_kw: float | None
    cooling_kw: Figure | None
    """Heat to remove: all power of the fleet becomes heat."""
    facility_kw: Figure | None
    """With the facility's own share (PUE), where declared."""


class CapacityPlan(DecisionDocument):
    """The size of a fleet."""

    kind: Literal["capacity"] = "capacity"
    result_id: str
    precision: Precision
    objective: tuple[str, ...]
    demand: DemandForecast
    headroom: float
    failures: int
    balancing: str
    period_s: float
    proposed: FleetSize
    naive: FleetSize
    wrong: tuple[str, ...]
    """What the naive plan would get wrong."""
    node: FittedNode | None
    check: tuple[CheckedPoint, ...]
    power: PowerPlan


class MoneyFigure(Document):
    """An amount of money for a unit of work, with its interval."""

    low: float
    estimate: float
    high: float
    currency: str
    per: str


class Tenure(Document):
    """One way of having a node: owned or rented."""

    kind: Literal["own", "rent"]
    per_hour: MoneyFigure
    parts: dict[str, float]
    """Money an hour by cause: amortisation, maintenance, energy, rent."""
    per_request: MoneyFigure | None
    per_million_tokens: MoneyFigure | None
    words: str


class BreakEven(Document):
    """When owning costs as much as renting."""

    use_share: float | None
    """Of all hours; rented nodes are paid only while they are used. Null: renting is cheaper at any use."""
    months: float | None
    """Of use at the stated share until the purchase is earned back."""
    words: str


class EnergyEfficiency(Document):
    """Work for energy; where it was measured says which energy."""

    per_joule: Figure | None
    per_watt: Figure | None
    boundary: str
    """`accelerator only` or `at the wall`."""


class Value(Document):
    """Work within the objective per unit of money, for this demand."""

    per_money: MoneyFigure | None
    """Requests within the objective for one unit of money: the currency stands below the line."""
    nodes: int | None
    utilisation: float | None
    words: str


class Option(Document):
    """One candidate: a result at one precision, under one tenure."""

    name: str
    result_id: str
    contract_id: str
    precision: Precision
    tenure: str
    throughput: Figure
    latency_p99_ms: float | None
    accuracy_loss: float | None
    accuracy: str
    cost: MoneyFigure | None
    """Per unit of work, the same unit for all options."""
    per_joule: float | None
    value: float | None
    on_front: bool
    dominated_by: str | None = None
    latency_p99_bounds: Bounds | None = None
    """In milliseconds; null where the samples do not resolve it."""
    per_joule_bounds: Bounds | None = None


class Ranking(Document):
    """Options in one regime's order; the regime was asked for, or all three are shown."""

    regime: Regime
    asked: bool
    by: str
    order: tuple[str, ...]
    left_out: tuple[str, ...]
    """Options that lack the figure or do not resolve it, with the reason."""
    level: dict[str, tuple[str, ...]] = {}
    """By option: those from which its interval does not tell it apart; their order among each other is no finding."""


class CandidateCost(Document):
    """The three metrics of one result at one precision."""

    name: str
    result_id: str
    precision: Precision
    tenures: tuple[Tenure, ...]
    break_even: BreakEven | None
    efficiency: EnergyEfficiency
    value: Value
    utilisation: float
    utilisation_how: str


class CostReport(DecisionDocument):
    """Cost, efficiency and value, kept apart."""

    kind: Literal["cost"] = "cost"
    candidates: tuple[CandidateCost, ...]
    options: tuple[Option, ...]
    axes: tuple[str, ...]
    """What the Pareto front was taken over."""
    rankings: tuple[Ranking, ...]
    objective: str | None
