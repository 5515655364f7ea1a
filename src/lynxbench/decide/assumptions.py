"""Five things a spec sheet takes for granted, held against the measured workload and the proposed device (R20)."""

from lynxbench.decide.usable_figures import is_usable
from lynxbench.model.attribution import Attribution, Category
from lynxbench.model.decisions import AssumptionState, Device, SpecAssumption
from lynxbench.model.evidence_gate import is_steady
from lynxbench.model.precision import Native, Precision
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.model.verdicts import SteadyVerdict

MOSTLY = 0.5
"""Share of the step at which it is bound by one thing."""
SATURATED = 0.6
"""Share of the roofline at which units count as saturated; bare kernels reach 0.55 to 0.92 of a nameplate."""
MOVING = 0.25
"""Share of the step in memory and transfers at which data movement does not keep up."""
PEAK_GAP = 0.02
"""Best window over sustained rate beyond which the regime is a burst."""

HOLDS, BROKEN, UNKNOWN = AssumptionState.HOLDS, AssumptionState.BROKEN, AssumptionState.UNKNOWN


def check_assumptions(
    result: Result,
    figures: PrecisionResult,
    attribution: Attribution,
    device: Device,
    today: Device | None,
    tested: Result | None,
) -> tuple[SpecAssumption, ...]:
    """Each assumption with what the evidence says; what only the proposed device can show stays unknown."""
    states = {
        "the workload is compute-bound": _compute_bound(attribution),
        "its units are saturated": _saturated(attribution),
        "data movement keeps up": _movement(attribution, device, today, figures.precision),
        "fast paths are taken": _fast_paths(figures, device),
        "the regime is stable": _stable(figures, device, tested),
    }
    return tuple(SpecAssumption(name=name, state=state, because=why) for name, (state, why) in states.items())


def _compute_bound(attribution: Attribution) -> tuple[AssumptionState, str]:
    share = attribution.shares.get(Category.COMPUTE, 0.0)
    if share >= MOSTLY:
        return HOLDS, f"compute takes {share:.0%} of a step"
    return BROKEN, f"compute takes {share:.0%} of a step; {attribution.bottleneck.replace('_', ' ')} bounds it"


def _saturated(attribution: Attribution) -> tuple[AssumptionState, str]:
    known = [
        operator
        for operator in attribution.operators
        if operator.efficiency is not None and operator.category is Category.COMPUTE
    ]
    time = sum(operator.share for operator in known)
    if time <= 0:
        return UNKNOWN, "no operator's shapes are known: nobody can say how near its ceiling it ran"
    reached = sum(operator.share * (operator.efficiency or 0.0) for operator in known) / time
    state = HOLDS if reached >= SATURATED else BROKEN
    return state, f"products reach {reached:.0%} of today's measured ceiling"


def _movement(
    attribution: Attribution, device: Device, today: Device | None, precision: Precision
) -> tuple[AssumptionState, str]:
    moving = sum(attribution.shares.get(category, 0.0) for category in (Category.MEMORY_BANDWIDTH, Category.TRANSFER))
    ridge = ""
    new, old = device.dense_tera_per_s.get(precision), None if today is None else today.dense_tera_per_s.get(precision)
    if new and old and today is not None:
        more = (new / device.memory_tb_per_s) / (old / today.memory_tb_per_s)
        if more > 1.02:
            ridge = f"; {device.name} needs {more:.2f} times the operations a byte to be compute-bound"
    if moving >= MOVING:
        return BROKEN, f"memory and transfers take {moving:.0%} of a step{ridge}"
    return HOLDS, f"memory and transfers take {moving:.0%} of a step{ridge}"


def _fast_paths(figures: PrecisionResult, device: Device) -> tuple[AssumptionState, str]:
    if figures.precision not in device.native:
        names = ", ".join(device.native)
        return BROKEN, f"{figures.precision} is not native on {device.name} (native: {names})"
    if figures.native is Native.EMULATED:
        return BROKEN, f"{figures.precision} ran emulated today: the stack does not take the native path"
    if figures.native is Native.NATIVE:
        return HOLDS, f"{figures.precision} ran natively today and is native on {device.name}"
    return UNKNOWN, f"whether {figures.precision} ran natively is not in the record"


def _stable(figures: PrecisionResult, device: Device, tested: Result | None) -> tuple[AssumptionState, str]:
    if tested is not None:
        there = next(
            (o for o in tested.per_precision if o.precision is figures.precision and is_usable(tested, o)), None
        )
        if there is not None:
            state, why = _regime(there)
            return state, f"on the test instance: {why}"
    state, why = _regime(figures)
    if state is BROKEN:
        return BROKEN, f"today already: {why}"
    board = "" if device.board_w is None else f" (up to {device.board_w:g} W a board)"
    return UNKNOWN, f"today: {why}; on {device.name}{board} only a sustained run shows it"


def _regime(figures: PrecisionResult) -> tuple[AssumptionState, str]:
    if not is_steady(figures):
        drifts = figures.steady is not None and figures.steady.verdict is SteadyVerdict.NOT_STEADY
        return BROKEN if drifts else UNKNOWN, (figures.steady and figures.steady.reason) or "no steady state was shown"
    if figures.governed_by is not None:
        return BROKEN, f"held down by {figures.governed_by.cause}"
    peak, held = figures.peak, figures.sustained
    if peak is not None and held is not None and peak.estimate and held.estimate:
        gap = peak.estimate / held.estimate - 1
        if gap > PEAK_GAP:
            return BROKEN, f"the best window is {gap:.0%} above the sustained rate"
    return HOLDS, "steady, nothing seen that held it down"
