"""The whole host in one capture, without importing any framework. Probes of installed packages join by entry point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from typing import Any

from lynxbench.executor import confinement, launch, processor, system
from lynxbench.executor import python_packages as packages
from lynxbench.executor.declaration import Declaration
from lynxbench.executor.host import Host, Probe, exact_json, explain, run_probe
from lynxbench.executor.nvidia import capture_nvidia, load_nvml
from lynxbench.model.executor import Executor, Field, Status, Tier, unreadable
from lynxbench.model.layers import Layer

PROBE_GROUP = "lynxbench.probes"
"""Entry points of this group are callables without arguments that return `{layer: {name: Field}}`."""
PROBES: tuple[Probe, ...] = (
    *packages.PROBES,
    *system.PROBES,
    *confinement.PROBES,
    *processor.PROBES,
    *launch.PROBES,
)

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
) -> Executor:
    """Everything this machine and this declaration tell about the nine layers; no exception leaves a probe."""
    where = host or Host()
    layers: dict[Layer, dict[str, Field]] = {layer: {} for layer in Layer}
    for probe in PROBES:
        layers[probe.layer].update(run_probe(probe, where))
    for layer, fields in capture_nvidia(where, nvml).items():
        layers[layer].update(fields)
    for entry in metadata.entry_points(group=PROBE_GROUP) if plugins is None else plugins:
        for layer, fields in run_plugin(entry).items():
            _add(layers[layer], fields, f"{entry.name}_")
    add_declared(layers, declared)
    return Executor(layers=layers)


def run_plugin(entry: metadata.EntryPoint) -> dict[Layer, dict[str, Field]]:
    """The fields of an installed package's probe; what it does wrong becomes one unreadable field under its name."""
    failed = f"probe_{entry.name}"
    try:
        found: Mapping[str, Mapping[str, Field]] = entry.load()()
        return {
            Layer(layer): {
                str(name): field.model_copy(update={"value": exact_json(field.value)}) for name, field in fields.items()
            }
            for layer, fields in found.items()
        }
    except Exception as problem:
        reason = f"probe {entry.name} ({entry.value}): {explain(problem)}"
        return {Layer.ACCELERATOR: {failed: unreadable(reason, Tier.STATE)}}


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
