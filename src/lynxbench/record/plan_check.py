"""That the processes of a run are those that its contract plans: each once, told what its place says, and measured."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.model.contract import Contract
from lynxbench.model.document import first_problem
from lynxbench.model.job import Job
from lynxbench.model.samples import CountedProcess
from lynxbench.model.serving import ServedEngine
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run.client_job import ClientJob
from lynxbench.run.fresh_job import JOB_FILE

TOLD_A_CLIENT = ("workload", "protocol", "objective")
"""What a client is told as its contract has it; where its server really listens, the run alone knew."""

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
            try:
                told = _told_otherwise(registered.contract, slot, folder)
            except ValidationError as error:
                yield f"attempts/{folder.name}/{JOB_FILE}: damaged: {first_problem(error)}"
                continue
            if told:
                yield f"attempts/{folder.name}: its process was told another {told} than the plan has in its place"
    for one, other in combinations(samples or (), 2):
        if shared := _in_common(one, other):
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


def _told_otherwise(contract: Contract, slot: Slot, folder: Path) -> str:
    """What a process was told that its place in the plan does not say; empty where that agrees, or is not kept."""
    file = folder / JOB_FILE
    if not file.is_file():
        return ""
    if isinstance(contract.engine, ServedEngine):
        asked = ClientJob.model_validate_json(file.read_bytes())
        told = {name: getattr(asked.contract, name) == getattr(contract, name) for name in TOLD_A_CLIENT}
        told |= {"process": (asked.index, asked.restart) == (slot.index, slot.restart)}
    else:
        job = Job.model_validate_json(file.read_bytes())
        told = {"contract": job.contract.contract_id == contract.contract_id, "change": job.change is None}
        told |= {"precision": job.precision is slot.precision}
        told |= {"process": (job.index, job.restart) == (slot.index, slot.restart)}
    return next((name for name, agrees in told.items() if not agrees), "")


def _in_common(one: CountedProcess, other: CountedProcess) -> int:
    """Samples of two processes with one start and one end: of one host, each process has its time to itself.

    On two nodes, or after a reboot, clocks may show the same again, and of millions of samples a pair may agree.
    """
    first, second = one.samples.iterations, other.samples.iterations
    if first.start_ns.size == 0 or second.start_ns.size == 0:
        return 0
    if first.start_ns.max() < second.start_ns.min() or second.start_ns.max() < first.start_ns.min():
        return 0
    _, mine, theirs = np.intersect1d(first.start_ns, second.start_ns, return_indices=True)
    shared = int(np.count_nonzero(first.end_ns[mine] == second.end_ns[theirs]))
    return shared if shared > BY_CHANCE * min(first.start_ns.size, second.start_ns.size) else 0
