"""Functions as users write them whose time goes on the host or the link: a cause planted in each, and the step without.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gpu_live_cases import BF16, DEVICE, size, tensor


def recorded(work: Any) -> Any:
    """The work as a CUDA graph; itself where there is no CUDA device."""
    if DEVICE != "cuda":
        return work
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


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


class Timed:
    """The device awaited after every operator, to time it."""

    def setup(self) -> None:
        """Activations of a middling size."""
        self.x, self.w = tensor(size(1024, 8), size(2048, 32)), tensor(size(2048, 32), size(2048, 32))

    def _layers(self, *, wait: bool) -> None:
        x = self.x
        for _ in range(24):
            x = torch.relu(x @ self.w)
            if wait and DEVICE == "cuda":
                torch.cuda.synchronize()
        self.y = x

    def __call__(self) -> None:
        """Nothing is queued ahead."""
        self._layers(wait=True)

    def fixed(self) -> None:
        """Everything is."""
        self._layers(wait=False)


class Chosen:
    """Rows above a threshold picked by boolean indexing, whose size the host must know."""

    def setup(self) -> None:
        """Scores."""
        self.x = tensor(size(4096, 8), size(1024, 16))

    def __call__(self) -> None:
        """The host waits to learn how many there are."""
        x = self.x
        for _ in range(24):
            self.y = x[x[:, 0] > 0].sum(0)
            x = x + 0.01

    def fixed(self) -> None:
        """The others count as nothing, and nobody need know how many there are."""
        x = self.x
        for _ in range(24):
            self.y = torch.where(x[:, :1] > 0, x, 0).sum(0)
            x = x + 0.01


class Pageable:
    """Each batch copied from memory that the operating system may move."""

    pinned = False

    def setup(self) -> None:
        """A batch on the host and a layer."""
        rows, width = size(16_384, 8), size(2048, 16)
        self.host = torch.randn(rows, width)
        if self.pinned and DEVICE == "cuda":
            self.host = self.host.pin_memory()
        self.there, self.w = self.host.to(DEVICE), tensor(width, width)

    def _layers(self, batch: Any) -> None:
        x = batch.to(BF16)
        for _ in range(8):
            x = torch.relu(x @ self.w)
        self.y = x

    def __call__(self) -> None:
        """Copied on the step's path."""
        self._layers(self.host.to(DEVICE))

    def fixed(self) -> None:
        """There before."""
        self._layers(self.there)


class Pinned(Pageable):
    """The same from pinned memory, but not ahead of the step."""

    pinned = True


class Drawn:
    """Noise drawn on the host and copied."""

    def setup(self) -> None:
        """A few layers over the noise."""
        width = size(2048, 16)
        self.shape, self.w = (size(8192, 8), width), tensor(width, width)

    def _layers(self, noise: Any) -> None:
        self.y = torch.relu(noise.to(BF16) @ self.w) @ self.w

    def __call__(self) -> None:
        """Number by number on a CPU."""
        self._layers(torch.randn(self.shape).to(DEVICE))

    def fixed(self) -> None:
        """Where it is used."""
        self._layers(torch.randn(self.shape, device=DEVICE))


class Stepped:
    """An optimiser that updates one parameter after the other."""

    def setup(self) -> None:
        """Many small parameters with gradients."""
        width = size(256, 8)
        self.weights = [torch.nn.Parameter(tensor(width, width)) for _ in range(size(200, 4))]
        for weight in self.weights:
            weight.grad = torch.randn_like(weight)
        self.loop = torch.optim.AdamW(self.weights, foreach=False)
        self.whole = torch.optim.AdamW(self.weights, fused=True)

    def __call__(self) -> None:
        """A dozen kernels for each."""
        self.loop.step()

    def fixed(self) -> None:
        """A few kernels for all."""
        self.whole.step()


class Gathered:
    """Rows gathered in a loop of Python."""

    def setup(self) -> None:
        """A table, and which rows are wanted."""
        self.table = tensor(size(32_000, 50), 1024)
        self.ids = [place * 7919 % self.table.shape[0] for place in range(size(512, 8))]
        self.there = torch.tensor(self.ids, device=DEVICE)

    def __call__(self) -> None:
        """One by one."""
        self.y = torch.stack([self.table[place] * 2 for place in self.ids])

    def fixed(self) -> None:
        """At once."""
        self.y = self.table[self.there] * 2


class Looped:
    """Samples sent through the model one by one."""

    def setup(self) -> None:
        """A small model and a batch."""
        self.x, self.w = tensor(size(64, 4), size(1024, 16)), tensor(size(1024, 16), size(1024, 16))

    def _model(self, x: Any) -> Any:
        for _ in range(4):
            x = functional.gelu(x @ self.w) + x
        return x

    def __call__(self) -> None:
        """Sixty-four times a row."""
        self.y = torch.cat([self._model(row) for row in self.x.split(1)])

    def fixed(self) -> None:
        """Once all rows."""
        self.y = self._model(self.x)


class Decoding:
    """A token through many small layers, each operator launched by itself."""

    def setup(self) -> None:
        """Layers of a small model, and the same as a graph."""
        width = size(1024, 16)
        self.x = tensor(1, width)
        self.layers = [(tensor(width, width), tensor(width, width)) for _ in range(size(28, 2))]
        self.replay = recorded(self._work)

    def _work(self) -> None:
        x = self.x
        for up, down in self.layers:
            normed = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(BF16)
            x = x + functional.silu(normed @ up) @ down
        self.y = x

    def __call__(self) -> None:
        """The host cannot launch as fast as the device works."""
        self._work()

    def fixed(self) -> None:
        """Replayed."""
        self.replay()


class Tiny:
    """Hundreds of tiny kernels."""

    def setup(self) -> None:
        """A few numbers, and a recording of the step."""
        self.x = tensor(32, 32)
        self.replay = recorded(self._work)

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
        self.replay()


class Emptied:
    """The allocator's cache emptied in every step."""

    def setup(self) -> None:
        """What the activations are made from."""
        self.x = tensor(size(1 << 24, 64))

    def fixed(self) -> None:
        """Activations from the cache."""
        kept = [self.x * float(number) for number in range(24)]
        self.y = kept[-1] + kept[0]

    def __call__(self) -> None:
        """Activations from the driver."""
        self.fixed()
        if DEVICE == "cuda":
            torch.cuda.empty_cache()


items, timed, chosen, logits, pageable, pinned = Items(), Timed(), Chosen(), Logits(), Pageable(), Pinned()
built, drawn, stepped, gathered, looped, decoding = Built(), Drawn(), Stepped(), Gathered(), Looped(), Decoding()
tiny, emptied = Tiny(), Emptied()
