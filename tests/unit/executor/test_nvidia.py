"""NVML: a healthy node, single failures, a missing library, and no machine at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lynxbench.executor.host import Host
from lynxbench.executor.nvidia import capture_nvidia, read_links_now
from lynxbench.model.executor import Executor, Status, Tier, difference
from lynxbench.model.layers import Layer

MakeHost = Callable[..., Host]


def test_reads_an_eight_gpu_node(make_host: MakeHost, fake_nvml: Callable[..., Any]) -> None:
    nvml = fake_nvml()
    layers = capture_nvidia(make_host(), lambda: nvml)
    assert nvml.open == 0
    system = {name: field.value for name, field in layers[Layer.SYSTEM].items()}
    assert system == {"nvidia_driver": "535.161.08", "nvidia_driver_cuda": "12.2"}
    fields = layers[Layer.ACCELERATOR]
    values = {name: field.value for name, field in fields.items()}
    assert values["gpu_count"] == 8
    assert values["gpu_name"] == ["NVIDIA H100 80GB HBM3"] * 8
    assert values["gpu_capability"] == ["9.0"] * 8
    assert values["gpu_power_limit_enforced_w"] == [700, 700, 700, 650, 700, 700, 700, 700]
    assert values["gpu_cpu_affinity"] == ["0-1"] * 4 + ["2-3"] * 4
    assert values["gpu_memory_node"] == ["0"] * 4 + ["1"] * 4
    assert values["gpu_nvlink_active"] == [18] * 8
    assert values["gpu_nvlink_version"] == [4] * 8
    topology = values["gpu_topology"]
    assert isinstance(topology, list)
    assert topology[0] == "X" + " NV18" * 7
    assert values["gpu_clock_events"][3] == ["software power cap", "software thermal"]  # type: ignore[index]


def test_identities_are_pseudonymised_and_volatile_readings_are_state(
    make_host: MakeHost, fake_nvml: Callable[..., Any]
) -> None:
    fields = capture_nvidia(make_host(), fake_nvml)[Layer.ACCELERATOR]
    assert "GPU-0000" not in str(fields)
    assert "165372405" not in str(fields)
    assert len(set(fields["gpu_uuid"].value)) == 8  # type: ignore[arg-type]
    assert {fields[name].tier for name in ("gpu_uuid", "gpu_serial", "gpu_bus")} == {Tier.INSTANCE}
    now = [
        name for name in fields if "_now" in name or name in ("gpu_temperature_c", "gpu_clock_events", "gpu_processes")
    ]
    assert {fields[name].tier for name in now} == {Tier.STATE}


def test_what_a_device_does_not_support_is_unreadable_not_fatal(
    make_host: MakeHost, fake_nvml: Callable[..., Any]
) -> None:
    def ecc(gpu: int) -> list[int]:
        return fake_nvml.unsupported() if gpu == 2 else [1, 1]

    nvml = fake_nvml(nvmlDeviceGetMigMode=fake_nvml.unsupported, nvmlDeviceGetEccMode=ecc)
    fields = capture_nvidia(make_host(), lambda: nvml)[Layer.ACCELERATOR]
    assert fields["gpu_mig"].status is Status.UNREADABLE
    assert fields["gpu_mig"].source == "NVML: Not Supported"
    assert fields["gpu_ecc"].value == [True, True, None, True, True, True, True, True]
    assert fields["gpu_ecc"].source == "NVML (gpu 2: NVML: Not Supported)"


def test_every_function_failing_still_gives_a_capture(make_host: MakeHost, fake_nvml: Callable[..., Any]) -> None:
    nvml = fake_nvml(count=2)
    keep = ("nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex")
    nvml.answers = {name: nvml.answers[name] for name in keep}
    layers = capture_nvidia(make_host(), lambda: nvml)
    fields = layers[Layer.ACCELERATOR]
    assert fields["gpu_count"].value == 2
    assert fields["gpu_name"].status is Status.UNREADABLE
    assert fields["gpu_topology"].value == ["X ?", "? X"]
    assert fields["gpu_nvlink_active"].value == [0, 0]
    assert layers[Layer.SYSTEM]["nvidia_driver"].status is Status.UNREADABLE


def test_nvlink_bridges_and_pcie_levels(make_host: MakeHost, fake_nvml: Callable[..., Any]) -> None:
    def state(gpu: int, link: int) -> int:
        if link >= 4:
            fake_nvml.unsupported()
        return int(gpu < 2)

    answers = fake_nvml().answers
    nvml = fake_nvml(
        count=4,
        nvmlDeviceGetNvLinkState=state,
        nvmlDeviceGetNvLinkRemoteDeviceType=lambda g, link: 0,
        nvmlDeviceGetNvLinkRemotePciInfo=lambda g, link: answers["nvmlDeviceGetPciInfo"](1 - g),
        nvmlDeviceGetTopologyCommonAncestor=lambda g, other: 10 if {g, other} == {2, 3} else 50,
    )
    fields = capture_nvidia(make_host(), lambda: nvml)[Layer.ACCELERATOR]
    assert fields["gpu_nvlink_active"].value == [4, 4, 0, 0]
    assert fields["gpu_topology"].value == ["X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X PIX", "SYS SYS PIX X"]


def test_mig_instances_are_counted(make_host: MakeHost, fake_nvml: Callable[..., Any]) -> None:
    nvml = fake_nvml(
        count=1,
        nvmlDeviceGetMigMode=lambda g: [1, 1],
        nvmlDeviceGetMaxMigDeviceCount=lambda g: 7,
        nvmlDeviceGetMigDeviceHandleByIndex=lambda g, i: i if i < 3 else fake_nvml.unsupported(),
    )
    fields = capture_nvidia(make_host(), lambda: nvml)[Layer.ACCELERATOR]
    assert fields["gpu_mig"].value == [True]
    assert fields["gpu_mig_instances"].value == [3]


def raise_(problem: Exception) -> Any:
    raise problem


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (OSError("libnvidia-ml.so.1: cannot open"), "libnvidia-ml.so.1 does not load"),
        (ImportError("No module named pynvml"), "the Python package nvidia-ml-py is not installed"),
        (RuntimeError("odd"), "NVML: RuntimeError: odd"),
    ],
)
def test_absence_is_zero_only_where_no_hardware_shows(make_host: MakeHost, problem: Exception, reason: str) -> None:
    bare = capture_nvidia(make_host({}), lambda: raise_(problem))[Layer.ACCELERATOR]["gpu_count"]
    assert bare.value == 0
    assert reason in bare.source
    there = capture_nvidia(make_host(), lambda: raise_(problem))[Layer.ACCELERATOR]["gpu_count"]
    assert there.status is Status.UNREADABLE
    assert reason in there.source


def test_two_nodes_differ_by_the_one_power_limit(make_host: MakeHost, fake_nvml: Callable[..., Any]) -> None:
    host = make_host()
    capped, healthy = fake_nvml(), fake_nvml(nvmlDeviceGetEnforcedPowerLimit=lambda g: 700000)
    one, two = (Executor(layers=capture_nvidia(host, lambda n=n: n)) for n in (capped, healthy))
    assert [change.name for change in difference(one, two, [Tier.CONFIGURATION])] == ["gpu_power_limit_enforced_w"]


def test_links_are_read_again_after_warm_up(fake_nvml: Callable[..., Any]) -> None:
    fields = read_links_now(fake_nvml)
    assert fields["gpu_pcie_width_warm"].value == [16, 16, 16, 16, 16, 8, 16, 16]
    failed = read_links_now(lambda: raise_(OSError("gone")))
    assert failed["gpu_pcie_generation_warm"].status is Status.UNREADABLE
