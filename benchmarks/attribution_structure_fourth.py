"""Fourth steps for `attribution_structure.py`: independent cases, written without a look at the rules.

Code as engineers write it: tables, speech, pictures, chat, search, graphs, finance, physics, training loops. What is
planted is work, waiting or moving that a change of code spares with the same result.
"""

from __future__ import annotations

import hashlib
import heapq
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from attribution_structure_steps import Step, draw

# --- more than is read, or again ---


def _quantiles(s: Any, index: int, at_once: bool = False) -> Any:
    table = s.tables[index % 8]
    levels = torch.quantile(table, s.levels, dim=0) if at_once else [torch.quantile(table, x, dim=0) for x in s.levels]
    return (table.clamp(levels[0], levels[2]) - levels[1]).mean(0)


def _coloured(s: Any, photos: Any) -> Any:
    return (photos.float() / 255.0).pow(2.2).sub(s.shift).div(0.25).tanh()


def _augmentation() -> dict[str, Any]:
    return {"x": list(draw(8, 64, 3, 64, 64)), "blur": torch.ones(3, 1, 5, 5) / 25.0, "chance": torch.rand(8, 64)}


def _blurred(s: Any, index: int) -> Any:
    x, chosen = s.x[index % 8], s.chance[index % 8] < 0.15
    return torch.where(chosen[:, None, None, None], functional.conv2d(x, s.blur, padding=2, groups=3), x)


def _blurred_fixed(s: Any, index: int) -> Any:
    x, chosen = s.x[index % 8].clone(), s.chance[index % 8] < 0.15
    x[chosen] = functional.conv2d(x[chosen], s.blur, padding=2, groups=3)
    return x


def _network() -> dict[str, Any]:
    return {"nodes": list(draw(8, 600, 128)), "ends": torch.randint(0, 600, (8, 2, 12_000)), "w": draw(128, 128) / 11.0}


def _messages(s: Any, index: int) -> Any:
    source, target = s.ends[index % 8]
    return torch.zeros(600, 128).index_add_(0, target, (s.nodes[index % 8][source] @ s.w).relu())


def _messages_fixed(s: Any, index: int) -> Any:
    source, target = s.ends[index % 8]
    return torch.zeros(600, 128).index_add_(0, target, (s.nodes[index % 8] @ s.w).relu()[source])


def _tagger() -> dict[str, Any]:
    tagger = nn.utils.parametrizations.weight_norm(nn.Linear(1024, 2048)).requires_grad_(False)
    return {"tagger": tagger, "kept": tagger.weight.clone(), "x": list(draw(8, 4, 1024))}


def _monitored() -> dict[str, Any]:
    model = nn.Sequential(*(nn.Linear(320, 320) for _ in range(6)))
    return {"model": model, "x": list(draw(8, 32, 320)), "sgd": torch.optim.SGD(model.parameters(), 1e-3), "report": {}}


def _histograms(s: Any, index: int) -> Any:
    for name, weights in s.model.named_parameters():
        s.report[name] = (torch.histc(weights.detach(), 64), weights.detach().std())
    return _histograms_fixed(s, index)


def _histograms_fixed(s: Any, index: int) -> Any:
    s.sgd.zero_grad()
    loss = s.model(s.x[index % 8]).square().mean()
    loss.backward()
    s.sgd.step()
    return loss.detach()


def _probe() -> dict[str, Any]:
    backbone = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU())
    head = nn.Linear(32, 10)
    sgd, labels = torch.optim.SGD(head.parameters(), lr=1e-2), torch.randint(0, 10, (8, 8))
    return {"backbone": backbone, "head": head, "sgd": sgd, "labels": labels, "x": list(draw(8, 8, 3, 64, 64))}


def _probed(s: Any, index: int, kept: bool = True) -> Any:
    with torch.set_grad_enabled(kept):
        found = s.backbone(s.x[index % 8])
    s.sgd.zero_grad()
    loss = functional.cross_entropy(s.head(found.mean((2, 3))), s.labels[index % 8])
    loss.backward()
    s.sgd.step()
    return loss.detach()


def _flow() -> dict[str, Any]:
    return {"scales": [nn.Parameter(1.0 + 0.1 * draw(512)) for _ in range(16)], "x": list(draw(8, 1024, 512))}


def _flowed(s: Any, index: int) -> Any:
    x = s.x[index % 8]
    for scale in s.scales:
        x = (x * scale).relu() + 0.1
    return x.sum(1).detach()


# --- structure and algorithms ---


def _rod() -> dict[str, Any]:
    eye = torch.eye(1024)
    return {"rod": 0.6 * eye + 0.2 * (eye.roll(1, 0) + eye.roll(-1, 0)), "heat": list(draw(8, 1024, 384))}


def _cooled_fixed(s: Any, index: int) -> Any:
    heat = s.heat[index % 8]
    return 0.6 * heat + 0.2 * (heat.roll(1, 0) + heat.roll(-1, 0))


def _factors() -> dict[str, Any]:
    lower = draw(8, 700, 700).tril().mul_(0.01) + torch.eye(700)
    return {"loads": draw(8, 700, 8), "own": 1.0 + torch.rand(8, 700), "excess": draw(8, 700), "lower": lower}


def _portfolio(s: Any, index: int) -> Any:
    loads, own = s.loads[index % 8], s.own[index % 8]
    return torch.linalg.solve(torch.diag(own) + loads @ loads.T, s.excess[index % 8])


def _portfolio_fixed(s: Any, index: int) -> Any:
    loads, own, excess = s.loads[index % 8], s.own[index % 8], s.excess[index % 8]
    light = loads / own[:, None]
    return excess / own - light @ torch.linalg.solve(torch.eye(8) + loads.T @ light, light.T @ excess)


def _measured() -> dict[str, Any]:
    half = draw(64, 64) / 8.0
    return {"x": list(draw(8, 1500, 64)), "precision": half @ half.T + torch.eye(64)}


def _outliers(s: Any, index: int) -> Any:
    x = s.x[index % 8]
    return torch.diag(x @ s.precision @ x.T).sqrt()


def _outliers_fixed(s: Any, index: int) -> Any:
    x = s.x[index % 8]
    return ((x @ s.precision) * x).sum(1).sqrt()


def _area(s: Any, index: int) -> Any:
    scores, true = s.scores[index % 8], s.true[index % 8]
    return (scores[true][:, None] > scores[~true][None]).float().mean()


def _area_fixed(s: Any, index: int) -> Any:
    ranked = s.true[index % 8][s.scores[index % 8].argsort()].float()
    found, rows = ranked.sum(), len(ranked)
    return ((ranked * torch.arange(1.0, rows + 1)).sum() / found - (found + 1) / 2) / (rows - found)


def _series() -> dict[str, Any]:
    apart = torch.arange(512)[None] - torch.arange(512)[:, None]
    return {"series": list(draw(8, 48, 512)), "decays": 0.1 * 0.9 ** apart.clamp_min(0) * (apart >= 0)}


def _averaged(s: Any, index: int) -> Any:
    level, levels = torch.zeros(48), []
    for place in range(512):
        level = 0.9 * level + 0.1 * s.series[index % 8][:, place]
        levels.append(level)
    return torch.stack(levels, 1)


# --- formats, layouts, memory ---


def _chat() -> dict[str, Any]:
    return {"past": list(draw(4, 2, 8, 768, 64)), "fresh": draw(24, 8, 1, 64), "room": torch.empty(2, 8, 800, 64)}


def _answered(s: Any, index: int) -> Any:
    keys, values = s.past[index % 4]
    out = []
    for token in s.fresh:
        keys, values = torch.cat((keys, token), 1), torch.cat((values, token), 1)
        out.append(functional.scaled_dot_product_attention(token[None], keys[None], values[None]))
    return torch.cat(out)


def _answered_fixed(s: Any, index: int) -> Any:
    s.room[:, :, :768] = s.past[index % 4]
    out = []
    for end, token in enumerate(s.fresh, 769):
        s.room[:, :, end - 1 : end] = token
        out.append(functional.scaled_dot_product_attention(token[None], *s.room[:, None, :, :end]))
    return torch.cat(out)


def _moved(s: Any, _: int) -> Any:
    s.places = s.places + 0.01 * s.speeds
    return s.places[:100]


def _turned_about(s: Any, index: int) -> Any:
    x = s.frames[index % 8]
    for gain in s.gains:
        x = functional.silu(x.transpose(1, 2).contiguous() * gain).transpose(1, 2).contiguous()
    return x


def _turned_about_fixed(s: Any, index: int) -> Any:
    x = s.frames[index % 8]
    for gain in s.gains:
        x = functional.silu(x * gain[:, None])
    return x


# --- the host ---


def _spelled(s: Any, index: int) -> Any:
    out, before = [], -1
    for frame in s.logits[index % 8]:
        letter = frame.argmax().item()
        if letter not in (before, 0):
            out.append(letter)
        before = letter
    return torch.tensor(out)


def _spelled_fixed(s: Any, index: int) -> Any:
    letters = s.logits[index % 8].argmax(1).unique_consecutive()
    return letters[letters != 0]


def _found(s: Any, index: int) -> Any:
    scores = (s.passages @ s.questions[index % 8]).tolist()
    return torch.tensor(heapq.nlargest(10, range(len(scores)), key=scores.__getitem__))


def _bigrams(s: Any, index: int) -> Any:
    counts = torch.zeros(64, 64)
    for pair, count in Counter(pairwise(s.texts[index % 8].tolist())).items():
        counts[pair] = count
    return counts


def _replay() -> dict[str, Any]:
    states = draw(4096, 64)
    return {"memory": [(row, row[0].item()) for row in states], "states": states, "ids": torch.randint(4096, (8, 2048))}


def _replayed(s: Any, index: int) -> Any:
    batch = [s.memory[place] for place in s.ids[index % 8]]
    return torch.stack([state for state, _ in batch]) * torch.tensor([reward for _, reward in batch])[:, None]


def _replayed_fixed(s: Any, index: int) -> Any:
    batch = s.states[s.ids[index % 8]]
    return batch * batch[:, :1]


def _parameters() -> dict[str, Any]:
    model = nn.Sequential(*(nn.Linear(48, 48) for _ in range(60)))
    for weights in model.parameters():
        weights.grad = torch.full_like(weights, 1e-3)
    plain, joint = (torch.optim.AdamW(model.parameters(), **how) for how in ({"foreach": False}, {"fused": True}))
    return {"plain": plain, "joint": joint, "last": model[-1].weight}


def _served() -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)).requires_grad_(False)
    return {"model": model, "x": list(draw(8, 64, 512)), "pool": ThreadPoolExecutor(1), "cache": {}}


def _polled(s: Any, index: int) -> Any:
    loaded = s.pool.submit(torch.clone, s.x[index % 8])
    while not loaded.done():
        time.sleep(0.01)
    return s.model(loaded.result())


def _fingerprinted(s: Any, index: int) -> Any:
    x = s.x[index % 8] + index
    name = hashlib.sha256(b"".join(value.numpy().tobytes() for value in (x, *s.model.parameters()))).hexdigest()
    return s.cache[name] if name in s.cache else s.model(x)


PLANTED: dict[str, Step] = {
    "quantiles": Step(
        lambda: {"tables": draw(8, 4096, 24), "levels": torch.tensor([0.01, 0.5, 0.99])}, _quantiles,
        lambda s, index: _quantiles(s, index, at_once=True)),
    "thumbnails": Step(
        lambda: {"photos": torch.randint(0, 256, (8, 4, 3, 320, 320), dtype=torch.uint8), "shift": draw(3, 1, 1)},
        lambda s, index: _coloured(s, s.photos[index % 8])[:, :, ::2, ::2],
        lambda s, index: _coloured(s, s.photos[index % 8][:, :, ::2, ::2])),
    "blurred": Step(_augmentation, _blurred, _blurred_fixed),
    "messages": Step(_network, _messages, _messages_fixed),
    "tagged": Step(_tagger, lambda s, index: s.tagger(s.x[index % 8]),
        lambda s, index: functional.linear(s.x[index % 8], s.kept, s.tagger.bias)),
    "histograms": Step(_monitored, _histograms, _histograms_fixed),
    "probed": Step(_probe, _probed, lambda s, index: _probed(s, index, kept=False)),
    "flowed": Step(_flow, _flowed, torch.no_grad()(_flowed)),
    "cooled": Step(_rod, lambda s, index: s.rod @ s.heat[index % 8], _cooled_fixed),
    "portfolio": Step(_factors, _portfolio, _portfolio_fixed),
    "substituted": Step(_factors, lambda s, index: torch.linalg.solve(s.lower[index % 8], s.loads[index % 8]),
        lambda s, index: torch.linalg.solve_triangular(s.lower[index % 8], s.loads[index % 8], upper=False)),
    "outliers": Step(_measured, _outliers, _outliers_fixed),
    "area": Step(lambda: {"scores": draw(8, 5000), "true": torch.rand(8, 5000) < 0.4}, _area, _area_fixed),
    "averaged": Step(_series, _averaged, lambda s, index: s.series[index % 8] @ s.decays),
    "coded": Step(lambda: {"codes": torch.randint(-8, 8, (8, 64, 384)), "grid": torch.randint(-8, 8, (384, 256))},
        lambda s, index: (s.codes[index % 8] @ s.grid) * 0.01,
        lambda s, index: (s.codes[index % 8].float() @ s.grid.float()) * 0.01),
    "phased": Step(lambda: {"phases": draw(8, 256, 1024)}, lambda s, index: torch.exp(1j * s.phases[index % 8]).real,
        lambda s, index: s.phases[index % 8].cos()),
    "answered": Step(_chat, _answered, _answered_fixed),
    "moved": Step(lambda: {"places": draw(8_500_000), "speeds": draw(8_500_000)}, _moved,
        lambda s, _: s.places.add_(s.speeds, alpha=0.01)[:100]),
    "turned-about": Step(
        lambda: {"frames": draw(8, 16, 192, 500), "gains": 1.0 + 0.1 * draw(3, 192)}, _turned_about, _turned_about_fixed
    ),
    "spelled": Step(lambda: {"logits": draw(8, 2000, 32)}, _spelled, _spelled_fixed),
    "found": Step(lambda: {"questions": draw(8, 64), "passages": draw(60_000, 64)}, _found,
        lambda s, index: (s.passages @ s.questions[index % 8]).topk(10).indices),
    "bigrams": Step(lambda: {"texts": torch.randint(0, 64, (8, 20_000))}, _bigrams, lambda s, index: torch.bincount(
        s.texts[index % 8, :-1] * 64 + s.texts[index % 8, 1:], minlength=4096).view(64, 64).float()),
    "replayed": Step(_replay, _replayed, _replayed_fixed),
    "optimised": Step(_parameters, lambda s, _: (s.plain.step(), s.last.detach())[1],
        lambda s, _: (s.joint.step(), s.last.detach())[1]),
    "polled": Step(_served, _polled,
        lambda s, index: s.model(s.pool.submit(torch.clone, s.x[index % 8]).result())),
    "fingerprinted": Step(_served, _fingerprinted, lambda s, index: s.model(s.x[index % 8] + index)),
}  # fmt: skip

# --- in good health ---


def _fitting() -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(512, 768), nn.GELU(), nn.Linear(768, 512))
    return {"model": model, "adam": torch.optim.AdamW(model.parameters(), fused=True), "x": list(draw(8, 512, 512))}


def _fitted(s: Any, index: int) -> Any:
    s.adam.zero_grad()
    loss = functional.mse_loss(s.model(s.x[index % 8]), s.x[index % 8])
    loss.backward()
    s.adam.step()
    return loss.detach()


def _quantised() -> dict[str, Any]:
    net = nn.Sequential(nn.Linear(768, 3072), nn.ReLU(), nn.Linear(3072, 768)).requires_grad_(False)
    return {"net": torch.ao.quantization.quantize_dynamic(net, {nn.Linear}), "x": list(draw(8, 128, 768))}


def _positive() -> dict[str, Any]:
    small, wide = draw(8, 2000, 16, 16) + 8 * torch.eye(16), draw(8, 900, 900)
    wide = wide @ wide.mT / 900 + torch.eye(900)
    return {"small": small, "sides": draw(2000, 16, 4), "wide": wide, "calm": draw(8, 256, 256) / 16.0}


HEALTHY: dict[str, Step] = {
    "fitted": Step(_fitting, _fitted),
    "quantised": Step(_quantised, lambda s, index: s.net(s.x[index % 8])),
    "long-filter": Step(
        lambda: {"x": list(draw(8, 64, 8192)), "spectrum": torch.fft.rfft(draw(64, 8192), 16_384)},
        lambda s, index: torch.fft.irfft(torch.fft.rfft(s.x[index % 8], 16_384) * s.spectrum, 16_384)[:, :8192]),
    "small-systems": Step(_positive, lambda s, index: torch.linalg.solve(s.small[index % 8], s.sides)),
    "factored": Step(_positive, lambda s, index: torch.linalg.cholesky(s.wide[index % 8])),
    "exponential": Step(_positive, lambda s, index: torch.linalg.matrix_exp(s.calm[index % 8])),
    "warped": Step(lambda: {"x": draw(8, 4, 16, 128, 128), "flow": torch.rand(8, 4, 128, 128, 2) * 2 - 1},
        lambda s, index: functional.grid_sample(s.x[index % 8], s.flow[index % 8], align_corners=False)),
    "one-token": Step(lambda: {"x": draw(8, 1, 2048), "head": nn.Linear(2048, 12_000).requires_grad_(False)},
        lambda s, index: s.head(s.x[index % 8])),
    "volumes": Step(lambda: {"x": draw(8, 1, 16, 24, 24, 24), "w": draw(32, 16, 3, 3, 3)},
        lambda s, index: functional.conv3d(s.x[index % 8], s.w, padding=1)),
    "bucketed": Step(lambda: {"x": draw(8, 1 << 18), "edges": draw(4000).sort().values},
        lambda s, index: torch.bucketize(s.x[index % 8], s.edges)),
    "likelihood": Step(lambda: {"x": draw(8, 1 << 19).abs()}, lambda s, index: torch.lgamma(s.x[index % 8]).sum()),
    "convolved-back": Step(lambda: {"x": draw(8, 8, 32, 32, 32), "w": draw(64, 32, 3, 3).requires_grad_()},
        lambda s, index: torch.autograd.grad(functional.conv2d(s.x[index % 8], s.w, padding=1).square().sum(), s.w)[0]),
    "depthwise": Step(lambda: {"x": draw(8, 8, 64, 56, 56), "w": draw(64, 1, 7, 7)},
        lambda s, index: functional.conv2d(s.x[index % 8], s.w, padding=3, groups=64)),
    "interfered": Step(lambda: {"x": list(torch.complex(draw(8, 512, 384), draw(8, 512, 384))),
        "w": torch.complex(draw(384, 384), draw(384, 384))}, lambda s, index: s.x[index % 8] @ s.w),
    "extremes": Step(lambda: {"x": draw(4, 1 << 23)}, lambda s, index: torch.stack(torch.aminmax(s.x[index % 4]))),
    "log-softmax": Step(lambda: {"x": draw(8, 256, 8192)}, lambda s, index: s.x[index % 8].log_softmax(1)),
}  # fmt: skip
