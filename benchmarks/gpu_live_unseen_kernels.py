"""Functions as users write them that no rule was made for: causes inside kernels and bytes, and steps in good health.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_live_cases import BF16, DEVICE, size, tensor
from gpu_live_waits import recorded

FASTEST = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


# --- in good health ---------------------------------------------------------------------------------------------------


class Convolved:
    """Large convolutions, channels last."""

    def setup(self) -> None:
        """Pictures and kernels in the order that the kernels want."""
        wide, side = size(512, 8), size(56, 8)
        last = torch.channels_last
        self.x = tensor(size(64, 2), wide, side, side).to(memory_format=last)
        self.w = (tensor(wide, wide, 3, 3) * 0.02).to(memory_format=last)

    def __call__(self) -> None:
        """Three layers."""
        x = self.x
        for _ in range(3):
            x = functional.conv2d(x, self.w, padding=1)
        self.y = x

    fixed = __call__


class Flashed:
    """A long context through the fastest fused attention that is there."""

    def setup(self) -> None:
        """Queries, keys and values."""
        self.q, self.k, self.v = (tensor(size(2, 1), size(16, 2), size(16_384, 32), 128) for _ in range(3))

    def __call__(self) -> None:
        """One kernel."""
        with sdpa_kernel(FASTEST, set_priority=True):
            self.y = functional.scaled_dot_product_attention(self.q, self.k, self.v)

    fixed = __call__


class Replayed:
    """Large products inside a recorded graph: nobody sees their operands."""

    def setup(self) -> None:
        """Layers, recorded."""
        width = size(8192, 32)
        self.x, self.w = tensor(width, width), tensor(width, width) * 0.01
        self.replay = recorded(self._work)

    def _work(self) -> None:
        x = self.x
        for _ in range(4):
            x = x @ self.w
        self.y = x

    def __call__(self) -> None:
        """As fast as the device multiplies."""
        self.replay()

    fixed = __call__


class Normed:
    """A layer norm in one pass."""

    def setup(self) -> None:
        """Activations far beyond the caches."""
        self.x, self.w = tensor(size(262_144, 16), size(4096, 32)), tensor(size(4096, 32))

    def __call__(self) -> None:
        """Read once, written once."""
        self.y = functional.layer_norm(self.x, self.w.shape, self.w, self.w)

    fixed = __call__


class Updated:
    """A fused optimiser over large parameters: all of its bytes are needed."""

    def setup(self) -> None:
        """Parameters and gradients in 32 bits."""
        side = size(8192, 16)
        self.y = [torch.nn.Parameter(tensor(side, side, dtype=torch.float32)) for _ in range(6)]
        for weight in self.y:
            weight.grad = torch.randn_like(weight)
        self.optimiser = torch.optim.AdamW(self.y, fused=True)

    def __call__(self) -> None:
        """One kernel over all."""
        self.optimiser.step()

    fixed = __call__


# --- bytes that need not move -----------------------------------------------------------------------------------------


class Rotary:
    """Positions turned into queries by hand, in 32 bits, with a concatenation."""

    def setup(self) -> None:
        """Queries, and angles in both formats."""
        length, half = size(4096, 16), 64
        self.x = tensor(size(8, 1), size(32, 2), length, 2 * half)
        rates = 10_000 ** (-torch.arange(half, device=DEVICE) / half)
        angles = torch.arange(length, device=DEVICE)[:, None] * rates
        self.cos, self.sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()
        self.narrow = angles.cos().to(BF16), angles.sin().to(BF16)

    def __call__(self) -> None:
        """As the formula is written."""
        x = self.x.float()
        left, right = x.chunk(2, -1)
        self.y = (x * self.cos + torch.cat((-right, left), -1) * self.sin).to(BF16)

    def fixed(self) -> None:
        """Half by half into its place, in the model's format."""
        (cos, sin), out = self.narrow, torch.empty_like(self.x)
        (left, right), (first, second) = self.x.chunk(2, -1), out.chunk(2, -1)
        torch.mul(left, cos, out=first).addcmul_(right, sin, value=-1)
        torch.mul(right, cos, out=second).addcmul_(left, sin)
        self.y = out


class Activated:
    """GELU by its formula between large products: a mild cause beside healthy kernels."""

    def setup(self) -> None:
        """Activations and a layer."""
        width = size(3072, 16)
        self.x, self.w = tensor(size(24_576, 8), width), tensor(width, width) / math.sqrt(width)

    @staticmethod
    def _formula(x: Any) -> Any:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def __call__(self) -> None:
        """Eight passes a layer."""
        x = self.x
        for _ in range(4):
            x = self._formula(x @ self.w)
        self.y = x

    def fixed(self) -> None:
        """One."""
        x = self.x
        for _ in range(4):
            x = functional.gelu(x @ self.w, approximate="tanh")
        self.y = x


class Entropy:
    """A loss by one-hot rows over a large vocabulary, in 32 bits."""

    def setup(self) -> None:
        """Logits and what was right."""
        self.x = tensor(size(2048, 8), size(128_000, 50))
        self.target = torch.randint(0, self.x.shape[1], (self.x.shape[0],), device=DEVICE)

    def __call__(self) -> None:
        """The ones and zeros are larger than the logits."""
        ones = functional.one_hot(self.target, self.x.shape[1]).float()
        self.y = -(ones * self.x.float().log_softmax(-1)).sum(-1).mean()

    def fixed(self) -> None:
        """By index."""
        self.y = functional.cross_entropy(self.x, self.target)


class Dequantised:
    """Eight-bit weights widened anew in every step."""

    def setup(self) -> None:
        """A few rows, and large layers in both formats."""
        width = size(8192, 32)
        self.x, self.scale = tensor(size(16, 4), width), 1 / (75 * math.sqrt(width))
        eight = torch.int8
        self.layers = [torch.randint(-127, 128, (width, width), dtype=eight, device=DEVICE) for _ in range(6)]
        self.wide = [self._widened(weight) for weight in self.layers]

    def _widened(self, weight: Any) -> Any:
        return (weight.to(BF16) - 3) * self.scale

    def __call__(self) -> None:
        """Three passes over a weight, and then the product."""
        x = self.x
        for weight in self.layers:
            x = x @ self._widened(weight)
        self.y = x

    def fixed(self) -> None:
        """Widened once."""
        x = self.x
        for weight in self.wide:
            x = x @ weight
        self.y = x


class Expanded:
    """Distances of all pairs through differences that are written out."""

    def setup(self) -> None:
        """Points."""
        self.a, self.b = tensor(size(2048, 8), 128), tensor(size(2048, 8), 128)

    def __call__(self) -> None:
        """Pairs times widths."""
        pairs = self.a.unsqueeze(1).expand(-1, self.b.shape[0], -1).contiguous()
        self.y = ((pairs - self.b) ** 2).sum(-1)

    def fixed(self) -> None:
        """A product and two norms."""
        squares = self.a.float().pow(2).sum(-1)[:, None] + self.b.float().pow(2).sum(-1)
        self.y = (squares - 2 * (self.a @ self.b.T)).to(BF16)


class Touched:
    """A gradient and an update of a whole table, for the few rows that a batch touched."""

    def setup(self) -> None:
        """A table of words and a batch."""
        rows, width = size(1 << 20, 64), size(1024, 16)
        self.table = torch.nn.Parameter(tensor(rows, width))
        self.optimiser = torch.optim.SGD([self.table], lr=0.25, fused=DEVICE == "cuda")
        self.ids = torch.randperm(rows, device=DEVICE)[: size(8192, 8)]

    @property
    def y(self) -> Any:
        """The rows after the step."""
        return self.table[self.ids].detach()

    def __call__(self) -> None:
        """Nearly all of the gradient is zeros."""
        self.optimiser.zero_grad()
        functional.embedding(self.ids, self.table).float().pow(2).sum().backward()
        self.optimiser.step()

    def fixed(self) -> None:
        """Only the rows of the batch."""
        rows = self.table.detach()[self.ids].requires_grad_()
        rows.float().pow(2).sum().backward()
        self.table.detach().index_add_(0, self.ids, rows.grad, alpha=-0.25)


class Reordered:
    """Beams reordered by copying all of their cache, though they share the prompt."""

    def setup(self) -> None:
        """A cache of beams that differ only in their last tokens."""
        groups, heads, length, self.own = size(8, 2), size(8, 2), size(8192, 32), size(64, 4)
        self.cache = [tensor(groups, heads, length, 128).repeat_interleave(4, 0) for _ in range(2)]
        for part in self.cache:
            part[:, :, -self.own :] = tensor(4 * groups, heads, self.own, 128)
        self.tails = [part[:, :, -self.own :].clone() for part in self.cache]
        self.working = [part.clone() for part in self.cache]
        self.q = tensor(4 * groups, heads, 1, 128)
        self.beams = (torch.arange(4 * groups, device=DEVICE) // 4) * 4

    def __call__(self) -> None:
        """Prompt included."""
        k, v = (part.index_select(0, self.beams) for part in self.cache)
        self.y = functional.scaled_dot_product_attention(self.q, k, v)

    def fixed(self) -> None:
        """What differs."""
        for part, tail in zip(self.working, self.tails, strict=True):
            part[:, :, -self.own :] = tail.index_select(0, self.beams)
        self.y = functional.scaled_dot_product_attention(self.q, *self.working)


# --- arithmetic that need not be --------------------------------------------------------------------------------------


class Topped:
    """The best few of a vocabulary by sorting all of it."""

    def setup(self) -> None:
        """Logits, all different."""
        rows, words = size(256, 4), size(128_000, 100)
        self.x = torch.rand(rows, words, device=DEVICE).argsort(-1).float()

    def __call__(self) -> None:
        """Sorted."""
        self.y = torch.sort(self.x, dim=-1, descending=True).values[:, :50].clone()

    def fixed(self) -> None:
        """Picked."""
        self.y = torch.topk(self.x, 50, dim=-1).values


class Lastly:
    """Logits of every place in a prompt, for the sake of the last."""

    def setup(self) -> None:
        """Hidden states and a head."""
        width = size(4096, 16)
        self.x, self.head = tensor(size(4, 2), size(1024, 8), width), tensor(width, size(64_000, 50))

    def __call__(self) -> None:
        """All."""
        self.y = (self.x @ self.head)[:, -1].clone()

    def fixed(self) -> None:
        """The last."""
        self.y = self.x[:, -1] @ self.head


class Unfolded:
    """A convolution by unfolding the pictures and one product."""

    def setup(self) -> None:
        """Large pictures."""
        side, wide = size(224, 8), size(128, 4)
        self.x, self.w = tensor(size(8, 1), wide, side, side), tensor(2 * wide, wide, 3, 3) * 0.03
        self.last = [part.to(memory_format=torch.channels_last) for part in (self.x, self.w)]

    def __call__(self) -> None:
        """Each number nine times."""
        columns = functional.unfold(self.x, 3, padding=1)
        self.y = (self.w.flatten(1) @ columns).unflatten(-1, self.x.shape[-2:])

    def fixed(self) -> None:
        """As a convolution."""
        self.y = functional.conv2d(*self.last, padding=1)


class Cumulated:
    """Running sums as a product with a triangle of ones."""

    def setup(self) -> None:
        """Rows, and the triangle."""
        side = size(8192, 32)
        self.x, self.ones = tensor(side, side), torch.ones(side, side, device=DEVICE, dtype=BF16).triu()

    def __call__(self) -> None:
        """Half of it with zeros, nearly all of it again."""
        self.y = self.x @ self.ones

    def fixed(self) -> None:
        """One pass."""
        self.y = torch.cumsum(self.x, -1)


convolved, flashed, replayed, normed, updated = Convolved(), Flashed(), Replayed(), Normed(), Updated()
rotary, activated, entropy, dequantised, expanded = Rotary(), Activated(), Entropy(), Dequantised(), Expanded()
touched, reordered, topped, lastly, unfolded = Touched(), Reordered(), Topped(), Lastly(), Unfolded()
cumulated = Cumulated()
