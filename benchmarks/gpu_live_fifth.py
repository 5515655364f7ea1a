"""A fifth set of functions as users write them: experts, audio, point clouds, graphs, particles, trees, rollouts.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`. Here are causes inside kernels and bytes and the steps in good health; time on the host and on the link is in
gpu_live_fifth_waits.py. Written without a look at the code or the description of the rules. Two answers are accepted
where the cause is honestly mixed, or where both lead to the fix. In `frozen` and `checkpointed` every kernel does well
what it was asked for: what is in vain is never read, or was there before.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.nn.attention import sdpa_kernel
from torch.utils.checkpoint import checkpoint

from gpu_live_answers import COMPUTE, KERNELS, MEMORY, Live
from gpu_live_cases import BF16, DEVICE, size, tensor
from gpu_live_unseen_kernels import FASTEST

SINGLE = torch.float32

# --- in good health ---------------------------------------------------------------------------------------------------


class Encoded:
    """A whole layer of a large encoder: fused attention, the library's norms, products that outweigh the rest."""

    def setup(self) -> None:
        """Tokens of a few documents, and the weights of one layer."""
        self.heads = size(32, 2)
        width, wide = 128 * self.heads, size(16_384, 64)
        self.x = tensor(size(4, 2), size(4096, 16), width)
        self.into = tensor(width, 3 * width) / math.sqrt(width)
        self.out = tensor(width, width) / math.sqrt(width)
        self.up, self.down = tensor(width, wide) / math.sqrt(width), tensor(wide, width) / math.sqrt(wide)

    def __call__(self) -> None:
        """Attention and the wide layer, each beside the path that passes it by."""
        parts = functional.layer_norm(self.x, self.x.shape[-1:]) @ self.into
        q, k, v = parts.unflatten(-1, (3 * self.heads, 128)).transpose(1, 2).chunk(3, 1)
        with sdpa_kernel(FASTEST, set_priority=True):
            seen = functional.scaled_dot_product_attention(q, k, v)
        x = self.x + seen.transpose(1, 2).flatten(2) @ self.out
        wide = functional.gelu(functional.layer_norm(x, x.shape[-1:]) @ self.up)
        self.y = x.add_(wide @ self.down)

    fixed = __call__


class Upscaled:
    """Training of a network that sharpens pictures: convolutions there and back, channels last, kernels tried out."""

    def setup(self) -> None:
        """Features of pictures, three kernels, and what comes back from the loss."""
        wide, side, last = size(256, 8), size(128, 8), torch.channels_last
        self.x, self.back = (tensor(size(32, 2), wide, side, side).to(memory_format=last) for _ in range(2))
        kernels = ((tensor(wide, wide, 3, 3) / (3 * math.sqrt(wide))).to(memory_format=last) for _ in range(3))
        self.kernels = [kernel.requires_grad_() for kernel in kernels]

    def __call__(self) -> None:
        """Gradients of all kernels."""
        for kernel in self.kernels:
            kernel.grad = None
        x = self.x
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=True):
            for kernel in self.kernels:
                x = functional.relu(functional.conv2d(x, kernel, padding=1), inplace=True)
            x.backward(self.back)
        self.y = [kernel.grad for kernel in self.kernels]

    fixed = __call__


class Transformed:
    """Echoes of a radar brought from time to distance: one transform of each, at a length made for it."""

    def setup(self) -> None:
        """Complex samples of many pulses."""
        shape = size(65_536, 8), size(4096, 16)
        self.x = torch.complex(tensor(*shape, dtype=SINGLE), tensor(*shape, dtype=SINGLE))

    def __call__(self) -> None:
        """Each number read once and written once."""
        self.y = torch.view_as_real(torch.fft.fft(self.x))

    fixed = __call__


class Clipped:
    """Gradients in one flat buffer held to a length: one pass to measure, one in place to shorten."""

    longest = 1.0

    def setup(self) -> None:
        """Far beyond the caches."""
        self.y = torch.randn(size(1 << 29, 64), device=DEVICE)

    def __call__(self) -> None:
        """Nobody asks for the length: the device keeps it."""
        length = torch.linalg.vector_norm(self.y)
        self.y.mul_((self.longest / (length + 1e-6)).clamp_(max=1.0))

    fixed = __call__


# --- bytes that need not move -----------------------------------------------------------------------------------------


class Promoted:
    """Features of speech whose window comes from NumPy: from there on everything has 64 bits."""

    def setup(self) -> None:
        """Clips, a window, and bands of frequencies."""
        self.long, bands = size(1024, 32), size(80, 6)
        self.waves = tensor(size(256, 2), size(160_000, 128), dtype=SINGLE)
        centres, places = np.linspace(0, self.long // 2, bands)[None, :], np.arange(self.long // 2 + 1)[:, None]
        filters = np.maximum(0, 1 - np.abs(places - centres) / (self.long / bands))
        self.wide = [torch.from_numpy(part).to(DEVICE) for part in (np.hanning(self.long), filters)]
        self.narrow = [part.float() for part in self.wide]

    def _features(self, window: Any, filters: Any) -> None:
        frames = self.waves.unfold(-1, self.long, self.long // 4)
        power = torch.fft.rfft(frames * window).abs().square()
        self.y = torch.log(power @ filters + 1e-6).float()

    def __call__(self) -> None:
        """Frames, spectra and powers, all twice as wide."""
        self._features(*self.wide)

    def fixed(self) -> None:
        """As wide as the sound."""
        self._features(*self.narrow)


class Accumulated:
    """Gradients gathered over many small parts of a batch that would fit whole."""

    def setup(self) -> None:
        """Parts of a batch, a few large layers, and what comes back from the loss."""
        width = size(8192, 16)
        shape = size(16, 3), size(64, 4), width
        self.x, self.back = tensor(*shape), tensor(*shape)
        self.layers = [(tensor(width, width) / math.sqrt(width)).requires_grad_() for _ in range(size(4, 2))]

    def _learn(self, batches: Any) -> None:
        for weight in self.layers:
            weight.grad = None
        for x, back in batches:
            out = x
            for weight in self.layers:
                out = torch.relu(out @ weight)
            out.backward(back)
        self.y = [weight.grad for weight in self.layers]

    def __call__(self) -> None:
        """Every part reads all weights twice, and writes and adds up all gradients."""
        self._learn(zip(self.x, self.back, strict=True))

    def fixed(self) -> None:
        """The whole batch at once."""
        self._learn([(self.x.flatten(0, 1), self.back.flatten(0, 1))])


class Particles:
    """A simulation that keeps all about a particle in one row: each pass fetches rows to use a few columns."""

    moment = 1e-3

    def setup(self) -> None:
        """Place, speed, force, mass, and six columns that this step does not need; and the first four by themselves."""
        self.all = tensor(size(1 << 25, 16), 16, dtype=SINGLE)
        self.all[:, 9].abs_().add_(1)
        self.place, self.speed, self.force = (self.all[:, at : at + 3].contiguous() for at in (0, 3, 6))
        self.mass = self.all[:, 9:10].contiguous()

    def __call__(self) -> None:
        """Five passes with gaps."""
        self.all[:, 3:6] += self.moment * self.all[:, 6:9] / self.all[:, 9:10]
        self.all[:, :3] += self.moment * self.all[:, 3:6]
        self.y = [self.all[:, :3], self.all[:, 3:6]]

    def fixed(self) -> None:
        """Two passes over what is needed, without gaps."""
        self.speed.addcdiv_(self.force, self.mass, value=self.moment)
        self.place.add_(self.speed, alpha=self.moment)
        self.y = [self.place, self.speed]


class Voxelised:
    """Points of a scan averaged in small cubes, which are told apart as rows of three numbers."""

    def setup(self) -> None:
        """Points in a room."""
        self.cubes = size(128, 3)
        self.points = torch.rand(size(1 << 20, 64), 3, device=DEVICE)

    def _averaged(self, cubes: Any, which: Any) -> None:
        sums = torch.zeros(len(cubes), 3, device=DEVICE).index_add_(0, which, self.points)
        self.y = sums / torch.bincount(which, minlength=len(cubes))[:, None]

    def __call__(self) -> None:
        """Rows are sorted by comparing them, number by number."""
        places = (self.points * self.cubes).long()
        self._averaged(*torch.unique(places, dim=0, return_inverse=True))

    def fixed(self) -> None:
        """One number for each cube, in the same order."""
        x, y, z = (self.points * self.cubes).long().unbind(1)
        self._averaged(*torch.unique((x * self.cubes + y) * self.cubes + z, return_inverse=True))


# --- arithmetic that need not be --------------------------------------------------------------------------------------


class Adjacent:
    """A graph network over a matrix of all pairs of nodes, nearly all zeros, whose rows each step scales anew."""

    def setup(self) -> None:
        """Edges with weights, as a matrix and as lists; features, and two layers."""
        nodes, degree, width = size(32_768, 16), size(16, 3), size(256, 8)
        self.edges = torch.randint(0, nodes, (nodes, degree), device=DEVICE)
        weights = torch.rand(nodes, degree, device=DEVICE).to(BF16)
        self.pairs = torch.zeros(nodes, nodes, device=DEVICE, dtype=BF16).scatter_add_(1, self.edges, weights)
        self.shares = weights / weights.sum(1, keepdim=True)
        self.x = tensor(nodes, width)
        self.layers = [tensor(width, width) / math.sqrt(width) for _ in range(2)]

    def __call__(self) -> None:
        """Two passes over all pairs for the scale, and a product with them in each layer."""
        shares, x = self.pairs / self.pairs.sum(1, keepdim=True), self.x
        for weight in self.layers:
            x = torch.relu((shares @ x) @ weight)
        self.y = x

    def fixed(self) -> None:
        """Only the edges, scaled once."""
        x = self.x
        for weight in self.layers:
            near = functional.embedding_bag(self.edges, x, mode="sum", per_sample_weights=self.shares)
            x = torch.relu(near @ weight)
        self.y = x


class Dispatched:
    """Tokens sent to their experts and back by products with ones and zeros, with room for twice as many."""

    def setup(self) -> None:
        """Tokens, the expert and the place of each, a gate, and the experts' weights."""
        self.tokens, self.experts = size(8192, 16), size(8, 4)
        width, inner = size(2048, 16), size(8192, 32)
        self.x, self.gate = tensor(self.tokens, width), torch.rand(self.tokens, 1, device=DEVICE).to(BF16)
        mixed = torch.randperm(self.tokens, device=DEVICE)
        self.expert, self.place = mixed % self.experts, mixed // self.experts
        self.up = tensor(self.experts, width, inner) / math.sqrt(width)
        self.down = tensor(self.experts, inner, width) / math.sqrt(inner)

    def __call__(self) -> None:
        """A mask of tokens, experts and places; the wider half of the places stays empty."""
        room = 2 * self.tokens // self.experts
        experts = functional.one_hot(self.expert, self.experts).to(BF16)
        mask = experts[:, :, None] * functional.one_hot(self.place, room).to(BF16)[:, None, :]
        inputs = torch.einsum("tec,td->ecd", mask, self.x)
        outputs = torch.bmm(torch.relu(torch.bmm(inputs, self.up)), self.down)
        self.y = torch.einsum("tec,ecd->td", mask * self.gate[:, :, None], outputs)

    def fixed(self) -> None:
        """Rows fetched by their numbers, and as many places as tokens."""
        room = self.tokens // self.experts
        where = self.expert * room + self.place
        order = torch.empty_like(where).scatter_(0, where, torch.arange(self.tokens, device=DEVICE))
        inputs = self.x[order].unflatten(0, (self.experts, room))
        outputs = torch.bmm(torch.relu(torch.bmm(inputs, self.up)), self.down)
        self.y = outputs.flatten(0, 1)[where] * self.gate


class Frozen:
    """Small adapters trained beside large layers that nobody trains, and that were never told so."""

    def setup(self) -> None:
        """Large weights that ask for gradients, the same without, and adapters that need them."""
        rows, width, rank = size(8192, 8), size(8192, 16), size(16, 4)
        self.x, self.back = tensor(rows, width), tensor(rows, width)
        self.still = [tensor(width, width) / math.sqrt(width) for _ in range(size(4, 2))]
        self.asking = [weight.detach().requires_grad_() for weight in self.still]
        self.adapters = [
            (tensor(width, rank).div_(math.sqrt(width)).requires_grad_(), tensor(rank, width).requires_grad_())
            for _ in self.still
        ]

    def _learn(self, layers: list[Any]) -> None:
        trained = [part for pair in self.adapters for part in pair]
        for weight in (*layers, *trained):
            weight.grad = None
        x = self.x
        for weight, (into, out) in zip(layers, self.adapters, strict=True):
            x = torch.relu(torch.addmm(x @ weight, x @ into, out))
        x.backward(self.back)
        self.y = [part.grad for part in trained]

    def __call__(self) -> None:
        """One large product in three makes a gradient that is thrown away."""
        self._learn(self.asking)

    def fixed(self) -> None:
        """Gradients of the adapters alone."""
        self._learn(self.still)


class Checkpointed:
    """Every layer's work done again on the way back, to save memory that nobody is short of."""

    def setup(self) -> None:
        """Layers, their inputs, and what comes back from the loss."""
        rows, width = size(8192, 8), size(8192, 16)
        self.x, self.back = tensor(rows, width), tensor(rows, width)
        self.layers = [(tensor(width, width) / math.sqrt(width)).requires_grad_() for _ in range(size(4, 2))]

    @staticmethod
    def _layer(x: Any, weight: Any) -> Any:
        return torch.relu(x @ weight)

    def _learn(self, through: Any) -> None:
        for weight in self.layers:
            weight.grad = None
        x = self.x
        for weight in self.layers:
            x = through(x, weight)
        x.backward(self.back)
        self.y = [weight.grad for weight in self.layers]

    def __call__(self) -> None:
        """Four products a layer."""
        self._learn(lambda x, weight: checkpoint(self._layer, x, weight, use_reentrant=False))

    def fixed(self) -> None:
        """Three."""
        self._learn(self._layer)


def _kernels(bottlenecks: tuple[str, ...], *layers: str, bound: str = "software", precision: str = "bf16") -> Live:
    return Live("gpu_live_fifth", bottlenecks, layers, bound, precision)


def _healthy(bottlenecks: tuple[str, ...], precision: str = "bf16") -> Live:
    return _kernels(bottlenecks, "accelerator", bound="hardware", precision=precision)


def _waits(*bottlenecks: str, layers: tuple[str, ...] = ("application",), precision: str = "bf16") -> Live:
    return Live("gpu_live_fifth_waits", bottlenecks, layers, precision=precision)


EITHER = ("application", "runtime")
FIFTH: dict[str, Live] = {
    "dispatched": _kernels(KERNELS, *EITHER),
    "speculated": _waits("synchronization", "launch", layers=EITHER),
    "encoded": _healthy(COMPUTE),
    "promoted": _kernels(KERNELS, *EITHER, "framework", precision="fp32"),
    "recalled": _waits("idle", "input", precision="fp32"),
    "frozen": _kernels(COMPUTE, "application"),
    "forest": _waits("launch", layers=EITHER, precision="fp32"),
    "clipped": _healthy(MEMORY, "fp32"),
    "particles": _kernels(MEMORY, *EITHER, precision="fp32"),
    "excluded": _waits("transfer"),
    "accumulated": _kernels(MEMORY, *EITHER),
    "solved": _waits("launch", "synchronization", layers=EITHER, precision="fp32"),
    "upscaled": _healthy(COMPUTE),
    "voxelised": _kernels(KERNELS, *EITHER, "framework", precision="fp32"),
    "rolled": _waits("idle", "input", precision="fp32"),
    "checkpointed": _kernels(COMPUTE, *EITHER, "framework"),
    "transformed": _healthy(MEMORY, "fp32"),
    "adjacent": _kernels(KERNELS, *EITHER),
}

encoded, upscaled, transformed, clipped = Encoded(), Upscaled(), Transformed(), Clipped()
promoted, accumulated, particles, voxelised = Promoted(), Accumulated(), Particles(), Voxelised()
adjacent, dispatched, frozen, checkpointed = Adjacent(), Dispatched(), Frozen(), Checkpointed()
