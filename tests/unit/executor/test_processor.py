"""CPU, caches, memory modules and the PCI bus on fake trees."""

from __future__ import annotations

import struct
from collections.abc import Callable

from lynxbench.executor.host import Host, run_probe
from lynxbench.executor.processor import PROBES, describe_cpu, parse_memory_speeds
from lynxbench.model.executor import Field, Status, Tier

ARM = (
    "processor\t: 0\nFeatures\t: fp asimd asimdhp asimddp bf16 i8mm sve\n"
    "CPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 1\n"
)


def read(host: Host) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for probe in PROBES:
        fields |= run_probe(probe, host)
    return fields


def memory_device(size: int, rated: int, configured: int, extended: int = 0) -> bytes:
    """One SMBIOS type 17 structure."""
    body = bytearray(0x5C)
    body[0], body[1] = 17, len(body)
    struct.pack_into("<H", body, 0x0C, size)
    struct.pack_into("<H", body, 0x15, rated)
    struct.pack_into("<H", body, 0x20, configured)
    struct.pack_into("<I", body, 0x58, extended)
    return bytes(body) + b"DIMM A1\x00Samsung\x00\x00"


def test_reads_a_server(make_host: Callable[..., Host]) -> None:
    values = {name: field.value for name, field in read(make_host()).items()}
    assert values["cpu_model"] == "Intel(R) Xeon(R) Platinum 8480C"
    assert values["cpu_stepping"] == "family 6 model 143 stepping 8"
    assert values["cpu_microcode"] == "0x2b000590"
    flags = values["cpu_flags"]
    assert isinstance(flags, list)
    assert "amx_bf16" in flags
    assert "dts" not in flags
    assert (values["cpu_sockets"], values["cpu_cores"], values["cpu_threads"]) == (2, 4, 4)
    assert values["cpu_caches"] == {"L1d": "48K x 4", "L3": "107520K x 2"}
    assert values["memory_total_gib"] == 2016
    assert values["machine_product"] == "SYS-821GE"
    assert values["pci_accelerators"] == ["NVIDIA 0x2330 up to 32.0 GT/s PCIe x16"]
    assert values["pci_accelerator_links_now"] == ["2.5 GT/s PCIe x8"]
    assert values["temperatures_c"] == {"coretemp Package id 0": 54.0}


def test_volatile_readings_are_state(make_host: Callable[..., Host]) -> None:
    fields = read(make_host())
    volatile = ("cpu_clock_now_mhz", "memory_total_bytes", "pci_accelerator_links_now", "temperatures_c")
    assert {fields[name].tier for name in volatile} == {Tier.STATE}


def test_arm_is_named_by_implementer_and_part(make_host: Callable[..., Host]) -> None:
    fields = read(make_host({"proc/cpuinfo": ARM}))
    assert fields["cpu_model"].value == "Neoverse-V2"
    assert fields["cpu_stepping"].value == "r0p1"
    assert fields["cpu_flags"].value == ["asimd", "asimddp", "asimdhp", "bf16", "i8mm", "sve"]
    assert describe_cpu({"CPU implementer": "0x99", "CPU part": "0x1"}) == "implementer 0x99 part 0x1"
    assert describe_cpu({}) is None


def test_memory_speed_comes_from_the_firmware_table(make_host: Callable[..., Host]) -> None:
    other = bytes([1, 8, 0, 0, 0, 0, 0, 0]) + b"x\x00\x00"
    table = (
        other + memory_device(65535, 5600, 4800) + memory_device(0, 5600, 0) + memory_device(1, 0xFFFF, 0xFFFF, 70000)
    )
    assert parse_memory_speeds(table) == [4800, 70000]
    assert parse_memory_speeds(table[:40]) == []
    assert parse_memory_speeds(b"\x11\x00\x00\x00") == []
    host = make_host({"sys/firmware/dmi/tables/DMI": table})
    assert read(host)["memory_speed_mts"].value == {"4800": 1, "70000": 1}


def test_an_empty_machine_has_reasons_everywhere(make_host: Callable[..., Host]) -> None:
    fields = read(make_host({}))
    assert fields["cpu_model"].source == "not present: /proc/cpuinfo" or "cpuinfo" in fields["cpu_model"].source
    assert fields["cpu_sockets"].status is Status.UNREADABLE
    assert all(field.source for field in fields.values())
