"""No attempt is left out: the registered plan against the attempts that were kept and the samples that were counted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lynxbench.evidence.run_folder import RunFolder
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.model.load_figures import SaturationRecord
from lynxbench.model.result import Result
from lynxbench.model.samples import CountedProcess
from lynxbench.model.serving import ServedEngine
from lynxbench.model.verification import Check, cannot, fails, holds
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run.client.client_job import SATURATION_FILE
from lynxbench.run.worker import REPORT_FILE

_FOLDER = re.compile(r"(\d{3,})-(\d{2,})")


def check_attempts(result: Result, run: RunFolder, samples: Sequence[CountedProcess] | None) -> list[Check]:
    """Every process of the plan was attempted, no attempt is missing between others, every finished one was counted."""
    name = "attempts"
    plan = {slot.index: slot for slot in run.registration.plan}
    kept: dict[int, list[int]] = {}
    for folder in sorted((run.path / "attempts").iterdir()):
        match = _FOLDER.fullmatch(folder.name)
        if match is None or int(match[1]) not in plan:
            return [fails(name, f"attempts/{folder.name} belongs to no process of the registered plan")]
        kept.setdefault(int(match[1]), []).append(int(match[2]))
    for index, numbers in kept.items():
        if sorted(numbers) != list(range(1, len(numbers) + 1)):
            return [
                fails(name, f"of process {index} attempts {sorted(numbers)} are kept; one before the last is missing")
            ]
    statuses = {index: _status(run, index, numbers) for index, numbers in kept.items()}
    given_up = {s.precision for s in plan.values() if s.restart == 0 and statuses.get(s.index) is not JobStatus.DONE}
    missing = [i for i, slot in plan.items() if i not in kept and slot.precision not in given_up]
    if missing and not _ended_early(result, run):
        return [fails(name, f"{len(plan)} processes were registered, process {missing[0]} has no attempt")]
    if all(slot.precision in given_up and slot.index not in kept for slot in plan.values()):
        return [fails(name, f"{len(plan)} processes were registered, none was attempted")]
    total = sum(len(numbers) for numbers in kept.values())
    checks = [holds(name, f"{len(plan)} processes registered, {total} attempts kept")]
    if samples is None:
        return [*checks, cannot("attempts counted", f"{result.samples.file} is not here")]
    done = {index for index, status in statuses.items() if status is JobStatus.DONE} - _searching(result)
    counted = {process.samples.process for process in samples}
    if isinstance(result.contract.engine, ServedEngine):
        wrong = counted - done  # a client whose requests all failed has no good sample, and is accounted for
    else:
        wrong = counted ^ done
    if wrong:
        index = min(wrong)
        what = "finished and is not in the samples" if index in done else "is in the samples and did not finish"
        return [*checks, fails("attempts counted", f"process {index} {what}")]
    return [*checks, holds("attempts counted", f"{len(counted)} processes")]


def _status(run: RunFolder, index: int, numbers: Sequence[int]) -> JobStatus | None:
    """How a process of the plan ended: done where any attempt was, else the last report's word."""
    found: JobStatus | None = None
    for number in sorted(numbers):
        file = run.path / "attempts" / f"{index:03d}-{number:02d}" / REPORT_FILE
        if file.exists():
            found = JobReport.model_validate_json(file.read_bytes()).status
            if found is JobStatus.DONE:
                return found
    return found


def _searching(result: Result) -> set[int]:
    return {0} if isinstance(result.contract.workload.arrival, SaturatingArrival) else set()


def _ended_early(result: Result, run: RunFolder) -> bool:
    """A search that found no rate leaves nothing for the runs after it."""
    files = [
        folder / SATURATION_FILE for index in _searching(result) for folder in run.path.glob(f"attempts/{index:03d}-*")
    ]
    found = [SaturationRecord.model_validate_json(file.read_bytes()) for file in files if file.exists()]
    return any(record.passed_per_s is None for record in found)
