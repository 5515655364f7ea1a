"""Functions as users write them, one cause planted in each, and the same without it, for a callable contract.

Each case is a class: an instance is the step, `fixed` the step with its cause taken away. `small` sizes only show that
the code runs.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.nn import functional

SMALL = bool(os.environ.get("LYNXBENCH_SMALL_CASES"))
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BF16 = torch.bfloat16


def size(large: int, small: int) -> int:
    """The size for a large GPU, or one that any machine runs in a moment."""
    return small if SMALL else large


def tensor(*sizes: int, dtype: torch.dtype = BF16) -> Any:
    """Random numbers on the device."""
    return torch.randn(*sizes, device=DEVICE).to(dtype)


class Products:
    """Healthy products: nothing to be had by software.

    Until edition 12 of the rules one product was repeated to fill the step; rules that follow values rightly call that
    computing anew. Each has operands of its own since, and its result is kept.
    """

    def setup(self) -> None:
        """Operands once, of each product."""
        side = size(8192, 64)
        self.pairs = [(tensor(side, side), tensor(side, side)) for _ in range(4)]

    def __call__(self) -> None:
        """Four products."""
        self.y = [x @ w for x, w in self.pairs]

    fixed = __call__


class Doubles(Products):
    """Products in 64-bit floating point, as numpy's default makes them."""

    def setup(self) -> None:
        """The same numbers in both formats."""
        side = size(4096, 64)
        self.narrow = tensor(side, side)
        self.x = self.narrow.double()

    def __call__(self) -> None:
        """Wide."""
        self.y = self.x @ self.x

    def fixed(self) -> None:
        """At the contract's precision."""
        self.y = self.narrow @ self.narrow


class Singles(Doubles):
    """Products in 32-bit floating point under a bf16 contract."""

    def setup(self) -> None:
        """The same numbers in both formats."""
        super().setup()
        self.x = self.narrow.float()


class Masked:
    """Attention whose dense mask loses the fused kernel."""

    def setup(self) -> None:
        """Queries, keys, values, and a causal mask written out."""
        rows, heads, length = size(8, 1), size(16, 2), size(4096, 32)
        self.q, self.k, self.v = (tensor(rows, heads, length, 128) for _ in range(3))
        hidden = torch.full((length, length), float("-inf"), device=DEVICE).triu(1)
        self.mask = hidden.to(BF16).expand(rows, heads, length, length)

    def __call__(self) -> None:
        """The mask as numbers."""
        self.y = functional.scaled_dot_product_attention(self.q, self.k, self.v, attn_mask=self.mask)

    def fixed(self) -> None:
        """The mask as a word."""
        self.y = functional.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=True)


class Concatenated:
    """Keys and values concatenated anew at each token."""

    def setup(self) -> None:
        """A cache of a long context and one query."""
        rows, heads, length = size(64, 1), size(8, 2), size(8192, 32)
        self.k, self.v = tensor(rows, heads, length, 128), tensor(rows, heads, length, 128)
        self.token, self.q = tensor(rows, heads, 1, 128), tensor(rows, heads, 1, 128)
        self.whole = torch.cat((self.k, self.token), 2), torch.cat((self.v, self.token), 2)

    def __call__(self) -> None:
        """One token: all keys and values are copied."""
        k, v = torch.cat((self.k, self.token), 2), torch.cat((self.v, self.token), 2)
        self.y = functional.scaled_dot_product_attention(self.q, k, v)

    def fixed(self) -> None:
        """One token into a place of its own."""
        k, v = self.whole
        k[:, :, -1:], v[:, :, -1:] = self.token, self.token
        self.y = functional.scaled_dot_product_attention(self.q, k, v)


class Repeated:
    """Keys and values repeated for every query head."""

    def setup(self) -> None:
        """Grouped heads."""
        rows, length = size(32, 1), size(4096, 32)
        self.q = tensor(rows, 32, 1, 128)
        self.k, self.v = tensor(rows, 8, length, 128), tensor(rows, 8, length, 128)

    def __call__(self) -> None:
        """Written out four times."""
        k, v = self.k.repeat_interleave(4, 1), self.v.repeat_interleave(4, 1)
        self.y = functional.scaled_dot_product_attention(self.q, k, v)

    def fixed(self) -> None:
        """Read by each head where they are: four queries of a group against one key head."""
        rows, _, _, width = self.q.shape
        self.y = functional.scaled_dot_product_attention(self.q.view(rows, 8, 4, width), self.k, self.v)


class Cast:
    """Casts back and forth around every layer."""

    def setup(self) -> None:
        """A few layers."""
        width = size(4096, 64)
        self.x, self.layers = tensor(size(8192, 16), width), [tensor(width, width) for _ in range(4)]

    def __call__(self) -> None:
        """Through 32 bits and back after each."""
        x = self.x
        for weight in self.layers:
            for _ in range(3):
                x = x.float().double().to(BF16)
            x = x @ weight
        self.y = x

    def fixed(self) -> None:
        """In the format of the products."""
        x = self.x
        for weight in self.layers:
            x = x @ weight
        self.y = x


class Unfused:
    """Norm, gate and residual as passes of their own."""

    def setup(self) -> None:
        """Activations of a long batch."""
        self.x, self.gate = tensor(size(32_768, 16), 4096), tensor(size(32_768, 16), 4096)
        self._fused = torch.compile(self._passes, dynamic=False)

    @staticmethod
    def _passes(x: Any, gate: Any) -> Any:
        mean = x.pow(2).mean(-1, keepdim=True)
        scaled = x * torch.rsqrt(mean + 1e-6)
        gated = scaled * gate * torch.sigmoid(gate)
        return (gated + x) * 0.5 + gate

    def __call__(self) -> None:
        """One kernel each."""
        self.y = self._passes(self.x, self.gate)

    def fixed(self) -> None:
        """One kernel."""
        self.y = self._fused(self.x, self.gate)


class Written:
    """Attention written out, its softmax in 32 bits between two casts."""

    def setup(self) -> None:
        """Queries, keys and values."""
        rows, heads, length = size(4, 1), size(16, 2), size(4096, 32)
        self.q, self.k, self.v = (tensor(rows, heads, length, 64) for _ in range(3))

    def __call__(self) -> None:
        """The scores go through memory."""
        scores = (self.q @ self.k.transpose(-1, -2)) * self.q.shape[-1] ** -0.5
        self.y = torch.softmax(scores.float(), dim=-1).to(BF16) @ self.v

    def fixed(self) -> None:
        """They do not."""
        self.y = functional.scaled_dot_product_attention(self.q, self.k, self.v)


class Softened:
    """Probabilities over a vocabulary, through 32 bits and back."""

    def setup(self) -> None:
        """Logits."""
        self.x = tensor(size(8192, 8), size(32_000, 100))

    def __call__(self) -> None:
        """Three passes over memory, two of them twice as wide."""
        self.y = (self.x.float() / 0.7).softmax(-1).to(BF16)

    def fixed(self) -> None:
        """One kernel: it computes in 32 bits inside."""
        self.y = functional.softmax(self.x, -1)


class OneHot:
    """Rows of a table picked by a product with ones and zeros."""

    def setup(self) -> None:
        """A table of words."""
        self.table = tensor(size(32_000, 50), size(4096, 16))
        self.ids = torch.randint(0, self.table.shape[0], (size(4096, 8),), device=DEVICE)

    def __call__(self) -> None:
        """Nearly all of the arithmetic is with zeros."""
        self.y = functional.one_hot(self.ids, self.table.shape[0]).to(BF16) @ self.table

    def fixed(self) -> None:
        """Look them up."""
        self.y = functional.embedding(self.ids, self.table)


class Transposed:
    """Heads brought to the front by a copy, and back by another, around every product."""

    def setup(self) -> None:
        """Rows, heads and widths."""
        self.x = tensor(size(32, 2), size(2048, 8), size(16, 2), 128)
        self.w = tensor(128, 128)

    def __call__(self) -> None:
        """Each order is written out."""
        x = self.x
        for _ in range(4):
            x = x.transpose(1, 2).contiguous() @ self.w
            x = x.transpose(1, 2).contiguous()
        self.y = x

    def fixed(self) -> None:
        """The product takes the last dimension, whatever the order of the others."""
        x = self.x
        for _ in range(4):
            x = x @ self.w
        self.y = x


class Channels:
    """Convolutions over pictures whose channels come first, for kernels that want them last."""

    def setup(self) -> None:
        """Pictures and kernels in both orders."""
        wide = size(256, 8)
        self.x = tensor(size(64, 2), wide, size(56, 8), size(56, 8))
        self.w = tensor(wide, wide, 3, 3)
        self.last = [part.to(memory_format=torch.channels_last) for part in (self.x, self.w)]

    @staticmethod
    def _layers(x: Any, w: Any) -> Any:
        for _ in range(4):
            x = functional.conv2d(x, w, padding=1)
        return x

    def __call__(self) -> None:
        """Channels first."""
        self.y = self._layers(self.x, self.w)

    def fixed(self) -> None:
        """Channels last."""
        self.y = self._layers(*self.last)


class Odd:
    """A width that no fast kernel is made for."""

    def setup(self) -> None:
        """One column too many."""
        rows, width = size(8192, 16), size(4096, 32)
        self.x, self.w = tensor(rows, width + 1), tensor(width + 1, width + 1)
        self.even = tensor(rows, width + 64), tensor(width + 64, width + 64)

    def __call__(self) -> None:
        """Rows begin anywhere."""
        for _ in range(4):
            self.y = self.x @ self.w

    def fixed(self) -> None:
        """Padded to a multiple of 64."""
        x, w = self.even
        for _ in range(4):
            self.y = x @ w


class Cloned:
    """A cache copied for safety before each update."""

    def setup(self) -> None:
        """A state and what is added to it."""
        self.state, self.token = tensor(size(64, 1), size(8192, 16), 1024), tensor(size(64, 1), 1, 1024)

    def __call__(self) -> None:
        """Everything is copied to change one row."""
        state = self.state.clone()
        state[:, -1:] = self.token
        self.y = state[:, -64:].float().mean(1)

    def fixed(self) -> None:
        """Only the row is written."""
        self.state[:, -1:] = self.token
        self.y = self.state[:, -64:].float().mean(1)


class Narrow:
    """Healthy products under a contract for TF32; of operands of their own, as in `Products`."""

    def setup(self) -> None:
        """Operands once, of each product; TF32 is allowed."""
        torch.set_float32_matmul_precision("high")
        side, single = size(8192, 64), torch.float32
        self.pairs = [(tensor(side, side, dtype=single), tensor(side, side, dtype=single)) for _ in range(2)]

    def __call__(self) -> None:
        """Two products."""
        self.y = [x @ w for x, w in self.pairs]

    fixed = __call__


class Added:
    """Healthy traffic: two long vectors to one."""

    def setup(self) -> None:
        """Far beyond the caches."""
        self.x, self.y = tensor(size(1 << 29, 64)), tensor(size(1 << 29, 64))
        self.z = torch.empty_like(self.x)

    def __call__(self) -> None:
        """One pass."""
        torch.add(self.x, self.y, out=self.z)

    fixed = __call__


class Decoded:
    """Healthy decoding: one row through weights that are read once."""

    def setup(self) -> None:
        """Large layers."""
        width = size(8192, 32)
        self.x, self.layers = tensor(1, width), [tensor(width, width) for _ in range(24)]

    def __call__(self) -> None:
        """Layer after layer."""
        x = self.x
        for weight in self.layers:
            x = x @ weight
        self.y = x

    fixed = __call__


products, doubles, singles, masked, concatenated = Products(), Doubles(), Singles(), Masked(), Concatenated()
repeated, cast, unfused, written, softened = Repeated(), Cast(), Unfused(), Written(), Softened()
onehot, transposed, channels, odd, cloned = OneHot(), Transposed(), Channels(), Odd(), Cloned()
narrow, added, decoded = Narrow(), Added(), Decoded()
