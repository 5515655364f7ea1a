"""NVIDIA devices, their links and topology through NVML.

One list a field, one item a device, so that devices of a node can be compared.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from lynxbench.executor.host import Host, exact_json, explain, format_cpu_list
from lynxbench.model.executor import Field, Tier, measured, unreadable
from lynxbench.model.layers import Layer

Handle = Any
Nvml = Any
"""The `pynvml` module, or an object with the same functions."""

# Values of NVML's C enumerations (nvml.h); they are part of its stable interface.
CLOCK_SM, CLOCK_MEMORY = 1, 2
TEMPERATURE_GPU = 0
AFFINITY_SCOPE_NODE = 0
CLOCK_EVENTS: dict[int, str] = {
    0x1: "idle", 0x2: "applications clocks", 0x4: "software power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "software thermal", 0x40: "hardware thermal", 0x80: "hardware power brake", 0x100: "display clocks",
}  # fmt: skip
COMPUTE_MODES: dict[int, str] = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
VIRTUALISATION: dict[int, str] = {0: "none", 1: "pass-through", 2: "vGPU", 3: "host vGPU", 4: "host vSGA"}
WORD_BITS = 64
LIBRARY = "libnvidia-ml.so.1"
MOST_LINKS = 18
"""NVML_NVLINK_MAX_LINKS: the most any device has had (Hopper and Blackwell)."""
REMOTE_SWITCH = 2
"""NVML_NVLINK_DEVICE_TYPE_SWITCH."""
CC_ENABLED = 1
"""NVML_CC_SYSTEM_FEATURE_ENABLED."""
GPU_ATTESTATION = "gpu_attestation"
ASKED_LATER = "asked for with a run's nonce when one is registered"
NO_GPU_ROOT = unreadable("not available: no NVIDIA device answers", Tier.STATE)
ANCESTORS: dict[int, str] = {0: "same board", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML's common ancestors in nvidia-smi's words: one PCIe switch, several, host bridge, NUMA node, across sockets."""


@dataclass(frozen=True, slots=True)
class NvmlReading:
    """A field, and how it is read from a device."""

    name: str
    read: Callable[[Nvml, Handle], object]
    tier: Tier = Tier.CONFIGURATION
    identity: bool = False


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def _capability(nvml: Nvml, gpu: Handle) -> str:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(gpu)
    return f"{major}.{minor}"


def _cpu_affinity(nvml: Nvml, gpu: Handle, words: int) -> str:
    masks = nvml.nvmlDeviceGetCpuAffinity(gpu, words)
    return format_cpu_list(
        {w * WORD_BITS + b for w, mask in enumerate(masks) for b in range(WORD_BITS) if mask >> b & 1}
    )


def _memory_node(nvml: Nvml, gpu: Handle) -> str:
    (mask,) = nvml.nvmlDeviceGetMemoryAffinity(gpu, 1, AFFINITY_SCOPE_NODE)
    return format_cpu_list({b for b in range(WORD_BITS) if mask >> b & 1})


def _clock_events(nvml: Nvml, gpu: Handle) -> list[str]:
    current = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    bits = int((current or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(gpu))  # older libraries have the older name
    return [name for bit, name in CLOCK_EVENTS.items() if bits & bit]


def _mig_instances(nvml: Nvml, gpu: Handle) -> int:
    if not nvml.nvmlDeviceGetMigMode(gpu)[0]:
        return 0
    count = 0
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        with suppress(Exception):  # an empty slot is an error to NVML
            nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
            count += 1
    return count


def _text(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


LINK_READINGS: tuple[NvmlReading, ...] = (
    NvmlReading("gpu_pcie_generation_now", lambda n, g: n.nvmlDeviceGetCurrPcieLinkGeneration(g), Tier.STATE),
    NvmlReading("gpu_pcie_width_now", lambda n, g: n.nvmlDeviceGetCurrPcieLinkWidth(g), Tier.STATE),
)
"""A link rests at a lower generation when idle: a low reading counts only under load."""
READINGS: tuple[NvmlReading, ...] = (
    NvmlReading("gpu_name", lambda n, g: n.nvmlDeviceGetName(g)),
    NvmlReading("gpu_capability", _capability),
    NvmlReading("gpu_memory_bytes", lambda n, g: n.nvmlDeviceGetMemoryInfo(g).total),
    NvmlReading("gpu_bar1_bytes", lambda n, g: n.nvmlDeviceGetBAR1MemoryInfo(g).bar1Total),
    NvmlReading("gpu_memory_bus_bits", lambda n, g: n.nvmlDeviceGetMemoryBusWidth(g)),
    NvmlReading("gpu_vbios", lambda n, g: n.nvmlDeviceGetVbiosVersion(g)),
    NvmlReading("gpu_board_part", lambda n, g: n.nvmlDeviceGetBoardPartNumber(g)),
    NvmlReading("gpu_inforom", lambda n, g: n.nvmlDeviceGetInforomImageVersion(g)),
    NvmlReading("gpu_gsp_firmware", lambda n, g: n.nvmlDeviceGetGspFirmwareVersion(g)),
    NvmlReading("gpu_virtualisation", lambda n, g: VIRTUALISATION.get(n.nvmlDeviceGetVirtualizationMode(g), "unknown")),
    NvmlReading("gpu_power_limit_enforced_w", lambda n, g: _watts(n.nvmlDeviceGetEnforcedPowerLimit(g))),
    NvmlReading("gpu_power_limit_requested_w", lambda n, g: _watts(n.nvmlDeviceGetPowerManagementLimit(g))),
    NvmlReading("gpu_power_limit_default_w", lambda n, g: _watts(n.nvmlDeviceGetPowerManagementDefaultLimit(g))),
    NvmlReading("gpu_power_limit_min_w", lambda n, g: _watts(n.nvmlDeviceGetPowerManagementLimitConstraints(g)[0])),
    NvmlReading("gpu_power_limit_max_w", lambda n, g: _watts(n.nvmlDeviceGetPowerManagementLimitConstraints(g)[1])),
    NvmlReading("gpu_clock_sm_max_mhz", lambda n, g: n.nvmlDeviceGetMaxClockInfo(g, CLOCK_SM)),
    NvmlReading("gpu_clock_memory_max_mhz", lambda n, g: n.nvmlDeviceGetMaxClockInfo(g, CLOCK_MEMORY)),
    NvmlReading("gpu_clock_sm_applications_mhz", lambda n, g: n.nvmlDeviceGetApplicationsClock(g, CLOCK_SM)),
    NvmlReading("gpu_clock_memory_applications_mhz", lambda n, g: n.nvmlDeviceGetApplicationsClock(g, CLOCK_MEMORY)),
    NvmlReading("gpu_ecc", lambda n, g: bool(n.nvmlDeviceGetEccMode(g)[0])),
    NvmlReading("gpu_mig", lambda n, g: bool(n.nvmlDeviceGetMigMode(g)[0])),
    NvmlReading("gpu_mig_instances", _mig_instances),
    NvmlReading("gpu_persistence", lambda n, g: bool(n.nvmlDeviceGetPersistenceMode(g))),
    NvmlReading("gpu_compute_mode", lambda n, g: COMPUTE_MODES.get(n.nvmlDeviceGetComputeMode(g), "unknown")),
    NvmlReading("gpu_pcie_generation_max", lambda n, g: n.nvmlDeviceGetMaxPcieLinkGeneration(g)),
    NvmlReading("gpu_pcie_width_max", lambda n, g: n.nvmlDeviceGetMaxPcieLinkWidth(g)),
    NvmlReading("gpu_memory_node", _memory_node),
    NvmlReading("gpu_uuid", lambda n, g: n.nvmlDeviceGetUUID(g), Tier.INSTANCE, identity=True),
    NvmlReading("gpu_serial", lambda n, g: n.nvmlDeviceGetSerial(g), Tier.INSTANCE, identity=True),
    NvmlReading("gpu_bus", lambda n, g: n.nvmlDeviceGetPciInfo(g).busId, Tier.INSTANCE),
    *LINK_READINGS,
    NvmlReading("gpu_clock_sm_now_mhz", lambda n, g: n.nvmlDeviceGetClockInfo(g, CLOCK_SM), Tier.STATE),
    NvmlReading("gpu_clock_memory_now_mhz", lambda n, g: n.nvmlDeviceGetClockInfo(g, CLOCK_MEMORY), Tier.STATE),
    NvmlReading("gpu_temperature_c", lambda n, g: n.nvmlDeviceGetTemperature(g, TEMPERATURE_GPU), Tier.STATE),
    NvmlReading("gpu_power_now_w", lambda n, g: _watts(n.nvmlDeviceGetPowerUsage(g)), Tier.STATE),
    NvmlReading("gpu_clock_events", _clock_events, Tier.STATE),
    NvmlReading("gpu_memory_used_bytes", lambda n, g: n.nvmlDeviceGetMemoryInfo(g).used, Tier.STATE),
    NvmlReading("gpu_processes", lambda n, g: len(n.nvmlDeviceGetComputeRunningProcesses(g)), Tier.STATE),
    NvmlReading("gpu_utilisation_percent", lambda n, g: n.nvmlDeviceGetUtilizationRates(g).gpu, Tier.STATE),
    NvmlReading("gpu_remapped_rows", lambda n, g: list(n.nvmlDeviceGetRemappedRows(g)), Tier.STATE),
)


@contextmanager
def opened(nvml: Nvml) -> Iterator[list[Handle]]:
    """NVML initialised, with the handle of every device; shut down afterwards."""
    nvml.nvmlInit()
    try:
        yield [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    finally:
        with suppress(Exception):
            nvml.nvmlShutdown()


def load_nvml() -> Nvml:
    """The pynvml module. The library is tried first: importing pynvml costs 0.1 s and is of no use without it."""
    ctypes.CDLL(LIBRARY)
    import pynvml  # type: ignore[import-untyped,unused-ignore]

    return pynvml


def capture_nvidia(host: Host, load: Callable[[], Nvml] = load_nvml) -> dict[Layer, dict[str, Field]]:
    """Driver, devices, links and topology; a machine without any says so with its reason."""
    try:
        nvml = load()
        with opened(nvml) as gpus:
            return {
                Layer.SYSTEM: _read_driver(nvml),
                Layer.ACCELERATOR: {
                    "gpu_count": measured(len(gpus), "NVML"),
                    GPU_ATTESTATION: NO_GPU_ROOT,
                    **(_read_devices(nvml, gpus, host) if gpus else {}),
                },
            }
    except Exception as problem:
        return {Layer.ACCELERATOR: {"gpu_count": _no_devices(host, problem), GPU_ATTESTATION: NO_GPU_ROOT}}


def _no_devices(host: Host, problem: Exception) -> Field:
    reason = f"{LIBRARY} does not load" if isinstance(problem, OSError) else nvml_reason(problem)
    if isinstance(problem, ImportError):
        reason = "the Python package nvidia-ml-py is not installed (extra: gpu)"
    cards = [d for d in host.names("/sys/bus/pci/devices/*") if host.text_or(f"{d}/vendor") == "0x10de"]
    if cards or host.path("/proc/driver/nvidia").exists():
        return unreadable(f"NVIDIA hardware or driver is present, but {reason}")
    return measured(0, f"no NVIDIA device on the PCI bus, no driver; {reason}")


def _read_driver(nvml: Nvml) -> dict[str, Field]:
    def cuda() -> str:
        version = nvml.nvmlSystemGetCudaDriverVersion()
        return f"{version // 1000}.{version % 1000 // 10}"

    return {"nvidia_driver": _field(nvml.nvmlSystemGetDriverVersion), "nvidia_driver_cuda": _field(cuda)}


def _field(read: Callable[[], object]) -> Field:
    try:
        return measured(exact_json(_text(read())), "NVML")
    except Exception as problem:
        return unreadable(nvml_reason(problem))


def _read_devices(nvml: Nvml, gpus: list[Handle], host: Host) -> dict[str, Field]:
    fields = {reading.name: read_each(nvml, gpus, reading, host) for reading in READINGS}
    cpus = len(host.names("/sys/devices/system/cpu/cpu[0-9]*")) or WORD_BITS
    words = -(-cpus // WORD_BITS)
    affinity = NvmlReading("gpu_cpu_affinity", lambda n, g: _cpu_affinity(n, g, words))
    fields[affinity.name] = read_each(nvml, gpus, affinity, host)
    links = [read_nvlinks(nvml, gpu) for gpu in gpus]
    fields["gpu_nvlink_active"] = measured([link.active for link in links], "NVML")
    fields["gpu_nvlink_version"] = measured([link.version for link in links], "NVML")
    fields |= _read_confidential(nvml)
    if len(gpus) > 1:
        fields["gpu_topology"] = measured(describe_topology(nvml, gpus, links), "NVML: device by device")
    return fields


def _read_confidential(nvml: Nvml) -> dict[str, Field]:
    """Whether the devices work on encrypted memory, which costs transfers time, and can be asked to vouch for a run."""
    why = why_no_gpu_root(nvml)
    if why is not None:
        return {GPU_ATTESTATION: unreadable(f"not available: {why}", Tier.STATE)}
    return {
        "gpu_confidential_computing": measured(True, "NVML"),
        GPU_ATTESTATION: unreadable(ASKED_LATER, Tier.STATE),
    }


def why_no_gpu_root(nvml: Nvml) -> str | None:
    """Why no device can be asked for an attestation report; None where they can."""
    try:
        state = nvml.nvmlSystemGetConfComputeState()
    except Exception as problem:
        return nvml_reason(problem)
    return None if state.ccFeature == CC_ENABLED else "confidential computing is off (NVML)"


def read_each(nvml: Nvml, gpus: list[Handle], reading: NvmlReading, host: Host) -> Field:
    """One reading of every device; unreadable where none answers, null where one does not."""
    values: list[JsonValue] = []
    failures: dict[str, list[int]] = {}
    for index, gpu in enumerate(gpus):
        try:
            value = exact_json(_text(reading.read(nvml, gpu)))
        except Exception as problem:
            failures.setdefault(nvml_reason(problem), []).append(index)
            values.append(None)
            continue
        values.append(host.pseudonym(reading.name, str(value)) if reading.identity else value)
    reasons = "; ".join(f"gpu {format_cpu_list(at)}: {reason}" for reason, at in failures.items())
    if sum(len(at) for at in failures.values()) == len(gpus):
        return unreadable(next(iter(failures)) if len(failures) == 1 else reasons, reading.tier)
    source = "NVML, pseudonymised" if reading.identity else "NVML"
    return measured(values, f"{source} ({reasons})" if reasons else source, reading.tier)


def read_links_now(load: Callable[[], Nvml] = load_nvml) -> dict[str, Field]:
    """PCIe generation and width at this moment; called after warm-up, when a healthy link runs at full speed."""
    try:
        nvml = load()
        with opened(nvml) as gpus:
            return {
                reading.name.replace("_now", "_warm"): read_each(nvml, gpus, reading, Host())
                for reading in LINK_READINGS
            }
    except Exception as problem:
        return {r.name.replace("_now", "_warm"): unreadable(nvml_reason(problem), r.tier) for r in LINK_READINGS}


def nvml_reason(problem: BaseException) -> str:
    """One line on why NVML gave no answer."""
    own = type(problem).__name__.startswith("NVMLError")  # its classes are not known where its package is missing
    return f"NVML: {problem if own else explain(problem)}"


# --- links between devices -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Nvlinks:
    """One device's links: how many are up, their version, and where they lead."""

    active: int
    version: int | None
    to_switch: int
    to_bus: dict[str, int]


def read_nvlinks(nvml: Nvml, gpu: Handle) -> Nvlinks:
    """The links that are up; a device without NVLink has none of them, not an unknown number."""
    active = to_switch = 0
    version: int | None = None
    to_bus: dict[str, int] = {}
    for link in range(MOST_LINKS):
        with suppress(Exception):  # NotSupported or InvalidArgument: this device has no such link
            if not nvml.nvmlDeviceGetNvLinkState(gpu, link):
                continue
            active += 1
            with suppress(Exception):
                version = int(nvml.nvmlDeviceGetNvLinkVersion(gpu, link))
            with suppress(Exception):
                if int(nvml.nvmlDeviceGetNvLinkRemoteDeviceType(gpu, link)) == REMOTE_SWITCH:
                    to_switch += 1
                    continue
            bus = _bus(nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link))
            to_bus[bus] = to_bus.get(bus, 0) + 1
    return Nvlinks(active, version, to_switch, to_bus)


def describe_topology(nvml: Nvml, gpus: list[Handle], links: list[Nvlinks]) -> list[JsonValue]:
    """A row a device: NV and the number of links between the two, or the PCIe level that joins them."""
    buses = [_own_bus(nvml, gpu) for gpu in gpus]

    def joined(row: int, column: int) -> str:
        if row == column:
            return "X"
        direct = links[row].to_bus.get(buses[column], 0)
        count = direct or min(links[row].to_switch, links[column].to_switch)
        return f"NV{count}" if count else _ancestor(nvml, gpus[row], gpus[column])

    places = range(len(gpus))
    return [" ".join(joined(row, column) for column in places) for row in places]


def _ancestor(nvml: Nvml, gpu: Handle, other: Handle) -> str:
    try:
        return ANCESTORS.get(int(nvml.nvmlDeviceGetTopologyCommonAncestor(gpu, other)), "?")
    except Exception:
        return "?"


def _own_bus(nvml: Nvml, gpu: Handle) -> str:
    try:
        return _bus(nvml.nvmlDeviceGetPciInfo(gpu))
    except Exception:
        return ""


def _bus(info: Any) -> str:
    return str(_text(info.busId)).lower()
