"""Further steps for a CPU, planted and healthy, written after the rules and their ranges were fixed.

They judge the rules; nothing of them calibrates a range. Kinds of work that `attribution_cpu_steps.py` does not have:
attention, convolution, sorting, text, files, threads, the collector of garbage.
"""

from __future__ import annotations

import copy
import gc
import json
import re
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from attribution_cpu_steps import Step, block, forward

if TYPE_CHECKING:
    import torch

TEXT = "The executor is measured as a whole, from application code to cooling; no team owns all nine of its layers. "


def double() -> Step:
    """Products in 64 bits by accident: one array of numpy made the whole model so."""
    import torch

    model, x = block(384, 2).double(), torch.randn(384, 384).double()
    return lambda: forward(model, x)


def single() -> Step:
    """The same in the contract's precision."""
    import torch

    model, x = block(384, 2), torch.randn(384, 384)
    return lambda: forward(model, x)


def _heads() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    import torch

    torch.manual_seed(0)
    query, key, value = (torch.randn(4, 8, 512, 32) for _ in range(3))
    return query, key, value


def scored() -> Step:
    """Attention that writes its scores down, twice."""
    import torch

    query, key, value = _heads()

    def step() -> torch.Tensor:
        scores = query @ key.transpose(-2, -1) * 32**-0.5
        out: torch.Tensor = torch.softmax(scores, dim=-1) @ value
        return out

    return step


def fused() -> Step:
    """The same in one kernel."""
    from torch.nn.functional import scaled_dot_product_attention

    query, key, value = _heads()
    return lambda: scaled_dot_product_attention(query, key, value)


def _noisy() -> tuple[torch.nn.Module, torch.Tensor]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(128, 128), nn.Dropout(0.1), nn.ReLU(), nn.Dropout(0.1)) for _ in range(6)]
    return nn.Sequential(*layers), torch.randn(2048, 128)


def dropping() -> Step:
    """A model that was left in training: numbers are drawn for every activation."""
    model, x = _noisy()
    model.train()
    return lambda: forward(model, x)


def evaluating() -> Step:
    """The model as it is used."""
    model, x = _noisy()
    model.eval()
    return lambda: forward(model, x)


def one_hot() -> Step:
    """Rows of a table looked up by a product with ones and zeros."""
    import torch
    from torch.nn.functional import one_hot as ones

    table, wanted = torch.randn(4096, 128), torch.arange(0, 4096, 32)
    return lambda: ones(wanted, 4096).float() @ table


def looked_up() -> Step:
    """The rows themselves."""
    import torch

    table, wanted = torch.randn(4096, 128), torch.arange(0, 4096, 32)
    return lambda: table[wanted]


def sorted_whole() -> Step:
    """All logits put in order for the sake of the first."""
    import torch

    logits = torch.randn(16, 32_000)
    return lambda: torch.sort(logits, dim=-1, descending=True).indices[:, 0]


def largest() -> Step:
    """The first alone."""
    import torch

    logits = torch.randn(16, 32_000)
    return lambda: logits.argmax(dim=-1)


def read_singly() -> Step:
    """Scores compared one by one in Python."""
    import torch

    scores = torch.randn(1500)
    return lambda: sum(1 for place in range(1500) if scores[place].item() > 0.5)


def read_at_once() -> Step:
    """Compared by one operator."""
    import torch

    scores = torch.randn(1500)
    return lambda: int((scores > 0.5).sum())


def _answering() -> tuple[torch.nn.Module, torch.Tensor]:
    import torch

    return block(192, 2), torch.randn(48, 192)


def serialised() -> Step:
    """Answers written out as text behind the model."""
    model, x = _answering()
    return lambda: json.dumps([forward(model, x).tolist() for _ in range(4)][-1])


def unserialised() -> Step:
    """The same passes, handed on as they are."""
    model, x = _answering()
    return lambda: [forward(model, x) for _ in range(4)][-1]


def tokenised() -> Step:
    """Text taken apart by Python before each pass."""
    model, x = _answering()
    text = TEXT * 150

    def step() -> torch.Tensor:
        known = Counter(word.lower() for word in re.findall(r"\w+|[^\w\s]", text))
        ids = [len(known) - place for place, _ in enumerate(sorted(known))]
        return forward(model, x[: max(48, len(ids))])

    return step


def read_from_disk() -> Step:
    """Each batch out of a file of plain text."""
    import numpy as np
    import torch

    model, x = _answering()
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "batch.txt"
    np.savetxt(path, x.numpy())

    def step() -> torch.Tensor:
        assert folder.name
        return forward(model, torch.from_numpy(np.loadtxt(path, dtype=np.float32)))

    return step


def at_hand() -> Step:
    """The model with its input at hand."""
    model, x = _answering()
    return lambda: forward(model, x)


def handed_over() -> Step:
    """Between two passes another thread is waited for, which takes its time."""
    model, x = _answering()

    def step() -> torch.Tensor:
        first, ready = forward(model, x), threading.Event()
        timer = threading.Timer(0.02, ready.set)
        timer.start()
        ready.wait()
        timer.join()
        return forward(model, first)

    return step


def straight_on() -> Step:
    """Both passes at once."""
    model, x = _answering()
    return lambda: forward(model, forward(model, x))


def _convolving() -> tuple[torch.nn.Module, torch.Tensor]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Conv2d(32, 32, 1).eval(), torch.randn(8, 32, 64, 64)


def laid_anew() -> Step:
    """Images turned from channels first to last and back around every layer."""

    layer, x = _convolving()

    def step() -> torch.Tensor:
        out = x
        for _ in range(3):
            turned = out.permute(0, 2, 3, 1).contiguous()
            out = forward(layer, turned.permute(0, 3, 1, 2).contiguous())
        return out

    return step


def laid_once() -> Step:
    """The layers alone."""
    layer, x = _convolving()

    def step() -> torch.Tensor:
        out = x
        for _ in range(3):
            out = forward(layer, out)
        return out

    return step


def _grouped() -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    return torch.randn(1, 4, 8, 64), torch.randn(1, 4, 8192, 64)


def repeated() -> Step:
    """Keys repeated for every head of a group before the scores of one token."""

    query, key = _grouped()

    def step() -> torch.Tensor:
        wide = key.repeat_interleave(8, dim=1)
        out: torch.Tensor = query.reshape(1, 32, 1, 64) @ wide.transpose(-2, -1)
        return out

    return step


def shared() -> Step:
    """The heads of a group read the same keys."""
    query, key = _grouped()
    return lambda: query @ key.transpose(-2, -1)


def remade() -> Step:
    """A table of angles made anew in each step for the one row that is wanted."""
    import torch

    x = torch.randn(32, 128)

    def step() -> torch.Tensor:
        rates = 10_000.0 ** (-torch.arange(0, 128) / 128)
        table = torch.outer(torch.arange(4096).float(), rates)
        turned = torch.stack((table.cos(), table.sin()))
        return x * turned[0, 77] + x.flip(-1) * turned[1, 77]

    return step


def kept_table() -> Step:
    """The table is kept."""
    import torch

    x = torch.randn(32, 128)
    rates = 10_000.0 ** (-torch.arange(0, 128) / 128)
    table = torch.outer(torch.arange(4096).float(), rates)
    turned = torch.stack((table.cos(), table.sin()))
    return lambda: x * turned[0, 77] + x.flip(-1) * turned[1, 77]


def snapshots() -> Step:
    """All weights copied aside after each pass, as if to go back to them."""
    import torch

    model, x = block(768, 2), torch.randn(8, 768)

    def step() -> object:
        out = forward(model, x)
        return out, copy.deepcopy(model.state_dict())

    return step


def no_snapshots() -> Step:
    """The pass alone."""
    import torch

    model, x = block(768, 2), torch.randn(8, 768)
    return lambda: forward(model, x)


def collected() -> Step:
    """Garbage looked for among many objects after each pass."""
    model, x = _answering()
    held = [[place] for place in range(300_000)]

    def step() -> torch.Tensor:
        assert held
        out = forward(model, x)
        gc.collect()
        return out

    return step


def written_row_by_row() -> Step:
    """Results put into their place a row at a time."""
    import torch

    x, out = torch.randn(400, 64), torch.empty(400, 64)

    def step() -> torch.Tensor:
        for place in range(400):
            out[place] = torch.tanh(x[place])
        return out

    return step


def written_at_once() -> Step:
    """All rows by one operator."""
    import torch

    x, out = torch.randn(400, 64), torch.empty(400, 64)
    return lambda: torch.tanh(x, out=out)


def weighed_in_python() -> Step:
    """Every weight's size summed up with an operator each, step after step."""
    import torch

    model, x = block(48, 24), torch.randn(16, 48)
    weights = [weight.detach() for weight in model.parameters()]

    def step() -> torch.Tensor:
        total = torch.zeros(())
        for weight in weights:
            total = total + weight.pow(2).sum()
        return total + forward(model, x).sum()

    return step


def weighed_once() -> Step:
    """The weights lie in one piece, so that one operator sums them up."""
    import torch

    model, x = block(48, 24), torch.randn(16, 48)
    flat = torch.cat([weight.detach().reshape(-1) for weight in model.parameters()])
    return lambda: flat @ flat + forward(model, x).sum()


def products() -> Step:
    """Healthy: square products of a good size."""
    import torch

    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    return lambda: a @ b


def convolution() -> Step:
    """Healthy: a convolution of a good size."""
    import torch
    from torch import nn

    layer, x = nn.Conv2d(64, 64, 3, padding=1).eval(), torch.randn(8, 64, 56, 56)
    return lambda: forward(layer, x)


def fetched() -> Step:
    """Healthy: rows of a table far beyond the caches, in no order."""
    import torch

    table = torch.randn(1 << 19, 64)
    wanted = torch.randperm(1 << 19)[: 1 << 17]
    return lambda: table[wanted]


def attended() -> Step:
    """Healthy: long attention in one kernel."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    query, key, value = (torch.randn(1, 8, 1024, 64) for _ in range(3))
    return lambda: scaled_dot_product_attention(query, key, value)
