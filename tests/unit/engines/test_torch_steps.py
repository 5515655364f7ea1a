"""Prefill and decode as steps of their own, on a small shape: the same code that runs on a GPU."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lynxbench.errors import CannotRun
from lynxbench.model.contract import Contract, Graph
from lynxbench.model.job import Job
from lynxbench.model.precision import Native, Precision

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lynxbench.engines.torch import TorchAdapter, graphs, torch_session  # noqa: E402
from lynxbench.engines.torch.estimate import Slowdown  # noqa: E402
from lynxbench.engines.torch.language_tasks import REWOUND_AFTER  # noqa: E402

pytestmark = pytest.mark.usefixtures("few_words")


def session_of(task: str, precision: str = "fp32", **engine_keys: str) -> Any:
    document = {
        "lynxbench": 1,
        "name": "small",
        "question": "does it step?",
        "regime": "latency",
        "workload": {
            "task": task,
            "model": {"source": "preset", "name": "smollm2-135m", "layers": 2},
            "precisions": [precision],
            "batch": 2,
            "input_tokens": {"distribution": "fixed", "value": 12},
        },
        "engine": {"name": "torch", "device": "cpu", **engine_keys},
    }
    contract = Contract.model_validate_json(json.dumps(document))
    session = TorchAdapter().open(Job(index=0, restart=0, contract=contract, precision=Precision(precision), threads=1))
    session.compile()
    return session


def test_prefill_counts_the_tokens_of_its_prompts() -> None:
    session = session_of("prefill")
    assert session.step(0) == 24
    assert session.unit == "token"
    assert session.outputs().kind == "logits"
    assert "runtime.timing" not in session.facts(), "said only where a device times the steps"


def test_decode_goes_back_to_its_context_and_says_the_same_again() -> None:
    session = session_of("decode")
    work = session._work
    before = work._token.clone()
    tokens = []
    for index in range(REWOUND_AFTER):
        assert session.step(index) == 2
        tokens.append(work._token.tolist())
    assert int(work._lengths[0]) == 12 + REWOUND_AFTER
    work._token = before
    session.step(0)  # the cache is full: it is rewound first
    assert int(work._lengths[0]) == 13
    assert work._token.tolist() == tokens[0]


def test_decode_from_the_cache_agrees_with_the_whole_text() -> None:
    """The token after context and first answer is the one that a forward pass over both gives."""
    session = session_of("decode")
    work, model = session._work, session._loaded.model
    rows = [work._prompts.window(row, 12) for row in range(2)]
    first = work._token.clone()
    session.step(0)
    with torch.inference_mode():
        whole = torch.cat([torch.tensor(rows), first], dim=1)
        expected = model(input_ids=whole).logits[:, -1].argmax(-1)
    assert work._token.flatten().tolist() == expected.tolist()


def test_precisions_share_inputs_and_are_compared_on_the_same_scores() -> None:
    plain, narrow = session_of("decode").outputs(), session_of("decode", "int8").outputs()
    assert plain.inputs == narrow.inputs
    a, b = plain.arrays["logits"], narrow.arrays["logits"]
    assert a.shape == b.shape
    assert 0 < float(np.linalg.norm(a - b) / np.linalg.norm(a)) < 0.2


@pytest.mark.parametrize(
    ("keys", "said"),
    [({"timing": "device"}, r"engine\.timing"), ({"graph": "cuda-graph"}, r"engine\.graph")],
)
def test_what_needs_a_device_is_refused_in_one_line(keys: dict[str, str], said: str) -> None:
    with pytest.raises(CannotRun, match=said) as caught:
        session_of("decode", **keys)
    assert "\n" not in str(caught.value)


def test_a_compiled_decode_is_judged_by_the_step_that_was_timed() -> None:
    """Scores come token by token out of the step itself, and the cache is afterwards what it was."""
    plain, session = session_of("decode"), session_of("decode")
    work, model = session._work, session._loaded.model
    lengths: list[int] = []

    def compiled(**arguments: Any) -> Any:
        lengths.append(arguments["input_ids"].shape[1])
        return model(**arguments)

    work._forward = compiled
    a, b = plain.outputs().arrays["logits"], session.outputs().arrays["logits"]
    assert set(lengths) == {1}
    assert len(lengths) == len(a)
    assert float(np.linalg.norm(a - b) / np.linalg.norm(a)) < 1e-5
    for index in range(4):
        plain.step(index)
        session.step(index)
        assert work._token.tolist() == plain._work._token.tolist()


@pytest.mark.parametrize("graph", ["compile-cuda-graph", "compile-tuned-cuda-graph"])
def test_recorded_graphs_are_refused_without_a_device(graph: str) -> None:
    with pytest.raises(CannotRun, match=rf"engine\.graph: {graph} needs a CUDA device, not cpu; use eager or compile"):
        session_of("decode", graph=graph)


def test_tensorrt_is_refused_with_what_is_missing() -> None:
    with pytest.raises(CannotRun, match=r"engine\.graph: tensorrt needs a CUDA device, not cpu; use compile or eager"):
        session_of("decode", graph="tensorrt")
    with pytest.raises(CannotRun, match=r"engine\.graph: tensorrt needs Torch-TensorRT: pip install torch-tensorrt"):
        graphs.check_compiler(torch.device("cuda", 0), graphs.TENSORRT)


def test_tensorrt_compiles_where_it_is_installed() -> None:
    """A compiler of that name stands for it: the step goes through what it returns, and gives what it gave before."""
    taken: list[int] = []

    def compiler(module: Any, _: Any) -> Any:
        taken.append(len(list(module.graph.nodes)))
        return module.forward

    registry = torch._dynamo.backends.registry
    registry.register_backend(name=graphs.TENSORRT)(compiler)
    try:
        model = torch.nn.Linear(4, 3)
        x = torch.ones(2, 4)
        assert torch.equal(graphs.COMPILATIONS[Graph.TENSORRT](model)(x), model(x))
        assert taken
    finally:
        for table in (registry._BACKENDS, registry._COMPILER_FNS):
            table.pop(graphs.TENSORRT, None)
        torch._dynamo.reset()


# --- planted fallbacks through the session's own verdict ---

BF16, FP32 = "nvjet_sm90_tst_64x16_64x16_2x1_v_bz_TNT", "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x64x8_ffma"


@pytest.mark.parametrize(
    ("kernels", "has_inputs", "native", "said"),
    [
        ({BF16: 9.0, FP32: 1.0}, True, Native.NATIVE, "90% of their time; 10% in kernels of fp32"),
        ({BF16: 4.0, FP32: 6.0}, True, Native.EMULATED, "60% in kernels of fp32; most of the time is others'"),
        ({FP32: 1.0}, True, Native.EMULATED, "0 of 1 matrix kernels seen; most of the time is others'"),
        ({BF16: 1.0}, False, Native.EMULATED, "the device has no such inputs"),
        ({"somebodys_gemm": 1.0}, True, Native.UNKNOWN, "whose names do not tell"),
        ({"somebodys_gemm": 9.0, BF16: 1.0}, True, Native.UNKNOWN, "most of the time is in kernels whose names do not"),
        (
            {f"{BF16}_{n}": 10.0 for n in range(12)} | {f"{FP32}_{n}": 9.0 for n in range(40)},
            True,
            Native.EMULATED,
            "12 of 52 matrix kernels seen, 25% of their time; 75% in kernels of fp32",
        ),
    ],
)
def test_a_precision_that_fell_back_does_not_carry_its_name(
    kernels: dict[str, float], has_inputs: bool, native: Native, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of("prefill", "bf16")
    monkeypatch.setattr(torch_session, "supports", lambda *_: has_inputs)
    session._loaded.device = torch.device("cuda", 0)
    executed = session._judge(kernels)
    assert executed.native is native
    assert said in executed.how
    assert executed.how.startswith("bf16: ")


@pytest.mark.parametrize(
    ("precision", "own", "other", "native"),
    [
        ("int8", 5.0, 95.0, Native.EMULATED),
        ("int8", 95.0, 5.0, Native.NATIVE),
        ("int8-weight-only", 5.0, 95.0, Native.EMULATED),
        ("int8-weight-only", 0.0, 95.0, Native.EMULATED),
        ("int8-weight-only", 95.0, 5.0, Native.NATIVE),
    ],
)
def test_narrow_weights_that_hardly_multiply_do_not_give_their_name_on_a_cpu(
    precision: str, own: float, other: float, native: Native, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPT-2's layers are no linear ones: its head alone is quantised, and all else stays in fp32."""
    session = session_of("prefill", precision)
    level = Slowdown(few_rows=1.0, many_rows=1.0, fp32_few_s=1e-4, fp32_many_s=1e-3)
    monkeypatch.setattr(torch_session, "measure_slowdown", lambda _: level)
    operator = {"int8": "quantized::linear_dynamic", "int8-weight-only": "aten::_weight_int8pack_mm"}[precision]
    executed = session._judge({"aten::addmm": other, operator: own})
    assert executed.native is native
    assert f"{own / (own + other):.0%} of the products' time in its own operators" in executed.how
