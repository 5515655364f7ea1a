"""Calls of one followed step, and what becomes of them by its end: done again, read by nobody, or one with others."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from lynxbench.engines.torch.dataflow_memory import NOBODY, Memories, Memory

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
class StepAccount:
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
class Seen:
    """By operator and sizes, at the end of a step."""

    calls: Counter[Key]
    again: Counter[Key]
    unread: Counter[Key]
    batches: Counter[Key]
    gradients: tuple[Call, ...]
    """Those of weights that were left for whatever comes next, though others' were read in the step."""


def end_step(step: StepAccount, memories: Memories, returned: bool) -> Seen:
    """What there is to say when a step has returned, and what it returned is still there."""
    for leaf in list(step.leaves.values()):
        tensor = leaf()
        gradient = None if tensor is None else tensor.grad
        memory = None if gradient is None or gradient.layout != torch.strided else memories.find(gradient)
        if memory is not None:
            memory.gradient = True
    calls = Counter(call.key for call in step.calls)
    again = Counter(call.key for call in step.calls if call.again and not (call.private and _is_kept(call)))
    kept = {call.key for call in step.calls if call.unread and _is_kept(call) and not _is_gradient(call)}
    unread: Counter[Key] = Counter()
    if returned or kept or step.trained:
        for call in step.calls:
            dropped = call.unread and not call.again and all(memory.freed for memory in call.made)
            if dropped and call.key not in kept and (step.trained or not call.backward):
                unread[call.key] += 1
    left = tuple(call for call in step.calls if step.trained and call.unread and _is_gradient(call))
    return Seen(calls, again, unread, _batches(step), left)


def _is_kept(call: Call) -> bool:
    return any(not memory.freed for memory in call.made)


def _is_gradient(call: Call) -> bool:
    return any(memory.gradient for memory in call.made)


def _batches(step: StepAccount) -> Counter[Key]:
    """Of products: how many are left where those that share a factor and need not wait are one."""
    groups: dict[tuple[Key, int], set[int]] = {}
    for call in step.calls:
        if call.shared is not None:
            groups.setdefault((call.key, call.shared), set()).add(call.node)
    shared = [nodes for nodes in groups.values() if len(nodes) > 1]
    if sum(max(nodes) - min(nodes) for nodes in shared) > MOST_VISITS:
        return Counter()
    batches: Counter[Key] = Counter()
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
