"""Sixth steps for `attribution_structure.py`: independent cases, written without a look at the rules.

The arithmetic of each runs at the full speed of the machine: large products, convolutions, attention. What is planted
is arithmetic that a change of code spares with the same result; the healthy ones look like it and need all they do.
What is computed again or for nobody is in attribution_structure_sixth_repeats.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from attribution_structure_sixth_repeats import REPEATED_AND_PADDED, _decoder, _layer, _through, _weights
from attribution_structure_steps import Step, draw

# --- planted: of what is computed, little is used ---


def _adapters() -> dict[str, Any]:
    weights = {"shared": _weights(256, 256), "up": draw(8, 256, 320) / 16.0, "down": draw(8, 320, 256) / 18.0}
    return {**weights, "x": list(draw(8, 16, 40, 256)), "tongues": torch.randint(0, 8, (8, 16))}


def _accented(s: Any, index: int) -> Any:
    x = functional.linear(s.x[index % 8], s.shared)
    every = torch.einsum("blft,lfd->bltd", torch.einsum("btd,ldf->blft", x, s.up).relu_(), s.down)
    return x + every[torch.arange(16), s.tongues[index % 8]]


def _accented_fixed(s: Any, index: int) -> Any:
    x, tongues = functional.linear(s.x[index % 8], s.shared), s.tongues[index % 8]
    return x + torch.bmm(torch.bmm(x, s.up[tongues]).relu_(), s.down[tongues])


def _cascade() -> dict[str, Any]:
    first, deep = nn.Sequential(nn.Linear(384, 384), nn.ReLU()), [nn.Linear(384, 1536), nn.ReLU()]
    deep += [nn.Linear(1536, 1536), nn.ReLU(), nn.Linear(1536, 20)]
    x, early = draw(8, 300, 384), 6.0 * _weights(20, 384)
    sure = functional.linear(first.requires_grad_(False)(x), early).softmax(2).amax(2).quantile(0.22)
    return {"first": first, "early": early, "deep": nn.Sequential(*deep).requires_grad_(False), "x": x, "sure": sure}


def _both_exits(s: Any, index: int) -> Any:
    x = s.first(s.x[index % 8])
    early = functional.linear(x, s.early).softmax(1)
    late = s.deep(x).softmax(1)
    return torch.where((early.amax(1) > s.sure)[:, None], early, late)


def _needed_exit(s: Any, index: int) -> Any:
    x = s.first(s.x[index % 8])
    out = functional.linear(x, s.early).softmax(1)
    unsure = (out.amax(1) <= s.sure).nonzero()[:, 0]
    out[unsure] = s.deep(x[unsure]).softmax(1)
    return out


def _reader() -> dict[str, Any]:
    apart = torch.arange(1024)[:, None] - torch.arange(1024)
    return {"qkv": list(draw(8, 3, 1, 8, 1024, 64)), "band": apart.abs() <= 32}


def _banded_attention(s: Any, index: int) -> Any:
    q, k, v = s.qkv[index % 8]
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=s.band).transpose(1, 2).flatten(2)


def _banded_attention_fixed(s: Any, index: int) -> Any:
    q, k, v = s.qkv[index % 8]
    out = torch.empty(1, 1024, 8, 64)
    for first in range(0, 1024, 64):
        rows, near_by = slice(first, first + 64), slice(max(first - 32, 0), first + 96)
        found = functional.scaled_dot_product_attention(
            q[:, :, rows], k[:, :, near_by], v[:, :, near_by], attn_mask=s.band[rows, near_by]
        )
        out[:, rows] = found.transpose(1, 2)
    return out.flatten(2)


def _filling_in() -> dict[str, Any]:
    labels = torch.randint(0, 3000, (8, 384)).masked_fill_(torch.rand(8, 384) > 0.15, -100)
    trunk, head = nn.Sequential(nn.Linear(320, 320), nn.ReLU()), nn.Linear(320, 3000)
    sgd = torch.optim.SGD((*trunk.parameters(), *head.parameters()), lr=1e-2)
    return {"trunk": trunk, "head": head, "sgd": sgd, "x": list(draw(8, 384, 320)), "labels": labels}


def _masked_head(s: Any, index: int, kept_only: bool = False) -> Any:
    hidden, labels = s.trunk(s.x[index % 8]), s.labels[index % 8]
    if kept_only:
        kept = labels >= 0
        hidden, labels = hidden[kept], labels[kept]
    loss = functional.cross_entropy(s.head(hidden), labels)
    s.sgd.zero_grad()
    loss.backward()
    s.sgd.step()
    return loss.item()


def _first_token(s: Any, index: int) -> Any:
    return s.layer(s.x[index % 8])[:, 0] @ s.classes


def _first_token_fixed(s: Any, index: int) -> Any:
    x, layer = s.x[index % 8], s.layer
    first = layer.norm1(x[:, :1] + layer.self_attn(x[:, :1], x, x, need_weights=False)[0])
    return layer.norm2(first + layer.linear2(layer.linear1(first).relu()))[:, 0] @ s.classes


PLANTED: dict[str, Step] = {
    **REPEATED_AND_PADDED,
    "accented": Step(_adapters, _accented, _accented_fixed),
    "both-exits": Step(_cascade, _both_exits, _needed_exit),
    "banded-attention": Step(_reader, _banded_attention, _banded_attention_fixed),
    "masked-head": Step(_filling_in, _masked_head, lambda s, index: _masked_head(s, index, kept_only=True)),
    "first-token": Step(lambda: {"layer": _layer(), "x": list(draw(8, 10, 128, 256)), "classes": _weights(256, 30)},
        _first_token, _first_token_fixed),
}  # fmt: skip

# --- in good health ---


def _dialogue() -> dict[str, Any]:
    decoder = _decoder(384, 6, 1000, 72)
    rooms = [[draw(2, 8, 6, 72, 64) for _ in range(2)] for _ in range(8)]
    return {**decoder, "rooms": rooms, "fresh": torch.randint(0, 1000, (8, 8, 1))}


def _cached_decode(s: Any, index: int) -> Any:
    fresh, out = s.fresh[index % 8], torch.empty(8, 8, dtype=torch.long)
    for step in range(8):
        hidden = _through(s, fresh, 64 + step, s.rooms[index % 8])
        fresh = (hidden[:, -1] @ s.readout.T).argmax(1, keepdim=True)
        out[:, step] = fresh[:, 0]
    return out


def _intents() -> dict[str, Any]:
    return {"layer": _layer(), "x": list(draw(8, 8, 128, 256)), "intents": _weights(256, 40), "tags": _weights(256, 24)}


def _two_readers(s: Any, index: int) -> Any:
    hidden = s.layer(s.x[index % 8])
    s.report = {"intents": hidden[:, 0] @ s.intents, "tags": hidden[:, 1:] @ s.tags}
    return torch.cat((s.report["intents"].argmax(1), s.report["tags"].argmax(2).flatten()))


def _pipeline() -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).requires_grad_(False)
    return {"model": model, "x": list(draw(8, 640, 512)), "pending": draw(640, 512)}


def _shown_later(s: Any, index: int) -> Any:
    shown, s.pending = s.pending, s.model(s.x[index % 8])
    return shown.amax(0)


def _nested_sizes(s: Any, index: int) -> Any:
    x, total = s.x[index % 8], torch.zeros(640, 640)
    for place in range(4):
        part = slice(place * 384, place * 384 + 384)
        total = torch.addmm(total, x[:, part], s.w[part])
        s.out[place] = total.square().sum(1)
    return s.out


def _ring_written(s: Any, index: int) -> Any:
    torch.mm(s.x[index % 8], s.w, out=s.ring[index % 5])
    return s.ring.amax((0, 1))


def _settling() -> dict[str, Any]:
    return {"x": list(draw(8, 384, 512)), "w": 0.9 * torch.linalg.qr(draw(512, 512))[0], "drive": 0.3 * draw(512)}


def _settled(s: Any, index: int) -> Any:
    x = s.x[index % 8]
    for _ in range(8):
        x = torch.addmm(s.drive, x, s.w).tanh_()
    return x


def _few_equal() -> dict[str, Any]:
    x = draw(8, 512, 512)
    for batch in x:
        batch[torch.randperm(256)[:12]] = batch[256 + torch.randperm(256)[:12]]
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).requires_grad_(False)
    return {"x": list(x), "model": model}


def _smooth() -> dict[str, Any]:
    motion = draw(8, 6, 192, 1) + 0.02 * draw(8, 6, 192, 200).cumsum(3)
    convs = nn.Sequential(nn.Conv1d(192, 256, 5, padding=2), nn.ReLU(), nn.Conv1d(256, 192, 5, padding=2))
    return {"motion": list(motion), "convs": convs.requires_grad_(False)}


def _drifting() -> dict[str, Any]:
    scene = draw(6, 32, 48, 48) + 0.1 * draw(8, 6, 32, 48, 48)
    convs = nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 48, 3, padding=1))
    return {"scene": list(scene), "convs": convs.requires_grad_(False)}


def _own_weights(s: Any, index: int) -> Any:
    return torch.einsum("bwk,wkf->wbf", s.x[index % 8].unfold(1, 256, 64), s.w).relu_()


def _nearly_full() -> dict[str, Any]:
    blank = torch.arange(128) >= torch.randint(119, 129, (8, 6))[:, :, None]
    return {"x": list(draw(8, 6, 128, 256)), "blank": blank, "layers": [_layer(), _layer()]}


def _nearly_full_step(s: Any, index: int) -> Any:
    x, blank = s.x[index % 8], s.blank[index % 8]
    for layer in s.layers:
        x = layer(x, src_key_padding_mask=blank)
    return x.masked_fill(blank[:, :, None], 0.0).sum(1)


def _training() -> dict[str, Any]:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    adam, goal = torch.optim.AdamW(layer.parameters(), lr=1e-4, fused=True), draw(8, 4, 96, 256)
    return {"layer": layer, "adam": adam, "x": list(draw(8, 4, 96, 256)), "goal": goal}


def _all_gradients(s: Any, index: int) -> Any:
    s.adam.zero_grad()
    loss = functional.mse_loss(s.layer(s.x[index % 8]), s.goal[index % 8])
    loss.backward()
    s.adam.step()
    return loss.item()


HEALTHY: dict[str, Step] = {
    "cached-decode": Step(_dialogue, _cached_decode),
    "two-readers": Step(_intents, _two_readers),
    "shown-later": Step(_pipeline, _shown_later),
    "nested-sizes": Step(
        lambda: {"x": list(draw(8, 640, 1536)), "w": draw(1536, 640) / 39.0, "out": torch.empty(4, 640)}, _nested_sizes
    ),
    "ring-written": Step(
        lambda: {"x": list(draw(8, 512, 1536)), "w": draw(1536, 768) / 39.0, "ring": draw(5, 512, 768)}, _ring_written
    ),
    "settled": Step(_settling, _settled),
    "few-equal": Step(_few_equal, lambda s, index: s.model(s.x[index % 8])),
    "smooth-motion": Step(_smooth, lambda s, index: s.convs(s.motion[index % 8])),
    "drifting-scene": Step(_drifting, lambda s, index: s.convs(s.scene[index % 8])),
    "own-weights": Step(lambda: {"x": list(draw(8, 160, 1728)), "w": draw(24, 256, 512) / 16.0}, _own_weights),
    "nearly-full": Step(_nearly_full, _nearly_full_step),
    "all-gradients": Step(_training, _all_gradients),
}
