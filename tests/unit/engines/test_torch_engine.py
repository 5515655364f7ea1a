from __future__ import annotations

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from lynxbench.engines.torch import TorchAdapter
from lynxbench.engines.torch.torch_session import TorchSession
from lynxbench.errors import BadInput, CannotRun
from lynxbench.model.contract import Contract
from lynxbench.model.job import Job
from lynxbench.model.precision import Native, Precision

pytestmark = pytest.mark.usefixtures("few_words")

TINY: dict[str, dict[str, object]] = {
    "decoder": {"source": "preset", "name": "smollm2-135m", "layers": 1},
    "encoder": {"source": "preset", "name": "minilm-l6", "layers": 1},
    "vision": {"source": "preset", "name": "vit-b-16", "layers": 1},
    "convolution": {"source": "preset", "name": "resnet-18", "layers": 1},
}
INFERENCE = ("fp32", "int8", "int8-weight-only")


def make_job(
    task: str,
    model: dict[str, object],
    precision: str = "fp32",
    *,
    batch: int = 1,
    tokens: tuple[int, int] | None = None,
    engine: dict[str, object] | None = None,
    protocol: dict[str, object] | None = None,
    reference_step_s: float | None = None,
    seed: int = 0,
) -> Job:
    workload: dict[str, object] = {
        "task": task,
        "model": model,
        "precisions": [precision],
        "batch": batch,
        "seed": seed,
    }
    if task == "generate":
        given, asked = tokens or (6, 3)
        workload["input_tokens"] = {"distribution": "fixed", "value": given}
        workload["output_tokens"] = {"distribution": "fixed", "value": asked}
    elif tokens is not None:
        workload["input_tokens"] = {"distribution": "fixed", "value": tokens[0]}
    written = {
        "lynxbench": 1,
        "name": "test",
        "question": "does it run?",
        "regime": "latency",
        "workload": workload,
        "engine": {"name": "torch", "device": "cpu", **(engine or {})},
        "protocol": protocol or {},
    }
    contract = Contract.model_validate_json(json.dumps(written))
    chosen = Precision(precision)
    return Job(index=0, restart=0, contract=contract, precision=chosen, threads=1, reference_step_s=reference_step_s)


def open_tiny(task: str, family: str, precision: str = "fp32", **more: object) -> TorchSession:
    return TorchAdapter().open(make_job(task, TINY[family], precision, **more))  # type: ignore[arg-type]


def test_it_is_available_and_named() -> None:
    assert TorchAdapter().available() is None
    assert TorchAdapter().name == "torch"


# --- every task at every precision ---------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", INFERENCE)
@pytest.mark.parametrize("batch", [1, 3])
def test_generate_counts_exactly_and_marks_every_token(precision: str, batch: int) -> None:
    session = open_tiny("generate", "decoder", precision, batch=batch, tokens=(6, 5))
    assert session.step(0) == 5 * batch
    assert len(session.marks) == 5
    assert session.marks == sorted(session.marks)
    rows = session._work.last_tokens  # type: ignore[attr-defined]
    assert [len(row) for row in rows] == [5] * batch


@pytest.mark.parametrize("precision", INFERENCE)
@pytest.mark.parametrize(
    ("task", "family", "unit"),
    [
        ("embed", "encoder", "sentence"),
        ("embed", "decoder", "sentence"),
        ("classify", "encoder", "sample"),
        ("classify", "vision", "image"),
    ],
)
def test_inference_tasks_count_their_batch(task: str, family: str, unit: str, precision: str) -> None:
    session = open_tiny(task, family, precision, batch=2)
    assert session.unit == unit
    assert [session.step(index) for index in range(2)] == [2, 2]
    assert session.marks == []


@pytest.mark.parametrize("family", ["decoder", "encoder", "convolution"])
def test_training_steps_change_the_weights(family: str) -> None:
    session = open_tiny("train-step", family, batch=2, **({} if family == "convolution" else {"tokens": (8, 0)}))
    before = [parameter.detach().clone() for parameter in session._loaded.model.parameters()]
    assert session.step(0) == 2
    after = list(session._loaded.model.parameters())
    assert sum(not np.array_equal(a.numpy(), b.detach().numpy()) for a, b in zip(before, after, strict=True)) > 3


def test_prompts_rotate_and_repeat() -> None:
    session = open_tiny("generate", "decoder", tokens=(12, 4))
    answers = []
    for index in (0, 1, 0):
        session.step(index)
        answers.append(session._work.last_tokens)  # type: ignore[attr-defined]
    assert answers[0] == answers[2] != answers[1]


def test_cached_decoding_gives_what_the_whole_sequence_gives() -> None:
    import torch

    session = open_tiny("generate", "decoder", tokens=(9, 6))
    session.step(0)
    (produced,) = session._work.last_tokens  # type: ignore[attr-defined]
    prompt = session._work._prompts.window(0, 9)  # type: ignore[attr-defined]
    with torch.inference_mode():
        logits = session._loaded.model(input_ids=torch.tensor([prompt + produced])).logits[0]
    assert logits[8:-1].argmax(-1).tolist() == produced


# --- weights -------------------------------------------------------------------------------------------------------


def test_preset_weights_follow_the_seed_and_are_never_zero() -> None:
    one, same, other = (open_tiny("generate", "decoder", seed=seed) for seed in (5, 5, 6))

    def weights(session: TorchSession) -> list[np.ndarray]:
        return [parameter.numpy(force=True) for parameter in session._loaded.model.parameters()]

    for left, right, different in zip(weights(one), weights(same), weights(other), strict=True):
        assert np.array_equal(left, right)
        assert not np.array_equal(left, different)
        assert np.mean(left == 0) < 0.001
    assert one.facts()["application.model_sha256"] == same.facts()["application.model_sha256"]
    assert one.facts()["application.model_sha256"] != other.facts()["application.model_sha256"]


def test_precisions_share_their_preset_weights() -> None:
    import torch

    fp32 = next(open_tiny("generate", "decoder", "fp32")._loaded.model.parameters())
    bf16 = next(open_tiny("generate", "decoder", "bf16")._loaded.model.parameters())
    assert bf16.dtype is torch.bfloat16
    assert torch.equal(fp32.to(torch.bfloat16), bf16)


def test_tied_embeddings_are_counted_once_and_the_head_is_quantised() -> None:
    session = open_tiny("generate", "decoder", "int8")
    facts = session.facts()
    plain = open_tiny("generate", "decoder").facts()
    assert facts["application.parameters"] == plain["application.parameters"]
    assert facts["application.quantised_parameters"] == facts["application.parameters"] - 3 * 576  # type: ignore[operator]
    assert "output head included" in str(facts["application.quantisation"])
    assert "onednn" in str(facts["runtime.quantisation_toolchain"]) or "x86" in str(
        facts["runtime.quantisation_toolchain"]
    )


def test_a_folder_on_disk_is_loaded_and_hashed(tmp_path: Path) -> None:
    source = open_tiny("generate", "decoder", seed=3)
    source._loaded.model.save_pretrained(tmp_path / "kept")
    session = TorchAdapter().open(make_job("generate", {"source": "path", "path": str(tmp_path / "kept")}))
    for left, right in zip(source._loaded.model.parameters(), session._loaded.model.parameters(), strict=True):
        assert np.array_equal(left.numpy(force=True), right.numpy(force=True))
    assert session.step(0) == 3
    assert len(str(session.facts()["application.model_sha256"])) == 64


# --- accuracy, kernels, profiles, ceilings --------------------------------------------------------------------------


def relative_error(left: np.ndarray, right: np.ndarray) -> float:
    return float(np.linalg.norm(left - right) / np.linalg.norm(left))


@pytest.mark.parametrize(
    ("task", "family", "kind", "name"),
    [
        ("generate", "decoder", "logits", "logits"),
        ("embed", "encoder", "embedding", "vectors"),
        ("classify", "encoder", "classes", "scores"),
    ],
)
def test_outputs_of_eight_bits_are_close_to_full_precision(task: str, family: str, kind: str, name: str) -> None:
    reference = open_tiny(task, family).outputs()
    assert reference is not None
    assert reference.kind == kind
    for precision in ("int8", "int8-weight-only"):
        outputs = open_tiny(task, family, precision).outputs()
        assert outputs is not None
        assert outputs.inputs == reference.inputs
        assert 0 < relative_error(reference.arrays[name], outputs.arrays[name]) < 0.05


def test_training_outputs_start_from_untrained_weights() -> None:
    session = open_tiny("train-step", "encoder", batch=2, tokens=(8, 0))
    before = session.outputs()
    session.step(0)
    session.step(1)
    after = session.outputs()
    assert before is not None
    assert after is not None
    assert before.arrays["losses"].shape == (3,)
    assert np.allclose(before.arrays["losses"], after.arrays["losses"], rtol=1e-5)
    assert np.count_nonzero(before.arrays["gradient"]) > 1000


@pytest.mark.parametrize(("precision", "kernel"), [("fp32", "mm"), ("int8", "quantized::linear_dynamic")])
def test_executed_names_the_kernels_that_ran(precision: str, kernel: str) -> None:
    session = open_tiny("generate", "decoder", precision)
    executed = session.executed()
    assert executed.native is Native.NATIVE
    assert any(kernel in name for name in executed.kernels)
    assert session.marks == []


def test_a_profile_holds_the_annotated_steps_with_shapes(tmp_path: Path) -> None:
    session = open_tiny("generate", "decoder")
    path = session.profile(3, tmp_path)
    assert path is not None
    assert path.name == "trace.json"
    events = json.loads(path.read_bytes())["traceEvents"]
    steps = [event for event in events if event.get("cat") == "user_annotation" and event["name"].startswith("step#")]
    assert sorted(event["name"] for event in steps) == ["step#0", "step#1", "step#2"]
    products = [event for event in events if event.get("name") in ("aten::mm", "aten::addmm")]
    assert products
    assert all("Input Dims" in event["args"] for event in products)
    assert [file.name for file in tmp_path.iterdir()] == ["trace.json"]
    assert session.marks == []


def _bare_copy_per_s() -> float:
    source = torch.ones(32 << 20)
    target = torch.empty_like(source)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - began)
    return 2 * source.nbytes / min(times)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_ceilings_are_plausible(precision: str) -> None:
    session = open_tiny("generate", "decoder", precision)
    for _ in range(3):  # whatever else this machine does, it does to both, though not at the same moment
        ceilings = {ceiling.name: ceiling for ceiling in session.ceilings()}
        assert set(ceilings) == {"matmul", "copy", "read"}
        bare = _bare_copy_per_s()
        if all(bare / 20 < ceilings[name].per_s < 20 * bare for name in ("copy", "read")):
            break
    else:
        pytest.fail(f"three times far from a bare copy at {bare:.3g} B/s: {ceilings}")
    assert 1e8 < ceilings["matmul"].per_s < 1e14
    assert ceilings["matmul"].precision is Precision(precision)


def test_facts_are_grouped_by_layer() -> None:
    facts = open_tiny("train-step", "decoder", tokens=(16, 0)).facts()
    layers = {key.split(".")[0] for key in facts}
    assert layers <= {"application", "serving", "runtime", "framework", "accelerator", "demand"}
    assert facts["demand.tokens_per_sample"] == 16
    assert facts["runtime.attention"] == "sdpa"
    assert json.loads(json.dumps(facts)) == facts


# --- what cannot be done, in one line --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "error", "says"),
    [
        (make_job("generate", TINY["encoder"]), BadInput, "a bert model cannot do generate; it can do embed"),
        (make_job("classify", TINY["decoder"]), BadInput, "a llama model cannot do classify"),
        (make_job("generate", {"source": "preset", "name": "nope"}), BadInput, "no preset 'nope'"),
        (make_job("generate", {"source": "path", "path": "/nowhere/at/all"}), CannotRun, "does not exist"),
        (make_job("generate", TINY["decoder"], tokens=(8000, 8000)), BadInput, "the model has 8192 positions"),
    ],
)
def test_impossible_jobs_say_what_is_wrong(job: Job, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        TorchAdapter().open(job)


def test_a_missing_device_is_named() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    with pytest.raises(CannotRun, match="sees no CUDA device"):
        TorchAdapter().open(make_job("generate", TINY["decoder"], engine={"device": "cuda:0"}))


def test_an_unreachable_hub_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    job = make_job("generate", {"source": "hub", "id": "nobody/nothing", "revision": "main"})
    with pytest.raises(CannotRun, match=r"nobody/nothing cannot be fetched .*use source path") as caught:
        TorchAdapter().open(job)
    assert "\n" not in str(caught.value)


def test_compiling_without_a_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    session = open_tiny("generate", "decoder", engine={"graph": "compile"})
    with pytest.raises(CannotRun, match=r"needs a C\+\+ compiler"):
        session.compile()


def test_a_random_model_keeps_its_logits_finite() -> None:
    outputs = open_tiny("generate", "decoder").outputs()
    assert outputs is not None
    assert math.isfinite(float(np.abs(outputs.arrays["logits"]).max()))


@pytest.mark.slow
@pytest.mark.usefixtures("light_compiler")
def test_a_compiled_decoder_produces_the_same_tokens() -> None:
    eager = open_tiny("generate", "decoder", tokens=(9, 6))
    eager.step(1)
    compiled = open_tiny("generate", "decoder", tokens=(9, 6), engine={"graph": "compile"})
    compiled.compile()
    assert compiled.marks == []
    assert compiled.step(1) == 6
    assert compiled._work.last_tokens == eager._work.last_tokens  # type: ignore[attr-defined]
    facts = compiled.facts()
    assert facts["runtime.graph"] == "compile"
    assert facts["runtime.kv_cache"] == "static, 15 positions"
