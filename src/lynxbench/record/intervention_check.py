"""That what interventions say follows from the processes that they ran: gains from samples, words from gains."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Final

from lynxbench.errors import BadResult
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.model.attribution import Attribution, Intervention
from lynxbench.model.result import RULES, PrecisionResult
from lynxbench.model.samples import CountedProcess, ProcessSamples
from lynxbench.model.serving import ServedEngine
from lynxbench.model.verification import Check, CheckOutcome, cannot, fails, holds
from lynxbench.record.plan_check import in_common
from lynxbench.record.value_check import check_attribution, compare, is_by_intervention_alone
from lynxbench.run.intervening import intervened_again, intervention_samples, kept_interventions
from lynxbench.run.server_intervening import changes_again, kept_visits

RECOMPUTED: Final = "the trace's part, and what interventions make of it by their own processes"


def check_intervened(
    label: str, stated: PrecisionResult, made: PrecisionResult, run: RunFolder, rules: int
) -> list[Check]:
    """The attribution of a precision, and the gains of its interventions, a line each.

    `made`: the same precision as its own processes have it, before anything was changed.
    """
    line, gains = f"{label} attribution", f"{label} interventions"
    said, trace = stated.attribution, made.attribution
    tried = () if said is None else said.interventions
    exact = compare(line, said, trace)
    if exact.outcome is CheckOutcome.HOLDS or said is None:
        return [exact, *_unsaid(gains, run, stated)]
    if trace is None and not is_by_intervention_alone(said):
        return [exact]
    try:
        again, untold = _again(run, made, tried, rules)
    except BadResult as error:
        return [fails(gains, str(error)), exact] if tried else [exact]
    measured = compare(gains, tried, () if again is None else again.interventions)
    whole = compare(line, said, again)
    if whole.outcome is CheckOutcome.HOLDS:
        return [holds(line, RECOMPUTED), *([measured] if tried else _unsaid(gains, run, stated)), *untold]
    if measured.outcome is CheckOutcome.HOLDS and rules < RULES:  # words of an edition that had others
        return [check_attribution(line, said, trace), measured, *untold]
    return [whole, measured, *untold] if tried else [exact]


def _again(
    run: RunFolder, made: PrecisionResult, tried: Sequence[Intervention], rules: int
) -> tuple[Attribution | None, list[Check]]:
    """What kept processes make of an attribution, and a line where they do not say what they were given."""
    label = made.precision.value
    if not isinstance(run.registration.contract.engine, ServedEngine):
        return intervened_again(run, made, [one.name for one in tried], rules).attribution, []
    kept = changes_again(run, made, tried)
    untold = [] if kept.all_told else [cannot(f"{label} launches", "kept before visits said how they were launched")]
    return kept.result.attribution, untold


def check_gains(label: str, stated: PrecisionResult, made: PrecisionResult, run: RunFolder, rules: int) -> list[Check]:
    """The gains alone, where the trace that their verdict rests on was left out."""
    gains, said = f"{label} interventions", stated.attribution
    if said is None or not said.interventions or isinstance(run.registration.contract.engine, ServedEngine):
        return []
    base = made.model_copy(update={"attribution": said})
    try:
        again = intervened_again(run, base, [tried.name for tried in said.interventions], rules).attribution
    except BadResult as error:
        return [fails(gains, str(error))]
    assert again is not None
    return [compare(gains, said.interventions, again.interventions)]


def check_copies(run: RunFolder, processes: Sequence[CountedProcess]) -> list[Check]:
    """That no process of an intervention is another one again."""
    changed = intervention_samples(run)
    measured = {f"process {process.samples.process}": process.samples for process in processes}
    pairs: list[tuple[tuple[str, ProcessSamples], tuple[str, ProcessSamples]]] = [
        *product(changed.items(), measured.items()),
        *combinations(changed.items(), 2),
    ]
    for (name, one), (other_name, other) in pairs:
        if shared := in_common(one, other):
            words = f"{name} and {other_name} have {shared} samples in common, to the nanosecond"
            return [fails("processes of interventions", f"{words}: one of them was copied")]
    return [holds("processes of interventions", f"{len(changed)}, each with samples of its own")] if changed else []


def _unsaid(name: str, run: RunFolder, stated: PrecisionResult) -> list[Check]:
    """Processes of interventions of which nothing is stated: what they measured may have contradicted."""
    if isinstance(run.registration.contract.engine, ServedEngine):
        kept = kept_visits(run)
    else:
        kept = kept_interventions(run, stated.precision)
    if not kept or (stated.attribution is not None and stated.attribution.interventions):
        return []
    return [cannot(name, f"{len(kept)} processes of interventions are kept, and nothing is stated of what they gained")]
