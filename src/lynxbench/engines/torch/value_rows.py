"""Rows that a product had multiplied with the same numbers before: padding, questions asked twice, prefixes anew.

A row is told by a few sums over it with fixed random weights, rounded to far less than two rows differ by. Rows that
are the same within one product are counted by their bits besides. Those of the product before, with the same other
factor, count where they come in the same order and in another place, or with more behind them: a prefix that is
computed anew for each token, windows that slide. Its own rounding may differ there, so bits are not asked for; rows
that settle as an iteration goes on stay in their places.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

import torch

from lynxbench.engines.torch.value_zeros import AT_ONCE, WORTH_COUNTING

OWN_S = 8.0
"""So long may it look at rows; what comes after is not looked at."""
LEAST_ROWS = 4
SUMS = 6
FINE, COARSE = 1e-4, 3e-2
"""Of a row's length, what its sums are rounded to: in formats of 32 bits and more, and of less."""
WHOLE = {2: torch.int16, 4: torch.int32, 8: torch.int64}
LARGE = 1 << 62
APART = 0x9E37_79B9_7F4A_7C1
"""Times its place in a batch: the same row of another matrix is another row."""
SEEDS = {"sums": 1, "marks": 2, "bits": 3}
FEW_REPEATED = 0.05
"""Below, nothing is said of rows within a product."""
FILLER = 0.9
"""Of the rows that repeat another one, so many repeat the same: what fills up a batch, and no accident of the data."""
TAKEN_UP = 0.25
"""Of a product's rows, so many were there before: below, nothing is said."""
IN_ORDER = 0.8
"""Of neighbours that were there before, so many were neighbours then."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """Of a product's rows: the shares that repeat another one, and that are surely no accident of the data."""

    share: float
    surely: float


@dataclass(slots=True)
class SeenRows:
    """Of the products of a step, by their other factor: the rows of the last one."""

    clock: Callable[[], float]
    found: dict[int, Repeats] = field(default_factory=dict)
    _last: dict[Hashable, torch.Tensor] = field(default_factory=dict)
    """The marks of its rows."""
    _weights: dict[Hashable, torch.Tensor] = field(default_factory=dict)
    _took_s: float = 0.0

    def count(self, number: int, with_what: Hashable, rows: torch.Tensor, *, each: bool) -> Repeats | None:
        """Of the rows of one factor, which are multiplied `with_what`; each `number` once. None where it is too few.

        `each`: each matrix of a batch is multiplied with another one.
        """
        if number in self.found:
            return self.found[number]
        small = rows.numel() < WORTH_COUNTING or rows.shape[-1] == 0 or rows.numel() // rows.shape[-1] < LEAST_ROWS
        known = rows.is_floating_point() and rows.element_size() in WHOLE
        if small or not known or self._took_s > OWN_S:
            return None
        began = self.clock()
        with torch.no_grad():
            repeats = self._count(with_what, rows, each)
        self._took_s += self.clock() - began
        self.found[number] = repeats
        return repeats

    def _count(self, with_what: Hashable, rows: torch.Tensor, each: bool) -> Repeats:
        flat = rows.reshape(-1, rows.shape[-1])
        batch = torch.arange(len(flat), device=rows.device) // rows.shape[-2] if each else None
        marks, filled = self._marks(flat, batch)
        before = self._last.get(with_what)
        self._last[with_what] = marks
        within, surely = self._within(flat, batch, marks, filled)
        taken_up = _taken_up(marks, before) if before is not None else 0.0
        return Repeats(max(within, taken_up), max(surely, taken_up))

    def _within(
        self, rows: torch.Tensor, batch: torch.Tensor | None, marks: torch.Tensor, filled: torch.Tensor
    ) -> tuple[float, float]:
        """Rows of zeros are counted elsewhere."""
        some = marks[filled]
        number = len(some)
        if number < LEAST_ROWS or number - len(some.unique()) < FEW_REPEATED * number:
            return 0.0, 0.0
        weights = self._drawn("bits", (rows.shape[-1],), rows.device, whole=True)
        kind = WHOLE[rows.element_size()]
        bits = torch.cat([(part.contiguous().view(kind).long() * weights).sum(-1) for part in _parts(rows)])
        bits = bits if batch is None else bits + batch * APART
        distinct, counts = torch.unique(bits[filled], return_counts=True)
        repeated = number - len(distinct)
        fillers = int(counts.max()) - 1
        surely = fillers if len(distinct) > 1 and fillers >= FILLER * repeated else 0
        return repeated / number, surely / number

    def _marks(self, rows: torch.Tensor, batch: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """A number for each row, the same for rows that differ by rounding; and which rows are not all 0."""
        fine = FINE if rows.element_size() >= 4 else COARSE
        sums = self._drawn("sums", (rows.shape[-1], SUMS), rows.device)
        weights = self._drawn("marks", (SUMS + 1,), rows.device, whole=True)
        marks, filled = [], []
        for part in _parts(rows):
            single = part.float()
            length = torch.linalg.vector_norm(single, dim=-1, keepdim=True)
            told = torch.cat((single @ sums / length, length.log()), -1).nan_to_num(0.0, 0.0, 0.0)
            marks.append(((told / fine).floor_().long() * weights).sum(-1))
            filled.append(length.flatten() > 0)
        found = torch.cat(marks)
        return (found if batch is None else found + batch * APART), torch.cat(filled)

    def _drawn(self, what: str, sizes: tuple[int, ...], device: torch.device, *, whole: bool = False) -> torch.Tensor:
        """The same numbers each time, by a generator of their own: the step's stand where they stood."""
        key = what, sizes, device
        if key not in self._weights:
            generator = torch.Generator().manual_seed(SEEDS[what])
            drawn = torch.randn(sizes, generator=generator)
            if whole:
                drawn = torch.randint(-LARGE, LARGE, sizes, generator=generator)
            self._weights[key] = drawn.to(device)
        return self._weights[key]


def _parts(rows: torch.Tensor) -> Iterator[torch.Tensor]:
    each = max(1, AT_ONCE // rows.shape[-1])
    return (rows[start : start + each] for start in range(0, len(rows), each))


def _taken_up(marks: torch.Tensor, before: torch.Tensor) -> float:
    """The share of rows that the product before had, in the same order, and not just all in their old places."""
    ordered, places = before.sort()
    at = torch.searchsorted(ordered, marks).clamp_(max=len(ordered) - 1)
    there = ordered[at] == marks
    share = float(there.double().mean())
    both = there[1:] & there[:-1]
    if share < TAKEN_UP or not bool(both.any()):
        return 0.0
    were = places[at]
    in_order = (were.diff() == 1)[both].double().mean()
    moved = len(marks) != len(before) or bool((were != torch.arange(len(were), device=were.device))[there].any())
    return share if moved and float(in_order) >= IN_ORDER else 0.0
