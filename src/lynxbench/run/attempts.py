"""Attempts at the processes of a plan: started, watched and read in this one place, and read again from a kept run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from lynxbench.errors import BadInput
from lynxbench.evidence.documents import read_document
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.evidence.whole_files import write_text
from lynxbench.load.fresh_process import ERRORS_FILE, last_words, run_fresh
from lynxbench.load.journal import count_journal
from lynxbench.load.rolling import count_rolled, read_slices
from lynxbench.measure.rolled import RolledProcess, RolledStretch
from lynxbench.measure.telemetry import TelemetrySampler
from lynxbench.model.document import Document
from lynxbench.model.job import FailureKind, JobReport, JobStatus
from lynxbench.model.surroundings import Surroundings
from lynxbench.run.fresh_job import FINISHED_FILE, JOB_FILE, REPORT_FILE, STAGE_FILE
from lynxbench.run.run_outcome import Progress

DEATH_FILE = "death.txt"
NO_REPORT = "the process left no report"
TO_ITS_END = "to its end"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one fresh process of the plan left behind."""

    slot: Slot
    folder: Path
    report: JobReport

    @property
    def done(self) -> bool:
        """Whether it has samples to conclude from."""
        return self.report.status is JobStatus.DONE

    @property
    def why(self) -> str:
        """Why it has none."""
        return self.report.error or (self.report.skip.reason if self.report.skip else "")

    @property
    def trace(self) -> Path | None:
        """The profiler's trace, which lies in its own folder: another process's, or one outside the record, is none."""
        name = self.report.trace
        if name is None:
            return None
        if Path(name).name != name or name.startswith("."):
            raise BadInput(f"attempts/{self.folder.name}: its report names a trace outside its folder ({name[:80]!r})")
        return self.folder / name


@dataclass(frozen=True, slots=True)
class FreshProcess:
    """A process to start: its program and job, what it is given, and which others are known to run beside it."""

    program: str
    job: Document
    threads: int
    around: Surroundings | None = None
    beside: Callable[[], tuple[int, ...]] = tuple


def run_attempt(
    folder: Path,
    slot: Slot,
    process: FreshProcess,
    progress: Progress,
    sampler: TelemetrySampler | None = None,
    label: str = "",
) -> Attempt:
    """Start a process in its folder, watch it, and read its report or its death. A labelled one is not of the plan."""
    write_text(folder / JOB_FILE, process.job.model_dump_json(by_alias=True))
    started = perf_counter()

    def watch(pid: int) -> None:
        if sampler is not None:
            sampler.watch(pid, process.beside())
        stage = (folder / STAGE_FILE).read_text() if (folder / STAGE_FILE).exists() else "start"
        progress.watch(slot, f"{label}{stage}", _finished(folder), perf_counter() - started)

    code = run_fresh(process.program, folder, process.threads, watch, process.around)
    if not (folder / REPORT_FILE).exists():
        died = f"the process ended with code {code} and left no report: {last_words(folder / ERRORS_FILE)}"
        write_text(folder / DEATH_FILE, died)
    attempt = read_attempt(slot, folder)
    if not label:
        progress.end_slot(slot, attempt.report, perf_counter() - started)
    return attempt


def read_attempt(slot: Slot, folder: Path) -> Attempt:
    """What a process left in its folder: its report, or how it died."""
    file, death = folder / REPORT_FILE, folder / DEATH_FILE
    if file.exists():
        return Attempt(slot, folder, read_document(file, JobReport, "no report"))
    error = death.read_text(encoding="utf-8") if death.exists() else NO_REPORT
    return Attempt(slot, folder, JobReport(status=JobStatus.FAILED, error=error))


def earlier_attempt(run: RunFolder, slot: Slot, *, repeats_failures: bool) -> Attempt | None:
    """An attempt that came to an end of its own before a run was interrupted; it is not made again."""
    ended = [read_attempt(slot, folder) for folder in run.attempts(slot) if (folder / REPORT_FILE).exists()]
    final = [attempt for attempt in ended if attempt.report.failure is not FailureKind.FULL_DISK]  # there is room now
    return next((attempt for attempt in final if attempt.done or not repeats_failures), None)


def rolled_process(slot: Slot, folders: Sequence[Path]) -> RolledProcess:
    """What all attempts at an endurance run measured, one after another: each took over where the last one died."""
    attempts = [(read_attempt(slot, folder), read_slices(folder)) for folder in folders]
    last = next(
        (attempt.report for attempt, _ in reversed(attempts) if attempt.done), JobReport(status=JobStatus.FAILED)
    )
    return RolledProcess(
        process=slot.index,
        precision=slot.precision.value,
        setup_ns=last.setup_ns or (0, 0),
        compile_ns=last.compile_ns,
        stretches=tuple(
            RolledStretch(slices, TO_ITS_END if attempt.done else attempt.why) for attempt, slices in attempts if slices
        ),
    )


def measured_before_s(run: RunFolder, slot: Slot) -> float:
    """What earlier attempts at an endurance run measured, in slices that are on the disk; 0 for any other run."""
    if run.registration.contract.protocol.duration_s is None:
        return 0.0
    rolled = [read_slices(folder) for folder in run.attempts(slot)]
    return sum((slices[-1].end_ns - slices[0].start_ns) / 1e9 for slices in rolled if slices)


def kept_attempts(run: RunFolder) -> tuple[Attempt, ...]:
    """What a run concludes from: of each process the attempt that finished, else the last one."""
    concluded: list[Attempt] = []
    for slot in run.registration.plan:
        attempts = [read_attempt(slot, folder) for folder in run.attempts(slot)]
        concluded += [next((attempt for attempt in attempts if attempt.done), attempts[-1])] if attempts else []
    return tuple(concluded)


def kept_samples(run: RunFolder) -> int:
    """How many samples a resumed run finds; a client's requests are on disk when it has ended."""
    folders = [folder for slot in run.registration.plan for folder in run.attempts(slot)]
    return sum(
        _finished(folder) or count_rolled(folder)
        for folder in folders
        if (folder / REPORT_FILE).exists() or not (folder / FINISHED_FILE).exists()
    )


def _finished(folder: Path) -> int:
    """Requests that have ended, or iterations that were journaled."""
    text = (folder / FINISHED_FILE).read_text() if (folder / FINISHED_FILE).exists() else ""
    return int(text) if text.isdigit() else count_journal(folder)
