"""Causes removed for real: which changes would test a verdict, what each should gain, and what the measurement says.

An intervention is the same contract with one thing changed, run in fresh processes like any other. Prediction and
measurement stand side by side; where they disagree, the measurement wins and the verdict says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lynxbench.attribute.judge.causes import NO_GAIN, speedup
from lynxbench.model.attribution import Attribution, Bound, Category, Intervention
from lynxbench.model.contract import Contract, Graph, Objective, OnnxEngine, Timing, TorchEngine
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.interventions import Change, InterventionScope
from lynxbench.model.precision import Precision
from lynxbench.model.workload import Task
from lynxbench.stats.intervals import ratio_interval
from lynxbench.tables import read_table

AGREEMENT = 1.25
"""A gain beyond the predicted range by this factor overturns a bound: profiles and short runs are as noisy."""
NOTHING_GAINED = 1.05
"""A gain below this is none: it lies within what two fresh processes differ by."""
WIDE = 2.0
"""An interval over this factor holds no gain to a prediction."""
UNSTABLE = 1.5
"""Unchanged processes that differ by this factor say that the machine changed, not the step."""

_CAUSES = read_table("attribute/judge/causes.toml")


def _changes(key: str) -> dict[Category, tuple[Change, ...]]:
    return {category: tuple(Change[name] for name in _CAUSES[category].get(key, ())) for category in Category}


TESTS = _changes("tests")
"""Which changes speak for or against a bottleneck, the most direct one first."""
DECIDING = _changes("decided_by")
"""Those that remove the bottleneck itself: their gain replaces the predicted one. The first that ran decides."""

HALVED_BY_A_BATCH = 0.5
"""What is read or launched once for the whole batch is paid half as often for each unit of work."""
PINNED_SAVES = 0.7
"""Of a pageable copy's time: 15.6 GB/s become 53.4 GB/s from pinned memory (host to H200 over PCIe 5)."""
REMOVES: Mapping[Change, tuple[float, tuple[Category, ...]]] = {
    Change.REPLAY: (1.0, (Category.LAUNCH, Category.ALLOCATOR)),
    Change.COMPILE: (1.0, (Category.LAUNCH, Category.ALLOCATOR)),
    Change.PRESTAGE: (1.0, (Category.INPUT, Category.TRANSFER)),
    Change.PIN: (PINNED_SAVES, (Category.TRANSFER,)),
    Change.NO_TRANSFER: (1.0, (Category.TRANSFER,)),
    Change.NO_SYNC: (1.0, (Category.SYNCHRONIZATION,)),
    Change.DOUBLE_BATCH: (HALVED_BY_A_BATCH, (Category.MEMORY_BANDWIDTH, Category.LAUNCH, Category.ALLOCATOR)),
}
"""How much a change takes away of which categories."""
TENSOR_CORE_TIMES = 8.0
"""TF32 products over fp32 ones by data sheets (A100: 156 against 19.5 TFLOP/s; H200 measured: 408 against 51)."""
BITS: Mapping[Precision, int] = {
    **dict.fromkeys((Precision.FP32, Precision.TF32), 32),
    **dict.fromkeys((Precision.BF16, Precision.FP16), 16),
    **dict.fromkeys((Precision.FP8, Precision.FP8_BLOCK, Precision.MXFP8, Precision.FP8_WEIGHT_ONLY), 8),
    **dict.fromkeys((Precision.INT8, Precision.INT8_WEIGHT_ONLY), 8),
    Precision.INT6_WEIGHT_ONLY: 6,
    Precision.INT5_WEIGHT_ONLY: 5,
    **dict.fromkeys((Precision.INT4_WEIGHT_ONLY, Precision.NVFP4, Precision.MXFP4), 4),
}
"""Width in memory: bytes moved go with it, and the rate of matrix units with its inverse."""

_NARROWER: Mapping[str, Mapping[Precision, Precision]] = {
    "cuda": {
        Precision.FP32: Precision.TF32,
        Precision.TF32: Precision.BF16,
        Precision.BF16: Precision.FP8,
        Precision.FP16: Precision.FP8,
    },
    "cpu": {Precision.FP32: Precision.INT8, Precision.BF16: Precision.INT8, Precision.FP16: Precision.INT8},
}
"""One step down among the formats that such devices have units for; CPUs without bf16 emulate it."""
_CUDA_ONLY = (Change.REPLAY, Change.PIN, Change.NO_TRANSFER, Change.NO_SYNC)
_ANY_ENGINE = (Change.DOUBLE_BATCH, Change.STEP_PRECISION)


@dataclass(frozen=True, slots=True)
class InterventionProposal:
    """One change to make, and the gain in work per second it should bring if the attribution is right."""

    change: Change
    contract: Contract
    precision: Precision
    predicted: Interval
    inapplicable: str | None = None
    """Why it cannot be tried here."""

    @property
    def name(self) -> str:
        """The change in words; a step of precision says to which."""
        stepped = self.change is Change.STEP_PRECISION and self.inapplicable is None
        return f"{self.change} to {self.precision}" if stepped else self.change.value

    def outcome(self, measured: Interval, note: str) -> Intervention:
        """What came of it."""
        return Intervention(name=self.name, predicted=self.predicted, measured=measured, note=note)

    @property
    def inside_engine(self) -> Change | None:
        """What the engine must do differently, where the contract alone does not say it."""
        in_contract = (Change.COMPILE, Change.DOUBLE_BATCH, Change.STEP_PRECISION)
        return None if self.change in in_contract else self.change


def propose_interventions(
    contract: Contract,
    attribution: Attribution,
    *,
    precision: Precision,
    device: str,
    scope: InterventionScope = InterventionScope.VERDICT,
) -> tuple[InterventionProposal, ...]:
    """What to try: the changes that test the bottleneck, the most direct first, or all; those that cannot say why."""
    if not isinstance(contract.engine, TorchEngine | OnnxEngine):
        return ()
    changes = TESTS[attribution.bottleneck]
    if scope is not InterventionScope.VERDICT:
        changes = (*changes, *(change for change in Change if change not in changes))
    return tuple(_propose(change, contract, attribution, precision, device) for change in changes)


def _propose(
    change: Change, contract: Contract, attribution: Attribution, precision: Precision, device: str
) -> InterventionProposal:
    kind = "cuda" if device.startswith("cuda") else "cpu"
    narrower = _NARROWER[kind].get(precision)
    why = _inapplicable(change, contract, kind, narrower)
    update: dict[str, object] = {"objective": Objective()}  # a changed step owes the objective nothing
    predicted, workload = UNKNOWN_INTERVAL, contract.workload
    if why is None:
        predicted = predict_gain(change, attribution.shares, precision, narrower)
        if change is Change.COMPILE:
            update["engine"] = contract.engine.model_copy(update={"graph": Graph.COMPILE})
        elif change is Change.DOUBLE_BATCH:
            update["workload"] = workload.model_copy(update={"batch": workload.batch * 2})
        elif change is Change.STEP_PRECISION and narrower is not None:
            update["workload"] = workload.model_copy(update={"precisions": (narrower,)})
            precision = narrower
    return InterventionProposal(change, contract.model_copy(update=update), precision, predicted, why)


def predict_gain(
    change: Change, shares: Mapping[Category, float], precision: Precision, narrower: Precision | None
) -> Interval:
    """The gain in work per second that the shares promise, as a range."""
    if change is not Change.STEP_PRECISION or narrower is None:
        share, categories = REMOVES[change]
        removed = sum(shares.get(category, 0.0) for category in categories) * share
        # Removing it entirely, half of it, or a little more than was seen.
        return Interval(speedup(removed / 2), speedup(removed), speedup(removed * 1.2))
    compute, memory = shares.get(Category.COMPUTE, 0.0), shares.get(Category.MEMORY_BANDWIDTH, 0.0)
    if narrower is Precision.TF32:  # the same bytes, on other units
        best, usual = compute * (1 - 1 / TENSOR_CORE_TIMES), compute * (1 - 2 / TENSOR_CORE_TIMES)
    else:
        saved = 1 - BITS[narrower] / BITS[precision]
        # Activations, norms and the conversions themselves stay wide: half of the saving is what usually comes.
        best, usual = (compute + memory) * saved, (compute + memory) * saved / 2
    return Interval(1.0, speedup(usual), speedup(best))


def _inapplicable(change: Change, contract: Contract, kind: str, narrower: Precision | None) -> str | None:
    engine = contract.engine
    if not isinstance(engine, TorchEngine) and change not in _ANY_ENGINE:
        return f"engine {engine.name} has no such switch"
    if change in _CUDA_ONLY and kind != "cuda":
        return "the step ran on a CPU: there is no device to copy to, to wait for or to record a graph of"
    staged = isinstance(engine, TorchEngine) and engine.timing is Timing.DEVICE
    if change in (Change.PRESTAGE, Change.PIN, Change.NO_TRANSFER, Change.NO_SYNC) and staged:
        return "inputs lie on the device already, and no step waits for the host"
    graphed = isinstance(engine, TorchEngine) and engine.graph is not Graph.EAGER
    if change in (Change.COMPILE, Change.REPLAY) and graphed:
        return "the contract's step is compiled already"
    if change is Change.REPLAY and contract.workload.task is Task.TRAIN_STEP:
        return "a training step with its optimiser is not recorded as a CUDA graph"
    if change is Change.STEP_PRECISION and narrower is None:
        return "there is no narrower format here"
    return None


def judge_intervention(
    proposal: InterventionProposal,
    baseline_per_s: Sequence[float],
    changed_per_s: Sequence[float],
    confidence: float = 0.95,
) -> Intervention:
    """The measured gain with its interval: Welch's t on log run means; the farthest pair where a side ran only once."""
    if proposal.inapplicable is not None:
        return proposal.outcome(UNKNOWN_INTERVAL, f"does not apply: {proposal.inapplicable}")
    measured = measured_gain(baseline_per_s, changed_per_s, confidence)
    if not measured.known:
        return proposal.outcome(UNKNOWN_INTERVAL, "not measured: it did not run")
    return proposal.outcome(measured, hold_to_prediction(proposal.predicted, measured))


def measured_gain(baseline_per_s: Sequence[float], changed_per_s: Sequence[float], confidence: float) -> Interval:
    """The ratio with its interval; unknown where a side never ran, the farthest pair's where one ran only once."""
    before, after = [v for v in baseline_per_s if v > 0], [v for v in changed_per_s if v > 0]
    if not before or not after:
        return UNKNOWN_INTERVAL
    measured = ratio_interval(before, after, confidence)
    if measured.known:
        return measured
    return Interval(min(after) / max(before), measured.estimate, max(after) / min(before))


def with_interventions(
    attribution: Attribution,
    done: Sequence[tuple[InterventionProposal, Intervention]],
    baseline_per_s: Sequence[float] = (),
) -> Attribution:
    """The attribution with its interventions; the one that removes its bottleneck confirms or corrects the verdict."""
    if not done:
        return attribution
    measured = {proposal.change: intervention for proposal, intervention in done if intervention.measured.known}
    deciding = () if _says_nothing(attribution) else DECIDING[attribution.bottleneck]
    test = next((measured[change] for change in deciding if change in measured), None)
    judged = conclude_interventions(attribution, [intervention for _, intervention in done], test, baseline_per_s)
    doubled = measured.get(Change.DOUBLE_BATCH)
    overturned = attribution.bottleneck is Category.COMPUTE and doubled is not None and _exceeds(doubled)
    if test is not None or doubled is None or not overturned or is_unstable(baseline_per_s):
        return judged
    # Twice the rows take twice the arithmetic: a step that does not take twice as long had arithmetic to spare.
    gained = describe_gain(doubled.measured)
    text = attribution.sentence.removeprefix(f"{attribution.bound}-bound: ")
    line = f"intervention contradicts the verdict: {doubled.name} measured {gained}"
    update: dict[str, object] = {"weak": True, "bound": Bound.UNDETERMINED, "layer": None, "owner": None}
    update |= {"symptom_layer": None, "gain_if_removed": NO_GAIN, "evidence": (*judged.evidence, line)}
    update["next_step"] = f"{doubled.name}: measured {gained}"
    update["sentence"] = f"undetermined: {text}; contradicted: to {doubled.name} gained {gained}"
    return judged.model_copy(update=update)


def is_unstable(baseline_per_s: Sequence[float]) -> bool:
    """Whether unchanged processes differ so much that no change can be told from the machine's own."""
    known = [rate for rate in baseline_per_s if rate > 0]
    return bool(known) and max(known) > UNSTABLE * min(known)


def conclude_interventions(
    attribution: Attribution,
    interventions: Sequence[Intervention],
    deciding: Intervention | None,
    baseline_per_s: Sequence[float] = (),
) -> Attribution:
    """The attribution with a line for each intervention; the deciding one confirms or corrects it."""
    update: dict[str, object] = {"interventions": tuple(interventions)}
    lines = [_line(intervention) for intervention in interventions]
    if is_unstable(baseline_per_s):
        known = [rate for rate in baseline_per_s if rate > 0]
        lines.append(
            f"unchanged processes differ by a factor of {max(known) / min(known):.1f}: the machine was not itself, and "
            "the interventions decide nothing"
        )
        update["weak"] = True
    elif deciding is not None:
        measured = [intervention for intervention in interventions if intervention.measured.known]
        outcome, more = _decide(attribution, deciding, measured)
        update |= more
        lines.append(f"intervention {outcome} the verdict: {deciding.name} measured {describe_gain(deciding.measured)}")
    return attribution.model_copy(update={**update, "evidence": (*attribution.evidence, *lines)})


def without_interventions(attribution: Attribution, engine: str) -> Attribution:
    """The attribution of an engine that owns nothing an intervention could change."""
    line = f"no intervention was possible: engine {engine} owns neither the inputs nor the graph of its step"
    return attribution.model_copy(update={"evidence": (*attribution.evidence, line)})


def not_measured(proposal: InterventionProposal, why: str) -> Intervention:
    """An intervention that was tried and gave no figure."""
    return proposal.outcome(UNKNOWN_INTERVAL, why if why.startswith("does not apply") else f"not measured: {why}")


def _decide(
    attribution: Attribution, test: Intervention, all_measured: Sequence[Intervention]
) -> tuple[str, dict[str, object]]:
    """What the deciding intervention makes of the verdict."""
    gain, sentence = test.measured, attribution.sentence
    measured = f"{test.name}): {describe_gain(gain)}"
    if gain.estimate >= NOTHING_GAINED and gain.high < test.predicted.low:
        # The whole interval lies below the predicted one: both carry their own doubt, so no more is allowed.
        expected = f"{test.predicted.low:.2f}–{test.predicted.high:.2f}×"
        return "contradicts the predicted gain of", {
            "gain_if_removed": gain,
            "weak": True,
            "sentence": f"{sentence}; gain corrected by intervention ({measured}, where {expected} was predicted",
            **better_step(all_measured),
        }
    if gain.estimate >= NOTHING_GAINED:
        sure = gain.low > 1.0
        enough = sure and gain.estimate >= attribution.gain_if_removed.low
        return "confirms" if sure else "does not contradict", {
            "gain_if_removed": gain,
            "weak": False if enough else attribution.weak or not sure,
            "sentence": f"{sentence}; measured by intervention ({measured}",
        }
    if gain.high >= max(test.predicted.low, NOTHING_GAINED):
        return "leaves open", {"weak": True, "sentence": f"{sentence}; not confirmed by intervention ({measured}"}
    update: dict[str, object] = {
        "weak": True,
        "gain_if_removed": Interval(1.0, 1.0, max(1.0, gain.high)),
        "sentence": f"{sentence}; contradicted: to {test.name} gained nothing ({describe_gain(gain)})",
    }
    return "contradicts", update | better_step(all_measured)


def better_step(all_measured: Sequence[Intervention]) -> dict[str, object]:
    """What surely gained most is the next step, whatever the verdict would have said."""
    best = max(all_measured, key=lambda intervention: intervention.measured.low)
    if best.measured.low <= NOTHING_GAINED:
        return {}
    return {"next_step": f"{best.name}: measured {describe_gain(best.measured)}"}


def _says_nothing(attribution: Attribution) -> bool:
    """A batch says nothing about memory that slow or unfused kernels leave idle."""
    return attribution.bottleneck is Category.MEMORY_BANDWIDTH and attribution.bound is not Bound.HARDWARE


def _exceeds(test: Intervention) -> bool:
    return test.measured.low > max(test.predicted.high * AGREEMENT, NOTHING_GAINED)


def hold_to_prediction(predicted: Interval, measured: Interval) -> str:
    """A measured gain beside the predicted one, in words."""
    if measured.high < predicted.low:
        return "less than predicted"
    if measured.low > predicted.high:
        return "more than predicted"
    return "as predicted" if measured.low > 0 and measured.high < WIDE * measured.low else "too uncertain to tell"


def _line(test: Intervention) -> str:
    if not test.measured.known:
        return f"intervention: {test.name}: {test.note}"
    gained = f"measured {describe_gain(test.measured)}: {test.note}"
    if not test.predicted.known:
        return f"intervention: {test.name}: {gained}"
    return f"intervention: {test.name}: predicted {test.predicted.low:.2f}–{test.predicted.high:.2f}×, {gained}"


def describe_gain(interval: Interval) -> str:
    """`1.52× [1.40, 1.66]`."""
    return f"{interval.estimate:.2f}× [{interval.low:.2f}, {interval.high:.2f}]"


def renoted(intervention: Intervention, more: str) -> Intervention:
    """The same intervention with more to its note."""
    return intervention.model_copy(update={"note": f"{intervention.note}; {more}"})
