"""Second steps for `attribution_structure.py`, written without a look at the rules, judged first by edition 14.

Kinds of waste that no earlier set has: tables that only move or scale, decompositions of which little is read, powers
one by one, batches that repeat a sample, numbers too small for the processor, the host's own files and threads. And
healthy twins of kinds that no earlier set has.
"""

from __future__ import annotations

import copy
import json
import math
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from attribution_structure_steps import N, Step, draw

# --- tables that only move or scale -----------------------------------------------------------------------------------


def _products() -> dict[str, Any]:
    return {"x": draw(N, N), "w": draw(N, N) / math.sqrt(N), "scale": draw(N), "order": torch.randperm(N)}


def _scaled(s: Any, _: int) -> Any:
    return torch.diag(s.scale) @ s.x @ s.w


def _scaled_fixed(s: Any, _: int) -> Any:
    return (s.scale[:, None] * s.x) @ s.w


def _shuffled(s: Any, _: int) -> Any:
    return torch.eye(N)[s.order] @ s.x


def _shuffled_fixed(s: Any, _: int) -> Any:
    return s.x[s.order]


def _blocks() -> dict[str, Any]:
    return {"parts": list(draw(16, 64, 64)), "x": draw(512, 1024)}


def _blocked(s: Any, _: int) -> Any:
    return s.x @ torch.block_diag(*s.parts)


def _blocked_fixed(s: Any, _: int) -> Any:
    return torch.einsum("bnk,nkm->bnm", s.x.unflatten(1, (16, 64)), torch.stack(s.parts)).flatten(1)


# --- more computed than is read ---------------------------------------------------------------------------------------


def _tokens() -> dict[str, Any]:
    return {"hidden": list(draw(8, 4, 128, 256)), "head": draw(256, 4096) / 16.0}


def _all_logits(s: Any, index: int) -> Any:
    return (s.hidden[index % 8] @ s.head)[:, -1].softmax(-1)


def _all_logits_fixed(s: Any, index: int) -> Any:
    return (s.hidden[index % 8][:, -1] @ s.head).softmax(-1)


def _symmetric() -> dict[str, Any]:
    half = draw(8, 320, 320)
    return {"many": list(half @ half.transpose(1, 2)), "sides": list(draw(8, 320))}


def _spectrum(s: Any, index: int) -> Any:
    values, _ = torch.linalg.eigh(s.many[index % 8])
    return values


def _spectrum_fixed(s: Any, index: int) -> Any:
    return torch.linalg.eigvalsh(s.many[index % 8])


def _inverted(s: Any, index: int) -> Any:
    return torch.linalg.inv(s.many[index % 8] + 320 * torch.eye(320)) @ s.sides[index % 8]


def _inverted_fixed(s: Any, index: int) -> Any:
    return torch.linalg.solve(s.many[index % 8] + 320 * torch.eye(320), s.sides[index % 8])


def _chain() -> dict[str, Any]:
    return {"many": list(torch.softmax(draw(8, 448, 448), dim=1))}


def _powered(s: Any, index: int) -> Any:
    matrix = s.many[index % 8]
    out = matrix
    for _ in range(15):
        out = out @ matrix
    return out


def _powered_fixed(s: Any, index: int) -> Any:
    return torch.linalg.matrix_power(s.many[index % 8], 16)


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)).requires_grad_(False)


def _prompts() -> dict[str, Any]:
    return {"model": _model(), "prompts": list(draw(8, 1, 512))}


def _sampled(s: Any, index: int) -> Any:
    return s.model(s.prompts[index % 8].repeat(256, 1))


def _sampled_fixed(s: Any, index: int) -> Any:
    return s.model(s.prompts[index % 8]).expand(256, -1)


def _padded_words() -> dict[str, Any]:
    return {
        "q": list(draw(8, 4, 4, 384, 32)), "length": 96,
        "mask": torch.zeros(384).masked_fill_(torch.arange(384) >= 96, float("-inf")),
    }  # fmt: skip


def _padded(s: Any, index: int) -> Any:
    q = s.q[index % 8]
    return functional.scaled_dot_product_attention(q, q, q, attn_mask=s.mask.expand(384, 384))[:, :, : s.length]


def _padded_fixed(s: Any, index: int) -> Any:
    q = s.q[index % 8][:, :, : s.length]
    return functional.scaled_dot_product_attention(q, q, q)


def _pictures() -> dict[str, Any]:
    return {"pictures": list(draw(8, 4, 32, 40, 40)), "filters": draw(32, 32, 3, 3) / 17.0}


def _unfolded(s: Any, index: int) -> Any:
    columns = functional.unfold(s.pictures[index % 8], 3, padding=1)
    return (s.filters.flatten(1) @ columns).unflatten(2, (40, 40))


def _unfolded_fixed(s: Any, index: int) -> Any:
    return functional.conv2d(s.pictures[index % 8], s.filters, padding=1)


def _smoothed(s: Any, index: int) -> Any:
    return s.signals[index % 8].unfold(1, 128, 1).mean(2)


def _smoothed_fixed(s: Any, index: int) -> Any:
    sums = functional.pad(s.signals[index % 8].cumsum(1), (1, 0))
    return (sums[:, 128:] - sums[:, :-128]) / 128


# --- numbers and formats ----------------------------------------------------------------------------------------------


def _filters() -> dict[str, Any]:
    return {"state": torch.full((1 << 20,), 1e-39), "usual": torch.full((1 << 20,), 1e-3)}


def _denormal(s: Any, _: int) -> Any:
    out = s.state
    for _ in range(12):
        out = out * 0.9 + s.state
    return out


def _denormal_fixed(s: Any, _: int) -> Any:
    out = s.usual
    for _ in range(12):
        out = out * 0.9 + s.usual
    return out


def _halves() -> dict[str, Any]:
    return {"many": list(draw(8, 256, 2048))}


def _promoted(s: Any, index: int) -> Any:
    scale = torch.tensor(0.5, dtype=torch.float64).expand(2048)
    return torch.tanh(s.many[index % 8] * scale).exp().sum(1)


def _promoted_fixed(s: Any, index: int) -> Any:
    return torch.tanh(s.many[index % 8] * 0.5).exp().sum(1)


# --- the host ---------------------------------------------------------------------------------------------------------


def _kept() -> dict[str, Any]:
    return {
        "model": _model(), "x": list(draw(8, 64, 512)), "folder": Path(tempfile.mkdtemp()),
        "settings": {f"layer-{layer}": {"rows": list(range(400)), "name": "x" * 50} for layer in range(40)},
        "text": "the request took 12.5 ms and 800 bytes, the next took 13 ms and 900 bytes; " * 400,
    }  # fmt: skip


def _forced(s: Any, index: int) -> Any:
    out = s.model(s.x[index % 8])
    with (s.folder / "log").open("wb") as file:
        file.write(out.numpy().tobytes() * 32)
        os.fsync(file.fileno())
    return out


def _only_model(s: Any, index: int) -> Any:
    return s.model(s.x[index % 8])


def _copied(s: Any, index: int) -> Any:
    copy.deepcopy(s.settings)
    return s.model(s.x[index % 8])


def _parsed(s: Any, index: int) -> Any:
    found = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", s.text)]
    json.loads(json.dumps(found))
    return s.model(s.x[index % 8])


def _stacked(s: Any, index: int) -> Any:
    rows = s.x[index % 8]
    return torch.stack([functional.normalize(rows[row : row + 1], dim=1).sum() for row in range(64)])


def _stacked_fixed(s: Any, index: int) -> Any:
    return functional.normalize(s.x[index % 8], dim=1).sum(1)


PLANTED: dict[str, Step] = {
    "scaled": Step(_products, _scaled, _scaled_fixed),
    "shuffled": Step(_products, _shuffled, _shuffled_fixed),
    "blocked": Step(_blocks, _blocked, _blocked_fixed),
    "all-logits": Step(_tokens, _all_logits, _all_logits_fixed),
    "spectrum": Step(_symmetric, _spectrum, _spectrum_fixed),
    "inverted": Step(_symmetric, _inverted, _inverted_fixed),
    "by-ones": Step(_chain, _powered, _powered_fixed),
    "sampled": Step(_prompts, _sampled, _sampled_fixed),
    "padding": Step(_padded_words, _padded, _padded_fixed),
    "unfolded": Step(_pictures, _unfolded, _unfolded_fixed),
    "smoothed": Step(lambda: {"signals": list(draw(8, 16, 16_384))}, _smoothed, _smoothed_fixed),
    "denormal": Step(_filters, _denormal, _denormal_fixed),
    "promoted": Step(_halves, _promoted, _promoted_fixed),
    "forced": Step(_kept, _forced, _only_model),
    "copied": Step(_kept, _copied, _only_model),
    "parsed": Step(_kept, _parsed, _only_model),
    "stacked": Step(_kept, _stacked, _stacked_fixed),
}

# --- in good health ---------------------------------------------------------------------------------------------------


def _recurrent() -> dict[str, Any]:
    return {"net": nn.LSTM(256, 256, 2).requires_grad_(False), "x": list(draw(8, 32, 16, 256))}


def _whole() -> dict[str, Any]:
    return {
        "net": nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True).requires_grad_(False).eval(),
        "x": list(draw(8, 4, 64, 256)),
    }  # fmt: skip


def _graph() -> dict[str, Any]:
    dense = draw(4096, 4096).mul_(torch.rand(4096, 4096) < 0.01)
    return {"sparse": dense.to_sparse_coo(), "x": list(draw(8, 4096, 64))}


def _bags() -> dict[str, Any]:
    return {"bag": nn.EmbeddingBag(50_000, 128).requires_grad_(False), "ids": torch.randint(0, 50_000, (8, 4096, 20))}


def _mixed() -> dict[str, Any]:
    return {"experts": draw(8, 256, 256) / 16.0, "x": draw(8, 128, 256)}


def _normal() -> dict[str, Any]:
    net = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1))
    return {"net": net.requires_grad_(False).eval(), "x": list(draw(8, 4, 16, 40, 40))}


HEALTHY: dict[str, Step] = {
    "recurrent": Step(_recurrent, lambda s, index: s.net(s.x[index % 8])[0]),
    "encoder": Step(_whole, lambda s, index: s.net(s.x[index % 8])),
    "transforms": Step(
        lambda: {"x": list(draw(8, 64, 16_384))}, lambda s, index: torch.fft.rfft(s.x[index % 8]).abs()
    ),
    "graph": Step(_graph, lambda s, index: torch.sparse.mm(s.sparse, s.x[index % 8])),
    "bags": Step(_bags, lambda s, index: s.bag(s.ids[index % 8])),
    "experts": Step(_mixed, lambda s, index: torch.bmm(s.x * (1.0 + index % 3), s.experts)),
    "pictures": Step(_normal, lambda s, index: s.net(s.x[index % 8])),
    "solved": Step(_symmetric, lambda s, index: torch.linalg.eigvalsh(s.many[index % 8])),
    "drawn": Step(dict, lambda s, index: torch.randn(1 << 20).exp_().sum()),
    "counted": Step(
        lambda: {"ids": torch.randint(0, 1000, (8, 1 << 20))},
        lambda s, index: torch.bincount(s.ids[index % 8], minlength=1000),
    ),
}  # fmt: skip
