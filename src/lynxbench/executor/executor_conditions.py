"""What most often explains "same hardware, different score", read off the captured fields. Pure.

Each is a condition to look at, not a verdict on a run: power limit under default, a link below its maximum, devices of
one node that differ, a sharing tenant, CPU time limits, frequency policy, mixed cuDNN, blocking launches.
"""

from __future__ import annotations

from pydantic import JsonValue

from lynxbench.executor.compatibility import CompatibilityFinding, FindingVerdict
from lynxbench.model.executor import Executor, Status, Tier
from lynxbench.model.layers import Layer

SLOWING_EVENTS: frozenset[str] = frozenset(
    {"software power cap", "hardware slowdown", "software thermal", "hardware thermal", "hardware power brake"}
)
DEVICE_WATCH: tuple[tuple[str, str], ...] = (
    ("gpu_power_limit_enforced_w", "gpu_power_limit_default_w"),
    ("gpu_clock_sm_applications_mhz", "gpu_clock_sm_max_mhz"),
)


def notable_conditions(executor: Executor) -> tuple[CompatibilityFinding, ...]:
    """Conditions worth a look, each with the layer whose owner can change it."""
    return (*_devices(executor), *_links(executor), *_machine(executor), *_libraries(executor))


def _note(subject: str, reason: str, layer: Layer) -> CompatibilityFinding:
    return CompatibilityFinding(subject=subject, verdict=FindingVerdict.WARNING, reason=reason, layer=layer)


def _list(executor: Executor, name: str) -> list[JsonValue]:
    value = executor.get(Layer.ACCELERATOR, name)
    return value if isinstance(value, list) else []


def _below(now: list[JsonValue], most: list[JsonValue]) -> list[int]:
    """Indexes of devices whose first figure is under the second."""
    pairs = zip(now, most, strict=False)
    return [
        i for i, (a, b) in enumerate(pairs) if isinstance(a, (int, float)) and isinstance(b, (int, float)) and a < b
    ]


def _named(indexes: list[int]) -> str:
    return "gpu " + ", ".join(str(index) for index in indexes)


def _devices(executor: Executor) -> list[CompatibilityFinding]:
    found: list[CompatibilityFinding] = []
    layer = Layer.ACCELERATOR
    for limit, normal in DEVICE_WATCH:
        now, most = _list(executor, limit), _list(executor, normal)
        low = _below(now, most)
        if low:
            reason = f"{_named(low)}: {limit} is {now[low[0]]:g}, {normal} is {most[low[0]]:g}"
            found.append(_note("device limit", reason, layer))
    for name, field in sorted(executor.layers.get(layer, {}).items()):
        differs = name.startswith("gpu_") and field.tier is Tier.CONFIGURATION and field.status is Status.MEASURED
        if not differs or name in ("gpu_topology", "gpu_cpu_affinity", "gpu_memory_node"):
            continue
        values = field.value if isinstance(field.value, list) else []
        kinds = sorted({str(value) for value in values})
        if len(kinds) > 1:
            found.append(_note("devices of this node differ", f"{name}: {', '.join(kinds)}", layer))
    for index, events in enumerate(_list(executor, "gpu_clock_events")):
        slowing = sorted(SLOWING_EVENTS & set(map(str, events))) if isinstance(events, list) else []
        if slowing:
            found.append(_note("clocks held down", f"gpu {index}: {', '.join(slowing)}", layer))
    busy = [i for i, count in enumerate(_list(executor, "gpu_processes")) if isinstance(count, int) and count > 0]
    if busy:
        found.append(_note("device shared", f"{_named(busy)}: other processes hold it", layer))
    shared = [i for i, on in enumerate(_list(executor, "gpu_mig")) if on is True]
    if shared:
        found.append(_note("device split", f"{_named(shared)}: MIG is on, a part of the device answers", layer))
    return found


def _links(executor: Executor) -> list[CompatibilityFinding]:
    found: list[CompatibilityFinding] = []
    for figure in ("generation", "width"):
        most = _list(executor, f"gpu_pcie_{figure}_max")
        warm = _list(executor, f"gpu_pcie_{figure}_warm")
        now = warm or _list(executor, f"gpu_pcie_{figure}_now")
        low = _below(now, most)
        if low:
            when = "after warm-up" if warm else "now; an idle link may rest lower, read it under load"
            reason = f"{_named(low)}: PCIe {figure} {now[low[0]]} of {most[low[0]]} {when}"
            found.append(_note("link below its maximum", reason, Layer.ACCELERATOR))
    return found


def _machine(executor: Executor) -> list[CompatibilityFinding]:
    found: list[CompatibilityFinding] = []
    system = Layer.SYSTEM
    governor = executor.get(system, "governor")
    if governor is not None and governor != "performance":
        found.append(_note("frequency governor", f"governor is {governor}: clocks follow the load", system))
    limit = executor.get(system, "cgroup_cpu_limit")
    allowed = executor.get(system, "affinity_count")
    if isinstance(limit, (int, float)) and isinstance(allowed, int) and limit < allowed:
        found.append(
            _note("CPU time limit", f"the control group grants {limit:g} CPUs' time of {allowed} visible ones", system)
        )
    threads = executor.get(Layer.ACCELERATOR, "cpu_threads")
    if isinstance(threads, int) and isinstance(allowed, int) and allowed < threads:
        found.append(_note("CPU affinity", f"this process may use {allowed} of {threads} CPUs", system))
    nodes = executor.get(system, "numa_nodes")
    if isinstance(nodes, int) and nodes > 1 and executor.get(system, "numa_balancing") == 1:
        found.append(_note("NUMA balancing", "the kernel moves pages between nodes while work runs", system))
    environment = executor.get(system, "environment")
    if isinstance(environment, dict) and environment.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        found.append(_note("blocking launches", "CUDA_LAUNCH_BLOCKING is set: every kernel waits for the last", system))
    return found


def _libraries(executor: Executor) -> list[CompatibilityFinding]:
    found: list[CompatibilityFinding] = []
    if executor.get(Layer.RUNTIME, "cudnn_origin") == "mixed":
        reason = "parts of cuDNN come from the system and parts from the framework's own packages"
        found.append(_note("mixed cuDNN", reason, Layer.RUNTIME))
    pools = executor.get(Layer.RUNTIME, "openmp_libraries")
    if isinstance(pools, list) and len(pools) > 1:
        reason = f"{len(pools)} OpenMP runtimes are loaded ({', '.join(map(str, pools))}): their threads compete"
        found.append(_note("several thread pools", reason, Layer.RUNTIME))
    return found
