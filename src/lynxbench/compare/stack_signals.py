"""The five signs of a whole-stack problem, over a contract's results and changes. Pure.

Each sign is present, absent, or cannot be told, and then says which data would tell. Two or more are diagnostic: no
single team's instrument will find it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.levels import layer_ids
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.compare.suspects import COUNTS, changes_between
from lynxbench.model.attribution import Category
from lynxbench.model.canonical import short
from lynxbench.model.comparison import Comparison, ContractDifference, EffectVerdict
from lynxbench.model.entries import ChangeDeclared, ChangeMeasured, ChangeVerdict
from lynxbench.model.history import Signal, Signals, SignalState
from lynxbench.model.layers import Layer
from lynxbench.model.result import PrecisionResult, Result, ValidityVerdict
from lynxbench.model.verdicts import SteadyVerdict

MODERATE = (0.2, 0.7)
"""Busy shares in between are moderate: under the first the machine is idle, over the second it is in use (R9, R30)."""
LOW_THROUGHPUT_GAIN = 1.25
"""Throughput is low where removing the bottleneck would gain at least a quarter, by the interval's lower bound."""
SATURATED = 0.9
"""A device or a CPU that is busy for longer than this says itself that it is the limit."""
FEWEST_INSTRUMENTS = 4
"""Of the six local instruments, so many must have spoken before all of them can be called fine."""
STACK_SHAPED = 2
"""R9: two or more together are diagnostic."""
MOST_PAIRS = 60
"""Newest pairs looked at: the work stays linear in the history."""
HARDWARE = (Layer.ACCELERATOR, Layer.PROCUREMENT)
MODEL_FIELDS = ("gpu_name", "server_gpus", "cpu_model")
PLACEMENT = (
    "numa",
    "pcie",
    "nvlink",
    "power_limit",
    "clock",
    "affinity",
    "topology",
    "memory_node",
    "cgroup",
    "governor",
)
"""What most often explains nominally identical instances that differ (R10)."""
BUSY = (Category.COMPUTE, Category.MEMORY_BANDWIDTH, Category.COMMUNICATION, Category.TRANSFER)

ContractDifferences = Callable[[Result, Result], tuple[ContractDifference, ...]]


@dataclass(frozen=True, slots=True)
class Record:
    """What the signs are read from: results of one contract, oldest first, and the changes declared on it."""

    contract_id: str
    contract: str
    results: tuple[Result, ...]
    declared: tuple[ChangeDeclared, ...] = ()
    measured: tuple[ChangeMeasured, ...] = ()
    utilisation: Mapping[str, float] = field(default_factory=dict)
    """Mean busy share by result id, where telemetry was at hand."""
    differences: ContractDifferences = lambda a, b: ()

    def compare(self, a: Result, b: Result) -> Comparison:
        """Two of the results by the same rules as everywhere."""
        return compare_pair(ComparedPair(ComparedSide(a), ComparedSide(b), self.differences(a, b)))


def read_signals(record: Record) -> Signals:
    """All five, and whether they add up."""
    usable = tuple(r for r in record.results if r.validity.verdict is not ValidityVerdict.VOID)
    found = (
        _symptom_elsewhere(record, usable),
        _moderate_utilisation(record, usable),
        _all_fine_slo_fails(record, usable),
        _swap_gained_less(record, usable),
        _identical_differ(record, usable),
    )
    present = [signal for signal in found if signal.state is SignalState.PRESENT]
    unknown = [signal for signal in found if signal.state is SignalState.NOT_ENOUGH_DATA]
    return Signals(
        contract_id=record.contract_id,
        contract=record.contract,
        signals=found,
        stack_shaped=len(present) >= STACK_SHAPED,
        sentence=_sentence(len(present), len(unknown)),
    )


def _sentence(present: int, unknown: int) -> str:
    if present >= STACK_SHAPED:
        return f"{present} of 5 signs are present: stack-shaped, no single team's instrument will find it"
    if present + unknown >= STACK_SHAPED:
        return f"{present} of 5 signs present, {unknown} cannot be told: whether it is stack-shaped is not known yet"
    return f"{present} of 5 signs present: nothing says that this belongs to the whole stack"


def _unknown(number: int, name: str, said: str, needed: str) -> Signal:
    return Signal(number=number, name=name, state=SignalState.NOT_ENOUGH_DATA, said=said, needed=needed)


def _told(number: int, name: str, present: bool, said: str, evidence: Iterable[str]) -> Signal:
    state = SignalState.PRESENT if present else SignalState.ABSENT
    return Signal(number=number, name=name, state=state, said=said, evidence=tuple(dict.fromkeys(evidence)))


def _symptom_elsewhere(record: Record, results: Sequence[Result]) -> Signal:
    name = "symptom after a change in another layer"
    layered = [(result, layer_ids(result.executor)) for result in results]
    pairs = [(a, b) for (a, before), (b, after) in itertools.pairwise(layered) if before != after]
    if not pairs:
        return _unknown(1, name, "no layer changed between two results", "results from before and after a change")
    judged = 0
    for a, b, comparison in _decided(record, pairs):
        judged += 1
        if comparison.verdict is not EffectVerdict.REGRESSED:
            continue
        changed = {one.layer for one in comparison.layers if one.weight in COUNTS}
        shows = _shows_in(b)
        if shows is not None and changed and shows not in changed:
            said = (
                f"{short(b.result_id)} regressed after a change in {_words(changed)}, and shows in {shows} "
                f"(owner {b.contract.owner(shows)})"
            )
            return _told(1, name, True, said, (a.result_id, b.result_id))
    if not judged:
        return _unknown(
            1, name, f"{len(pairs)} changes, none with a verdict", "at least 5 restarts before and after each change"
        )
    said = f"{judged} changes with a verdict: none regressed in another layer than the one that changed"
    return _told(1, name, False, said, (b.result_id for _, b in pairs[-judged:]))


def _decided(record: Record, pairs: Sequence[tuple[Result, Result]]) -> Iterator[tuple[Result, Result, Comparison]]:
    """The newest pairs whose comparison has a verdict."""
    for a, b in pairs[-MOST_PAIRS:]:
        comparison = record.compare(a, b)
        if comparison.verdict not in (None, EffectVerdict.INCONCLUSIVE):
            yield a, b, comparison


def _shows_in(result: Result) -> Layer | None:
    found = result.attribution
    return None if found is None else found.symptom_layer or found.layer


def _words(layers: Iterable[Layer]) -> str:
    return ", ".join(sorted(layer.value for layer in layers))


def _moderate_utilisation(record: Record, results: Sequence[Result]) -> Signal:
    name = "moderate utilisation with low throughput"
    seen = []
    for result in reversed(results):
        busy, how = _busy_share(record, result)
        gain = None if result.attribution is None else result.attribution.gain_if_removed
        if busy is None or gain is None or not gain.known:
            continue
        moderate, low = MODERATE[0] <= busy <= MODERATE[1], gain.low >= LOW_THROUGHPUT_GAIN
        if moderate and low:
            said = (
                f"{short(result.result_id)}: {how} {busy:.0%}, and removing its bottleneck would give "
                f"{gain.low:.2f}–{gain.high:.2f}×"
            )
            return _told(2, name, True, said, (result.result_id,))
        seen.append((result.result_id, busy))
    if not seen:
        return _unknown(
            2, name, "no result knows both its busy share and what its bottleneck costs", "a result with an attribution"
        )
    shares = [busy for _, busy in seen]
    said = f"{len(seen)} results: busy {min(shares):.0%} to {max(shares):.0%}, none both moderate and low"
    return _told(2, name, False, said, (identity for identity, _ in seen))


def _busy_share(record: Record, result: Result) -> tuple[float | None, str]:
    measured = record.utilisation.get(result.result_id)
    if measured is not None and math.isfinite(measured):
        return measured, "utilisation"
    if result.attribution is None:
        return None, ""
    return sum(result.attribution.shares.get(category, 0.0) for category in BUSY), "working share of a step"


def _all_fine_slo_fails(record: Record, results: Sequence[Result]) -> Signal:
    name = "every local instrument fine while the objective fails"
    judged = []
    for result in reversed(results):
        for one in result.per_precision:
            verdicts = {slo.verdict for slo in one.slo}
            if not verdicts or verdicts == {"unresolved"}:
                continue
            fine, wrong = _instruments(record, result, one)
            judged.append(result.result_id)
            if "missed" not in verdicts or wrong:
                continue
            if len(fine) < FEWEST_INSTRUMENTS:
                said = (
                    f"{short(result.result_id)} misses its objective; only {', '.join(fine) or 'nothing'} could be read"
                )
                return _unknown(3, name, said, "telemetry, error counts and a steady state beside the missed objective")
            missed = next(slo for slo in one.slo if slo.verdict == "missed")
            said = (
                f"{short(result.result_id)} misses {missed.metric} p{missed.percentile:g} ≤ {missed.at_most_ms:g} ms "
                f"while {', '.join(fine)} are fine"
            )
            return _told(3, name, True, said, (result.result_id,))
    if not judged:
        return _unknown(3, name, "no result judges an objective", "a contract with objective.slo, and enough requests")
    said = f"{len(judged)} judged: the objective holds, or an instrument shows why it does not"
    return _told(3, name, False, said, judged)


def _instruments(record: Record, result: Result, one: PrecisionResult) -> tuple[list[str], list[str]]:
    """Local instruments that spoke: those that are fine, and those that point at a problem."""
    spoken: dict[str, bool] = {
        "validity": one.validity.verdict is ValidityVerdict.VALID,
        "clocks and power": one.governed_by is None,
    }
    if one.steady is not None:
        spoken["steadiness"] = one.steady.verdict is SteadyVerdict.STEADY
    if one.load is not None:
        spoken["errors"] = sum(one.load.accounting.failed.values()) == 0
        spoken["client"] = one.load.instrument.verdict == "good"
    if one.accuracy is not None:
        spoken["accuracy"] = one.accuracy.verdict != "no-go"
    busy = record.utilisation.get(result.result_id)
    if busy is not None:
        spoken["utilisation"] = busy < SATURATED
    return [name for name, good in spoken.items() if good], [name for name, good in spoken.items() if not good]


def _swap_gained_less(record: Record, results: Sequence[Result]) -> Signal:
    name = "a hardware swap that gained less than expected"
    layer_of = {change.change_id: change for change in record.declared}
    swaps = [one for one in record.measured if one.change_id in layer_of and layer_of[one.change_id].layer in HARDWARE]
    for one in swaps:
        if one.verdict in (ChangeVerdict.LESS, ChangeVerdict.NO_EFFECT):
            expected = layer_of[one.change_id].expected
            said = (
                f"{layer_of[one.change_id].what}: expected {expected.low:.2f}–{expected.high:.2f}×, "
                f"measured {one.effect.low:.2f}–{one.effect.high:.2f}×"
            )
            return _told(4, name, True, said, (one.change_id, one.before, one.after))
    told = [one for one in swaps if one.verdict is not ChangeVerdict.INCONCLUSIVE]
    compared: list[str] = []
    for a, b in list(itertools.pairwise(results))[-MOST_PAIRS:]:
        promised = _promised_gain(a, b)
        if promised is None:
            continue
        comparison = record.compare(a, b)
        if comparison.effect is None or not comparison.effect.known or comparison.figure != "throughput":
            continue
        compared += [a.result_id, b.result_id]
        if promised > 1 and comparison.effect.high < promised:
            said = (
                f"{short(b.result_id)} runs on other hardware whose bare kernels do {promised:.2f}×, "
                f"and gained {comparison.effect.low:.2f}–{comparison.effect.high:.2f}×"
            )
            return _told(4, name, True, said, (a.result_id, b.result_id))
    if not told and not compared:
        return _unknown(
            4,
            name,
            "no swap of hardware was measured",
            "results before and after a swap, with ceilings or a declared expectation (change declare)",
        )
    evidence = [*(one.change_id for one in told), *compared]
    return _told(4, name, False, "hardware swaps gained what was expected of them", evidence)


def _promised_gain(a: Result, b: Result) -> float | None:
    """The least that every bare kernel measured in both runs gained; None where the hardware is the same."""
    same = all(a.executor.get(Layer.ACCELERATOR, n) == b.executor.get(Layer.ACCELERATOR, n) for n in MODEL_FIELDS)
    before = {(c.name, c.precision): c.per_s for c in a.ceilings}
    after = {(c.name, c.precision): c.per_s for c in b.ceilings}
    ratios = [after[key] / before[key] for key in before.keys() & after.keys() if before[key] > 0]
    return None if same or not ratios else min(ratios)


def _identical_differ(record: Record, results: Sequence[Result]) -> Signal:
    name = "nominally identical instances that differ"
    newest: dict[str, Result] = {result.instance_id: result for result in results}
    pairs = [(a, b) for a, b in itertools.combinations(newest.values(), 2) if _nominally_identical(a, b)]
    if not pairs:
        said = f"{len(newest)} instance{'' if len(newest) == 1 else 's'} measured, no two of one kind"
        return _unknown(5, name, said, "the same contract on two machines of one kind")
    judged = []
    for a, b, comparison in _decided(record, pairs):
        judged.append((a, b))
        if comparison.verdict is EffectVerdict.WITHIN_BUDGET or comparison.effect is None:
            continue
        found = [f"{c.layer}.{c.name}" for c in changes_between(a, b) if any(word in c.name for word in PLACEMENT)]
        why = f"found in the diff: {', '.join(found[:6])}" if found else "the record shows no placement that differs"
        effect = comparison.effect
        said = (
            f"{short(a.result_id)} and {short(b.result_id)} differ by {effect.estimate - 1:+.1%} "
            f"[{effect.low - 1:+.1%}, {effect.high - 1:+.1%}]; {why}"
        )
        return _told(5, name, True, said, (a.result_id, b.result_id))
    if not judged:
        return _unknown(5, name, f"{len(pairs)} pairs, none with a verdict", "at least 5 restarts on each instance")
    said = f"{len(judged)} pairs of one kind are within the budget of each other"
    return _told(5, name, False, said, (one.result_id for pair in judged for one in pair))


def _nominally_identical(a: Result, b: Result) -> bool:
    if a.executor_id == b.executor_id:
        return True
    models = [[r.executor.get(Layer.ACCELERATOR, n) for n in MODEL_FIELDS] for r in (a, b)]
    return models[0] == models[1] and any(value is not None for value in models[0])
