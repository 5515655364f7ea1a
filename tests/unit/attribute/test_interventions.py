"""Interventions: proposed by the engine's means, predicted from shares, and stronger than the prediction."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from lynxbench.attribute.interventions import (
    COMPILE,
    DOUBLE_BATCH,
    judge_intervention,
    propose_interventions,
    with_interventions,
)
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.contract import Contract, Graph, TorchEngine
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer


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


def test_the_bottleneck_is_tested_first() -> None:
    assert [p.name for p in propose_interventions(_contract(), _found())] == [COMPILE, DOUBLE_BATCH]
    memory = _found(Category.MEMORY_BANDWIDTH).model_copy(update={"bound": Bound.HARDWARE})
    assert [p.name for p in propose_interventions(_contract(), memory)] == [DOUBLE_BATCH, COMPILE]


def test_one_thing_is_changed_at_a_time() -> None:
    compiled, doubled = propose_interventions(_contract(), _found())
    assert isinstance(compiled.contract.engine, TorchEngine)
    assert compiled.contract.engine.graph is Graph.COMPILE
    assert compiled.contract.workload == _contract().workload
    assert doubled.contract.workload.batch == 6
    assert doubled.contract.engine == _contract().engine


def test_predictions_follow_from_the_shares() -> None:
    compiled, doubled = propose_interventions(_contract(), _found(share=0.6))
    assert compiled.predicted.estimate == pytest.approx(2.5)
    assert doubled.predicted.estimate == pytest.approx(2.0)
    assert compiled.predicted.low < compiled.predicted.estimate < compiled.predicted.high


def test_a_compiled_contract_is_not_compiled_again_and_others_are_left_alone() -> None:
    compiled = _contract(engine={"name": "torch", "graph": "compile"})
    assert [p.name for p in propose_interventions(compiled, _found())] == [DOUBLE_BATCH]
    assert propose_interventions(_contract(engine={"name": "onnx"}), _found()) == ()


def test_the_measurement_replaces_the_prediction() -> None:
    proposal = propose_interventions(_contract(), _found())[0]
    done = judge_intervention(proposal, [10.0, 11.0], [21.0])
    assert done.measured.estimate == pytest.approx(2.0)
    assert done.measured.low == pytest.approx(21 / 11)
    assert done.note == "as predicted"
    corrected = with_interventions(_found(), [done])
    assert corrected.gain_if_removed == done.measured
    assert not corrected.weak
    assert "measured by intervention (compile the step): 2×" in corrected.sentence
    assert "confirms" in corrected.evidence[-1]


def test_a_gain_that_does_not_come_contradicts_the_verdict() -> None:
    proposal = propose_interventions(_contract(), _found())[0]
    done = judge_intervention(proposal, [10.0], [10.1])
    assert done.note == "less than predicted"
    corrected = with_interventions(_found(), [done])
    assert corrected.weak
    assert corrected.gain_if_removed.estimate == 1.0
    assert "contradicted" in corrected.sentence


def test_an_intervention_that_did_not_run_changes_nothing_but_is_kept() -> None:
    proposal = propose_interventions(_contract(), _found())[0]
    done = judge_intervention(proposal, [10.0], [])
    assert math.isnan(done.measured.estimate)
    kept = with_interventions(_found(), [done])
    assert kept.interventions == (done,)
    assert kept.sentence == _found().sentence
    assert with_interventions(_found(), []) == _found()
