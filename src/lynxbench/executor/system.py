"""The system layer: operating system, kernel, mitigations, memory policy, clocks, driver, libraries, environment."""

import os
import platform
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from pydantic import JsonValue

from lynxbench.executor.host import KNOWN, Host, Probe, chosen, format_cpu_list, parse_cpu_list
from lynxbench.model.executor import Field, Tier, measured, unreadable
from lynxbench.model.layers import Layer
from lynxbench.model.secrets import name_looks_secret, value_looks_secret

ALLOWED_PREFIXES: tuple[str, ...] = tuple(KNOWN["system"]["variable_prefixes"])
ALLOWED_NAMES: frozenset[str] = frozenset(KNOWN["system"]["variables"])
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_VERSIONED = re.compile(r"^(?P<name>[A-Za-z][\w+-]*?)\.so\.(?P<version>\d[\w.]*)$")


def read_release(host: Host) -> dict[str, Field]:
    """Distribution, kernel, architecture and C library."""
    uname = os.uname()
    return {
        "os": host.field("/etc/os-release", _pretty_name),
        "kernel": host.field("/proc/sys/kernel/osrelease"),
        "kernel_build": host.field("/proc/sys/kernel/version"),
        "architecture": measured(uname.machine, "uname"),
        "libc": _libc(),
        "boot_options": host.field("/proc/cmdline", parse_boot_options),
        "clocksource": host.field("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    }


def _libc() -> Field:
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        version = " ".join(part for part in platform.libc_ver() if part)
    return measured(version, "confstr") if version else unreadable("the C library does not tell its version")


def _pretty_name(text: str) -> str:
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return (values.get("PRETTY_NAME") or values["NAME"]).strip("\"'")


def parse_boot_options(text: str) -> dict[str, JsonValue]:
    """The kernel options that change speed; a bare word is true."""
    options: dict[str, JsonValue] = {}
    for word in text.split(" -- ")[0].split():
        name, given, value = word.partition("=")
        if name in KNOWN["system"]["boot_options"]:
            options[name] = value if given else True
    return dict(sorted(options.items()))


def read_mitigations(host: Host) -> dict[str, Field]:
    """What the kernel does against each CPU vulnerability; a mitigation can cost tens of percent."""
    files = host.names("/sys/devices/system/cpu/vulnerabilities/*")
    if not files:
        return {"mitigations": unreadable("not present: /sys/devices/system/cpu/vulnerabilities")}
    states: dict[str, JsonValue] = {file.rpartition("/")[2]: host.text_or(file, "unreadable") for file in files}
    return {"mitigations": measured(states, "/sys/devices/system/cpu/vulnerabilities")}


def read_memory_policy(host: Host) -> dict[str, Field]:
    """Huge pages, swap, overcommit and NUMA balancing."""
    thp = "/sys/kernel/mm/transparent_hugepage"
    return {
        "transparent_huge_pages": host.field(f"{thp}/enabled", chosen),
        "transparent_huge_pages_defrag": host.field(f"{thp}/defrag", chosen),
        "huge_pages": host.field("/proc/sys/vm/nr_hugepages", int),
        "swap_total_bytes": host.field("/proc/meminfo", lambda text: parse_meminfo(text)["SwapTotal"]),
        "swappiness": host.field("/proc/sys/vm/swappiness", int),
        "overcommit": host.field("/proc/sys/vm/overcommit_memory", int),
        "zone_reclaim": host.field("/proc/sys/vm/zone_reclaim_mode", int),
        "numa_balancing": host.field("/proc/sys/kernel/numa_balancing", int),
    }


def parse_meminfo(text: str) -> dict[str, int]:
    """/proc/meminfo in bytes."""
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        parts = rest.split()
        if parts and parts[0].isdigit():
            sizes[name] = int(parts[0]) * (1024 if parts[-1] == "kB" else 1)
    return sizes


def read_cpu_policy(host: Host) -> dict[str, Field]:
    """Frequency governor, limits, turbo, SMT, and the CPUs this process may use."""
    cpus = "/sys/devices/system/cpu"
    allowed = host.affinity()
    return {
        "governor": _per_cpu(host, "scaling_governor"),
        "energy_preference": _per_cpu(host, "energy_performance_preference"),
        "frequency_driver": _per_cpu(host, "scaling_driver"),
        "frequency_min_khz": _per_cpu(host, "scaling_min_freq"),
        "frequency_max_khz": _per_cpu(host, "scaling_max_freq"),
        "turbo": _turbo(host),
        "smt": host.field(f"{cpus}/smt/control"),
        "idle_driver": host.field(f"{cpus}/cpuidle/current_driver"),
        "cpus_online": host.field(f"{cpus}/online"),
        "cpus_isolated": host.field(f"{cpus}/isolated"),
        "affinity": measured(format_cpu_list(allowed), "sched_getaffinity"),
        "affinity_count": measured(len(allowed), "sched_getaffinity"),
    }


def _per_cpu(host: Host, name: str) -> Field:
    """One value where all CPUs agree, else each value with how many CPUs hold it."""
    pattern = f"/sys/devices/system/cpu/cpu[0-9]*/cpufreq/{name}"
    values = Counter(host.text_or(file, "unreadable") for file in host.names(pattern))
    if not values:
        return unreadable(f"not present: /sys/devices/system/cpu/cpu*/cpufreq/{name} (often so in a virtual machine)")
    if len(values) == 1:
        (only,) = values
        return measured(int(only) if only.isdigit() else only, pattern)
    return measured(dict(sorted(values.items())), pattern)


def _turbo(host: Host) -> Field:
    off, on = "/sys/devices/system/cpu/intel_pstate/no_turbo", "/sys/devices/system/cpu/cpufreq/boost"
    field = host.field(off, lambda text: int(text) == 0)
    return field if field.value is not None else host.field(on, lambda text: int(text) == 1)


def read_numa(host: Host) -> dict[str, Field]:
    """NUMA nodes with their CPUs, and the distances between them."""
    source = "/sys/devices/system/node"
    numbers = [name.rpartition("node")[2] for name in host.names(f"{source}/node[0-9]*")]
    nodes = [f"{source}/node{number}" for number in sorted(int(number) for number in numbers if number.isdigit())]
    if not nodes:
        return dict.fromkeys(("numa_nodes", "numa_cpus", "numa_distances"), unreadable(f"not present: {source}"))
    cpus: list[JsonValue] = [format_cpu_list(parse_cpu_list(host.text_or(f"{node}/cpulist"))) for node in nodes]
    distances: list[JsonValue] = [[int(d) for d in host.text_or(f"{node}/distance").split()] for node in nodes]
    return {
        "numa_nodes": measured(len(nodes), source),
        "numa_cpus": measured(cpus, f"{source}/node*/cpulist"),
        "numa_distances": measured(distances, f"{source}/node*/distance"),
    }


def read_drivers(host: Host) -> dict[str, Field]:
    """Accelerator drivers by the kernel, and the toolkits installed beside them."""
    nvidia = host.field("/proc/driver/nvidia/version", parse_nvidia_driver)
    if nvidia.value is None:
        nvidia = host.field("/sys/module/nvidia/version")
    fields = {"nvidia_driver": nvidia if nvidia.value else unreadable("no NVIDIA kernel driver is loaded")}
    if host.path("/sys/module/amdgpu").exists():
        fields["amdgpu_driver"] = host.field("/sys/module/amdgpu/version")
    toolkits: dict[str, JsonValue] = {}
    for file in host.names("/usr/local/cuda*/version.json"):
        match = re.search(r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([\d.]+)"', host.text_or(file))
        toolkits[file.split("/")[3]] = match.group(1) if match else "unreadable"
    fields["cuda_toolkits"] = measured(toolkits, "/usr/local/cuda*/version.json")
    return fields


def parse_nvidia_driver(text: str) -> str:
    """The driver version of /proc/driver/nvidia/version."""
    match = re.search(r"Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)", text)
    if match is None:
        raise ValueError("no driver version in it")
    return match.group(1)


def read_libraries(host: Host) -> dict[str, Field]:
    """Versions of the installed system libraries that frameworks pick up, by file name."""
    versions: dict[str, set[str]] = {}
    for folder, library in product(KNOWN["system"]["library_folders"], KNOWN["system"]["libraries"]):
        for file in host.names(f"/{folder}/{library}.so.*"):
            match = _VERSIONED.match(file.rpartition("/")[2])
            if match:
                versions.setdefault(match["name"], set()).add(match["version"])
    # libcudnn.so.9 is a link to libcudnn.so.9.1.0: the longer name says more, the shorter one adds nothing.
    longest: dict[str, JsonValue] = {
        name: [v for v in sorted(seen) if not any(other.startswith(f"{v}.") for other in seen)]
        for name, seen in sorted(versions.items())
    }
    return {"system_libraries": measured(longest, "library folders, by file name")}


@dataclass(frozen=True, slots=True)
class KnownEnvironment:
    """What may be recorded, and how many allowed names were withheld because they look like secrets."""

    variables: dict[str, JsonValue]
    withheld: int


def select_environment(environ: Mapping[str, str]) -> KnownEnvironment:
    """The variables that may be recorded; identities and the home folder are replaced by placeholders."""
    variables: dict[str, JsonValue] = {}
    withheld = 0
    home = environ.get("HOME", "")
    for name, value in sorted(environ.items()):
        if not is_allowed(name):
            continue
        if name_looks_secret(name) or value_looks_secret(value):
            withheld += 1
        else:
            variables[name] = _without_identity(value, home)
    return KnownEnvironment(variables, withheld)


def is_allowed(name: str) -> bool:
    """Whether a variable is on the allow-list."""
    return name in ALLOWED_NAMES or name.startswith(ALLOWED_PREFIXES)


def _without_identity(value: str, home: str) -> str:
    # A device named by UUID is the same configuration on every machine; a user's name is nobody's business.
    plain = _UUID.sub("<uuid>", value)
    return plain.replace(home, "~") if len(home) > 1 else plain


def read_environment(host: Host) -> dict[str, Field]:
    """Variables that change performance, by allow-list; what looks like a secret is never recorded."""
    known = select_environment(host.environ)
    return {
        "environment": measured(known.variables, "allow-listed environment variables"),
        "environment_withheld": measured(known.withheld, "allowed names that look like secrets", Tier.STATE),
    }


def read_load(host: Host) -> dict[str, Field]:
    """What the machine is doing right now; never part of an id."""
    state = Tier.STATE
    fields = {
        "load_1min": host.field("/proc/loadavg", lambda text: float(text.split()[0]), state),
        "uptime_s": host.field("/proc/uptime", lambda text: float(text.split()[0]), state),
        "memory_available_bytes": host.field("/proc/meminfo", lambda t: parse_meminfo(t)["MemAvailable"], state),
        "swap_used_bytes": host.field("/proc/meminfo", _swap_used, state),
    }
    for resource in ("cpu", "memory", "io"):
        fields[f"pressure_{resource}_10s"] = host.field(f"/proc/pressure/{resource}", parse_pressure, state)
    return fields


def _swap_used(text: str) -> int:
    sizes = parse_meminfo(text)
    return sizes["SwapTotal"] - sizes["SwapFree"]


def parse_pressure(text: str) -> float:
    """Percent of the last 10 s in which some task waited for the resource."""
    match = re.search(r"some avg10=([\d.]+)", text)
    if match is None:
        raise ValueError("no pressure figure in it")
    return float(match.group(1))


PROBES: tuple[Probe, ...] = (
    Probe(Layer.SYSTEM, read_release, ("os", "kernel", "architecture", "libc")),
    Probe(Layer.SYSTEM, read_mitigations, ("mitigations",)),
    Probe(Layer.SYSTEM, read_memory_policy, ("transparent_huge_pages", "swap_total_bytes")),
    Probe(Layer.SYSTEM, read_cpu_policy, ("governor", "turbo", "affinity", "affinity_count")),
    Probe(Layer.SYSTEM, read_numa, ("numa_nodes", "numa_cpus", "numa_distances")),
    Probe(Layer.SYSTEM, read_drivers, ("nvidia_driver", "cuda_toolkits")),
    Probe(Layer.SYSTEM, read_libraries, ("system_libraries",)),
    Probe(Layer.SYSTEM, read_environment, ("environment",)),
    Probe(Layer.SYSTEM, read_load, ("load_1min", "memory_available_bytes"), Tier.STATE),
)
