"""Parts of models as users write them that no rule was made for: padding, experts, spectra, recurrence, adapters.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from gpu_live_cases import BF16, DEVICE, size, tensor


class Padded:
    """Attention over padding, hidden by a mask."""

    def setup(self) -> None:
        """Sequences of very different lengths in one rectangle."""
        longest = size(4096, 32)
        self.lengths = [longest, *(longest // 4 + longest * number // 64 for number in range(size(15, 3)))]
        rows = len(self.lengths)
        self.q, self.k, self.v = (tensor(rows, size(16, 2), longest, 128) for _ in range(3))
        self.here = torch.arange(longest, device=DEVICE) < torch.tensor(self.lengths, device=DEVICE)[:, None]

    def __call__(self) -> None:
        """Every place with every place."""
        mask = self.here[:, None, None, :].expand(-1, 1, self.here.shape[1], -1)
        seen = functional.scaled_dot_product_attention(self.q, self.k, self.v, attn_mask=mask)
        self.y = seen.masked_fill_(~self.here[:, None, :, None], 0)

    def fixed(self) -> None:
        """Each sequence as long as it is."""
        out = torch.zeros_like(self.q)
        for row, length in enumerate(self.lengths):
            q, k, v = (part[row : row + 1, :, :length] for part in (self.q, self.k, self.v))
            out[row, :, :length] = functional.scaled_dot_product_attention(q, k, v)[0]
        self.y = out


class Experts:
    """All experts for all tokens; the gates of six in eight are zero."""

    count, chosen = 8, 2

    def setup(self) -> None:
        """Tokens, balanced gates, and two layers for each expert."""
        tokens, width = size(8192, 16), size(2048, 16)
        self.x = tensor(tokens, width)
        self.up, self.down = (tensor(self.count, width, width) / math.sqrt(width) for _ in range(2))
        places = torch.arange(tokens, device=DEVICE)[:, None]
        self.route = (places + torch.arange(self.chosen, device=DEVICE) * 3) % self.count
        self.gates = torch.zeros(tokens, self.count, device=DEVICE, dtype=BF16).scatter_(1, self.route, 0.5)

    def __call__(self) -> None:
        """Four times too many products, each of them a good one."""
        out = torch.zeros_like(self.x)
        for expert in range(self.count):
            hidden = functional.silu(self.x @ self.up[expert]) @ self.down[expert]
            out += hidden * self.gates[:, expert : expert + 1]
        self.y = out

    def fixed(self) -> None:
        """Tokens sorted by expert, and one batched product."""
        order = self.route.flatten().argsort()
        owners = order // self.chosen
        groups = self.x[owners].unflatten(0, (self.count, -1))
        hidden = (functional.silu(groups @ self.up) @ self.down).flatten(0, 1)
        self.y = torch.zeros_like(self.x).index_add_(0, owners, hidden, alpha=0.5)


class Spectral:
    """A long convolution by complex transforms of an awkward length."""

    def setup(self) -> None:
        """Real signals and a real filter."""
        self.length = size(8192, 32)
        self.x = tensor(size(2048, 4), self.length, dtype=torch.float32)
        self.h = tensor(self.length, dtype=torch.float32) / math.sqrt(self.length)

    def __call__(self) -> None:
        """Imaginary parts of nothing, and no power of two."""
        awkward = 2 * self.length - 1
        x, h = torch.fft.fft(self.x.to(torch.complex64), n=awkward), torch.fft.fft(self.h, n=awkward)
        self.y = torch.fft.ifft(x * h).real[:, : self.length].contiguous()

    def fixed(self) -> None:
        """Real transforms of a power of two."""
        even = 2 * self.length
        x, h = torch.fft.rfft(self.x, n=even), torch.fft.rfft(self.h, n=even)
        self.y = torch.fft.irfft(x * h, n=even)[:, : self.length].contiguous()


class Careless:
    """Dropout of attention left on where nothing is trained."""

    def setup(self) -> None:
        """Queries, keys and values."""
        self.q, self.k, self.v = (tensor(size(4, 1), size(16, 2), size(8192, 32), 128) for _ in range(3))

    def __call__(self) -> None:
        """A random number for every score."""
        self.y = functional.scaled_dot_product_attention(self.q, self.k, self.v, dropout_p=0.1)

    def fixed(self) -> None:
        """None."""
        self.y = functional.scaled_dot_product_attention(self.q, self.k, self.v)


class Recurrent:
    """A recurrent layer written out, place by place."""

    def setup(self) -> None:
        """The library's layer, whose weights the loop uses too."""
        width = size(1024, 16)
        self.layer = torch.nn.LSTM(width, width, batch_first=False).to(DEVICE, BF16).requires_grad_(False)
        self.x = tensor(size(96, 6), size(64, 2), width)

    def __call__(self) -> None:
        """A dozen kernels a place."""
        layer, hidden, out = self.layer, torch.zeros_like(self.x[0]), []
        cell = torch.zeros_like(hidden)
        for x in self.x:
            gates = functional.linear(x, layer.weight_ih_l0, layer.bias_ih_l0)
            gates = gates + functional.linear(hidden, layer.weight_hh_l0, layer.bias_hh_l0)
            enter, forget, new, leave = gates.chunk(4, -1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
            hidden = torch.sigmoid(leave) * torch.tanh(cell)
            out.append(hidden)
        self.y = torch.stack(out)

    def fixed(self) -> None:
        """The library's kernels."""
        self.y = self.layer(self.x)[0]


class Adapters:
    """Each request through an adapter of its own, one after the other."""

    def setup(self) -> None:
        """Requests, and two thin layers for each."""
        count, rows, width, thin = size(64, 4), 128, size(2048, 32), 16
        self.x = tensor(count, rows, width)
        self.a, self.b = tensor(count, width, thin) / math.sqrt(width), tensor(count, thin, width)

    def __call__(self) -> None:
        """Two products and a sum for each."""
        self.y = torch.stack([x + (x @ a) @ b for x, a, b in zip(self.x, self.a, self.b, strict=True)])

    def fixed(self) -> None:
        """Two for all."""
        self.y = self.x + torch.bmm(torch.bmm(self.x, self.a), self.b)


class Routed:
    """Tokens of each expert found by asking which they are."""

    def setup(self) -> None:
        """Many small experts, equally liked."""
        self.count, width = size(64, 4), size(1024, 16)
        self.x, self.up = tensor(size(4096, 16), width), tensor(self.count, width, width) / math.sqrt(width)
        self.route = torch.randperm(self.x.shape[0], device=DEVICE) % self.count

    def __call__(self) -> None:
        """The host must know how many, for every expert."""
        out = torch.zeros_like(self.x)
        for expert in range(self.count):
            mine = torch.where(self.route == expert)[0]
            if mine.numel():
                out[mine] = functional.silu(self.x[mine] @ self.up[expert])
        self.y = out

    def fixed(self) -> None:
        """Sorted by expert; each has its share."""
        order = self.route.argsort()
        groups = self.x[order].unflatten(0, (self.count, -1))
        self.y = torch.empty_like(self.x).index_copy_(0, order, functional.silu(groups @ self.up).flatten(0, 1))


class Averaged:
    """A moving average of the weights, one parameter after the other."""

    def setup(self) -> None:
        """Many small parameters."""
        width = size(256, 8)
        self.weights = [tensor(width, width) for _ in range(size(300, 4))]
        self.y = [weight.clone() for weight in self.weights]

    def __call__(self) -> None:
        """Two kernels each."""
        for mean, weight in zip(self.y, self.weights, strict=True):
            mean.mul_(0.75).add_(weight, alpha=0.25)

    def fixed(self) -> None:
        """A few for all."""
        torch._foreach_lerp_(self.y, self.weights, 0.25)


class Batched:
    """Healthy: many large products at once."""

    def setup(self) -> None:
        """Operands once."""
        side = size(2048, 16)
        self.a, self.b = tensor(size(64, 2), side, side), tensor(size(64, 2), side, side)

    def __call__(self) -> None:
        """One call."""
        self.y = torch.bmm(self.a, self.b)

    fixed = __call__


padded, experts, spectral, careless, recurrent = Padded(), Experts(), Spectral(), Careless(), Recurrent()
adapters, routed, averaged, batched = Adapters(), Routed(), Averaged(), Batched()
