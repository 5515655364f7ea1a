"""Third steps for `attribution_structure.py`: the independent check of edition 15, written before it was tried on them.

Models as people write them: recommenders, diffusion, speech, trees, retrieval, reinforcement learning, statistics. What
is planted is again work that a change of code spares; healthy ones take operators that no earlier set has.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from attribution_structure_steps import Step, draw

# --- more than is read, or again ---


def _scores() -> dict[str, Any]:
    return {"users": list(draw(8, 256, 128)), "items": draw(6000, 128), "wanted": torch.arange(64)}


def _all_scores(s: Any, index: int) -> Any:
    return (s.users[index % 8] @ s.items.T)[:, :64].sigmoid()


def _all_scores_fixed(s: Any, index: int) -> Any:
    return (s.users[index % 8] @ s.items[:64].T).sigmoid()


def _trajectory() -> dict[str, Any]:
    return {"rewards": list(draw(8, 32, 512)), "powers": 0.99 ** torch.arange(512.0)}


def _returns(s: Any, index: int) -> Any:
    rewards, place = s.rewards[index % 8], torch.arange(512)
    apart = (place[None] - place[:, None]).clamp_min(0)
    weights = torch.where(place[None] >= place[:, None], 0.99**apart, torch.zeros(()))
    return (rewards[:, None] * weights).sum(2)


def _returns_fixed(s: Any, index: int) -> Any:
    weighed = s.rewards[index % 8] * s.powers
    return weighed.flip(1).cumsum(1).flip(1) / s.powers


def _pairs() -> dict[str, Any]:
    return {"points": list(draw(8, 700, 16))}


def _distances(s: Any, index: int) -> Any:
    points = s.points[index % 8]
    return (points[:, None] - points[None]).square().sum(2).sqrt()


def _distances_fixed(s: Any, index: int) -> Any:
    return torch.cdist(s.points[index % 8], s.points[index % 8])


def _covariances(s: Any, index: int) -> Any:
    x = s.batches[index % 8]
    return torch.stack([torch.outer(row, row) for row in x]).mean(0)


def _covariances_fixed(s: Any, index: int) -> Any:
    x = s.batches[index % 8]
    return x.T @ x / len(x)


def _batches() -> dict[str, Any]:
    return {"batches": list(draw(8, 256, 192)), "w": draw(192, 192) / 14.0}


def _norms(s: Any, index: int) -> Any:
    x = s.batches[index % 8]
    return torch.linalg.svd(x)[1][0]


def _norms_fixed(s: Any, index: int) -> Any:
    return torch.linalg.svdvals(s.batches[index % 8])[0]


def _best(s: Any, index: int) -> Any:
    return s.logits[index % 8].softmax(1).argsort(1, descending=True)[:, 0]


def _best_fixed(s: Any, index: int) -> Any:
    return s.logits[index % 8].argmax(1)


def _diffusion() -> dict[str, Any]:
    net = nn.Sequential(nn.Conv2d(8, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, 8, 3, padding=1)).requires_grad_(False)
    return {"net": net, "x": list(draw(8, 2, 8, 32, 32)), "scale": 1.0}


def _guided(s: Any, index: int) -> Any:
    """Guidance of strength one: what the model says without the prompt is taken away as it is added."""
    x = s.x[index % 8]
    conditional, plain = s.net(x), s.net(x * 0.0 + 1.0)
    return conditional * s.scale + plain * (1.0 - s.scale)


def _guided_fixed(s: Any, index: int) -> Any:
    return s.net(s.x[index % 8])


def _history() -> dict[str, Any]:
    return {
        "frames": deque((draw(64, 512) for _ in range(64)), maxlen=64),
        "fresh": list(draw(8, 64, 512)),
        "kept": None,
    }


def _stacked(s: Any, index: int) -> Any:
    s.frames.append(s.fresh[index % 8])
    return torch.stack(list(s.frames)).mean(0)


def _stacked_fixed(s: Any, index: int) -> Any:
    if s.kept is None:
        s.kept = torch.stack(list(s.frames)).sum(0)
    oldest = s.frames[0]
    s.frames.append(s.fresh[index % 8])
    s.kept += s.fresh[index % 8] - oldest
    return s.kept / 64


def _experts() -> dict[str, Any]:
    return {"experts": draw(8, 256, 256) / 16.0, "x": list(draw(8, 256, 256)), "gate": torch.randint(0, 8, (8, 256))}


def _all_experts(s: Any, index: int) -> Any:
    x, chosen = s.x[index % 8], functional.one_hot(s.gate[index % 8], 8).float()
    return (torch.einsum("nd,edk->nek", x, s.experts) * chosen[:, :, None]).sum(1)


def _all_experts_fixed(s: Any, index: int) -> Any:
    x, gate = s.x[index % 8], s.gate[index % 8]
    order = gate.argsort()
    parts = x[order].split(gate.bincount(minlength=8).tolist())
    out = torch.empty_like(x)
    out[order] = torch.cat([part @ expert for part, expert in zip(parts, s.experts, strict=True)])
    return out


# --- formats and layouts ---


def _features(s: Any, index: int) -> Any:
    rows = s.arrays[index % 8].astype(np.float64)
    return torch.from_numpy((rows - rows.mean(0)) / rows.std(0)).float() @ s.w


def _features_fixed(s: Any, index: int) -> Any:
    rows = torch.from_numpy(s.arrays[index % 8])
    return (rows - rows.mean(0)) / rows.std(0, correction=0) @ s.w


def _complexes() -> dict[str, Any]:
    return {"x": list(draw(8, 64, 4096)), "window": torch.hann_window(4096)}


def _whole_spectrum(s: Any, index: int) -> Any:
    return torch.fft.fft((s.x[index % 8] * s.window).to(torch.complex64)).abs()[:, :2049]


def _whole_spectrum_fixed(s: Any, index: int) -> Any:
    return torch.fft.rfft(s.x[index % 8] * s.window).abs()


def _strided() -> dict[str, Any]:
    return {"x": list(draw(8, 1024, 1024))}


def _columns(s: Any, index: int) -> Any:
    x = s.x[index % 8]
    return torch.stack([x[:, column].contiguous().sum() for column in range(0, 1024, 4)])


def _columns_fixed(s: Any, index: int) -> Any:
    return s.x[index % 8].sum(0)[::4]


# --- the host ---


def _masks() -> dict[str, Any]:
    return {"x": list(draw(8, 64, 192)), "w": draw(192, 192) / 14.0, "lengths": [20 + row % 40 for row in range(64)]}


def _masked(s: Any, index: int) -> Any:
    mask = torch.tensor([[1.0 if place < length else 0.0 for place in range(192)] for length in s.lengths])
    return (s.x[index % 8] * mask) @ s.w


def _masked_fixed(s: Any, index: int) -> Any:
    mask = torch.arange(192)[None] < torch.tensor(s.lengths)[:, None]
    return (s.x[index % 8] * mask) @ s.w


def _checked(s: Any, index: int) -> Any:
    x = s.batches[index % 8]
    for _ in range(12):
        x = torch.tanh(x @ s.w)
        if torch.isnan(x).any() or x.abs().max().item() > 1e6:
            raise ValueError("the model diverged")
    return x


def _checked_fixed(s: Any, index: int) -> Any:
    x = s.batches[index % 8]
    for _ in range(12):
        x = torch.tanh(x @ s.w)
    return x


def _searching() -> dict[str, Any]:
    vocabulary = [f"word{number}" for number in range(3000)]
    words = [vocabulary[number * 37 % 3000] for number in range(120)]
    table = {word: place for place, word in enumerate(vocabulary)}
    return {
        "vocabulary": vocabulary,
        "words": words,
        "table": table,
        "rows": draw(3000, 192),
        "w": draw(192, 192) / 14.0,
    }


def _searched(s: Any, _: int) -> Any:
    return s.rows[torch.tensor([s.vocabulary.index(word) for word in s.words])] @ s.w


def _searched_fixed(s: Any, _: int) -> Any:
    return s.rows[torch.tensor([s.table[word] for word in s.words])] @ s.w


PLANTED: dict[str, Step] = {
    "all-scores": Step(_scores, _all_scores, _all_scores_fixed),
    "returns": Step(_trajectory, _returns, _returns_fixed),
    "distances": Step(_pairs, _distances, _distances_fixed),
    "covariances": Step(_batches, _covariances, _covariances_fixed),
    "norms": Step(_batches, _norms, _norms_fixed),
    "best": Step(lambda: {"logits": list(draw(8, 64, 8000))}, _best, _best_fixed),
    "guided": Step(_diffusion, _guided, _guided_fixed),
    "history": Step(_history, _stacked, _stacked_fixed),
    "all-experts": Step(_experts, _all_experts, _all_experts_fixed),
    "features": Step(
        lambda: {"arrays": list(draw(8, 4096, 128).numpy()), "w": draw(128, 16)}, _features, _features_fixed
    ),
    "whole-spectrum": Step(_complexes, _whole_spectrum, _whole_spectrum_fixed),
    "columns": Step(_strided, _columns, _columns_fixed),
    "masked": Step(_masks, _masked, _masked_fixed),
    "checked": Step(_batches, _checked, _checked_fixed),
    "searched": Step(_searching, _searched, _searched_fixed),
}

# --- in good health ---


def _speech() -> dict[str, Any]:
    net = nn.Sequential(nn.Conv1d(80, 128, 5, padding=2), nn.GELU(), nn.Conv1d(128, 128, 5, padding=2))
    return {"net": net.requires_grad_(False), "x": list(draw(8, 4, 80, 300))}


def _gated() -> dict[str, Any]:
    return {"net": nn.GRU(128, 128).requires_grad_(False), "x": list(draw(8, 40, 16, 128))}


def _causal() -> dict[str, Any]:
    return {"q": list(draw(8, 2, 8, 256, 32))}


def _filtered() -> dict[str, Any]:
    return {"x": list(draw(8, 32, 1, 96, 96)), "w": draw(8, 1, 7, 7)}


def _clustered(s: Any, index: int) -> Any:
    return torch.cdist(s.points[index % 8], s.centres).argmin(1)


def _solved(s: Any, index: int) -> Any:
    return torch.linalg.solve(s.many[index % 8], s.sides)


def _systems() -> dict[str, Any]:
    return {"many": list(draw(8, 300, 300) + 30.0 * torch.eye(300)), "sides": draw(300, 40)}


HEALTHY: dict[str, Step] = {
    "speech": Step(_speech, lambda s, index: s.net(s.x[index % 8])),
    "gated": Step(_gated, lambda s, index: s.net(s.x[index % 8])[0]),
    "causal": Step(_causal, lambda s, index: functional.scaled_dot_product_attention(
        s.q[index % 8], s.q[index % 8], s.q[index % 8], is_causal=True)),
    "filtered": Step(_filtered, lambda s, index: functional.conv2d(s.x[index % 8], s.w)),
    "clustered": Step(lambda: {"points": list(draw(8, 4096, 32)), "centres": draw(64, 32)}, _clustered),
    "systems": Step(_systems, _solved),
    "ranked": Step(lambda: {"x": list(draw(8, 1 << 18))}, lambda s, index: s.x[index % 8].sort()[0]),
    "pooled": Step(
        lambda: {"x": list(draw(8, 16, 32, 64, 64))}, lambda s, index: functional.max_pool2d(s.x[index % 8], 2)
    ),
    "projected": Step(
        lambda: {"x": list(draw(8, 1024, 768)), "w": draw(768, 768) / math.sqrt(768)},
        lambda s, index: s.x[index % 8] @ s.w,
    ),
    "summed-up": Step(lambda: {"x": list(draw(4, 1 << 23))}, lambda s, index: s.x[index % 4].sum()),
}  # fmt: skip
