"""A sixth set of functions as users write them: gates, second-order steps, predictors, wavelets, rays, robots' films.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`. Here are causes inside kernels and bytes and the steps in good health; time on the host and on the link is in
gpu_live_sixth_waits.py. Written without a look at the code or the description of the rules. Two answers are accepted
where the cause is honestly mixed, or where both lead to the fix. In `grouped` and `kronecker` the large product does
well what it was asked for: what is in vain are zeros, or a structure that is written out.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import sdpa_kernel

from gpu_live_answers import COMPUTE, KERNELS, MEMORY, Live
from gpu_live_cases import DEVICE, size, tensor
from gpu_live_unseen_kernels import FASTEST

SINGLE = torch.float32

# --- in good health ---------------------------------------------------------------------------------------------------


class Contextual:
    """Training over a long context: fused causal attention there and back, by the fastest kernels that there are."""

    def setup(self) -> None:
        """Queries, keys and values of two long texts, and what comes back from the loss."""
        shape = size(2, 1), size(32, 2), size(16_384, 32), size(128, 16)
        self.parts = [tensor(*shape).requires_grad_() for _ in range(3)]
        self.back = tensor(*shape)

    def __call__(self) -> None:
        """Gradients of all three."""
        for part in self.parts:
            part.grad = None
        q, k, v = self.parts
        with sdpa_kernel(FASTEST, set_priority=True):
            functional.scaled_dot_product_attention(q, k, v, is_causal=True).backward(self.back)
        self.y = [part.grad for part in self.parts]

    fixed = __call__


class Scored:
    """Two layers of a ranking model, over within a millisecond: large products for all that."""

    def setup(self) -> None:
        """Candidates and weights."""
        width = size(4096, 16)
        self.x = tensor(size(8192, 8), width)
        self.into, self.out = (tensor(width, width) / math.sqrt(width) for _ in range(2))

    def __call__(self) -> None:
        """What lies between the products is done in place."""
        self.y = torch.relu_(self.x @ self.into) @ self.out

    fixed = __call__


class Composited:
    """A picture laid over another, each point as opaque as its mask says: one kernel, into a place of its own."""

    def setup(self) -> None:
        """Two layers, a mask, and where the result goes; far beyond the caches."""
        self.below, self.above, self.mask = (torch.rand(size(1 << 28, 64), device=DEVICE) for _ in range(3))
        self.y = torch.empty_like(self.below)

    def __call__(self) -> None:
        """Three numbers read for each that is written."""
        torch.lerp(self.below, self.above, self.mask, out=self.y)

    fixed = __call__


class Ledger:
    """The balance of a long account after every entry: a running sum in one pass."""

    def setup(self) -> None:
        """Far beyond the caches."""
        self.x = torch.randn(size(1 << 29, 64), device=DEVICE)
        self.y = torch.empty_like(self.x)

    def __call__(self) -> None:
        """Each entry read once, each balance written once."""
        torch.cumsum(self.x, 0, out=self.y)

    fixed = __call__


# --- bytes that need not move -----------------------------------------------------------------------------------------


class Conditioned:
    """Features of pictures scaled and shifted channel by channel, by numbers repeated for every point."""

    def setup(self) -> None:
        """Features, and a scale and a shift for each channel of each picture."""
        self.side = size(64, 4)
        pictures, wide = size(64, 2), size(512, 8)
        self.x = tensor(pictures, wide, self.side, self.side)
        self.scale, self.shift = (tensor(pictures, wide, 1, 1) for _ in range(2))

    def __call__(self) -> None:
        """Both are as large as the features by then."""
        scale = self.scale.repeat(1, 1, self.side, self.side)
        shift = self.shift.repeat(1, 1, self.side, self.side)
        self.y = self.x * scale + shift

    def fixed(self) -> None:
        """Each is read where it is, in one pass over the features."""
        self.y = torch.addcmul(self.shift, self.x, self.scale)


class Lifted:
    """Wavelets of many signals: at every level the even and the odd places are fetched by lists of numbers."""

    def setup(self) -> None:
        """Signals, and the places."""
        self.levels = 3
        signals, length = size(4096, 4), size(65_536, 32)
        self.x = tensor(signals, length, dtype=SINGLE)
        self.even = torch.arange(0, length, 2, device=DEVICE)
        self.odd = self.even + 1

    def __call__(self) -> None:
        """Two copies at each level before anything is computed."""
        low, self.y = self.x, []
        for _ in range(self.levels):
            half = low.shape[1] // 2
            even, odd = low[:, self.even[:half]], low[:, self.odd[:half]]
            self.y.append(even - odd)
            low = torch.lerp(even, odd, 0.5)
        self.y.append(low)

    def fixed(self) -> None:
        """Every other place is a slice."""
        low, self.y = self.x, []
        for _ in range(self.levels):
            even, odd = low[:, ::2], low[:, 1::2]
            self.y.append(even - odd)
            low = torch.lerp(even, odd, 0.5)
        self.y.append(low)


# --- arithmetic that need not be --------------------------------------------------------------------------------------


class Grouped:
    """Gates of a recurrent layer that see only their own head, kept as one dense matrix with zeros between them."""

    def setup(self) -> None:
        """Hidden states, a matrix for each head, and all of them in one."""
        self.heads, width = size(16, 4), size(512, 8)
        rows = size(16_384, 8)
        self.x = tensor(rows, self.heads * width)
        self.blocks = tensor(self.heads, width, width) / math.sqrt(width)
        self.dense = torch.block_diag(*self.blocks)
        self.out = torch.empty_like(self.x)

    def __call__(self) -> None:
        """Every number with every other, nearly always for nothing."""
        self.y = torch.sigmoid_(self.x @ self.dense)

    def fixed(self) -> None:
        """Head by head in one call, each to its own columns."""
        x, out = (part.unflatten(1, (self.heads, -1)).transpose(0, 1) for part in (self.x, self.out))
        torch.bmm(x, self.blocks, out=out)
        self.y = self.out.sigmoid_()


class Kronecker:
    """Gradients of samples corrected by a curvature of two factors, whose product is written out in every step."""

    def setup(self) -> None:
        """Gradients, and the factor of either side of a layer."""
        self.sides = size(64, 4), size(128, 8)
        self.x = tensor(size(8192, 8), math.prod(self.sides))
        self.left, self.right = (tensor(side, side) / math.sqrt(side) for side in self.sides)

    def __call__(self) -> None:
        """A matrix of all pairs of weights, and all gradients through it."""
        self.y = self.x @ torch.kron(self.left, self.right).T

    def fixed(self) -> None:
        """From the right, then from the left."""
        self.y = (self.left @ (self.x.unflatten(1, self.sides) @ self.right.T)).flatten(1)


class Predicted:
    """A Gaussian process that factorises the covariance of its examples again for every batch of questions."""

    def setup(self) -> None:
        """Examples with answers, questions, and what follows from the examples alone."""
        torch.set_float32_matmul_precision("highest")
        examples, width = size(6144, 16), 8
        self.x, self.asked = (tensor(count, width, dtype=SINGLE) for count in (examples, size(16_384, 8)))
        self.known = tensor(examples, 1, dtype=SINGLE)
        self.kept = self._weights()

    @staticmethod
    def _alike(a: Any, b: Any) -> Any:
        apart = torch.addmm((b * b).sum(1), a, b.T, alpha=-2).add_((a * a).sum(1, keepdim=True))
        return apart.mul_(-0.5).exp_()

    def _weights(self) -> Any:
        covariance = self._alike(self.x, self.x)
        covariance.diagonal().add_(0.1)
        factor, _ = torch.linalg.cholesky_ex(covariance)
        return torch.cholesky_solve(self.known, factor)

    def __call__(self) -> None:
        """The examples have not changed since."""
        self.y = self._alike(self.asked, self.x) @ self._weights()

    def fixed(self) -> None:
        """Only the questions are new."""
        self.y = self._alike(self.asked, self.x) @ self.kept


class Headed:
    """The last layer of a language model in 32 bits for the sake of the loss: its weights are widened every time."""

    def setup(self) -> None:
        """Hidden states, the weights of all words, and the words that came."""
        torch.set_float32_matmul_precision("highest")
        rows, width, words = size(1024, 8), size(4096, 16), size(128_256, 40)
        self.x, self.head = tensor(rows, width), tensor(words, width) / math.sqrt(width)
        self.said = torch.randint(0, words, (rows,), device=DEVICE)

    def __call__(self) -> None:
        """A wide product of narrow numbers."""
        logits = self.x.float() @ self.head.float().T
        self.y = functional.cross_entropy(logits, self.said, reduction="none")

    def fixed(self) -> None:
        """A narrow product, which adds up in 32 bits inside, and a wide loss."""
        logits = (self.x @ self.head.T).float()
        self.y = functional.cross_entropy(logits, self.said, reduction="none")


def _kernels(bottlenecks: tuple[str, ...], *layers: str, bound: str = "software", precision: str = "bf16") -> Live:
    return Live("gpu_live_sixth", bottlenecks, layers, bound, precision)


def _healthy(bottlenecks: tuple[str, ...], precision: str = "bf16") -> Live:
    return _kernels(bottlenecks, "accelerator", bound="hardware", precision=precision)


def _waits(*bottlenecks: str, layers: tuple[str, ...] = ("application",), precision: str = "bf16") -> Live:
    return Live("gpu_live_sixth_waits", bottlenecks, layers, precision=precision)


EITHER = ("application", "runtime")
SIXTH: dict[str, Live] = {
    "lectured": _waits("launch", layers=EITHER),
    "conditioned": _kernels(MEMORY, *EITHER),
    "contextual": _healthy(COMPUTE),
    "packed": _waits("input", "idle"),
    "kronecker": _kernels(COMPUTE, "application"),
    "piped": _waits("transfer", "synchronization"),
    "ledger": _healthy(MEMORY, "fp32"),
    "headed": _kernels(COMPUTE, "application", "framework"),
    "swept": _waits("allocator", "synchronization", layers=("application", "framework")),
    "predicted": _kernels(KERNELS, "application", precision="fp32"),
    "marched": _waits("synchronization", "launch", layers=EITHER, precision="fp32"),
    "scored": _healthy(COMPUTE),
    "lifted": _kernels(MEMORY, *EITHER, precision="fp32"),
    "frames": _waits("transfer"),
    "grouped": _kernels(COMPUTE, "application"),
    "composited": _healthy(MEMORY, "fp32"),
}

contextual, scored, composited, ledger = Contextual(), Scored(), Composited(), Ledger()
conditioned, lifted, grouped, kronecker = Conditioned(), Lifted(), Grouped(), Kronecker()
predicted, headed = Predicted(), Headed()
