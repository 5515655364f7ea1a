"""Operators that fetch elements by number: whether the numbers count up evenly, so that a slice is the same."""

from __future__ import annotations

from typing import Any

import torch

from lynxbench.engines.torch.value_structure import PICKING
from lynxbench.engines.torch.value_tensors import tensors_in

NUMBERING = (torch.int32, torch.int64)
"""Other whole numbers and truths say whether, and not where."""
MOST_PLACES = 1 << 24
MOST_PICKS = 4096
"""Operators with other operands: of more nothing is said."""
LEAST_ROW_BYTES = 4096
"""A page: from so much on, rows from anywhere are read as a copy reads. Shorter ones reach less than a copy's ceiling,
and nobody's code is to blame for that."""


def counts_evenly(name: str, values: dict[int, Any]) -> torch.Tensor | None:
    """Whether all that an operator picks lies in even steps, so that a slice is the same; None where it picks nothing.

    The answer stays on the device.
    """
    place = PICKING.get(name)
    places = list(tensors_in(values.get(place))) if place is not None else []
    if not places or any(one.dtype not in NUMBERING for one in places):
        return None
    if sum(one.numel() for one in places) > MOST_PLACES or any(one.numel() < 2 for one in places):
        return None
    even = [_is_even(one) for one in places]
    return torch.stack(even).all()


def row_bytes(source: torch.Tensor, places: Any) -> int:
    """Of elements that are picked together, since they lie behind the last dimension that is picked from."""
    picked = [1 if one is None or one.dtype in NUMBERING else one.dim() for one in places]
    while places and places[len(picked) - 1] is None:
        picked.pop()
    behind = source[(0,) * sum(picked)] if source.numel() else source
    return behind.numel() * behind.element_size() if behind.is_contiguous() else 0


def _is_even(places: torch.Tensor) -> torch.Tensor:
    even = torch.ones((), dtype=torch.bool, device=places.device)
    for dimension, size in enumerate(places.shape):
        if size > 1:
            steps = places.diff(dim=dimension)
            first = steps.flatten()[0]
            even = even & (first >= 0) & (steps == first).all()
    return even
