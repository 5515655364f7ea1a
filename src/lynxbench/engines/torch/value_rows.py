"""Rows that a product had multiplied with the same numbers before: padding, questions asked twice, prefixes anew.

Rows that are the same within one product, or in the same product of the step before, are told by their bits. Those of
the product before, with the same other factor, count where they come in the same order and in another place, or with
more behind them: a prefix that is computed anew for each token, windows that slide. Its own rounding may differ there,
so these are told by a few sums over each with fixed random weights, rounded to far less than two rows differ by; rows
that settle as an iteration goes on stay in their places.
"""

from __future__ import annotations

from collections import Counter
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
LEAST_FILLERS = 8
"""Rows that fill up a batch."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """Of a product's rows, or an operator's samples: the share that repeats another one."""

    share: float
    surely: float = 0.0
    """… that are no accident of the data."""
    same: float = 0.0
    """The share that the step before had there, too."""

    def least(self, other: Repeats) -> Repeats:
        """What holds of both."""
        return Repeats(min(self.share, other.share), min(self.surely, other.surely), min(self.same, other.same))


@dataclass(slots=True)
class SeenRows:
    """Of the products of a step, by their other factor: the rows of the last one; and those of the step before."""

    clock: Callable[[], float]
    found: dict[int, Repeats] = field(default_factory=dict)
    _last: dict[Hashable, torch.Tensor] = field(default_factory=dict)
    """The marks of its rows."""
    _before: dict[Hashable, torch.Tensor] = field(default_factory=dict)
    """By what the rows are multiplied with, and for which time: their bits in the first step."""
    _times: Counter[Hashable] = field(default_factory=Counter)
    _weights: dict[Hashable, torch.Tensor] = field(default_factory=dict)
    _took_s: float = 0.0

    def begin_second(self) -> None:
        """What comes now is held against the step before."""
        self._times = Counter()

    def count(
        self, number: int, with_what: Hashable, rows: torch.Tensor, *, each: bool = False, made: bool = False,
        again: bool = False, least: int = LEAST_ROWS,
    ) -> Repeats | None:  # fmt: skip
        """Of the rows of one factor, which are multiplied `with_what`; each `number` once. None where it is too few.

        `each`: each matrix of a batch is multiplied with another one; `made`: the step itself repeated what there is;
        `again`: in the second step; `least`: fewer are none.
        """
        self._times[with_what] += 1
        if not again and number in self.found:
            return self.found[number]
        small = rows.numel() < WORTH_COUNTING or rows.shape[-1] == 0 or rows.numel() // rows.shape[-1] < least
        known = rows.is_floating_point() and rows.element_size() in WHOLE
        if small or not known or self._took_s > OWN_S:
            return None
        began = self.clock()
        with torch.no_grad():
            flat = rows.reshape(-1, rows.shape[-1])
            batch = torch.arange(len(flat), device=rows.device) // rows.shape[-2] if each else None
            place = with_what, self._times[with_what]
            repeats = self._same(place, flat, batch) if again else self._count(place, flat, batch, made)
        self._took_s += self.clock() - began
        if not again:
            self.found[number] = repeats
        return repeats

    def _same(self, place: tuple[Hashable, int], rows: torch.Tensor, batch: torch.Tensor | None) -> Repeats:
        before = self._before.get(place)
        if before is None:
            return Repeats(0.0)
        bits = torch.where(rows.ne(0).any(-1), self._bits(rows, batch), torch.arange(len(rows), device=rows.device))
        return Repeats(0.0, same=_taken_up(bits, before, moved=False))

    def _count(
        self, place: tuple[Hashable, int], rows: torch.Tensor, batch: torch.Tensor | None, made: bool
    ) -> Repeats:
        marks, filled = self._marks(rows, batch)
        bits = self._bits(rows, batch)
        self._before[place] = bits
        last = self._last.get(place[0])
        self._last[place[0]] = marks
        within, surely = _within(bits[filled])
        taken_up = _taken_up(marks, last) if last is not None else 0.0
        return Repeats(max(within, taken_up), max(within if made else surely, taken_up))

    def _bits(self, rows: torch.Tensor, batch: torch.Tensor | None) -> torch.Tensor:
        """A number for each row, by its bits."""
        weights = self._drawn("bits", (rows.shape[-1],), rows.device, whole=True)
        kind = WHOLE[rows.element_size()]
        bits = torch.cat([(part.contiguous().view(kind).long() * weights).sum(-1) for part in _parts(rows)])
        return bits if batch is None else bits + batch * APART

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


def _within(bits: torch.Tensor) -> tuple[float, float]:
    """The shares of rows that repeat another one, and that fill up; of those that are not zeros, counted elsewhere."""
    number = len(bits)
    distinct, counts = torch.unique(bits, return_counts=True)
    repeated = number - len(distinct)
    if not number or repeated < FEW_REPEATED * number:
        return 0.0, 0.0
    fillers = int(counts.max()) - 1
    filled_up = len(distinct) > 1 and fillers >= max(LEAST_FILLERS, FILLER * repeated)
    return repeated / number, fillers / number if filled_up else 0.0


def _parts(rows: torch.Tensor) -> Iterator[torch.Tensor]:
    each = max(1, AT_ONCE // rows.shape[-1])
    return (rows[start : start + each] for start in range(0, len(rows), each))


def _taken_up(marks: torch.Tensor, before: torch.Tensor, *, moved: bool = True) -> float:
    """The share of rows that were there before, where they come in the same order.

    `moved`: and not if all of them are in their old places, and no more are there.
    """
    ordered, places = before.sort()
    at = torch.searchsorted(ordered, marks).clamp_(max=len(ordered) - 1)
    there = ordered[at] == marks
    share = float(there.double().mean())
    if share < TAKEN_UP:
        return 0.0
    were = places[at]
    in_place = len(marks) == len(before) and bool((were == torch.arange(len(were), device=were.device))[there].all())
    if in_place:
        return 0.0 if moved else share
    both = there[1:] & there[:-1]
    in_order = float((were.diff() == 1)[both].double().mean()) if bool(both.any()) else 0.0
    return share if in_order >= IN_ORDER else 0.0
