"""Compute-bound against memory-bound by the device's counters over the counted time, beside what the shapes suggest.

A roofline says what kernels must do at the least; the counters say what the units did. They cover whole steps, so they
judge the step and not its kernels: where they clearly contradict the shapes, they win, and the verdict says so.
"""

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
    measured, shaped = measured_side(activity), attribution.bottleneck
    line = _line(activity, measured)
    update: dict[str, object] = {"evidence": (*attribution.evidence, line)}
    if shaped in _WORDS and max(activity.arithmetic, activity.dram) < HARDLY:
        doubt = f"{line}; that leaves the verdict open: the device's units were hardly busy"
        update = {"evidence": (*attribution.evidence, doubt), "weak": True}
    elif shaped in _WORDS and measured is not None and measured is not shaped:
        reached = activity.arithmetic if measured is Category.COMPUTE else activity.dram
        bound, layer = Bound.UNDETERMINED, None
        lead = "undetermined"
        if reached >= NEAR_CEILING:
            bound, layer, lead = Bound.HARDWARE, Layer.ACCELERATOR, "hardware-bound"
        active = f"{_WORDS[measured]} was active for {reached:.0%} of the counted time by the device's counters"
        update = {
            "bottleneck": measured,
            "bound": bound,
            "layer": layer,
            "owner": owner(layer) if layer is not None else None,
            "sentence": f"{lead}: {active}, where the shapes of the kernels suggested {_WORDS[shaped]}",
            "evidence": (*attribution.evidence, line, f"before the counters: {attribution.sentence}"),
            "weak": True,
        }
    return attribution.model_copy(update=update)


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


def _line(activity: DeviceActivity, measured: Category | None) -> str:
    named = {"SM": activity.sm, "tensor": activity.tensor, "fp32 pipe": activity.fp32, "DRAM": activity.dram}
    shares = ", ".join(f"{name} {share:.0%}" for name, share in named.items() if share is not None)
    side = f"bound by {_WORDS[measured]}, measured" if measured else "no clear side"
    return f"counters ({activity.source}, {activity.samples} readings while counted): {shares}: {side}"
