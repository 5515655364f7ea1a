"""The rules that concern one precision of both results: what ran, how right, how steady, at which load, how often."""

import math
from collections.abc import Iterator

from lynxbench.compare.effects import THROUGHPUT, leading_figure
from lynxbench.compare.pair import ComparedPair, RuleFinding, breaks, differs, doubts
from lynxbench.compare.rules import BY_NUMBER, FEWEST_RESTARTS, SAME_CACHED_SHARE, SAME_LENGTH, SAME_RATE
from lynxbench.compare.sittings import describe_noise
from lynxbench.model.contract import AccuracyPolicy
from lynxbench.model.evidence_gate import FOREIGN_LOAD
from lynxbench.model.load_figures import LoadFigures
from lynxbench.model.plain_numbers import plain
from lynxbench.model.precision import Native, Precision
from lynxbench.model.result import Accuracy, PrecisionResult, ValidityVerdict
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.model.workload import SaturatingArrival

SITTING_RULE = "R19"
BOTH_NOW = "measure both in one sitting (lynxbench compare --run)"
_LOADED = (f"{FOREIGN_LOAD}:",)
_UNSTEADY = (f"{SteadyVerdict.NOT_STEADY} (", f"{SteadyVerdict.INCONCLUSIVE} (")
"""How reasons of doubt begin that both halves of a pair bear alike."""
ABSOLUTE_METRICS = {"perplexity": "perplexity", "task": "task"}
"""Policy metric -> the metric that has a value of its own also at the reference precision."""


def judge_precision(pair: ComparedPair, precision: Precision) -> Iterator[RuleFinding]:
    """Everything at one precision; both sides have measured it."""
    a, b = (side.at(precision) for side in pair.sides)
    assert a is not None
    assert b is not None
    labels = pair.a.label, pair.b.label
    yield from _native(labels, a, b)
    yield from _accuracy(pair, labels, a, b)
    yield from _units(labels, a, b)
    in_pairs = bool(pair.order)
    alike = in_pairs and all(_is_loaded(figures) or not _is_steady(figures) for figures in (a, b))
    for label, figures in zip(labels, (a, b), strict=True):
        yield from _validity(label, figures, in_pairs=in_pairs, alike=alike)
        yield from _steadiness(label, figures, alike=alike)
        yield from _restarts(label, figures)
    yield from judge_sitting(pair, precision, leading_figure(pair.a.result.contract))
    if (a.load is None) != (b.load is None):
        where = labels[0] if a.load is not None else labels[1]
        yield breaks("R11", f"only {where} asked a server")
    if a.load is not None and b.load is not None:
        searched = isinstance(pair.a.result.contract.workload.arrival, SaturatingArrival)
        yield from _load(labels, a.load, b.load, searched)


def judge_sitting(pair: ComparedPair, precision: Precision, figure: str) -> Iterator[RuleFinding]:
    """Two sittings whose difference in a figure nobody knows: the figure stands, and no verdict rests on it."""
    if pair.between is None or pair.declared_noise is not None or pair.between.of(precision, figure) is not None:
        return
    said = describe_noise(figure, precision, pair.between.learned.get((precision, figure))).said
    remedy = BY_NUMBER[SITTING_RULE].remedy
    if figure not in (THROUGHPUT, leading_figure(pair.a.result.contract)):  # nobody looks other latencies up
        said, remedy = f"one sitting: how much they differ in {figure} is not learned", BOTH_NOW
    yield doubts(SITTING_RULE, f"{pair.a.label} and {pair.b.label} are of two sittings; {said}", remedy)


def _native(labels: tuple[str, str], a: PrecisionResult, b: PrecisionResult) -> Iterator[RuleFinding]:
    if a.native is not b.native and Native.UNKNOWN not in (a.native, b.native):
        yield differs("R04", f"executed {a.native} in {labels[0]} and {b.native} in {labels[1]}")


def _accuracy(
    pair: ComparedPair, labels: tuple[str, str], a: PrecisionResult, b: PrecisionResult
) -> Iterator[RuleFinding]:
    gates = [side.result.contract.policy.accuracy for side in pair.sides]
    gate = _stricter(gates[0], gates[1])
    if gates[0] and gates[1] and gates[0].metric is not gates[1].metric:
        yield breaks("R05", f"gated by {gates[0].metric} in {labels[0]} and by {gates[1].metric} in {labels[1]}")
        return
    if gates[0] is None and gates[1] is None:
        return
    if a.accuracy is None or b.accuracy is None:
        which = [label for label, figures in zip(labels, (a, b), strict=True) if figures.accuracy is None]
        yield differs("R05", f"the accuracy of {' and '.join(which)} is not known")
        return
    if a.accuracy.reference is not b.accuracy.reference:
        words = f"accuracy is held against {a.accuracy.reference} in {labels[0]}, {b.accuracy.reference} in {labels[1]}"
        yield breaks("R04", words)
        return
    assert gate is not None
    passes = [_passes(accuracy, gate) for accuracy in (a.accuracy, b.accuracy)]
    if None in passes:
        yield differs("R05", f"the loss in {gate.metric} was not measured in both")
    elif passes[0] != passes[1]:
        good, bad = labels if passes[0] else labels[::-1]
        yield breaks("R05", f"{good} passes the gate of {plain(gate.largest_loss, 3)} in {gate.metric}, {bad} does not")
    elif not passes[0]:
        yield differs("R05", f"neither passes the gate of {plain(gate.largest_loss, 3)} in {gate.metric}")
    apart = _apart(a.accuracy, b.accuracy, gate)
    if apart is not None and apart > gate.largest_loss:
        allowed = plain(gate.largest_loss, 3)
        words = f"accuracy differs by {apart:.2%} in {gate.metric}: outside the contract's {allowed}"
        yield breaks("R05", words)


def _stricter(first: AccuracyPolicy | None, second: AccuracyPolicy | None) -> AccuracyPolicy | None:
    gates = [gate for gate in (first, second) if gate is not None]
    return min(gates, key=lambda gate: gate.largest_loss) if gates else None


def _passes(accuracy: Accuracy, gate: AccuracyPolicy) -> bool | None:
    if accuracy.is_reference:
        return True
    return None if accuracy.loss is None else accuracy.loss <= gate.largest_loss


def _apart(a: Accuracy, b: Accuracy, gate: AccuracyPolicy) -> float | None:
    """How far the two are apart in the gate's metric: by its own value where it has one, by their losses otherwise."""
    name = ABSOLUTE_METRICS.get(gate.metric.value)
    if name is not None:
        left, right = a.metrics.get(name), b.metrics.get(name)
        if left is not None and right is not None and left != 0:
            return abs(right / left - 1)
    if a.loss is not None and b.loss is not None:
        return abs(a.loss - b.loss)
    return None


def _units(labels: tuple[str, str], a: PrecisionResult, b: PrecisionResult) -> Iterator[RuleFinding]:
    if a.throughput is not None and b.throughput is not None and a.throughput.unit != b.throughput.unit:
        yield breaks("R06", f"{a.throughput.unit} in {labels[0]}, {b.throughput.unit} in {labels[1]}")


def _is_loaded(figures: PrecisionResult) -> bool:
    return any(reason.startswith(_LOADED) for reason in figures.validity.reasons)


def _is_steady(figures: PrecisionResult) -> bool:
    return figures.steady is None or figures.steady.verdict is SteadyVerdict.STEADY


def _validity(label: str, figures: PrecisionResult, *, in_pairs: bool, alike: bool) -> Iterator[RuleFinding]:
    reasons = "; ".join(figures.validity.reasons) or "no reason given"
    if figures.validity.verdict is ValidityVerdict.VOID:
        yield breaks("R08", f"{label} is void: {reasons}")
    elif figures.throughput is None or figures.throughput.estimate is None:
        yield breaks("R08", f"{label} has no figure")
    elif figures.validity.verdict is ValidityVerdict.DOUBTFUL:
        borne = (*(_LOADED if in_pairs else ()), *(_UNSTEADY if alike else ()))
        if figures.validity.reasons and all(reason.startswith(borne) for reason in figures.validity.reasons):
            # in pairs it is in both halves, and what is left of it in their differences
            yield differs("R08", f"{label}: {reasons}")
            return
        yield doubts("R08", f"{label} is doubtful: {reasons}", f"measure {label} again without it ({reasons})")


def _steadiness(label: str, figures: PrecisionResult, *, alike: bool) -> Iterator[RuleFinding]:
    """`alike`: both halves of every pair were disturbed, so that their differences hold what disturbed them."""
    steady = figures.steady
    if steady is None:
        yield breaks("R09", f"{label}: nothing is known about its steady state")
        return
    if steady.verdict is SteadyVerdict.STEADY:
        return
    drift = steady.drift
    moved = ""
    if drift.known:
        moved = f" (drift {drift.estimate:+.1%} [{drift.low:+.1%}, {drift.high:+.1%}] over the counted window)"
    longer = f"run {label} longer than {steady.executed_s:.0f} s (a higher protocol.limit)"
    if loaded := next((reason for reason in figures.validity.reasons if reason.startswith(_LOADED)), ""):
        # the likely mover comes first: a longer run under the same load would move as well
        moved, longer = f"{moved} under {loaded}", f"measure {label} again without the other load, or {longer}"
    if alike:
        yield differs("R09", f"{label}: {steady.verdict}: {steady.reason}{moved}; both were disturbed, pair by pair")
    elif steady.verdict is SteadyVerdict.NOT_STEADY:
        remedy = longer if loaded else f"{longer}, or remove what moves it"
        yield breaks("R09", f"{label} never reached steady state: {steady.reason}{moved}", remedy)
    else:
        yield doubts("R09", f"{label}: steady state could not be shown: {steady.reason}{moved}", longer)


def _restarts(label: str, figures: PrecisionResult) -> Iterator[RuleFinding]:
    if len(figures.run_means) < FEWEST_RESTARTS:
        words = f"{label} has {len(figures.run_means)} of the {FEWEST_RESTARTS} processes that a verdict needs"
        yield differs("R14", words)


def _load(labels: tuple[str, str], a: LoadFigures, b: LoadFigures, searched: bool) -> Iterator[RuleFinding]:
    yield from _sources(labels, a, b)
    yield from _instrument(labels, a, b)
    yield from _tokens(labels, a, b)
    yield from _cache(labels, a, b)
    left, right = (load.offered_per_s.estimate if load.offered_per_s else None for load in (a, b))
    if searched or not left or not right:
        return  # a searched rate is the result itself; latencies at different rates are left out of the effects
    if abs(math.log(right / left)) > SAME_RATE:
        yield breaks("R11", f"offered {plain(left)}/s in {labels[0]} and {plain(right)}/s in {labels[1]}")


def _sources(labels: tuple[str, str], a: LoadFigures, b: LoadFigures) -> Iterator[RuleFinding]:
    """Files of the same name may hold other work; their hashes tell."""
    left, right = ({source.what: source for source in load.sources} for load in (a, b))
    for what in left.keys() & right.keys():
        if left[what].sha256 != right[what].sha256:
            held = f"{left[what].file} ({left[what].sha256[:12]}…) in {labels[0]}"
            yield breaks("R01", f"{what} {held}, {right[what].file} ({right[what].sha256[:12]}…) in {labels[1]}")


def _instrument(labels: tuple[str, str], a: LoadFigures, b: LoadFigures) -> Iterator[RuleFinding]:
    for label, load in zip(labels, (a, b), strict=True):
        if load.instrument.verdict == "void":
            yield breaks("R13", f"{label}: {'; '.join(load.instrument.reasons) or 'void'}")
        elif load.instrument.cautions:
            yield differs("R13", f"{label}: {'; '.join(load.instrument.cautions)}")


def _tokens(labels: tuple[str, str], a: LoadFigures, b: LoadFigures) -> Iterator[RuleFinding]:
    if a.tokens.source != b.tokens.source:
        yield breaks("R07", f"tokens counted by {a.tokens.source} in {labels[0]}, by {b.tokens.source} in {labels[1]}")
    elif a.tokens.source == "unknown":
        yield differs("R07", "where the token counts come from is known in neither")
    for name in ("input_mean", "output_mean"):
        left, right = getattr(a.tokens, name), getattr(b.tokens, name)
        if left and right and abs(right / left - 1) > SAME_LENGTH:
            what = name.removesuffix("_mean")
            yield breaks("R07", f"mean {what} {left:.1f} tokens in {labels[0]}, {right:.1f} in {labels[1]}")


def _cache(labels: tuple[str, str], a: LoadFigures, b: LoadFigures) -> Iterator[RuleFinding]:
    if a.cache.regime is not b.cache.regime:
        yield breaks("R12", f"cache {a.cache.regime} in {labels[0]}, {b.cache.regime} in {labels[1]}")
        return
    left, right = a.cache.cached_share, b.cache.cached_share
    if left is not None and right is not None:
        if abs(left - right) > SAME_CACHED_SHARE:
            words = f"{left:.0%} of the input came from the cache in {labels[0]}, {right:.0%} in {labels[1]}"
            yield breaks("R12", words)
    elif left is not None or right is not None:
        silent = labels[0] if left is None else labels[1]
        yield differs("R12", f"{silent}: its server does not say how much came from the cache")
