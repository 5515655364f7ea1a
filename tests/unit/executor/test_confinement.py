"""Control groups of both versions, containers, virtual machines, identity, ranks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lynxbench.executor.capture import capture_host
from lynxbench.executor.confinement import (
    PEERS_VARIABLE,
    read_container,
    read_cpu_limit,
    read_identity,
    read_memory_limit,
    read_ranks,
    read_resource_limits,
)
from lynxbench.executor.host import Host
from lynxbench.model.executor import Status, Tier
from lynxbench.model.layers import Layer

MakeHost = Callable[..., Host]


def test_version_two_takes_the_tightest_limit_on_the_way_up(make_host: MakeHost) -> None:
    host = make_host()
    cpu = read_cpu_limit(host)
    assert cpu["cgroup_version"].value == 2
    assert cpu["cgroup_cpu_limit"].value == 1.5
    assert cpu["cgroup_throttled_periods"].value == 7
    assert cpu["cgroup_throttled_periods"].tier is Tier.STATE
    assert read_memory_limit(host)["cgroup_memory_limit_bytes"].value == 64 << 30


def test_version_one_with_joined_controllers(make_host: MakeHost) -> None:
    host = make_host({
        "proc/self/cgroup": "5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n3:cpuset:/docker/ab\n0::/\n",
        "sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_quota_us": "250000\n",
        "sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/cpuset/cpuset.cpus": "0-3\n",
    })  # fmt: skip
    cpu = read_cpu_limit(host)
    assert cpu["cgroup_version"].value == 1
    assert cpu["cgroup_cpu_limit"].value == 2.5
    assert cpu["cgroup_cpus"].value == "0-3"
    assert read_memory_limit(host)["cgroup_memory_limit_bytes"].value == "unlimited"


def test_unlimited_and_invisible_groups(make_host: MakeHost) -> None:
    free = make_host({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "cpu\n"})
    assert read_cpu_limit(free)["cgroup_cpu_limit"].value == "unlimited"
    assert read_memory_limit(free)["cgroup_memory_limit_bytes"].value == "unlimited"
    none = make_host({})
    assert read_cpu_limit(none)["cgroup_cpu_limit"].status is Status.UNREADABLE
    assert read_memory_limit(none)["cgroup_memory_limit_bytes"].status is Status.UNREADABLE


@pytest.mark.parametrize(
    ("files", "environ", "name"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({"proc/1/cgroup": "0::/kubepods.slice/x\n"}, {}, "kubernetes"),
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({}, {}, "none seen"),
    ],
)
def test_container(make_host: MakeHost, files: dict[str, str], environ: dict[str, str], name: str) -> None:
    assert read_container(make_host(files, environ))["container"].value == name


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"sys/class/dmi/id/sys_vendor": "QEMU"}, "kvm"),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "m7g.metal"}, "none seen"),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "p5.48xlarge"}, "aws nitro"),
        ({"sys/class/dmi/id/sys_vendor": "Dell Inc."}, "none seen"),
        ({"sys/hypervisor/type": "xen"}, "xen"),
        ({"proc/cpuinfo": "processor : 0\nflags : fpu hypervisor\n"}, "unnamed hypervisor"),
        ({}, None),
    ],
)
def test_virtual_machine(make_host: MakeHost, files: dict[str, str], name: str | None) -> None:
    assert read_container(make_host(files))["virtual_machine"].value == name


def test_identity_is_pseudonymised(make_host: MakeHost) -> None:
    fields = read_identity(make_host())
    assert {field.tier for field in fields.values()} == {Tier.INSTANCE}
    assert "node-17" not in str(fields)
    assert "b3c1a7f0" not in str(fields)


def test_resource_limits_are_numbers_or_unlimited(make_host: MakeHost) -> None:
    for field in read_resource_limits(make_host({})).values():
        assert field.value == "unlimited" or (isinstance(field.value, int) and field.value >= 0)


@pytest.mark.parametrize("environ", [{}, {"WORLD_SIZE": "1"}, {"WORLD_SIZE": "many"}])
def test_a_process_that_is_alone_has_no_ranks(environ: dict[str, str], tmp_path: Path) -> None:
    assert read_ranks(Host(root=tmp_path, environ=environ)) == {}


def test_the_world_and_the_other_machines_are_fields(tmp_path: Path) -> None:
    environ = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", PEERS_VARIABLE: json.dumps(["bb", "aa"])}
    found = read_ranks(Host(root=tmp_path, environ=environ))
    assert {name: field.value for name, field in found.items()} == {
        "world_size": 16,
        "local_world_size": 8,
        "peer_executors": ["aa", "bb"],
    }
    assert read_ranks(Host(root=tmp_path, environ={"WORLD_SIZE": "2"}))["local_world_size"].status is Status.UNREADABLE


def test_another_world_is_another_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = capture_host()
    monkeypatch.setenv("WORLD_SIZE", "2")
    ranked = capture_host()
    assert ranked.get(Layer.SYSTEM, "world_size") == 2
    assert ranked.executor_id != alone.executor_id
