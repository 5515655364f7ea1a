"""The rules that concern both results as a whole: contracts, versions, record, standing, model."""

import json
from collections.abc import Iterator

from pydantic import JsonValue

from lynxbench.compare.pair import ComparedPair, ComparedSide, RuleFinding, breaks, differs, doubts
from lynxbench.compare.rules import rule_of_key
from lynxbench.model.comparison import ContractDifference
from lynxbench.model.evidence_gate import Lack, standing_falls_short, whole_reasons
from lynxbench.model.executor import Executor, Status
from lynxbench.model.layers import Layer
from lynxbench.model.result import ValidityVerdict
from lynxbench.model.standing import agreement_shown

RECORDED_LAYERS = (Layer.FRAMEWORK, Layer.SYSTEM, Layer.ACCELERATOR)
"""Layers that a machine can always say something about; without them there is no record."""
MODEL_SHAPE = ("architecture", "parameters", "weights_dtype", "quantisation")
_LONGEST = 60


def judge_whole(pair: ComparedPair) -> Iterator[RuleFinding]:
    """Everything that does not depend on a precision."""
    for difference in pair.differences:
        yield from _contract_key(pair, difference)
    yield from _versions(pair)
    for side in pair.sides:
        yield from _validity(side)
        yield from _record(side)
        yield from _standing(side)
    yield from _layers_recorded(pair)
    yield from _clients(pair)
    yield from _model(pair)


def _contract_key(pair: ComparedPair, difference: ContractDifference) -> Iterator[RuleFinding]:
    judge, reason = breaks if difference.breaks else differs, difference.reason
    if difference.key == "workload.model.path" and _same_weights(pair):
        judge, reason = differs, "the recorded hashes of the weights are equal"
    change = f"{brief(difference.before)} → {brief(difference.after)}"
    yield judge(rule_of_key(difference.key), f"{difference.key}: {change}; {reason}")


def _versions(pair: ComparedPair) -> Iterator[RuleFinding]:
    a, b = pair.a.result, pair.b.result
    formats: tuple[int, int] = (a.schema_version, b.schema_version)
    if formats[0] != formats[1]:
        yield breaks("R02", f"result format {formats[0]} in {pair.a.label}, {formats[1]} in {pair.b.label}")
    if a.lynxbench_version != b.lynxbench_version:
        words = f"measured by lynxbench {a.lynxbench_version} and {b.lynxbench_version}, under one protocol version"
        yield differs("R02", words)


def _validity(side: ComparedSide) -> Iterator[RuleFinding]:
    validity = side.result.validity
    if validity.verdict is ValidityVerdict.VOID:
        yield breaks("R08", f"{side.label} is void: {'; '.join(validity.reasons) or 'no reason given'}")
    elif validity.verdict is ValidityVerdict.DOUBTFUL:
        reasons = whole_reasons(side.result)  # what is said of one precision is judged there
        if reasons or not validity.reasons:
            why = "; ".join(reasons) or "no reason given"
            yield doubts("R08", f"{side.label} is doubtful: {why}", f"measure {side.label} again without it ({why})")


def _record(side: ComparedSide) -> Iterator[RuleFinding]:
    drift = side.result.executor_drift
    if drift:
        first = drift[0]
        more = f" and {len(drift) - 1} more" if len(drift) > 1 else ""
        yield breaks("R10", f"{side.label}: {first.layer}.{first.name} changed during the run{more}")
    missing = [layer for layer in RECORDED_LAYERS if not _recorded(side.result.executor, layer)]
    if missing:
        yield breaks("R10", f"{side.label}: nothing was measured about {', '.join(missing)}")


def _layers_recorded(pair: ComparedPair) -> Iterator[RuleFinding]:
    a, b = (side.result.executor for side in pair.sides)
    for layer in Layer:
        if layer in RECORDED_LAYERS or layer in (Layer.PROCUREMENT, Layer.FACILITY, Layer.DEMAND):
            continue  # the first are needed in both; the others are declared, and change no speed by being told
        known = _recorded(a, layer), _recorded(b, layer)
        if known[0] != known[1]:
            where = pair.a.label if known[0] else pair.b.label
            yield differs("R10", f"layer {layer} is recorded only in {where}")


def _recorded(executor: Executor, layer: Layer) -> bool:
    return any(field.status is not Status.UNREADABLE for field in executor.layers.get(layer, {}).values())


def _standing(side: ComparedSide) -> Iterator[RuleFinding]:
    if side.refuted:
        remedy = f"measure again: the samples of {side.label} do not give the figures that it states"
        yield breaks("R16", f"{side.label} is {side.refuted}", remedy)
    if side.not_recomputed:
        remedy = f"push {side.label} with the files of its run, or measure again"
        yield doubts("R16", f"{side.label} {side.not_recomputed}", remedy)
    agreement = agreement_shown(side.result.contract.teams, side.standing)
    if agreement is not None and not agreement.full:
        yield differs("R16", f"{side.label}: its contract is {agreement.words}")
    if side.standing is None:
        return
    if side.standing.retracted:
        yield breaks("R16", f"{side.label} was retracted: {side.standing.retracted[-1].text}")
    for lacking in standing_falls_short(side.result, side.standing):
        if lacking.lack in (Lack.REFUTED, Lack.UNTRUSTED):
            yield doubts("R16", f"{side.label}: {lacking.says}", lacking.step)
    contests = [f"{remark.text} ({remark.by})" for remark in side.standing.contested]
    if contests:
        more = f" (and {len(contests) - 1} more)" if len(contests) > 1 else ""
        yield differs("R16", f"{side.label} is contested: {contests[0]}{more}")


def _clients(pair: ComparedPair) -> Iterator[RuleFinding]:
    a, b = (side.result.conditions.clients for side in pair.sides)
    if a != b:
        yield differs("R11", f"client processes: {a or 'none'} → {b or 'none'}")


def _model(pair: ComparedPair) -> Iterator[RuleFinding]:
    a, b = (side.result.executor for side in pair.sides)
    for name in MODEL_SHAPE:
        left, right = a.get(Layer.APPLICATION, name), b.get(Layer.APPLICATION, name)
        if left is not None and right is not None and left != right:
            yield breaks("R17", f"{name}: {brief(left)} → {brief(right)}")
    left, right = weights_of(a), weights_of(b)
    if left != right and None not in (left, right):
        yield differs("R17", f"weights {str(left)[:12]}… → {str(right)[:12]}…: model drift")
    elif left != right:
        known = pair.a.label if left is not None else pair.b.label
        yield differs("R17", f"the weights' hash is recorded only in {known}")


def weights_of(executor: Executor) -> str | None:
    """The hash over the model's files, where the engine recorded one."""
    for name in ("model_sha256", "weights_sha256"):
        value = executor.get(Layer.APPLICATION, name)
        if isinstance(value, str) and value:
            return value
    return None


def _same_weights(pair: ComparedPair) -> bool:
    left, right = (weights_of(side.result.executor) for side in pair.sides)
    return left is not None and left == right


def brief(value: JsonValue) -> str:
    """A value in a few words."""
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
