"""What a graph answers on fixed inputs: labelled sentences where it can be given words, seeded numbers otherwise."""

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lynxbench.engines.onnx.onnx_inputs import Feed, GraphInput, axis_kinds, feeds_sha256
from lynxbench.model.samples import Outputs
from lynxbench.workload.texts import POLARITY, bundled_sha256, read_polarity

Array = npt.NDArray[np.generic]
Run = Callable[[list[str], Feed], Sequence[Any]]

_FED_BY_WORDS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
LONGEST_SENTENCE = 64
"""The bundled sentences have at most 110 characters; a longer encoding means a tokenizer that does not fit."""


def embed_polarity(
    tokenizer: Path, signatures: Sequence[GraphInput], batch: int, name: str, run: Run
) -> Outputs | None:
    """Vectors of the bundled sentences with their labels and the half each belongs to (split 1 is the one scored).

    None where the graph wants other inputs or `tokenizers` is missing.
    """
    if importlib.util.find_spec("tokenizers") is None or any(s.name not in _FED_BY_WORDS for s in signatures):
        return None
    from tokenizers import Tokenizer

    fixed = {axis for s in signatures for axis in axis_kinds(s)[1:] if isinstance(axis, int)}
    encoder = Tokenizer.from_file(str(tokenizer))
    encoder.enable_truncation(LONGEST_SENTENCE if not fixed else min(fixed))
    encoder.enable_padding(length=min(fixed) if fixed else None)
    sentences = read_polarity()
    parts = []
    for start in range(0, len(sentences), batch):
        texts = [sentence.text for sentence in sentences[start : start + batch]]
        encodings = encoder.encode_batch(texts + texts[-1:] * (batch - len(texts)))  # a fixed batch is filled up
        feed = {s.name: np.array([getattr(e, _FED_BY_WORDS[s.name]) for e in encodings], s.dtype) for s in signatures}
        parts.append(pooled(np.asarray(run([name], feed)[0]), feed)[: len(texts)])
    arrays: dict[str, Array] = {
        "vectors": np.concatenate(parts).astype(np.float32),
        "labels": np.array([sentence.label for sentence in sentences], np.int8),
        "split": np.array([sentence.is_test for sentence in sentences], np.int8),
    }
    inputs = f"{len(sentences)} bundled sentences labelled by polarity, sha256 {bundled_sha256(POLARITY)}"
    return Outputs(kind="embedding", arrays=arrays, inputs=inputs)


def answer_seeded(feeds: Sequence[Feed], name: str, run: Run, *, embeds: bool) -> Outputs:
    """One output's answers on seeded inputs, as embeddings, class scores or plain values by their shape."""
    answers = [np.asarray(run([name], feed)[0]) for feed in feeds]
    shaped = [pooled(answer, feed) if embeds else answer for answer, feed in zip(answers, feeds, strict=True)]
    flat = [a.reshape(a.shape[0] if a.ndim else 1, -1).astype(np.float32) for a in shaped]
    inputs = f"{sum(len(a) for a in flat)} seeded inputs by the graph's signature, sha256 {feeds_sha256(feeds)}"
    if len({a.shape[1] for a in flat}) != 1:  # answers of different lengths share no columns
        return Outputs(kind="values", arrays={"values": np.concatenate([a.ravel() for a in flat])}, inputs=inputs)
    stacked = np.concatenate(flat)
    if embeds:
        return Outputs(kind="embedding", arrays={"vectors": stacked}, inputs=inputs)
    if shaped[0].ndim == 2 and stacked.shape[1] > 1:
        return Outputs(kind="classes", arrays={"scores": stacked}, inputs=inputs)
    return Outputs(kind="values", arrays={"values": stacked}, inputs=inputs)


def pooled(answer: Array, feed: Feed) -> Array:
    """Mean over the positions that the mask keeps: what sentence encoders do with token vectors."""
    if answer.ndim != 3:
        return answer
    mask = next((value for name, value in feed.items() if "mask" in name and value.shape == answer.shape[:2]), None)
    weight = np.ones(answer.shape[:2]) if mask is None else mask.astype(np.float64)
    total = (answer.astype(np.float64) * weight[..., None]).sum(axis=1)
    return np.asarray(total / weight.sum(axis=1, keepdims=True))
