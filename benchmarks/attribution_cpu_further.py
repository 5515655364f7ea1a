"""A second round of steps for a CPU, written after the rules were mended by `attribution_cpu_unseen.py`.

They were run once, and nothing was changed by what came of it: this is the independent check. `padded` plants work
that nobody needs and that no trace shows to be needless: what is not promised belongs into the set, too.
"""

from __future__ import annotations

import pickle
import time
from typing import TYPE_CHECKING

from attribution_cpu_steps import Step, block, forward

if TYPE_CHECKING:
    import torch

LENGTH, WIDTH = 160, 96
ROWS = 48


def _passing() -> tuple[torch.nn.Module, torch.Tensor]:
    import torch

    return block(224, 2), torch.randn(64, 224)


def passing() -> Step:
    """The model alone, its input at hand."""
    model, x = _passing()
    return lambda: forward(model, x)


def from_lists() -> Step:
    """Each batch made of lists of Python's numbers."""
    import torch

    model, x = _passing()
    rows = x.tolist()
    return lambda: forward(model, torch.tensor(rows))


def pickled() -> Step:
    """What a worker would be sent, packed and unpacked on the step's path, ten times."""
    model, x = _passing()
    rows = [{"id": place, "features": row} for place, row in enumerate(x.tolist())]

    def step() -> torch.Tensor:
        for _ in range(10):
            assert len(pickle.loads(pickle.dumps(rows))) == len(rows)
        return forward(model, x)

    return step


def throttled() -> Step:
    """A limit on calls a second, kept by sleeping after each."""
    model, x = _passing()

    def step() -> torch.Tensor:
        out = forward(model, x)
        time.sleep(0.008)
        return out

    return step


def through_numpy() -> Step:
    """Answers taken apart and put together again outside the framework."""
    import numpy as np
    import torch

    model, x = _passing()

    def step() -> torch.Tensor:
        out = forward(model, x).numpy()
        for _ in range(60):
            out = np.vstack([row.copy() for row in out])
        return torch.from_numpy(out)

    return step


def sample_by_sample() -> Step:
    """A softmax for each sample, since their lengths differ."""
    import torch

    scores = torch.randn(ROWS, 64)
    lengths = [16 + place for place in range(ROWS)]

    def step() -> list[torch.Tensor]:
        return [torch.softmax(scores[place, :length] * 0.125, dim=-1) for place, length in enumerate(lengths)]

    return step


def all_samples() -> Step:
    """One softmax over all of them, under a mask."""
    import torch

    scores = torch.randn(ROWS, 64)
    lengths = torch.tensor([16 + place for place in range(ROWS)])
    outside = torch.arange(64)[None, :] >= lengths[:, None]
    return lambda: torch.softmax((scores * 0.125).masked_fill(outside, float("-inf")), dim=-1)


def grown() -> Step:
    """A sequence that grows by a concatenation a token."""
    import torch

    rows = [torch.randn(1, WIDTH * 16) for _ in range(LENGTH)]

    def step() -> torch.Tensor:
        out = rows[0]
        for row in rows[1:]:
            out = torch.cat((out, row))
        return out

    return step


def gathered_once() -> Step:
    """Concatenated once."""
    import torch

    rows = [torch.randn(1, WIDTH * 16) for _ in range(LENGTH)]
    return lambda: torch.cat(rows)


def turned_products() -> Step:
    """Weights laid out the other way round, made contiguous before every use."""
    import torch

    weights, x = [torch.randn(1536, 1536) for _ in range(2)], torch.randn(4, 1536)

    def step() -> torch.Tensor:
        out = x
        for weight in weights:
            out = out @ weight.t().contiguous()
        return out

    return step


def straight_products() -> Step:
    """The product reads them as they lie."""
    import torch

    weights, x = [torch.randn(1536, 1536) for _ in range(2)], torch.randn(4, 1536)

    def step() -> torch.Tensor:
        out = x
        for weight in weights:
            out = out @ weight.t()
        return out

    return step


def _chained(x: torch.Tensor) -> torch.Tensor:
    import torch

    inner = x * 0.044715
    return torch.sigmoid((x * x * inner + x) * 1.5957691) * x + 0.5


def passes() -> Step:
    """An activation function written as eight passes over a large tensor."""
    import torch

    x = torch.randn(6 << 20)
    return lambda: _chained(x)


def in_pieces() -> Step:
    """The same on pieces that stay in a cache."""
    import torch

    x, out = torch.randn(6 << 20), torch.empty(6 << 20)

    def step() -> torch.Tensor:
        for part, place in zip(x.split(1 << 15), out.split(1 << 15), strict=True):
            place.copy_(_chained(part))
        return out

    return step


def summed_wide() -> Step:
    """Sums over tensors that are taken to 64 bits for it."""
    import torch

    tensors = [torch.randn(1 << 20) for _ in range(4)]
    return lambda: sum(float(tensor.double().sum()) for tensor in tensors)


def summed() -> Step:
    """Summed as they are."""
    import torch

    tensors = [torch.randn(1 << 20) for _ in range(4)]
    return lambda: sum(float(tensor.sum()) for tensor in tensors)


def unrolled() -> Step:
    """A recurrent cell called by Python for every position."""
    import torch

    cell, x = torch.nn.LSTMCell(48, 48), torch.randn(96, 4, 48)

    def step() -> torch.Tensor:
        state = (torch.zeros(4, 48), torch.zeros(4, 48))
        with torch.inference_mode():
            for row in x:
                state = cell(row, state)
        out: torch.Tensor = state[0]
        return out

    return step


def rolled() -> Step:
    """The layer that knows the whole sequence."""
    import torch

    layer, x = torch.nn.LSTM(48, 48), torch.randn(96, 4, 48)

    def step() -> torch.Tensor:
        with torch.inference_mode():
            out: torch.Tensor = layer(x)[0][-1]
        return out

    return step


def _learning() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    import torch

    return block(32, 1).train(), torch.randn(32, 32), torch.randn(32, 32)


def one_gradient_each() -> Step:
    """A backward pass for every sample."""
    from torch.nn.functional import mse_loss

    model, x, y = _learning()

    def step() -> None:
        model.zero_grad()
        for row, wanted in zip(x.split(1), y.split(1), strict=True):
            mse_loss(model(row), wanted).backward()

    return step


def one_gradient() -> Step:
    """One for all."""
    from torch.nn.functional import mse_loss

    model, x, y = _learning()

    def step() -> None:
        model.zero_grad()
        mse_loss(model(x), y).backward()

    return step


def padded() -> Step:
    """Short sequences carried along at the length of the longest there could be."""
    import torch

    model, x = block(256, 2), torch.zeros(1024, 256)
    x[:128] = torch.randn(128, 256)
    return lambda: forward(model, x)


def packed() -> Step:
    """The rows that hold something."""
    import torch

    model, x = block(256, 2), torch.randn(128, 256)
    return lambda: forward(model, x)


def batched_products() -> Step:
    """Healthy: many square products at once."""
    import torch

    a, b = torch.randn(24, 256, 256), torch.randn(24, 256, 256)
    return lambda: a @ b


def normalised() -> Step:
    """Healthy: one pass over a tensor far beyond the caches."""
    import torch
    from torch.nn.functional import softmax

    x = torch.randn(4096, 2048)
    return lambda: softmax(x, dim=-1)


def learning() -> Step:
    """Healthy: forward and backward through convolutions of a good size."""
    import torch
    from torch import nn

    model, x = nn.Sequential(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3)), torch.randn(4, 32, 48, 48)

    def step() -> torch.Tensor:
        model.zero_grad()
        loss: torch.Tensor = model(x).square().mean()
        loss.backward()
        return loss

    return step
