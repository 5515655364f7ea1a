"""Compute-bound against memory-bound by the device's counters over the counted time, beside what the shapes suggest.

A roofline says what kernels must do at the least; the counters say what the units did. They cover whole steps, so they
judge the step and not its kernels: where they clearly contradict the shapes, they win, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Callable

from lynxbench.model.activity import DeviceActivity
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.layers import Layer

BUSY = 0.5
"""A unit active for half of the time at least is what a step waits for."""
CLEAR = 2.0
"""… where it is twice as busy as the other: tensor cores and memory overlap, and near ties say nothing."""
HARDLY = 0.15
"""With both units below this, neither arithmetic nor memory can be what bounds the step."""
NEAR_CEILING = 0.7
"""Share of its most at which a unit itself is the limit: on an H200 a healthy prefill reached 80 % tensor activity, a
training step 72 %, a chain of unfused passes 87 % of the memory's bandwidth (results/h200/benchmarks)."""

_WORDS = {Category.COMPUTE: "arithmetic", Category.MEMORY_BANDWIDTH: "memory"}


def weigh_activity(
    attribution: Attribution, activity: DeviceActivity | None, owner: Callable[[Layer], str]
) -> Attribution:
    """The attribution with what the counters measured; changed where they clearly contradict it."""
    if activity is None or activity.arithmetic is None or activity.dram is None:
        return attribution
    measured = measured_side(activity)
    line = _line(activity, measured)
    evidence = (*attribution.evidence, line)
    if attribution.bottleneck not in _WORDS:
        return attribution.model_copy(update={"evidence": evidence})
    if max(activity.arithmetic, activity.dram) < HARDLY:
        doubt = f"{line}; that leaves the verdict open: the device's units were hardly busy"
        return attribution.model_copy(update={"evidence": (*attribution.evidence, doubt), "weak": True})
    if measured is None or measured is attribution.bottleneck:
        return attribution.model_copy(update={"evidence": evidence})
    return _corrected(attribution, activity, measured, evidence, owner)


def measured_side(activity: DeviceActivity) -> Category | None:
    """Which side binds by the counters alone; None where they do not tell."""
    arithmetic, memory = activity.arithmetic, activity.dram
    if arithmetic is None or memory is None:
        return None
    if arithmetic >= BUSY and arithmetic >= CLEAR * memory:
        return Category.COMPUTE
    if memory >= BUSY and memory >= CLEAR * arithmetic:
        return Category.MEMORY_BANDWIDTH
    return None


def _corrected(
    attribution: Attribution,
    activity: DeviceActivity,
    measured: Category,
    evidence: tuple[str, ...],
    owner: Callable[[Layer], str],
) -> Attribution:
    reached = activity.arithmetic if measured is Category.COMPUTE else activity.dram
    assert reached is not None
    at_ceiling = reached >= NEAR_CEILING
    bound, layer = (Bound.HARDWARE, Layer.ACCELERATOR) if at_ceiling else (Bound.UNDETERMINED, None)
    lead = f"{bound.value}-bound" if at_ceiling else "undetermined"
    active = f"{_WORDS[measured]} was active for {reached:.0%} of the counted time by the device's counters"
    sentence = f"{lead}: {active}, where the shapes of the kernels suggested {_WORDS[attribution.bottleneck]}"
    return attribution.model_copy(
        update={
            "bottleneck": measured,
            "bound": bound,
            "layer": layer,
            "owner": owner(layer) if layer is not None else None,
            "sentence": sentence,
            "evidence": (*evidence, f"before the counters: {attribution.sentence}"),
            "weak": True,
        }
    )


def _line(activity: DeviceActivity, measured: Category | None) -> str:
    named = {"SM": activity.sm, "tensor": activity.tensor, "fp32 pipe": activity.fp32, "DRAM": activity.dram}
    shares = ", ".join(f"{name} {share:.0%}" for name, share in named.items() if share is not None)
    side = f"bound by {_WORDS[measured]}, measured" if measured else "no clear side"
    return f"counters ({activity.source}, {activity.samples} readings while counted): {shares}: {side}"
