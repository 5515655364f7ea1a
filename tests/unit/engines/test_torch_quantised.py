"""What torchao stores for each precision, refusals where it is absent, and formats that no device executes here."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lynxbench.errors import CannotRun
from lynxbench.model.contract import Contract
from lynxbench.model.job import Job
from lynxbench.model.precision import Precision

torch = pytest.importorskip("torch")

from lynxbench.engines.torch import estimate, number_formats, torchao_layers  # noqa: E402
from lynxbench.engines.torch.number_formats import FORMATS, TORCHAO, prepare, product_recipe, recipe_for  # noqa: E402
from lynxbench.engines.torch.profiling import matrix_kernels, share_of_time  # noqa: E402

CUDA = torch.device("cuda", 0)
BY_TORCHAO = [precision for precision in Precision if TORCHAO in FORMATS[precision].quantised]


def test_every_precision_has_its_format() -> None:
    assert set(FORMATS) == set(Precision)


@pytest.mark.parametrize("precision", BY_TORCHAO)
def test_where_torchao_is_absent_the_layers_by_hand_remain(
    precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torchao_layers, "torchao_version", lambda: None)
    if "cuda" in FORMATS[precision].quantised:
        recipe = recipe_for(precision, CUDA)
        assert recipe is FORMATS[precision].quantised["cuda"]
        assert "torchao" not in recipe.toolchain
    else:
        with pytest.raises(CannotRun, match=rf"{precision} needs torchao: pip install 'lynxbench\[quant\]'"):
            recipe_for(precision, CUDA)


@pytest.mark.parametrize("precision", BY_TORCHAO)
def test_where_torchao_is_present_it_is_taken_and_named(precision: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchao_layers, "torchao_version", lambda: "0.17.0")
    recipe = recipe_for(precision, CUDA)
    assert recipe is FORMATS[precision].quantised[TORCHAO]
    assert "{torchao}" in recipe.toolchain
    assert "scale" in recipe.words, "what is stored, and its scale, is part of the name"
    assert product_recipe(precision, CUDA) is FORMATS[precision].quantised.get("cuda"), "a ceiling is the bare product"


def test_int8_with_dynamic_activations_is_never_torchaos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchao_layers, "torchao_version", lambda: "0.17.0")
    recipe = recipe_for(Precision.INT8, CUDA)
    assert recipe is not None
    assert recipe.layer is number_formats.linear.Int8DynamicCuda


def job_of(precision: Precision) -> Job:
    document = {
        "lynxbench": 1,
        "name": "small",
        "question": "can it?",
        "regime": "latency",
        "workload": {
            "task": "decode",
            "model": {"source": "preset", "name": "smollm2-135m", "layers": 1},
            "precisions": [precision.value],
            "input_tokens": {"distribution": "fixed", "value": 12},
        },
        "engine": {"name": "torch"},
    }
    contract = Contract.model_validate_json(json.dumps(document))
    return Job(index=0, restart=0, contract=contract, precision=precision, threads=1)


@pytest.mark.parametrize(
    ("precision", "capability", "said"),
    [
        (Precision.MXFP8, (9, 0), "mxfp8 needs compute capability 10.0, this device has 9.0"),
        (Precision.NVFP4, (9, 0), "nvfp4 needs compute capability 10.0, this device has 9.0"),
        (Precision.MXFP8, (10, 0), "not executed by this engine"),
        (Precision.FP8, (8, 0), "fp8 needs compute capability 8.9, this device has 8.0"),
    ],
)
def test_formats_of_the_next_chip_are_said_to_be_unsupported(
    precision: Precision, capability: tuple[int, int], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "choose_device", lambda _: CUDA)
    monkeypatch.setattr(estimate, "capability", lambda _: capability)
    monkeypatch.setattr(number_formats, "capability", lambda _: capability)
    skip = estimate.estimate(job_of(precision))
    assert skip is not None
    assert skip.reason.startswith("unsupported: ")
    assert said in skip.reason


@pytest.mark.parametrize("precision", [Precision.FP8_WEIGHT_ONLY, Precision.INT4_WEIGHT_ONLY, Precision.NVFP4])
def test_what_a_cpu_has_no_kernels_for_is_skipped_with_its_reason(
    precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "choose_device", lambda _: torch.device("cpu"))
    skip = estimate.estimate(job_of(precision))
    assert skip is not None
    assert "cpu" in skip.reason.lower()


# --- with torchao at hand ---


class Small(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Linear(256, 512, bias=True)
        self.lm_head = torch.nn.Linear(512, 384, bias=False)

    def forward(self, x: Any) -> Any:
        return self.lm_head(torch.relu(self.inner(x)))


@pytest.mark.parametrize(
    ("precision", "error"), [(Precision.INT8_WEIGHT_ONLY, 0.02), (Precision.FP8_WEIGHT_ONLY, 0.06)]
)
def test_stored_weights_answer_within_their_format(
    precision: Precision, error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchao's own layers on a CPU: half a step of 127, or of three mantissa bits, on each weight."""
    pytest.importorskip("torchao")
    recipe = FORMATS[precision].quantised[TORCHAO]
    monkeypatch.setattr(number_formats, "recipe_for", lambda *_: recipe)
    plain, narrow = Small(), Small()
    prepared = prepare(narrow, precision, torch.device("cpu"))
    assert prepared.quantised_parameters == 256 * 512 + 512 * 384
    assert "torchao" in prepared.toolchain
    x = torch.randn(8, 256)
    with torch.inference_mode():
        expected, y = plain(x), narrow(x.to(prepared.compute_dtype)).float()
    assert 0 < float((y - expected).norm() / expected.norm()) < error


def test_a_weight_that_torchao_leaves_as_it_was_is_refused() -> None:
    """int4 wants groups of 128: another size would silently stay in bf16 under the name of int4."""
    pytest.importorskip("torchao")
    odd = torch.nn.Linear(96, 64, bias=False)
    with pytest.raises(CannotRun, match="torchao left a weight of 64×96"):
        torchao_layers.TorchaoInt4Weights(odd, torch.bfloat16)


def test_the_model_library_does_not_import_torchao_for_nothing() -> None:
    pytest.importorskip("transformers")
    from lynxbench.engines.torch.library import quiet_library

    assert quiet_library().is_torchao_available() is False


# --- a single row ---


@pytest.mark.parametrize(
    ("layer", "kernel", "precision"),
    [
        ("TorchaoInt8Weights", "one_row_gemv_int8pack", Precision.INT8_WEIGHT_ONLY),
        ("TorchaoFp8Weights", "one_row_gemv_fp8e4", Precision.FP8_WEIGHT_ONLY),
    ],
)
def test_a_single_row_has_a_kernel_of_its_own_that_is_told_by_its_name(
    layer: str, kernel: str, precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel itself runs on a device; here plain arithmetic stands for it, over what torchao stored."""
    pytest.importorskip("torchao")
    asked: list[torch.Size] = []

    def multiply(x: Any, stored: Any, scales: Any) -> Any:
        asked.append(x.shape)
        assert stored.dtype in (torch.int8, torch.float8_e4m3fn)
        return (x.float() @ (stored.float() * scales[:, None].float()).t()).to(x.dtype)

    monkeypatch.setitem(sys.modules, "lynxbench.engines.torch.one_row", SimpleNamespace(multiply_one_row=multiply))
    torch.manual_seed(3)
    source = torch.nn.Linear(256, 384, bias=True)
    narrow = getattr(torchao_layers, layer)(source, torch.bfloat16)
    assert not narrow.has_kernel, "this is no CUDA device"
    row, rows = torch.randn(1, 1, 256).bfloat16(), torch.randn(1, 4, 256).bfloat16()
    with torch.inference_mode():
        before = narrow(row)
        narrow.has_kernel = True
        after, many = narrow(row), narrow(rows)
        expected = source(row.float())
    assert asked == [torch.Size([1, 256])], "several rows go to torchao"
    assert after.shape == (1, 1, 384)
    assert many.shape == (1, 4, 384)
    assert float((after.float() - before.float()).norm() / expected.norm()) < 0.01
    assert FORMATS[precision].names(kernel)
    assert matrix_kernels({kernel: 1.0}) == {kernel: 1.0}
    assert share_of_time(precision, {kernel: 3.0, "nvjet_tst_64x8": 1.0}) == 0.75
