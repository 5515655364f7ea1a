"""Accelerators of other makers, one probe each behind one seam: AMD, Intel and Google by what their software tells.

Written from the makers' documents and tested with stand-ins of their modules: **untested on the real chip**, which
every record made by one of them says. A library that is not there is no news; one that fails, or answers N/A, leaves a
reason.
"""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from lynxbench.executor.host import Host, exact_json, explain, format_cpu_list
from lynxbench.model.executor import Field, Tier, measured, unreadable
from lynxbench.model.layers import Layer

UNTESTED = "untested on the real chip: written from the maker's documents"
NOT_AVAILABLE = ("N/A", "", None)
"""How amdsmi says that a device does not offer a reading."""
INTEL_VENDOR = "0x8086"
INTEL_DRIVERS = ("xe", "i915")

Layers = dict[Layer, dict[str, Field]]


class NotOffered(Exception):
    """The library answers that the device does not offer it."""


@dataclass(frozen=True, slots=True)
class VendorReading:
    """A field, and how it is read from one device of an opened library."""

    name: str
    read: Callable[[Any, Any], object]
    tier: Tier = Tier.CONFIGURATION
    identity: bool = False


@dataclass(frozen=True, slots=True)
class VendorProbe:
    """One maker: how its library is opened, and what is read of each device."""

    name: str
    load: Callable[[], Any]
    """The module; any error says that it is not there."""
    open: Callable[[Any], Sequence[Any]]
    close: Callable[[Any], object]
    readings: tuple[VendorReading, ...]
    system: tuple[VendorReading, ...] = ()


def capture_vendors(host: Host, probes: Sequence[VendorProbe] | None = None) -> Layers:
    """The fields of every maker whose library is here and has a device."""
    layers: Layers = {Layer.ACCELERATOR: dict(read_intel(host)), Layer.SYSTEM: {}}
    for probe in PROBES if probes is None else probes:
        try:
            library = probe.load()
        except Exception:  # absent libraries fail in their own ways, and are no news
            continue
        for layer, fields in _capture(probe, library, host).items():
            layers[layer].update(fields)
    return layers


def _capture(probe: VendorProbe, library: Any, host: Host) -> Layers:
    try:
        devices = probe.open(library)
    except Exception as problem:
        return {Layer.ACCELERATOR: {f"{probe.name}_count": unreadable(f"{probe.name}: {explain(problem)}", Tier.STATE)}}
    try:
        if not devices:
            return {}
        fields = {each.name: read_all(probe, library, devices, each, host) for each in probe.readings}
        system = {each.name: read_all(probe, library, devices[:1], each, host) for each in probe.system}
        fields[f"{probe.name}_count"] = measured(len(devices), probe.name)
        fields[f"{probe.name}_probe"] = measured(UNTESTED, probe.name, Tier.STATE)
        return {Layer.ACCELERATOR: fields, Layer.SYSTEM: system}
    finally:
        with suppress(Exception):
            probe.close(library)


def read_all(probe: VendorProbe, library: Any, devices: Sequence[Any], reading: VendorReading, host: Host) -> Field:
    """One reading of every device; unreadable where none answers, null where one does not."""
    values: list[JsonValue] = []
    failures: dict[str, list[int]] = {}
    for index, device in enumerate(devices):
        try:
            value = exact_json(reading.read(library, device))
        except NotOffered as problem:
            failures.setdefault(str(problem), []).append(index)
            values.append(None)
            continue
        except Exception as problem:
            failures.setdefault(explain(problem), []).append(index)
            values.append(None)
            continue
        values.append(host.pseudonym(reading.name, str(value)) if reading.identity else value)
    reasons = "; ".join(f"device {format_cpu_list(at)}: {reason}" for reason, at in failures.items())
    if all(value is None for value in values):
        return unreadable(f"{probe.name}: {reasons}", reading.tier)
    source = f"{probe.name}, pseudonymised" if reading.identity else probe.name
    return measured(values, f"{source} ({reasons})" if reasons else source, reading.tier)


def offered(answer: Any, *keys: str) -> Any:
    """The first of these keys that an answer has a value under; NotOffered where it is N/A or missing."""
    for key in keys:
        value = answer.get(key) if isinstance(answer, dict) else None
        if value not in NOT_AVAILABLE:
            return value
    raise NotOffered(f"N/A ({', '.join(keys)})")


# --- AMD: amdsmi -----------------------------------------------------------------------------------------------------


def load_module(name: str) -> Any:
    """A module that is installed; looked for first, because importing one that is not costs time."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        raise ImportError(name)
    return importlib.import_module(name)


def _open_amd(smi: Any) -> Sequence[Any]:
    smi.amdsmi_init()
    return list(smi.amdsmi_get_processor_handles())


def _amd_arch(smi: Any, device: Any) -> str:
    return str(offered(smi.amdsmi_get_gpu_asic_info(device), "target_graphics_version"))


def _amd_cap_w(smi: Any, device: Any, key: str) -> float:
    return float(offered(smi.amdsmi_get_power_cap_info(device), key)) / 1e6  # microwatts, by amdsmi.h


AMD = VendorProbe(
    "amd_gpu",
    lambda: load_module("amdsmi"),
    _open_amd,
    lambda smi: smi.amdsmi_shut_down(),
    (
        VendorReading("amd_gpu_name", lambda s, d: offered(s.amdsmi_get_gpu_asic_info(d), "market_name")),
        VendorReading("amd_gpu_arch", _amd_arch),
        VendorReading(
            "amd_gpu_memory_bytes", lambda s, d: int(offered(s.amdsmi_get_gpu_vram_usage(d), "vram_total")) * 2**20
        ),
        VendorReading("amd_gpu_power_cap_w", lambda s, d: _amd_cap_w(s, d, "power_cap")),
        VendorReading("amd_gpu_power_cap_default_w", lambda s, d: _amd_cap_w(s, d, "default_power_cap")),
        VendorReading("amd_gpu_vbios", lambda s, d: offered(s.amdsmi_get_gpu_vbios_info(d), "version")),
        VendorReading("amd_gpu_partition", lambda s, d: s.amdsmi_get_gpu_compute_partition(d)),
        VendorReading("amd_gpu_uuid", lambda s, d: s.amdsmi_get_gpu_device_uuid(d), Tier.INSTANCE, identity=True),
        VendorReading("amd_gpu_bus", lambda s, d: s.amdsmi_get_gpu_device_bdf(d), Tier.INSTANCE),
    ),
    (VendorReading("amd_driver", lambda s, d: offered(s.amdsmi_get_gpu_driver_info(d), "driver_version")),),
)


# --- Google: libtpu's monitoring library -----------------------------------------------------------------------------


def _open_tpu(monitoring: Any) -> Sequence[Any]:
    return range(len(monitoring.get_metric("hbm_capacity_total").data()))


def tpu_value(monitoring: Any, metric: str, index: int) -> float:
    """One chip's part of a metric, which comes as a list of texts."""
    data = monitoring.get_metric(metric).data()
    if index >= len(data) or data[index] in NOT_AVAILABLE:
        raise NotOffered(f"{metric} has no value of this chip")
    return float(data[index])


TPU = VendorProbe(
    "tpu",
    lambda: load_module("libtpu.sdk").tpumonitoring,
    _open_tpu,
    lambda monitoring: None,
    (
        VendorReading("tpu_memory_bytes", lambda m, index: int(tpu_value(m, "hbm_capacity_total", index))),
        VendorReading("tpu_duty_cycle_percent", lambda m, index: tpu_value(m, "duty_cycle_pct", index), Tier.STATE),
    ),
)

PROBES: tuple[VendorProbe, ...] = (AMD, TPU)


# --- Intel: the kernel's files of discrete GPUs ----------------------------------------------------------------------


def read_intel(host: Host) -> dict[str, Field]:
    """Discrete GPUs of the xe and i915 drivers; built-in ones have no energy counter of their own and are left out."""
    cards = [
        card
        for card in host.names("/sys/class/drm/card[0-9]*/device")
        if host.text_or(f"{card}/vendor") == INTEL_VENDOR and host.names(f"{card}/hwmon/hwmon*/energy1_input")
    ]
    if not cards:
        return {}
    drivers = [host.path(f"{card}/driver").resolve().name for card in cards]
    limits = [host.names(f"{card}/hwmon/hwmon*/power1_max") for card in cards]
    fields = {
        "intel_gpu_device": measured([host.text_or(f"{card}/device") for card in cards], "/sys/class/drm", Tier.STATE),
        "intel_gpu_driver": measured([*drivers], "/sys/class/drm", Tier.STATE),
        "intel_gpu_count": measured(len(cards), "/sys/class/drm", Tier.STATE),
        "intel_gpu_probe": measured(UNTESTED, "/sys/class/drm", Tier.STATE),
    }
    try:
        watts: list[JsonValue] = [float(host.text(files[0])) / 1e6 if files else None for files in limits]
        fields["intel_gpu_power_limit_w"] = measured(watts, "hwmon power1_max, microwatts", Tier.STATE)
    except (OSError, ValueError) as problem:
        fields["intel_gpu_power_limit_w"] = unreadable(explain(problem), Tier.STATE)
    return fields
