"""The bundled accelerators: names that drivers report, and rates that fit each other as the makers' sheets do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from command_line import lynxbench_here
from lynxbench.decide.catalogue import recognise
from lynxbench.decide.deciding import read_catalogue
from lynxbench.decide.whatif import estimate_whatif
from lynxbench.model.executor import Executor, measured
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result

CATALOGUE = read_catalogue(None)
SIXTEEN, EIGHT = (Precision.FP16, Precision.BF16), (Precision.FP8, Precision.INT8)
ROUNDED = 0.015
"""Makers round each rate by itself: 362 and 733 on one sheet."""
EIGHT_OVER_SIXTEEN = {"gaudi3": 1, "mi250": 1, "mi250x": 1, "trainium2": 1.95, "trainium3": 3.75}
"""Whose matrix engine does not run 8 bits at twice the rate of 16, as their sheets have it."""
TF32_AS_SIXTEEN = {"trainium", "trainium2", "trainium3", "inferentia2"}


def _executor(name: str) -> Executor:
    return Executor(layers={Layer.ACCELERATOR: {"gpu_name": measured([name], "NVML")}})


@pytest.mark.parametrize(
    ("reported", "device"),
    [
        ("Tesla T4", "t4"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", None),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA A100-PCIE-40GB", None),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40", None),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA H20", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA B200", "b200"),
        ("AMD Instinct MI300X", "mi300x"),
        ("AMD Instinct MI325X", "mi325x"),
        ("HL-325L", "gaudi3"),
        ("HL-225", "gaudi2"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA A40", "a40"),
        ("NVIDIA RTX A4000", None),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", None),
        ("NVIDIA RTX PRO 5000 Blackwell", "rtx-pro-5000"),
        ("AMD Instinct MI250", "mi250"),
        ("AMD Instinct MI250X", "mi250x"),
        ("AMD Instinct MI250X / MI250", "mi250x"),
        ("AMD Instinct MI350X", "mi350x"),
        ("AMD Instinct MI355X", "mi355x"),
        ("TPU v5 lite", "tpu-v5e"),
        ("TPU v5", "tpu-v5p"),
        ("TPU v6 lite", "tpu-v6e"),
        ("TPU v4", None),
        ("Trainium", "trainium"),
        ("Trainium2", "trainium2"),
        ("Trainium3", "trainium3"),
        ("Inferentia2", "inferentia2"),
    ],
)
def test_a_board_is_known_by_the_name_its_driver_reports(reported: str, device: str | None) -> None:
    found = recognise(CATALOGUE, _executor(reported))
    assert (found.name if found is not None else None) == device


@pytest.mark.parametrize("name", CATALOGUE)
def test_rates_fit_each_other(name: str) -> None:
    """Dense rates double as formats halve: a figure with sparsity, or a slip of the pen, breaks the row."""
    dense = CATALOGUE[name].dense_tera_per_s
    sixteen = {dense[one] for one in SIXTEEN if one in dense}
    eight = {dense[one] for one in EIGHT if one in dense}
    assert len(sixteen) <= 1
    assert len(eight) <= 1
    if sixteen and eight:
        factor = EIGHT_OVER_SIXTEEN.get(name, 2)
        assert min(eight) == pytest.approx(factor * min(sixteen), rel=ROUNDED)
    if Precision.TF32 in dense:
        part = 1 if name in TF32_AS_SIXTEEN else 2
        assert dense[Precision.TF32] == pytest.approx(min(sixteen) / part, rel=0.025)  # 1100 for 2250 on one sheet
        assert dense[Precision.FP32] <= dense[Precision.TF32]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_device_names_its_sheets_and_their_year(name: str) -> None:
    device = CATALOGUE[name]
    assert set(device.native) == set(device.dense_tera_per_s)
    told = " ".join(source.what for source in device.sources)
    stated = {
        "rates": bool(device.dense_tera_per_s),
        "memory": True,
        "power": device.board_w is not None,
        "link": device.link_gb_per_s is not None,
    }
    for part, is_stated in stated.items():
        assert part in told or not is_stated, part
    for source in device.sources:
        assert re.search(r"\(20[12][0-9]\)$", source.where), source.where
        assert int(source.where[-5:-1]) >= int(device.released) - 1


def test_there_are_thirty_devices_of_every_kind() -> None:
    assert len(CATALOGUE) >= 30
    asked = (
        "b200",
        "gb200",
        "mi300x",
        "mi355x",
        "l40s",
        "rtx-4090",
        "tpu-v5e",
        "tpu-v6e",
        "trainium2",
        "gaudi3",
        "grace",
    )
    assert set(asked) <= set(CATALOGUE)
    names = [alias for device in CATALOGUE.values() for alias in device.reported_as]
    assert len(set(names)) == len(names), "no name is of two devices"


def test_a_processor_is_known_where_it_is_alone() -> None:
    def on(sockets: int) -> Executor:
        fields = {"cpu_model": measured("AMD EPYC 9654 96-Core Processor", "cpuinfo")}
        return Executor(layers={Layer.ACCELERATOR: {**fields, "cpu_sockets": measured(sockets, "sysfs")}})

    alone = recognise(CATALOGUE, on(1))
    assert alone is not None
    assert alone.name == "epyc-9654"
    assert recognise(CATALOGUE, on(2)) is None, "two sockets have two memories"


def test_generations_do_not_shrink() -> None:
    bandwidth = [CATALOGUE[name].memory_tb_per_s for name in ("a100-40gb", "a100-80gb", "h100", "h200", "b200")]
    assert bandwidth == sorted(bandwidth)
    assert CATALOGUE["h100-nvl"].dense_tera_per_s[Precision.FP16] < CATALOGUE["h100"].dense_tera_per_s[Precision.FP16]


def test_the_command_lists_every_device_with_its_sources(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    listed = lynxbench_here("decide", "devices", "--json", cwd=tmp_path, LYNXBENCH_HOME=home)
    assert listed.code == 0, listed.err
    devices = {device["name"]: device for device in json.loads(listed.out)["devices"]}
    assert set(devices) == set(CATALOGUE)
    assert all(device["sources"] for device in devices.values())
    text = lynxbench_here("decide", "devices", cwd=tmp_path, LYNXBENCH_HOME=home).out
    assert "tpu-v6e" in text
    assert "nvidia h200" in text


def test_a_swap_to_a_device_without_a_stated_link_says_so(today: Result) -> None:
    swap = estimate_whatif(today, CATALOGUE, hardware="tpu-v6e").swap
    assert swap is not None
    assert "states none" in swap.how["link"]
    assert (swap.factors["link"].low, swap.factors["link"].high) == (1.0, 1.0)
