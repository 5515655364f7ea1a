"""Where the rows of an operator's operands lie: factors of products, and samples of a batch."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch

from lynxbench.engines.torch.value_memory import Numbers
from lynxbench.engines.torch.value_reads import View
from lynxbench.engines.torch.value_rows import Repeats, SeenRows
from lynxbench.engines.torch.value_schema import OperatorSchema
from lynxbench.engines.torch.value_structure import Made, repeats_itself

SAMPLED = frozenset({"aten::convolution", "aten::_transformer_encoder_layer_fwd"})
"""Operators other than products that work on each sample of a batch, their first operand, by itself."""
LEAST_SAMPLES = 2
MUCH_LARGER = 4
"""A second factor that is so much larger than the first is weights, whose columns nobody repeats."""


@dataclass(frozen=True, slots=True)
class Operands:
    """Of an operator, as the follower looked at them."""

    identity: tuple[Hashable, ...]
    values: dict[int, Any]
    numbers: dict[int, int]
    """By place, of what they hold."""
    made: list[tuple[torch.Tensor, Made]]
    """Those that are tensors and are read, by place."""
    repeats: dict[int, Repeats | None]
    """By place, what is known of the rows of what they lie in."""

    def repeated(self, place: int, made: Made) -> bool:
        """Whether rows of an operand that are alike are the step's own doing: it, or what it is made of, is."""
        before = self.repeats.get(place)
        return repeats_itself(made, self.values[place]) or (before is not None and before.surely > 0.0)


def repeats_of(views: list[View]) -> Repeats | None:
    """Of a function of each element: rows that come again in all that it takes, but for what it repeats itself."""
    largest = max((math.prod(view.sizes) for view in views), default=0)
    found = [view.memory.repeats for view in views if math.prod(view.sizes) == largest]
    least: Repeats | None = None
    for one in found:
        if one is None:
            return None
        least = one if least is None else least.least(one)
    return least


def find_repeats(
    seen: SeenRows, keys: Numbers, schema: OperatorSchema, operands: Operands, *, again: bool
) -> Repeats | None:
    """Rows of a product's first factor, or columns of its second, or samples, that come again."""
    if schema.name in SAMPLED:
        return _of_samples(seen, keys, operands, again)
    if schema.factors is None:
        return None
    left, right = schema.factors
    values, numbers = operands.values, operands.numbers
    added = numbers.get(0) if left else None
    found: list[Repeats] = []
    for place, other in ((left, right), (right, left)):
        if place == right and values[right].numel() > MUCH_LARGER * values[left].numel():
            continue
        rows = values[place] if place == left else values[place].mT
        each = values[other].dim() > 2 and values[other].stride(0) != 0
        key = keys.of(("rows", schema.name, place, numbers[place], numbers[other], added))
        made = operands.repeated(place, operands.made[-2 if place == left else -1][1])
        with_what = schema.name, place, numbers[other], added
        one = seen.count(key, with_what, rows, each=each, made=made, again=again)
        found += [] if one is None else [one]
    return max(found, key=lambda one: (max(one.surely, one.same), one.share), default=None)


def _of_samples(seen: SeenRows, keys: Numbers, operands: Operands, again: bool) -> Repeats | None:
    batch = operands.values.get(0)
    if not isinstance(batch, torch.Tensor) or batch.dim() < 3 or 0 not in operands.numbers:
        return None
    rest = tuple(part for part in operands.identity if not (isinstance(part, tuple) and part[0] == 0))
    key = keys.of(("samples", operands.identity))
    made = operands.repeated(0, operands.made[0][1])
    return seen.count(key, rest, batch.flatten(1), made=made, again=again, least=LEAST_SAMPLES)
