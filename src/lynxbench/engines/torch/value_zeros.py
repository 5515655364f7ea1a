"""How much of a product's factors is 0, counted on the device that holds them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

WORTH_COUNTING = 4096
"""Elements: a smaller factor is no work."""
MOST_COUNTED = 4096
"""Pairs of factors; operators with more calls than fit are left out."""
AT_ONCE = 1 << 24
"""Elements that are compared together: so many bytes are needed besides."""


@dataclass(slots=True)
class Zeros:
    """Of pairs of factors, by number: counted where they lie, and fetched once at the end."""

    parts: dict[int, torch.Tensor] = field(default_factory=dict)
    """The share that is not 0 of either factor, and the share of empty rows of the first."""
    refused: set[int] = field(default_factory=set)

    def count(self, number: int, left: torch.Tensor, right: torch.Tensor) -> None:
        """Once for each number."""
        if number in self.parts or number in self.refused:
            return
        countable = all(one.is_floating_point() and one.numel() >= WORTH_COUNTING for one in (left, right))
        if not countable or len(self.parts) >= MOST_COUNTED:
            self.refused.add(number)
            return
        with torch.no_grad():
            filled, empty_rows = count_filled(left)
            self.parts[number] = torch.stack(
                (
                    filled / left.numel(),
                    count_filled(right)[0] / right.numel(),
                    empty_rows / (left.numel() // left.shape[-1]),
                )
            )

    def fetch(self) -> dict[int, tuple[float, float]]:
        """By number: the share that is not 0 of the emptier factor, and that of empty rows of the first."""
        fetched = {number: one.tolist() for number, one in self.parts.items()}
        return {number: (min(left, right), rows) for number, (left, right, rows) in fetched.items()}


def count_filled(factor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Elements that are not 0, and rows of which none is."""
    each = max(1, AT_ONCE // max(1, factor[0].numel()))
    filled = torch.zeros((), dtype=torch.float64, device=factor.device)
    empty_rows = filled.clone()
    for part in factor.split(each):
        some = part.ne(0)
        filled += some.sum()
        empty_rows += some.any(-1).logical_not_().sum()
    return filled, empty_rows
