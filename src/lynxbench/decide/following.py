"""Whether a decision follows from the results that it cites, as far as these say: whoever edits its file is told.

Prices, demands, catalogues and simulated periods are the word of whoever decided; what is taken from a result, and what
follows from that by arithmetic, is computed again.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from lynxbench.decide.capacity import CapacityDemand, capacity_sentence, measured_saturation
from lynxbench.decide.decision_gate import is_held_back
from lynxbench.decide.possible_figures import impossible_figure
from lynxbench.decide.precision_choice import decide_formats, decide_precisions
from lynxbench.decide.purchase import SAME_CEILING, attribution_of, saturation_point, saturation_ratio
from lynxbench.decide.usable_figures import measured_precision
from lynxbench.decide.whatif import estimate_fix, fix_then_swap, swap_gain, whatif_sentence
from lynxbench.errors import LynxbenchError
from lynxbench.model.attribution import Bound
from lynxbench.model.canonical import JsonValue, short
from lynxbench.model.decisions import DecisionDocument, PrecisionDecision, PurchaseDecision, WhatIf
from lynxbench.model.document import bounds_document
from lynxbench.model.interval import Interval
from lynxbench.model.planning import CapacityPlan, CostReport
from lynxbench.model.result import Result
from lynxbench.record.value_check import first_difference, plain
from lynxbench.stats.fleets import Balancing

DECIDED = ("go", "no-go")


def straying(decision: DecisionDocument, results: Sequence[Result]) -> str:
    """The first thing that a decision states and its results do not give; empty where there is none."""
    by_id = {result.result_id: result for result in results}
    missing = next((name for name in decision.cites if name not in by_id), None)
    if missing is not None:
        return f"it cites {short(missing)}, which is not among its results"
    cited = [by_id[name] for name in decision.cites]
    for result in cited:
        if words := impossible_figure(result):
            return f"{short(result.result_id)} states what nothing measures ({words})"
    try:
        return next(_strayings(decision, cited, by_id), "")
    except LynxbenchError as error:
        return f"it cannot be made of its results: {error}"


def _strayings(decision: DecisionDocument, cited: Sequence[Result], by_id: Mapping[str, Result]) -> Iterator[str]:
    if not any(result.contract_id == decision.contract_id for result in cited):
        yield f"none of its results is of contract {short(decision.contract_id)}"
    if isinstance(decision, CapacityPlan):
        yield from _of_capacity(decision, by_id)
    elif isinstance(decision, PrecisionDecision):
        yield from _of_precision(decision, cited)
    elif isinstance(decision, WhatIf):
        yield from _of_whatif(decision, by_id)
    elif isinstance(decision, CostReport):
        yield from _of_cost(decision, by_id)
    elif isinstance(decision, PurchaseDecision):
        yield from _of_purchase(decision, by_id)


def _differs(name: str, stated: object, again: object) -> Iterator[str]:
    apart = first_difference(_as_document(stated), _as_document(again))
    if apart is not None:
        yield f"{name}: {apart}"


def _as_document(value: object) -> JsonValue:
    if isinstance(value, Interval):
        return plain(bounds_document(value))
    return plain({key: _as_document(part) for key, part in value.items()} if isinstance(value, Mapping) else value)


def _named(name: str, by_id: Mapping[str, Result]) -> Iterator[str]:
    if name not in by_id:
        yield f"it speaks of {short(name)}, which it does not cite"


def _of_capacity(plan: CapacityPlan, by_id: Mapping[str, Result]) -> Iterator[str]:
    yield from _named(plan.result_id, by_id)
    result, demand = by_id[plan.result_id], plan.demand
    search, per_node, _ = measured_saturation(result, measured_precision(result, plan.precision))
    yield from _differs("proposed.per_node_per_s", plan.proposed.per_node_per_s, per_node)
    planned = demand.peak_per_s if demand.percentile_per_s is None else demand.percentile_per_s
    yield from _differs("demand.planned_per_s", demand.planned_per_s, planned * (1 + demand.growth))
    rate = demand.planned_per_s * (1 + plan.headroom)
    for size in (plan.proposed, plan.naive):
        left = size.nodes - plan.failures
        load = rate / (left * size.per_node_per_s) if left > 0 else None
        yield from _differs(f"{size.name}.load", size.load, load)
    left = plan.proposed.nodes - plan.failures
    held = per_node if plan.balancing == Balancing.RANDOM.value else max(per_node, search.ceiling_per_s)
    if left < math.ceil(rate / held - 1e-9):
        yield f"proposed.nodes: {left} of them hold no {rate:.4g} requests/s, with {held:.4g} /s each"
    asked = CapacityDemand(demand, plan.headroom, plan.failures)
    yield from _ends_with(plan.sentence, [capacity_sentence(plan.proposed, asked, result)])


def _of_precision(decision: PrecisionDecision, cited: Sequence[Result]) -> Iterator[str]:
    several = len({result.contract_id for result in cited}) > 1
    again = (decide_formats if several else decide_precisions)(cited)
    judged = {"verdict", "why"}
    stated, made_again = (
        [line.model_dump(mode="json", exclude=judged) for line in lines] for lines in (decision.lines, again.lines)
    )
    yield from _differs("lines", stated, made_again)
    for line, made in zip(decision.lines, again.lines, strict=True):
        if line.verdict in DECIDED and line.verdict != made.verdict:
            yield f"{line.name}: stated {line.verdict}, and its results say {made.verdict}"
    if not is_held_back(decision):
        yield from _differs("sentence", decision.sentence, again.sentence)


def _of_whatif(decision: WhatIf, by_id: Mapping[str, Result]) -> Iterator[str]:
    yield from _named(decision.result_id, by_id)
    result = by_id[decision.result_id]
    attribution = measured_precision(result, decision.precision).attribution or result.attribution
    if attribution is None:
        yield "its result does not say where its time goes"
        return
    yield from _differs("shares", decision.shares, attribution.shares)
    swap, fix = decision.swap, decision.fix
    if fix is not None:
        again = estimate_fix(attribution, fix.category)
        yield from _differs("fix.gain", fix.gain, again.gain)
        yield from _differs("fix.measured", fix.measured, again.measured)
        yield from _differs("fix.fix", fix.fix, again.fix)
        if fix.owner not in (None, again.owner):
            yield f"fix.owner: stated {fix.owner!r}, its result names {again.owner!r}"
    if swap is not None:
        yield from _differs("swap.gain", swap.gain, swap_gain(attribution.shares, swap.factors))
    if swap is not None and fix is not None:
        both = fix_then_swap(attribution.shares, fix.category, fix.gain, swap.factors)
        yield from _differs("both", decision.both, both)
    bounds = (attribution.bound, Bound.UNDETERMINED)
    yield from _ends_with(decision.sentence, [whatif_sentence(swap, fix, bound) for bound in bounds])


def _of_cost(report: CostReport, by_id: Mapping[str, Result]) -> Iterator[str]:
    for option in report.options:
        yield from _named(option.result_id, by_id)
        figures = measured_precision(by_id[option.result_id], option.precision)
        accuracy = figures.accuracy
        yield from _differs(f"{option.name}.throughput", option.throughput, figures.sustained or figures.throughput)
        yield from _differs(f"{option.name}.accuracy_loss", option.accuracy_loss, accuracy and accuracy.loss)
        yield from _differs(
            f"{option.name}.accuracy", option.accuracy, accuracy.verdict if accuracy else "not measured"
        )


def _of_purchase(decision: PurchaseDecision, by_id: Mapping[str, Result]) -> Iterator[str]:
    for answer in decision.answers:
        for name in answer.evidence:
            yield from _named(name, by_id)
    saturated, tested = decision.answers[0], decision.answers[3]
    points = [saturation_point(by_id[name]) for name in (*saturated.evidence[:1], *tested.evidence[1:2])]
    if saturated.answered and (points[0] is None or points[0].words != saturated.says):
        yield f"answer 1: {saturated.says!r} is not what {short(saturated.evidence[0])} shows"
    if decision.supported != "purchase":
        return
    ratio = saturation_ratio(points[0], points[1]) if len(points) > 1 else None
    if ratio is None or not ratio.low > 1 + SAME_CEILING:
        yield "it supports the purchase, and its results show no gain on a test instance"
    attributed = [found for name in saturated.evidence if (found := attribution_of(by_id[name])) is not None]
    if any(found.attribution.bound is Bound.SOFTWARE for found in attributed):
        yield "it supports the purchase, and software bounds today's result"


def _ends_with(sentence: str, possible: Sequence[str]) -> Iterator[str]:
    """What is held back has its reason before the sentence itself."""
    if not any(sentence.endswith(words) for words in possible):
        yield f"sentence: stated {sentence[:80]!r}, its figures say {possible[0][:80]!r}"
