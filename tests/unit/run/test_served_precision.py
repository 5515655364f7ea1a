"""A declared precision against launch arguments, model files and the server's own words."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.executor.server import CapturedServer
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor, measured, unreadable
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.run.served_precision import (
    DECLARED,
    check_precision,
    parse_config,
    read_gguf_type,
    with_formats,
)
from lynxbench.tables import read_table
from served import served_contract


def contract(precision: str, cache: str = "") -> Contract:
    lines = f"kv_cache: {cache}" if cache else ""
    text = served_contract("http://127.0.0.1:8000/v1", engine=lines).replace("[fp32]", f"[{precision}]")
    return parse_contract(text, "served.yaml")


def checked(asked: Contract, command: list[str] | None = None, models: Any = None) -> tuple[str, list[str]]:
    serving = {"server_command": measured([*command], "test") if command else unreadable("another host")}
    if models is not None:
        serving["server_models"] = measured(models, "test")
    server = with_formats(CapturedServer({Layer.SERVING: serving}, {}, None, is_local=True))
    check = check_precision(asked, Executor(schema_version=1, layers=server.layers))
    return check.how, [doubt.reason for doubt in check.doubts]


@pytest.mark.parametrize(
    ("precision", "arguments"),
    [
        ("fp8", "--quantization fp8"),
        ("fp8", "--quantization=fp8 --dtype bfloat16"),
        ("int4-weight-only", "-q awq_marlin --dtype half"),
        ("int4-weight-only", "--quantization gptq"),
        ("nvfp4", "--quantization modelopt_fp4"),
        ("mxfp4", "--quantization mxfp4"),
        ("bf16", "--dtype bfloat16"),
    ],
)
def test_what_agrees_is_said_to_agree(precision: str, arguments: str) -> None:
    how, doubts = checked(contract(precision), ["vllm", "serve", "m", *arguments.split()])
    assert how.startswith(f"declared {precision}, agrees with the launch arguments (")
    assert not doubts


@pytest.mark.parametrize(
    ("precision", "arguments", "said"),
    [
        ("bf16", "--quantization fp8 --dtype bfloat16", "--quantization fp8"),
        ("fp8", "--quantization awq", "--quantization awq"),
        ("fp8", "--dtype bfloat16", "--dtype bfloat16"),
        ("fp16", "--dtype bfloat16", "--dtype bfloat16"),
    ],
)
def test_a_contradiction_is_said_and_doubted(precision: str, arguments: str, said: str) -> None:
    how, doubts = checked(contract(precision), ["vllm", *arguments.split()])
    assert how == DECLARED
    assert len(doubts) == 1
    assert precision in doubts[0]
    assert said in doubts[0]


def test_where_nothing_can_be_read_it_stays_declared() -> None:
    assert checked(contract("fp8")) == (DECLARED, [])
    assert checked(contract("fp8"), ["vllm", "--quantization", "experts_int8_of_tomorrow"]) == (DECLARED, [])
    assert checked(contract("fp8"), ["vllm", "--dtype", "auto", "--quantization"]) == (DECLARED, [])


def test_the_cache_is_declared_agrees_or_contradicts() -> None:
    command = ["vllm", "--dtype", "bfloat16", "--kv-cache-dtype", "fp8"]
    how, doubts = checked(contract("bf16", "fp8"), command)
    assert "--kv-cache-dtype fp8" in how
    assert not doubts
    how, doubts = checked(contract("bf16", "bf16"), command)
    assert "a key-value cache in bf16" in doubts[0]
    how, doubts = checked(contract("bf16"), command)
    assert "the key-value cache is fp8 by its launch arguments, which the contract does not declare" in how
    assert not doubts


def test_llama_cpp_tells_bits_a_parameter() -> None:
    models = {"data": [{"id": "m", "meta": {"n_params": 1000, "size": 640}}]}
    assert checked(contract("int4-weight-only"), models=models)[0].endswith("/v1/models (5.12 bits a parameter)")
    assert checked(contract("fp16"), models=models)[1]


@pytest.mark.parametrize(
    ("config", "precision"),
    [
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, ["int4-weight-only"]),
        ({"quantization_config": {"quant_method": "gptq", "bits": 8}}, ["int8-weight-only"]),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}, ["fp8-block"]),
        ({"quantization_config": {"quant_method": "fp8"}}, ["fp8", "fp8-weight-only"]),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, ["nvfp4"]),
        ({"quantization_config": {"quant_method": "mxfp4"}}, ["mxfp4"]),
    ],
)
def test_config_json_says_how_weights_were_quantised(config: dict[str, Any], precision: list[str]) -> None:
    (row,) = parse_config(config)
    assert row["weights"] == precision


@pytest.mark.parametrize("config", [{}, [], None, {"quantization_config": {"quant_method": "of tomorrow"}}])
def test_a_config_that_says_nothing(config: Any) -> None:
    assert list(parse_config(config)) == []


def test_a_model_folder_is_read_where_the_command_names_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "awq", "bits": 4}}))
    how, doubts = checked(contract("int4-weight-only"), ["vllm", "serve", str(tmp_path)])
    assert "config.json (quantization_config awq)" in how
    assert not doubts
    assert checked(contract("bf16"), ["vllm", "--model", str(tmp_path)])[1]
    (tmp_path / "config.json").write_text("{")
    assert checked(contract("bf16"), ["vllm", "--model", str(tmp_path)]) == (DECLARED, [])


def gguf(file_type: int, *, magic: bytes = b"GGUF") -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        text("scores") + struct.pack("<IIQ", 9, 6, 3) + bytes(12),
        text("general.file_type") + struct.pack("<II", 4, file_type),
    ]
    return magic + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys)


def test_the_header_of_a_gguf_file(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf(15))
    assert read_gguf_type(file) == 15
    assert "general.file_type Q4_K_M" in checked(contract("int4-weight-only"), ["llama-server", "-m", str(file)])[0]
    assert checked(contract("int8-weight-only"), ["llama-server", "-m", str(file)])[1]
    for damaged in (b"", b"GGUF", gguf(15)[:60], gguf(15, magic=b"GGML"), b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60)):
        file.write_bytes(damaged)
        assert read_gguf_type(file) is None


def test_every_word_of_the_table_is_a_precision_or_a_cache_format() -> None:
    table = read_table("run/served_formats.toml")
    words = {word for key in ("methods", "dtypes") for row in table[key].values() for word in row}
    words |= {*table["bits"].values(), *(row[1] for row in table["gguf"].values())}
    assert words <= {precision.value for precision in Precision}
    for cache in set(table["caches"].values()):
        contract("bf16", cache)
