"""Functions of the fourth set whose time goes on the host or on the link: loops, looks, copies and work in Python.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from gpu_live_cases import BF16, DEVICE, size, tensor
from gpu_live_waits import recorded

# --- the host asks ----------------------------------------------------------------------------------------------------


class Lengths:
    """A cache of keys and values that keeps its length on the device, and slices by it in every layer."""

    def setup(self) -> None:
        """One token of a batch, and layers with their caches."""
        rows, self.heads, places = size(8, 2), size(8, 2), size(4096, 16)
        width = 128 * self.heads
        self.x = tensor(rows, 1, width)
        self.layers = [
            (tensor(width, 3 * width) / math.sqrt(width), *(tensor(rows, self.heads, places, 128) for _ in range(2)))
            for _ in range(size(32, 2))
        ]
        self.said = places - size(96, 4)
        self.there = torch.tensor(self.said, device=DEVICE)

    def _decode(self, said: Any) -> None:
        x = self.x
        for weight, keys, values in self.layers:
            q, k, v = (x @ weight).unflatten(-1, (3 * self.heads, 128)).transpose(1, 2).chunk(3, 1)
            keys[:, :, said : said + 1] = k
            values[:, :, said : said + 1] = v
            seen = functional.scaled_dot_product_attention(q, keys[:, :, : said + 1], values[:, :, : said + 1])
            x = x + seen.transpose(1, 2).flatten(2)
        self.y = x

    def __call__(self) -> None:
        """Every slice must know the number."""
        self._decode(self.there)

    def fixed(self) -> None:
        """The host counted all along."""
        self._decode(self.said)


class Trimmed:
    """Sequences cut to their lengths one by one, the lengths being on the device, to average over their words."""

    def setup(self) -> None:
        """Hidden states of a padded batch."""
        rows, places = size(256, 4), size(512, 8)
        self.x = tensor(rows, places, size(1024, 16))
        self.lengths = torch.randint(places // 4, places + 1, (rows,), device=DEVICE)

    def __call__(self) -> None:
        """A look and a small kernel for each."""
        self.y = torch.stack([self.x[row, :length].mean(0) for row, length in enumerate(self.lengths)])

    def fixed(self) -> None:
        """All at once, by a product with what counts."""
        here = torch.arange(self.x.shape[1], device=DEVICE) < self.lengths[:, None]
        sums = torch.bmm(here.to(BF16).unsqueeze(1), self.x).squeeze(1)
        self.y = sums / self.lengths[:, None]


# --- many small kernels -----------------------------------------------------------------------------------------------


class Relations:
    """Messages in a graph of many kinds of edges, one kind after the other."""

    def setup(self) -> None:
        """Nodes, a weight for each kind, and where its edges begin and end."""
        nodes, kinds, edges, width = size(8192, 16), size(64, 3), size(1024, 8), size(128, 8)
        self.x, self.w = tensor(nodes, width), tensor(kinds, width, width) / math.sqrt(width)
        self.begin, self.end = (torch.randint(0, nodes, (kinds, edges), device=DEVICE) for _ in range(2))
        self.weight = torch.rand(kinds, edges, 1, device=DEVICE).to(BF16)

    def __call__(self) -> None:
        """Gathered, multiplied, weighted, added: for every kind."""
        out = torch.zeros_like(self.x)
        for kind in range(len(self.w)):
            messages = self.x[self.begin[kind]] @ self.w[kind]
            out.index_add_(0, self.end[kind], messages * self.weight[kind])
        self.y = torch.relu(out)

    def fixed(self) -> None:
        """All kinds in one batched product."""
        messages = torch.bmm(self.x[self.begin], self.w) * self.weight
        out = torch.zeros_like(self.x).index_add_(0, self.end.flatten(), messages.flatten(0, 1))
        self.y = torch.relu(out)


class Integrated:
    """A differential equation whose slope is a small network, followed in steps of fourth order."""

    def setup(self) -> None:
        """Where it begins, the network, and a recording of the way."""
        width = size(256, 16)
        self.x = tensor(size(64, 4), width)
        self.up, self.down = (tensor(width, width) / math.sqrt(width) for _ in range(2))
        self.replay = recorded(self._follow)

    def _slope(self, x: Any) -> Any:
        return torch.tanh(x @ self.up) @ self.down

    def _follow(self) -> None:
        x, width = self.x, 1 / 32
        for _ in range(size(32, 4)):
            first = self._slope(x)
            second = self._slope(x + width / 2 * first)
            third = self._slope(x + width / 2 * second)
            fourth = self._slope(x + width * third)
            x = x + width / 6 * (first + 2 * second + 2 * third + fourth)
        self.y = x

    def __call__(self) -> None:
        """Two dozen small kernels a step."""
        self._follow()

    def fixed(self) -> None:
        """Replayed."""
        self.replay()


class Regularised:
    """A penalty on every weight written into the loss, for the gradient to find its way back through each."""

    strength = 0.01

    def setup(self) -> None:
        """Many small weights, of which a few make the task."""
        width = size(256, 8)
        self.x = tensor(size(512, 4), width)
        self.weights = [(tensor(width, width) / math.sqrt(width)).requires_grad_() for _ in range(size(160, 4))]

    def _task(self) -> Any:
        for weight in self.weights:
            weight.grad = None
        x = self.x
        for weight in self.weights[:3]:
            x = torch.relu(x @ weight)
        return x.float().pow(2).mean()

    def __call__(self) -> None:
        """Three kernels for each weight there, and as many back."""
        loss = self._task()
        for weight in self.weights:
            loss = loss + self.strength * weight.pow(2).sum()
        loss.backward()
        self.loss, self.y = loss.detach(), [weight.grad for weight in self.weights]

    def fixed(self) -> None:
        """The gradient of a square is known: a few kernels for all weights."""
        loss = self._task()
        loss.backward()
        with torch.no_grad():
            norms = torch.stack(torch._foreach_norm(self.weights)).float()
            pulls = list(torch._foreach_mul(self.weights, 2 * self.strength))
            torch._foreach_add_(pulls[:3], [weight.grad for weight in self.weights[:3]])
        self.loss, self.y = loss.detach() + self.strength * norms.pow(2).sum(), pulls


# --- copies over the link ---------------------------------------------------------------------------------------------


class Hooked:
    """Features of every layer fetched to the host whole, where only the first place of each is kept."""

    def setup(self) -> None:
        """Layers over a batch of sequences."""
        width = size(2048, 16)
        self.x = tensor(size(32, 2), size(256, 4), width)
        self.layers = [tensor(width, width) / math.sqrt(width) for _ in range(size(6, 3))]

    def __call__(self) -> None:
        """All of them leave."""
        x, kept = self.x, []
        for weight in self.layers:
            x = torch.relu(x @ weight)
            kept.append(x.cpu()[:, 0])
        self.y = torch.stack(kept)

    def fixed(self) -> None:
        """What is kept leaves, at the end."""
        x, kept = self.x, []
        for weight in self.layers:
            x = torch.relu(x @ weight)
            kept.append(x[:, 0])
        self.y = torch.stack(kept).cpu()


class Shadowed:
    """A moving average of the weights kept on the host, to save memory that nobody is short of."""

    def setup(self) -> None:
        """Layers, and their average here and there."""
        width = size(2048, 16)
        self.x = tensor(size(8192, 8), width)
        self.layers = [tensor(width, width) / math.sqrt(width) for _ in range(size(8, 2))]
        self.there = [torch.zeros(width, width, device=DEVICE) for _ in self.layers]
        self.here = [mean.cpu().clone() for mean in self.there]

    def _work(self) -> None:
        x = self.x
        for weight in self.layers:
            x = torch.relu(x @ weight)
        self.out = x

    def __call__(self) -> None:
        """Every weight leaves, and the host does the sums."""
        self._work()
        for mean, weight in zip(self.here, self.layers, strict=True):
            mean.lerp_(weight.float().cpu(), 0.25)
        self.y = self.here

    def fixed(self) -> None:
        """The average stays beside the weights."""
        self._work()
        torch._foreach_lerp_(self.there, [weight.float() for weight in self.layers], 0.25)
        self.y = self.there


# --- work of the host -------------------------------------------------------------------------------------------------


class Augmented:
    """Pictures cut, turned over, enlarged and normed on the host, one after the other, before each step."""

    mean, deviation = 118.0, 60.0

    def setup(self) -> None:
        """Pictures as bytes, where each is cut, and a few convolutions."""
        count, side, self.cut, self.wanted = size(32, 3), size(256, 12), size(192, 8), size(224, 10)
        self.pictures = torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8)
        if DEVICE == "cuda":
            self.pictures = self.pictures.pin_memory()
        self.places = [(number * 7 % (side - self.cut), number * 13 % (side - self.cut)) for number in range(count)]
        self.turned = [number % 2 == 1 for number in range(count)]
        across = torch.arange(self.cut)
        self.rows = torch.stack([top + across for top, _ in self.places]).to(DEVICE)
        columns = [left + across for _, left in self.places]
        pairs = zip(columns, self.turned, strict=True)
        self.columns = torch.stack([column.flip(0) if turned else column for column, turned in pairs]).to(DEVICE)
        wide, last = size(64, 4), torch.channels_last
        self.first = (tensor(wide, 3, 7, 7) * 0.1).to(memory_format=last)
        self.second = (tensor(wide, wide, 3, 3) / (3 * math.sqrt(wide))).to(memory_format=last)

    def _prepared(self, pictures: Any) -> Any:
        shape = (self.wanted, self.wanted)
        larger = functional.interpolate(pictures.float(), shape, mode="bilinear", align_corners=False)
        return (larger - self.mean) / self.deviation

    def _layers(self, batch: Any) -> None:
        x = functional.conv2d(batch.to(BF16, memory_format=torch.channels_last), self.first, stride=2, padding=3)
        for _ in range(3):
            x = torch.relu(functional.conv2d(x, self.second, padding=1))
        self.y = x

    def __call__(self) -> None:
        """While the device waits."""
        batch = []
        for picture, (top, left), turned in zip(self.pictures, self.places, self.turned, strict=True):
            part = picture[:, top : top + self.cut, left : left + self.cut]
            batch.append(self._prepared((part.flip(-1) if turned else part)[None]))
        self._layers(torch.cat(batch).to(DEVICE))

    def fixed(self) -> None:
        """The bytes are copied as they are, and the device prepares all of them at once."""
        pictures = self.pictures.to(DEVICE, non_blocking=True)
        which = torch.arange(len(pictures), device=DEVICE)[:, None, None]
        parts = pictures.permute(0, 2, 3, 1)[which, self.rows[:, :, None], self.columns[:, None, :]]
        self._layers(self._prepared(parts.permute(0, 3, 1, 2)))


class Ngrams:
    """Words that would repeat a triple are forbidden, and Python looks for them in all that was said."""

    def setup(self) -> None:
        """What was said, hidden states, and a head."""
        rows, width, words = size(64, 3), size(4096, 16), size(32_000, 60)
        self.said = torch.randint(0, size(2000, 60), (rows, size(256, 16)), device=DEVICE)
        self.said[:, -2:] = self.said[:, 3:5]
        self.x, self.head = tensor(rows, width), tensor(width, words) / math.sqrt(width)

    def __call__(self) -> None:
        """A dictionary of pairs for every row."""
        logits = self.x @ self.head
        rows, words = [], []
        for row, said in enumerate(self.said.tolist()):
            followed: dict[tuple[int, int], list[int]] = {}
            for place in range(len(said) - 2):
                followed.setdefault((said[place], said[place + 1]), []).append(said[place + 2])
            forbidden = followed.get((said[-2], said[-1]), [])
            rows += [row] * len(forbidden)
            words += forbidden
        logits[rows, words] = -math.inf
        self.y = logits.float().softmax(-1)

    def fixed(self) -> None:
        """All triples compared at once, where they are."""
        logits = self.x @ self.head
        triples = self.said.unfold(1, 3, 1)
        same = (triples[..., :2] == self.said[:, None, -2:]).all(-1)
        cost = torch.zeros_like(same, dtype=BF16).masked_fill_(same, -math.inf)
        self.y = logits.scatter_add_(1, triples[..., 2], cost).float().softmax(-1)


lengths, trimmed, relations, integrated, regularised = Lengths(), Trimmed(), Relations(), Integrated(), Regularised()
hooked, shadowed, augmented, ngrams = Hooked(), Shadowed(), Augmented(), Ngrams()
