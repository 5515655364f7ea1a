"""Attention without repeated keys and products made one: against the formula in 64 bits, and against the library."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from lynxbench.errors import CannotRun
from lynxbench.model.contract import Attention, Contract
from lynxbench.model.job import Job
from lynxbench.model.precision import Precision
from lynxbench.model.workload import Task

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lynxbench.engines.torch import TorchAdapter  # noqa: E402
from lynxbench.engines.torch.grouped_attention import (  # noqa: E402
    OF_THE_LIBRARY,
    SWITCHES,
    attend_by_scores,
    attend_grouped,
    attend_in_pieces,
    choose_attention,
    masks_by,
    pieces_of,
)
from lynxbench.engines.torch.library import KNOWN, import_config_class, import_model_class  # noqa: E402
from lynxbench.engines.torch.merged_projections import merge_projections  # noqa: E402

pytestmark = pytest.mark.usefixtures("few_words")

BATCH, HEADS, SHARED, SIZE = 2, 6, 2, 8


def session_of(task: str, attention: str, model: str = "smollm2-135m", **engine_keys: str) -> Any:
    document = {
        "lynxbench": 1,
        "name": "small",
        "question": "does it attend?",
        "regime": "latency",
        "workload": {
            "task": task,
            "model": {"source": "preset", "name": model, "layers": 2},
            "precisions": ["fp32"],
            "batch": 2,
            "input_tokens": {"distribution": "fixed", "value": 12},
            **({"output_tokens": {"distribution": "fixed", "value": 4}} if task == "generate" else {}),
        },
        "engine": {"name": "torch", "device": "cpu", "attention": attention, **engine_keys},
    }
    contract = Contract.model_validate_json(json.dumps(document))
    session = TorchAdapter().open(Job(index=0, restart=0, contract=contract, precision=Precision.FP32, threads=2))
    session.compile()
    return session


def operands(queries: int, keys: int) -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(queries * 100 + keys)
    shapes = ((HEADS, queries), (SHARED, keys), (SHARED, keys))
    query, key, value = (torch.randn(BATCH, heads, length, SIZE, generator=generator) for heads, length in shapes)
    return query, key, value


def by_formula(query: Any, key: Any, value: Any, seen: Any) -> Any:
    """softmax(q·kᵀ/√d)·v in 64 bits, one head at a time; `seen` says which keys a position may look at."""
    out = torch.empty(*query.shape[:3], SIZE, dtype=torch.float64)
    for head in range(HEADS):
        shared = head // (HEADS // SHARED)
        scores = query[:, head].double() @ key[:, shared].double().transpose(1, 2) / SIZE**0.5
        weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
        out[:, head] = weights @ value[:, shared].double()
    return out


@pytest.fixture(autouse=True)
def _switches() -> Any:
    yield
    choose_attention(Attention.SDPA, compiled=False)


@pytest.mark.parametrize("attend", [attend_grouped, attend_by_scores])
def test_one_position_over_a_part_of_a_cache(attend: Any) -> None:
    query, key, value = operands(1, 9)
    seen = torch.arange(9) < 5
    mask = seen.expand(BATCH, 1, 1, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # flex_attention says that nothing compiled it
        y = attend(query, key, value, mask)
    torch.testing.assert_close(y.double(), by_formula(query, key, value, seen), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_a_prompt_looks_back_and_an_encoder_both_ways(causal: bool) -> None:
    query, key, value = operands(7, 7)
    seen = torch.ones(7, 7, dtype=torch.bool).tril() if causal else torch.ones(7, 7, dtype=torch.bool)
    y = attend_grouped(query, key, value, None, causal=causal)
    torch.testing.assert_close(y.double(), by_formula(query, key, value, seen), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("attention", ["grouped", "math"])
@pytest.mark.parametrize("task", ["prefill", "decode", "generate"])
def test_a_decoder_says_the_same_as_with_the_library(task: str, attention: str) -> None:
    plain, own = session_of(task, "sdpa"), session_of(task, attention)
    a, b = plain.outputs().arrays["logits"], own.outputs().arrays["logits"]
    assert float(np.linalg.norm(a - b) / np.linalg.norm(a)) < 1e-5
    for index in range(3):
        assert plain.step(index) == own.step(index)
        if task == "generate":
            assert plain._work.last_tokens == own._work.last_tokens
        elif task == "decode":
            assert plain._work._token.tolist() == own._work._token.tolist()


def test_an_encoder_leaves_its_padding_out() -> None:
    plain, own = (session_of("embed", word, "minilm-l6") for word in ("sdpa", "grouped"))
    a, b = plain.outputs().arrays["vectors"], own.outputs().arrays["vectors"]
    assert float(np.abs(a - b).max()) < 1e-5


def test_what_lies_behind_the_context_in_a_fixed_cache_is_never_read() -> None:
    clean, planted = session_of("decode", "grouped"), session_of("decode", "grouped")
    known = int(planted._work._lengths[0])
    with torch.inference_mode():
        for layer in planted._work._cache.layers:
            layer.keys[:, :, known:] = 1e4
            layer.values[:, :, known:] = 1e4
    for index in range(5):
        clean.step(index)
        planted.step(index)
        assert planted._work._token.tolist() == clean._work._token.tolist()


def test_masks_are_made_only_where_they_are_needed() -> None:
    make_mask = masks_by(import_module("transformers.masking_utils").sdpa_mask)
    usual = {"batch_size": 1, "kv_length": 8, "kv_offset": 0, "device": "cpu"}
    assert make_mask(q_length=8, q_offset=0, **usual) is None
    assert make_mask(q_length=4, q_offset=torch.tensor(0), **usual) is None
    continued = make_mask(q_length=4, q_offset=2, **usual)
    assert continued is not None
    assert continued[0, 0].int().sum(-1).tolist() == [3, 4, 5, 6]
    one_more = make_mask(q_length=1, q_offset=torch.tensor(5), allow_is_causal_skip=False, **usual)
    assert one_more is not None
    assert one_more[0, 0, 0].tolist() == [True] * 6 + [False] * 2
    assert make_mask(q_length=8, allow_is_causal_skip=False, allow_is_bidirectional_skip=True, **usual) is None
    padded = torch.tensor([[True] * 6 + [False] * 2])
    assert make_mask(q_length=8, q_offset=0, attention_mask=padded, **usual) is not None
    window = make_mask(q_length=8, q_offset=0, local_size=3, **usual)
    assert window is not None, "a sliding window is no plain causal mask"


def test_a_named_kernel_is_the_only_one_left_on() -> None:
    choose_attention(Attention.EFFICIENT, compiled=False)
    on = {word for word in SWITCHES if getattr(torch.backends.cuda, f"{word}_sdp_enabled")()}
    assert on == {"mem_efficient"}
    choose_attention(Attention.GROUPED, compiled=False)
    assert all(getattr(torch.backends.cuda, f"{word}_sdp_enabled")() for word in SWITCHES)


@pytest.mark.parametrize("attention", [word for word in Attention if word not in OF_THE_LIBRARY])
def test_the_library_is_never_told_of_flash(attention: Attention) -> None:
    """It takes a name with that word in it for a package of its own, and looks for it."""
    assert "flash" not in choose_attention(attention, compiled=True)


@pytest.mark.parametrize(("attention", "said"), [("flex", "flex is compiled"), ("cudnn", "no cudnn kernel")])
def test_a_kernel_that_is_not_there_is_refused_before_anything_is_timed(attention: str, said: str) -> None:
    with pytest.raises(CannotRun, match=rf"engine\.attention: .*{said}") as caught:
        session_of("decode", attention)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("word", ["softcap", "position_bias", "s_aux"])
def test_a_model_that_changes_its_scores_is_refused(word: str) -> None:
    choose_attention(Attention.GROUPED, compiled=False)
    from transformers.modeling_utils import AttentionInterface

    attend = AttentionInterface()["lynxbench-grouped"]
    with pytest.raises(CannotRun, match=f"changes its scores by {word}"):
        attend(None, *operands(1, 4), None, **{word: 30.0})


def test_results_say_whose_attention_it_was() -> None:
    assert session_of("prefill", "sdpa").facts()["runtime.attention"] == "sdpa"
    assert "not repeated" in session_of("prefill", "grouped").facts()["runtime.attention"]


@pytest.mark.slow
@pytest.mark.usefixtures("light_compiler")
def test_a_compiled_step_says_the_same() -> None:
    """Compiled in earnest, judged by the step itself, against the library's attention as it comes."""
    counters = import_module("torch._dynamo.utils").counters
    plain = session_of("decode", "sdpa")
    before = sum(counters["graph_break"].values())
    compiled = session_of("decode", "grouped", graph="compile")
    assert sum(counters["graph_break"].values()) == before, dict(counters["graph_break"])
    a, b = plain.outputs().arrays["logits"], compiled.outputs().arrays["logits"]
    assert float(np.linalg.norm(a - b) / np.linalg.norm(a)) < 1e-4
    assert compiled.facts()["runtime.graph"] == "compile"


# --- a cache in pieces ---


@pytest.mark.parametrize("pieces", [2, 3, 9])
@pytest.mark.parametrize("known", [1, 70, 288, 575, 576])
def test_pieces_add_up_to_the_whole(pieces: int, known: int) -> None:
    """Also where whole pieces lie behind the context: they weigh nothing, and nothing becomes NaN."""
    query, key, value = operands(1, 576)
    rows = query.reshape(BATCH, SHARED, HEADS // SHARED, SIZE)
    mask = (torch.arange(576) < known).expand(BATCH, 1, 1, 576)
    y = attend_in_pieces(rows, key, value, mask, pieces, None).reshape(BATCH, HEADS, 1, SIZE)
    expected = by_formula(query, key, value, torch.arange(576) < known)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)


def test_pieces_stay_in_the_range_of_sixteen_bits() -> None:
    query, key, value = (tensor.bfloat16() for tensor in operands(1, 128))
    rows = query.reshape(BATCH, SHARED, HEADS // SHARED, SIZE)
    mask = (torch.arange(128) < 3).expand(BATCH, 1, 1, 128)
    y = attend_in_pieces(rows, key, value, mask, 2, None).reshape(BATCH, HEADS, 1, SIZE)
    expected = by_formula(query, key, value, torch.arange(128) < 3)
    assert float((y.double() - expected).norm() / expected.norm()) < 0.01


@pytest.mark.parametrize(
    ("positions", "at_once", "pieces"),
    [(576, 8, 9), (576, 512, 1), (576, 64, 2), (64, 8, 1), (577, 8, 1), (4096, 8, 16)],
)
def test_pieces_fill_the_device_and_no_more(positions: int, at_once: int, pieces: int) -> None:
    assert pieces_of(positions, at_once) == pieces


# --- products of one input as one ---


SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
LANGUAGE = SMALL | {"vocab_size": 128, "num_key_value_heads": 2}
ARCHITECTURES: dict[str, tuple[Task, dict[str, Any], int]] = {
    "llama": (Task.DECODE, LANGUAGE, 4),
    "mistral": (Task.DECODE, LANGUAGE, 4),
    "qwen2": (Task.DECODE, LANGUAGE, 4),  # with biases
    "bert": (Task.CLASSIFY, SMALL | {"vocab_size": 128}, 0),
    "vit": (Task.CLASSIFY, SMALL | {"image_size": 32, "patch_size": 8}, 2),
    "resnet": (Task.CLASSIFY, {"embedding_size": 8, "hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1]}, 0),
}
"""By the library's word: a task, a small shape, and how many products become one."""


def test_every_known_architecture_is_tried() -> None:
    assert set(ARCHITECTURES) == set(KNOWN)


@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
def test_merged_products_say_the_same(architecture: str) -> None:
    task, shape, count = ARCHITECTURES[architecture]
    made = []
    for _ in range(2):
        torch.manual_seed(7)
        made.append(import_model_class(architecture, task)(import_config_class(architecture)(**shape)).eval())
    parameters = sum(parameter.numel() for parameter in made[0].parameters())
    assert merge_projections(made[1]) == count
    assert sum(parameter.numel() for parameter in made[1].parameters()) == parameters
    ids, pixels = {"input_ids": torch.arange(24).reshape(2, 12)}, {"pixel_values": torch.randn(2, 3, 32, 32)}
    asked = pixels if architecture in ("vit", "resnet") else ids
    with torch.inference_mode():
        for _ in range(2):  # what was laid down in one call does not reach the next
            plain, merged = (one(**asked).logits for one in made)
            torch.testing.assert_close(merged, plain, rtol=1e-4, atol=1e-5)
    assert not [part for module in made[1].modules() for part in getattr(module, "laid_down", [])]


def test_unlike_layers_are_left_alone() -> None:
    class Odd(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.gate_proj = torch.nn.Linear(4, 8, bias=False)
            self.up_proj = torch.nn.Linear(6, 8, bias=False)
            self.q_proj = torch.nn.Linear(4, 4, bias=True)
            self.k_proj = torch.nn.Linear(4, 4, bias=False)
            self.v_proj = torch.nn.Linear(4, 4, bias=True)

    assert merge_projections(Odd()) == 0
