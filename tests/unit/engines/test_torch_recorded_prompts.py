"""Prompts read padded, through a few recorded lengths: the answers are those of the model as it comes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.model.contract import Contract
from lynxbench.model.job import Job
from lynxbench.model.precision import Precision

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers.cache_utils import DynamicCache, StaticCache, StaticLayer  # noqa: E402

from lynxbench.engines.torch import TorchAdapter, language_tasks, recorded_prompts  # noqa: E402
from lynxbench.engines.torch.narrow_cache import narrow_static_cache  # noqa: E402
from lynxbench.engines.torch.recorded_prompts import (  # noqa: E402
    LEAST_STEP,
    STEPS_AN_OCTAVE,
    RecordedPrompts,
    can_be_padded,
    recorded_lengths,
)

pytestmark = pytest.mark.usefixtures("few_words")
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Unrecorded:
    """Stands where calls are recorded: every one is made, with the shapes that a recording would be looked up by."""

    def __init__(self, call: Any, *_: Any) -> None:
        self._call = call
        self.shapes: set[tuple[int, ...]] = set()

    def __call__(self, **arguments: Any) -> Any:
        self.shapes.add(tuple(arguments["input_ids"].shape))
        return self._call(**arguments)


def session_of(device: str = "cpu", lengths: tuple[int, int] = (3, 60), **engine_keys: str) -> Any:
    low, high = lengths
    document = {
        "lynxbench": 1,
        "name": "small",
        "question": "are the answers the same?",
        "regime": "latency",
        "workload": {
            "task": "generate",
            "model": {"source": "preset", "name": "smollm2-135m", "layers": 2},
            "precisions": ["fp32"],
            "batch": 2,
            "input_tokens": {"distribution": "uniform", "low": low, "high": high},
            "output_tokens": {"distribution": "uniform", "low": 1, "high": 9},
        },
        "engine": {"name": "torch", "device": device, **engine_keys},
    }
    contract = Contract.model_validate_json(json.dumps(document))
    return TorchAdapter().open(Job(index=0, restart=0, contract=contract, precision=Precision.FP32, threads=1))


def answers(session: Any, steps: int) -> list[list[list[int]]]:
    taken = []
    for index in range(steps):
        session.step(index)
        taken.append(session._work.last_tokens)
    return taken


@given(st.integers(1, 5000), st.integers(0, 5000))
def test_every_length_has_one_recorded_that_adds_an_eighth_at_the_most(low: int, more: int) -> None:
    lengths = recorded_lengths(low, low + more)
    assert list(lengths) == sorted(set(lengths))
    assert lengths[-1] == low + more
    for length in {low, low + more // 3, low + more}:
        padded = next(recorded for recorded in lengths if recorded >= length)
        assert padded - length < max(LEAST_STEP, length / STEPS_AN_OCTAVE + 1)
    assert sum(recorded < low for recorded in lengths) == 0
    octaves = (low + more).bit_length() - low.bit_length() + 1
    assert len(lengths) <= (octaves + 1) * STEPS_AN_OCTAVE


def test_a_fixed_length_is_recorded_as_it_is() -> None:
    assert recorded_lengths(2048, 2048) == (2048,)
    assert recorded_lengths(5, 5) == (5,)


@pytest.mark.parametrize("attention", ["sdpa", "grouped", "eager"])
def test_padded_prompts_get_the_answers_of_the_model_as_it_comes(
    monkeypatch: pytest.MonkeyPatch, attention: str
) -> None:
    """Long prompts before short ones: what an earlier answer left in the cache is behind the prompt, and never read."""
    for module in (language_tasks, recorded_prompts):
        monkeypatch.setattr(module, "Replay", Unrecorded)
    plain, session = session_of(attention=attention), session_of(attention=attention)
    session._work.replay()
    assert answers(session, 24) == answers(plain, 24)
    recorded = session._work._recorded
    asked = {tuple(session._work._prompt(index)["input_ids"].shape)[1] for index in range(24)}
    assert len(asked) > len(recorded.lengths), "else nothing was padded"
    assert recorded._replay.shapes == {(2, length) for length in recorded.lengths}, "all before the first step"
    facts = session.facts()
    assert facts["runtime.graph_scope"] == "decode step, and prompts"
    assert f"next of {len(recorded.lengths)} recorded lengths" in facts["demand.lengths"]
    assert plain.facts()["runtime.graph_scope"] == "none"


def test_tokens_that_the_host_reads_at_the_end_are_not_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording gives the same memory each time; the answer is read when all of its tokens are there."""

    class SameMemory(Unrecorded):
        def __call__(self, **arguments: Any) -> Any:
            token = super().__call__(**arguments)
            self.kept = getattr(self, "kept", torch.empty_like(token))
            return self.kept.copy_(token)

    for module in (language_tasks, recorded_prompts):
        monkeypatch.setattr(module, "Replay", SameMemory)
    plain, session = session_of(), session_of()
    session._work.replay()
    session._work.pace.waits = False
    assert answers(session, 6) == answers(plain, 6)


def test_a_window_that_slides_is_not_padded() -> None:
    config = session_of()._loaded.model.config
    assert can_be_padded(StaticCache(config=config, max_cache_len=16), StaticLayer)
    assert can_be_padded(narrow_static_cache(config, 16), StaticLayer)
    assert not can_be_padded(DynamicCache(config=config), StaticLayer)
    config.sliding_window, config.layer_types = 4, ["sliding_attention", "full_attention"]
    assert not can_be_padded(StaticCache(config=config, max_cache_len=16), StaticLayer)


def test_a_cache_in_eight_bits_keeps_what_reading_the_prompt_into_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_prompts, "Replay", Unrecorded)
    work = session_of()._work
    model, config = work._loaded.model, work._loaded.model.config
    prompt = torch.tensor([work._prompts.window(0, 13), work._prompts.window(1, 13)])
    caches = [narrow_static_cache(config, 32) for _ in range(2)]
    with torch.inference_mode():
        for cache in caches:
            model(input_ids=prompt, past_key_values=cache, use_cache=True)
        RecordedPrompts(model, caches[1], work._dynamic_cache, (8, 16, 24), torch.device("cpu"))(prompt)
    for plain, padded in zip(caches[0].layers, caches[1].layers, strict=True):
        assert int(padded.cumulative_length) == int(plain.cumulative_length) == 13
        assert padded.keys.dtype is torch.uint8
    first = [cache.layers[0].keys[:, :, :13] for cache in caches]
    assert torch.equal(*first), "the keys of the first layer depend on no attention"


@cuda
@pytest.mark.parametrize("graph", ["cuda-graph", "compile-cuda-graph"])
def test_recorded_on_a_device_the_answers_are_the_same(graph: str) -> None:
    plain = session_of("cuda", attention="grouped")
    session = session_of("cuda", attention="grouped", graph=graph)
    session.compile()
    assert answers(session, 12) == answers(plain, 12)
