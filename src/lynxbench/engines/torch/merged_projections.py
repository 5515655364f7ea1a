"""Products of one input as one product: queries, keys and values, and the two halves of a gated feed-forward part.

The first part computes the whole product and lays the others' columns down; each of the others takes its own. Model
libraries call the parts one after the other on the same input, which a test holds every architecture to.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""What model libraries call linear layers that read the same input, in the order in which they are called."""
MERGED = "queries, keys and values in one product; gate and up in one"


class MergedFirst(nn.Module):  # type: ignore[misc]
    """The whole product; hands out its own columns."""

    def __init__(self, whole: Any, sizes: list[int]) -> None:
        super().__init__()
        self.whole, self.sizes = whole, sizes
        self.laid_down: list[torch.Tensor] = []
        """Columns of the others, last first, between this call and theirs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The first part of x · Wᵀ + b."""
        own, *others = self.whole(x).split(self.sizes, dim=-1)
        self.laid_down.clear()
        self.laid_down.extend(reversed(others))
        first: torch.Tensor = own
        return first


class MergedNext(nn.Module):  # type: ignore[misc]
    """Takes the next columns that the first part laid down."""

    def __init__(self, laid_down: list[torch.Tensor]) -> None:
        super().__init__()
        self.laid_down = laid_down

    def forward(self, _: torch.Tensor) -> torch.Tensor:
        """The next part of the same product."""
        return self.laid_down.pop()


def merge_projections(model: Any) -> int:
    """Merge what can be merged, in place and one owner at a time, so that little is held twice; how many were."""
    merged = 0
    for owner in list(model.modules()):
        for names in TOGETHER:
            parts = [getattr(owner, name, None) for name in names]
            if _alike(parts):
                _merge(owner, names, parts)
                merged += 1
    return merged


def _alike(parts: list[Any]) -> bool:
    plain = all(type(part) is nn.Linear for part in parts)
    return plain and len({(part.in_features, part.bias is None, part.weight.dtype) for part in parts}) == 1


def _merge(owner: Any, names: tuple[str, ...], parts: list[Any]) -> None:
    sizes = [part.out_features for part in parts]
    whole = nn.Linear(parts[0].in_features, sum(sizes), bias=parts[0].bias is not None, device="meta")
    whole.weight = nn.Parameter(torch.cat([part.weight.detach() for part in parts]), requires_grad=False)
    if whole.bias is not None:
        whole.bias = nn.Parameter(torch.cat([part.bias.detach() for part in parts]), requires_grad=False)
    first = MergedFirst(whole, sizes)
    setattr(owner, names[0], first)
    for name in names[1:]:
        setattr(owner, name, MergedNext(first.laid_down))
