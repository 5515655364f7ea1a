"""Of how many numbers a value was made within a step: a table that repeats few of them, or multiplies them out.

A product with such a table can often be had for less, in another order of the same sums: by each factor of a Kronecker
product in turn, by sums over what is repeated, by the thin factors of a matrix of low rank. So each value is counted
that the step made by repeating, placing, adding and multiplying, with the elements that came in. Any other operator
makes new numbers, as many as its result has elements: a function of a sum of two is no sum of functions. Only what was
merely copied stays so under a function of each element.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from lynxbench.attribute.judge.operator_work import TRUTHS
from lynxbench.attribute.read.dataflow import FAR_FEWER

FILLING = frozenset({"full", "ones", "zeros", "eye", "scalar_tensor", "fill_", "zero_", "fill"}) | {
    f"{name}{ending}" for name in ("full", "ones", "zeros") for ending in ("_like", "_out")
}
COPYING = frozenset({"clone", "_to_copy", "copy", "copy_", "repeat", "cat", "stack", "flip", "roll", "lift_fresh_copy"})
PLACING = frozenset(
    {"diag_embed", "block_diag", "constant_pad_nd", "tril", "triu", "tril_", "triu_", "index", "index_select"}
    | {"gather", "take", "embedding", "scatter", "scatter_", "index_put_", "index_copy_", "masked_fill", "where"}
    | {"repeat_interleave", "masked_fill_", "new_zeros", "new_ones", "new_full"}
)
"""Where elements go to depends on more than their own place."""
PICKING = {"aten::index": 1, "aten::index_select": 2, "aten::gather": 2, "aten::take": 1, "aten::embedding": 1}
"""Operators that fetch elements by number, and the place of the numbers among their arguments."""
ADDING = frozenset({"add", "add_", "sub", "sub_", "rsub", "neg"})
SCALING = frozenset({"mul", "mul_"})
DIVIDING = frozenset({"div", "div_"})
"""By one number."""
MULTIPLYING = frozenset({"mm", "bmm", "addmm", "baddbmm"})

REPEATED = 0.75
"""Numbers for each element: with more, a table that was picked from is no smaller than what was picked."""


@dataclass(frozen=True, slots=True)
class Made:
    """Of what a value was made."""

    numbers: int
    """How many that came in, or that were new."""
    copied: bool = True
    """Each element is one of them, or a constant."""
    factored: bool = True
    """By repeating, and by adding or multiplying what is repeated: another order of the sums is known."""
    ranked: bool = False
    """By a product, whose order is known as long as nothing comes between."""


def made_of(tensor: torch.Tensor, made: Made | None, *, backward: bool = False) -> Made:
    """An operand: what does not vary along a dimension counts once. `made`: what the step made its memory of.

    `backward`: of a backward pass, where ones that a loss hands back stand for whatever another loss would.
    """
    if backward and (made is None or made.numbers <= 1):
        return Made(tensor.numel())
    distinct = math.prod(size for size, step in zip(tensor.shape, tensor.stride(), strict=True) if step or not size)
    return Made(distinct) if made is None else replace(made, numbers=min(made.numbers, distinct))


def combine(name: str, operands: list[tuple[torch.Tensor, Made]], *, pointwise: bool) -> Made | None:
    """What an operator's result is made of; None of new numbers. `pointwise`: each element is made of its like."""
    short = name.rpartition("::")[2]
    if short in FILLING:
        return Made(1)
    if not operands:
        return None
    together = _together([made for _, made in operands])
    if short in COPYING:
        return together
    if short in PLACING:
        copied = operands[0][1].copied if name in PICKING else together.copied
        return replace(together, copied=copied, factored=together.numbers <= 1)
    if short in MULTIPLYING:
        return replace(together, copied=False, ranked=True)
    if pointwise and _says_where(short, operands):
        return replace(together, factored=False)
    varying = [made for tensor, made in operands if tensor.numel() > 1]
    divided = short in DIVIDING and (len(operands) == 1 or operands[1][0].numel() == 1)
    if divided or short in ADDING or short in SCALING:
        return _combined(together, varying, short in ADDING)
    return together if pointwise and len(operands) == 1 and together.copied else None


def _combined(together: Made, varying: list[Made], adds: bool) -> Made | None:
    """Of what is added, or multiplied element by element: sums keep a low rank, and products of two such do not."""
    if len(varying) <= 1:
        return together
    if together.ranked and not adds:
        return replace(together, copied=False, factored=False) if any(one.copied for one in varying) else None
    return replace(together, copied=False)


def fewest(name: str, operands: list[tuple[torch.Tensor, Made]]) -> tuple[float, bool] | None:
    """The share of a product's factor that the numbers are of which it was made, and whether another order is known.

    Of one matrix of it, or one filter: a batch may repeat a factor as often as it likes, the arithmetic is the same.
    """
    found = [(made.numbers / one, made.factored) for one, made in _factors(name, operands)]
    return min((one for one in found if one[0] * FAR_FEWER <= 1.0), default=None)


def repeats_itself(made: Made, tensor: torch.Tensor) -> bool:
    """Whether the step itself repeated what an operand holds, so that rows that are alike are its own doing."""
    return made.copied and made.numbers <= REPEATED * tensor.numel()


def _factors(name: str, operands: list[tuple[torch.Tensor, Made]]) -> Iterator[tuple[int, Made]]:
    if name == "aten::convolution":
        weight, made = operands[1]
        yield max(1, weight[0].numel()), made
        return
    for tensor, made in operands[-2:]:
        yield max(1, tensor.shape[-1] * tensor.shape[-2]), made


def _together(made: list[Made]) -> Made:
    return Made(
        sum(one.numbers for one in made),
        all(one.copied for one in made),
        all(one.factored for one in made),
        any(one.ranked for one in made),
    )


def _says_where(short: str, operands: list[tuple[torch.Tensor, Made]]) -> bool:
    """Whole numbers and comparisons say where something goes, or whether: whatever is made of them, it is not more."""
    return short in TRUTHS or not any(one.is_floating_point() or one.is_complex() for one, _ in operands)
