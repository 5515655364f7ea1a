"""`verify`: everything a result states, recomputed from the raw files in its folder, one named line each.

Knows nothing of ledgers: whoever has signatures and inclusion proofs to check adds those lines as `extra_checks`.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from lynxbench import __version__
from lynxbench.errors import BadResult, EvidenceInvalid, LynxbenchError, first_line
from lynxbench.evidence.documents import RESULT_FILE, parse_identified, read_bytes
from lynxbench.evidence.manifest import MANIFEST_FILE, Difference, differences, read_manifest, walk
from lynxbench.evidence.run_folder import REGISTRATION_FILE, RunFolder
from lynxbench.evidence.sample_file import encode_samples, hash_file, read_samples
from lynxbench.model.document import first_problem
from lynxbench.model.result import RULES, PrecisionResult, Result
from lynxbench.model.samples import CountedProcess
from lynxbench.model.serving import ServedEngine
from lynxbench.model.verification import (
    FIGURES_LINE,
    TRACE_LINE,
    Check,
    CheckOutcome,
    VerificationReport,
    cannot,
    fails,
    holds,
)
from lynxbench.record.intervention_check import check_copies, check_gains, check_intervened
from lynxbench.record.plan_check import claim_problems
from lynxbench.record.recomputing import (
    Recomputed,
    check_attempts,
    check_edition,
    check_rollups,
    check_served_executor,
    check_times,
    recompute_run,
    recompute_samples,
)
from lynxbench.record.telemetry_check import check_telemetry
from lynxbench.record.value_check import check_saturation, compare, under_older_rules
from lynxbench.run.concluding import context_of, first_attribution
from lynxbench.run.process_results import SAMPLE_FIGURES
from lynxbench.run.run_outcome import TELEMETRY_FILE

FIGURES: Final = (
    *("throughput", "run_means", "latency_ms", "peak", "sustained", "steady", "slo", "restarts", "governed_by"),
    *("energy_j_per_unit", "energy_j_per_request", "activity", "accuracy", "native", "executed", "memory_bytes"),
    *("device_memory_bytes", "skipped", "validity", "attribution_missing", "energy_beside", "endurance"),
)
"""Fields of a precision's result that have a line each. Attribution and load have lines of their own."""
WORDS: Final = {
    "latency_ms": "latency percentiles",
    "steady": "steady state",
    "slo": "objective",
    "governed_by": "governor",
    "energy_j_per_unit": "energy",
    "energy_j_per_request": "energy of a request",
    "energy_beside": "energy of other devices",
    "executed": "executed as",
    "memory_bytes": "memory",
    "device_memory_bytes": "device memory",
}
"""How a field's line is called, where that is not its name."""
LIVE: Final = "read live from the server; nobody can read it again"
NOT_HERE: Final = "the processes' own files are not here"
LOAD_FIGURES: Final = (
    "load", "budget", "accounting", "offered_per_s", "requests_per_s", "goodput_per_s", "in_flight_mean", "tokens",
    "cache", "instrument", "saturation", "records",
)  # fmt: skip
LOAD_FIGURES_OF_SOME: Final = ("sources", "models", "sessions", "answers", "mlperf", "speculation", "node", "kernels")
"""Those that few contracts ask for: each has a line where it is stated, or should have been."""


def verify_folder(
    path: Path, extra_checks: Sequence[Check] = (), left_out: Mapping[str, str] | None = None
) -> VerificationReport:
    """Recompute a result from its folder (or the document in it). BadResult only where there is nothing to verify.

    `left_out`: traces, by path, that a bundle came without, and who signed that; any other file that is missing fails.
    """
    folder, document = (path, path / RESULT_FILE) if path.is_dir() else (path.parent, path)
    data = read_bytes(document)
    checks: list[Check] = []
    absent = {path: said for path, said in (left_out or {}).items() if not (folder / path).exists()}
    damaged = _check_files(folder, checks, absent)
    try:
        result, written_id = parse_identified(data, document.name)
    except BadResult as error:
        checks.append(fails("result document", str(error)))
        return VerificationReport("", (*checks, *extra_checks))
    checks += _check_ids(result, written_id)
    raw = [difference for difference in damaged if difference.path != RESULT_FILE]
    checks += _check_stated_files(result, folder)
    linked = any(check.name == "folder" and check.outcome is CheckOutcome.DOES_NOT_HOLD for check in checks)
    if raw or linked:
        what = raw[0].path if raw else "the folder"
        checks.append(cannot(FIGURES_LINE, f"{what} is not what was recorded; figures from it would prove nothing"))
    else:
        checks += guarded("raw files", lambda: _recomputed_checks(result, folder, absent))
    if result.lynxbench_version != __version__:
        made_by = f"made by lynxbench {result.lynxbench_version}, it says; recomputed by {__version__}"
        checks.append(cannot("program", made_by))
    return VerificationReport(result.result_id, (*checks, *extra_checks))


# --- files and ids ---------------------------------------------------------------------------------------------------


def _check_files(folder: Path, checks: list[Check], absent: Mapping[str, str]) -> tuple[Difference, ...]:
    """Lines on the folder itself; returns the files that are not what was recorded."""
    try:
        count = sum(1 for _ in walk(folder))
    except EvidenceInvalid as error:
        checks.append(fails("folder", str(error)))
        return ()
    checks.append(holds("folder", f"{count} plain files"))
    try:
        manifest = read_manifest(folder)
    except EvidenceInvalid as error:
        checks.append(fails("manifest", str(error)))
        return (Difference(MANIFEST_FILE, "", ""),)
    if manifest is None:
        checks.append(cannot("manifest", f"{MANIFEST_FILE} is not here; files are held against the result alone"))
        return ()
    damaged = tuple(file for file in differences(folder, manifest) if file.path not in absent)
    checks += [cannot(f"{TRACE_LINE} {path}", said) for path, said in absent.items()]
    checks += [fails(f"file {file.path}", f"stated {file.stated}, found {file.actual}") for file in damaged]
    if not damaged:
        checks.append(holds("manifest", f"{len(manifest.files) - len(absent)} files by SHA-256"))
    return damaged


def _check_ids(result: Result, written_id: str) -> list[Check]:
    pairs = (
        ("result id", result.result_id, written_id),
        ("contract id", result.contract_id, result.contract.contract_id),
        ("executor id", result.executor_id, result.executor.executor_id),
        ("instance id", result.instance_id, result.executor.instance_id),
    )
    return [_same_digest(name, stated, recomputed) for name, stated, recomputed in pairs]


def _same_digest(name: str, stated: str, recomputed: str, words: str = "") -> Check:
    if stated == recomputed:
        return holds(name, words)
    return fails(name, f"stated {stated[:12]}…, recomputed {recomputed[:12]}…")


def _check_stated_files(result: Result, folder: Path) -> list[Check]:
    """The files whose hashes the result itself names."""
    named = [("samples file", result.samples.file, result.samples.sha256)]
    for part in result.per_precision:
        if part.load is not None:
            named += [(f"request record {record.file}", record.file, record.sha256) for record in part.load.records]
    return [_hash_check(name, folder, relative, stated) for name, relative, stated in named]


def _hash_check(name: str, folder: Path, relative: str, stated: str) -> Check:
    path = folder / relative
    if Path(relative).is_absolute() or ".." in Path(relative).parts or path.is_symlink():
        return fails(name, f"{relative!r} leads out of the folder")
    return _same_digest(name, stated, hash_file(path)) if path.is_file() else cannot(name, f"{relative} is not here")


# --- figures ---------------------------------------------------------------------------------------------------------


def guarded(name: str, work: Callable[[], list[Check]]) -> list[Check]:
    """Files of strangers can be wrong in any way: whatever they make a reader raise is a line, not a crash."""
    try:
        return work()
    except LynxbenchError as error:
        return [fails(name, str(error))]
    except ValidationError as error:
        return [fails(name, f"cannot be read: of {error.title}, {first_problem(error)}")]
    except Exception as error:
        return [fails(name, f"cannot be read ({type(error).__name__}: {first_line(error)[:200]})")]


def _recomputed_checks(result: Result, folder: Path, absent: Mapping[str, str]) -> list[Check]:
    checks: list[Check] = []
    samples = _samples(result, folder, checks)
    if (folder / TELEMETRY_FILE).is_file():
        checks += guarded("telemetry", lambda: check_telemetry(folder / TELEMETRY_FILE))
    run: RunFolder | None = None
    if (folder / REGISTRATION_FILE).exists():
        run = RunFolder.open(folder)
        checks += _check_registration(result, run)
    else:
        checks.append(cannot("registration", f"{REGISTRATION_FILE} is not here"))
    if run is not None and (folder / "attempts").is_dir():
        checks += check_attempts(result, run, samples)
        checks += (rollups := check_rollups(run))
        if any(check.outcome is CheckOutcome.DOES_NOT_HOLD for check in rollups):
            return [*checks, cannot(FIGURES_LINE, "a rollup contradicts itself; figures from it would prove nothing")]
        again = recompute_run(result, run, absent)
    elif samples is not None:
        checks.append(cannot("attempts", "the processes' own files are not here; figures are from the samples file"))
        again = recompute_samples(result, samples)
    else:
        return [*checks, cannot(FIGURES_LINE, "neither the attempts nor the samples of this result are here")]
    checks += _check_samples(result, samples, again)
    for stated in result.per_precision:
        checks += _check_precision(stated, again, run, result.rules)
    checks += _check_whole(result, again, run)
    if result.rules != RULES:
        checks = under_older_rules(result, again.per_precision, again.validity, checks)
        if run and again.conclusion and again.validity and result.rules < RULES:
            checks.append(check_edition(result, run, again.conclusion))
    return [*checks, _check_recomputed(result, samples, again)]


def _check_recomputed(result: Result, samples: tuple[CountedProcess, ...] | None, again: Recomputed) -> Check:
    """Whether every figure that is stated was computed again, from everything that it rests on."""
    lacks = [] if again.conclusion is not None else [f"{REGISTRATION_FILE} with every attempt"]
    lacks += [] if samples is not None else [result.samples.file]
    lacks += [TELEMETRY_FILE] if again.conclusion is not None and again.validity is None else []
    stated = [part.precision for part in result.per_precision]
    lacks += [f"what {precision.value} rests on" for precision in stated if precision not in again.per_precision]
    if lacks or not stated:
        missing = " and ".join(lacks) or "any precision"
        return cannot(FIGURES_LINE, f"{missing} is not here; what is stated was not computed again")
    return holds(FIGURES_LINE, "computed again from registration, attempts, samples and telemetry")


def _samples(result: Result, folder: Path, checks: list[Check]) -> tuple[CountedProcess, ...] | None:
    file = folder / Path(result.samples.file).name
    if not file.is_file() or hash_file(file) != result.samples.sha256:
        return None
    samples = read_samples(file)
    rows = sum(len(process.samples.iterations) for process in samples)
    marks = sum(len(process.samples.marks.at_ns) for process in samples)
    if (rows, marks) == (result.samples.rows, result.samples.marks):
        what = "iterations" if result.contract.protocol.duration_s is None else "slices"
        checks.append(holds("samples counted", f"{rows} {what}, {marks} marks"))
    else:
        stated = f"{result.samples.rows} rows and {result.samples.marks} marks"
        checks.append(fails("samples counted", f"stated {stated}, recomputed {rows} and {marks}"))
    return samples


def _check_samples(result: Result, samples: tuple[CountedProcess, ...] | None, again: Recomputed) -> list[Check]:
    """The samples file is what the processes journaled, with the phases that follow from it."""
    name = "samples and phases"
    if samples is None:
        return [cannot(name, f"{result.samples.file} is not here, or not the one the result names")]
    if not again.processes and samples:
        return [cannot(name, "the raw files they were drawn from are not here")]
    digest = hashlib.sha256(encode_samples(again.processes)).hexdigest()
    return [_same_digest(name, result.samples.sha256, digest, "as the processes recorded them")]


def _check_registration(result: Result, run: RunFolder) -> list[Check]:
    registered = run.registration
    pairs = (
        ("registration run id", result.run_id, registered.run_id),
        ("registration contract", result.contract_id, registered.contract.contract_id),
        ("registration contract id", registered.contract_id, registered.contract.contract_id),
        ("registration time", result.started_at, registered.registered_at),
        ("registration nonce", result.run_id.rpartition("-")[2], registered.nonce[:6]),
    )
    return [
        holds(name) if stated == announced else fails(name, f"stated {stated}, registered {announced}")
        for name, stated, announced in pairs
    ]


def _check_precision(stated: PrecisionResult, again: Recomputed, run: RunFolder | None, rules: int) -> list[Check]:
    label = stated.precision.value
    part = again.per_precision.get(stated.precision)
    if part is None:
        why = next(iter(again.unknown.values()), "no process of it is in the samples")
        if stated.throughput is None and stated.skipped is not None:
            return [cannot(f"{label} skipped", NOT_HERE)]
        return [cannot(f"{label} figures", why) if again.unknown else fails(f"{label} figures", why)]
    checks = []
    for name in FIGURES:
        line = f"{label} {WORDS.get(name, name.replace('_', ' '))}"
        if name in again.unknown:
            checks.append(cannot(line, again.unknown[name]))
        elif again.conclusion is None and name not in (*SAMPLE_FIGURES, "restarts"):
            continue
        elif name == "attribution_missing" and stated.precision in again.traceless:
            continue  # its attribution has a line
        elif name == "validity" and again.deaths:
            checks.append(_after_a_death(line, stated, part))
        else:
            checks.append(compare(line, getattr(stated, name), getattr(part, name)))
    if again.conclusion is None:
        return [*checks, cannot(f"{label} accuracy, attribution, validity", NOT_HERE)]
    assert run is not None
    if stated.precision in again.traceless:
        checks.append(cannot(f"{label} attribution", again.traceless[stated.precision]))
        checks += check_gains(label, stated, part, run, rules)
    elif "attribution" in again.unknown:
        checks.append(cannot(f"{label} attribution", again.unknown["attribution"]))
    else:
        checks += check_intervened(label, stated, part, run, rules)
    if stated.load is not None and part.load is not None:
        for name in LOAD_FIGURES:
            line = f"{label} {name.removesuffix('_per_s').replace('_', ' ')}"
            checks.append(compare(line, getattr(stated.load, name), getattr(part.load, name)))
        for name in LOAD_FIGURES_OF_SOME:
            sides = getattr(stated.load, name), getattr(part.load, name)
            checks += [compare(f"{label} {name}", *sides)] if any(sides) else []
        checks += check_saturation(f"{label} saturation", stated.load.saturation)
        if stated.load.saturation is not None:
            problem = next(claim_problems(run, again.conclusion.attempts), "")
            name = f"{label} saturation claim"
            checks.append(fails(name, problem) if problem else holds(name, "the runs after it were asked at that rate"))
        checks.append(cannot(f"{label} server counters", LIVE))
        if stated.load.cache.counters:
            checks.append(cannot(f"{label} cache counters", LIVE))
        if stated.load.server_counters and stated.attribution is not None:
            why = "where a request's time went inside the server is by its counters, as they are stated"
            checks.append(cannot(f"{label} attribution inside the server", why))
    elif (stated.load is None) != (part.load is None):
        checks.append(fails(f"{label} load", "stated and recomputed differ in whether a server was asked"))
    return checks


def _after_a_death(line: str, stated: PrecisionResult, part: PrecisionResult) -> Check:
    if stated.validity.verdict is not part.validity.verdict:
        return compare(line, stated.validity, part.validity)
    return cannot(line, "a process died without a report, and its last words were known to the run alone")


def _check_whole(result: Result, again: Recomputed, run: RunFolder | None) -> list[Check]:
    made, registered = again.conclusion, result.conditions if run is None else run.registration
    conditions, assumptions = context_of(result.contract, registered.threads, registered.clients)
    checks = [
        compare("conditions", result.conditions, conditions),
        compare("assumptions", result.assumptions, assumptions),
        compare("attribution", result.attribution, first_attribution(result.per_precision)),
        compare("precisions", [part.precision.value for part in result.per_precision],
                [precision.value for precision in result.contract.workload.precisions]),
    ]  # fmt: skip
    if made is None or run is None:
        checks.append(cannot("executor", NOT_HERE))
    elif isinstance(result.contract.engine, ServedEngine):
        checks.append(check_served_executor(result, run, made))
        checks.append(cannot("restarts of the server", "whether it was the same server all the time the run alone saw"))
    else:
        checks.append(compare("executor", result.executor, made.executor))
        checks += check_copies(run, made.processes)
    if made is not None:
        checks.append(compare("ceilings", result.ceilings, made.ceilings))
    if again.validity is None:
        checks.append(cannot("validity", next(iter(again.unknown.values()), NOT_HERE)))
    elif again.deaths and again.validity.verdict is result.validity.verdict:
        checks.append(cannot("validity", "the verdict holds; the words of a process that died were known to the run"))
    else:
        checks.append(compare("validity", result.validity, again.validity))
    checks += check_times(result, made) if made is not None else []
    checks.append(cannot("executor drift and times", "clocks and the machine were read while it ran"))
    return checks
