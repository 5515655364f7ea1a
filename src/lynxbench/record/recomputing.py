"""A result's figures once more, from the raw files in its folder, by the function that the run itself called."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lynxbench.errors import BadResult
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.evidence.statement import parse_time
from lynxbench.load.rolling import read_slices
from lynxbench.measure.device_conditions import known_values
from lynxbench.measure.energy import energy_per_request, energy_per_unit
from lynxbench.measure.interruptions import CLOCK_STEP_S
from lynxbench.measure.precision_figures import measure_precisions
from lynxbench.measure.validity import without_figures
from lynxbench.model.activity import WALL_STEP
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES, PrecisionResult, Result, Validity, ValidityVerdict
from lynxbench.model.samples import CountedProcess, ProcessSamples
from lynxbench.model.serving import ServedEngine
from lynxbench.model.standing import WRITTEN_TO
from lynxbench.model.verification import Check, cannot, fails, holds
from lynxbench.model.workload import SaturatingArrival
from lynxbench.record.plan_check import process_problems
from lynxbench.run.attempts import NO_REPORT, kept_attempts
from lynxbench.run.client_results import ServerCounts, saturation_of
from lynxbench.run.concluding import RESTARTED, Conclusion, LiveEvidence, completed, conclude, conclude_from
from lynxbench.run.process_results import with_figures
from lynxbench.run.run_outcome import TELEMETRY_FILE

CLOCKS_APART = 0.001
"""By so much a clock that is kept by changing its speed may run beside that of the samples."""
OWN_DEVICES = 3
"""The edition of the rules since which a result's energy is that of its own devices."""
_FOLDER = re.compile(r"(\d{3,})-(\d{2,})")


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What the raw files say; a reason stands for what they cannot."""

    per_precision: Mapping[Precision, PrecisionResult]
    processes: tuple[CountedProcess, ...]
    conclusion: Conclusion | None = None
    """Everything, where the processes' own files are at hand."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Field of a precision's result → why it could not be recomputed."""
    traceless: Mapping[Precision, str] = field(default_factory=dict)
    """Precisions whose attribution rests on a trace that was left out, and who left it out."""

    @property
    def validity(self) -> Validity | None:
        """The verdict on the whole; None where something that it rests on is missing."""
        return None if self.conclusion is None or self.conclusion.telemetry is None else self.conclusion.validity

    @property
    def deaths(self) -> bool:
        """Whether a process died without a report and nobody wrote down how: the run alone knew."""
        attempts = () if self.conclusion is None else self.conclusion.attempts
        return any(attempt.report.error == NO_REPORT for attempt in attempts)


def recompute_run(result: Result, run: RunFolder, left_out: Mapping[str, str]) -> Recomputed:
    """Everything, from the folder of a run with all its attempts and what the result says was read live.

    `left_out`: traces, by path, that are not here, and who left them out: what rests on them is not computed again.
    """
    conclusion = conclude(run, _stated_live(result, run), result.rules)
    parts = {part.precision: part for part in conclusion.per_precision}
    if result.rules < OWN_DEVICES:
        parts = {name: _of_every_device(part, conclusion, result) for name, part in parts.items()}
    traceless = {
        attempt.slot.precision: f"its trace was {left_out[path]}"
        for attempt in conclusion.attempts
        if (trace := attempt.trace) is not None and (path := trace.relative_to(run.path).as_posix()) in left_out
    }
    if conclusion.telemetry is not None:
        return Recomputed(parts, conclusion.processes, conclusion, traceless=traceless)
    missing = ["validity", "governed_by", "energy_j_per_unit", "energy_j_per_request", "energy_beside", "activity"]
    if any(part.activity is not None or part.load is not None for part in result.per_precision):
        missing.append("attribution")  # the machine's own counters had a say in it
    unknown = dict.fromkeys(missing, f"{TELEMETRY_FILE} is not here")
    return Recomputed(parts, conclusion.processes, conclusion, unknown, traceless)


def _of_every_device(part: PrecisionResult, conclusion: Conclusion, result: Result) -> PrecisionResult:
    """Energy as results before edition 3 counted it: the counters of all devices together."""
    update: dict[str, object] = {"energy_beside": None}
    stated = next((p.energy_j_per_unit for p in result.per_precision if p.precision is part.precision), None)
    if part.energy_beside is not None and stated is not None:
        mine = [process for process in conclusion.processes if process.samples.precision == part.precision.value]
        energy = energy_per_unit(conclusion.telemetry, mine, stated.unit.removeprefix("J/"), every_device=True)
        update["energy_j_per_unit"] = energy
        if part.load is None:
            update["energy_j_per_request"] = energy_per_request(energy, mine, result.contract.workload.batch)
    return part.model_copy(update=update)


def recompute_samples(result: Result, processes: Sequence[CountedProcess]) -> Recomputed:
    """What the samples file alone gives, where the attempts are not at hand."""
    if isinstance(result.contract.engine, ServedEngine):
        return Recomputed({}, (), unknown={"throughput": "the request records of the run are not here"})
    if result.contract.protocol.duration_s is not None:
        return Recomputed({}, (), unknown={"throughput": "the slices of the run are not here"})
    of_each: list[tuple[PrecisionResult, list[ProcessSamples], str]] = []
    for stated in result.per_precision:
        mine = [process.samples for process in processes if process.samples.precision == stated.precision.value]
        figure = stated.throughput or stated.peak or stated.sustained
        if mine:
            of_each.append((stated, mine, figure.unit.removesuffix("s/s") if figure is not None else "unit"))
    together = measure_precisions(result.contract, [(mine, unit) for _, mine, unit in of_each], result.rules)
    parts: dict[Precision, PrecisionResult] = {}
    counted: list[CountedProcess] = []
    for (stated, mine, _), measured in zip(of_each, together, strict=True):
        counted += measured.processes
        part = with_figures(stated.model_copy(update={"restarts": len(mine)}), measured)
        parts[stated.precision] = without_figures(part) if result.validity.verdict is ValidityVerdict.VOID else part
    counted.sort(key=lambda process: process.samples.process)
    return Recomputed(parts, tuple(counted))


def check_edition(result: Result, run: RunFolder, conclusion: Conclusion) -> Check:
    """What today's rules make of the evidence of a result that states an earlier edition, which knew fewer doubts."""
    name = "rules"
    try:
        live = _stated_live(result, run)
        today = conclude_from(conclusion.attempts, conclusion.telemetry, run, live).validity
    except Exception as error:  # rules that came later may ask for what an older run did not leave
        return cannot(name, f"by edition {result.rules}; edition {RULES} cannot be held against it ({error})")
    more = [reason for reason in today.reasons if reason not in result.validity.reasons]
    if not more:
        return holds(name, f"by edition {result.rules}; edition {RULES} finds no doubt that is not stated")
    words = f"{today.verdict.value} ({'; '.join(more)})"
    return cannot(name, f"verdicts by edition {result.rules}, which knew fewer doubts; by edition {RULES}: {words}")


def _stated_live(result: Result, run: RunFolder) -> LiveEvidence:
    """What was read live, as far as the result states it."""
    if not isinstance(result.contract.engine, ServedEngine):
        return LiveEvidence(run.registration.executor, result.executor_drift)
    load = result.per_precision[0].load
    counted = ({}, {}) if load is None else (load.cache.counters, load.server_counters)
    shares_host = "server_host" not in result.executor.layers.get(Layer.SYSTEM, {})
    return LiveEvidence(
        executor=result.executor,
        drift=result.executor_drift,
        restarted=RESTARTED in result.validity.reasons,
        server=ServerCounts(*counted, shares_host=shares_host),
    )


def check_served_executor(result: Result, run: RunFolder, conclusion: Conclusion) -> Check:
    """The executor of a server was read live; beside what drifted it is the one that the run was registered on."""
    from lynxbench.run.served_run import server_drift  # what asks servers is needed for them alone

    registered = completed(run.registration.executor, run, conclusion.attempts)
    told = {(change.layer, change.name) for change in result.executor_drift}
    for change in server_drift(registered, result.executor, started_again=True):
        if (change.layer, change.name) not in told:
            name = f"{change.layer.value}.{change.name}"
            return fails("executor", f"{name}: stated {change.after!r:.60}, registered {change.before!r:.60}")
    return cannot("executor", "as registered; what else was read live from the server nobody can read again")


def check_times(result: Result, conclusion: Conclusion) -> list[Check]:
    """A line where a run lasted less than its processes, one after another: then they were measured before it.

    Nothing is said where the time of day was set meanwhile, which is a doubt of its own.
    """
    columns = {} if conclusion.telemetry is None else conclusion.telemetry.columns
    steps = known_values(columns.get(WALL_STEP))
    lasted_s = (parse_time(result.finished_at) - parse_time(result.started_at)).total_seconds()
    measured = [process.samples.iterations for process in conclusion.processes if len(process.samples.iterations)]
    # Requests overlap, and an endurance run may go on after its machine was started again.
    took_s = sum(min(float(each.seconds.sum()), (each.end_ns[-1] - each.start_ns[0]) / 1e9) for each in measured)
    if result.measuring_s < 0:
        return [fails("times", f"measuring took {result.measuring_s:g} s, it says")]
    longest_s = (lasted_s + WRITTEN_TO.total_seconds()) / (1 - CLOCKS_APART)
    if max(took_s, result.measuring_s) <= longest_s or (abs(steps) > CLOCK_STEP_S).any():
        return []
    what = f"its processes measured for {took_s:.0f} s"
    if took_s <= longest_s:
        what = f"measuring took {result.measuring_s:.0f} s, it says"
    words = f"{what}, and it lasted {lasted_s:.0f} s from its registration to its end"
    if WALL_STEP not in columns:
        return [cannot("times", f"{words}; whether the time of day was set meanwhile, nobody read")]
    return [fails("times", words)]


def check_attempts(result: Result, run: RunFolder, samples: Sequence[CountedProcess] | None) -> list[Check]:
    """Every process of the plan was attempted, no attempt is missing between others, every finished one was counted.

    The plan is that of the contract, each process was told what its place says, and no two have samples in common.
    """
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
    if problem := next(process_problems(run, samples), ""):
        return [fails(name, problem)]
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


def check_rollups(run: RunFolder) -> list[Check]:
    """What is left of an endurance run's samples: rollups, and raw excerpts that have to lie within them."""
    if run.registration.contract.protocol.duration_s is None:
        return []
    try:
        slices = [
            each for slot in run.registration.plan for folder in run.attempts(slot) for each in read_slices(folder)
        ]
    except BadResult as error:
        return [fails("rollups", str(error))]
    iterations = sum(each.latency.count for each in slices)
    raw = sum(len(excerpt.start_ns) for each in slices for excerpt in each.excerpts)
    return [
        holds("rollups", f"{len(slices)} slices; the figures are computed again from their counts, sums and sketches"),
        holds("excerpts", f"{raw} iterations kept raw, each within its slice's rollup"),
        cannot("rolled-up samples", f"{iterations - raw} of {iterations} iterations are in rollups alone"),
    ]
