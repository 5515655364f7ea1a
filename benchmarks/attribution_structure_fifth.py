"""Fifth steps for `attribution_structure.py`: rows that were multiplied before, and rows that nobody reads.

Padding carried along, samples that come twice, prefixes computed anew for each token, heads over all positions of which
one is wanted. The healthy ones look alike and need all of it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from attribution_structure_steps import Step, draw

WIDE = 384


def _network(width: int = WIDE, depth: int = 2) -> nn.Module:
    parts = [
        part for _ in range(depth) for part in (nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
    ]
    return nn.Sequential(*parts).requires_grad_(False)


def _encoder(depth: int = 2, width: int = 256) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False).requires_grad_(False).eval()


class _Causal(nn.Module):
    """A small decoder of the usual form, with no cache."""

    def __init__(self, width: int = 256, depth: int = 2) -> None:
        super().__init__()
        self.mixing = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.wide = nn.ModuleList(_network(width, 1) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.requires_grad_(False)

    def forward(self, x: torch.Tensor, kept: list[Any] | None = None) -> torch.Tensor:
        """Of all positions given; `kept`: keys and values of those before."""
        for number, (mixing, out, wide) in enumerate(zip(self.mixing, self.out, self.wide, strict=True)):
            q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in mixing(self.norm(x)).chunk(3, -1))
            whole = kept is None or kept[number] is None
            if kept is not None:
                if kept[number] is not None:
                    k, v = (torch.cat((before, new), 2) for before, new in zip(kept[number], (k, v), strict=True))
                kept[number] = k, v
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=whole)
            x = x + out(mixed.transpose(1, 2).flatten(2))
            x = x + wide(self.norm(x))
        return x


# --- rows that were multiplied before ---


def _short() -> dict[str, Any]:
    x = list(draw(8, 512, WIDE))
    for one in x:
        one[96:] = 0.0
    return {"net": _network(), "x": x}


def _short_fixed(s: Any, index: int) -> Any:
    x = s.x[index % 8]
    return torch.cat((s.net(x[:96]), s.net(x[96:97]).expand(len(x) - 96, -1)))


def _sentences() -> dict[str, Any]:
    words = torch.randint(1, 4000, (8, 16, 64))
    lengths = torch.tensor([10, 14, 16, 9, 20, 12, 11, 64, 8, 13, 15, 10, 18, 12, 9, 16])
    words[:, torch.arange(64) >= lengths[:, None]] = 0
    return {"table": draw(4000, WIDE), "net": _network(), "words": words, "mask": words != 0}


def _embedded(s: Any, index: int) -> Any:
    words, mask = s.words[index % 8], s.mask[index % 8]
    return (s.net(s.table[words]) * mask[..., None]).sum(1)


def _embedded_fixed(s: Any, index: int) -> Any:
    words, mask = s.words[index % 8], s.mask[index % 8]
    out = torch.zeros(*words.shape, WIDE)
    out[mask] = s.net(s.table[words[mask]])
    return out.sum(1)


def _asked() -> dict[str, Any]:
    wanted = torch.minimum(torch.empty(8, 512).exponential_().mul(12).long(), torch.tensor(99))
    return {"net": _network(), "queries": draw(8, 100, WIDE), "wanted": wanted}


def _popular(s: Any, index: int) -> Any:
    return s.net(s.queries[index % 8][s.wanted[index % 8]])


def _popular_fixed(s: Any, index: int) -> Any:
    return s.net(s.queries[index % 8])[s.wanted[index % 8]]


def _words() -> dict[str, Any]:
    return {"net": _Causal(), "x": draw(8, 2, 160, 256), "emitted": draw(8, 256)}


def _generate(s: Any, index: int, cached: bool = False) -> Any:
    x = s.x[index % 8]
    kept: list[Any] | None = [None, None] if cached else None
    new = x
    for _ in range(8):
        hidden = s.net(new if cached else x, kept)[:, -1:]
        new = hidden.tanh() + s.emitted[index % 8]
        x = torch.cat((x, new), 1)
    return x[:, -8:].clone()


def _windows() -> dict[str, Any]:
    return {"net": _network(), "signal": draw(8, 96, WIDE)}


def _slid(s: Any, index: int) -> Any:
    signal = s.signal[index % 8]
    return torch.stack([s.net(signal[start : start + 32]).amax(0) for start in range(0, 64, 4)])


def _slid_fixed(s: Any, index: int) -> Any:
    return s.net(s.signal[index % 8]).unfold(0, 32, 4)[:16].amax(2)


def _candidates() -> dict[str, Any]:
    return {"net": _network(2 * WIDE, 1), "users": draw(8, WIDE), "items": draw(8, 256, WIDE)}


def _paired(s: Any, index: int) -> Any:
    user, items = s.users[index % 8], s.items[index % 8]
    first, rest = s.net[0], s.net[1:]
    return rest(user.expand(256, -1) @ first.weight[:, :WIDE].T + items @ first.weight[:, WIDE:].T + first.bias)


def _paired_fixed(s: Any, index: int) -> Any:
    user, items = s.users[index % 8], s.items[index % 8]
    first, rest = s.net[0], s.net[1:]
    return rest(user @ first.weight[:, :WIDE].T + items @ first.weight[:, WIDE:].T + first.bias)


def _same() -> dict[str, Any]:
    return {"net": _network(), "x": [one.expand(256, -1).contiguous() for one in draw(8, 1, WIDE)]}


def _columns() -> dict[str, Any]:
    x = draw(8, WIDE, 64)
    return {"w": draw(768, WIDE), "u": draw(WIDE, 768) / 20.0, "x": [one.repeat(1, 8) for one in x], "few": x}


# --- rows of which nobody reads anything ---


def _headed() -> dict[str, Any]:
    return {"net": _network(256, 1), "head": nn.Linear(256, 8000).requires_grad_(False), "x": draw(8, 2, 128, 256)}


def _all_places(s: Any, index: int) -> Any:
    return s.head(s.net(s.x[index % 8]))[:, -1]


def _last_place(s: Any, index: int) -> Any:
    return s.head(s.net(s.x[index % 8][:, -1]))


def _best_word(s: Any, index: int) -> Any:
    return s.head(s.net(s.x[index % 8]))[:, -1].argmax(-1)


def _deep_last() -> dict[str, Any]:
    return {"net": _network(WIDE, 3), "x": draw(8, 8, 64, WIDE)}


def _pooled_first() -> dict[str, Any]:
    return {"net": _encoder(1), "x": draw(8, 8, 96, 256)}


def _classed(s: Any, index: int) -> Any:
    return s.net(s.x[index % 8])[:, 0].clone()


def _classed_fixed(s: Any, index: int) -> Any:
    x, layer = s.x[index % 8], s.net.layers[0]
    mixed = layer.self_attn(x[:, :1], x, x, need_weights=False)[0]
    x = layer.norm1(x[:, :1] + mixed)
    return layer.norm2(x + layer.linear2(layer.linear1(x).relu()))[:, 0]


def _scored() -> dict[str, Any]:
    return {"x": draw(8, 256, 512), "w": draw(512, 6000), "wanted": torch.randint(0, 6000, (8, 40))}


def _some_scores(s: Any, index: int) -> Any:
    return (s.x[index % 8] @ s.w)[:, s.wanted[index % 8]]


def _some_scores_fixed(s: Any, index: int) -> Any:
    return s.x[index % 8] @ s.w[:, s.wanted[index % 8]]


def _first_chunk(s: Any, index: int) -> Any:
    return (s.x[index % 8] @ s.w)[:, :500].softmax(1)


def _first_chunk_fixed(s: Any, index: int) -> Any:
    return (s.x[index % 8] @ s.w[:, :500]).softmax(1)


def _every_third(s: Any, index: int) -> Any:
    return s.net(s.x[index % 8])[::3].clone()


PLANTED: dict[str, Step] = {
    "short": Step(_short, lambda s, index: s.net(s.x[index % 8]), _short_fixed),
    "embedded": Step(_sentences, _embedded, _embedded_fixed),
    "popular": Step(_asked, _popular, _popular_fixed),
    "uncached": Step(_words, _generate, lambda s, index: _generate(s, index, True)),
    "slid": Step(_windows, _slid, _slid_fixed),
    "cross-paired": Step(_candidates, _paired, _paired_fixed),
    "same": Step(_same, lambda s, index: s.net(s.x[index % 8]),
        lambda s, index: s.net(s.x[index % 8][:1]).expand(256, -1)),
    "alike-columns": Step(_columns, lambda s, index: s.u @ (s.w @ s.x[index % 8]).relu(),
        lambda s, index: (s.u @ (s.w @ s.few[index % 8]).relu()).repeat(1, 8)),
    "all-places": Step(_headed, _all_places, _last_place),
    "best-word": Step(_headed, _best_word, lambda s, index: _last_place(s, index).argmax(-1)),
    "deep-last": Step(_deep_last, lambda s, index: s.net(s.x[index % 8])[:, -1],
        lambda s, index: s.net(s.x[index % 8][:, -1])),
    "classed": Step(_pooled_first, _classed, _classed_fixed),
    "some-scores": Step(_scored, _some_scores, _some_scores_fixed),
    "first-chunk": Step(_scored, _first_chunk, _first_chunk_fixed),
    "every-third": Step(lambda: {"net": _network(), "x": draw(8, 512, WIDE)}, _every_third,
        lambda s, index: s.net(s.x[index % 8][::3])),
}  # fmt: skip

# --- in good health ---------------------------------------------------------------------------------------------------


def _converging(s: Any, index: int) -> Any:
    x = s.start[index % 8]
    for _ in range(30):
        x = functional.normalize(x @ s.matrix, dim=1)
    return x


def _cached(s: Any, index: int) -> Any:
    """What each position comes to is wanted, and the tokens behind them take up what is kept."""
    kept: list[Any] = [None, None]
    hidden = s.net(s.x[index % 8], kept)
    new, words = hidden[:, -1:], []
    for _ in range(8):
        new = s.net(new.tanh() + s.emitted[index % 8], kept)
        words.append(new)
    return torch.cat((hidden, *words), 1)


def _kept_head(s: Any, index: int) -> Any:
    s.scores = s.head(s.net(s.x[index % 8]))
    return s.scores[:, -1]


def _half_read(s: Any, index: int) -> Any:
    logits = s.head(s.net(s.x[index % 8]))
    return logits[:, -1].clone(), logits.logsumexp(-1)


def _grown(s: Any, index: int) -> Any:
    """More rows each time, and none of them the same: a search that widens."""
    x = s.start[index % 8]
    for rows in range(128, 513, 96):
        x = functional.normalize(s.net(x[torch.arange(rows) % len(x)] + s.noise[:rows]), dim=1)
    return x


HEALTHY: dict[str, Step] = {
    "converging": Step(
        lambda: {"matrix": (lambda a: a @ a.T / 384)(draw(384, 384)), "start": draw(8, 256, 384)}, _converging),
    "cached": Step(lambda: _words() | {"x": draw(8, 2, 1200, 256)}, _cached),
    "kept-head": Step(_headed, _kept_head),
    "half-read": Step(_headed, _half_read),
    "grown": Step(lambda: {"net": _network(), "start": draw(8, 128, WIDE), "noise": draw(512, WIDE)}, _grown),
    "spoken": Step(lambda: {"table": draw(20_000, WIDE), "places": draw(256, WIDE), "net": _network(),
        "words": torch.randint(0, 20_000, (8, 2, 256))},
        lambda s, index: s.net(s.table[s.words[index % 8]] + s.places)),
    "all-pooled": Step(lambda: {"net": _encoder(1), "x": draw(8, 8, 96, 256)},
        lambda s, index: s.net(s.x[index % 8]).mean(1)),
    "all-trained": Step(lambda: {"net": _network().requires_grad_(True), "x": draw(8, 256, WIDE)},
        lambda s, index: torch.autograd.grad(s.net(s.x[index % 8]).square().sum(), list(s.net.parameters()))[0]),
}  # fmt: skip
