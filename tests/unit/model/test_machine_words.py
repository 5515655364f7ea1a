"""A machine is called by its device and driver."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from lynxbench.model.layers import Layer
from lynxbench.model.machine_words import machine_words


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"gpu_name": ["NVIDIA H200"], "name": "NVIDIA H200", "nvidia_driver": "580.159.04"}, "H200 · driver 580"),
        ({"gpu_name": ["NVIDIA H100 80GB HBM3"] * 8, "nvidia_driver": "570.86.15"}, "8× H100 80GB HBM3 · driver 570"),
        ({"gpu_name": ["NVIDIA L4", "NVIDIA A10G"]}, "L4 + A10G"),
        ({"gpu_name": [], "cpu_model": "Intel(R) Xeon(R) 8488C", "cpu_cores": 48}, "Intel Xeon 8488C · 48 cores"),
        ({"cpu_model": "AMD EPYC 9654 96-Core Processor", "cpu_cores": 96}, "EPYC 9654 · 96 cores"),
        ({"cpu_model": "Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz"}, "Intel Core i7-9700K"),
        ({"cpu_model": "Neoverse-N1", "cpu_cores": 2}, "Neoverse-N1 · 2 cores"),
        ({"name": "AMD Instinct MI300X"}, "Instinct MI300X"),
        ({"cpu_model": None}, ""),
        ({"cpu_model": "CPU"}, ""),
        ({}, ""),
        ({"gpu_name": "not a list", "cpu_model": 7}, ""),
    ],
)  # fmt: skip
def test_device_and_driver(fields: dict[str, JsonValue], said: str) -> None:
    assert machine_words(lambda _, name: fields.get(name)) == said


def test_a_strangers_long_name_is_cut() -> None:
    fields: dict[str, JsonValue] = {"gpu_name": ["x" * 10_000], "nvidia_driver": "9" * 10_000}
    assert len(machine_words(lambda _, name: fields.get(name))) < 130


def test_fields_are_asked_of_their_layer() -> None:
    fields: dict[tuple[Layer, str], JsonValue] = {
        (Layer.ACCELERATOR, "gpu_name"): ["NVIDIA H200"],
        (Layer.SYSTEM, "nvidia_driver"): "580.1",
    }
    assert machine_words(lambda layer, name: fields.get((layer, name))) == "H200 · driver 580"
