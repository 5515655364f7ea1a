"""The engine's benchmark: its plain model on a CPU against itself, and its bars against planted figures."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

FOLDER = str(Path(__file__).parents[3] / "benchmarks")
sys.path.insert(0, FOLDER)
try:
    engine_reference, plain_llama = (import_module(name) for name in ("engine_reference", "plain_llama"))
finally:
    sys.path.remove(FOLDER)

SHAPE = {
    "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "rope_theta": 1e4,
}  # fmt: skip
AS_MEASURED: dict[str, dict[str, Any]] = {
    "decode-bf16": {"engine_ms": 5.0, "reference_ms": 5.0, "ratio": 1.0},
    "decode-64-bf16": {"engine_ms": 7.0, "reference_ms": 7.0, "ratio": 1.0},
    "decode-fp8": {"engine_ms": 3.4},
    "decode-int8": {"engine_ms": 3.0},
    "decode-fp8-weights": {"engine_ms": 3.0},
    "decode-int4": {"engine_ms": 2.5},
    "prefill-bf16": {"engine_ms": 50.0, "reference_ms": 50.0, "ratio": 1.0},
    "prefill-fp8": {"engine_ms": 32.0, "reference_ms": 32.0, "ratio": 1.0},
    "vision-tf32": {"engine_ms": 14.0},
    "vision-fp16": {"engine_ms": 6.0},
}
ERRORS = {"plain bf16": 0.08, "decode-bf16": 0.07}


def model(monkeypatch: pytest.MonkeyPatch, kind: str = "bf16") -> Any:
    monkeypatch.setattr(plain_llama, "DEVICE", "cpu")
    torch.manual_seed(3)
    return plain_llama.PlainLlama(SHAPE, kind, batch=2, capacity=16)


def test_the_plain_model_decodes_from_its_cache_what_it_reads_as_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = model(monkeypatch)
    tokens = torch.randint(0, 64, (2, 9))
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CPUs without bf16 say so
        whole = plain(tokens, torch.arange(9))
        plain(tokens[:, :8], torch.arange(8))
        assert plain(tokens[:, 8:], torch.tensor([8])).tolist() == whole.tolist()


def test_weights_in_eight_bits_say_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_llama, "DEVICE", "cpu")
    x = torch.randn(3, 64).bfloat16()
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CPUs without bf16 say so
        for kind in ("bf16", "int8"):
            torch.manual_seed(5)
            made.append(plain_llama.PlainLinear(64, 32, kind)(x).float())
    wide, narrow = made
    assert 0 < float((wide - narrow).norm() / wide.norm()) < 0.02


def test_all_bars_hold_where_they_should() -> None:
    bars = engine_reference.judge(AS_MEASURED, ERRORS, whole=True)
    assert len(bars) == 4 + len(engine_reference.BARS) + 1
    assert engine_reference.passes(AS_MEASURED, bars)


@pytest.mark.parametrize(
    ("cell", "key", "figure"),
    [
        ("decode-bf16", "ratio", 0.969),
        ("prefill-fp8", "ratio", 0.5),
        ("decode-bf16", "engine_ms", 5.21),
        ("decode-64-bf16", "engine_ms", 10.5),
        ("prefill-fp8", "engine_ms", 33.5),
        ("decode-int8", "engine_ms", 3.4),
        ("decode-fp8-weights", "engine_ms", 3.4),
        ("decode-int4", "engine_ms", 3.5),
        ("vision-fp16", "engine_ms", 7.1),
    ],
)
def test_one_figure_beyond_its_bar_breaks_it(cell: str, key: str, figure: float) -> None:
    rows = {name: dict(row) for name, row in AS_MEASURED.items()}
    rows[cell][key] = figure
    bars = engine_reference.judge(rows, ERRORS, whole=True)
    assert not engine_reference.passes(rows, bars)


def test_answers_further_from_the_truth_break_a_bar() -> None:
    bars = engine_reference.judge(AS_MEASURED, ERRORS | {"decode-bf16": 0.11}, whole=True)
    assert [bar["bar"].split(":")[0] for bar in bars if not bar["holds"]] == ["decode-bf16"]


def test_a_cell_that_failed_is_no_pass() -> None:
    rows = AS_MEASURED | {"decode-int8": {"failed": "CannotRun: planted"}}
    assert not engine_reference.passes(rows, engine_reference.judge(rows, ERRORS, whole=True))


def test_fewer_layers_are_held_to_the_reference_alone() -> None:
    bars = engine_reference.judge(AS_MEASURED, {}, whole=False)
    assert len(bars) == 4
    assert all("of plain PyTorch" in bar["bar"] for bar in bars)
