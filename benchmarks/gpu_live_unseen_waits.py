"""Functions as users write them that no rule was made for: time that goes on the host or the link.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`.
"""

from __future__ import annotations

import io
import json
import threading
import time
from typing import Any

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from gpu_live_cases import BF16, DEVICE, size, tensor


class Converged:
    """An iteration that asks after every turn whether it may end."""

    def setup(self) -> None:
        """A map that brings everything nearer to one point."""
        side = size(2048, 16)
        self.start, self.w = tensor(side, side), tensor(side, side) * (0.9 / (2 * side**0.5))
        self.b = tensor(side, side)

    def _iterate(self, every: int) -> None:
        x = self.start
        for turn in range(40):
            after = torch.addmm(self.b, x, self.w)
            if turn % every == every - 1 and (after - x).abs().max() < -1:
                break
            x = after
        self.y = x

    def __call__(self) -> None:
        """The host waits for the answer forty times."""
        self._iterate(1)

    def fixed(self) -> None:
        """Twice."""
        self._iterate(20)


class Sampled:
    """Tokens that go to the host as a list and come back as a tensor."""

    def setup(self) -> None:
        """A table, a few layers and a head."""
        width, words = size(4096, 16), size(32_000, 50)
        self.table, self.head = tensor(words, width), tensor(width, words)
        self.layers = [tensor(width, width) * width**-0.5 for _ in range(3)]
        self.first = torch.arange(size(64, 2), device=DEVICE)

    def _next(self, ids: Any) -> Any:
        x = self.table[ids]
        for weight in self.layers:
            x = functional.silu(x @ weight) + x
        return (x @ self.head).argmax(-1)

    def __call__(self) -> None:
        """There and back for every token."""
        ids, said = self.first, []
        for _ in range(16):
            said.append(self._next(ids).tolist())
            ids = torch.tensor(said[-1], device=DEVICE)
        self.y = torch.tensor(said)

    def fixed(self) -> None:
        """All of them at the end."""
        ids, said = self.first, []
        for _ in range(16):
            ids = self._next(ids)
            said.append(ids)
        self.y = torch.stack(said).cpu()


class Polled:
    """The end of the work awaited by looking every few milliseconds."""

    def setup(self) -> None:
        """Work of a millisecond."""
        side = size(4096, 16)
        self.x, self.w = tensor(side, side), tensor(side, side) * 0.01

    def _part(self) -> Any:
        x = self.x
        for _ in range(5):
            x = x @ self.w
        self.y = x
        if DEVICE != "cuda":
            return None
        done = torch.cuda.Event()
        done.record()
        return done

    def __call__(self) -> None:
        """It is over long before anyone looks."""
        for _ in range(3):
            done = self._part()
            while done is not None and not done.query():
                time.sleep(0.004)

    def fixed(self) -> None:
        """Told at once."""
        for _ in range(3):
            done = self._part()
            if done is not None:
                done.synchronize()


class Hogged:
    """A thread beside, which counts in Python and seldom lets go of the interpreter."""

    def setup(self) -> None:
        """A few large products, and the thread."""
        side = size(4096, 16)
        self.x, self.w = tensor(side, side), tensor(side, side) * 0.01
        self.wanted, self.until = threading.Event(), 0.0
        threading.Thread(target=self._count, args=(self.wanted,), daemon=True).start()

    def _count(self, wanted: threading.Event) -> None:
        while self.__dict__.get("wanted") is wanted:  # and no longer than this case
            if wanted.wait(0.05) and time.monotonic() < self.__dict__.get("until", 0.0):
                sum(number % 7 for number in range(20_000))
            else:
                wanted.clear()

    def fixed(self) -> None:
        """The thread rests."""
        self.until = 0.0
        self._products()

    def __call__(self) -> None:
        """Every operator waits its turn, for the thread works on while steps come."""
        self.until = time.monotonic() + 0.1
        self.wanted.set()
        self._products()

    def _products(self) -> None:
        x = self.x
        for _ in range(4):
            x = x @ self.w
        self.y = x


class Answered:
    """Answers turned into text by Python before the next step."""

    def setup(self) -> None:
        """A head, a vocabulary and hidden states."""
        width = size(2048, 16)
        self.x, self.head = tensor(size(64, 2), size(128, 8), width), tensor(width, size(32_000, 50))
        self.words = [f"word{number}" for number in range(self.head.shape[1])]

    def fixed(self) -> None:
        """Only the numbers leave; who serves them makes text of them."""
        self.y = (self.x @ self.head).argmax(-1).cpu()

    def __call__(self) -> None:
        """Row by row, word by word."""
        self.fixed()
        for row in self.y.tolist():
            text = " ".join(self.words[number].title() for number in row if number)
            self.line = json.dumps({"text": text, "tokens": row, "length": len(text)})


class Scribbles(Dataset[Any]):
    """Samples that are made in Python when they are asked for."""

    def __init__(self, count: int, width: int) -> None:
        self.count, self.width = count, width

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> Any:
        numbers = [(place * 31 + step * 17) % 255 / 255 - 0.5 for step in range(self.width)]
        return torch.tensor(numbers, dtype=torch.float32)


class Loaded:
    """A data loader without workers over samples that take their time."""

    def setup(self) -> None:
        """Samples, and layers over them."""
        rows, width = size(32, 4), size(2048, 16)
        self.w = tensor(width, width) / width**0.5
        samples = Scribbles(rows, width)
        self.loader = DataLoader(samples, batch_size=rows, num_workers=0)
        self.ready = torch.stack([samples[place] for place in range(rows)]).to(DEVICE)

    def _layers(self, batch: Any) -> None:
        x = batch.to(DEVICE).to(BF16).repeat(size(256, 2), 1)
        for _ in range(6):
            x = torch.relu(x @ self.w)
        self.y = x

    def __call__(self) -> None:
        """Made while the device waits."""
        for batch in self.loader:
            self._layers(batch)

    def fixed(self) -> None:
        """Made before."""
        self._layers(self.ready)


class Crumbs:
    """A batch copied to the device sample by sample."""

    def setup(self) -> None:
        """Samples on the host, and layers."""
        width = size(2048, 16)
        self.samples = [torch.randn(width) for _ in range(size(256, 4))]
        self.place, self.w = torch.empty(len(self.samples), width), tensor(width, width) / width**0.5
        if DEVICE == "cuda":
            self.place = self.place.pin_memory()

    def _layers(self, batch: Any) -> None:
        x = batch.to(BF16)
        for _ in range(6):
            x = torch.relu(x @ self.w)
        self.y = x

    def __call__(self) -> None:
        """Hundreds of small copies."""
        self._layers(torch.stack([sample.to(DEVICE) for sample in self.samples]))

    def fixed(self) -> None:
        """One."""
        torch.stack(self.samples, out=self.place)
        self._layers(self.place.to(DEVICE, non_blocking=True))


class Offloaded:
    """Weights that live on the host and are fetched for every layer."""

    def setup(self) -> None:
        """Layers here and there."""
        width = size(4096, 16)
        self.x = tensor(size(2048, 8), width)
        self.there = [tensor(width, width) / width**0.5 for _ in range(8)]
        self.here = [weight.cpu().pin_memory() if DEVICE == "cuda" else weight for weight in self.there]

    def __call__(self) -> None:
        """Fetched, used, dropped."""
        x = self.x
        for weight in self.here:
            x = x @ weight.to(DEVICE, non_blocking=True)
        self.y = x

    def fixed(self) -> None:
        """They have room."""
        x = self.x
        for weight in self.there:
            x = x @ weight
        self.y = x


class Saved:
    """The state written out in every step."""

    def setup(self) -> None:
        """Weights of a small model."""
        width = size(1024, 16)
        self.x = tensor(size(32_768, 8), width)
        self.state = {f"layer{number}": tensor(width, width) / width**0.5 for number in range(4)}

    def fixed(self) -> None:
        """Only computed."""
        x = self.x
        for weight in self.state.values():
            x = torch.relu(x @ weight)
        self.y = x

    def __call__(self) -> None:
        """And saved."""
        self.fixed()
        torch.save(self.state, io.BytesIO())


class Alerted:
    """Every layer's numbers checked for infinities, and the worst of them logged."""

    def setup(self) -> None:
        """Layers of a middling size."""
        width = size(4096, 16)
        self.x, self.w = tensor(size(1024, 8), width), tensor(width, width) / width**0.5
        self.lines: list[str] = []

    def _layers(self, *, check: bool) -> Any:
        x, sound = self.x, torch.ones((), dtype=torch.bool, device=DEVICE)
        for number in range(24):
            x = torch.relu(x @ self.w)
            if check:
                assert not torch.isinf(x).any(), f"layer {number}"
                self.lines = [*self.lines[-9:], f"layer {number}: at most {x.max():.3f}"]
            else:
                sound &= torch.isfinite(x.sum())
        self.y = x
        return sound

    def __call__(self) -> None:
        """Twice a layer."""
        self._layers(check=True)

    def fixed(self) -> None:
        """One flag, looked at once."""
        assert bool(self._layers(check=False))


converged, sampled, polled, hogged, answered = Converged(), Sampled(), Polled(), Hogged(), Answered()
loaded, crumbs, offloaded, saved, alerted = Loaded(), Crumbs(), Offloaded(), Saved(), Alerted()
