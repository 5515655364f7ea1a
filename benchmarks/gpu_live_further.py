"""A third set of functions as users write them, met by the rules of edition 9 for the first time on a device.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`. Written from what people profile (recommenders, detectors, speech, sampling, training loops), without a look at
the code of the rules.
"""

from __future__ import annotations

import math
import re
import tempfile
from typing import Any

import torch
from torch.nn import functional

from gpu_live_answers import COMPUTE, KERNELS, MEMORY, Live
from gpu_live_cases import BF16, DEVICE, size, tensor

# --- in good health ---------------------------------------------------------------------------------------------------


class Stacked:
    """Many middling products in one call, as a projection of all heads."""

    def setup(self) -> None:
        """A batch of matrices."""
        side = size(2048, 16)
        self.a, self.b = tensor(size(32, 2), side, side), tensor(size(32, 2), side, side) * 0.02

    def __call__(self) -> None:
        """All in one."""
        self.y = torch.bmm(torch.bmm(self.a, self.b), self.b)

    fixed = __call__


class Looked:
    """Rows of a large table, each read once and written once."""

    def setup(self) -> None:
        """A table far beyond the caches and a batch of places in it."""
        rows, width = size(1 << 20, 64), size(2048, 16)
        self.table = tensor(rows, width)
        self.ids = torch.randperm(rows, device=DEVICE)[: size(1 << 18, 16)]

    def __call__(self) -> None:
        """Gathered."""
        self.y = functional.embedding(self.ids, self.table)

    fixed = __call__


# --- bytes and arithmetic that need not be ----------------------------------------------------------------------------


class Warped:
    """Samples drawn by a softmax in 32 bits and a running sum over the sorted vocabulary, for the best fifty alone."""

    def setup(self) -> None:
        """Logits, all different, and one threshold a row."""
        rows, words = size(512, 4), size(64_000, 100)
        self.x = torch.rand(rows, words, device=DEVICE).argsort(-1).float() / words * 8
        self.level = torch.full((rows, 1), 1e-4, device=DEVICE)

    def __call__(self) -> None:
        """Everything sorted, everything summed."""
        ordered, places = torch.sort(self.x, dim=-1, descending=True)
        kept = ordered.softmax(-1).cumsum(-1) <= self.level
        kept[:, 0] = True
        self.y = torch.where(kept, places, -1)[:, :50].clone()

    def fixed(self) -> None:
        """The best fifty, and one sum for the whole."""
        best, places = torch.topk(self.x, 50, dim=-1)
        shares = (best - self.x.logsumexp(-1, keepdim=True)).exp()
        kept = shares.cumsum(-1) <= self.level
        kept[:, 0] = True
        self.y = torch.where(kept, places, -1)


class Normalised:
    """Pictures turned into numbers in passes: wide, divided, less the mean, by the deviation, narrow."""

    def setup(self) -> None:
        """Bytes as a camera gives them."""
        shape = (size(128, 2), 3, size(1024, 8), size(1024, 8))
        self.x = torch.randint(0, 256, shape, device=DEVICE, dtype=torch.uint8)
        self.mean = torch.tensor([0.485, 0.456, 0.406], device=DEVICE)[:, None, None]
        self.deviation = torch.tensor([0.229, 0.224, 0.225], device=DEVICE)[:, None, None]
        self.factor = 1 / (255 * self.deviation)
        self.offset = -self.mean / self.deviation

    def __call__(self) -> None:
        """Five passes, most of them over 32 bits."""
        self.y = ((self.x.float() / 255 - self.mean) / self.deviation).to(BF16)

    def fixed(self) -> None:
        """One multiplication and addition, written narrow."""
        out = torch.empty(self.x.shape, device=DEVICE, dtype=BF16)
        self.y = torch.addcmul(self.offset.to(BF16), self.x, self.factor.to(BF16), out=out)


class Outer:
    """A weighted sum over experts' answers through a product that is written out."""

    def setup(self) -> None:
        """Answers of eight, and a gate."""
        tokens, width = size(16_384, 8), size(4096, 16)
        self.parts, self.gate = tensor(tokens, 8, width), tensor(tokens, 8).softmax(-1)

    def __call__(self) -> None:
        """As large as all answers, and read again."""
        self.y = (self.parts * self.gate.unsqueeze(-1)).sum(1)

    def fixed(self) -> None:
        """As products of a row and a matrix."""
        self.y = torch.bmm(self.gate.unsqueeze(1), self.parts).squeeze(1)


class Inverted:
    """A linear system solved by way of the inverse, in 64 bits."""

    def setup(self) -> None:
        """Systems that are well behaved."""
        count, side = size(256, 2), size(256, 8)
        self.a = tensor(count, side, side, dtype=torch.float32) / side + 4 * torch.eye(side, device=DEVICE)
        self.b = tensor(count, side, 1, dtype=torch.float32)

    def __call__(self) -> None:
        """The inverse, and a product with it."""
        self.y = (torch.linalg.inv(self.a.double()) @ self.b.double()).float()

    def fixed(self) -> None:
        """Solved."""
        self.y = torch.linalg.solve(self.a, self.b)


class Deepcopied:
    """An average of weights kept by copying the whole state and mixing it anew."""

    def setup(self) -> None:
        """A state in 32 bits, and its average so far."""
        side = size(4096, 16)
        self.weights = [tensor(side, side, dtype=torch.float32) for _ in range(12)]
        self.start = [weight * 0.5 for weight in self.weights]

    def __call__(self) -> None:
        """Copied, scaled, added: three passes and a copy."""
        fresh = [weight.clone() for weight in self.weights]
        self.y = [0.9 * old + 0.1 * new for old, new in zip(self.start, fresh, strict=True)]

    def fixed(self) -> None:
        """In one pass."""
        self.y = list(torch._foreach_lerp(self.start, self.weights, 0.1))


class Bucketed:
    """A histogram by comparing every number with every bin."""

    def setup(self) -> None:
        """Numbers, and 64 bins."""
        self.x = torch.rand(size(1 << 23, 64), device=DEVICE)
        self.bins = 64

    def __call__(self) -> None:
        """Sixty-four comparisons of each number."""
        edges = torch.arange(self.bins, device=DEVICE)
        self.y = ((self.x * self.bins).long().unsqueeze(1) == edges).sum(0)

    def fixed(self) -> None:
        """Counted."""
        self.y = torch.bincount((self.x * self.bins).long(), minlength=self.bins)


# --- time on the host and on the link ---------------------------------------------------------------------------------


class Tables:
    """A recommender that looks into its tables one by one, for few rows."""

    def setup(self) -> None:
        """Two hundred small tables."""
        self.count, width = size(200, 5), size(64, 8)
        self.tables = [tensor(size(1000, 10), width) for _ in range(self.count)]
        self.together = torch.cat(self.tables)
        self.ids = torch.randint(0, size(1000, 10), (self.count, size(128, 4)), device=DEVICE)
        self.starts = torch.arange(self.count, device=DEVICE)[:, None] * size(1000, 10)

    def __call__(self) -> None:
        """Looked up, summed, kept: table after table."""
        pairs = zip(self.ids, self.tables, strict=True)
        self.y = torch.stack([functional.embedding(ids, table).sum(0) for ids, table in pairs])

    def fixed(self) -> None:
        """One table of all."""
        self.y = functional.embedding(self.ids + self.starts, self.together).sum(1)


class Filtered:
    """Boxes of a detector kept picture by picture, by a mask whose count the host has to know."""

    def setup(self) -> None:
        """Scores and boxes of many pictures."""
        pictures, boxes = size(64, 3), size(20_000, 16)
        self.scores = torch.rand(pictures, boxes, device=DEVICE)
        self.boxes = torch.rand(pictures, boxes, 4, device=DEVICE)

    def __call__(self) -> None:
        """The best hundred of what passes, after asking how many pass."""
        kept = []
        for scores, boxes in zip(self.scores, self.boxes, strict=True):
            passed = scores > 0.5
            left, found = scores[passed], boxes[passed]
            best = left.topk(min(5, len(left))).indices
            kept.append(found[best])
        self.y = torch.stack(kept)

    def fixed(self) -> None:
        """All pictures at once; what does not pass can never be among the best."""
        best = torch.where(self.scores > 0.5, self.scores, -1).topk(5, dim=1).indices
        self.y = self.boxes.gather(1, best.unsqueeze(-1).expand(-1, -1, 4))


class Measured:
    """A training loop that logs the norm of every gradient."""

    def setup(self) -> None:
        """Gradients of sixty layers, and a little work."""
        side = size(1024, 16)
        self.gradients = [tensor(side, side) for _ in range(60)]
        self.x, self.w = tensor(size(4096, 16), side), tensor(side, side) / math.sqrt(side)

    def _work(self) -> None:
        x = self.x
        for _ in range(6):
            x = torch.relu(x @ self.w)
        self.out = x

    def __call__(self) -> None:
        """Sixty numbers, one at a time."""
        self._work()
        self.y = torch.tensor([float(gradient.norm()) for gradient in self.gradients])

    def fixed(self) -> None:
        """Together."""
        self._work()
        self.y = torch.stack(torch._foreach_norm(self.gradients)).float().cpu()


class Tokenised:
    """Text cut into words and looked up by Python while the device waits."""

    def setup(self) -> None:
        """Lines of text, a vocabulary, a table and layers."""
        words, width = size(4096, 20), size(4096, 16)
        self.known = {f"token{number}": number for number in range(words)}
        step = size(8, 2)
        self.lines = [
            " ".join(f"Token{(line * 37 + place * 11) % words}," for place in range(size(512, 8)))
            for line in range(step * 4)
        ]
        self.table, self.w = tensor(words, width), tensor(width, width) / math.sqrt(width)
        self.ready = torch.tensor(self._cut(), device=DEVICE)

    def _cut(self) -> list[list[int]]:
        return [[self.known[word] for word in re.findall(r"\w+", line.lower())] for line in self.lines]

    def _layers(self, ids: Any) -> None:
        x = self.table[ids]
        for _ in range(3):
            x = torch.relu(x @ self.w)
        self.y = x

    def __call__(self) -> None:
        """Cut first."""
        self._layers(torch.tensor(self._cut(), device=DEVICE))

    def fixed(self) -> None:
        """Cut beforehand."""
        self._layers(self.ready)


class Logged:
    """Numbers of every step written to a file as text."""

    def setup(self) -> None:
        """Products of a few milliseconds."""
        side = size(4096, 16)
        self.x, self.w = tensor(side, side), tensor(side, side) * 0.01

    def fixed(self) -> None:
        """Computed."""
        x = self.x
        for _ in range(8):
            x = x @ self.w
        self.y = x

    def __call__(self) -> None:
        """Computed, formatted number by number, written."""
        self.fixed()
        row = self.y[0].float().tolist()
        with tempfile.TemporaryFile("w") as file:
            for _ in range(8):
                file.write(",".join(f"{number:.6f}" for number in row) + "\n")


class Judged:
    """Masks of pictures brought to the host whole, to count there what is in them."""

    def setup(self) -> None:
        """Logits of classes for every pixel."""
        self.x = tensor(size(16, 1), size(21, 3), size(512, 8), size(512, 8))

    def __call__(self) -> None:
        """All logits leave."""
        self.y = torch.bincount(self.x.float().cpu().argmax(1).flatten(), minlength=self.x.shape[1])

    def fixed(self) -> None:
        """The counts leave."""
        self.y = torch.bincount(self.x.float().argmax(1).flatten(), minlength=self.x.shape[1]).cpu()


class Plain:
    """An optimiser without fusion, one weight after the other, over the many small weights of a network."""

    def setup(self) -> None:
        """Weights and gradients, twice."""
        side = size(256, 8)
        start = [tensor(side, side, dtype=torch.float32) for _ in range(size(150, 3))]
        self.pairs = []
        for way in ({"foreach": False}, {"fused": True} if DEVICE == "cuda" else {"foreach": True}):
            weights = [torch.nn.Parameter(weight.clone()) for weight in start]
            for number, weight in enumerate(weights):
                weight.grad = start[-1 - number].clone()
            self.pairs.append((weights, torch.optim.AdamW(weights, **way)))

    def _step(self, place: int) -> None:
        self.y, optimiser = self.pairs[place]
        optimiser.step()

    def __call__(self) -> None:
        """A dozen kernels for each weight."""
        self._step(0)

    def fixed(self) -> None:
        """A few for all."""
        self._step(1)


def _case(bottlenecks: tuple[str, ...], *layers: str, bound: str = "software", precision: str = "bf16") -> Live:
    return Live("gpu_live_further", bottlenecks, layers, bound, precision)


APPLICATION, EITHER, ROOM = ("application",), ("application", "runtime"), ("accelerator",)
HOST = ("input", "idle")
FURTHER: dict[str, Live] = {
    "tables": _case(("launch",), *EITHER),
    "warped": _case(KERNELS, *EITHER),
    "filtered": _case(("synchronization",), *APPLICATION),
    "stacked": _case(COMPUTE, *ROOM, bound="hardware"),
    "tokenised": _case(HOST, *APPLICATION),
    "normalised": _case(MEMORY, *EITHER),
    "judged": _case(("transfer",), *APPLICATION),
    "outer": _case(MEMORY, *EITHER),
    "looked": _case(MEMORY, *ROOM, bound="hardware"),
    "measured": _case(("synchronization",), *APPLICATION),
    "plain": _case(("launch",), *EITHER, "framework"),
    "inverted": _case(KERNELS, *EITHER, precision="fp32"),
    "logged": _case((*HOST, "transfer"), *APPLICATION),
    "deepcopied": _case(MEMORY, *EITHER, precision="fp32"),
    "bucketed": _case(KERNELS, *EITHER),
}

tables, warped, filtered, stacked, tokenised = Tables(), Warped(), Filtered(), Stacked(), Tokenised()
normalised, judged, outer, looked, measured = Normalised(), Judged(), Outer(), Looked(), Measured()
plain, inverted, logged, deepcopied, bucketed = Plain(), Inverted(), Logged(), Deepcopied(), Bucketed()
