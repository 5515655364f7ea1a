"""One step of a small retrieval service: texts are encoded, the nearest in each shard is found, finds are scored.

Four libraries take part in each step, so that a newer version of any of them can show: tokenizers cuts, PyTorch
encodes, numpy looks up, onnxruntime scores. All weights are random and seeded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

QUERIES, TOKENS, VOCABULARY, WIDTH = 64, 4, 4096, 128
SHARDS, SHARD, HIDDEN = 8, 2048, 128
INPUTS = 32
"""Batches of queries, used in turn."""


class RetrievalStep:
    """Cut, encode, look up, score."""

    unit = "request"

    def setup(self, seed: int = 0, threads: int = 1) -> None:
        """Make the tokenizer, the encoder, the index and the scorer, once."""
        import torch
        from tokenizers import Tokenizer, models, pre_tokenizers

        torch.manual_seed(seed)
        torch.set_num_threads(threads)
        self._torch = torch
        words = {f"word{number}": number for number in range(VOCABULARY)}
        self._tokenizer = Tokenizer(models.WordLevel(words, unk_token="word0"))
        self._tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        self._table = torch.nn.Embedding(VOCABULARY, WIDTH)
        self._encoder = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True).eval()
        random = np.random.default_rng(seed)
        self._index: Array = random.standard_normal((SHARDS * SHARD, WIDTH), dtype=np.float32)
        drawn = random.integers(0, VOCABULARY, (INPUTS, QUERIES, TOKENS))
        self._texts = [[" ".join(f"word{number}" for number in text) for text in batch] for batch in drawn]
        self._scorer = _scorer(random, threads)

    def __call__(self, index: int) -> int:
        """One batch of texts to its end; the requests that it held."""
        self.answer(index)
        return QUERIES

    def answer(self, index: int) -> Array:
        """The score of the best find of each text."""
        tokens = [self._tokenizer.encode(text).ids for text in self._texts[index % INPUTS]]
        with self._torch.inference_mode():
            states = self._encoder(self._table(self._torch.tensor(tokens)))
        queries: Array = states.mean(dim=1).numpy()
        near = (queries @ self._index.T).reshape(QUERIES, SHARDS, SHARD)
        found = near.argmax(axis=2) + SHARD * np.arange(SHARDS)
        pairs = np.concatenate([np.repeat(queries[:, None], SHARDS, axis=1), self._index[found]], axis=2)
        (scores,) = self._scorer.run(None, {"pairs": pairs.reshape(QUERIES * SHARDS, 2 * WIDTH)})
        best: Array = scores.reshape(QUERIES, SHARDS).max(axis=1)
        return best

    def outputs(self) -> Array:
        """Answers to the first inputs, for accuracy."""
        return np.stack([self.answer(index) for index in range(4)])


def _scorer(random: np.random.Generator, threads: int) -> Any:
    """A scorer of two layers as an ONNX model in memory."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    layers = {"first": (2 * WIDTH, HIDDEN), "second": (HIDDEN, 1)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape, dtype=np.float32) / np.float32(shape[0] ** 0.5), name)
        for name, shape in layers.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["pairs", "first"], ["mixed"]),
        helper.make_node("Relu", ["mixed"], ["kept"]),
        helper.make_node("MatMul", ["kept", "second"], ["scores"]),
    ]
    inputs = [helper.make_tensor_value_info("pairs", TensorProto.FLOAT, [None, 2 * WIDTH])]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, 1])]
    graph = helper.make_graph(nodes, "scorer", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


retrieval = RetrievalStep()
