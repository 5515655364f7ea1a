"""NVLink states and the topology between devices, as NVML tells them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

MOST_LINKS = 18
"""NVML_NVLINK_MAX_LINKS: the most any device has had (Hopper and Blackwell)."""
REMOTE_SWITCH = 2
"""NVML_NVLINK_DEVICE_TYPE_SWITCH."""
LEVELS: dict[int, str] = {0: "same board", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML's common ancestors in nvidia-smi's words: one PCIe switch, several, host bridge, NUMA node, across sockets."""


@dataclass(frozen=True, slots=True)
class Nvlinks:
    """One device's links: how many are up, their version, and where they lead."""

    active: int | None
    version: int | None = None
    to_switch: int = 0
    to_bus: dict[str, int] = field(default_factory=dict)


def read_nvlinks(nvml: Any, gpu: Any) -> Nvlinks:
    """The links that are up; a device without NVLink has none of them, not an unknown number."""
    active = 0
    asked = False
    version: int | None = None
    to_switch = 0
    to_bus: dict[str, int] = {}
    for link in range(MOST_LINKS):
        try:
            state = nvml.nvmlDeviceGetNvLinkState(gpu, link)
        except Exception:
            continue  # NotSupported or InvalidArgument: this device has no such link
        asked = True
        if not state:
            continue
        active += 1
        with suppress(Exception):
            version = int(nvml.nvmlDeviceGetNvLinkVersion(gpu, link))
        with suppress(Exception):
            if int(nvml.nvmlDeviceGetNvLinkRemoteDeviceType(gpu, link)) == REMOTE_SWITCH:
                to_switch += 1
                continue
        with suppress(Exception):
            bus = _bus(nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link))
            to_bus[bus] = to_bus.get(bus, 0) + 1
    return Nvlinks(active if asked else 0, version, to_switch, to_bus)


def describe_topology(nvml: Any, gpus: list[Any], links: list[Nvlinks]) -> list[JsonValue]:
    """A row a device: NV and the number of links between the two, or the PCIe level that joins them."""
    buses = [_own_bus(nvml, gpu) for gpu in gpus]
    rows: list[JsonValue] = []
    for one, gpu in enumerate(gpus):
        row: list[str] = []
        for two, other in enumerate(gpus):
            if one == two:
                row.append("X")
                continue
            direct = links[one].to_bus.get(buses[two], 0)
            joined = direct or min(links[one].to_switch, links[two].to_switch)
            row.append(f"NV{joined}" if joined else _level(nvml, gpu, other))
        rows.append(" ".join(row))
    return rows


def _level(nvml: Any, gpu: Any, other: Any) -> str:
    try:
        return LEVELS.get(int(nvml.nvmlDeviceGetTopologyCommonAncestor(gpu, other)), "?")
    except Exception:
        return "?"


def _own_bus(nvml: Any, gpu: Any) -> str:
    try:
        return _bus(nvml.nvmlDeviceGetPciInfo(gpu))
    except Exception:
        return ""


def _bus(info: Any) -> str:
    bus = info.busId
    text = bus.decode() if isinstance(bus, bytes) else str(bus)
    return text.lower()
