"""The room's order: probes of this host, the makers' libraries, probes of installed packages, what a person declared.

No framework is imported for it. What an engine says of itself joins after the run, by the same rule.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

from lynxbench.executor import confinement, hardware_roots, processor, python_packages, system
from lynxbench.executor.declaration import Declaration
from lynxbench.executor.host import Host, Probe, exact_json, explain, run_probe
from lynxbench.executor.nvidia import capture_nvidia, load_nvml
from lynxbench.executor.vendors import VendorProbe, capture_vendors
from lynxbench.model.executor import Executor, Field, Status, Tier, unreadable
from lynxbench.model.layers import Layer

PROBE_GROUP = "lynxbench.probes"
"""Entry points of this group are callables without arguments that return `{layer: {name: Field}}`."""
PROBES: tuple[Probe, ...] = (
    *python_packages.PROBES, *system.PROBES, *confinement.PROBES, *processor.PROBES, *hardware_roots.PROBES
)  # fmt: skip

NOT_DECLARED: dict[Layer, tuple[str, ...]] = {
    Layer.PROCUREMENT: ("price",),
    Layer.FACILITY: ("cooling", "inlet_c"),
    Layer.DEMAND: ("slo",),
}
"""What only a person can know; until it is declared, its absence is stated."""


def capture_host(
    declared: Declaration | None = None,
    *,
    host: Host | None = None,
    nvml: Callable[[], Any] = load_nvml,
    plugins: Iterable[metadata.EntryPoint] | None = None,
    vendors: Sequence[VendorProbe] | None = None,
) -> Executor:
    """Everything this machine and this declaration tell about the nine layers; no exception leaves a probe."""
    host = host or Host()
    layers: dict[Layer, dict[str, Field]] = {layer: {} for layer in Layer}
    for probe in PROBES:
        layers[probe.layer].update(run_probe(probe, host))
    for captured in (capture_nvidia(host, nvml), capture_vendors(host, vendors)):
        for layer, fields in captured.items():
            layers[layer].update(fields)
    for entry in metadata.entry_points(group=PROBE_GROUP) if plugins is None else plugins:
        for layer, fields in run_plugin(entry).items():
            _add(layers[layer], fields, f"{entry.name}_")
    add_declared(layers, declared)
    return Executor(layers=layers)


def run_plugin(entry: metadata.EntryPoint) -> dict[Layer, dict[str, Field]]:
    """The fields of an installed package's probe; what it does wrong becomes one unreadable field under its name."""
    try:
        layers: Mapping[str, Mapping[str, Field]] = entry.load()()
        return {
            Layer(layer): {
                str(name): field.model_copy(update={"value": exact_json(field.value)}) for name, field in fields.items()
            }
            for layer, fields in layers.items()
        }
    except Exception as problem:
        reason = f"probe {entry.name} ({entry.value}): {explain(problem)}"
        return {Layer.ACCELERATOR: {f"probe_{entry.name}": unreadable(reason, Tier.STATE)}}


def add_declared(layers: dict[Layer, dict[str, Field]], declared: Declaration | None) -> None:
    """Put declared fields beside measured ones; a declaration never replaces a measurement."""
    for layer, fields in (declared.fields() if declared else {}).items():
        _add(layers[layer], fields, "declared_")
    for layer, names in NOT_DECLARED.items():
        for name in names:
            # A missing declaration must not split otherwise equal machines into different ids.
            layers[layer].setdefault(name, unreadable("not declared: give a site file with --declare", Tier.STATE))


def _add(known: dict[str, Field], more: Mapping[str, Field], prefix: str) -> None:
    for name, field in more.items():
        taken = name in known and known[name].status is not Status.UNREADABLE
        known[f"{prefix}{name}" if taken else name] = field
