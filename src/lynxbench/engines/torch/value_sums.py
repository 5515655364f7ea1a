"""Products whose results are only added together: one product with their inner sides put behind each other.

So are the gradients of a weight that many small parts of a batch make one after the other. A term counts where one
addition alone reads it and nothing of it is left when the step has returned: neither another operator nor the host has
a use for the parts of the sum.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from lynxbench.attribute.read.dataflow import Key
from lynxbench.engines.torch.value_calls import MOST_VISITS, NOBODY, Call, FollowedStep, ranks

Group = tuple[Key, int, int]
BARE = ("aten::mm", "aten::bmm")
"""Products that add nothing themselves."""


@dataclass(frozen=True, slots=True)
class Sums:
    """By operator with operands of the same sizes."""

    left: Counter[Key] = field(default_factory=Counter)
    """Of products: how many there would be."""
    adding: Counter[Key] = field(default_factory=Counter)
    """Of additions: how many there would be less."""


def find_sums(step: FollowedStep) -> Sums:
    """Of a step that has returned, while what it returned is still there."""
    calls = {call.node: call for call in step.calls}
    sum_of = _find_terms(step, calls)
    found = Sums()
    groups: dict[Group, set[int]] = {}
    additions: dict[int, list[Call]] = {}
    for call in step.calls:
        if _is_bare(call) and call.again:
            found.left[call.key] += 1  # it goes for another reason
        elif _is_bare(call):
            groups.setdefault((call.key, sum_of.get(call.node, call.node), call.barrier), set()).add(call.node)
        elif call.added and call.node in sum_of:
            additions.setdefault(sum_of[call.node], []).append(call)
    if sum(max(nodes) - min(nodes) for nodes in groups.values() if len(nodes) > 1) > MOST_VISITS:
        return Sums()
    for (key, whole, _), nodes in groups.items():
        left = len(nodes) if len(nodes) == 1 else max(ranks(step.before, nodes))
        found.left[key] += left
        for _ in range(len(nodes) - left):
            if additions.get(whole):
                found.adding[additions[whole].pop().key] += 1
    return found


def _find_terms(step: FollowedStep, calls: dict[int, Call]) -> dict[int, int]:
    """By product or addition that is part of a sum: the last addition of that sum."""
    readers: Counter[int] = Counter(needed for before in step.before for needed in before)
    last: dict[int, int] = {}
    for call in reversed(step.calls):  # who adds comes later
        if not call.added:
            continue
        terms = [calls.get(node) for node in call.added if node != NOBODY]
        parts = [term for term in terms if term is not None and readers[term.node] == 1 and is_gone(term)]
        for term in parts:
            if term.added or _is_bare(term):
                last[term.node] = last.setdefault(call.node, call.node)
    return last


def _is_bare(call: Call) -> bool:
    return call.shared is not None and call.key[0] in BARE


def is_gone(term: Call) -> bool:
    """Whether nothing of its result is left, or something else was written over it."""
    return term.result is not None and (term.result.freed or term.result.writer != term.node)
