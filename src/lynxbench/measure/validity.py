"""Whether the figures may be used at all: valid, doubtful with reasons, or void."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lynxbench.measure.energy import counted_span_ns
from lynxbench.measure.interruptions import judge_agreement, judge_iterations, judge_watch
from lynxbench.measure.precision_figures import MeasuredPrecision
from lynxbench.measure.run_conditions import judge_conditions
from lynxbench.model.contract import Contract, Protocol
from lynxbench.model.executor import Executor, FieldChange
from lynxbench.model.layers import Layer
from lynxbench.model.result import RULES, PrecisionResult, Validity, ValidityVerdict
from lynxbench.model.samples import Telemetry
from lynxbench.model.verdicts import SteadyVerdict

FEWEST_ITERATIONS = 10
"""Fewer counted iterations than this in all cannot carry a percentile, let alone a tail."""
UNWATCHED = "no telemetry was kept: foreign load, clocks and memory are unknown"
INTERRUPTIONS = 3
"""The edition of the rules since which stalls, gaps, clock steps and processes that disagree are doubts."""
SETTINGS = 4
"""… since which launches that block are one."""
BLOCKING = "CUDA_LAUNCH_BLOCKING"


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason for doubt; a void one makes the figures unusable."""

    reason: str
    void: bool = False


def judge_precision(measured: MeasuredPrecision, protocol: Protocol, failures: Sequence[str]) -> list[Doubt]:
    """What the samples of one precision themselves give reason to doubt."""
    findings = [Doubt(f"a process failed: {failure}") for failure in failures]
    done = len(measured.run_means)
    if done < protocol.restarts:
        findings.append(Doubt(f"{done} of {protocol.restarts} processes finished"))
    if measured.steady.counted_iterations < FEWEST_ITERATIONS:
        findings.append(
            Doubt(f"too few samples: {measured.steady.counted_iterations} counted iterations", void=done == 0)
        )
    if measured.steady.verdict is not SteadyVerdict.STEADY:
        findings.append(Doubt(f"{measured.steady.verdict.value} ({measured.steady.reason})"))
    return findings


def judge_evidence(
    measured: MeasuredPrecision,
    telemetry: Telemetry | None,
    contract: Contract,
    failures: Sequence[str],
    *,
    overlapping: bool = False,
    rules: int = RULES,
) -> list[Doubt]:
    """Everything that samples and telemetry of one precision give reason to doubt.

    Requests are `overlapping`: one that waits long holds up no other, and its wait is what is measured.
    """
    protocol, processes = contract.protocol, measured.processes
    spans = [span for span in map(counted_span_ns, processes) if span[1] > span[0]]
    reasons: list[str] = []
    if rules >= INTERRUPTIONS:
        if not overlapping:
            reasons += judge_iterations(processes, protocol.steady.drift)
        reasons += judge_agreement(processes, measured.throughput)
    if telemetry is not None:
        reasons += judge_conditions(telemetry, spans, protocol, contract.owner, rules)
        reasons += judge_watch(telemetry, spans) if rules >= INTERRUPTIONS else ()
    elif rules >= INTERRUPTIONS:
        reasons.append(UNWATCHED)
    return [*judge_precision(measured, protocol, failures), *(Doubt(reason) for reason in reasons)]


def judge_drift(changes: Sequence[FieldChange]) -> list[Doubt]:
    """An executor that changed while it was measured is not one executor."""
    return [
        Doubt(f"executor changed during the run: {c.layer.value}.{c.name} {c.before!r} → {c.after!r}", void=True)
        for c in changes
    ]


def judge_settings(executor: Executor, owner: Callable[[Layer], str]) -> list[Doubt]:
    """A debugger's setting that makes the host wait for every kernel: what is measured is nobody's usual step."""
    environment = executor.get(Layer.SYSTEM, "environment")
    if not isinstance(environment, dict) or environment.get(BLOCKING, "0") in ("", "0"):
        return []
    evidence = f"{BLOCKING} is set, so the host waits for every kernel"
    return [Doubt(f"blocking launches: {evidence} (layer {Layer.SYSTEM}, {owner(Layer.SYSTEM)})")]


def combine_validity(whole: Sequence[Doubt], parts: Mapping[str, Validity]) -> Validity:
    """The run's validity: what concerns all of it, and the reasons of each attempted precision under its name.

    A precision that failed voids itself, not the run, as long as another one was measured.
    """
    findings = list(whole)
    all_void = all(part.verdict is ValidityVerdict.VOID for part in parts.values())
    for name, part in parts.items():
        findings += [Doubt(f"{name}: {reason}", void=all_void) for reason in part.reasons]
    return validity_of(findings)


def without_figures(result: PrecisionResult) -> PrecisionResult:
    """A void run's figures are nobody's: the samples stay as evidence, the numbers are not presented."""
    figures = (
        "throughput",
        "sustained",
        "peak",
        "energy_j_per_unit",
        "energy_j_per_request",
        "energy_beside",
        "activity",
        "attribution",
    )
    emptied: dict[str, object] = {**dict.fromkeys(figures), "latency_ms": {}, "slo": (), "run_means": ()}
    return result.model_copy(update=emptied)


def validity_of(findings: Sequence[Doubt]) -> Validity:
    """The worst finding decides; the reasons are kept, void ones first."""
    ordered = sorted(findings, key=lambda finding: not finding.void)
    if any(finding.void for finding in findings):
        verdict = ValidityVerdict.VOID
    elif findings:
        verdict = ValidityVerdict.DOUBTFUL
    else:
        verdict = ValidityVerdict.VALID
    return Validity(verdict=verdict, reasons=tuple(dict.fromkeys(finding.reason for finding in ordered)))
