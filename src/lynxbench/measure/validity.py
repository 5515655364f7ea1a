"""Whether the figures may be used at all: valid, doubtful with reasons, or void."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lynxbench.measure.precision_figures import MeasuredPrecision
from lynxbench.model.contract import Protocol
from lynxbench.model.executor import FieldChange
from lynxbench.model.result import PrecisionResult, Validity, ValidityVerdict
from lynxbench.model.verdicts import SteadyVerdict

FEWEST_ITERATIONS = 10
"""Fewer counted iterations than this in all cannot carry a percentile, let alone a tail."""


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


def judge_drift(changes: Sequence[FieldChange]) -> list[Doubt]:
    """An executor that changed while it was measured is not one executor."""
    return [
        Doubt(f"executor changed during the run: {c.layer.value}.{c.name} {c.before!r} → {c.after!r}", void=True)
        for c in changes
    ]


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
