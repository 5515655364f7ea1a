"""Sixth steps, what is computed again: generation that begins anew, rows that only fill up, the same encoded twice."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from attribution_structure_steps import Step, draw

# --- a small decoder: rotary places, fused projections, room for keys and values where it is given ---


def _weights(*sizes: int) -> torch.Tensor:
    return draw(*sizes) / sizes[-1] ** 0.5


def _decoder(wide: int, heads: int, words: int, most: int) -> dict[str, Any]:
    layers = [
        (_weights(3 * wide, wide), _weights(wide, wide), _weights(2 * wide, wide), _weights(wide, 2 * wide))
        for _ in range(2)
    ]
    angles = torch.arange(most)[:, None] * 0.01 ** torch.linspace(0.0, 1.0, wide // heads // 2)
    table = {"cos": angles.cos().repeat(1, 2), "sin": angles.sin().repeat(1, 2), "heads": heads}
    return {"layers": layers, "words": draw(words, wide), "readout": _weights(words, wide) * 3.0, **table}


def _rotated(s: Any, x: torch.Tensor, first: int) -> torch.Tensor:
    places = slice(first, first + x.shape[2])
    low, high = x.chunk(2, -1)
    return x * s.cos[places] + torch.cat((-high, low), -1) * s.sin[places]


def _through(s: Any, ids: torch.Tensor, first: int = 0, rooms: Any = None) -> torch.Tensor:
    x, (batch, length) = functional.embedding(ids, s.words), ids.shape
    wide = x.shape[2:]
    for place, (qkv, mix, up, down) in enumerate(s.layers):
        q, k, v = functional.linear(functional.rms_norm(x, wide), qkv).view(batch, length, 3, s.heads, -1).unbind(2)
        q, k, v = _rotated(s, q.transpose(1, 2), first), _rotated(s, k.transpose(1, 2), first), v.transpose(1, 2)
        if rooms is not None:
            room = rooms[place]
            room[0, :, :, first : first + length], room[1, :, :, first : first + length] = k, v
            k, v = room[:, :, :, : first + length]
        mask = torch.ones(length, first + length, dtype=torch.bool).tril(first) if first and length > 1 else None
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=first == 0)
        x = x + functional.linear(seen.transpose(1, 2).flatten(2), mix)
        x = x + functional.linear(functional.silu(functional.linear(functional.rms_norm(x, wide), up)), down)
    return x


def _rooms(s: Any, batch: int, most: int) -> list[torch.Tensor]:
    return [torch.empty(2, batch, s.heads, most, s.words.shape[1] // s.heads) for _ in s.layers]


def _layer(wide: int = 256, heads: int = 4) -> nn.TransformerEncoderLayer:
    layer = nn.TransformerEncoderLayer(wide, heads, 4 * wide, dropout=0.0, batch_first=True)
    return layer.requires_grad_(False).eval()


# --- planted: generation and streams that begin anew ---


def _prompted() -> dict[str, Any]:
    return {**_decoder(256, 4, 2000, 64), "prompts": torch.randint(0, 2000, (8, 4, 56))}


def _replayed_prompts(s: Any, index: int) -> Any:
    ids = s.prompts[index % 8]
    for _ in range(5):
        hidden = _through(s, ids)
        ids = torch.cat((ids, (hidden[:, -1] @ s.readout.T).argmax(1, keepdim=True)), 1)
    return ids[:, 56:]


def _replayed_prompts_fixed(s: Any, index: int) -> Any:
    rooms, fresh, out = _rooms(s, 4, 60), s.prompts[index % 8], []
    for step in range(5):
        hidden = _through(s, fresh, 55 + step if step else 0, rooms)
        fresh = (hidden[:, -1] @ s.readout.T).argmax(1, keepdim=True)
        out.append(fresh)
    return torch.cat(out, 1)


def _exam() -> dict[str, Any]:
    ids = {"prompts": torch.randint(0, 500, (8, 1, 128)), "choices": torch.randint(0, 500, (8, 6, 12))}
    return {**_decoder(256, 4, 500, 144), **ids}


def _likeliest(s: Any, hidden: torch.Tensor, choices: torch.Tensor) -> torch.Tensor:
    chances = (hidden @ s.readout.T).log_softmax(2)
    return chances.gather(2, choices[:, 1:, None]).sum((1, 2))


def _shared_prompt(s: Any, index: int) -> Any:
    choices = s.choices[index % 8]
    hidden = _through(s, torch.cat((s.prompts[index % 8].expand(6, -1), choices), 1))
    return _likeliest(s, hidden[:, 128:-1], choices)


def _shared_prompt_fixed(s: Any, index: int) -> Any:
    choices, rooms, wide = s.choices[index % 8], _rooms(s, 1, 128), _rooms(s, 6, 139)
    _through(s, s.prompts[index % 8], 0, rooms)
    for room, all_of_it in zip(rooms, wide, strict=True):
        all_of_it[:, :, :, :128] = room
    return _likeliest(s, _through(s, choices[:, :-1], 128, wide), choices)


def _listening() -> dict[str, Any]:
    filters = [nn.Conv1d(192, 192, 5).requires_grad_(False) for _ in range(3)]
    ears = nn.Sequential(filters[0], nn.ReLU(), filters[1], nn.ReLU(), filters[2])
    return {"ears": ears, "heard": draw(6, 192, 204), "chunks": list(draw(8, 6, 192, 24))}


def _streamed(s: Any, index: int, last: int = 204) -> Any:
    s.heard = torch.cat((s.heard[:, :, 24:], s.chunks[index % 8]), 2)
    return s.ears(s.heard[:, :, -last:])[:, :, -24:]


def _translator() -> dict[str, Any]:
    texts = {"sources": list(draw(8, 1, 72, 256)), "words": draw(3000, 256), "readout": 4.0 * _weights(3000, 256)}
    return {"encoder": nn.Sequential(_layer(), _layer()), "merge": _weights(256, 512), **texts}


def _beams(s: Any, index: int, once: bool = False) -> Any:
    source = s.sources[index % 8]
    memory = s.encoder(source).expand(3, -1, -1) if once else None
    tokens, scores = torch.zeros(3, 1, dtype=torch.long), torch.tensor([0.0, -math.inf, -math.inf])
    for _ in range(3):
        seen = memory if memory is not None else s.encoder(source.expand(3, -1, -1))
        asked = s.words[tokens].mean(1, keepdim=True)
        found = functional.scaled_dot_product_attention(asked, seen, seen)
        state = functional.linear(torch.cat((asked, found), 2), s.merge).tanh()[:, 0]
        scores, flat = (scores[:, None] + (state @ s.readout.T).log_softmax(1)).flatten().topk(3)
        tokens = torch.cat((tokens[flat // 3000], (flat % 3000)[:, None]), 1)
    return scores


# --- planted: rows, nodes and pixels that only fill up ---


def _tickets() -> dict[str, Any]:
    sizes = torch.randint(30, 43, (8, 6))
    real = torch.arange(128) >= 128 - sizes[:, :, None]
    ids = torch.randint(1, 900, (8, 6, 128)) * real
    layers = [_layer(), _layer()]
    return {"sizes": sizes, "ids": ids, "words": draw(900, 256), "layers": layers, "out": torch.empty(6, 256)}


def _left_padded(s: Any, index: int, trimmed: bool = False) -> Any:
    sizes, ids = s.sizes[index % 8], s.ids[index % 8]
    if trimmed:
        ids = ids[:, -int(sizes.max()) :]
    blank, x = ids == 0, functional.embedding(ids, s.words)
    for layer in s.layers:
        x = layer(x, src_key_padding_mask=blank)
    torch.div(x.masked_fill(blank[:, :, None], 0.0).sum(1), sizes[:, None], out=s.out)
    return s.out.clone()


def _molecules() -> dict[str, Any]:
    sizes = torch.randint(13, 21, (8, 32))
    real = torch.arange(64) < sizes[:, :, None]
    bonds = (torch.rand(8, 32, 64, 64) < 0.25) & real[:, :, None] & real[..., None]
    bonds = bonds / bonds.sum(3, keepdim=True).clamp_min(1)
    atoms = draw(8, 32, 64, 288) * real[..., None]
    return {"sizes": sizes, "bonds": bonds, "atoms": atoms, "w": 1.4 * _weights(4, 288, 288)}


def _padded_graphs(s: Any, index: int, trimmed: bool = False) -> Any:
    sizes = s.sizes[index % 8]
    most = int(sizes.max()) if trimmed else 64
    x, bonds = s.atoms[index % 8][:, :most], s.bonds[index % 8][:, :most, :most]
    for w in s.w:
        x = (x + torch.bmm(bonds, x)).matmul(w).relu()
    return x.sum(1) / sizes[:, None]


def _album() -> dict[str, Any]:
    sizes = torch.randint(12, 21, (8, 4, 2)) * 8
    canvas, rows = draw(8, 4, 3, 240, 240) + 2.0 * draw(8, 4, 3, 1, 1), torch.arange(240)
    inside = (rows < sizes[..., :1])[..., :, None] & (rows < sizes[..., 1:])[..., None, :]
    convs = [nn.Conv2d(3, 32, 3, 2, 1), nn.Conv2d(32, 48, 3, 2, 1), nn.Conv2d(48, 96, 3, 1, 1)]
    convs = [conv.requires_grad_(False) for conv in convs]
    return {"sizes": sizes, "canvas": canvas * inside[:, :, None], "inside": inside.float(), "convs": convs}


def _letterboxed(s: Any, index: int) -> Any:
    x, inside = s.canvas[index % 8], s.inside[index % 8][:, None]
    for conv in s.convs:
        inside = inside[:, :, :: conv.stride[0], :: conv.stride[1]]
        x = conv(x).relu_().mul_(inside)
    return x.sum((2, 3)) / inside.sum((2, 3))


def _letterboxed_fixed(s: Any, index: int) -> Any:
    out = []
    for photo, (high, wide) in zip(s.canvas[index % 8], s.sizes[index % 8].tolist(), strict=True):
        x = photo[None, :, :high, :wide]
        for conv in s.convs:
            x = conv(x).relu_()
        out.append(x.mean((2, 3)))
    return torch.cat(out)


# --- planted: the same encoded more than once ---


def _viewer() -> dict[str, Any]:
    eyes = nn.Sequential(nn.Linear(192, 256).requires_grad_(False), _layer(), _layer())
    cross = nn.MultiheadAttention(256, 4, batch_first=True).requires_grad_(False).eval()
    asked = {"questions": list(draw(8, 12, 10, 256)), "reader": _layer()}
    return {"eyes": eyes, "cross": cross, "photos": list(draw(8, 2, 64, 192)), **asked}


def _asked_again(s: Any, index: int) -> Any:
    questions = s.reader(s.questions[index % 8])
    seen = s.eyes(s.photos[index % 8].repeat_interleave(6, 0))
    return s.cross(questions, seen, seen, need_weights=False)[0].mean(1)


def _asked_once(s: Any, index: int) -> Any:
    questions = s.reader(s.questions[index % 8])
    seen = s.eyes(s.photos[index % 8])
    answers = s.cross(questions.view(2, 60, 256), seen, seen, need_weights=False)[0]
    return answers.reshape(12, 10, 256).mean(1)


def _shop() -> dict[str, Any]:
    convs = nn.Sequential(nn.Conv1d(96, 192, 3, padding=1), nn.ReLU(), nn.Conv1d(192, 192, 3, padding=1), nn.ReLU())
    items = nn.Sequential(nn.Linear(512, 768), nn.ReLU(), nn.Linear(768, 192)).requires_grad_(False)
    log = {"histories": list(draw(8, 14, 96, 40)), "users": torch.randint(0, 14, (8, 120)), "x": draw(8, 120, 512)}
    return {"convs": convs.requires_grad_(False), "items": items, **log}


def _user_towers(s: Any, index: int, once: bool = False) -> Any:
    users, histories = s.users[index % 8], s.histories[index % 8]
    if once:
        liked = s.convs(histories).amax(2)[users]
    else:
        liked = s.convs(histories[users]).amax(2)
    s.ranked = {"scores": torch.einsum("nd,nd->n", liked, s.items(s.x[index % 8]))}
    return s.ranked["scores"]


def _archive() -> dict[str, Any]:
    kept = {"up": _weights(1024, 224), "gate": _weights(1024, 224), "down": _weights(224, 1024)}
    return {**kept, "share": draw(96).softmax(0), "papers": list(draw(8, 504, 224))}


def _gated_unit(s: Any, x: torch.Tensor) -> torch.Tensor:
    return functional.linear(functional.silu(functional.linear(x, s.gate)) * functional.linear(x, s.up), s.down)


def _chunked(s: Any, index: int) -> Any:
    chunks = s.papers[index % 8].unfold(0, 96, 24).transpose(1, 2)
    return torch.einsum("cpd,p->cd", _gated_unit(s, chunks), s.share)


def _chunked_fixed(s: Any, index: int) -> Any:
    return _gated_unit(s, s.papers[index % 8]).unfold(0, 96, 24) @ s.share


def _prompter() -> dict[str, Any]:
    encoder, bad = nn.Sequential(_layer(), _layer()), draw(4, 80, 256)
    guides = {"avoided": bad, "kept": encoder(bad), "weight": torch.tensor([1.5, 0.8, 0.6, 0.3])}
    return {"encoder": encoder, "prompts": list(draw(8, 2, 80, 256)), **guides}


def _negative_prompts(s: Any, index: int, kept: bool = False) -> Any:
    if kept:
        wanted, avoided = s.encoder(s.prompts[index % 8]), s.kept
    else:
        avoided, wanted = s.encoder(torch.cat((s.avoided, s.prompts[index % 8]))).split((4, 2))
    return wanted + torch.einsum("k,nktd->ntd", s.weight, wanted[:, None] - avoided)


def _frozen() -> dict[str, Any]:
    convs = (nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 96, 3, 2, 1), nn.ReLU())
    backbone = nn.Sequential(*convs, nn.AdaptiveAvgPool2d(4), nn.Flatten()).requires_grad_(False)
    labels = torch.randint(0, 10, (8, 16))
    return {"backbone": backbone, "head": 0.01 * draw(10, 1536), "x": list(draw(8, 16, 3, 32, 32)), "labels": labels}


def _frozen_epochs(s: Any, index: int, once: bool = False) -> Any:
    head, x, labels = s.head.clone().requires_grad_(), s.x[index % 8], s.labels[index % 8]
    found = s.backbone(x) if once else None
    for _ in range(4):
        loss = functional.cross_entropy(functional.linear(s.backbone(x) if found is None else found, head), labels)
        (slope,) = torch.autograd.grad(loss, head)
        with torch.no_grad():
            head -= 0.05 * slope
    return head.detach()


def _followers() -> dict[str, Any]:
    mlp = nn.Sequential(nn.Linear(192, 512), nn.ReLU(), nn.Linear(512, 192)).requires_grad_(False)
    nodes, changed = draw(4000, 192), torch.stack([torch.randperm(4000)[:500] for _ in range(8)])
    links = {"pairs": torch.randint(0, 4000, (8, 2, 2000)), "changed": changed, "fresh": draw(8, 500, 192)}
    return {"mlp": mlp, "nodes": nodes, "embedded": mlp(nodes), **links}


def _node_refresh(s: Any, index: int, changed_only: bool = False) -> Any:
    changed, fresh = s.changed[index % 8], s.fresh[index % 8] * math.cos(index)
    s.nodes[changed] = fresh
    if changed_only:
        s.embedded[changed] = s.mlp(fresh)
    else:
        s.embedded = s.mlp(s.nodes)
    left, right = s.embedded[s.pairs[index % 8]]
    return (left * right).sum(1).sigmoid()


REPEATED_AND_PADDED: dict[str, Step] = {
    "replayed-prompts": Step(_prompted, _replayed_prompts, _replayed_prompts_fixed),
    "shared-prompt": Step(_exam, _shared_prompt, _shared_prompt_fixed),
    "streamed-context": Step(_listening, _streamed, lambda s, index: _streamed(s, index, last=36)),
    "beams-reencoded": Step(_translator, _beams, lambda s, index: _beams(s, index, once=True)),
    "left-padded": Step(_tickets, _left_padded, lambda s, index: _left_padded(s, index, trimmed=True)),
    "padded-graphs": Step(_molecules, _padded_graphs, lambda s, index: _padded_graphs(s, index, trimmed=True)),
    "letterboxed": Step(_album, _letterboxed, _letterboxed_fixed),
    "asked-again": Step(_viewer, _asked_again, _asked_once),
    "user-towers": Step(_shop, _user_towers, lambda s, index: _user_towers(s, index, once=True)),
    "overlapped-chunks": Step(_archive, _chunked, _chunked_fixed),
    "negative-prompts": Step(_prompter, _negative_prompts, lambda s, index: _negative_prompts(s, index, kept=True)),
    "frozen-epochs": Step(_frozen, _frozen_epochs, lambda s, index: _frozen_epochs(s, index, once=True)),
    "node-refresh": Step(_followers, _node_refresh, lambda s, index: _node_refresh(s, index, changed_only=True)),
}
