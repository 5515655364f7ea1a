"""Evidence with one planted shortfall each, for whoever must not say more than it carries."""

from __future__ import annotations

from collections.abc import Callable

from lynxbench.model.agreement import TeamAgreement
from lynxbench.model.attribution import Bound
from lynxbench.model.evidence_gate import Lack
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native
from lynxbench.model.result import PrecisionResult, Result, Steady, Validity, ValidityVerdict
from lynxbench.model.standing import Remark, Standing
from lynxbench.model.verdicts import SteadyVerdict

FOREIGN = "foreign load: other programs used 71 % of the CPUs while counting (the contract allows 10 %)"
DOUBTS = (
    "throttling: gpu0 thermal slowdown in 40 % of 300 samples while counting",
    "clock change: gpu0 sm between 1200 and 1980 MHz (39 %) while counting",
    "memory pressure: 0.1 GiB (1 %) of memory were free at the least",
    "stalls: one iteration took more than 10 times the median (longest 4.00 s) and 9.0 % of the counted time",
    "telemetry has gaps: 20.0 of 60.0 s counted went by without a reading (longest 9.0 s)",
    "no telemetry was kept: foreign load, clocks and memory are unknown",
    "a process failed: out of memory",
    "3 of 5 processes finished",
    "the interval of the mean spans a factor of 834,035: the processes do not agree on the order of magnitude",
    "the time of day moved by +3600 s against the clock of the samples",
)
TEAM = "ML platform"

Plant = Callable[[Result], Result]


def signed(*results: Result, by: tuple[str, ...] = (TEAM,)) -> dict[str, Standing]:
    """Standings of results that a trusted team signed, and nobody says anything against."""
    return {r.result_id: Standing(result_id=r.result_id, signed_by=by, registered=True) for r in results}


def each(result: Result, **changes: object) -> Result:
    """The result with every measured precision changed."""
    parts = tuple(p if p.skipped else p.model_copy(update=changes) for p in result.per_precision)
    return result.model_copy(update={"per_precision": parts})


def doubted(reason: str) -> Plant:
    """Doubtful for one reason, at every precision, as a run writes it."""

    def plant(result: Result) -> Result:
        doubt = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=(reason,))
        names = tuple(f"{p.precision.value}: {reason}" for p in result.per_precision if not p.skipped)
        whole = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=names)
        return each(result, validity=doubt).model_copy(update={"validity": whole})

    return plant


def unsteady(verdict: SteadyVerdict) -> Plant:
    """A series that did not settle, or was not shown to."""

    def plant(result: Result) -> Result:
        reason = "the last third differs from the first"
        parts = []
        for part in result.per_precision:
            known = part.steady or _steady()
            moved = known.model_copy(update={"verdict": verdict, "reason": reason})
            parts.append(part if part.skipped else part.model_copy(update={"steady": moved}))
        doubtful = doubted(f"{verdict.value} ({reason})")
        return doubtful(result.model_copy(update={"per_precision": tuple(parts)}))

    return plant


def weak(result: Result) -> Result:
    """An attribution in which no category stands out."""

    def weakened(part: PrecisionResult) -> PrecisionResult:
        named = part.attribution
        return (
            part if named is None else part.model_copy(update={"attribution": named.model_copy(update={"weak": True})})
        )

    whole = result.attribution and result.attribution.model_copy(update={"weak": True})
    parts = tuple(map(weakened, result.per_precision))
    return result.model_copy(update={"attribution": whole, "per_precision": parts})


def hardware_bound(result: Result) -> Result:
    """The same where the hardware is the limit: the one case in which a swap can be the answer."""

    def turned(part: PrecisionResult) -> PrecisionResult:
        named = part.attribution
        return part if named is None else part.model_copy(update={"attribution": named.model_copy(update=update)})

    update = {"bound": Bound.HARDWARE, "layer": Layer.ACCELERATOR, "owner": "hardware engineering", "weak": False}
    whole = result.attribution and result.attribution.model_copy(update=update)
    return result.model_copy(update={"attribution": whole, "per_precision": tuple(map(turned, result.per_precision))})


OF_EVIDENCE: dict[str, tuple[Lack, Plant]] = {
    "foreign load": (Lack.FOREIGN_LOADED, doubted(FOREIGN)),
    "not steady": (Lack.UNSTEADY, unsteady(SteadyVerdict.NOT_STEADY)),
    "inconclusive": (Lack.UNSTEADY, unsteady(SteadyVerdict.INCONCLUSIVE)),
    "emulated": (Lack.EMULATED, lambda result: each(result, native=Native.EMULATED)),
    "weak": (Lack.WEAK, weak),
    **{reason.split(":")[0][:40]: (Lack.DOUBTFUL, doubted(reason)) for reason in DOUBTS},
}
"""By name: what it lacks, and how that is planted."""


def _remark(text: str) -> tuple[Remark, ...]:
    return (Remark(by="another team", trusted=True, at="2026-01-01T00:00:00+00:00", text=text),)


OF_STANDING: dict[str, tuple[Lack, dict[str, object] | None]] = {
    "in no ledger": (Lack.UNTRUSTED, None),
    "signed by a stranger": (Lack.UNTRUSTED, {"signed_by": ()}),
    "does not verify": (Lack.REFUTED, {"refuted": _remark("does not")}),
    "retracted": (Lack.RETRACTED, {"retracted": _remark("wrong model")}),
    "not agreed": (Lack.NOT_AGREED, {"agreement": TeamAgreement(teams=("alpha", "bravo"))}),
}
"""By name: what it lacks, and how its standing differs from a sound one; None: nobody knows the result."""


def stands(name: str, *results: Result) -> dict[str, Standing]:
    """Standings with one planted shortfall."""
    changes = OF_STANDING[name][1]
    if changes is None:
        return {}
    return {key: standing.model_copy(update=changes) for key, standing in signed(*results).items()}


def _steady() -> Steady:
    from lynxbench.model.interval import Interval

    return Steady(
        verdict=SteadyVerdict.STEADY,
        reason="",
        drift=Interval(-0.001, 0.0, 0.001),
        counted_s=60.0,
        counted_iterations=600,
        executed_s=70.0,
        excluded=(),
        per_process=("steady",),
    )
