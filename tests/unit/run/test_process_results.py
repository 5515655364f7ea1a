"""The least work of a step from its contract, against figures worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lynxbench.model.contract import Contract
from lynxbench.run.process_results import least_work

PARAMETERS = 8_030_261_248
TABLE = 128_256 * 4096
QUANTISED = 6_979_321_856
FACTS: dict[str, Any] = {
    "application.parameters": PARAMETERS,
    "application.quantised_parameters": 0,
    "application.weights_dtype": "bfloat16",
}


def contract(task: str = "decode", batch: int = 1, tokens: int = 512, **model: Any) -> Contract:
    document = {
        "lynxbench": 1,
        "name": "work",
        "question": "How long does a step take?",
        "regime": "latency",
        "workload": {
            "task": task,
            "model": {"source": "preset", "name": "llama-3.1-8b"} | model,
            "precisions": ["bf16"],
            "batch": batch,
            "input_tokens": {"distribution": "fixed", "value": tokens},
            **({"output_tokens": {"distribution": "fixed", "value": 8}} if task == "generate" else {}),
            "seed": 1,
        },
        "engine": {"name": "torch", "device": "cuda"},
    }
    return Contract.model_validate_json(json.dumps(document))


def test_decode_reads_the_weights_and_the_cache_but_not_the_embeddings() -> None:
    work = least_work(contract(batch=8), FACTS)
    assert work is not None
    cache = 8 * 512 * 32 * 2 * 8 * 128 * 2
    assert work.read_bytes == (PARAMETERS - TABLE) * 2 + cache
    assert work.operations == 2 * 8 * (PARAMETERS - TABLE)
    assert "8 × 512 tokens" in work.how


def test_quantised_weights_take_one_byte_each() -> None:
    work = least_work(contract(), FACTS | {"application.quantised_parameters": QUANTISED})
    assert work is not None
    rest = PARAMETERS - TABLE - QUANTISED
    assert work.read_bytes == QUANTISED + rest * 2 + 512 * 32 * 2 * 8 * 128 * 2


def test_weights_of_four_bits_take_their_part_of_a_scale_too() -> None:
    """128 weights of 4 bits with a scale and a zero point of 16 bits each: 4.25 bits a weight."""
    narrow = {"application.quantised_parameters": QUANTISED, "application.quantised_bits": 4.25}
    work = least_work(contract(), FACTS | narrow)
    assert work is not None
    rest = PARAMETERS - TABLE - QUANTISED
    assert work.read_bytes == QUANTISED // 128 * (64 + 2 + 2) + rest * 2 + 512 * 32 * 2 * 8 * 128 * 2


def test_tied_embeddings_are_read_as_the_head() -> None:
    work = least_work(contract(name="llama-3.2-1b"), FACTS | {"application.parameters": 1_235_814_400})
    assert work is not None
    assert work.read_bytes == 1_235_814_400 * 2 + 512 * 16 * 2 * 8 * 64 * 2


def test_prefill_multiplies_every_token_with_all_but_the_head() -> None:
    work = least_work(contract("prefill", batch=2, tokens=2048), FACTS)
    assert work is not None
    assert work.operations == 2.0 * 2 * 2048 * (PARAMETERS - 2 * TABLE)
    assert work.read_bytes == (PARAMETERS - TABLE) * 2


@pytest.mark.parametrize(
    "facts", [{}, FACTS | {"application.weights_dtype": "odd"}, FACTS | {"application.parameters": "many"}]
)
def test_facts_that_are_missing_or_strange_give_no_floor(facts: dict[str, Any]) -> None:
    assert least_work(contract(), facts) is None


def test_other_tasks_have_none() -> None:
    assert least_work(contract("generate"), FACTS) is None
