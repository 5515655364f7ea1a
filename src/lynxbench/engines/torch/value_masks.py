"""Results of products that their only reader throws away: multiplies by 0, or replaces, where a mask says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from lynxbench.attribute.read.dataflow import Key
from lynxbench.engines.torch.value_calls import FollowedStep, Memory
from lynxbench.engines.torch.value_sums import is_gone
from lynxbench.engines.torch.value_zeros import MOST_COUNTED, WORTH_COUNTING, count_filled

Mask = tuple[int, int]
"""The operation whose result is masked, and the number under which what is kept of it is counted."""
PLACES: dict[str, tuple[tuple[int, int], ...]] = {
    "aten::mul": ((0, 1), (1, 0)),
    "aten::mul_": ((0, 1),),
    "aten::where": ((1, 0), (2, 0)),
    "aten::masked_fill": ((0, 1),),
    "aten::masked_fill_": ((0, 1),),
}
"""By operator: the places of what is masked, and of its mask."""


@dataclass(slots=True)
class Masks:
    """Of masks, by number: what they keep, counted where they lie."""

    parts: dict[int, torch.Tensor] = field(default_factory=dict)
    """The share of elements that is kept, and that of rows of which nothing is."""

    def keep(self, number: int, name: str, place: int, mask: torch.Tensor) -> None:
        """Count what a mask leaves of the operand at a place; once for each number."""
        if number in self.parts or len(self.parts) >= MOST_COUNTED:
            return
        with torch.no_grad():
            replaced = name.startswith("aten::masked_fill") or (name == "aten::where" and place == 2)
            kept = mask.eq(0) if replaced else mask.ne(0)
            kept = kept.reshape(-1, kept.shape[-1] if kept.ndim else 1)
            filled, empty_rows = count_filled(kept)
            self.parts[number] = torch.stack((filled / kept.numel(), empty_rows / len(kept)))

    def fetch(self) -> dict[int, tuple[float, float]]:
        """By number: the share that is kept, and that of empty rows."""
        fetched = {number: one.tolist() for number, one in self.parts.items()}
        return {number: (kept, rows) for number, (kept, rows) in fetched.items()}


def find_masked(name: str, values: dict[int, Any], memories: dict[int, Memory]) -> tuple[int, int, int] | None:
    """The places of a product's result and of its mask, with the product's operation; None where there are none."""
    for place, other in PLACES.get(name, ()):
        memory, mask = memories.get(place), values.get(other)
        maker = memory.maker if memory is not None else None
        if maker is None or memory is None or maker.shared is None or memory.writer != maker.node:
            continue
        if isinstance(mask, torch.Tensor) and 1 < mask.numel() <= values[place].numel() >= WORTH_COUNTING:
            return place, other, maker.node
    return None


def find_row_masks(name: str, values: dict[int, Any]) -> Iterator[tuple[int, int]]:
    """The places of what an operator drops rows of, whoever made it, and of what says which."""
    for place, other in PLACES.get(name, ()):
        operand, mask = values.get(place), values.get(other)
        if not isinstance(operand, torch.Tensor) or not isinstance(mask, torch.Tensor):
            continue
        smaller = 1 < mask.numel() < operand.numel() or mask.dtype == torch.bool
        if smaller and mask.numel() <= operand.numel() >= WORTH_COUNTING:
            yield place, other


def share_masked(step: FollowedStep, kept: dict[int, tuple[float, float]]) -> dict[Key, tuple[float, float]]:
    """By product: the mean shares of its results' elements and rows that nobody but a mask reads, which drops them."""
    readers = Counter(needed for before in step.before for needed in before)
    by_node = {call.masks[0]: kept.get(call.masks[1], (1.0, 0.0)) for call in step.calls if call.masks is not None}
    shares: dict[Key, list[tuple[float, float]]] = {}
    for call in step.calls:
        if call.shared is None:
            continue
        only = call.node in by_node and readers[call.node] == 1 and is_gone(call)
        filled, rows = by_node[call.node] if only else (1.0, 0.0)
        shares.setdefault(call.key, []).append((1.0 - filled, rows))
    return {
        key: (sum(one for one, _ in found) / len(found), sum(rows for _, rows in found) / len(found))
        for key, found in shares.items()
    }
