"""The real SmolLM2 and MiniLM of their packages: text makes sense, perplexity is sane, eight bits stay close."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from lynxbench.engines.torch import TorchAdapter
from lynxbench.engines.torch.embed import Embed, padded
from lynxbench.engines.torch.torch_session import TorchSession
from lynxbench.errors import BadInput
from lynxbench.measure.accuracy import compare_outputs
from lynxbench.model.accuracy_asked import AccuracyAsked, LabelledTask
from lynxbench.model.contract import Contract
from lynxbench.model.precision import Precision
from lynxbench.model.samples import Outputs
from lynxbench.run.task_scoring import score_task, with_task
from lynxbench.workload.task_files import read_task

pytestmark = pytest.mark.slow

QUESTION = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


make_job = _load("test_torch_engine").make_job


def open_smollm2(precision: str) -> TorchSession:
    return TorchAdapter().open(
        make_job("generate", {"source": "package", "name": "smollm2-135m-instruct"}, precision, tokens=(32, 16))
    )


def perplexity(outputs: Outputs | None) -> float:
    assert outputs is not None
    logits = outputs.arrays["logits"].astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    scores = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return float(np.exp(-scores[np.arange(len(scores)), outputs.arrays["targets"]].mean()))


@pytest.fixture(scope="module")
def smollm2() -> TorchSession:
    return open_smollm2("fp32")


def test_token_ids_of_a_known_sentence_go_there_and_back(smollm2: TorchSession) -> None:
    tokenizer = smollm2._loaded.tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode("The capital of France is Paris.").ids
    assert ids == [504, 3575, 282, 4649, 314, 7042, 30]
    assert tokenizer.decode(ids) == "The capital of France is Paris."


def test_greedy_text_makes_sense(smollm2: TorchSession) -> None:
    work, tokenizer = smollm2._work, smollm2._loaded.tokenizer
    assert tokenizer is not None
    with torch.inference_mode():
        (answer,) = work._run(torch.tensor([tokenizer.encode(QUESTION).ids]), 8, [])  # type: ignore[attr-defined]
    assert tokenizer.decode(answer).startswith("The capital of France is Paris.")


def test_a_step_produces_exactly_what_the_contract_asks(smollm2: TorchSession) -> None:
    smollm2.marks.clear()
    assert smollm2.step(3) == 16
    assert len(smollm2.marks) == 16
    smollm2.marks.clear()


def test_perplexity_is_sane_and_eight_bits_stay_close(smollm2: TorchSession) -> None:
    reference = perplexity(smollm2.outputs())
    assert 5 < reference < 40
    assert perplexity(open_smollm2("int8-weight-only").outputs()) == pytest.approx(reference, rel=0.04)
    # A CPU that adds pairs of products in sixteen bits leaves seven bits to an activation.
    close = 0.04 if torch.cpu._is_vnni_supported() else 0.15
    assert perplexity(open_smollm2("int8").outputs()) == pytest.approx(reference, rel=close)


def test_the_facts_name_the_package_and_its_hash(smollm2: TorchSession) -> None:
    facts = smollm2.facts()
    assert facts["application.parameters"] == 134_515_008
    assert str(facts["application.model_sha256"]).startswith("b179c952")
    assert facts["application.model_licence"] == "Apache-2.0"


@pytest.fixture(scope="module")
def minilm() -> TorchSession:
    return TorchAdapter().open(make_job("embed", {"source": "package", "name": "all-minilm-l6-v2"}, batch=4))


def test_similar_sentences_are_nearer_than_dissimilar_ones(minilm: TorchSession) -> None:
    tokenizer, work, device = minilm._loaded.tokenizer, minilm._work, minilm._loaded.device
    assert isinstance(work, Embed)
    assert tokenizer is not None
    texts = [
        "A man is playing a guitar.",
        "Someone plays a musical instrument.",
        "The stock market fell sharply today.",
    ]
    rows = [list(tokenizer.encode(text).ids) for text in texts]
    vectors = work._embed(padded(rows, device), minilm._loaded.model)
    similar, dissimilar = float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
    assert similar > 0.5 > dissimilar + 0.2
    alone = work._embed(padded(rows[:1], device), minilm._loaded.model)
    assert torch.allclose(alone[0], vectors[0], atol=1e-5)  # padding beside longer sentences changes nothing


def test_vectors_tell_polarity_and_eight_bits_do_too(minilm: TorchSession) -> None:
    reference = minilm.outputs()
    assert reference is not None
    assert np.allclose(np.linalg.norm(reference.arrays["vectors"], axis=1), 1, atol=1e-4)
    quantised = (
        TorchAdapter().open(make_job("embed", {"source": "package", "name": "all-minilm-l6-v2"}, "int8")).outputs()
    )
    assert quantised is not None
    for outputs in (reference, quantised):
        vectors, labels = outputs.arrays["vectors"].astype(np.float64), outputs.arrays["labels"]
        test = outputs.arrays["split"] == 1
        centres = [vectors[~test & (labels == label)].mean(axis=0) for label in (0, 1)]
        guessed = (vectors[test] @ (centres[1] - centres[0])) > (centres[1] @ centres[1] - centres[0] @ centres[0]) / 2
        assert np.mean(guessed == labels[test]) > 0.7
    cosine = np.sum(reference.arrays["vectors"] * quantised.arrays["vectors"], axis=1)
    assert cosine.mean() > 0.99


def test_exact_lengths_include_the_special_tokens(minilm: TorchSession) -> None:
    assert minilm._work._frame == ([101], [102])  # type: ignore[attr-defined]
    assert minilm.step(0) == 4


def test_labelled_prompts_are_answered_and_choices_weighed(smollm2: TorchSession, tmp_path: Path) -> None:
    file = tmp_path / "task.jsonl"
    file.write_text(
        '{"prompt": "The capital of France is", "choices": ["Paris", "cheese"], "answer": 0}\n'
        '{"prompt": "The capital of France is", "choices": ["cheese", "Paris"], "answer": 0}\n'
    )
    answerer = smollm2.answerer()
    task = LabelledTask(file=str(file), scorer="choice")
    assert score_task(task, read_task(task), answerer).marks.tolist() == [1, 0]
    (text,) = answerer.texts([read_task(task).prompts[0]], 3)
    assert text is not None
    assert text.startswith("Paris")
    outputs = Outputs("logits", {"logits": np.zeros((2, 4)), "targets": np.zeros(2, np.int64)}, "two")
    contract = Contract.model_construct(accuracy=AccuracyAsked(task=task), engine=smollm2._engine)
    scored = with_task(contract, smollm2, outputs)
    accuracy = compare_outputs(None, scored, None, reference_precision=Precision.FP32, is_reference=True)
    assert (accuracy.metrics["task"], accuracy.task_metric) == (0.5, "share of labelled prompts right")
    file.write_text('{"messages": [{"role": "user", "content": "hi"}], "answer": "a"}\n')
    chat = LabelledTask(file=str(file))
    with pytest.raises(BadInput, match="chat template"):
        score_task(chat, read_task(chat), answerer)
