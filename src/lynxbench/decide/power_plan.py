"""Power and cooling from measured draw; the nameplate stands beside it."""

from lynxbench.errors import BadInput
from lynxbench.model.figures import Figure
from lynxbench.model.layers import Layer
from lynxbench.model.planning import PowerPlan
from lynxbench.model.quantities import quantity, rate_unit
from lynxbench.model.result import PrecisionResult, Result

EVERY_DEVICE = "energy counters of all accelerators and packages together: the result does not say which were its own"
NAMEPLATE_FIELDS = ("gpu_power_limit_default_w", "gpu_power_limit_max_w")


def measured_draw(figures: PrecisionResult) -> Figure | None:
    """Watts of a node at the sustained rate: joules a unit times units a second; None where no energy was read."""
    energy, rate = figures.energy_j_per_unit, figures.sustained or figures.throughput
    if energy is None or rate is None or energy.estimate is None or rate.estimate is None:
        return None
    work = quantity(1.0, rate_unit(rate.unit)) * quantity(1.0, rate_unit(energy.unit))
    watts = work.in_unit("W")  # Refused where joules a token meet requests a second
    bounds = [None if part is None else part * rate.estimate * watts for part in (energy.low, energy.high)]
    return Figure(low=bounds[0], estimate=energy.estimate * rate.estimate * watts, high=bounds[1], unit="W")


def energy_boundary(figures: PrecisionResult) -> str:
    """Whose energy a result's figure is."""
    beside = figures.energy_beside
    if beside is None:
        return EVERY_DEVICE
    return f"energy counters of {', '.join(beside.devices)} ({beside.how}); the rest of the node is not in it"


def nameplate_of(result: Result) -> tuple[float | None, str]:
    """What the devices' default power limits add up to, where the executor could read them."""
    for name in NAMEPLATE_FIELDS:
        stated = result.executor.get(Layer.ACCELERATOR, name)
        values = stated if isinstance(stated, list) else [stated]
        watts = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        if watts:
            return sum(watts), f"accelerator.{name} of the measured executor"
    return None, "no nameplate: give --nameplate"


def plan_power(
    result: Result, figures: PrecisionResult, nodes: int, nameplate_w: float | None, pue: float | None
) -> PowerPlan:
    """What the fleet draws, what has to be cooled, and what the nameplate would have ordered."""
    if nameplate_w is not None and not 0 < nameplate_w < 1e7:
        raise BadInput(f"--nameplate: {nameplate_w:g} W is no power of a node")
    if pue is not None and not 1 <= pue <= 5:
        raise BadInput(f"--pue: {pue:g} must be from 1 to 5; it is facility power over the machines' power")
    declared = result.executor.get(Layer.FACILITY, "pue")
    pue = pue if pue is not None else float(declared) if isinstance(declared, int | float) else None
    draw = measured_draw(figures)
    nameplate, how = (nameplate_w, "declared with --nameplate") if nameplate_w is not None else nameplate_of(result)
    fleet = None if draw is None else draw.scaled(nodes / 1e3, "kW")
    return PowerPlan(
        measured_w_per_node=draw,
        measured_how=energy_boundary(figures) if draw is not None else "no energy was measured in this result",
        nameplate_w_per_node=nameplate,
        nameplate_how=how,
        pue=pue,
        fleet_kw=fleet,
        nameplate_kw=None if nameplate is None else nameplate * nodes / 1e3,
        cooling_kw=fleet,
        facility_kw=None if pue is None or fleet is None else fleet.scaled(pue, "kW"),
    )
