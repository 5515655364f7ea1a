"""One fresh process: load the model, iterate until steady, then the passes that must not disturb the timing.

Started as `python -m lynxbench.run.worker FOLDER`. Beside what every fresh process leaves, its folder holds

    iterations.bin, marks.bin   samples, as they happen      outputs.npz     answers for accuracy
    trace.columns               what the verdict needs of the profiler's trace
    slices/                     instead of samples, rollups of an endurance run

`python -m lynxbench.run.worker FOLDER follow` is one more rank of a run over several, with the variables torchrun sets.
"""

import gc
import os
import resource
import sys
import traceback
from pathlib import Path
from time import perf_counter_ns, time_ns

import numpy as np

from lynxbench.engines.engine_registry import load_engine
from lynxbench.errors import ExitCode
from lynxbench.evidence.array_file import read_arrays
from lynxbench.executor.engine_facts import fields_from_facts
from lynxbench.executor.process import capture_process
from lynxbench.executor.python_packages import capture_packages
from lynxbench.load.engine_session import Engine, Session
from lynxbench.load.fresh_process import leave_with_parent
from lynxbench.load.inprocess import StopRule, drive
from lynxbench.load.journal import Journal
from lynxbench.load.rolling import RollingJournal, SliceReadings
from lynxbench.measure.host_readings import inlet_file, read_celsius, resident_bytes
from lynxbench.measure.phases import find_phases
from lynxbench.measure.token_scores import condense
from lynxbench.model.attribution import Ceiling
from lynxbench.model.job import Job, JobReport, JobStatus
from lynxbench.model.layers import Layer
from lynxbench.model.samples import Iterations, Outputs
from lynxbench.model.secrets import secret_values, withhold
from lynxbench.model.slices import Slice, slice_length_s
from lynxbench.run.fresh_job import ENDURING, JOB_FILE, leave_report, say_stage

OUTPUTS_FILE = "outputs.npz"

FOLLOW = "follow"
FOR_EVER_S = 1e9
PROFILED_S = 2.0
"""About how long the profiled pass may take; it never supplies timing figures, so a few steps are enough."""
PROFILED_STEPS = (4, 12)
"""Fewest and most profiled steps: the first is dropped as the profiler's own warm-up."""


def work(folder: Path) -> JobReport:
    """Do the job in the folder and return what is known of it."""
    job = Job.model_validate_json((folder / JOB_FILE).read_bytes())
    say_stage(folder, "setup")
    started_ns = perf_counter_ns()
    engine: Engine = load_engine(job.contract.engine)
    skip = engine.estimate(job)
    if skip is not None:
        return JobReport(status=JobStatus.SKIPPED, skip=skip)
    session = engine.open(job)
    setup_ns = (started_ns, perf_counter_ns())
    say_stage(folder, "compile")
    session.compile()
    _settle_garbage()
    compile_ns = (setup_ns[1], perf_counter_ns())
    say_stage(folder, "measure")
    with _journal(job, folder, session.unit) as journal:
        stop_reason = drive(session, journal, _stop_rule(job))
        step_s = float(np.median(journal.iterations().seconds))
    peak_memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    device_memory_bytes = session.device_memory_peak_bytes()
    fields = {**capture_process()}
    if job.own_packages:
        fields[Layer.FRAMEWORK] = {**fields.get(Layer.FRAMEWORK, {}), **capture_packages()}
    if job.take_outputs:
        from lynxbench.run.task_scoring import with_task  # one process of a precision needs it

        say_stage(folder, "accuracy")
        outputs = session.outputs()
        if outputs is not None:
            write_outputs(folder / OUTPUTS_FILE, condense(with_task(job.contract, session, outputs)))
    trace = _profile(session, folder, step_s) if job.take_profile else None
    facts = session.facts()
    for layer, more in fields_from_facts(facts, source=f"engine {job.contract.engine.name}").items():
        fields.setdefault(layer, {}).update(more)
    report = JobReport(
        status=JobStatus.DONE,
        setup_ns=setup_ns,
        compile_ns=compile_ns,
        unit=session.unit,
        facts=facts,
        fields={Layer(layer): dict(named) for layer, named in fields.items()},
        executed=session.executed(),
        ceilings=_ceilings(session, folder, job.known_ceilings) if job.take_ceilings else (),
        peak_memory_bytes=peak_memory_bytes,
        peak_device_memory_bytes=device_memory_bytes,
        stop_reason=stop_reason,
        trace=trace.name if trace is not None else None,
    )
    session.close()
    return report


def follow(folder: Path) -> None:
    """One more rank of a run: open the same session as rank 0 and take every step that it takes.

    Rank 0 alone decides how long a run is; a step that holds a collective cannot run ahead of it.
    """
    job = Job.model_validate_json((folder / JOB_FILE).read_bytes())
    engine: Engine = load_engine(job.contract.engine)
    session = engine.open(job)
    session.compile()
    with Journal(folder) as journal:
        drive(session, journal, StopRule(FOR_EVER_S, FOR_EVER_S, lambda iterations: False))


def _follow_until_stopped(folder: Path) -> None:
    """Until standard input closes; what this rank stamped is kept beside its job, an error left in words."""
    leave_with_parent(lambda: os._exit(int(ExitCode.DONE)))
    try:
        follow(folder)
    except Exception:  # a user's step can raise anything; rank 0 sees the broken collective and reports it
        sys.stderr.write(withhold(traceback.format_exc(), secret_values(os.environ)))
        sys.stderr.flush()
        os._exit(int(ExitCode.VERDICT_NO))


def _settle_garbage() -> None:
    """Take what set-up left out of the collector's scans, as servers do; what the steps allocate is collected as ever.

    A full scan of the objects that imports leave behind pauses a process for tens of milliseconds, every few steps.
    """
    # The checkpoints need it: imported now, it does not pause the run at the first one. The whole package, since the
    # libraries that a process has loaded are fields of its executor: they may depend neither on what was measured, nor
    # on which parts of scipy this version asks for.
    import scipy.special  # noqa: F401

    gc.collect()
    gc.freeze()


def _journal(job: Job, folder: Path, unit: str) -> Journal | RollingJournal:
    """Every sample, or slices of them where the contract asks for hours."""
    duration_s = job.contract.protocol.duration_s
    if duration_s is None:
        return Journal(folder)
    inlet, harness = inlet_file(), os.getppid()

    def read() -> SliceReadings:
        return SliceReadings(resident_bytes(os.getpid()), resident_bytes(harness), read_celsius(inlet))

    units = busy_ns = 0

    def tell(written: Slice) -> None:
        nonlocal units, busy_ns
        units, busy_ns = units + written.units, busy_ns + written.latency.sum_ns
        spent_s = job.measured_s + (written.number + 1) * slice_length_s(duration_s)
        rate = units / max(busy_ns, 1) * 1e9
        say_stage(folder, f"{ENDURING}{spent_s / 60:.1f} of {duration_s / 60:g} min, {rate:.4g} {unit}s/s so far")

    offset_ns = time_ns() - perf_counter_ns()
    return RollingJournal(folder, slice_length_s(duration_s), offset_ns, read, tell)


def _stop_rule(job: Job) -> StopRule:
    protocol = job.contract.protocol
    if protocol.duration_s is not None:
        left_s = max(protocol.duration_s - job.measured_s, slice_length_s(protocol.duration_s))
        return StopRule(min_s=left_s, limit_s=left_s, content=lambda iterations: False)

    def content(iterations: Iterations) -> bool:
        return find_phases(iterations, protocol).steady

    return StopRule(min_s=protocol.min_duration_s, limit_s=protocol.limit_s, content=content)


def _profile(session: Session, folder: Path, step_s: float) -> Path | None:
    say_stage(folder, "profile")
    fewest, most = PROFILED_STEPS
    trace = session.profile(int(min(max(PROFILED_S / max(step_s, 1e-9), fewest), most)), folder)
    if trace is None:
        return None
    from lynxbench.attribute.read.trace_columns import condense_trace  # not beside what is measured

    return condense_trace(trace)


def _ceilings(session: Session, folder: Path, known: tuple[Ceiling, ...]) -> tuple[Ceiling, ...]:
    say_stage(folder, "ceilings")
    return session.ceilings(known) if known else session.ceilings()


def write_outputs(path: Path, outputs: Outputs) -> None:
    """Keep answers for the comparison of precisions."""
    np.savez(path, allow_pickle=False, __kind__=outputs.kind, __inputs__=outputs.inputs, **outputs.arrays)


def read_outputs(path: Path) -> Outputs:
    """Answers that a process kept."""
    stored = read_arrays(path)
    arrays = {name: array for name, array in stored.items() if not name.startswith("__")}
    return Outputs(kind=str(stored["__kind__"]), arrays=arrays, inputs=str(stored["__inputs__"]))


if __name__ == "__main__":
    if sys.argv[2:] == [FOLLOW]:
        _follow_until_stopped(Path(sys.argv[1]))
    else:
        leave_report(work, lambda: os._exit(int(ExitCode.INTERRUPTED)))
