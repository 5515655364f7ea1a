"""The bundled accelerators: names that drivers report, and rates that fit each other as the makers' sheets do."""

from __future__ import annotations

import re

import pytest

from lynxbench.decide.catalogue import recognise
from lynxbench.decide.deciding import read_catalogue
from lynxbench.model.executor import Executor, measured
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision

CATALOGUE = read_catalogue(None)
SIXTEEN, EIGHT = (Precision.FP16, Precision.BF16), (Precision.FP8, Precision.INT8)
ROUNDED = 0.015
"""Makers round each rate by itself: 362 and 733 on one sheet."""
ONE_RATE = {"gaudi3"}
"""Whose matrix engine runs 8 bits no faster than 16."""


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
    assert len(sixteen) == 1
    assert len(eight) == 1
    factor = 1 if name in ONE_RATE else 2
    assert eight.pop() == pytest.approx(factor * min(sixteen), rel=ROUNDED)
    if Precision.TF32 in dense:
        assert dense[Precision.TF32] == pytest.approx(sixteen.pop() / 2, rel=0.025)  # 1100 for 2250 on one sheet
        assert dense[Precision.FP32] < dense[Precision.TF32]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_device_names_its_sheets_and_their_year(name: str) -> None:
    device = CATALOGUE[name]
    assert set(device.native) == set(device.dense_tera_per_s)
    told = " ".join(source.what for source in device.sources)
    for part in ("rates", "memory", "power", "link"):
        assert part in told
    for source in device.sources:
        assert re.search(r"\(20[12][0-9]\)$", source.where), source.where
        assert int(source.where[-5:-1]) >= int(device.released) - 1


def test_generations_do_not_shrink() -> None:
    bandwidth = [CATALOGUE[name].memory_tb_per_s for name in ("a100-40gb", "a100-80gb", "h100", "h200", "b200")]
    assert bandwidth == sorted(bandwidth)
    assert CATALOGUE["h100-nvl"].dense_tera_per_s[Precision.FP16] < CATALOGUE["h100"].dense_tera_per_s[Precision.FP16]
