"""Functions of the sixth set whose time goes on the host or on the link: looks, loops, copies and work in NumPy.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from gpu_live_cases import BF16, DEVICE, size, tensor

# --- many small kernels -----------------------------------------------------------------------------------------------


class Lectured:
    """A small language model as lectures write it: every head a module of its own, one after the other."""

    def setup(self) -> None:
        """Hidden states; queries, keys and values of each head, and the same side by side; a layer after them."""
        self.heads, self.width, length = size(12, 3), size(32, 8), size(128, 8)
        wide = self.heads * self.width
        self.x = tensor(size(16, 2), length, wide)
        self.hidden = torch.ones(length, length, device=DEVICE, dtype=torch.bool).triu_(1)
        self.layers = []
        for _ in range(size(6, 2)):
            parts, out = (tensor(wide, count * wide) / math.sqrt(wide) for count in (3, 1))
            apart = [part.contiguous() for part in parts.split(self.width, 1)]
            self.layers.append((apart, parts, out))

    def _head(self, x: Any, query: Any, key: Any, value: Any) -> Any:
        scores = (x @ query) @ (x @ key).transpose(1, 2) / math.sqrt(self.width)
        return scores.masked_fill(self.hidden, -math.inf).softmax(-1) @ (x @ value)

    def __call__(self) -> None:
        """A hundred kernels a layer."""
        x, count = self.x, self.heads
        for apart, _, out in self.layers:
            weights = zip(apart[:count], apart[count : 2 * count], apart[2 * count :], strict=True)
            x = x + torch.cat([self._head(x, *three) for three in weights], 2) @ out
        self.y = x

    def fixed(self) -> None:
        """All heads at once."""
        x = self.x
        for _, parts, out in self.layers:
            q, k, v = (x @ parts).unflatten(2, (3 * self.heads, self.width)).transpose(1, 2).chunk(3, 1)
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + seen.transpose(1, 2).flatten(2) @ out
        self.y = x


# --- the host asks ----------------------------------------------------------------------------------------------------


class Marched:
    """Rays followed through a scene until they meet something; only those on their way are kept, however many."""

    near, far = 1e-3, 20.0

    def setup(self) -> None:
        """Rays from one point, and balls."""
        self.moves = size(48, 6)
        rays, balls = size(32_768, 64), size(6, 3)
        self.rays = functional.normalize(torch.randn(rays, 3, device=DEVICE), dim=1)
        self.centres = functional.normalize(torch.randn(balls, 3, device=DEVICE), dim=1) * 5
        self.radii = torch.rand(balls, device=DEVICE) + 0.5

    def _distances(self, places: Any) -> Any:
        return ((places[:, None] - self.centres).norm(dim=2) - self.radii).amin(1)

    def __call__(self) -> None:
        """The host has to know the number after every move."""
        way = torch.zeros(len(self.rays), device=DEVICE)
        moving = torch.arange(len(self.rays), device=DEVICE)
        for _ in range(self.moves):
            gone = way[moving]
            free = self._distances(self.rays[moving] * gone[:, None])
            gone = gone + free
            way[moving] = gone
            moving = moving[(free > self.near) & (gone < self.far)]
        self.y = way

    def fixed(self) -> None:
        """All rays in every move; those that have arrived stay where they are."""
        way = torch.zeros(len(self.rays), device=DEVICE)
        moving = torch.ones_like(way, dtype=torch.bool)
        for _ in range(self.moves):
            free = self._distances(self.rays * way[:, None])
            way = torch.where(moving, way + free, way)
            moving = moving & (free > self.near) & (way < self.far)
        self.y = way


class Swept:
    """Parts of pictures in many sizes: after each its loss is read and the memory swept, for fear that it runs out."""

    def setup(self) -> None:
        """Parts, each of another size, and three kernels."""
        wide, last = size(64, 8), torch.channels_last
        sides = range(size(128, 8), size(288, 16), size(16, 4))
        self.parts = [tensor(8, wide, side, side).to(memory_format=last) for side in sides]
        kernels = (tensor(wide, wide, 3, 3) / (3 * math.sqrt(wide)) for _ in range(3))
        self.kernels = [kernel.to(memory_format=last) for kernel in kernels]

    def _loss(self, x: Any) -> Any:
        for kernel in self.kernels:
            x = functional.relu(functional.conv2d(x, kernel, padding=1), inplace=True)
        return x.float().square().mean()

    def __call__(self) -> None:
        """Each part asks the driver for its memory anew."""
        losses = []
        for part in self.parts:
            losses.append(self._loss(part).item())
            torch.cuda.empty_cache()
        self.y = torch.tensor(losses)

    def fixed(self) -> None:
        """The memory stays, and all losses are read at the end."""
        self.y = torch.stack([self._loss(part) for part in self.parts]).cpu()


# --- copies over the link ---------------------------------------------------------------------------------------------


class Piped:
    """Parts of a table that come on a stream of their own, so that copies and work go on at once; the host waits."""

    def setup(self) -> None:
        """Parts on the host, in memory that stays; two layers; a stream for the copies."""
        rows, width, wide = size(8192, 8), size(4096, 16), size(8192, 32)
        self.parts = [part.cpu() for part in tensor(size(8, 3), rows, width)]
        if DEVICE == "cuda":
            self.parts = [part.pin_memory() for part in self.parts]
            self.copies = torch.cuda.Stream()
        self.up, self.down = tensor(width, wide) / math.sqrt(width), tensor(wide, width) / math.sqrt(wide)

    def _beside(self) -> Any:
        return torch.cuda.stream(self.copies) if DEVICE == "cuda" else nullcontext()

    def _work(self, x: Any) -> Any:
        return (torch.relu_(x @ self.up) @ self.down).amax(0)

    def __call__(self) -> None:
        """For each copy to end, and for each work to end before the next copy."""
        best = []
        for part in self.parts:
            with self._beside():
                x = part.to(DEVICE, non_blocking=True)
            if DEVICE == "cuda":
                self.copies.synchronize()
            best.append(self._work(x))
            if DEVICE == "cuda":
                done = torch.cuda.Event()
                done.record()
                done.synchronize()
        self.y = torch.stack(best)

    def fixed(self) -> None:
        """The device alone waits, and only for the copy that it needs."""
        best = []
        for part in self.parts:
            with self._beside():
                x = part.to(DEVICE, non_blocking=True)
            if DEVICE == "cuda":
                torch.cuda.current_stream().wait_stream(self.copies)
                x.record_stream(torch.cuda.current_stream())
            best.append(self._work(x))
        self.y = torch.stack(best)


class Frames:
    """Films of a robot sent to the device as numbers of 32 bits, though a camera gives eight."""

    def setup(self) -> None:
        """Frames as they were taken and as a reader made them, in memory that stays; and a layer over patches."""
        self.patch, side, width = size(16, 4), size(224, 8), size(768, 16)
        self.taken = torch.randint(0, 256, (size(256, 2), 3, side, side), dtype=torch.uint8, device=DEVICE).cpu()
        self.wide = self.taken.float() / 255
        if DEVICE == "cuda":
            self.taken, self.wide = self.taken.pin_memory(), self.wide.pin_memory()
        self.kernel = tensor(width, 3, self.patch, self.patch) / self.patch

    def _embedded(self, frames: Any) -> Any:
        return functional.conv2d(frames.to(BF16), self.kernel, stride=self.patch).flatten(2).mean(2)

    def __call__(self) -> None:
        """Four times the bytes."""
        self.y = self._embedded(self.wide.to(DEVICE, non_blocking=True))

    def fixed(self) -> None:
        """Widened where they are needed."""
        self.y = self._embedded(self.taken.to(DEVICE, non_blocking=True).float().div_(255))


# --- work of the host -------------------------------------------------------------------------------------------------


class Packed:
    """Documents packed into one sequence: which word may see which is worked out by NumPy, and sent."""

    def setup(self) -> None:
        """How long the documents are, and queries, keys and values of all their words."""
        self.length, documents = size(4096, 24), size(12, 3)
        cuts = np.sort(np.random.default_rng(6).choice(np.arange(1, self.length), documents - 1, replace=False))
        self.lengths = np.diff(cuts, prepend=0, append=self.length)
        self.q, self.k, self.v = (tensor(1, size(32, 2), self.length, size(128, 16)) for _ in range(3))

    def _attended(self, mask: Any) -> None:
        self.y = functional.scaled_dot_product_attention(self.q, self.k, self.v, attn_mask=mask)

    def __call__(self) -> None:
        """All pairs on the host."""
        document = np.repeat(np.arange(len(self.lengths)), self.lengths)
        mask = (document[:, None] == document[None, :]) & np.tri(self.length, dtype=bool)
        self._attended(torch.from_numpy(mask).to(DEVICE))

    def fixed(self) -> None:
        """One number a word goes over; the pairs are made where they are needed."""
        document = torch.from_numpy(np.repeat(np.arange(len(self.lengths)), self.lengths)).to(DEVICE)
        self._attended((document[:, None] == document[None, :]).tril_())


lectured, marched, swept = Lectured(), Marched(), Swept()
piped, frames, packed = Piped(), Frames(), Packed()
