"""A fourth set of functions as users write them: diffusion, graphs, kernel methods, retrieval, decoding, training.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`. Here are causes inside kernels and bytes and the steps in good health; time on the host and on the link is in
gpu_live_later_waits.py. Written without a look at the code or the description of the rules. Two answers are accepted
where the cause is honestly mixed, or where both lead to the fix. In `diagonal` every kernel does well what it was asked
for: what is in vain shows only in how little of its result is read.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from gpu_live_answers import COMPUTE, KERNELS, MEMORY, Live
from gpu_live_cases import DEVICE, size, tensor

# --- in good health ---------------------------------------------------------------------------------------------------


class Feedforward:
    """The gated layer of a large language model over a long prompt: three large products, little between them."""

    def setup(self) -> None:
        """Hidden states and three weights."""
        width, inner = size(4096, 16), size(14_336, 32)
        self.x = tensor(size(16_384, 8), width)
        self.gate, self.up = (tensor(width, inner) / math.sqrt(width) for _ in range(2))
        self.down = tensor(inner, width) / math.sqrt(inner)

    def __call__(self) -> None:
        """Two up, one down."""
        hidden = functional.silu(self.x @ self.gate)
        self.y = hidden.mul_(self.x @ self.up) @ self.down

    fixed = __call__


class Learned:
    """Forward and backward of two large layers: five products that are all needed."""

    def setup(self) -> None:
        """Activations, weights and what comes back from the loss."""
        rows, width = size(16_384, 8), size(8192, 16)
        self.x, self.back = tensor(rows, width), tensor(rows, width)
        weights = (tensor(width, width) / math.sqrt(width) for _ in range(2))
        self.first, self.second = (weight.requires_grad_() for weight in weights)

    def __call__(self) -> None:
        """Gradients of both weights."""
        self.first.grad = self.second.grad = None
        out = torch.relu(self.x @ self.first) @ self.second
        out.backward(self.back)
        self.y = [self.first.grad, self.second.grad]

    fixed = __call__


class Smoothed:
    """A moving average of all weights in one flat buffer: one pass in place."""

    def setup(self) -> None:
        """The average and the weights, far beyond the caches."""
        count = size(1 << 29, 64)
        self.y, self.w = torch.randn(count, device=DEVICE), torch.randn(count, device=DEVICE)

    def __call__(self) -> None:
        """Two numbers read, one written."""
        self.y.lerp_(self.w, 0.01)

    fixed = __call__


# --- bytes that need not move -----------------------------------------------------------------------------------------


class Permuted:
    """Blocks of a diffusion model that norm over channels: each lays the picture out anew, and back."""

    def setup(self) -> None:
        """Features of noisy pictures, and what the time step scales and shifts them by."""
        pictures, wide, side = size(64, 2), size(320, 8), size(64, 4)
        self.x = tensor(pictures, wide, side, side)
        self.last = self.x.permute(0, 2, 3, 1).contiguous()
        self.blocks = [(tensor(pictures, wide) * 0.1, tensor(pictures, wide) * 0.1) for _ in range(4)]

    def __call__(self) -> None:
        """Channels first for the block, last for the norm: two copies a block."""
        x = self.x
        for scale, shift in self.blocks:
            last = x.permute(0, 2, 3, 1).contiguous()
            normed = functional.layer_norm(last, last.shape[-1:]).permute(0, 3, 1, 2).contiguous()
            x = x + normed * (1 + scale[:, :, None, None]) + shift[:, :, None, None]
        self.y = x

    def fixed(self) -> None:
        """Channels last from the first block to the last."""
        x = self.last
        for scale, shift in self.blocks:
            normed = functional.layer_norm(x, x.shape[-1:])
            x = x + normed * (1 + scale[:, None, None]) + shift[:, None, None]
        self.y = x.permute(0, 3, 1, 2)


class Contrasted:
    """A contrastive loss by its formula: all pairs in 32 bits, and a matrix of ones to leave out each one's own."""

    def setup(self) -> None:
        """Two views of each picture, as directions."""
        self.count, self.heat = size(8192, 8), 0.2
        self.z = functional.normalize(tensor(2 * self.count, size(256, 16)), dim=-1)
        self.partner = torch.arange(2 * self.count, device=DEVICE).roll(self.count)

    def __call__(self) -> None:
        """Eight passes over all pairs."""
        alike = (self.z @ self.z.T).float() / self.heat
        others = 1 - torch.eye(alike.shape[0], device=DEVICE)
        whole = (torch.exp(alike) * others).sum(-1)
        pairs = torch.cat((alike.diagonal(self.count), alike.diagonal(-self.count)))
        self.y = -torch.log(torch.exp(pairs) / whole).mean()

    def fixed(self) -> None:
        """The library's loss over the similarities as they come from the product."""
        alike = (self.z / self.heat) @ self.z.T
        self.y = functional.cross_entropy(alike.fill_diagonal_(-math.inf), self.partner)


class Biased:
    """Biases of relative places worked out anew in every layer of every step, though no input changes them."""

    buckets, farthest = 32, 128

    def setup(self) -> None:
        """Attention in a few layers, each with a table of biases; and the biases themselves."""
        heads, self.length, layers = size(16, 2), size(4096, 24), size(4, 2)
        self.q, self.k, self.v = (tensor(1, heads, self.length, 64) for _ in range(3))
        self.tables = [tensor(self.buckets, heads) for _ in range(layers)]
        self.ready = [self._bias(table) for table in self.tables]

    def _bias(self, table: Any) -> Any:
        places = torch.arange(self.length, device=DEVICE)
        apart = places[None, :] - places[:, None]
        half = self.buckets // 2
        side = (apart > 0).long() * half
        apart = apart.abs()
        exact = half // 2
        steps = torch.log(apart.float() / exact) / math.log(self.farthest / exact) * (half - exact)
        coarse = torch.min(exact + steps.long(), torch.full_like(apart, half - 1))
        return table[side + torch.where(apart < exact, apart, coarse)].permute(2, 0, 1)[None].contiguous()

    def _attend(self, q: Any, bias: Any) -> Any:
        return functional.scaled_dot_product_attention(q, self.k, self.v, attn_mask=bias)

    def __call__(self) -> None:
        """A dozen passes over all pairs of places, most of them 64 bits wide."""
        q = self.q
        for table in self.tables:
            q = self._attend(q, self._bias(table))
        self.y = q

    def fixed(self) -> None:
        """Kept."""
        q = self.q
        for bias in self.ready:
            q = self._attend(q, bias)
        self.y = q


# --- arithmetic that need not be --------------------------------------------------------------------------------------


class Gaussian:
    """A kernel matrix in 64 bits, by distances whose roots are drawn to be squared again."""

    def setup(self) -> None:
        """Points, and what is smoothed over them."""
        self.x = tensor(size(12_288, 16), 32, dtype=torch.float32)
        self.v = tensor(self.x.shape[0], 16, dtype=torch.float32)
        self.reach = math.sqrt(32)

    def __call__(self) -> None:
        """Twice as wide, and seven passes."""
        x = self.x.double()
        kernel = torch.exp(-(torch.cdist(x, x) ** 2) / (2 * self.reach**2))
        self.y = (kernel @ self.v.double()).float()

    def fixed(self) -> None:
        """In 32 bits, the squares straight from one product."""
        x = self.x / self.reach
        squares = x.pow(2).sum(-1) / -2
        kernel = torch.addmm(squares, x, x.T).add_(squares[:, None]).exp_()
        self.y = kernel @ self.v


class Linearised:
    """Linear attention multiplied from the wrong end: every query with every key after all."""

    def setup(self) -> None:
        """Queries and keys through a map that leaves nothing negative, and values."""
        shape = (size(4, 1), size(16, 2), size(8192, 32), 64)
        self.q, self.k = (functional.elu(tensor(*shape)) + 1 for _ in range(2))
        self.v = tensor(*shape)

    def __call__(self) -> None:
        """Scores of all pairs, though no softmax stands between the products."""
        scores = self.q @ self.k.transpose(-1, -2)
        self.y = (scores @ self.v) / scores.sum(-1, keepdim=True)

    def fixed(self) -> None:
        """Keys with values first."""
        whole = self.q @ self.k.sum(-2).unsqueeze(-1)
        self.y = (self.q @ (self.k.transpose(-1, -2) @ self.v)) / whole


class Diagonal:
    """Distances to a mean by a product of all pairs, of which only the diagonal is wanted."""

    def setup(self) -> None:
        """Rows, and the inverse of a covariance."""
        width = size(1024, 16)
        self.x = tensor(size(32_768, 8), width)
        spread = torch.randn(width, width, device=DEVICE) / math.sqrt(width)
        self.p = (spread @ spread.T + torch.eye(width, device=DEVICE)).to(self.x.dtype)

    def __call__(self) -> None:
        """Each row with every other."""
        self.y = torch.diagonal(self.x @ self.p @ self.x.T).clone()

    def fixed(self) -> None:
        """Each row with itself."""
        self.y = ((self.x @ self.p) * self.x).sum(-1)


def _kernels(bottlenecks: tuple[str, ...], *layers: str, bound: str = "software", precision: str = "bf16") -> Live:
    return Live("gpu_live_later", bottlenecks, layers, bound, precision)


def _healthy(bottlenecks: tuple[str, ...], precision: str = "bf16") -> Live:
    return _kernels(bottlenecks, "accelerator", bound="hardware", precision=precision)


def _waits(*bottlenecks: str, layers: tuple[str, ...] = ("application",)) -> Live:
    return Live("gpu_live_later_waits", bottlenecks, layers)


EITHER = ("application", "runtime")
LATER: dict[str, Live] = {
    "permuted": _kernels(MEMORY, *EITHER),
    "lengths": _waits("synchronization"),
    "feedforward": _healthy(COMPUTE),
    "relations": _waits("launch", layers=EITHER),
    "augmented": _waits("input", "idle"),
    "contrasted": _kernels(MEMORY, *EITHER),
    "hooked": _waits("transfer"),
    "smoothed": _healthy(MEMORY, "fp32"),
    "linearised": _kernels(KERNELS, *EITHER),
    "gaussian": _kernels(KERNELS, *EITHER, "framework", precision="fp32"),
    "ngrams": _waits("idle", "input"),
    "integrated": _waits("launch", layers=EITHER),
    "biased": _kernels(MEMORY, *EITHER),
    "trimmed": _waits("synchronization", "launch", layers=EITHER),
    "learned": _healthy(COMPUTE),
    "shadowed": _waits("transfer", "idle"),
    "regularised": _waits("launch", layers=(*EITHER, "framework")),
    "diagonal": _kernels(COMPUTE, "application"),
}

feedforward, learned, smoothed = Feedforward(), Learned(), Smoothed()
permuted, contrasted, biased = Permuted(), Contrasted(), Biased()
gaussian, linearised, diagonal = Gaussian(), Linearised(), Diagonal()
