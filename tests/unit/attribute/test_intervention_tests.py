"""Interventions: proposed by the engine's means, predicted from shares, and stronger than the prediction."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lynxbench.attribute.judge.intervention_tests import (
    DECIDING,
    TESTS,
    InterventionProposal,
    judge_intervention,
    not_measured,
    predict_gain,
    propose_interventions,
    with_interventions,
    without_interventions,
)
from lynxbench.model.attribution import Attribution, Bound, Category, Intervention
from lynxbench.model.contract import Contract, Graph, TorchEngine
from lynxbench.model.interval import Interval
from lynxbench.model.interventions import Change, InterventionScope
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision


def _contract(**changes: Any) -> Contract:
    document: dict[str, Any] = {
        "lynxbench": 1,
        "name": "made",
        "question": "?",
        "regime": "latency",
        "workload": {
            "task": "generate",
            "model": {"source": "preset", "name": "tiny"},
            "precisions": ["fp32"],
            "batch": 3,
            "input_tokens": {"distribution": "fixed", "value": 4},
            "output_tokens": {"distribution": "fixed", "value": 4},
        },
        "engine": {"name": "torch"},
        **changes,
    }
    return Contract.model_validate_json(json.dumps(document))


def _found(bottleneck: Category = Category.LAUNCH, share: float = 0.6) -> Attribution:
    rest = Category.MEMORY_BANDWIDTH if bottleneck is Category.LAUNCH else Category.LAUNCH
    return Attribution(
        bottleneck=bottleneck,
        bound=Bound.SOFTWARE,
        layer=Layer.RUNTIME,
        owner="them",
        shares={bottleneck: share, rest: 1 - share},
        gain_if_removed=Interval(1.4, 2.5, 3.6),
        evidence=("a",),
        weak=True,
        sentence="software-bound: so it is",
        next_step="compile",
        wall_ms_per_step=3.0,
        steps=3,
    )


def _propose(
    contract: Contract | None = None,
    found: Attribution | None = None,
    device: str = "cpu",
    scope: InterventionScope = InterventionScope.VERDICT,
    precision: Precision = Precision.FP32,
) -> dict[Change, InterventionProposal]:
    proposals = propose_interventions(
        contract or _contract(), found or _found(), precision=precision, device=device, scope=scope
    )
    return {proposal.change: proposal for proposal in proposals}


def _done(*pairs: tuple[InterventionProposal, Intervention]) -> list[tuple[InterventionProposal, Intervention]]:
    return list(pairs)


def test_what_is_tried_follows_from_the_verdict() -> None:
    assert tuple(_propose(device="cuda:0")) == (Change.REPLAY, Change.COMPILE, Change.DOUBLE_BATCH)
    assert tuple(_propose(found=_found(Category.INPUT))) == (Change.PRESTAGE,)
    assert tuple(_propose(found=_found(Category.SYNCHRONIZATION), device="cuda")) == (Change.NO_SYNC,)
    everything = _propose(scope=InterventionScope.ALL)
    assert set(everything) == set(Change)
    assert next(iter(everything)) is Change.REPLAY
    for category, deciding in DECIDING.items():
        assert set(deciding) <= set(TESTS[category])


def test_what_needs_a_device_does_not_apply_on_a_cpu() -> None:
    on_cpu = _propose(scope=InterventionScope.ALL)
    refused = {change for change, proposal in on_cpu.items() if proposal.inapplicable}
    assert refused == {Change.REPLAY, Change.PIN, Change.NO_TRANSFER, Change.NO_SYNC}
    said = judge_intervention(on_cpu[Change.PIN], [10.0], [])
    assert said.note.startswith("does not apply: the step ran on a CPU")
    assert not said.measured.known
    assert not any(
        proposal.inapplicable for proposal in _propose(scope=InterventionScope.ALL, device="cuda:0").values()
    )


def test_one_thing_is_changed_at_a_time() -> None:
    proposals = _propose(scope=InterventionScope.ALL, device="cuda:0")
    same = _contract()
    compiled = proposals[Change.COMPILE].contract
    assert isinstance(compiled.engine, TorchEngine)
    assert compiled.engine.graph is Graph.COMPILE
    assert compiled.workload == same.workload
    doubled = proposals[Change.DOUBLE_BATCH].contract
    assert (doubled.workload.batch, doubled.engine) == (6, same.engine)
    stepped = proposals[Change.STEP_PRECISION]
    assert stepped.precision is Precision.TF32
    assert stepped.contract.workload.precisions == (Precision.TF32,)
    assert stepped.name == "step the precision to tf32"
    for change in (Change.REPLAY, Change.PRESTAGE, Change.PIN, Change.NO_TRANSFER, Change.NO_SYNC):
        proposal = proposals[change]
        assert proposal.inside_engine is change
        assert (proposal.contract.workload, proposal.contract.engine) == (same.workload, same.engine)
    assert proposals[Change.COMPILE].inside_engine is None


@pytest.mark.parametrize(
    ("precision", "device", "narrower"),
    [
        (Precision.FP32, "cpu", Precision.INT8),
        (Precision.FP32, "cuda:0", Precision.TF32),
        (Precision.TF32, "cuda:0", Precision.BF16),
        (Precision.BF16, "cuda:1", Precision.FP8),
        (Precision.INT8, "cpu", None),
    ],
)
def test_precision_goes_down_one_step(precision: Precision, device: str, narrower: Precision | None) -> None:
    proposal = _propose(scope=InterventionScope.ALL, device=device, precision=precision)[Change.STEP_PRECISION]
    assert (proposal.inapplicable is None) == (narrower is not None)
    assert proposal.precision is (narrower or precision)


def test_predictions_follow_from_the_shares() -> None:
    proposals = _propose(found=_found(share=0.6), device="cuda", scope=InterventionScope.ALL)
    assert proposals[Change.COMPILE].predicted.estimate == pytest.approx(2.5)
    assert proposals[Change.REPLAY].predicted.estimate == pytest.approx(2.5)
    assert proposals[Change.DOUBLE_BATCH].predicted.estimate == pytest.approx(2.0)
    for change in (Change.PRESTAGE, Change.PIN, Change.NO_TRANSFER, Change.NO_SYNC):
        assert proposals[change].predicted == Interval(1.0, 1.0, 1.0), "no such share, no such gain"
    moved = {Category.TRANSFER: 0.5, Category.COMPUTE: 0.5}
    pinned = predict_gain(Change.PIN, moved, Precision.FP32, None).estimate
    removed = predict_gain(Change.NO_TRANSFER, moved, Precision.FP32, None).estimate
    assert 1.0 < pinned < removed == pytest.approx(2.0)
    halved = predict_gain(Change.STEP_PRECISION, {Category.COMPUTE: 1.0}, Precision.TF32, Precision.BF16)
    assert halved.low == 1.0
    assert halved.high == pytest.approx(2.0)
    tensor_cores = predict_gain(Change.STEP_PRECISION, {Category.COMPUTE: 1.0}, Precision.FP32, Precision.TF32)
    assert tensor_cores.high == pytest.approx(8.0)


def test_a_compiled_contract_is_not_compiled_again_and_others_are_left_alone() -> None:
    compiled = _propose(_contract(engine={"name": "torch", "graph": "compile"}), device="cuda")
    assert "compiled already" in (compiled[Change.COMPILE].inapplicable or "")
    assert "compiled already" in (compiled[Change.REPLAY].inapplicable or "")
    onnx = _propose(_contract(engine={"name": "onnx"}), scope=InterventionScope.ALL)
    assert {c for c, p in onnx.items() if p.inapplicable is None} == {Change.DOUBLE_BATCH, Change.STEP_PRECISION}
    workload = {
        "task": "callable",
        "model": {"source": "callable", "target": "a:b"},
        "precisions": ["fp32"],
    }
    assert _propose(_contract(engine={"name": "callable"}, workload=workload), scope=InterventionScope.ALL) == {}
    assert "engine callable owns" in without_interventions(_found(), "callable").evidence[-1]


def test_the_measurement_replaces_the_prediction() -> None:
    proposal = _propose()[Change.COMPILE]
    done = judge_intervention(proposal, [10.0, 10.1], [20.8, 21.0])
    assert done.measured.estimate == pytest.approx(2.08, abs=0.01)
    assert 1.9 < done.measured.low < done.measured.estimate < done.measured.high < 2.3
    assert done.note == "as predicted"
    corrected = with_interventions(_found(), _done((proposal, done)))
    assert corrected.gain_if_removed == done.measured
    assert not corrected.weak
    assert "measured by intervention (compile the step): 2.08×" in corrected.sentence
    assert "predicted 1.43–3.57×, measured 2.08×" in corrected.evidence[-2]
    assert "confirms" in corrected.evidence[-1]


def test_one_process_a_side_gives_the_farthest_pair() -> None:
    done = judge_intervention(_propose()[Change.COMPILE], [10.0, 11.0], [21.0])
    assert done.measured.low == pytest.approx(21 / 11)
    assert done.measured.high == pytest.approx(2.1)


def test_a_gain_that_does_not_come_contradicts_the_verdict_and_names_what_helped() -> None:
    proposals = _propose(scope=InterventionScope.ALL)
    compiled, staged = proposals[Change.COMPILE], proposals[Change.PRESTAGE]
    done = judge_intervention(compiled, [10.0], [10.1])
    assert done.note == "less than predicted"
    helped = judge_intervention(staged, [10.0, 10.0], [14.0, 14.1])
    assert helped.note == "more than predicted"
    corrected = with_interventions(_found(), _done((compiled, done), (staged, helped)))
    assert corrected.weak
    assert corrected.gain_if_removed.estimate == 1.0
    assert "contradicted: to compile the step gained nothing" in corrected.sentence
    assert corrected.next_step.startswith("prestage the inputs: measured 1.4")
    assert len(corrected.interventions) == 2


def test_a_measured_interval_wholly_below_the_prediction_corrects_the_gain() -> None:
    # A training step on an H200: compilation was to gain 1.62 to 12.07 times and gained 1.13 [0.91, 1.39].
    proposal = replace(_propose()[Change.COMPILE], predicted=Interval(1.62, 4.24, 12.07))
    rates = [10.0, 10.7, 9.6], [11.0, 12.6, 10.8]
    done = judge_intervention(proposal, *rates)
    assert done.measured.estimate > 1.05
    assert 1.62 / 1.25 < done.measured.high < 1.62
    assert done.note == "less than predicted"
    corrected = with_interventions(_found(), _done((proposal, done)))
    assert corrected.gain_if_removed == done.measured
    assert corrected.weak
    assert "gain corrected by intervention (compile the step)" in corrected.sentence
    assert "where 1.62–12.07× was predicted" in corrected.sentence
    assert "contradicts the predicted gain of the verdict" in corrected.evidence[-1]
    touching = judge_intervention(replace(proposal, predicted=Interval(done.measured.high, 4.0, 9.0)), *rates)
    assert touching.note == "as predicted"


def test_a_noisy_measurement_decides_nothing() -> None:
    proposal = _propose()[Change.COMPILE]
    open_question = with_interventions(
        _found(), _done((proposal, judge_intervention(proposal, [10.0, 14.0], [9.0, 15.0])))
    )
    assert open_question.weak
    assert open_question.gain_if_removed == _found().gain_if_removed
    assert "not confirmed by intervention" in open_question.sentence
    assert "leaves open" in open_question.evidence[-1]


def test_a_machine_that_changed_decides_nothing() -> None:
    proposal = _propose()[Change.COMPILE]
    done = _done((proposal, judge_intervention(proposal, [10.0, 20.0], [40.0, 41.0])))
    kept = with_interventions(_found(), done, [10.0, 20.0])
    assert (kept.sentence, kept.gain_if_removed, kept.weak) == (_found().sentence, _found().gain_if_removed, True)
    assert "differ by a factor of 2.0" in kept.evidence[-1]
    sure = _done((proposal, judge_intervention(proposal, [10.0, 10.1], [21.0, 21.1])))
    assert "confirms" in with_interventions(_found(), sure, [10.0, 10.1]).evidence[-1]
    assert done[0][1].note == "too uncertain to tell"


def test_replay_decides_before_compilation() -> None:
    proposals = _propose(device="cuda:0")
    replay, compiled = proposals[Change.REPLAY], proposals[Change.COMPILE]
    done = _done(
        (replay, judge_intervention(replay, [10.0, 10.0], [30.0, 30.1])),
        (compiled, judge_intervention(compiled, [10.0, 10.0], [20.0, 20.1])),
    )
    assert with_interventions(_found(), done).gain_if_removed.estimate == pytest.approx(3.0, abs=0.01)


def test_arithmetic_to_spare_contradicts_a_compute_bound_verdict() -> None:
    found = _found(Category.COMPUTE, 0.9).model_copy(update={"bound": Bound.HARDWARE})
    doubled = _propose(found=found)[Change.DOUBLE_BATCH]
    wide = with_interventions(found, _done((doubled, judge_intervention(doubled, [10.0, 10.0], [19.0, 19.1]))))
    assert (wide.bound, wide.owner, wide.weak) == (Bound.UNDETERMINED, None, True)
    assert "contradicted" in wide.sentence
    assert wide.sentence.startswith("undetermined: ")
    assert wide.gain_if_removed.estimate == 1.0
    same = with_interventions(found, _done((doubled, judge_intervention(doubled, [10.0, 10.0], [10.0, 10.1]))))
    assert (same.bound, same.sentence) == (Bound.HARDWARE, found.sentence)


def test_a_batch_says_nothing_about_memory_that_slow_kernels_leave_idle() -> None:
    found = _found(Category.MEMORY_BANDWIDTH)
    doubled = _propose(found=found)[Change.DOUBLE_BATCH]
    none = judge_intervention(doubled, [10.0, 10.0], [10.0, 10.1])
    assert with_interventions(found, _done((doubled, none))).sentence == found.sentence
    hardware = found.model_copy(update={"bound": Bound.HARDWARE})
    assert "contradicted" in with_interventions(hardware, _done((doubled, none))).sentence


def test_an_intervention_that_did_not_run_changes_nothing_but_is_kept() -> None:
    proposal = _propose()[Change.COMPILE]
    failed = not_measured(proposal, "no compiler")
    assert failed.note == "not measured: no compiler"
    kept = with_interventions(_found(), _done((proposal, failed)))
    assert kept.interventions == (failed,)
    assert kept.sentence == _found().sentence
    assert kept.evidence[-1] == "intervention: compile the step: not measured: no compiler"
    assert with_interventions(_found(), []) == _found()
    assert not_measured(proposal, "does not apply: images").note == "does not apply: images"
