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
    """Healthy products: nothing to be had by software."""

    def setup(self) -> None:
        """Operands once."""
        side = size(8192, 64)
        self.x, self.w = tensor(side, side), tensor(side, side)

    def __call__(self) -> None:
        """Four products."""
        for _ in range(4):
            self.y = self.x @ self.w

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


class Items:
    """A device value read after each of 40 layers."""

    def setup(self) -> None:
        """Layers of a middling size."""
        width = size(2048, 32)
        self.x, self.w = tensor(size(256, 8), width), tensor(width, width)

    def __call__(self) -> None:
        """Every layer waits."""
        x = self.x
        for _ in range(40):
            x = x @ self.w
            self.seen = x[0, 0].item()

    def fixed(self) -> None:
        """One look at the end."""
        x = self.x
        for _ in range(40):
            x = x @ self.w
        self.seen = x[0, 0].item()


class Logits:
    """All logits copied to the host in each step."""

    def setup(self) -> None:
        """A head over a large vocabulary."""
        self.x, self.head = tensor(size(512, 4), size(2048, 32)), tensor(size(2048, 32), size(128_000, 100))

    def __call__(self) -> None:
        """The choice is made on the host."""
        self.y = (self.x @ self.head).float().cpu().argmax(-1)

    def fixed(self) -> None:
        """The choice is made on the device, and only it is copied."""
        self.y = (self.x @ self.head).argmax(-1).cpu()


class Built:
    """Python builds the batch between steps."""

    def setup(self) -> None:
        """A table of words and a few layers."""
        self.table, self.w = tensor(1000, size(2048, 32)), tensor(size(2048, 32), size(2048, 32))
        self.ready = torch.arange(size(4096, 8), device=DEVICE) % 1000

    def _layers(self, ids: Any) -> None:
        x = self.table[ids]
        for _ in range(8):
            x = x @ self.w
        self.y = x

    def __call__(self) -> None:
        """Number by number."""
        ids = [sum(map(ord, f"{place}-{place * 7919}")) % 1000 for place in range(len(self.ready))]
        self._layers(torch.tensor(ids).to(DEVICE))

    def fixed(self) -> None:
        """Ready beforehand."""
        self._layers(self.ready)


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


class Tiny:
    """Hundreds of tiny kernels."""

    def setup(self) -> None:
        """A few numbers, and a recording of the step."""
        self.x = tensor(32, 32)
        if DEVICE == "cuda":
            self._work()
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._work()

    def _work(self) -> None:
        x = self.x
        for _ in range(200):
            x = torch.relu(x * 1.01)
        self.y = x

    def __call__(self) -> None:
        """Launched one by one."""
        self._work()

    def fixed(self) -> None:
        """Replayed."""
        self.graph.replay() if DEVICE == "cuda" else self._work()


class Emptied:
    """The allocator's cache emptied between steps."""

    def setup(self) -> None:
        """Weights; activations are made anew."""
        width = size(4096, 32)
        self.w = tensor(width, width)

    def fixed(self) -> None:
        """Activations from the cache."""
        x = torch.ones(size(4096, 8), self.w.shape[0], device=DEVICE, dtype=BF16)
        for _ in range(6):
            x = torch.relu(x @ self.w)
        self.y = x

    def __call__(self) -> None:
        """Activations from the driver."""
        self.fixed()
        self.y = None
        if DEVICE == "cuda":
            torch.cuda.empty_cache()


products, doubles, singles, masked, concatenated = Products(), Doubles(), Singles(), Masked(), Concatenated()
repeated, cast, items, logits, built = Repeated(), Cast(), Items(), Logits(), Built()
unfused, tiny, emptied = Unfused(), Tiny(), Emptied()
