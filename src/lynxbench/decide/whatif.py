"""Other hardware, or a software fix, applied to measured shares: ranges, always marked as an estimate."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple

from lynxbench.attribute.judge.faster_hardware import Swap, estimate_swap
from lynxbench.decide.assumptions import check_assumptions
from lynxbench.decide.catalogue import find_device, recognise, unshown_device
from lynxbench.decide.usable_figures import measured_precision
from lynxbench.errors import BadInput, Refused
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.canonical import short
from lynxbench.model.decisions import Device, FixEstimate, SwapEstimate, WhatIf
from lynxbench.model.evidence_gate import cause_falls_short, without_blame
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result

STEP_ERROR = 0.02
"""Of a step: how well shares of a profiled step stand for the unprofiled one. Both are medians of few steps; MLPerf
counts 2 % as materially different."""
HALF_REMOVED = 0.5
"""The careful end of a fix: half of a category's time goes, the rest turns out to be needed."""
MAKERS_AGREE = (0.85, 1.15)
"""Nameplate over nameplate: two devices reach different shares of theirs."""
REACHED = (0.55, 0.75, 0.92)
"""Share of a nameplate that bare kernels reach; the measured H200 of the trace methodology lies at 0.79 (bf16) and
0.89 (copy), a T4-class board lower."""
HOST_SIDE = (Category.SYNCHRONIZATION, Category.ALLOCATOR, Category.INPUT, Category.TRANSFER)
"""Where removing the cause also removes launches that waited behind it."""


def estimate_whatif(
    result: Result,
    catalogue: Mapping[str, Device],
    *,
    hardware: str | None,
    fix: Category | None = None,
    with_fix: bool = False,
    host: float = 1.0,
    precision: Precision | None = None,
    tested: Result | None = None,
) -> WhatIf:
    """A swap, a fix, or both; Refused where the result says nothing about where its time goes.

    The proposed device is looked up by name, today's by what its driver reports.
    """
    device = None if hardware is None else find_device(catalogue, hardware)
    today = recognise(catalogue, result.executor)
    if device is None and not with_fix and fix is None:
        raise BadInput("name what is to change: --hardware DEVICE, --fix CATEGORY, or both")
    if not 0.1 <= host <= 10:
        raise BadInput(f"--host {host:g}: how many times faster the host becomes, from 0.1 to 10")
    figures = measured_precision(result, precision)
    attribution = figures.attribution or result.attribution
    if attribution is None:
        why = figures.attribution_missing or "no attribution was made"
        raise Refused(
            f"result {short(result.result_id)} does not say where its time goes ({why}): nothing can be estimated. "
            f"Run: lynxbench run {result.contract.name}, or lynxbench trace FILE"
        )
    ceilings = attribution.ceilings or result.ceilings
    carried = without_blame(attribution, cause_falls_short(result, figures, attribution))
    swap = None if device is None else _swap(attribution, device, today, ceilings, figures.precision, host)
    fixed = estimate_fix(attribution, fix) if with_fix or fix is not None else None
    if fixed is not None and carried is not attribution:
        fixed = fixed.model_copy(update={"layer": None, "owner": None})
    both = None
    if swap is not None and fixed is not None:
        both = fix_then_swap(attribution.shares, fixed.category, fixed.gain, swap.factors)
    return WhatIf(
        sentence=whatif_sentence(swap, fixed, carried.bound),
        contract_id=result.contract_id,
        contract_name=result.contract.name,
        result_id=result.result_id,
        precision=figures.precision,
        shares=dict(attribution.shares),
        swap=swap,
        fix=fixed,
        both=both,
        assumptions=() if device is None else check_assumptions(result, figures, attribution, device, today, tested),
        cautions=(*_cautions(attribution, swap), *_said_alone(catalogue, hardware, tested)),
        cites=(result.result_id, *(() if tested is None else (tested.result_id,))),
    )


def estimate_fix(attribution: Attribution, category: Category | None = None) -> FixEstimate:
    """What removing one category's cause would gain; without a category, the bottleneck's."""
    chosen = category or attribution.bottleneck
    is_bottleneck = chosen is attribution.bottleneck
    share = attribution.shares.get(chosen, 0.0)
    if is_bottleneck and attribution.gain_if_removed.known:
        low, middle, high = astuple(attribution.gain_if_removed)
    else:
        freed = attribution.shares.get(Category.LAUNCH, 0.0) if chosen in HOST_SIDE else 0.0
        low, middle, high = (_gain(part) for part in (share * HALF_REMOVED, share, share + freed))
    highest = max(middle, 1 / max(1 / high - STEP_ERROR, STEP_ERROR))
    gain = Interval(max(1.0, 1 / min(1.0, 1 / low + STEP_ERROR)), middle, highest)
    return FixEstimate(
        category=chosen,
        layer=attribution.layer if is_bottleneck else None,
        owner=attribution.owner if is_bottleneck else None,
        fix=attribution.next_step if is_bottleneck else f"remove the cause of {chosen.replace('_', ' ')}",
        gain=gain,
        measured={trial.name: trial.measured for trial in attribution.interventions if trial.measured.known},
    )


def shares_after(shares: Mapping[Category, float], category: Category, gain: float) -> dict[Category, float]:
    """Shares of the step that a fix leaves: what went comes out of its category first, then out of launches."""
    total = sum(shares.values())
    gone = total * (1 - 1 / gain)
    left = dict(shares)
    for part in (category, Category.LAUNCH, *shares):
        taken = min(left.get(part, 0.0), gone)
        if part in left:
            left[part] -= taken
            gone -= taken
    remaining = sum(left.values())
    return {part: share / remaining for part, share in left.items()} if remaining > 0 else dict(shares)


def _swap(
    attribution: Attribution,
    device: Device,
    today: Device | None,
    ceilings: Sequence[Ceiling],
    precision: Precision,
    host: float,
) -> SwapEstimate:
    factors: dict[str, Interval] = {}
    how: dict[str, str] = {}
    factors["compute"], how["compute"] = _compute_factor(device, today, ceilings, precision)
    old_memory, old_link = (None, None) if today is None else (today.memory_tb_per_s * 1e12, today.link_gb_per_s)
    old_copy = _measured(ceilings, "copy", None)
    factors["bandwidth"], how["bandwidth"] = _factor(device.memory_tb_per_s * 1e12, old_memory, old_copy)
    factors["link"], how["link"] = _factor(device.link_gb_per_s, old_link, None)
    factors["host"] = Interval(host, host, host)
    how["host"] = "the host stays" if host == 1 else "declared with --host"
    return SwapEstimate(device=device.name, factors=factors, how=how, gain=swap_gain(attribution.shares, factors))


def swap_gain(shares: Mapping[Category, float], factors: Mapping[str, Interval]) -> Interval:
    """What a swap gains on a step of these shares, over all ends of its factors."""
    swaps = [
        Swap(**{name: float(getattr(factor, end)) for name, factor in factors.items()})
        for end in ("low", "estimate", "high")
    ]
    ends = [estimate_swap(shares, swap).gain for swap in swaps]
    return Interval(min(end.low for end in ends), ends[1].estimate, max(end.high for end in ends))


def fix_then_swap(
    shares: Mapping[Category, float], category: Category, fix: Interval, factors: Mapping[str, Interval]
) -> Interval:
    """What a fix and then a swap gain together.

    Each end of the fix is followed by the swap on what that end leaves: nothing that goes makes the rest slower, so the
    two together have no bound below the swap's alone.
    """
    ends = [
        swap_gain(shares_after(shares, category, gain), factors).scaled(gain)
        for gain in (fix.low, fix.estimate, fix.high)
    ]
    return Interval(ends[0].low, ends[1].estimate, ends[2].high)


def _compute_factor(
    device: Device, today: Device | None, ceilings: Sequence[Ceiling], precision: Precision
) -> tuple[Interval, str]:
    new, used = _rate_of(device, precision)
    if new is None:
        return Interval(1.0, 1.0, 1.0), f"{device.name} states no rate for {precision}: taken as equal"
    old = None if today is None else _rate_of(today, precision)[0]
    factor, how = _factor(new * 1e12, None if old is None else old * 1e12, _measured(ceilings, "matmul", precision))
    stand_in = "" if used is precision else f"; {precision} is not native there, {used} stands in"
    return factor, how + stand_in


def _rate_of(device: Device, precision: Precision) -> tuple[float | None, Precision]:
    """The stated rate, or that of the nearest wider format it computes in."""
    wider: dict[Precision, tuple[Precision, ...]] = {
        **dict.fromkeys(
            (
                *(Precision.INT8_WEIGHT_ONLY, Precision.FP8_WEIGHT_ONLY, Precision.INT4_WEIGHT_ONLY),
                *(Precision.INT6_WEIGHT_ONLY, Precision.INT5_WEIGHT_ONLY),
            ),
            (Precision.BF16, Precision.FP16, Precision.FP32),
        ),
        Precision.MXFP8: (Precision.FP8, Precision.BF16, Precision.FP16),
        Precision.NVFP4: (Precision.FP8, Precision.BF16, Precision.FP16),
        Precision.MXFP4: (Precision.NVFP4, Precision.FP8, Precision.BF16, Precision.FP16),
        Precision.FP8_BLOCK: (Precision.FP8, Precision.BF16, Precision.FP16),
        Precision.FP8: (Precision.BF16, Precision.FP16),
        Precision.INT8: (Precision.BF16, Precision.FP16),
        Precision.BF16: (Precision.TF32, Precision.FP32),
        Precision.FP16: (Precision.BF16, Precision.FP32),
        Precision.TF32: (Precision.FP32,),
    }
    for stated in (precision, *wider.get(precision, ())):
        if stated in device.dense_tera_per_s:
            return device.dense_tera_per_s[stated], stated
    return None, precision


def _factor(new: float | None, old_nameplate: float | None, old_measured: float | None) -> tuple[Interval, str]:
    if new is None:
        return Interval(1.0, 1.0, 1.0), "the proposed one states none: taken as equal"
    if old_nameplate:
        ratio = new / old_nameplate
        return Interval(ratio * MAKERS_AGREE[0], ratio, ratio * MAKERS_AGREE[1]), "nameplate over nameplate"
    if old_measured:
        low, middle, high = (new * share / old_measured for share in REACHED)
        reached = f"{REACHED[0]:.0%} to {REACHED[2]:.0%}"
        return Interval(low, middle, high), f"{reached} of the nameplate over today's measured"
    return Interval(1.0, 1.0, 1.0), "today's is not known: taken as equal"


def _measured(ceilings: Sequence[Ceiling], name: str, precision: Precision | None) -> float | None:
    return next((c.per_s for c in ceilings if c.name == name and c.precision is precision), None)


def _gain(share: float) -> float:
    return 1 / max(1 - share, STEP_ERROR)


def gain_words(gain: Interval) -> str:
    """`1.2 to 1.5×`, or `nothing to speak of`."""
    if gain.high < 1.02:
        return "nothing to speak of"
    if math.isclose(gain.low, gain.high, rel_tol=0.01):
        return f"{gain.estimate:.2f}×"
    return f"{gain.low:.2f} to {gain.high:.2f}× (most likely {gain.estimate:.2f}×)"


def without_cause(decision: WhatIf) -> dict[str, object]:
    """What changes where the same estimates are to name nobody and claim no bound: its evidence falls short."""
    fix = None if decision.fix is None else decision.fix.model_copy(update={"layer": None, "owner": None})
    return {"fix": fix, "sentence": whatif_sentence(decision.swap, fix, Bound.UNDETERMINED)}


def whatif_sentence(swap: SwapEstimate | None, fix: FixEstimate | None, bound: Bound) -> str:
    """An estimate in a sentence."""
    parts = []
    if swap is not None:
        parts.append(f"{swap.device} would gain {gain_words(swap.gain)}")
    if fix is not None:
        parts.append(f"the fix ({fix.fix}) would gain {gain_words(fix.gain)}")
    shape = {Bound.SOFTWARE: "software-bound", Bound.HARDWARE: "hardware-bound"}.get(bound, f"bound: {bound}")
    return f"estimate, {shape}: {'; '.join(parts)}"


def _said_alone(catalogue: Mapping[str, Device], hardware: str | None, tested: Result | None) -> tuple[str, ...]:
    unshown = "" if tested is None or hardware is None else unshown_device(catalogue, tested.executor, hardware)
    return (f"that the test instance is a {hardware} is said by --test alone: {unshown}",) if unshown else ()


def _cautions(attribution: Attribution, swap: SwapEstimate | None) -> tuple[str, ...]:
    lines = ["every gain here is an estimate; a test instance under the same contract is the measurement"]
    if attribution.weak:
        lines.append("the attribution is weak: two categories are level, or the evidence is thin")
    if attribution.layer is Layer.DEMAND or attribution.bound is Bound.DEMAND:
        lines.append("demand bounds this service: nothing that is faster serves more requests")
    if swap is not None and swap.how["host"] == "the host stays":
        lines.append("the host is taken as unchanged; a new machine often brings another one (--host)")
    return tuple(lines)
