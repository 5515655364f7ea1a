"""The system layer on a fake server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lynxbench.executor.host import Host, run_probe
from lynxbench.executor.system import PROBES, parse_boot_options, parse_meminfo, parse_nvidia_driver, parse_pressure
from lynxbench.model.executor import Field, Status, Tier


def read(host: Host) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for probe in PROBES:
        fields |= run_probe(probe, host)
    return fields


def test_reads_a_server(make_host: Callable[..., Host]) -> None:
    fields = read(make_host(environ={"OMP_NUM_THREADS": "4", "VLLM_API_KEY": "k"}, affinity={0, 1, 3}))
    values = {name: field.value for name, field in fields.items()}
    assert values["os"] == "Ubuntu 22.04.4 LTS"
    assert values["kernel"] == "5.15.0-105-generic"
    assert values["boot_options"] == {"isolcpus": "2-3", "mitigations": "off", "nosmt": True}
    assert values["mitigations"] == {"meltdown": "Mitigation: PTI"}
    assert values["transparent_huge_pages"] == "madvise"
    assert values["swap_total_bytes"] == 8388604 * 1024
    assert values["governor"] == {"performance": 3, "powersave": 1}
    assert values["frequency_max_khz"] == 3800000
    assert values["turbo"] is False
    assert values["affinity"] == "0-1,3"
    assert values["numa_distances"] == [[10, 21], [21, 10]]
    assert values["numa_cpus"] == ["0-1", "2-3"]
    assert values["nvidia_driver"] == "535.161.08"
    assert values["cuda_toolkits"] == {"cuda-12.2": "12.2.2"}
    assert values["system_libraries"] == {"libcuda": ["535.161.08"], "libcudnn": ["9.1.0"]}
    assert values["environment"] == {"OMP_NUM_THREADS": "4"}
    assert values["environment_withheld"] == 1
    assert values["load_1min"] == 1.5
    assert values["swap_used_bytes"] == 4096


def test_volatile_readings_are_state(make_host: Callable[..., Host]) -> None:
    fields = read(make_host())
    volatile = {"load_1min", "uptime_s", "memory_available_bytes", "swap_used_bytes", "pressure_cpu_10s"}
    assert {name for name in volatile if fields[name].tier is not Tier.STATE} == set()


def test_an_empty_machine_has_reasons_everywhere(make_host: Callable[..., Host]) -> None:
    fields = read(make_host(files={}))
    silent = {name for name, field in fields.items() if field.status is Status.UNREADABLE and not field.source}
    assert silent == set()
    assert fields["governor"].status is Status.UNREADABLE
    assert fields["numa_nodes"].source == "not present: /sys/devices/system/node"
    assert fields["nvidia_driver"].source == "no NVIDIA kernel driver is loaded"


def test_boot_options_leave_identities_out() -> None:
    assert parse_boot_options("root=UUID=abc console=ttyS0 nohz_full=1-3 -- --token=x mitigations=off") == {
        "nohz_full": "1-3"
    }


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  450.80.02  Wed Sep", "450.80.02"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65  Release", "580.65"),
    ],
)
def test_parse_nvidia_driver(text: str, version: str) -> None:
    assert parse_nvidia_driver(text) == version


def test_parse_meminfo_and_pressure() -> None:
    assert parse_meminfo("MemTotal: 10 kB\nHugePages_Total: 3\nodd\n") == {"MemTotal": 10240, "HugePages_Total": 3}
    assert parse_pressure("some avg10=2.50 avg60=0 total=1\nfull avg10=0") == 2.5
    with pytest.raises(ValueError, match="no pressure"):
        parse_pressure("")
