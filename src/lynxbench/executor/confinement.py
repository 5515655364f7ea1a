"""What confines the process: control groups, limits, container, virtual machine, its rank; and who the machine is."""

import json
import resource
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from lynxbench.executor.host import KNOWN, Host, Probe, format_cpu_list, parse_cpu_list
from lynxbench.model.executor import Field, Tier, measured, unreadable
from lynxbench.model.layers import Layer

NO_LIMIT_BYTES = 1 << 60
"""cgroup v1 writes its page-rounded largest integer for "no limit"; no machine has an exbibyte."""
PEERS_VARIABLE = "LYNXBENCH_PEER_EXECUTORS"
"""Executor ids of the other ranks' machines, as a JSON list: their difference is a difference of the whole."""


@dataclass(frozen=True, slots=True)
class GroupPath:
    """A control group of this process: version 1 or 2, and the folders from it up to its mount."""

    version: int
    folders: tuple[str, ...]


def find_groups(host: Host, controller: str) -> GroupPath | None:
    """Where a controller's files for this process lie, from the innermost group up to the mount."""
    version_two: str | None = None
    for line in host.text_or("/proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if controller in names.split(","):
            mount = next((m for m in (names, controller) if host.path(f"/sys/fs/cgroup/{m}").is_dir()), controller)
            return GroupPath(1, tuple(_upwards(f"/sys/fs/cgroup/{mount}", path)))
        if number == "0" and not names:
            version_two = path
    if version_two is None or not host.path("/sys/fs/cgroup/cgroup.controllers").exists():
        return None
    return GroupPath(2, tuple(_upwards("/sys/fs/cgroup", version_two)))


def _upwards(mount: str, path: str) -> Iterator[str]:
    parts = [part for part in path.split("/") if part and part != ".."]
    for depth in range(len(parts), -1, -1):
        yield "/".join([mount, *parts[:depth]])


def read_cpu_limit(host: Host) -> dict[str, Field]:
    """CPUs' worth of time the group may use (the tightest on the way up), its weight and its CPU set."""
    group = find_groups(host, "cpu")
    if group is None:
        return {"cgroup_cpu_limit": unreadable("no cpu control group of this process is visible")}
    limits = [limit for folder in group.folders if (limit := _cpu_limit(host, group.version, folder)) is not None]
    source = f"cgroup v{group.version} " + ("cpu.max" if group.version == 2 else "cpu.cfs_quota_us / cpu.cfs_period_us")
    fields = {
        "cgroup_version": measured(group.version, "/proc/self/cgroup"),
        "cgroup_cpu_limit": measured(min(limits) if limits else "unlimited", source),
        "cgroup_throttled_periods": _throttled(host, group),
    }
    sets = find_groups(host, "cpuset")
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    for folder in sets.folders if sets else ():
        text = next((t for name in names if (t := host.text_or(f"{folder}/{name}"))), "")
        if text:
            fields["cgroup_cpus"] = measured(format_cpu_list(parse_cpu_list(text)), "cgroup cpuset")
            break
    return fields


def _cpu_limit(host: Host, version: int, folder: str) -> float | None:
    if version == 2:
        quota, _, period = host.text_or(f"{folder}/cpu.max", "max 100000").partition(" ")
    else:
        quota = host.text_or(f"{folder}/cpu.cfs_quota_us", "-1")
        period = host.text_or(f"{folder}/cpu.cfs_period_us", "100000")
    return int(quota) / int(period or 100000) if quota.isdigit() else None


def _throttled(host: Host, group: GroupPath) -> Field:
    for folder in group.folders:
        for line in host.text_or(f"{folder}/cpu.stat").splitlines():
            name, _, count = line.partition(" ")
            if name == "nr_throttled":
                return measured(int(count), f"cgroup v{group.version} cpu.stat", Tier.STATE)
    return unreadable("no cpu.stat in the group", Tier.STATE)


def read_memory_limit(host: Host) -> dict[str, Field]:
    """Memory the group may use: the tightest limit on the way up."""
    group = find_groups(host, "memory")
    if group is None:
        return {"cgroup_memory_limit_bytes": unreadable("no memory control group of this process is visible")}
    names = ("memory.max", "memory.high") if group.version == 2 else ("memory.limit_in_bytes",)
    values = [host.text_or(f"{folder}/{name}") for folder in group.folders for name in names]
    limits = [int(value) for value in values if value.isdigit() and int(value) < NO_LIMIT_BYTES]
    if not any(values) and group.version == 1:
        return {"cgroup_memory_limit_bytes": unreadable("not present: memory.limit_in_bytes")}
    source = f"cgroup v{group.version} {' and '.join(names)}"
    return {"cgroup_memory_limit_bytes": measured(min(limits) if limits else "unlimited", source)}


def read_resource_limits(_host: Host) -> dict[str, Field]:
    """Soft limits that change behaviour: pinned memory, open files, stack, address space."""
    wanted = {
        "ulimit_memlock": resource.RLIMIT_MEMLOCK,
        "ulimit_open_files": resource.RLIMIT_NOFILE,
        "ulimit_stack": resource.RLIMIT_STACK,
        "ulimit_address_space": resource.RLIMIT_AS,
    }
    fields: dict[str, Field] = {}
    for name, number in wanted.items():
        soft, _hard = resource.getrlimit(number)
        unlimited = soft == resource.RLIM_INFINITY or soft >= NO_LIMIT_BYTES
        fields[name] = measured("unlimited" if unlimited else soft, "getrlimit")
    return fields


def read_container(host: Host) -> dict[str, Field]:
    """Container and virtual machine, as far as they show from inside."""
    return {"container": _container(host), "virtual_machine": _virtual_machine(host)}


def _container(host: Host) -> Field:
    if host.environ.get("KUBERNETES_SERVICE_HOST"):
        return measured("kubernetes", "KUBERNETES_SERVICE_HOST")
    for file, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if host.path(file).exists():
            return measured(name, file)
    groups = host.text_or("/proc/1/cgroup") + host.text_or("/proc/self/cgroup")
    for mark, name in KNOWN["confinement"]["containers"]:
        if mark in groups:
            return measured(name, "/proc/1/cgroup")
    return measured("none seen", "/.dockerenv, /run/.containerenv, /proc/1/cgroup")


def _virtual_machine(host: Host) -> Field:
    dmi = " ".join(host.text_or(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name", "bios_vendor"))
    hypervisor = host.text_or("/sys/hypervisor/type")
    if hypervisor:
        return measured(hypervisor, "/sys/hypervisor/type")
    flagged = any(
        line.startswith("flags") and " hypervisor" in line for line in host.text_or("/proc/cpuinfo").splitlines()
    )
    metal = ".metal" in dmi
    for mark, name in KNOWN["confinement"]["hypervisors"]:
        if mark in dmi.lower() and not metal and (flagged or mark != "google"):
            return measured(name, "/sys/class/dmi/id")
    if flagged:
        return measured("unnamed hypervisor", "/proc/cpuinfo flags")
    if not dmi.strip():
        return unreadable("neither DMI nor a hypervisor flag is visible")
    return measured("none seen", "/sys/class/dmi/id, /proc/cpuinfo")


def read_identity(host: Host) -> dict[str, Field]:
    """This very machine, pseudonymised."""
    instance = Tier.INSTANCE
    name = host.text_or("/proc/sys/kernel/hostname") or socket.gethostname()
    machine = host.text_or("/etc/machine-id")
    return {
        "hostname": measured(host.pseudonym("hostname", name), "hostname, pseudonymised", instance),
        "machine_id": measured(host.pseudonym("machine-id", machine), "/etc/machine-id, pseudonymised", instance)
        if machine
        else unreadable("not present: /etc/machine-id", instance),
    }


def read_ranks(host: Host) -> dict[str, Field]:
    """World size and ranks a node, by the variables torchrun and its kin set; nothing for a process that is alone."""
    world, local = (host.environ.get(name, "") for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if not world.isdigit() or int(world) < 2:
        return {}
    fields = {
        "world_size": measured(int(world), "environment WORLD_SIZE"),
        "local_world_size": measured(int(local), "environment LOCAL_WORLD_SIZE")
        if local.isdigit()
        else unreadable("not present: LOCAL_WORLD_SIZE"),
    }
    peers = host.environ.get(PEERS_VARIABLE)
    if peers:
        fields["peer_executors"] = measured(sorted(json.loads(peers)), "captured on every rank's node")
    return fields


PROBES: tuple[Probe, ...] = (
    Probe(Layer.SYSTEM, read_cpu_limit, ("cgroup_cpu_limit",)),
    Probe(Layer.SYSTEM, read_memory_limit, ("cgroup_memory_limit_bytes",)),
    Probe(Layer.SYSTEM, read_resource_limits, ("ulimit_memlock", "ulimit_open_files", "ulimit_stack")),
    Probe(Layer.SYSTEM, read_container, ("container", "virtual_machine")),
    Probe(Layer.SYSTEM, read_identity, ("hostname", "machine_id"), Tier.INSTANCE),
    Probe(Layer.SYSTEM, read_ranks, ("world_size",)),
)
