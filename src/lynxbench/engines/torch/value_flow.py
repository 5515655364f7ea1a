"""Two more steps of a function, followed value by value: work that nobody needs, however fast it is done.

Every operator of PyTorch, forward and backward, passes the follower with its operands. A value has a number: what made
it, of which numbers. So the same operator on the same numbers computes anew what the step had (also in layers that are
computed again to save memory), whatever memory it lies in; what is written in place has another number from then on,
and random numbers are the same only where the generator stood in the same place. Elements are read for no more than
this: zeros in factors of products (in the first step), what masks leave, and rows that come again (`value_rows.py`).

A result is read where an operator takes it, other than to look at it anew, and where it is handed to the host; what
only operators read whose own results nobody reads is read by nobody. It
counts as read, too, where nothing can be said: where it is still there when the step returns (the next step that
replaces it says nothing of whoever looks at it between), where other results of that operator are; and everywhere in a
step that returns no tensor, leaves none and changes no weights, as what such a step is for cannot be told. Gradients
are left for whoever comes next; those that no operator has read and nobody else holds by the end of the second step
nobody reads, if the step that made them used some: changed weights, or handed others on, held elsewhere than at their
weights.

What the second step computes from the very values from which the first one did is the same each time, if the steps had
other inputs otherwise: data that came in anew, or a state that is no trained weight. Where nothing changes at all,
which inputs ever do cannot be told. Values that the step made of far fewer numbers are known as such
(`value_structure.py`), as are places that are picked in even steps. Of results of which a part is read, that part is
followed backwards to what makes it (`value_reads.py`).

What is not seen whole says so, and nothing is said of it: compiled code, replayed graphs, other threads, kernels and
tensors that are not PyTorch's own. Whatever goes wrong ends the following, never the run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
import torch
from torch.utils._pytree import tree_leaves

from lynxbench.attribute.read.dataflow import Dataflow, Key, OperatorFlow
from lynxbench.engines.torch.device import synchronise
from lynxbench.engines.torch.value_calls import Call, FollowedStep
from lynxbench.engines.torch.value_ending import EndedStep, end_step
from lynxbench.engines.torch.value_follower import ValueFollower
from lynxbench.engines.torch.value_masks import share_masked
from lynxbench.engines.torch.value_unseen import hidden_before, watched
from lynxbench.errors import first_line

STEPS = 2
LONGEST_S = 60.0
"""A first step that takes longer is not followed by a second."""


def record_dataflow(
    step: Callable[[int], object],
    device: torch.device,
    *,
    first: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> Mapping[str, object]:
    """What two steps show, numbered from `first`, as the document that a trace holds."""
    try:
        flow = _record(step, device, first, clock)
    except Exception as error:  # the function's own among them: a run does not fail for what is seen besides
        flow = _hidden(f"it failed while it was followed: {first_line(error)}")
    return dict(msgspec.to_builtins(flow))


def _hidden(why: str) -> Dataflow:
    return Dataflow(STEPS, whole=False, why=why)


def _record(step: Callable[[int], object], device: torch.device, first: int, clock: Callable[[], float]) -> Dataflow:
    why = hidden_before()
    if why is not None:
        return _hidden(why)
    follower = ValueFollower(clock)
    seen: list[EndedStep] = []
    with watched(follower.expose, follower.differentiate, follower.hide):
        for number in range(STEPS):
            began = clock()
            follower.begin_step()
            with follower:
                returned = step(first + number)
            synchronise(device)
            follower.why = follower.why or hidden_before()
            if follower.why is None and number == 0 and clock() - began > LONGEST_S:
                follower.hide(f"a step takes longer than {LONGEST_S:g} s to follow")
            if follower.why is not None:
                return _hidden(follower.why)
            tensors = [leaf for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor)]
            masks = follower.masks.fetch()
            empty_rows = {number: rows for number, (_, rows) in masks.items()}
            seen.append(end_step(follower.step, follower.memories, tensors, empty_rows))
            if number == 0:
                follower.counting = False
                follower.rows.begin_second()
                zeros = _zeros(follower)
                masked = share_masked(follower.step, masks)
                even = {number: bool(one) for number, one in follower.even.items()}
            del returned, tensors
            follower.memories.end_step()
    return Dataflow(STEPS, tuple(_flows(seen, zeros, masked, even)), multiplies_anew=seen[-1].multiplies_anew)


def _zeros(follower: ValueFollower) -> dict[Key, tuple[float, float]]:
    """By product: the shares that are not 0 and of empty rows, where all its calls were counted."""
    counted = follower.zeros.fetch()
    shares: dict[Key, list[tuple[float, float] | None]] = {}
    for call in follower.step.calls:
        if call.zeros is not None:
            shares.setdefault(call.key, []).append(counted.get(call.zeros))
    means: dict[Key, tuple[float, float]] = {}
    for key, found in shares.items():
        known = [one for one in found if one is not None]
        if len(known) == len(found):
            means[key] = sum(one for one, _ in known) / len(known), sum(rows for _, rows in known) / len(known)
    return means


@dataclass(frozen=True, slots=True)
class _Structure:
    """What one step shows of an operator's calls and their operands."""

    structured: int = 0
    factored: int = 0
    few: float = 1.0
    sliced: int = 0
    moved: int = 0
    repeated: float = 0.0
    surely_repeated: float = 0.0


def _structures(step: FollowedStep, even: dict[int, bool]) -> dict[Key, _Structure]:
    """By operator, of calls that are not made again; of factors of few numbers the mean share."""
    calls: dict[Key, list[Call]] = {}
    for call in step.calls:
        calls.setdefault(call.key, []).append(call)
    found: dict[Key, _Structure] = {}
    for key, alike in calls.items():
        repeats = [call.repeats for call in alike if call.repeats is not None and not call.again]
        few = [call.few for call in alike if call.few is not None and not call.again]
        found[key] = _Structure(
            structured=len(few),
            factored=sum(known for _, known in few),
            few=sum(share for share, _ in few) / len(few) if few else 1.0,
            sliced=sum(call.picks is not None and not call.again and even.get(call.picks, False) for call in alike),
            moved=min(call.moved for call in alike),
            repeated=sum(one.share for one in repeats) / len(alike),
            surely_repeated=sum(one.surely for one in repeats) / len(alike),
        )
    return found


def _same_rows(step: FollowedStep) -> dict[Key, float]:
    """By operator, the mean share of rows that the step before had there, too; not of calls that go as a whole."""
    found: dict[Key, list[float]] = {}
    for call in step.calls:
        partly = call.repeats is not None and not call.again and not call.constant
        found.setdefault(call.key, []).append(call.repeats.same if partly and call.repeats is not None else 0.0)
    return {key: min(1.0, sum(shares) / len(shares)) for key, shares in found.items()}


def _is_used(call: Call) -> bool:
    return call.result is None or call.result.used


def _flows(
    seen: list[EndedStep],
    zeros: dict[Key, tuple[float, float]],
    masks: dict[Key, tuple[float, float]],
    even: dict[int, bool],
) -> list[OperatorFlow]:
    """Operators that both steps called as often, and of which there is something to say."""
    one, other = seen
    unread_by_any = one.needless(), other.needless()
    gone = [call for call in one.gradients if call.unread and all(memory.freed for memory in call.made)]
    in_both = {id(call.result) for call in other.gathered}
    for_nobody = [call for call in one.gathered if id(call.result) in in_both and not _is_used(call)]
    left = one.needless([*gone, *for_nobody]) - unread_by_any[0]
    before, flows = one.calls, []
    changes = other.goes_on_from(one)
    constant = Counter(call.key for call in other.step.calls if changes and call.constant and not call.again)
    structures, same = _structures(one.step, even), _same_rows(other.step)
    for key, calls in other.calls.items():
        if before[key] != calls:
            continue
        again = min(one.again[key], other.again[key])
        unread = min(calls - again, min(number[key] for number in unread_by_any) + left[key])
        batches = max(one.batches[key], other.batches[key])
        sums = max(one.sums.left[key], other.sums.left[key])
        adding = min(one.sums.adding[key], other.sums.adding[key])
        filled, empty_rows = zeros.get(key, (1.0, 0.0))
        masked, masked_rows = masks.get(key, (0.0, 0.0))
        fewer = any(0 < left < calls for left in (batches, sums))
        shape = structures[key]
        needless = again or unread or adding or fewer or filled < 1.0 or empty_rows or masked > 0.0
        partly, perhaps = map(min, zip(one.parts[key], other.parts[key], strict=True))
        still = same.get(key, 0.0)
        shaped = still or shape.structured or shape.sliced or shape.moved or shape.repeated
        if needless or constant[key] or shaped or perhaps:
            flows.append(
                OperatorFlow(
                    key[0], key[1], calls, again=again, unread=unread, batches=batches, sums=sums, adding=adding,
                    nonzero=filled, zero_rows=empty_rows, constant=constant[key], structured=shape.structured,
                    factored=shape.factored, few=min(1.0, shape.few), sliced=shape.sliced, moved=shape.moved,
                    masked=masked, masked_rows=masked_rows, partly=partly, perhaps=perhaps, same_rows=still,
                    repeated=min(1.0, shape.repeated), surely_repeated=min(1.0, shape.surely_repeated),
                )
            )  # fmt: skip
    return flows
