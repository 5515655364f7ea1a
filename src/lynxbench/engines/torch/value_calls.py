"""Calls of one followed step, the memory that they leave their results in, and which of them wait for each other."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from lynxbench.attribute.read.dataflow import Key
from lynxbench.engines.torch.value_rows import Repeats
from lynxbench.engines.torch.value_structure import Made

NOBODY = -1
MOST_VISITS = 5_000_000
"""Of operations, to see which products wait for which; beyond, it is not said."""


class Memory:
    """One storage. Only weakly held: as long as this lives its address is no other's, but its bytes may go."""

    __slots__ = ("blank", "content", "gradient", "made_of", "maker", "own", "read", "repeats", "used", "weak", "writer")

    def __init__(self, weak: StorageWeakRef, content: int) -> None:
        self.weak = weak
        self.content = content
        self.writer = NOBODY
        """The step's operation that wrote it last."""
        self.maker: Call | None = None
        """The call whose result it is."""
        self.read = False
        self.used = False
        """Read by something else than what adds to it in a backward pass, or empties it."""
        self.blank = False
        self.gradient = False
        self.own = False
        """An operator of the steps that are followed wrote it."""
        self.made_of: Made | None = None
        """Of what the step made it; None of as many numbers as it has elements."""
        self.repeats: Repeats | None = None
        """Of its rows, where a product made it of others, or a function of each element: those that come again."""

    @property
    def freed(self) -> bool:
        """Whether no tensor lies in it any more."""
        return bool(self.weak.expired())


@dataclass(slots=True, eq=False)
class Call:
    """One call of an operator that computes something."""

    key: Key
    node: int
    again: bool
    """The step had computed the same from the same values."""
    private: bool
    """A copy or a filling: who keeps it needs one of his own."""
    made: list[Memory]
    """Where its results lie; none where it writes into what was there."""
    backward: bool
    shared: int | None = None
    """Of a product: the number of its second factor's values."""
    zeros: int | None = None
    """Of a product: under which number its factors' zeros are counted."""
    added: tuple[int, ...] = ()
    """Of an addition of two tensors that are alike: the operations that wrote them last."""
    result: Memory | None = None
    """Where its result lies, also where it was written in place; None where there are several."""
    barrier: int = NOBODY
    """The last operation before it that told the host something of values."""
    constant: bool = False
    """The step before had computed the same from the same values, and it is no copy."""
    few: tuple[float, bool] | None = None
    """Of a product: the share of a factor's elements that the numbers are of which the step made it, and whether
    another order is known; None where they are not far fewer."""
    picks: int | None = None
    """Of an operator that fetches by number: under which number it is kept whether these count up evenly."""
    masks: tuple[int, int] | None = None
    """Of one that drops parts of a product's result: the product's operation, and under which number what it keeps is
    counted."""
    moved: int = 0
    """Of one whose index the profiler does not record: the bytes that it reads and writes."""
    repeats: Repeats | None = None
    """Of the rows that it makes: those that come again."""
    by_parts: bool = False
    """It takes half as long for half of its result."""

    @property
    def unread(self) -> bool:
        """Whether nothing read a result so far."""
        return bool(self.made) and not any(memory.read for memory in self.made)


class Passing(Enum):
    """Of what an operator makes a part of its result."""

    NOTHING = "all of an operand"
    EACH = "the same elements"
    ROWS = "the same rows"


@dataclass(frozen=True, slots=True)
class Read:
    """An operation reads what another one made, or a part of it."""

    writer: int
    reader: int
    elements: float
    """The share of its elements."""
    rows: float
    """… of its rows."""
    along: bool
    """Its rows are read as rows."""
    passes: Passing
    mask: int | None = None
    """Under which number it is counted which of them the reader drops."""
    local: bool = False
    """What the reader makes is made of what lies near it in this operand, or in a part of it."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A result as it was made."""

    memory: Memory
    elements: int
    """0 where only a part of what was there was written."""
    width: int
    others: tuple[Memory, ...] = ()
    """Of the same operation's further results."""


@dataclass(slots=True)
class FollowedStep:
    """What a step did, while it is followed."""

    calls: list[Call] = field(default_factory=list)
    before: list[tuple[int, ...]] = field(default_factory=list)
    """By operation: those whose results it needs, or the host needed before it came to it."""
    done: set[int] = field(default_factory=set)
    contents: set[int] = field(default_factory=set)
    barrier: int = NOBODY
    """The last operation that told the host something of values."""
    trained: bool = False
    """Weights were changed in place that gradients are taken of."""
    outside: set[int] = field(default_factory=set)
    """Values that were there when the step began, as it looked at them."""
    foreign: set[int] = field(default_factory=set)
    """… in memory that no operator of the followed steps had written."""
    leaves: dict[int, weakref.ref[torch.Tensor]] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    results: dict[int, Extent] = field(default_factory=dict)
    """By operation."""
    told: set[int] = field(default_factory=set)
    """Operations of whose results the host, or code that is not PyTorch's, was told."""


def ranks(before: list[tuple[int, ...]], nodes: set[int]) -> Iterator[int]:
    """Of each of these operations: the longest chain of them that ends in it, where each needs the one before."""
    first, last = min(nodes), max(nodes)
    chain: dict[int, int] = {}
    for node in range(first, last + 1):
        longest = max((chain.get(one, 0) for one in before[node]), default=0)
        if node in nodes:
            longest += 1
            yield longest
        if longest:
            chain[node] = longest
