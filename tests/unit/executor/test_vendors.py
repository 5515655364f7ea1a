"""Probes of other makers' devices, on stand-ins of their modules; what is not offered is a reason and never 0."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lynxbench.executor.host import Host
from lynxbench.executor.native_precisions import amd_precision
from lynxbench.executor.torch_devices import describe_other_devices
from lynxbench.executor.vendors import AMD, TPU, UNTESTED, capture_vendors, load_module
from lynxbench.model.executor import Field, Status, Tier
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native
from maker_modules import AmdSmi, AmdSmiLibraryException, TpuMonitoring


def captured(root: Path, module: Any, probe: Any = AMD) -> dict[str, Field]:
    layers = capture_vendors(Host(root=root, environ={}), [replace(probe, load=lambda: module)])
    return {**layers[Layer.ACCELERATOR], **layers[Layer.SYSTEM]}


def test_amd_devices_are_read_with_their_units_and_the_word_that_nobody_tried_it(tmp_path: Path) -> None:
    smi = AmdSmi()
    fields = captured(tmp_path, smi)
    assert fields["amd_gpu_count"].value == 2
    assert fields["amd_gpu_name"].value == ["AMD Instinct MI300X"] * 2
    assert fields["amd_gpu_arch"].value == ["gfx942"] * 2
    assert fields["amd_gpu_memory_bytes"].value == [196592 * 2**20] * 2
    assert fields["amd_gpu_power_cap_w"].value == [750.0, 750.0]
    assert fields["amd_driver"].value == ["6.10.5"]
    assert fields["amd_gpu_probe"].value == UNTESTED
    assert "untested on the real chip" in UNTESTED
    assert "uuid-handle0" not in str(fields["amd_gpu_uuid"].value), "identities are pseudonyms"
    assert smi.open == 0, "what was opened is shut"


@pytest.mark.parametrize(
    "answer", [{"power_cap": "N/A", "default_power_cap": "N/A"}, AmdSmiLibraryException("NOT_SUPPORTED"), {}, None]
)
def test_what_is_not_offered_is_absent_with_its_reason(tmp_path: Path, answer: Any) -> None:
    field = captured(tmp_path, AmdSmi(cap=answer))["amd_gpu_power_cap_w"]
    assert field.status is Status.UNREADABLE
    assert field.value is None
    assert field.source


def test_a_library_that_is_not_there_is_no_news(tmp_path: Path) -> None:
    with pytest.raises(ImportError):
        load_module("no_such_maker_module")
    absent = replace(AMD, load=lambda: load_module("no_such_maker_module"))
    assert capture_vendors(Host(root=tmp_path, environ={}), [absent]) == {Layer.ACCELERATOR: {}, Layer.SYSTEM: {}}
    assert captured(tmp_path, AmdSmi(count=0)) == {}


def test_a_library_that_does_not_open_says_why(tmp_path: Path) -> None:
    fields = captured(tmp_path, AmdSmi(amdsmi_init=AmdSmiLibraryException("driver not loaded")))
    assert list(fields) == ["amd_gpu_count"]
    assert "driver not loaded" in str(fields["amd_gpu_count"].source)


def test_tpu_chips_are_read_from_lists_of_texts(tmp_path: Path) -> None:
    fields = captured(tmp_path, TpuMonitoring(), TPU)
    assert fields["tpu_count"].value == 2
    assert fields["tpu_memory_bytes"].value == [34088157184] * 2
    assert fields["tpu_duty_cycle_percent"].value == [93.5, 0.0]
    short = captured(tmp_path, TpuMonitoring(duty_cycle_pct=["5.0"]), TPU)["tpu_duty_cycle_percent"]
    assert short.value == [5.0, None]
    assert "no value of this chip" in str(short.source)


def test_a_discrete_intel_gpu_is_seen_and_a_built_in_one_is_not(tmp_path: Path) -> None:
    for card, energy in (("card0", False), ("card1", True)):
        device = tmp_path / "sys/class/drm" / card / "device"
        (device / "hwmon/hwmon3").mkdir(parents=True)
        (device / "vendor").write_text("0x8086\n")
        (device / "device").write_text("0xe20b\n")
        if energy:
            (device / "hwmon/hwmon3/energy1_input").write_text("5000000\n")
            (device / "hwmon/hwmon3/power1_max").write_text("190000000\n")
    layers = capture_vendors(Host(root=tmp_path, environ={}), [])
    fields = layers[Layer.ACCELERATOR]
    assert fields["intel_gpu_count"].value == 1
    assert fields["intel_gpu_power_limit_w"].value == [190.0]
    assert all(field.tier is Tier.STATE for field in fields.values()), "no machine gets another id for it"


def test_torch_devices_that_are_not_in_use_give_no_field() -> None:
    assert describe_other_devices(SimpleNamespace()) == {}
    idle = SimpleNamespace(xpu=SimpleNamespace(is_initialized=lambda: False))
    assert describe_other_devices(idle) == {}


def test_xpu_in_use_is_described_and_what_an_older_torch_lacks_says_so() -> None:
    properties = SimpleNamespace(name="Intel Arc B580", total_memory=12 << 30, has_fp16=True, driver_version="1.6")
    xpu = SimpleNamespace(
        is_initialized=lambda: True, device_count=lambda: 1, get_device_properties=lambda index: properties
    )
    fields = describe_other_devices(SimpleNamespace(xpu=xpu))
    assert fields["xpu_name"].value == ["Intel Arc B580"]
    assert fields["xpu_gpu_eu_count"].status is Status.UNREADABLE
    assert fields["xpu_probe"].value == UNTESTED


def test_mps_and_xla_are_described_where_they_work() -> None:
    mps = SimpleNamespace(driver_allocated_memory=lambda: 4096, recommended_max_memory=lambda: 17 << 30)
    torch = SimpleNamespace(backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: True)), mps=mps)
    assert describe_other_devices(torch)["mps_recommended_memory_bytes"].value == 17 << 30

    def broken() -> str:
        raise RuntimeError("no device")

    xla = SimpleNamespace(
        __version__="2.8.0", runtime=SimpleNamespace(device_type=broken, global_runtime_device_count=lambda: 4)
    )
    fields = describe_other_devices(SimpleNamespace(), xla)
    assert fields["xla_devices"].value == 4
    assert fields["xla_device_type"].status is Status.UNREADABLE
    assert "no device" in str(fields["xla_device_type"].source)


@pytest.mark.parametrize(
    ("arch", "precision", "native"),
    [
        ("gfx942:sramecc+:xnack-", "fp8", Native.NATIVE),
        ("gfx942", "tf32", Native.NATIVE),
        ("gfx950", "tf32", Native.UNKNOWN),
        ("gfx90a", "fp8", Native.UNKNOWN),
        ("gfx90a", "fp64", Native.NATIVE),
        ("gfx1100", "fp32", Native.NATIVE),
        ("gfx9999", "fp16", Native.UNKNOWN),
    ],
)
def test_formats_of_amd_devices_are_said_by_documents_alone(arch: str, precision: str, native: Native) -> None:
    verdict, why = amd_precision(arch, precision)
    assert verdict is native
    assert "untested on the real chip" in why or "not in the table" in why
