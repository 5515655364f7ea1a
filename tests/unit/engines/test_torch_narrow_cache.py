"""Keys and values in eight bits: what is kept, what comes back, what it does to answers, and where it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lynxbench.errors import BadInput, CannotRun
from lynxbench.model.contract import Contract
from lynxbench.model.job import Job
from lynxbench.model.precision import KvCache, Precision

torch = pytest.importorskip("torch")

from lynxbench.engines.torch import TorchAdapter  # noqa: E402
from lynxbench.engines.torch.narrow_cache import narrow, narrow_static_cache, widen  # noqa: E402

pytestmark = pytest.mark.usefixtures("few_words")


def contract_of(task: str = "decode", **engine: str) -> Contract:
    document = {
        "lynxbench": 1,
        "name": "small",
        "question": "how far off?",
        "regime": "latency",
        "workload": {
            "task": task,
            "model": {"source": "preset", "name": "smollm2-135m", "layers": 2},
            "precisions": ["fp32"],
            "input_tokens": {"distribution": "fixed", "value": 12},
            **({"output_tokens": {"distribution": "fixed", "value": 4}} if task == "generate" else {}),
        },
        "engine": {"name": "torch", "device": "cpu"} | engine,
    }
    return Contract.model_validate_json(json.dumps(document))


def session_of(contract: Contract) -> Any:
    return TorchAdapter().open(Job(index=0, restart=0, contract=contract, precision=Precision.FP32, threads=1))


def test_numbers_come_back_within_half_a_step_of_three_mantissa_bits() -> None:
    signs = torch.randn(4096, generator=torch.Generator().manual_seed(1)).sign()
    numbers = signs * torch.logspace(-1.7, 2.6, 4096)  # the smallest number with all its bits is 2 to the -6
    back = widen(narrow(numbers), torch.float32)
    assert float(((back - numbers).abs() / numbers.abs()).max()) <= 1 / 16 + 1e-6
    assert narrow(numbers).dtype is torch.uint8


def test_what_is_too_large_is_the_largest_and_not_no_number() -> None:
    back = widen(narrow(torch.tensor([1e4, -1e4, 449.0])), torch.float32)
    assert back.tolist() == [448.0, -448.0, 448.0]


def test_a_contract_that_says_nothing_keeps_its_id() -> None:
    plain, said = contract_of(), contract_of(kv_cache="computed")
    assert plain.engine.model_dump() == said.engine.model_dump()
    assert "kv_cache" not in plain.engine.model_dump()
    assert contract_of(kv_cache="fp8").engine.model_dump(mode="json")["kv_cache"] == "fp8"


def test_a_cache_in_eight_bits_takes_a_quarter_and_answers_almost_the_same() -> None:
    wide, small = session_of(contract_of()), session_of(contract_of(kv_cache="fp8"))
    kept = [sum(layer.keys.nbytes for layer in session._work._cache.layers) for session in (wide, small)]
    assert kept[1] * 4 == kept[0], "fp32 against one byte"
    assert small.facts()["runtime.kv_cache"] == "static, 76 positions, e4m3 without a scale"
    assert wide.facts()["runtime.kv_cache"] == "static, 76 positions"
    scores = []
    for session in (wide, small):
        with torch.inference_mode():
            token = torch.tensor([[7]])
            scores.append(session._loaded.model(input_ids=token, past_key_values=session._work._cache).logits[0, -1])
    apart = float((scores[1] - scores[0]).norm() / scores[0].norm())
    assert 0 < apart < 0.1, "another answer than the wide cache's, by rounding alone"
    for session in (wide, small):
        assert session.step(0) == 1


@pytest.mark.parametrize(("task", "engine"), [("prefill", {}), ("generate", {"graph": "eager"})])
def test_without_a_cache_of_fixed_size_it_is_refused(task: str, engine: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=r"engine\.kv_cache: fp8 needs a cache of fixed size: task decode"):
        session_of(contract_of(task, kv_cache=KvCache.FP8.value, **engine))


def test_layers_of_another_kind_are_refused_by_name() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.MistralConfig(
        num_hidden_layers=2, sliding_window=8, hidden_size=64, num_attention_heads=4, num_key_value_heads=2
    )
    with pytest.raises(CannotRun, match=r"engine\.kv_cache: fp8 has no form for \w*Sliding\w*"):
        narrow_static_cache(config, 32)
