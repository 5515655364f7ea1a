"""No attempt is left out: the registered plan against the attempts that were kept and the samples that were counted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lynxbench.evidence.run_folder import RunFolder
from lynxbench.model.contract import SaturatingArrival, ServedEngine
from lynxbench.model.result import Result
from lynxbench.model.samples import CountedProcess
from lynxbench.model.serving import ServedEngine
from lynxbench.model.verification import Check, cannot, fails, holds
from lynxbench.run.attempts import kept_attempts
from lynxbench.run.client_results import saturation_of

_FOLDER = re.compile(r"(\d{3,})-(\d{2,})")


def check_attempts(result: Result, run: RunFolder, samples: Sequence[CountedProcess] | None) -> list[Check]:
    """Every process of the plan was attempted, no attempt is missing between others, every finished one was counted."""
    name = "attempts"
    plan = {slot.index: slot for slot in run.registration.plan}
    numbered: dict[int, list[int]] = {}
    for folder in sorted((run.path / "attempts").iterdir()):
        match = _FOLDER.fullmatch(folder.name)
        if match is None or int(match[1]) not in plan:
            return [fails(name, f"attempts/{folder.name} belongs to no process of the registered plan")]
        numbered.setdefault(int(match[1]), []).append(int(match[2]))
    for index, numbers in numbered.items():
        if sorted(numbers) != list(range(1, len(numbers) + 1)):
            return [
                fails(name, f"of process {index} attempts {sorted(numbers)} are kept; one before the last is missing")
            ]
    attempts = kept_attempts(run)
    done = {attempt.slot.index: attempt for attempt in attempts if attempt.done}
    given_up = {slot.precision for slot in plan.values() if slot.restart == 0 and slot.index not in done}
    missing = [i for i, slot in plan.items() if i not in numbered and slot.precision not in given_up]
    searches = isinstance(result.contract.workload.arrival, SaturatingArrival)
    # A search that found no rate leaves nothing for the runs after it.
    ended_early = searches and 0 in done and saturation_of(done[0]).passed_per_s is None
    if missing and not ended_early:
        return [fails(name, f"{len(plan)} processes were registered, process {missing[0]} has no attempt")]
    if not numbered:
        return [fails(name, f"{len(plan)} processes were registered, none was attempted")]
    total = sum(len(numbers) for numbers in numbered.values())
    checks = [holds(name, f"{len(plan)} processes registered, {total} attempts kept")]
    if samples is None:
        return [*checks, cannot("attempts counted", f"{result.samples.file} is not here")]
    finished = done.keys() - ({0} if searches else set())
    counted = {process.samples.process for process in samples}
    # A client whose requests all failed has no good sample, and is accounted for.
    wrong = counted - finished if isinstance(result.contract.engine, ServedEngine) else counted ^ finished
    if wrong:
        index = min(wrong)
        what = "finished and is not in the samples" if index in finished else "is in the samples and did not finish"
        return [*checks, fails("attempts counted", f"process {index} {what}")]
    return [*checks, holds("attempts counted", f"{len(counted)} processes")]
