"""Which figures of a result a decision may rest on, and what to run where they are missing."""

from collections.abc import Sequence

from lynxbench.errors import BadInput, Refused
from lynxbench.model.canonical import short
from lynxbench.model.precision import Precision
from lynxbench.model.result import PrecisionResult, Result, ValidityVerdict

OPEN_LOOP_COMMAND = (
    "Run a contract with `arrival: {process: saturating}` and a latency bound: lynxbench run chat-serving"
)


def is_usable(result: Result, figures: PrecisionResult) -> bool:
    """Whether figures of this precision are the executor's at all."""
    void = ValidityVerdict.VOID
    return figures.skipped is None and result.validity.verdict is not void and figures.validity.verdict is not void


def measured_precision(result: Result, precision: Precision | None) -> PrecisionResult:
    """The precision asked for, or the only or first usable one; Refused where its figures may not be used."""
    known = [figures for figures in result.per_precision if figures.skipped is None]
    if precision is not None:
        known = [figures for figures in known if figures.precision is precision]
        if not known:
            had = ", ".join(figures.precision for figures in result.per_precision if figures.skipped is None) or "none"
            raise BadInput(f"--precision {precision}: result {short(result.result_id)} measured {had}")
    usable = [figures for figures in known if is_usable(result, figures)]
    if not usable:
        reasons = "; ".join(result.validity.reasons) or "every precision was skipped or is void"
        raise Refused(f"result {short(result.result_id)} is void ({reasons}): no decision rests on it")
    return usable[0]


def newest(results: Sequence[Result]) -> Result | None:
    """The result that was measured last."""
    return max(results, key=lambda result: result.started_at, default=None)


def one_contract(results: Sequence[Result], wanted: str | None = None) -> tuple[Result, ...]:
    """Results of one contract, oldest first: the one asked for by name or id, or the only one there is."""
    chosen = list(results)
    if wanted is not None:
        chosen = [
            result for result in chosen if wanted == result.contract.name or result.contract_id.startswith(wanted)
        ]
        if not chosen:
            names = ", ".join(sorted({result.contract.name for result in results})) or "no result at all"
            raise BadInput(f"--for {wanted}: no result of this contract; there are results of {names}")
    ids = {result.contract_id for result in chosen}
    if len(ids) > 1:
        names = ", ".join(sorted({f"{result.contract.name} ({short(result.contract_id)})" for result in chosen}))
        raise Refused(f"results of {len(ids)} contracts ({names}) answer different questions; choose one with --for")
    return tuple(sorted(chosen, key=lambda result: result.started_at))
