"""Steps of small models with one cause planted in each, and the same without it, for a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Step = Callable[[], object]
PAUSE_S = 0.03


def block(width: int, depth: int) -> torch.nn.Module:
    """A small residual network of normalisation and two products a layer."""
    import torch
    from torch import nn

    class Layer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = (
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.Linear(4 * width, width),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden: torch.Tensor = self.down(torch.relu(self.up(self.norm(x))))
            return x + hidden

    torch.manual_seed(0)
    return nn.Sequential(*(Layer() for _ in range(depth))).eval()


def forward(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """One inference."""
    import torch

    with torch.inference_mode():
        out: torch.Tensor = model(x)
    return out


def compute_bound() -> Step:
    """Many rows through wide products: arithmetic."""
    import torch

    model, x = block(384, 2), torch.randn(384, 384)
    return lambda: forward(model, x)


def memory_bound() -> Step:
    """One row through weights far beyond the caches: every weight is read for two operations."""
    import torch

    model, x = block(2048, 2), torch.randn(1, 2048)
    return lambda: forward(model, x)


def elementwise() -> Step:
    """Passes over a tensor far beyond the caches."""
    import torch

    x, y = torch.randn(8 << 20), torch.randn(8 << 20)
    out = torch.empty_like(x)

    def step() -> torch.Tensor:
        torch.add(x, y, out=out)
        torch.mul(out, y, out=out)
        return torch.maximum(out, x, out=out)

    return step


def tiny_operators() -> Step:
    """Hundreds of operators on a few numbers each."""
    import torch

    model, x = block(16, 40), torch.randn(1, 16)
    return lambda: forward(model, x)


def annotated_input() -> Step:
    """A model that waits for its tokens, in a range that says so."""
    import torch
    from torch.profiler import record_function

    model, x = block(128, 2), torch.randn(32, 128)

    def step() -> torch.Tensor:
        with record_function("prepare_input"):
            time.sleep(PAUSE_S)
        return forward(model, x)

    return step


def silent_input() -> Step:
    """The same wait with nothing to announce it."""
    import torch

    model, x = block(128, 2), torch.randn(32, 128)

    def step() -> torch.Tensor:
        time.sleep(PAUSE_S)
        return forward(model, x)

    return step


def without_input() -> Step:
    """The model with its input at hand."""
    import torch

    model, x = block(128, 2), torch.randn(32, 128)
    return lambda: forward(model, x)


def loader_input() -> Step:
    """A data loader that makes each batch on the step's path."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Slow(Dataset[torch.Tensor]):  # type: ignore[misc]
        def __len__(self) -> int:
            return 1 << 20

        def __getitem__(self, index: int) -> torch.Tensor:
            time.sleep(0.0004)
            return torch.randn(256)

    model, batches = block(256, 1), iter(DataLoader(Slow(), batch_size=64))
    return lambda: forward(model, next(batches))


def loader_ready() -> Step:
    """The same model with a batch at hand."""
    import torch

    model, batch = block(256, 1), torch.randn(64, 256)
    return lambda: forward(model, batch)


def copies() -> Step:
    """Transposes made contiguous over and over around little arithmetic."""
    import torch

    x = torch.randn(2048, 2048)

    def step() -> torch.Tensor:
        out = x
        for _ in range(4):
            out = out.t().contiguous().clone()
        return out.sum()

    return step


def uncopied() -> Step:
    """The sum alone, which takes any order."""
    import torch

    x = torch.randn(2048, 2048)

    def step() -> torch.Tensor:
        return x.sum()

    return step


def allocations() -> Step:
    """Buffers asked for and dropped, hardly used."""
    import torch

    model, x = block(64, 2), torch.randn(4, 64)

    def step() -> torch.Tensor:
        for _ in range(800):
            torch.empty(1 << 18)
        return forward(model, x)

    return step


def without_allocations() -> Step:
    """The model alone."""
    import torch

    model, x = block(64, 2), torch.randn(4, 64)
    return lambda: forward(model, x)


def concatenated() -> Step:
    """A cache of keys that grows by one row in each step: all of it is copied, and then read once."""
    import torch

    kept, row, query = torch.randn(1 << 15, 256), torch.randn(1, 256), torch.randn(256)
    return lambda: torch.mv(torch.cat((kept, row)), query)


def preallocated() -> Step:
    """The row is written where it belongs."""
    import torch

    kept, row, query = torch.randn((1 << 15) + 1, 256), torch.randn(1, 256), torch.randn(256)

    def step() -> torch.Tensor:
        kept[-1:] = row
        return torch.mv(kept, query)

    return step


def cast() -> Step:
    """Activations taken to 64 bits and back before each use."""
    import torch

    x, query = torch.randn(1 << 14, 256), torch.randn(256)

    def step() -> torch.Tensor:
        out = query
        for _ in range(4):
            out = torch.mv(x.double().float(), query)
        return out

    return step


def uncast() -> Step:
    """In one format throughout."""
    import torch

    x, query = torch.randn(1 << 14, 256), torch.randn(256)

    def step() -> torch.Tensor:
        out = query
        for _ in range(4):
            out = torch.mv(x, query)
        return out

    return step


def looped() -> Step:
    """Samples sent through a small model one by one."""
    model, rows = _small_batch()
    return lambda: [forward(model, row) for row in rows.split(1)]


def batched() -> Step:
    """All at once."""
    model, rows = _small_batch()
    return lambda: forward(model, rows)


def _small_batch() -> tuple[torch.nn.Module, torch.Tensor]:
    import torch

    return block(32, 2), torch.randn(48, 32)


def gathered() -> Step:
    """Rows of a table picked in a loop of Python."""
    import torch

    table, wanted = torch.randn(4096, 64), [place * 7919 % 4096 for place in range(256)]
    return lambda: torch.stack([table[place] for place in wanted])


def indexed() -> Step:
    """Picked at once."""
    import torch

    table, wanted = torch.randn(4096, 64), torch.tensor([place * 7919 % 4096 for place in range(256)])
    return lambda: table[wanted]


def training() -> Step:
    """A healthy training step: forward, backward and update in products of a good size."""
    import torch

    model = block(384, 1).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(384, 384), torch.randn(384, 384)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def python_pause() -> Step:
    """Host code in the middle of a step that the framework knows nothing of."""
    import torch

    model, x = block(128, 2), torch.randn(32, 128)

    def step() -> torch.Tensor:
        first = forward(model, x)
        time.sleep(PAUSE_S)
        return forward(model, first.clone())

    return step


def without_pause() -> Step:
    """Both halves without anything in between."""
    import torch

    model, x = block(128, 2), torch.randn(32, 128)
    return lambda: forward(model, forward(model, x).clone())
