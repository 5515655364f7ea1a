"""Functions of the ninth set whose time goes on the host or on the link.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`.
"""

from __future__ import annotations

import heapq
import json
import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from gpu_live_cases import BF16, DEVICE, size, tensor

SEED, SINGLE = 9, torch.float32


def layers(*widths: int) -> list[Any]:
    """Layers from each width to the next, for a ReLU after each."""
    return [tensor(*pair) * math.sqrt(2 / pair[0]) for pair in pairwise(widths)]


def through(x: Any, weights: list[Any]) -> Any:
    """All of them."""
    for weight in weights:
        x = torch.relu(x @ weight)
    return x


# --- many small kernels -----------------------------------------------------------------------------------------------


class Stencilled:
    """Air that carries its heat along and spreads it, one level of the atmosphere after the other."""

    def setup(self) -> None:
        """Heat and winds."""
        torch.manual_seed(SEED)
        shape = size(40, 3), size(180, 6), size(360, 8)
        self.heat, self.east, self.north = (tensor(*shape, dtype=SINGLE) for _ in range(3))

    @staticmethod
    def _carried(heat: Any, east: Any, north: Any) -> Any:
        before, after = torch.roll(heat, 1, -1), torch.roll(heat, -1, -1)
        below, above = torch.roll(heat, 1, -2), torch.roll(heat, -1, -2)
        carried = east * (after - before) / 2 + north * (above - below) / 2
        return heat - 0.1 * carried + 0.05 * (before + after + below + above - 4 * heat)

    def __call__(self) -> None:
        """Some twenty small kernels each."""
        levels = zip(self.heat, self.east, self.north, strict=True)
        self.y = torch.stack([self._carried(*level) for level in levels])

    def fixed(self) -> None:
        """All levels at once."""
        self.y = self._carried(self.heat, self.east, self.north)


class Critics:
    """A robot's eye is one large network, and what it sees is judged by dozens of small ones, one after the other."""

    def setup(self) -> None:
        """What was seen of late, the eye, the critics, and their weights in stacks."""
        torch.manual_seed(SEED)
        self.moments, width, narrow = 8, size(4096, 16), size(256, 8)
        self.x, self.eye = tensor(size(4096, 16), width), layers(*(width for _ in range(5)))
        self.last = tensor(width, narrow) / math.sqrt(width)
        shapes = (narrow, narrow), (narrow, narrow), (narrow, 1)
        linear, relu = torch.nn.Linear, torch.nn.ReLU
        parts = [[linear(*shape, device=DEVICE, dtype=BF16) for shape in shapes] for _ in range(size(64, 3))]
        self.critics = [torch.nn.Sequential(a, relu(), b, relu(), c) for a, b, c in parts]
        stack = torch.no_grad()(torch.stack)
        self.stacks = [
            (stack([one.bias[None] for one in layer]), stack([one.weight.T for one in layer]))
            for layer in zip(*parts, strict=True)
        ]

    def _seen(self) -> Any:
        return through(self.x, self.eye).unflatten(0, (-1, self.moments)).mean(1) @ self.last

    @torch.no_grad()
    def __call__(self) -> None:
        """Hundreds of small kernels, and the worst that anyone says."""
        seen = self._seen()
        self.y = torch.stack([critic(seen) for critic in self.critics]).amin(0)

    @torch.no_grad()
    def fixed(self) -> None:
        """One product for all critics."""
        said = self._seen().expand(len(self.critics), -1, -1)
        for place, (bias, weight) in enumerate(self.stacks):
            said = torch.baddbmm(bias, torch.relu_(said) if place else said, weight)
        self.y = said.amin(0)


class Overlapped:
    """A voice put together from short pieces that overlap, each added where it belongs."""

    def setup(self) -> None:
        """What the voice is made from, and a layer that makes a spectrum of each piece."""
        torch.manual_seed(SEED)
        self.clips, self.pieces, self.long = size(16, 2), size(600, 5), size(1024, 16)
        self.hop, width = self.long // 4, size(1024, 8)
        self.x = tensor(self.clips, self.pieces, width)
        self.head = tensor(width, self.long + 2) / math.sqrt(width)
        self.bell = torch.hann_window(self.long, device=DEVICE)
        self.length = self.hop * (self.pieces - 1) + self.long

    def _pieces(self) -> Any:
        loud, turned = (self.x @ self.head).float().chunk(2, -1)
        return torch.fft.irfft(torch.polar(loud.clamp(max=4).exp(), turned), n=self.long) * self.bell

    def __call__(self) -> None:
        """Piece by piece."""
        pieces, self.y = self._pieces(), torch.zeros(self.clips, self.length, device=DEVICE)
        for place in range(self.pieces):
            start = place * self.hop
            self.y[:, start : start + self.long] += pieces[:, place]

    def fixed(self) -> None:
        """The library knows how."""
        shape, long, hop = (1, self.length), (1, self.long), (1, self.hop)
        self.y = functional.fold(self._pieces().mT, shape, long, stride=hop).flatten(1)


# --- the host asks ----------------------------------------------------------------------------------------------------


class Waypoints:
    """A robot's path tried for collisions: at each point of it Python asks how near the next obstacle is."""

    def setup(self) -> None:
        """The robot's surface, obstacles, and how it is turned and where it is at each point of the path."""
        torch.manual_seed(SEED)
        torch.set_float32_matmul_precision("highest")
        points, self.margin = size(200, 8), 0.5
        self.body = torch.rand(size(256, 12), 3, device=DEVICE) * 0.4
        self.obstacles = torch.rand(size(1024, 16), 3, device=DEVICE)
        self.turns = torch.linalg.qr(torch.randn(points, 3, 3, device=DEVICE)).Q
        self.places = torch.rand(points, 3, device=DEVICE) * 2

    def __call__(self) -> None:
        """Point by point."""
        costs = []
        for turn, place in zip(self.turns, self.places, strict=True):
            near = torch.cdist(self.body @ turn + place, self.obstacles).min()
            if near < self.margin:
                costs.append(self.margin - near.item())
            else:
                costs.append(0.0)
        self.y = torch.tensor(costs)

    def fixed(self) -> None:
        """The whole path, and one look at it."""
        bodies = self.body @ self.turns + self.places[:, None]
        near = torch.cdist(bodies, self.obstacles).amin((1, 2))
        self.y = torch.relu(self.margin - near).cpu()


class Paged:
    """Words made for many readers at once, whose keys and values lie in pages: Python looks up each one's page."""

    def setup(self) -> None:
        """Readers, who has which pages, how far each has come, layers, and the pages of each layer."""
        torch.manual_seed(SEED)
        readers, pages, self.page, self.heads = size(64, 3), size(64, 2), size(16, 4), size(8, 2)
        width, inner = size(4096, 16), size(1024, 8)
        self.x, places = tensor(readers, width), torch.arange(pages * self.page, device=DEVICE)
        self.table = torch.randperm(readers * pages, device=DEVICE).unflatten(0, (readers, pages))
        self.far = torch.randint(len(places) // 2, len(places), (readers,), device=DEVICE)
        self.mask = (places <= self.far[:, None])[:, None, None]
        shapes = (width, 3 * inner), (inner, width), (width, 2 * width), (2 * width, width)
        self.layers = [[tensor(*shape) / math.sqrt(shape[0]) for shape in shapes] for _ in range(size(4, 2))]
        self.caches = [tensor(2, readers * pages, self.page, inner) for _ in self.layers]

    def _word(self, written: Any) -> None:
        x = self.x
        for (pairs, out, up, down), cache in zip(self.layers, self.caches, strict=True):
            q, k, v = (x @ pairs).chunk(3, -1)
            written(cache, k, v)
            q, k, v = (
                part.flatten(1, -2).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                for part in (q[:, None], cache[0][self.table], cache[1][self.table])
            )
            seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
            x = x + seen.flatten(1) @ out
            x = x + torch.relu(x @ up) @ down
        self.y = x

    def _one_by_one(self, cache: Any, k: Any, v: Any) -> None:
        for reader in range(len(k)):
            far = self.far[reader].item()
            page = self.table[reader, far // self.page].item()
            cache[0, page, far % self.page] = k[reader]
            cache[1, page, far % self.page] = v[reader]

    def _together(self, cache: Any, k: Any, v: Any) -> None:
        pages = self.table.gather(1, (self.far // self.page)[:, None])[:, 0]
        cache[0][pages, self.far % self.page] = k
        cache[1][pages, self.far % self.page] = v

    def __call__(self) -> None:
        """Two questions for each reader in each layer."""
        self._word(self._one_by_one)

    def fixed(self) -> None:
        """None."""
        self._word(self._together)


# --- copies over the link ---------------------------------------------------------------------------------------------


class Handed:
    """Speech by two models, one for sounds and one for the voice, that hand arrays of NumPy to each other."""

    def setup(self) -> None:
        """Texts as numbers, and both models."""
        torch.manual_seed(SEED)
        rows, width, sounds = size(131_072, 16), size(2048, 16), size(256, 8)
        self.x = tensor(rows, width)
        self.sounds = layers(*(width for _ in range(size(4, 2))), sounds)
        self.voice = layers(sounds, *(width for _ in range(size(4, 2))), sounds)

    def __call__(self) -> None:
        """They leave the device and come back at once."""
        sounds = through(self.x, self.sounds).float().cpu().numpy()
        self.y = through(torch.from_numpy(sounds).to(DEVICE).to(BF16), self.voice)

    def fixed(self) -> None:
        """They stay."""
        self.y = through(through(self.x, self.sounds), self.voice)


class Tiled:
    """A scan of a body looked at through windows that overlap by half, each cut out on the host and sent."""

    def setup(self) -> None:
        """The scan on the host, windows, and layers over small cubes."""
        torch.manual_seed(SEED)
        self.side, self.cube, scan = size(64, 8), size(8, 4), size(256, 16)
        self.scan = tensor(scan, scan, scan).cpu()
        self.layers = layers(self.cube**3, size(1024, 16), size(1024, 16))

    def _seen(self, windows: Any) -> None:
        for dimension in (1, 2, 3):
            windows = windows.unfold(dimension, self.cube, self.cube)
        self.y = through(windows.flatten(4).flatten(1, 3), self.layers).mean(1)

    def __call__(self) -> None:
        """Nearly every point is sent eight times."""
        starts = range(0, len(self.scan) - self.side + 1, self.side // 2)
        cuts = product([slice(start, start + self.side) for start in starts], repeat=3)
        self._seen(torch.stack([self.scan[cut].to(DEVICE) for cut in cuts]))

    def fixed(self) -> None:
        """Sent once, cut where it is wanted."""
        windows = self.scan.to(DEVICE)
        for dimension in range(3):
            windows = windows.unfold(dimension, self.side, self.side // 2)
        self._seen(windows.flatten(0, 2))


# --- work of the host -------------------------------------------------------------------------------------------------


class Parsed:
    """What a robot feels comes as lines of JSON, which Python reads before the network may."""

    def setup(self) -> None:
        """The lines, the same as bytes, and layers."""
        torch.manual_seed(SEED)
        rows, joints, touch, width = size(2048, 4), size(16, 3), size(32, 5), size(8192, 16)
        felt = np.random.default_rng(SEED).standard_normal((rows, joints + touch)).astype(np.float32)
        self.lines = [
            json.dumps({"time": place, "joints": row[:joints], "touch": row[joints:]})
            for place, row in enumerate(felt.tolist())
        ]
        self.bytes, self.columns = bytearray(felt.tobytes()), joints + touch
        self.layers = layers(self.columns, *(width for _ in range(size(12, 2))))

    def __call__(self) -> None:
        """Line by line, number by number."""
        felt = []
        for line in self.lines:
            told = json.loads(line)
            felt.append(told["joints"] + told["touch"])
        self.y = through(torch.tensor(felt).to(DEVICE).to(BF16), self.layers)

    def fixed(self) -> None:
        """They might as well have come as numbers."""
        felt = torch.frombuffer(self.bytes, dtype=SINGLE).unflatten(0, (-1, self.columns))
        self.y = through(felt.to(DEVICE).to(BF16), self.layers)


class Advantages:
    """How much better each move of a player was than hoped, by Python, from the last moment back to the first."""

    def setup(self) -> None:
        """What was seen and what it brought, layers, what they hope and how likely they find each move."""
        torch.manual_seed(SEED)
        self.players, moments, width = size(256, 3), size(128, 6), size(2048, 16)
        self.x, self.brought = tensor(self.players * moments, width), torch.randn(self.players, moments, device=DEVICE)
        self.layers, self.heads = layers(*(width for _ in range(4))), tensor(width, 2) / math.sqrt(width)
        self.near, self.trust = 0.99, 0.95
        apart = torch.arange(moments, device=DEVICE)
        apart = apart[:, None] - apart
        self.later = (self.near * self.trust) ** apart.clamp(min=0) * (apart >= 0)

    def _hoped(self) -> Any:
        said = (through(self.x, self.layers) @ self.heads).float().unflatten(0, (self.players, -1))
        return said.unbind(-1)

    def _loss(self, better: Any, likely: Any) -> None:
        self.y = -(better - better.mean()) / better.std() * functional.logsigmoid(likely)

    def __call__(self) -> None:
        """Player by player, moment by moment."""
        hoped, likely = self._hoped()
        better = []
        for gains, hopes in zip(self.brought.tolist(), hoped.tolist(), strict=True):
            row, last, after = [0.0] * len(gains), 0.0, 0.0
            for moment in reversed(range(len(gains))):
                surprise = gains[moment] + self.near * after - hopes[moment]
                last = surprise + self.near * self.trust * last
                row[moment], after = last, hopes[moment]
            better.append(row)
        self._loss(torch.tensor(better).to(DEVICE), likely)

    def fixed(self) -> None:
        """One small product, where the hopes are."""
        hoped, likely = self._hoped()
        surprise = self.brought + self.near * functional.pad(hoped[:, 1:], (0, 1)) - hoped
        self._loss(surprise @ self.later, likely)


class Shards:
    """Documents found for questions in each of a few parts of a library; Python merges what was found."""

    def setup(self) -> None:
        """Questions and the parts."""
        torch.manual_seed(SEED)
        width, self.wanted = size(512, 16), size(64, 4)
        self.asked = tensor(size(128, 3), width)
        self.parts = [tensor(size(131_072, 20), width) for _ in range(size(8, 3))]

    def _found(self) -> list[Any]:
        return [(self.asked @ part.T).float().topk(self.wanted) for part in self.parts]

    def __call__(self) -> None:
        """Pairs of a score and a number, question by question."""
        found = [(scores.tolist(), which.tolist()) for scores, which in self._found()]
        best = []
        for asked in range(len(self.asked)):
            pairs = [
                (score, part, document)
                for part, (scores, which) in enumerate(found)
                for score, document in zip(scores[asked], which[asked], strict=True)
            ]
            best.append([score for score, *_ in heapq.nlargest(self.wanted, pairs)])
        self.y = torch.tensor(best)

    def fixed(self) -> None:
        """The best of the best, on the device."""
        self.y = torch.cat([found.values for found in self._found()], 1).topk(self.wanted).values.cpu()


stencilled, critics, overlapped = Stencilled(), Critics(), Overlapped()
waypoints, paged, handed, tiled = Waypoints(), Paged(), Handed(), Tiled()
parsed, advantages, shards = Parsed(), Advantages(), Shards()
