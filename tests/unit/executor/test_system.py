"""The system layer on a fake server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lynxbench.executor.host import Host, run_probe
from lynxbench.executor.system import (
    PROBES,
    is_allowed,
    parse_boot_options,
    parse_meminfo,
    parse_nvidia_driver,
    parse_pressure,
    select_environment,
)
from lynxbench.model.executor import Field, Status, Tier
from lynxbench.model.secrets import name_looks_secret, value_looks_secret


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


# --- the allow-list of the environment and the redaction rule ---


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMP_NUM_THREADS", "8"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:512,garbage_collection_threshold:0.8"),
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
        ("KMP_AFFINITY", "granularity=fine,compact,1,0"),
        ("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("NCCL_SOCKET_IFNAME", "eth0"),
        ("VLLM_ATTENTION_BACKEND", "FLASH_ATTN_VLLM_V1_AUTOTUNED"),
        ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
        ("LD_LIBRARY_PATH", "/usr/local/cuda-12.4/lib64:/usr/local/nvidia/lib64"),
    ],
)
def test_settings_are_recorded(name: str, value: str) -> None:
    assert select_environment({name: value}).variables == {name: value}


@pytest.mark.parametrize(
    "name",
    ["VLLM_API_KEY", "TORCH_HUB_TOKEN", "NVIDIA_API_KEY", "CUDA_PASSWORD", "NCCL_SECRET", "HF_TOKEN", "LYNXBENCH_SALT",
     "VLLM_AUTH", "ORT_CREDENTIALS", "TF_ACCESS_KEYS", "vllm_pwd"],
)  # fmt: skip
def test_secret_names_are_never_recorded(name: str) -> None:
    assert name_looks_secret(name)
    assert name not in select_environment({name: "1"}).variables


@pytest.mark.parametrize(
    "value",
    ["https://me:pa55@hub.example/x", "http://token@host",
     "hf_abcdefghIJKL", "sk-proj-abcdef123456", "ghp_0123456789abcdef",
     "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.x", "-----BEGIN PRIVATE KEY-----", "Bearer abc",
     "opt=1,password=hunter2", "x?sig=abc", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "aB3dE5gH7jK9mN1pQ3sT5vW7"],
)  # fmt: skip
def test_secret_values_are_never_recorded(value: str) -> None:
    assert value_looks_secret(value)
    known = select_environment({"CUDA_SETTING": value})
    assert known.variables == {}
    assert known.withheld == 1


def test_unlisted_names_are_not_even_counted() -> None:
    known = select_environment({"EDITOR": "vi", "AWS_SECRET_ACCESS_KEY": "x", "PATH": "/bin"})
    assert known.variables == {}
    assert known.withheld == 0
    assert not is_allowed("HOME")


def test_identities_become_placeholders() -> None:
    environ = {
        "HOME": "/home/ada",
        "LD_LIBRARY_PATH": "/home/ada/lib",
        "CUDA_VISIBLE_DEVICES": "GPU-d61cda26-976e-154f-39df-a689da9c56f7",
    }
    assert select_environment(environ).variables == {
        "CUDA_VISIBLE_DEVICES": "GPU-<uuid>",
        "LD_LIBRARY_PATH": "~/lib",
    }
