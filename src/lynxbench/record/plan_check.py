"""That the processes of a run are those that its contract plans: each once, told what its place says, and measured."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.load.load_record import read_record
from lynxbench.model.contract import Contract
from lynxbench.model.document import first_problem
from lynxbench.model.job import Job
from lynxbench.model.samples import CountedProcess, ProcessSamples
from lynxbench.model.serving import ServedEngine
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run.attempts import Attempt, read_attempt
from lynxbench.run.client_job import RECORD_FILE, ClientJob
from lynxbench.run.client_results import saturation_of
from lynxbench.run.fresh_job import JOB_FILE

TOLD_A_CLIENT = ("workload", "protocol", "objective")
"""What a client is told as its contract has it; where its server really listens, the run alone knew."""

CHANCE_DEVIATIONS = 6.0
"""Standard deviations that a Poisson count is from its mean once in five hundred million runs."""
BY_CHANCE = 0.001
"""Share of the samples of two processes that may agree to the nanosecond without anybody's doing."""


def process_problems(run: RunFolder, samples: Sequence[CountedProcess] | None) -> Iterator[str]:
    """What in a run's processes is not as its contract plans it, a line each."""
    registered = run.registration
    plan = [(slot.index, slot.precision.value, slot.restart) for slot in registered.plan]
    places = sorted((precision, restart) for _, precision, restart in plan)
    if [index for index, _, _ in plan] != list(range(len(plan))) or places != _places(registered.contract):
        yield f"{len(plan)} processes were registered, and they are not those that the contract asks for"
        return
    for slot in registered.plan:
        for folder in run.attempts(slot):
            if not (folder / JOB_FILE).is_file():
                # A run that was killed just then leaves an empty folder: nothing was told, and nothing was measured.
                if any(folder.iterdir()):
                    yield f"attempts/{folder.name}: {JOB_FILE} is not here, so nobody can see what its process was told"
                continue
            try:
                told = _told_otherwise(run, slot, folder)
            except ValidationError as error:
                yield f"attempts/{folder.name}/{JOB_FILE}: damaged: {first_problem(error)}"
                continue
            if told:
                yield f"attempts/{folder.name}: its process was told another {told} than the plan has in its place"
    for one, other in combinations(samples or (), 2):
        if shared := in_common(one.samples, other.samples):
            numbers = f"{one.samples.process} and {other.samples.process}"
            yield f"processes {numbers} have {shared} samples in common, to the nanosecond: one of them was copied"


def _places(contract: Contract) -> list[tuple[str, int]]:
    """Precision and repetition of every process that a contract asks for, in whatever order they are visited."""
    restarts = list(range(contract.protocol.restarts))
    precisions = [precision.value for precision in contract.workload.precisions]
    if isinstance(contract.engine, ServedEngine):
        precisions = precisions[:1]
        # the search comes before the first run, and has its number
        restarts += [0] if isinstance(contract.workload.arrival, SaturatingArrival) else []
    return sorted((precision, restart) for precision in precisions for restart in restarts)


def _told_otherwise(run: RunFolder, slot: Slot, folder: Path) -> str:
    """What a process was told that its place in the plan does not say; empty where that agrees."""
    contract, file = run.registration.contract, folder / JOB_FILE
    if isinstance(contract.engine, ServedEngine):
        asked = ClientJob.model_validate_json(file.read_bytes())
        told = {name: getattr(asked.contract, name) == getattr(contract, name) for name in TOLD_A_CLIENT}
        told |= {"process": (asked.index, asked.restart) == (slot.index, slot.restart)}
        searches = isinstance(contract.workload.arrival, SaturatingArrival)
        told |= {"search": asked.search == (searches and slot.index == 0), "change": not asked.launched}
        told |= {"rate": asked.rate_per_s == (claimed_rate(run) if searches and slot.index > 0 else None)}
    else:
        job = Job.model_validate_json(file.read_bytes())
        told = {"contract": job.contract.contract_id == contract.contract_id, "change": job.change is None}
        told |= {"precision": job.precision is slot.precision}
        told |= {"process": (job.index, job.restart) == (slot.index, slot.restart)}
    return next((name for name, agrees in told.items() if not agrees), "")


def claimed_rate(run: RunFolder) -> float | None:
    """The rate that the search of a run claims, which the runs after it are asked at."""
    first = next(slot for slot in run.registration.plan if slot.index == 0)
    done = (attempt for folder in run.attempts(first) if (attempt := read_attempt(first, folder)).done)
    return next((saturation_of(attempt).passed_per_s for attempt in done), None)


def claim_problems(run: RunFolder, attempts: Sequence[Attempt]) -> Iterator[str]:
    """Where the runs after a search were not asked at the rate that it claims: their own requests say what was."""
    claimed = claimed_rate(run)
    for attempt in attempts:
        if attempt.slot.index == 0 or not attempt.done or claimed is None:
            continue
        record = read_record(attempt.folder / RECORD_FILE)
        due_ns = np.sort(record.scheduled_ns[record.turn == 0])
        span_s = (due_ns[-1] - due_ns[0]) / 1e9 if due_ns.size > 1 else 0.0
        expected = claimed * span_s
        if span_s > 0 and abs(due_ns.size - 1 - expected) > CHANCE_DEVIATIONS * max(expected, 1.0) ** 0.5:
            asked = f"{(due_ns.size - 1) / span_s:.4g} /s"
            yield f"{claimed:.4g} /s is claimed, and run {attempt.slot.restart + 1} after it was asked at {asked}"


def in_common(one: ProcessSamples, other: ProcessSamples) -> int:
    """Samples of two processes with one start and one end: of one host, each process has its time to itself.

    On two nodes, or after a reboot, clocks may show the same again, and of millions of samples a pair may agree.
    """
    first, second = one.iterations, other.iterations
    if first.start_ns.size == 0 or second.start_ns.size == 0:
        return 0
    if first.start_ns.max() < second.start_ns.min() or second.start_ns.max() < first.start_ns.min():
        return 0
    _, mine, theirs = np.intersect1d(first.start_ns, second.start_ns, return_indices=True)
    shared = int(np.count_nonzero(first.end_ns[mine] == second.end_ns[theirs]))
    return shared if shared > BY_CHANCE * min(first.start_ns.size, second.start_ns.size) else 0
