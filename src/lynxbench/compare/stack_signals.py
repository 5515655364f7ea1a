"""The five signs of a whole-stack problem, over a contract's results and changes. Pure.

Each sign is present, absent, or cannot be told, and then says which data would tell. Two or more are diagnostic: no
single team's instrument will find it. They are read of each machine by itself: what two machines show does not add up.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.levels import layer_ids
from lynxbench.compare.machine_series import MOST_MACHINES, MachineSeries, by_machine
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.compare.suspects import COUNTS, changes_between
from lynxbench.model.attribution import Category
from lynxbench.model.canonical import short
from lynxbench.model.comparison import Comparison, ContractDifference, EffectVerdict
from lynxbench.model.entries import ChangeDeclared, ChangeMeasured, ChangeVerdict
from lynxbench.model.evidence_gate import attributed_figures, carried_attribution, cause_falls_short
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
    """What the signs are read from: results of one contract, oldest first, and the changes declared on it.

    They are one machine's, or all of them where it was measured on one.
    """

    contract_id: str
    contract: str
    results: tuple[Result, ...]
    declared: tuple[ChangeDeclared, ...] = ()
    measured: tuple[ChangeMeasured, ...] = ()
    utilisation: Mapping[str, float] = field(default_factory=dict)
    """Mean busy share by result id, where telemetry was at hand."""
    differences: ContractDifferences = lambda a, b: ()
    elsewhere: tuple[Result, ...] = ()
    """Results of other machines: what a swap came from, and what instances are held against."""
    machine: str = ""
    """In words, where there are several."""
    compared: dict[tuple[str, str], Comparison] = field(default_factory=dict)
    """By ids: what was compared already."""

    def compare(self, a: Result, b: Result) -> Comparison:
        """Two of the results by the same rules as everywhere."""
        key = a.result_id, b.result_id
        if key not in self.compared:
            self.compared[key] = compare_pair(ComparedPair(ComparedSide(a), ComparedSide(b), self.differences(a, b)))
        return self.compared[key]

    @property
    def everywhere(self) -> tuple[Result, ...]:
        """What can be used of every machine, oldest first."""
        return _usable(sorted((*self.results, *self.elsewhere), key=lambda r: (r.started_at, r.result_id)))

    @property
    def changes(self) -> tuple[ChangeMeasured, ...]:
        """Measured changes, but for those that other machines alone are known for."""
        own, others = ({result.result_id for result in results} for results in (self.results, self.elsewhere))
        return tuple(m for m in self.measured if {m.before, m.after} & own or not {m.before, m.after} & others)

    def by_machine(self, words: Callable[[MachineSeries[Result]], str]) -> "list[Record]":
        """This record of each machine, that with the most results first."""
        series = by_machine(self.results, lambda result: layer_ids(result.executor)[Layer.ACCELERATOR])
        if len({result.instance_id for result in self.results}) < 2:
            return [self]
        records = []
        for each in series[:MOST_MACHINES]:
            own = {result.result_id for result in each.points}
            elsewhere = tuple(result for result in self.results if result.result_id not in own)
            records.append(replace(self, results=each.points, elsewhere=elsewhere, machine=words(each)))
        return records


def _usable(results: Iterable[Result]) -> tuple[Result, ...]:
    return tuple(result for result in results if result.validity.verdict is not ValidityVerdict.VOID)


def read_each_machine(records: Sequence[Record]) -> Signals:
    """The signs of each machine; one that is stack-shaped stands first."""
    read = sorted(map(read_signals, records), key=lambda signals: not signals.stack_shaped)
    return read[0].model_copy(update={"machines": tuple(read[1:])})


def read_signals(record: Record) -> Signals:
    """All five, and whether they add up."""
    usable = _usable(record.results)
    signals = (
        _symptom_elsewhere(record, usable),
        _moderate_utilisation(record, usable),
        _all_fine_slo_fails(record, usable),
        _swap_gained_less(record),
        _identical_differ(record),
    )
    present = [signal for signal in signals if signal.state is SignalState.PRESENT]
    unknown = [signal for signal in signals if signal.state is SignalState.NOT_ENOUGH_DATA]
    return Signals(
        contract_id=record.contract_id,
        contract=record.contract,
        signals=signals,
        stack_shaped=len(present) >= STACK_SHAPED,
        sentence=_sentence(len(present), len(unknown)),
        machine=record.machine,
    )


def _sentence(present: int, unknown: int) -> str:
    if present >= STACK_SHAPED:
        return f"{present} of 5 signs are present: stack-shaped, no single team's instrument will find it"
    if present + unknown >= STACK_SHAPED:
        return f"{present} of 5 signs present, {unknown} cannot be told: whether it is stack-shaped is not known yet"
    return f"{present} of 5 signs present: nothing says that this belongs to the whole stack"


def _unknown(number: int, name: str, words: str, needed: str) -> Signal:
    return Signal(number=number, name=name, state=SignalState.NOT_ENOUGH_DATA, said=words, needed=needed)


def _signal(number: int, name: str, present: bool, words: str, evidence: Iterable[str]) -> Signal:
    state = SignalState.PRESENT if present else SignalState.ABSENT
    return Signal(number=number, name=name, state=state, said=words, evidence=tuple(dict.fromkeys(evidence)))


def _symptom_elsewhere(record: Record, results: Sequence[Result]) -> Signal:
    name = "symptom after a change in another layer"
    layered = [(result, layer_ids(result.executor)) for result in results]
    pairs = [(a, b) for (a, before), (b, after) in itertools.pairwise(layered) if before != after]
    if not pairs:
        return _unknown(1, name, "no layer changed between two results", "results from before and after a change")
    decided, open_pairs = _decided(record, pairs)
    for a, b, comparison in decided:
        if comparison.verdict is not EffectVerdict.REGRESSED:
            continue
        changed = {difference.layer for difference in comparison.layers if difference.weight in COUNTS}
        shows = _shows_in(b)
        if shows is not None and changed and shows not in changed:
            words = (
                f"{short(b.result_id)} regressed after a change in {_words(changed)}, and shows in {shows} "
                f"(owner {b.contract.owner(shows)})"
            )
            return _signal(1, name, True, words, (a.result_id, b.result_id))
    if open_pairs or not decided:
        words = f"{len(decided)} changes with a verdict, {open_pairs} without"
        return _unknown(1, name, words, "at least 5 restarts in valid, steady runs before and after each change")
    words = f"{len(decided)} changes with a verdict: none regressed in another layer than the one that changed"
    return _signal(1, name, False, words, (b.result_id for _, b, _ in decided))


def _decided(
    record: Record, pairs: Sequence[tuple[Result, Result]]
) -> tuple[list[tuple[Result, Result, Comparison]], int]:
    """The newest pairs whose comparison has a verdict, and how many could have one and have none."""
    compared = [(a, b, record.compare(a, b)) for a, b in pairs[-MOST_PAIRS:]]
    sound = [row for row in compared if row[2].verdict is not None]
    decided = [row for row in sound if row[2].verdict not in (EffectVerdict.INCONCLUSIVE, EffectVerdict.UNPROVEN)]
    return decided, len(sound) - len(decided)


def _shows_in(result: Result) -> Layer | None:
    attribution = carried_attribution(result)
    return None if attribution is None else attribution.symptom_layer or attribution.layer


def _words(layers: Iterable[Layer]) -> str:
    return ", ".join(sorted(layer.value for layer in layers))


def _moderate_utilisation(record: Record, results: Sequence[Result]) -> Signal:
    name = "moderate utilisation with low throughput"
    seen = []
    unsure = 0
    fell_short = ""
    for result in reversed(results):
        busy, how = _busy_share(record, result)
        gain = None if result.attribution is None else result.attribution.gain_if_removed
        if busy is None or gain is None or not gain.known or result.attribution is None:
            continue
        short_of = cause_falls_short(result, attributed_figures(result), result.attribution)
        if short_of:
            fell_short = fell_short or short_of[0].line
            continue
        moderate = MODERATE[0] <= busy <= MODERATE[1]
        unsure += moderate and gain.low < LOW_THROUGHPUT_GAIN <= gain.high
        if moderate and gain.low >= LOW_THROUGHPUT_GAIN:
            words = (
                f"{short(result.result_id)}: {how} {busy:.0%}, and removing its bottleneck would give "
                f"{gain.low:.2f}–{gain.high:.2f}×"
            )
            return _signal(2, name, True, words, (result.result_id,))
        seen.append((result.result_id, busy))
    if not seen:
        words = "no result knows both its busy share and what its bottleneck costs"
        return _unknown(2, name, words, fell_short or "a result with an attribution")
    if unsure:
        words = f"{unsure} of {len(seen)} results are moderately busy and may gain {LOW_THROUGHPUT_GAIN}×, or not"
        return _unknown(2, name, words, "the bottleneck removed for real (an intervention), or a longer trace")
    shares = [busy for _, busy in seen]
    words = f"{len(seen)} results: busy {min(shares):.0%} to {max(shares):.0%}, none both moderate and low"
    return _signal(2, name, False, words, (identity for identity, _ in seen))


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
        for figures in result.per_precision:
            verdicts = {slo.verdict for slo in figures.slo}
            if not verdicts or ("unresolved" in verdicts and "missed" not in verdicts):
                continue
            fine, wrong = _instruments(record, result, figures)
            judged.append(result.result_id)
            if "missed" not in verdicts or wrong:
                continue
            if len(fine) < FEWEST_INSTRUMENTS:
                words = (
                    f"{short(result.result_id)} misses its objective; only {', '.join(fine) or 'nothing'} could be read"
                )
                return _unknown(
                    3, name, words, "telemetry, error counts and a steady state beside the missed objective"
                )
            missed = next(slo for slo in figures.slo if slo.verdict == "missed")
            words = (
                f"{short(result.result_id)} misses {missed.metric} p{missed.percentile:g} ≤ {missed.at_most_ms:g} ms "
                f"while {', '.join(fine)} are fine"
            )
            return _signal(3, name, True, words, (result.result_id,))
    if not judged:
        return _unknown(3, name, "no result judges an objective", "a contract with objective.slo, and enough requests")
    words = f"{len(judged)} judged: the objective holds, or an instrument shows why it does not"
    return _signal(3, name, False, words, judged)


def _instruments(record: Record, result: Result, figures: PrecisionResult) -> tuple[list[str], list[str]]:
    """Local instruments that spoke: those that are fine, and those that point at a problem."""
    spoken: dict[str, bool] = {
        "validity": figures.validity.verdict is ValidityVerdict.VALID,
        "clocks and power": figures.governed_by is None,
    }
    if figures.steady is not None:
        spoken["steadiness"] = figures.steady.verdict is SteadyVerdict.STEADY
    if figures.load is not None:
        spoken["errors"] = sum(figures.load.accounting.failed.values()) == 0
        spoken["client"] = figures.load.instrument.verdict == "good"
    if figures.accuracy is not None:
        spoken["accuracy"] = figures.accuracy.verdict != "no-go"
    busy = record.utilisation.get(result.result_id)
    if busy is not None:
        spoken["utilisation"] = busy < SATURATED
    return [name for name, good in spoken.items() if good], [name for name, good in spoken.items() if not good]


def _swap_gained_less(record: Record) -> Signal:
    name = "a hardware swap that gained less than expected"
    layer_of = {change.change_id: change for change in record.declared}
    swaps = [
        outcome
        for outcome in record.changes
        if outcome.change_id in layer_of and layer_of[outcome.change_id].layer in HARDWARE
    ]
    for outcome in swaps:
        if outcome.verdict in (ChangeVerdict.LESS, ChangeVerdict.NO_EFFECT):
            expected = layer_of[outcome.change_id].expected
            words = (
                f"{layer_of[outcome.change_id].what}: expected {expected.low:.2f}–{expected.high:.2f}×, "
                f"measured {outcome.effect.low:.2f}–{outcome.effect.high:.2f}×"
            )
            return _signal(4, name, True, words, (outcome.change_id, outcome.before, outcome.after))
    decided = [outcome for outcome in swaps if outcome.verdict is not ChangeVerdict.INCONCLUSIVE]
    compared: list[str] = []
    unsure = len(swaps) - len(decided)
    own = {result.result_id for result in record.results}
    pairs = [(a, b) for a, b in itertools.pairwise(record.everywhere) if b.result_id in own]
    for a, b in pairs[-MOST_PAIRS:]:
        promised = _promised_gain(a, b)
        if promised is None:
            continue
        comparison = record.compare(a, b)
        if comparison.effect is None or not comparison.effect.known or comparison.figure != "throughput":
            continue
        if comparison.verdict is EffectVerdict.UNPROVEN or comparison.effect.low < promised <= comparison.effect.high:
            unsure += 1
            continue
        compared += [a.result_id, b.result_id]
        if promised > 1 and comparison.effect.high < promised:
            words = (
                f"{short(b.result_id)} runs on other hardware whose bare kernels do {promised:.2f}×, "
                f"and gained {comparison.effect.low:.2f}–{comparison.effect.high:.2f}×"
            )
            return _signal(4, name, True, words, (a.result_id, b.result_id))
    if not decided and not compared and not unsure:
        return _unknown(
            4,
            name,
            "no swap of hardware was measured",
            "results before and after a swap, with ceilings or a declared expectation (change declare)",
        )
    if unsure:
        words = f"{unsure} swaps may have gained what was expected of them, or less"
        return _unknown(4, name, words, "more restarts before and after the swap, in valid and steady runs")
    evidence = [*(outcome.change_id for outcome in decided), *compared]
    return _signal(4, name, False, "hardware swaps gained what was expected of them", evidence)


def _promised_gain(a: Result, b: Result) -> float | None:
    """The least that every bare kernel measured in both runs gained; None where the hardware is the same."""
    same = all(a.executor.get(Layer.ACCELERATOR, n) == b.executor.get(Layer.ACCELERATOR, n) for n in MODEL_FIELDS)
    before = {(c.name, c.precision): c.per_s for c in a.ceilings}
    after = {(c.name, c.precision): c.per_s for c in b.ceilings}
    ratios = [after[key] / before[key] for key in before.keys() & after.keys() if before[key] > 0]
    return None if same or not ratios else min(ratios)


def _identical_differ(record: Record) -> Signal:
    name = "nominally identical instances that differ"
    newest: dict[str, Result] = {result.instance_id: result for result in record.everywhere}
    own = {result.instance_id for result in record.results}
    both = ((a, b) for a, b in itertools.combinations(newest.values(), 2) if own & {a.instance_id, b.instance_id})
    pairs = [(a, b) for a, b in both if _nominally_identical(a, b)]
    if not pairs:
        words = f"{len(newest)} instance{'' if len(newest) == 1 else 's'} measured, no two of one kind"
        return _unknown(5, name, words, "the same contract on two machines of one kind")
    decided, open_pairs = _decided(record, pairs)
    for a, b, comparison in decided:
        if comparison.verdict is EffectVerdict.WITHIN_BUDGET or comparison.effect is None:
            continue
        fields = [f"{c.layer}.{c.name}" for c in changes_between(a, b) if any(word in c.name for word in PLACEMENT)]
        why = f"found in the diff: {', '.join(fields[:6])}" if fields else "the record shows no placement that differs"
        effect = comparison.effect
        words = (
            f"{short(a.result_id)} and {short(b.result_id)} differ by {effect.estimate - 1:+.1%} "
            f"[{effect.low - 1:+.1%}, {effect.high - 1:+.1%}]; {why}"
        )
        return _signal(5, name, True, words, (a.result_id, b.result_id))
    if open_pairs or not decided:
        words = f"{len(decided)} pairs with a verdict, {open_pairs} without"
        return _unknown(5, name, words, "at least 5 restarts on each instance, in valid and steady runs")
    words = f"{len(decided)} pairs of one kind are within the budget of each other"
    return _signal(5, name, False, words, (result.result_id for a, b, _ in decided for result in (a, b)))


def _nominally_identical(a: Result, b: Result) -> bool:
    if a.executor_id == b.executor_id:
        return True
    models = [[r.executor.get(Layer.ACCELERATOR, n) for n in MODEL_FIELDS] for r in (a, b)]
    return models[0] == models[1] and any(value is not None for value in models[0])
