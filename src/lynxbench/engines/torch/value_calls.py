"""Calls of one followed step, and what becomes of them by its end: done again, read by nobody, or one with others."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch

from lynxbench.engines.torch.value_memory import NOBODY, Memories, Memory

Key = tuple[str, tuple[tuple[int, ...], ...]]
MOST_VISITS = 5_000_000
"""Of operations, to see which products wait for which; beyond, it is not said."""


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

    @property
    def unread(self) -> bool:
        """Whether nothing read a result so far."""
        return bool(self.made) and not any(memory.read for memory in self.made)


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
    leaves: dict[int, weakref.ref[torch.Tensor]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndedStep:
    """What there was to see when a step had returned."""

    step: FollowedStep
    again: Counter[Key]
    batches: Counter[Key]
    dropped: frozenset[int]
    """Operations whose results were gone by then, and of which that may be held against them."""
    unread: frozenset[int]
    """… that no operator had read."""
    gradients: tuple[Call, ...]
    """Those of weights that were left for whatever comes next, though others' were read in the step."""

    @property
    def calls(self) -> Counter[Key]:
        """How many there were."""
        return Counter(call.key for call in self.step.calls)

    def needless(self, gradients: Iterable[Call] = ()) -> Counter[Key]:
        """Calls whose results nobody read, with these, or only calls for which that holds."""
        unread = self.unread | {call.node for call in gradients}
        if not unread:
            return Counter()
        readers: list[list[int]] = [[] for _ in self.step.before]
        for node, needed in enumerate(self.step.before):
            for one in needed:
                readers[one].append(node)
        found: set[int] = set()
        for node in reversed(range(len(readers))):  # who reads comes later
            if node in unread or (node in self.dropped and readers[node] and found.issuperset(readers[node])):
                found.add(node)
        return Counter(call.key for call in self.step.calls if call.node in found)


def end_step(step: FollowedStep, memories: Memories, returned: bool) -> EndedStep:
    """Look at a step that has returned, while what it returned is still there."""
    for leaf in list(step.leaves.values()):
        tensor = leaf()
        gradient = None if tensor is None else tensor.grad
        memory = None if gradient is None or gradient.layout != torch.strided else memories.find(gradient)
        if memory is not None:
            memory.gradient = True
    again = Counter(call.key for call in step.calls if call.again and not (call.private and _is_kept(call)))
    kept = {call.key for call in step.calls if call.unread and _is_kept(call) and not _is_gradient(call)}
    dropped: frozenset[int] = frozenset()
    if returned or kept or step.trained:
        dropped = frozenset(call.node for call in step.calls if _is_dropped(call, step.trained))
    unread = frozenset(
        call.node for call in step.calls if call.node in dropped and call.unread and call.key not in kept
    )
    left = tuple(call for call in step.calls if step.trained and call.unread and _is_gradient(call))
    return EndedStep(step, again, _batches(step), dropped, unread, left)


def _is_dropped(call: Call, trained: bool) -> bool:
    counts = bool(call.made) and not call.again and (trained or not call.backward)
    return counts and all(memory.freed for memory in call.made)


def _is_kept(call: Call) -> bool:
    return any(not memory.freed for memory in call.made)


def _is_gradient(call: Call) -> bool:
    return any(memory.gradient for memory in call.made)


def _batches(step: FollowedStep) -> Counter[Key]:
    """Of products: how many are left where those that share a factor and need not wait are one."""
    groups: dict[tuple[Key, int], set[int]] = {}
    batches: Counter[Key] = Counter()
    for call in step.calls:
        if call.shared is not None and call.again:
            batches[call.key] += 1  # it goes for another reason
        elif call.shared is not None:
            groups.setdefault((call.key, call.shared), set()).add(call.node)
    shared = [nodes for nodes in groups.values() if len(nodes) > 1]
    if sum(max(nodes) - min(nodes) for nodes in shared) > MOST_VISITS:
        return Counter()
    for (key, _), nodes in groups.items():
        batches[key] += len(nodes) if len(nodes) == 1 else max(_ranks(step.before, nodes))
    return batches


def _ranks(before: list[tuple[int, ...]], nodes: set[int]) -> Iterator[int]:
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
