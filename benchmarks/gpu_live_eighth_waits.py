"""Functions of the eighth set whose time goes on the host or on the link, and those whose arithmetic is in vain.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`. The arithmetic stands here for want of room beside the causes in bytes.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, TensorDataset

from gpu_live_cases import DEVICE, size, tensor

SEED, SINGLE = 8, torch.float32

# --- arithmetic that need not be --------------------------------------------------------------------------------------


class Merged:
    """Layers compressed to two thin matrices each, which are multiplied out before each use."""

    def setup(self) -> None:
        """Rows, and a way into fewer numbers and out again for each layer."""
        torch.manual_seed(SEED)
        width, rank = size(8192, 32), size(512, 4)
        self.x = tensor(size(8192, 8), width)
        shapes = (width, rank), (rank, width)
        self.layers = [[tensor(*shape) * math.sqrt(1.4 / shape[0]) for shape in shapes] for _ in range(3)]

    def __call__(self) -> None:
        """As much work as before they were compressed, and more."""
        self.y = self.x
        for into, out in self.layers:
            self.y = torch.relu_(self.y @ (into @ out))

    def fixed(self) -> None:
        """In, then out."""
        self.y = self.x
        for into, out in self.layers:
            self.y = torch.relu_((self.y @ into) @ out)


class Ragged:
    """Texts brought to one length each: two layers go over all places, most of which hold nothing, before the mean."""

    def setup(self) -> None:
        """One long text and many short ones, and where their words stand."""
        torch.manual_seed(SEED)
        rows, places, width, inner = size(48, 3), size(2048, 12), size(2048, 16), size(8192, 32)
        lengths = np.random.default_rng(SEED).integers(size(96, 2), size(512, 5), rows)
        lengths[0] = places
        self.lengths = torch.from_numpy(lengths).to(DEVICE)[:, None]
        here = torch.arange(places, device=DEVICE) < self.lengths
        self.nothing, self.words = ~here[:, :, None], here.flatten().nonzero()[:, 0]
        self.x = tensor(rows, places, width).masked_fill_(self.nothing, 0)
        self.up, self.down = tensor(width, inner) / math.sqrt(width), tensor(inner, width) / math.sqrt(inner)

    def _layers(self, x: Any) -> Any:
        return torch.relu_(x @ self.up) @ self.down

    def __call__(self) -> None:
        """What comes of nothing is hidden afterwards."""
        out = self._layers(self.x).masked_fill_(self.nothing, 0)
        self.y = out.sum(1, dtype=SINGLE) / self.lengths

    def fixed(self) -> None:
        """Only words, one after the other, each added to its text."""
        rows, places, width = self.x.shape
        out = self._layers(self.x.flatten(0, 1)[self.words])
        sums = torch.zeros(rows, width, device=DEVICE).index_add_(0, self.words // places, out.float())
        self.y = sums / self.lengths


class Blurred:
    """Pictures blurred by a wide bell, point by point over all of its square."""

    def setup(self) -> None:
        """Pictures, and the bell along one side and over both."""
        torch.manual_seed(SEED)
        self.reach, side = size(15, 2), size(1024, 16)
        self.x = torch.rand(size(8, 1), 3, side, side, device=DEVICE)
        apart = torch.arange(-self.reach, self.reach + 1, device=DEVICE)
        bell = torch.exp(-(apart / (self.reach / 3)).square() / 2)
        bell /= bell.sum()
        self.square = torch.outer(bell, bell).expand(3, 1, -1, -1).contiguous()
        self.across = bell.expand(3, 1, 1, -1).contiguous()
        self.down = bell[:, None].expand(3, 1, -1, 1).contiguous()

    def __call__(self) -> None:
        """Nearly a thousand neighbours a point."""
        self.y = functional.conv2d(self.x, self.square, padding=self.reach, groups=3)

    def fixed(self) -> None:
        """Across, then down: a bell over a square is one bell times another."""
        across = functional.conv2d(self.x, self.across, padding=(0, self.reach), groups=3)
        self.y = functional.conv2d(across, self.down, padding=(self.reach, 0), groups=3)


class Windowed:
    """Attention in which each place looks at a few hundred before it, by a mask over all pairs."""

    def setup(self) -> None:
        """Queries, keys, values, and who sees whom: over all pairs, and within a block and the one before."""
        torch.manual_seed(SEED)
        length, self.window, width = size(16_384, 24), size(512, 6), size(128, 8)
        self.q, self.k, self.v = (tensor(1, size(16, 2), length, width) for _ in range(3))
        place = torch.arange(length, device=DEVICE)
        self.mask = self._near(place[:, None] - place)
        inside = torch.arange(self.window, device=DEVICE)
        apart = inside[:, None] + self.window - torch.arange(2 * self.window, device=DEVICE)
        self.blocks = self._near(apart).repeat(length // self.window, 1, 1)
        self.blocks[0, :, : self.window] = False

    def _near(self, apart: Any) -> Any:
        return (apart >= 0) & (apart < self.window)

    def __call__(self) -> None:
        """Nearly all pairs are worked out to be hidden."""
        self.y = functional.scaled_dot_product_attention(self.q, self.k, self.v, attn_mask=self.mask)

    def _pairs(self, x: Any) -> Any:
        parts = x[0].unflatten(1, (-1, self.window))
        return torch.cat([torch.cat([parts[:, :1], parts[:, :-1]], 1), parts], 2)

    def fixed(self) -> None:
        """Block by block, each with itself and the one before."""
        q = self.q[0].unflatten(1, (-1, self.window))
        k, v = self._pairs(self.k), self._pairs(self.v)
        self.y = functional.scaled_dot_product_attention(q, k, v, attn_mask=self.blocks[None]).flatten(1, 2)[None]


# --- many small kernels -----------------------------------------------------------------------------------------------


class Scanned:
    """A state-space layer whose state is carried from place to place by a loop."""

    def setup(self) -> None:
        """What is kept of the state at each place, and what is added to it."""
        torch.manual_seed(SEED)
        shape = size(1024, 11), size(8, 2), size(1024, 4)
        self.kept = torch.rand(shape, device=DEVICE) * 0.2 + 0.8
        self.added = tensor(*shape, dtype=SINGLE)

    def __call__(self) -> None:
        """A product and a sum for each place."""
        state, states = torch.zeros_like(self.added[0]), []
        for kept, added in zip(self.kept, self.added, strict=True):
            state = kept * state + added
            states.append(state)
        self.y = torch.stack(states)

    def fixed(self) -> None:
        """All places at once, each with the one before, then two before, then four."""
        kept, state, gap = self.kept, self.added, 1
        while gap < len(state):
            state = torch.cat([state[:gap], torch.addcmul(state[gap:], kept[gap:], state[:-gap])])
            kept = torch.cat([kept[:gap], kept[gap:] * kept[:-gap]])
            gap *= 2
        self.y = state


class Orthogonal:
    """Gradients made nearly orthogonal before they are applied, by five turns of a polynomial, weight after weight."""

    def setup(self) -> None:
        """Gradients of many weights of one shape."""
        torch.manual_seed(SEED)
        self.gradients = [tensor(size(256, 8), size(512, 16)) for _ in range(size(24, 3))]

    @staticmethod
    def _orthogonal(x: Any) -> Any:
        x = x / x.float().square().sum((-2, -1), keepdim=True).sqrt().to(x.dtype)
        for _ in range(5):
            pairs = x @ x.mT
            x = 3.4445 * x + (2.0315 * (pairs @ pairs) - 4.775 * pairs) @ x
        return x

    def __call__(self) -> None:
        """Dozens of small kernels for each."""
        self.y = [self._orthogonal(gradient) for gradient in self.gradients]

    def fixed(self) -> None:
        """All of them in one stack."""
        self.y = list(self._orthogonal(torch.stack(self.gradients)))


# --- the host asks ----------------------------------------------------------------------------------------------------


class Collapsed:
    """Words heard in speech: what a network says of each moment loses its repeats and blanks, clip after clip."""

    def setup(self) -> None:
        """What each moment sounds like, the network, and letters, of which the blank is the likeliest."""
        torch.manual_seed(SEED)
        clips, moments, width, letters = size(64, 3), size(128, 12), size(2048, 16), size(128, 12)
        self.x = tensor(clips, moments, width).repeat_interleave(4, 1)
        self.layers = [tensor(width, width) * math.sqrt(2 / width) for _ in range(size(4, 1))]
        self.head, self.bias = tensor(width, letters) / math.sqrt(width), torch.zeros(letters, device=DEVICE)
        self.bias[0] = 1

    def _said(self) -> Any:
        x = self.x
        for weight in self.layers:
            x = torch.relu(x @ weight)
        return (x @ self.head).add(self.bias).argmax(-1)

    def __call__(self) -> None:
        """The host has to know how many letters are left, twice a clip."""
        texts = []
        for said in self._said():
            letters = torch.unique_consecutive(said)
            texts.append(letters[letters != 0])
        self.y = pad_sequence(texts, batch_first=True)

    def fixed(self) -> None:
        """All clips at once: each letter that stays goes to its place, and only the longest text is asked for."""
        said = self._said()
        stays = (said != 0) & (said != functional.pad(said, (1, 0))[:, :-1])
        place = torch.where(stays, stays.cumsum(1) - 1, said.shape[1])
        texts = functional.pad(torch.zeros_like(said), (0, 1)).scatter_(1, place, said)
        self.y = texts[:, : int(stays.sum(1).amax())]


class Farthest:
    """Points chosen from clouds so that each is the farthest from those before; Python holds the last one's number."""

    def setup(self) -> None:
        """Clouds."""
        torch.manual_seed(SEED)
        self.clouds, self.wanted = torch.rand(size(6, 2), size(4096, 32), 3, device=DEVICE), size(96, 5)

    def __call__(self) -> None:
        """Cloud by cloud, and a look at every choice."""
        chosen = []
        for cloud in self.clouds:
            near, places = torch.full_like(cloud[:, 0], math.inf), [0]
            while len(places) < self.wanted:
                near = torch.minimum(near, (cloud - cloud[places[-1]]).square().sum(1))
                places.append(int(near.argmax()))
            chosen.append(places)
        self.y = torch.tensor(chosen)

    def fixed(self) -> None:
        """All clouds in every turn, and the numbers stay on the device."""
        which = torch.arange(len(self.clouds), device=DEVICE)
        near, places = torch.full_like(self.clouds[:, :, 0], math.inf), [torch.zeros_like(which)]
        while len(places) < self.wanted:
            last = self.clouds[which, places[-1]][:, None]
            near = torch.minimum(near, (self.clouds - last).square().sum(2))
            places.append(near.argmax(1))
        self.y = torch.stack(places, 1).cpu()


# --- copies over the link ---------------------------------------------------------------------------------------------


class Spilled:
    """Training that keeps on the host what the way back needs, to save memory that nobody is short of."""

    def setup(self) -> None:
        """Inputs, layers, and what comes back from the loss."""
        torch.manual_seed(SEED)
        rows, width = size(8192, 8), size(4096, 16)
        self.x, self.back = tensor(rows, width), tensor(rows, width)
        self.layers = [(tensor(width, width) * math.sqrt(2 / width)).requires_grad_() for _ in range(3)]

    def _learn(self, keeping: Any) -> None:
        x = self.x
        with keeping:
            for weight in self.layers:
                weight.grad = None
                x = torch.relu(x @ weight)
        x.backward(self.back)
        self.y = [weight.grad for weight in self.layers]

    def __call__(self) -> None:
        """All of it leaves and comes back."""
        self._learn(torch.autograd.graph.save_on_cpu(pin_memory=DEVICE == "cuda"))

    def fixed(self) -> None:
        """It stays."""
        self._learn(nullcontext())


class Lodged:
    """A recommender whose table is kept on the host: rows are looked up there and sent."""

    def setup(self) -> None:
        """The table here and there, what each visit looks up, and the layers after it."""
        torch.manual_seed(SEED)
        rows, width, features, wide = size(1 << 20, 64), size(128, 8), size(26, 3), size(4096, 16)
        self.there = tensor(rows, width)
        self.table = self.there.cpu()
        self.ids = torch.randint(0, rows, (size(4096, 4), features), device=DEVICE)
        widths = features * width, wide, wide, wide
        self.layers = [tensor(*pair) * math.sqrt(2 / pair[0]) for pair in pairwise(widths)]

    def _layers(self, rows: Any) -> None:
        x = rows.flatten(1)
        for weight in self.layers:
            x = torch.relu(x @ weight)
        self.y = x

    def __call__(self) -> None:
        """By the host, into new memory, over the link."""
        self._layers(self.table[self.ids.cpu()].to(DEVICE))

    def fixed(self) -> None:
        """There is room for it on the device."""
        self._layers(self.there[self.ids])


# --- work of the host -------------------------------------------------------------------------------------------------


class Tabular:
    """A table of numbers that a data loader takes apart row by row and puts together again."""

    def setup(self) -> None:
        """The table and what is to be learned from it, here and there, and layers."""
        torch.manual_seed(SEED)
        rows, columns, wide = size(2048, 6), size(256, 8), size(4096, 16)
        self.parts = tensor(rows, columns), torch.rand(rows, device=DEVICE)
        self.loader = DataLoader(TensorDataset(*(part.cpu() for part in self.parts)), batch_size=rows)
        widths = columns, *(wide for _ in range(size(8, 2))), 1
        self.layers = [tensor(*pair) * math.sqrt(2 / pair[0]) for pair in pairwise(widths)]

    def _loss(self, x: Any, wanted: Any) -> None:
        for weight in self.layers[:-1]:
            x = torch.relu(x @ weight)
        self.y = functional.binary_cross_entropy_with_logits((x @ self.layers[-1])[:, 0].float(), wanted)

    def __call__(self) -> None:
        """Thousands of little tensors."""
        for x, wanted in self.loader:
            self._loss(x.to(DEVICE), wanted.to(DEVICE))

    def fixed(self) -> None:
        """The table lies where it is needed, in the same order."""
        self._loss(*self.parts)


class Misheard:
    """How far what a network heard is from what was said, by Python: a table of edits for each pair."""

    def setup(self) -> None:
        """Sounds, layers and a head, and what was said: most of it was heard."""
        torch.manual_seed(SEED)
        self.pairs, places, width, words = size(32, 3), size(64, 7), size(2048, 16), size(1024, 20)
        self.x = tensor(self.pairs * places, width)
        self.layers = [tensor(width, width) * math.sqrt(2 / width) for _ in range(size(4, 1))]
        self.head = tensor(width, words) / math.sqrt(width)
        heard = self._heard()
        mixed = torch.where(torch.rand(heard.shape, device=DEVICE) < 0.3, heard.flip(0), heard)
        self.said = torch.cat([mixed[:, 2:], mixed[:, :1]], 1)

    def _heard(self) -> Any:
        x = self.x
        for weight in self.layers:
            x = torch.relu(x @ weight)
        return (x @ self.head).argmax(-1).unflatten(0, (self.pairs, -1))

    @staticmethod
    def _apart(one: list[int], other: list[int]) -> int:
        row = list(range(len(other) + 1))
        for place, word in enumerate(one, 1):
            before, row[0] = row[0], place
            for at, heard in enumerate(other, 1):
                before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (word != heard))
        return row[-1]

    def __call__(self) -> None:
        """Cell by cell."""
        pairs = zip(self.said.tolist(), self._heard().tolist(), strict=True)
        self.y = torch.tensor([self._apart(said, heard) for said, heard in pairs])

    def fixed(self) -> None:
        """A row of all tables at once, where the words are."""
        heard = self._heard()
        places = torch.arange(heard.shape[1] + 1, device=DEVICE)
        row = places.expand(self.pairs, -1)
        for word in self.said.T:
            best = torch.minimum(row[:, 1:] + 1, row[:, :-1] + (heard != word[:, None]))
            row = (torch.cat([row[:, :1] + 1, best], 1) - places).cummin(1).values + places
        self.y = row[:, -1].cpu()


merged, ragged, blurred, windowed = Merged(), Ragged(), Blurred(), Windowed()
scanned, orthogonal, collapsed, farthest = Scanned(), Orthogonal(), Collapsed(), Farthest()
spilled, lodged, tabular, misheard = Spilled(), Lodged(), Tabular(), Misheard()
