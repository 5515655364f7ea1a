"""Causes removed for real: which changes would test a verdict, what each should gain, and what the measurement says.

An intervention is the same contract with one thing changed, run in a fresh process like any other. Prediction and
measurement stand side by side; where they disagree, the measurement wins and the verdict says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lynxbench.model.attribution import Attribution, Bound, Category, Intervention
from lynxbench.model.contract import Contract, Graph, TorchEngine
from lynxbench.model.interval import Interval
from lynxbench.model.workload import Task

MOST_REMOVED = 0.99
AGREEMENT = 1.25
"""A measured gain within this factor of the predicted range agrees with it: profiles and short runs are as noisy."""
NOTHING_GAINED = 1.05
"""A gain below this is none: it lies within what two fresh processes differ by."""

COMPILE = "compile the step"
DOUBLE_BATCH = "double the batch"

_REMEDY: dict[Category, str] = {
    Category.LAUNCH: COMPILE,
    Category.ALLOCATOR: COMPILE,
    Category.MEMORY_BANDWIDTH: DOUBLE_BATCH,
}
"""Which intervention speaks for or against a bottleneck."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change to make, and the gain in work per second it should bring if the attribution is right."""

    name: str
    contract: Contract
    predicted: Interval


def propose_interventions(contract: Contract, found: Attribution) -> tuple[Proposal, ...]:
    """Changes that this engine can make by itself; the one that tests the verdict's bottleneck comes first."""
    engine = contract.engine
    if not isinstance(engine, TorchEngine):
        return ()
    proposals = []
    if engine.graph is Graph.EAGER and contract.workload.task in (Task.GENERATE, Task.EMBED, Task.CLASSIFY):
        graphed = contract.model_copy(update={"engine": engine.model_copy(update={"graph": Graph.COMPILE})})
        overhead = found.shares.get(Category.LAUNCH, 0.0) + found.shares.get(Category.ALLOCATOR, 0.0)
        proposals.append(Proposal(COMPILE, graphed, _gain_range(overhead)))
    larger = contract.workload.model_copy(update={"batch": contract.workload.batch * 2})
    shared = sum(found.shares.get(c, 0.0) for c in (Category.MEMORY_BANDWIDTH, Category.LAUNCH, Category.ALLOCATOR))
    # What is read or launched once for the whole batch is paid half as often for each unit of work.
    doubled = contract.model_copy(update={"workload": larger})
    proposals.append(Proposal(DOUBLE_BATCH, doubled, _gain_range(shared / 2)))
    first = _test_of(found)
    return tuple(sorted(proposals, key=lambda proposal: proposal.name != first))


def judge_intervention(
    proposal: Proposal, baseline_per_s: Sequence[float], changed_per_s: Sequence[float]
) -> Intervention:
    """The measured gain: mean over mean; the bounds are the farthest pair of processes: a spread, no confidence."""
    known = [v for v in baseline_per_s if v > 0], [v for v in changed_per_s if v > 0]
    if not known[0] or not known[1]:
        nothing = Interval(math.nan, math.nan, math.nan)
        note = "not measured: the changed step did not run"
        return Intervention(name=proposal.name, predicted=proposal.predicted, measured=nothing, note=note)
    before, after = known
    gain = (sum(after) / len(after)) / (sum(before) / len(before))
    measured = Interval(min(after) / max(before), gain, max(after) / min(before))
    return Intervention(
        name=proposal.name, predicted=proposal.predicted, measured=measured, note=_compare(proposal.predicted, gain)
    )


def with_interventions(found: Attribution, done: Sequence[Intervention]) -> Attribution:
    """The attribution with its interventions; the one that tests its bottleneck confirms or corrects the verdict."""
    if not done:
        return found
    update: dict[str, object] = {"interventions": tuple(done)}
    test = next((one for one in done if one.name == _test_of(found) and one.measured.known), None)
    if test is not None:
        gain = test.measured.estimate
        if gain >= NOTHING_GAINED:
            update["gain_if_removed"] = test.measured
            update["weak"] = False if gain >= found.gain_if_removed.low else found.weak
            update["sentence"] = f"{found.sentence}; measured by intervention ({test.name}): {gain:.2g}×"
        else:
            update["weak"] = True
            update["gain_if_removed"] = Interval(1.0, 1.0, max(1.0, test.measured.high))
            update["sentence"] = f"{found.sentence}; contradicted: to {test.name} gained nothing ({gain:.2f}×)"
        verdict = "confirms" if gain >= NOTHING_GAINED else "contradicts"
        line = (
            f"intervention {verdict} the verdict: {test.name} measured {gain:.2f}×, predicted {_words(test.predicted)}"
        )
        update["evidence"] = (*found.evidence, line)
    return found.model_copy(update=update)


def _test_of(found: Attribution) -> str | None:
    """The intervention that decides about a verdict; a batch says nothing about memory that slow kernels leave idle."""
    if found.bottleneck is Category.MEMORY_BANDWIDTH and found.bound is not Bound.HARDWARE:
        return None
    return _REMEDY.get(found.bottleneck)


def _gain_range(share: float) -> Interval:
    """Removing a share of the step entirely, half of it, or a little more than was seen."""
    full = 1.0 / (1.0 - min(share, MOST_REMOVED))
    return Interval(1.0 / (1.0 - min(share / 2, MOST_REMOVED)), full, 1.0 / (1.0 - min(share * 1.2, MOST_REMOVED)))


def _compare(predicted: Interval, gain: float) -> str:
    if predicted.low / AGREEMENT <= gain <= predicted.high * AGREEMENT:
        return "as predicted"
    return "less than predicted" if gain < predicted.low else "more than predicted"


def _words(interval: Interval) -> str:
    return f"{interval.low:.2f}–{interval.high:.2f}×"
