"""The accelerator layer without a vendor library: CPU, caches, memory modules, and accelerators on the PCI bus."""

import hashlib
import re
import struct
from collections import Counter

from pydantic import JsonValue

from lynxbench.executor.host import KNOWN, Host, Probe, explain
from lynxbench.executor.system import parse_meminfo
from lynxbench.model.executor import Field, Tier, measured, unreadable
from lynxbench.model.layers import Layer

GIB = 1 << 30
ACCELERATOR_CLASSES: tuple[str, ...] = ("0x0300", "0x0302", "0x0380", "0x1200")
"""PCI classes: VGA, 3D and other display controllers, processing accelerators."""
_MEMORY_DEVICE = 17
_SPEED_IN_EXTENDED_FIELD = 0xFFFF


def read_cpu(host: Host) -> dict[str, Field]:
    """Model, stepping, microcode and the instruction sets that decide speed."""
    cpus = parse_cpuinfo(host.text("/proc/cpuinfo"))
    source = "/proc/cpuinfo"
    first = cpus[0] if cpus else {}
    flags = sorted((first.get("flags") or first.get("Features") or "").split())
    fields = {
        "cpu_model": _known(describe_cpu(first), source),
        "cpu_stepping": _known(_stepping(first), source),
        "cpu_microcode": _known(first.get("microcode"), source),
        "cpu_flags": measured([flag for flag in flags if flag in KNOWN["processor"]["flags"]], source)
        if flags
        else unreadable(f"no flags in {source}"),
        "cpu_flags_sha256": _known(hashlib.sha256(" ".join(flags).encode()).hexdigest() if flags else None, source),
    }
    clocks = [float(cpu["cpu MHz"]) for cpu in cpus if re.fullmatch(r"[\d.]+", cpu.get("cpu MHz", ""))]
    if clocks:
        fields["cpu_clock_now_mhz"] = measured(round(sum(clocks) / len(clocks), 1), source, Tier.STATE)
    return fields


def parse_cpuinfo(text: str) -> list[dict[str, str]]:
    """One mapping a logical CPU."""
    cpus: list[dict[str, str]] = []
    for block in re.split(r"\n\s*\n", text):
        pairs = (line.split(":", 1) for line in block.splitlines() if ":" in line)
        cpu = {name.strip(): value.strip() for name, value in pairs}
        if "processor" in cpu:
            cpus.append(cpu)
    return cpus


def describe_cpu(cpu: dict[str, str]) -> str | None:
    """The model's name; on Arm from implementer and part, because the kernel prints no name."""
    if "model name" in cpu:
        return " ".join(cpu["model name"].split())
    try:
        implementer, part = int(cpu["CPU implementer"], 16), int(cpu["CPU part"], 16)
    except (KeyError, ValueError):
        return None
    named: str | None = KNOWN["processor"]["arm_parts"].get(f"{implementer:#04x} {part:#05x}")
    return named or f"implementer {implementer:#x} part {part:#x}"


def _stepping(cpu: dict[str, str]) -> str | None:
    if "stepping" in cpu:
        return f"family {cpu.get('cpu family', '?')} model {cpu.get('model', '?')} stepping {cpu['stepping']}"
    if "CPU variant" in cpu:
        return f"r{int(cpu['CPU variant'], 16)}p{cpu.get('CPU revision', '?')}"
    return None


def _known(value: str | None, source: str) -> Field:
    return measured(value, source) if value else unreadable(f"not told by {source}")


def read_topology(host: Host) -> dict[str, Field]:
    """Sockets, cores and threads."""
    folders = host.names("/sys/devices/system/cpu/cpu[0-9]*/topology")
    if not folders:
        raise FileNotFoundError(2, "no topology", "/sys/devices/system/cpu/cpu*/topology")
    packages = {host.text_or(f"{folder}/physical_package_id", "0") for folder in folders}
    cores = {
        host.text_or(f"{folder}/thread_siblings_list")
        or (host.text_or(f"{folder}/physical_package_id", "0"), host.text_or(f"{folder}/core_id", folder))
        for folder in folders
    }
    source = "/sys/devices/system/cpu/cpu*/topology"
    return {
        "cpu_sockets": measured(len(packages), source),
        "cpu_cores": measured(len(cores), source),
        "cpu_threads": measured(len(folders), source),
    }


def read_caches(host: Host) -> dict[str, Field]:
    """Caches by level, with how many of each the machine has."""
    seen: set[tuple[str, str, str]] = set()
    for folder in host.names("/sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        level, kind = host.text_or(f"{folder}/level"), host.text_or(f"{folder}/type")
        size, shared = host.text_or(f"{folder}/size"), host.text_or(f"{folder}/shared_cpu_list", folder)
        if level and size:
            seen.add((f"L{level}{ {'Data': 'd', 'Instruction': 'i'}.get(kind, '') }", size, shared))
    if not seen:
        return {"cpu_caches": unreadable("no sizes in /sys/devices/system/cpu/cpu*/cache")}
    counts = Counter((name, size) for name, size, _ in seen)
    caches: dict[str, JsonValue] = {}
    for (name, size), count in sorted(counts.items()):
        caches[name] = f"{caches[name]} + {size} x {count}" if name in caches else f"{size} x {count}"
    return {"cpu_caches": measured(caches, "/sys/devices/system/cpu/cpu*/cache")}


def read_memory(host: Host) -> dict[str, Field]:
    """Installed memory. Whole GiB are configuration; the exact total moves with the kernel's reservations."""
    exact = host.field("/proc/meminfo", lambda text: parse_meminfo(text)["MemTotal"], Tier.STATE)
    rounded = host.field("/proc/meminfo", lambda text: round(parse_meminfo(text)["MemTotal"] / GIB))
    return {"memory_total_gib": rounded, "memory_total_bytes": exact, "memory_speed_mts": _memory_speed(host)}


def _memory_speed(host: Host) -> Field:
    path = "/sys/firmware/dmi/tables/DMI"
    try:
        speeds = parse_memory_speeds(host.path(path).read_bytes())
    except OSError as problem:
        return unreadable(explain(problem, path))
    if not speeds:
        return unreadable(f"{path} names no memory module")
    return measured(dict(sorted(Counter(str(s) for s in speeds).items())), f"{path}: modules by MT/s")


def parse_memory_speeds(table: bytes) -> list[int]:
    """Configured speed in MT/s of every populated memory device of an SMBIOS table (DSP0134, structure type 17)."""
    speeds: list[int] = []
    at = 0
    while at + 4 <= len(table):
        kind, length = table[at], table[at + 1]
        if length < 4 or at + length > len(table):
            break
        body = table[at : at + length]
        if kind == _MEMORY_DEVICE and length >= 0x22 and struct.unpack_from("<H", body, 0x0C)[0]:
            rated, configured = struct.unpack_from("<H", body, 0x15)[0], struct.unpack_from("<H", body, 0x20)[0]
            speed = configured or rated
            if speed == _SPEED_IN_EXTENDED_FIELD and length >= 0x5C:
                speed = struct.unpack_from("<I", body, 0x58)[0]
            if speed:
                speeds.append(speed)
        strings = table.find(b"\x00\x00", at + length)
        if strings < 0:
            break
        at = strings + 2
    return speeds


def read_board(host: Host) -> dict[str, Field]:
    """Machine model and firmware; in a cloud the product name is the instance type."""
    dmi = "/sys/class/dmi/id"
    return {
        "machine_vendor": host.field(f"{dmi}/sys_vendor"),
        "machine_product": host.field(f"{dmi}/product_name"),
        "firmware_version": host.field(f"{dmi}/bios_version"),
    }


def read_pci(host: Host) -> dict[str, Field]:
    """Accelerators on the PCI bus with their links, whoever made them."""
    devices: list[JsonValue] = []
    links: list[JsonValue] = []
    nodes: list[JsonValue] = []
    for device in host.names("/sys/bus/pci/devices/*"):
        vendor = KNOWN["processor"]["accelerator_vendors"].get(host.text_or(f"{device}/vendor"))
        if vendor is None or not host.text_or(f"{device}/class").startswith(ACCELERATOR_CLASSES):
            continue
        now, most = (
            f"{host.text_or(f'{device}/{which}_link_speed', '?')} x{host.text_or(f'{device}/{which}_link_width', '?')}"
            for which in ("current", "max")
        )
        devices.append(f"{vendor} {host.text_or(f'{device}/device')} up to {most}")
        links.append(now)
        nodes.append(host.text_or(f"{device}/numa_node", "?"))
    source = "/sys/bus/pci/devices"
    fields = {"pci_accelerators": measured(devices, source)}
    if devices:
        fields["pci_accelerator_numa_nodes"] = measured(nodes, source)
        fields["pci_accelerator_links_now"] = measured(links, source, Tier.STATE)
    return fields


def read_temperatures(host: Host) -> dict[str, Field]:
    """Temperatures the kernel shows, by sensor."""
    readings: dict[str, str] = {}
    for file in host.names("/sys/class/hwmon/hwmon*/temp*_input"):
        folder, _, name = file.rpartition("/")
        label = host.text_or(f"{folder}/{name.replace('_input', '_label')}", name.removesuffix("_input"))
        readings[f"{host.text_or(f'{folder}/name', 'sensor')} {label}"] = host.text_or(file)
    for zone in host.names("/sys/class/thermal/thermal_zone*"):
        readings[f"{host.text_or(f'{zone}/type', 'zone')} {zone.rpartition('/')[2]}"] = host.text_or(f"{zone}/temp")
    whole = re.compile(r"-?\d+")
    celsius: dict[str, JsonValue] = {name: int(t) / 1000 for name, t in readings.items() if whole.fullmatch(t)}
    if not celsius:
        return {"temperatures_c": unreadable("no sensors under /sys/class/hwmon or /sys/class/thermal", Tier.STATE)}
    return {"temperatures_c": measured(celsius, "/sys/class/hwmon, /sys/class/thermal", Tier.STATE)}


PROBES: tuple[Probe, ...] = (
    Probe(Layer.ACCELERATOR, read_cpu, ("cpu_model", "cpu_stepping", "cpu_microcode", "cpu_flags")),
    Probe(Layer.ACCELERATOR, read_topology, ("cpu_sockets", "cpu_cores", "cpu_threads")),
    Probe(Layer.ACCELERATOR, read_caches, ("cpu_caches",)),
    Probe(Layer.ACCELERATOR, read_memory, ("memory_total_gib",)),
    Probe(Layer.ACCELERATOR, read_board, ("machine_vendor", "machine_product")),
    Probe(Layer.ACCELERATOR, read_pci, ("pci_accelerators",)),
    Probe(Layer.ACCELERATOR, read_temperatures, ("temperatures_c",), Tier.STATE),
)
