"""What most often explains "same hardware, different score", read off the captured fields. Pure.

Each is a condition to look at, not a verdict on a run: power limit under default, a link below its maximum, devices of
one node that differ, a sharing tenant, CPU time limits, frequency policy, mixed cuDNN, blocking launches.
"""

from collections.abc import Iterator

from pydantic import JsonValue

from lynxbench.executor.compatibility import CompatibilityFinding, FindingVerdict
from lynxbench.model.executor import Executor, Status, Tier
from lynxbench.model.layers import Layer

SLOWING_EVENTS: frozenset[str] = frozenset(
    {"software power cap", "hardware slowdown", "software thermal", "hardware thermal", "hardware power brake"}
)
DEVICE_LIMITS: tuple[tuple[str, str], ...] = (
    ("gpu_power_limit_enforced_w", "gpu_power_limit_default_w"),
    ("gpu_clock_sm_applications_mhz", "gpu_clock_sm_max_mhz"),
)
"""A limit that is in force, and what it would be by default."""
PLACE_OF_A_DEVICE = ("gpu_topology", "gpu_cpu_affinity", "gpu_memory_node")
"""Where devices of one node differ by nature."""


def notable_conditions(executor: Executor) -> tuple[CompatibilityFinding, ...]:
    """Conditions worth a look, each with the layer whose owner can change it."""
    return (*_devices(executor), *_links(executor), *_machine(executor), *_libraries(executor))


def _note(subject: str, reason: str, layer: Layer = Layer.ACCELERATOR) -> CompatibilityFinding:
    return CompatibilityFinding(subject=subject, verdict=FindingVerdict.WARNING, reason=reason, layer=layer)


def _list(executor: Executor, name: str) -> list[JsonValue]:
    value = executor.get(Layer.ACCELERATOR, name)
    return value if isinstance(value, list) else []


def _below(values: list[JsonValue], bounds: list[JsonValue]) -> list[int]:
    """Indexes of devices whose value is under its bound."""
    pairs = enumerate(zip(values, bounds, strict=False))
    number = (int, float)
    return [index for index, (a, b) in pairs if isinstance(a, number) and isinstance(b, number) and a < b]


def _named(indexes: list[int]) -> str:
    return "gpu " + ", ".join(str(index) for index in indexes)


def _devices(executor: Executor) -> Iterator[CompatibilityFinding]:
    for limit, normal in DEVICE_LIMITS:
        values, bounds = _list(executor, limit), _list(executor, normal)
        low = _below(values, bounds)
        if low:
            reason = f"{_named(low)}: {limit} is {values[low[0]]:g}, {normal} is {bounds[low[0]]:g}"
            yield _note("device limit", reason)
    for name, field in sorted(executor.layers.get(Layer.ACCELERATOR, {}).items()):
        compared = name.startswith("gpu_") and field.tier is Tier.CONFIGURATION and field.status is Status.MEASURED
        if compared and name not in PLACE_OF_A_DEVICE and isinstance(field.value, list):
            kinds = sorted({str(value) for value in field.value})
            if len(kinds) > 1:
                yield _note("devices of this node differ", f"{name}: {', '.join(kinds)}")
    for index, events in enumerate(_list(executor, "gpu_clock_events")):
        slowing = sorted(SLOWING_EVENTS & set(map(str, events))) if isinstance(events, list) else []
        if slowing:
            yield _note("clocks held down", f"gpu {index}: {', '.join(slowing)}")
    busy = [i for i, count in enumerate(_list(executor, "gpu_processes")) if isinstance(count, int) and count > 0]
    if busy:
        yield _note("device shared", f"{_named(busy)}: other processes hold it")
    split = [i for i, on in enumerate(_list(executor, "gpu_mig")) if on is True]
    if split:
        yield _note("device split", f"{_named(split)}: MIG is on, a part of the device answers")


def _links(executor: Executor) -> Iterator[CompatibilityFinding]:
    for figure in ("generation", "width"):
        bounds = _list(executor, f"gpu_pcie_{figure}_max")
        warm = _list(executor, f"gpu_pcie_{figure}_warm")
        values = warm or _list(executor, f"gpu_pcie_{figure}_now")
        low = _below(values, bounds)
        if low:
            when = "after warm-up" if warm else "now; an idle link may rest lower, read it under load"
            reason = f"{_named(low)}: PCIe {figure} {values[low[0]]} of {bounds[low[0]]} {when}"
            yield _note("link below its maximum", reason)


def _machine(executor: Executor) -> Iterator[CompatibilityFinding]:
    system = Layer.SYSTEM
    governor = executor.get(system, "governor")
    if governor is not None and governor != "performance":
        yield _note("frequency governor", f"governor is {governor}: clocks follow the load", system)
    limit, allowed = executor.get(system, "cgroup_cpu_limit"), executor.get(system, "affinity_count")
    if isinstance(limit, (int, float)) and isinstance(allowed, int) and limit < allowed:
        reason = f"the control group grants {limit:g} CPUs' time of {allowed} visible ones"
        yield _note("CPU time limit", reason, system)
    threads = executor.get(Layer.ACCELERATOR, "cpu_threads")
    if isinstance(threads, int) and isinstance(allowed, int) and allowed < threads:
        yield _note("CPU affinity", f"this process may use {allowed} of {threads} CPUs", system)
    nodes = executor.get(system, "numa_nodes")
    if isinstance(nodes, int) and nodes > 1 and executor.get(system, "numa_balancing") == 1:
        yield _note("NUMA balancing", "the kernel moves pages between nodes while work runs", system)
    environment = executor.get(system, "environment")
    if isinstance(environment, dict) and environment.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        yield _note("blocking launches", "CUDA_LAUNCH_BLOCKING is set: every kernel waits for the last", system)


def _libraries(executor: Executor) -> Iterator[CompatibilityFinding]:
    if executor.get(Layer.RUNTIME, "cudnn_origin") == "mixed":
        reason = "parts of cuDNN come from the system and parts from the framework's own packages"
        yield _note("mixed cuDNN", reason, Layer.RUNTIME)
    pools = executor.get(Layer.RUNTIME, "openmp_libraries")
    if isinstance(pools, list) and len(pools) > 1:
        reason = f"{len(pools)} OpenMP runtimes are loaded ({', '.join(map(str, pools))}): their threads compete"
        yield _note("several thread pools", reason, Layer.RUNTIME)
