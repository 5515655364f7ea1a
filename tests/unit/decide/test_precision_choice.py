from __future__ import annotations

import pytest

from lynxbench.decide.precision_choice import RANDOM_WEIGHTS, decide_precisions
from lynxbench.errors import BadInput
from lynxbench.model.contract import AccuracyMetric, AccuracyPolicy
from lynxbench.model.executor import declared
from lynxbench.model.figures import Figure
from lynxbench.model.job import Skip
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native
from lynxbench.model.result import PrecisionResult, Result, Validity, ValidityVerdict
from lynxbench.model.workload import HubModel, PathModel, PresetModel
from planted import OF_EVIDENCE


def changed(result: Result, **update: object) -> Result:
    """The lower precision with something else."""
    first, second = result.per_precision
    return result.model_copy(update={"per_precision": (first, second.model_copy(update=update))})


def test_go_with_speed_beside_accuracy(decode: Result) -> None:
    decision = decide_precisions([decode])
    reference, lower = decision.lines
    assert reference.is_reference
    assert lower.verdict == "go"
    assert lower.speedup is not None
    assert lower.speedup.low < 121 / 92 < lower.speedup.high
    assert lower.loss is not None
    assert lower.loss.estimate == pytest.approx(0.006)
    assert lower.toolchain.startswith("torchao")
    assert "go: int8-weight-only" in decision.sentence


@pytest.mark.parametrize("verdict", ["go", "no-go"])
def test_what_random_weights_lose_is_not_what_trained_ones_lose(decode: Result, verdict: str) -> None:
    """Found: `go: fp16 keeps the policy`, of a shape whose weights nobody trained, and nothing said so."""
    accuracy = decode.per_precision[1].accuracy
    assert accuracy is not None
    judged = changed(decode, accuracy=accuracy.model_copy(update={"verdict": verdict}))
    for model, random in (
        (PresetModel(source="preset", name="small"), True),
        (HubModel(source="hub", id="owner/model", revision="a" * 40), False),
        (PathModel(source="path", path="/models/own"), False),
    ):
        workload = judged.contract.workload.model_copy(update={"model": model})
        contract = judged.contract.model_copy(update={"workload": workload})
        decision = decide_precisions([judged.model_copy(update={"contract": contract})])
        assert decision.sentence.endswith(RANDOM_WEIGHTS) is random, decision.sentence
        assert decision.lines[1].verdict == verdict


def test_a_no_go_keeps_the_reference(decode: Result) -> None:
    accuracy = decode.per_precision[1].accuracy
    assert accuracy is not None
    decision = decide_precisions(
        [changed(decode, accuracy=accuracy.model_copy(update={"verdict": "no-go", "loss": 0.04}))]
    )
    assert decision.lines[1].verdict == "no-go"
    assert decision.sentence.startswith("stay with the reference")


def test_answers_that_could_not_tell_decide_nothing_and_say_why(decode: Result) -> None:
    accuracy = decode.per_precision[1].accuracy
    assert accuracy is not None
    why = "the reference gives one answer to 64 prompts"
    untold = accuracy.model_copy(update={"verdict": "undetermined", "notes": ("64 of 64 agree", why)})
    line = decide_precisions([changed(decode, accuracy=untold)]).lines[1]
    assert (line.verdict, line.why) == ("undetermined", why)


@pytest.mark.parametrize("update", [{"accuracy": None}, {"skipped": Skip(reason="no kernel")}])
def test_no_speed_without_accuracy(decode: Result, update: dict[str, object]) -> None:
    assert decide_precisions([changed(decode, **update)]).lines[1].verdict == "not measured"


def test_emulated_is_said(decode: Result) -> None:
    decision = decide_precisions([changed(decode, native=Native.EMULATED)])
    assert any("emulated" in line for line in decision.cautions)


def test_several_results_give_the_loss_a_spread(decode: Result) -> None:
    accuracy = decode.per_precision[1].accuracy
    assert accuracy is not None
    other = changed(decode, accuracy=accuracy.model_copy(update={"loss": 0.009}))
    loss = decide_precisions([other, decode]).lines[1].loss
    assert loss is not None
    assert (loss.low, loss.estimate, loss.high) == pytest.approx((0.006, 0.006, 0.009))


def test_the_kv_cache_is_its_own_line(decode: Result) -> None:
    assert decide_precisions([decode]).kv_cache.state == "not measured"
    stack = decode.executor.merged({Layer.RUNTIME: {"kv_cache_dtype": declared("fp8", "site")}})
    stated = decide_precisions([decode.model_copy(update={"executor": stack})]).kv_cache
    assert stated.state == "stated"
    assert "fp8" in stated.says


def test_a_missed_objective_is_a_no_go(decode: Result) -> None:
    from lynxbench.model.result import SloOutcome

    one: PrecisionResult = decode.per_precision[1]
    missed = SloOutcome(
        metric="time-per-token",
        percentile=99,
        at_most_ms=5.0,
        measured=one.latency_ms["time-per-token"][1],
        verdict="missed",
    )
    assert decide_precisions([changed(decode, slo=(missed,))]).lines[1].verdict == "no-go"


def test_nothing_is_refused() -> None:
    with pytest.raises(BadInput):
        decide_precisions([])


def test_an_unresolved_objective_is_no_go_and_no_no_go(decode: Result) -> None:
    from lynxbench.model.result import SloOutcome

    p99 = decode.per_precision[1].latency_ms["time-per-token"][1].model_copy(update={"resolved": False})
    unresolved = SloOutcome(metric="time-per-token", percentile=99, at_most_ms=9.0, measured=p99, verdict="unresolved")
    line = decide_precisions([changed(decode, slo=(unresolved,))]).lines[1]
    assert line.verdict == "undetermined"
    assert "run it longer" in line.why


def test_losses_on_both_sides_of_the_policy_decide_nothing(decode: Result) -> None:
    accuracy = decode.per_precision[1].accuracy
    assert accuracy is not None
    other = changed(decode, accuracy=accuracy.model_copy(update={"loss": 0.04}))
    line = decide_precisions([other, decode]).lines[1]
    assert line.verdict == "undetermined"
    assert "both sides" in line.why


@pytest.mark.parametrize(
    ("low", "estimate", "high", "words"),
    [
        (110.0, 121.0, 130.0, "1.32× [1.19, 1.42] the reference"),
        (80.0, 90.0, 92.0, "no faster than the reference"),
        (70.0, 110.0, 150.0, "faster or slower undetermined"),
    ],
)
def test_the_word_for_the_speed_is_the_intervals(
    decode: Result, low: float, estimate: float, high: float, words: str
) -> None:
    figure = Figure(low=low, estimate=estimate, high=high, unit="token/s")
    assert words in decide_precisions([changed(decode, sustained=figure)]).sentence


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.011, 0.031, "no-go"), (-0.004, 0.031, "undetermined"), (-0.002, 0.009, "go"), (0.009, 0.0101, "undetermined")],
)
@pytest.mark.parametrize("metric", [AccuracyMetric.PERPLEXITY, AccuracyMetric.TASK])
def test_an_interval_across_the_limit_is_neither_a_go_nor_a_no_go(
    decode: Result, metric: AccuracyMetric, low: float, high: float, verdict: str
) -> None:
    """Found: a firm no-go on an interval that straddles its limit."""
    accuracy = decode.per_precision[1].accuracy
    assert accuracy is not None
    loss = (low + high) / 2
    ends = {"low": low, "high": high} if metric is AccuracyMetric.PERPLEXITY else {"low": -high, "high": -low}
    name = f"{metric.value}-change"
    metrics = {name: loss if metric is AccuracyMetric.PERPLEXITY else -loss}
    metrics |= {f"{name}-{end}": value for end, value in ends.items()}
    judged = accuracy.model_copy(
        update={"metrics": metrics, "loss": loss, "verdict": "go" if loss <= 0.01 else "no-go"}
    )
    policy = decode.contract.policy.model_copy(
        update={
            "accuracy": AccuracyPolicy.model_validate({"metric": metric.value, "largest_loss": "1 %"}, strict=False)
        }
    )
    contract = decode.contract.model_copy(update={"policy": policy})
    result = changed(decode, accuracy=judged, slo=()).model_copy(update={"contract": contract})
    line = decide_precisions([result]).lines[1]
    assert line.verdict == verdict, line.why
    assert line.loss is not None
    assert (line.loss.low, line.loss.high) == pytest.approx((low, high))


@pytest.mark.parametrize("name", [name for name in OF_EVIDENCE if name != "weak"])
def test_planted_evidence_is_neither_a_go_nor_a_no_go(decode: Result, name: str) -> None:
    lines = decide_precisions([OF_EVIDENCE[name][1](decode)]).lines
    assert {line.verdict for line in lines} == {"undetermined"}
    assert all("next: lynxbench run" in line.why for line in lines)


def test_a_doubtful_reference_leaves_its_rivals_open(decode: Result) -> None:
    first, second = decode.per_precision
    doubt = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("3 of 5 processes finished",))
    result = decode.model_copy(update={"per_precision": (first.model_copy(update={"validity": doubt}), second)})
    assert [line.verdict for line in decide_precisions([result]).lines] == ["undetermined", "undetermined"]
