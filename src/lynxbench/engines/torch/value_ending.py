"""What became of a followed step's calls by its end: done again, read by nobody, or one with others."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from lynxbench.attribute.read.dataflow import Key
from lynxbench.attribute.read.operator_names import OperatorKind, operator_kind
from lynxbench.engines.torch.value_calls import MOST_VISITS, Call, FollowedStep, ranks
from lynxbench.engines.torch.value_memory import Memories
from lynxbench.engines.torch.value_reads import find_parts
from lynxbench.engines.torch.value_sums import Sums, find_sums
from lynxbench.engines.torch.value_tensors import storage_of

SOLVING = "solve"


@dataclass(frozen=True, slots=True)
class EndedStep:
    """What there was to see when a step had returned."""

    step: FollowedStep
    again: Counter[Key]
    batches: Counter[Key]
    sums: Sums
    dropped: frozenset[int]
    """Operations whose results were gone by then, and of which that may be held against them."""
    unread: frozenset[int]
    """… that no operator had read."""
    gradients: tuple[Call, ...]
    """Those of weights that were left for whatever comes next, though the step used others."""
    gathered: tuple[Call, ...]
    """What added to gradients that were there before, in a step that changed other weights."""
    uses: bool
    """Whether the step uses gradients: it trains."""
    parts: dict[Key, tuple[float, float]]
    """By operator, the share of its results that nobody needs, where somebody needs the rest; and that nobody may need.
    """

    def goes_on_from(self, before: EndedStep) -> bool:
        """Whether it had other inputs than the step before: data from outside, or a state that is no trained weight and
        that it multiplies with."""
        known = before.step.foreign | before.step.outside
        stateful = not self.uses and self.multiplies_anew and bool(self.step.outside - known)
        return stateful or bool(self.step.foreign - known)

    @property
    def multiplies_anew(self) -> bool:
        """Whether products or solutions are among what it did not have from the step before."""
        names = {call.key[0] for call in self.step.calls if not call.constant}
        return any(operator_kind(name) is OperatorKind.PRODUCT or SOLVING in name for name in names)

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


def end_step(
    step: FollowedStep, memories: Memories, returned: Sequence[torch.Tensor], masked: dict[int, float]
) -> EndedStep:
    """Look at a step that has returned, while what it returned is still there.

    `masked`: by number of a mask, the share of rows of which it leaves nothing.
    """
    uses = _find_gradients(step, memories) or step.trained
    again = Counter(call.key for call in step.calls if call.again and not (call.private and _is_kept(call)))
    kept = {call.key for call in step.calls if call.unread and _is_kept(call) and not _is_gradient(call)}
    dropped: frozenset[int] = frozenset()
    if returned or kept or uses:
        dropped = frozenset(call.node for call in step.calls if _is_dropped(call, uses))
    unread = frozenset(
        call.node for call in step.calls if call.node in dropped and call.unread and call.key not in kept
    )
    left = tuple(call for call in step.calls if uses and call.unread and _is_gradient(call))
    gathered = tuple(call for call in step.calls if step.trained and _gathers(call))
    parts = find_parts(step, memories, returned, masked)
    return EndedStep(step, again, _batches(step), find_sums(step), dropped, unread, left, gathered, bool(uses), parts)


def _find_gradients(step: FollowedStep, memories: Memories) -> bool:
    """Mark those that lie at their weights; whether some are held elsewhere, too, so that the step hands them on."""
    probe = torch.zeros(1, requires_grad=True)
    probe.grad = torch.zeros(1)
    alone, held = _holders(probe), False
    for leaf in list(step.leaves.values()):
        tensor = leaf()
        if tensor is None or tensor.grad is None or tensor.grad.layout != torch.strided:
            continue
        memory = memories.find(tensor.grad)
        if memory is None:
            continue
        memory.gradient = True
        if any(one > other for one, other in zip(_holders(tensor), alone, strict=True)):
            memory.read = memory.used = held = True
    return held


def _holders(weight: torch.Tensor) -> tuple[int, int]:
    """How often the tensor of its gradient is held, and how many tensors share that one's memory."""
    gradient = weight.grad
    storage = storage_of(gradient)
    return sys.getrefcount(gradient), torch._C._storage_Use_Count(storage._cdata)


def _is_dropped(call: Call, uses: bool) -> bool:
    counts = bool(call.made) and not call.again and (uses or not call.backward)
    return counts and all(memory.freed for memory in call.made)


def _is_kept(call: Call) -> bool:
    return any(not memory.freed for memory in call.made)


def _is_gradient(call: Call) -> bool:
    return any(memory.gradient for memory in call.made)


def _gathers(call: Call) -> bool:
    """Whether it adds to a gradient that was there before."""
    return call.backward and bool(call.added) and not call.made and call.result is not None and call.result.gradient


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
        batches[key] += len(nodes) if len(nodes) == 1 else max(ranks(step.before, nodes))
    return batches
