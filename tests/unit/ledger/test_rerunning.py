"""What a rerun says, from plain results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lynxbench.evidence.documents import read_result
from lynxbench.model.entries import RerunVerdict
from lynxbench.model.executor import measured
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.rerunning import judge_rerun, render_rerun, rerun_document

MEANS = (100.0, 100.2, 99.9, 100.1, 99.8)


@pytest.fixture(scope="module")
def original(spin_run: Path) -> Result:
    result = read_result(spin_run)
    policy = result.contract.policy.model_copy(update={"regression": 0.03})
    contract = result.contract.model_copy(update={"policy": policy})
    return _with(result.model_copy(update={"contract": contract}), MEANS)


def _with(result: Result, means: Sequence[float]) -> Result:
    one = result.per_precision[0].model_copy(update={"run_means": tuple(means)})
    validity = Validity(verdict=ValidityVerdict.VALID)
    return result.model_copy(update={"per_precision": (one,), "validity": validity})


@pytest.mark.parametrize(
    ("factor", "spread", "verdict"),
    [
        (1.0, 1.0, RerunVerdict.REPRODUCED),
        (1.01, 1.0, RerunVerdict.REPRODUCED),
        (0.9, 1.0, RerunVerdict.NOT_REPRODUCED),
        (1.1, 1.0, RerunVerdict.NOT_REPRODUCED),
        (0.97, 1.0, RerunVerdict.INCONCLUSIVE),
        (1.0, 60.0, RerunVerdict.INCONCLUSIVE),
    ],
)
def test_the_whole_interval_decides(original: Result, factor: float, spread: float, verdict: RerunVerdict) -> None:
    again = _with(original, [factor * (100 + spread * (mean - 100)) for mean in MEANS])
    judged = judge_rerun(original, again)
    assert judged.verdict is verdict
    said = rerun_document(original, again, judged, 7)
    assert said["verdict"] == verdict.value
    assert verdict.value.upper() in render_rerun(original, again, judged)


def test_one_process_settles_nothing(original: Result) -> None:
    judged = judge_rerun(original, _with(original, [100.0]))
    assert judged.verdict is RerunVerdict.INCONCLUSIVE
    assert "too few restarts" in judged.why


def test_another_executor_is_said_with_field_layer_and_owner(original: Result) -> None:
    executor = original.executor.merged({Layer.SYSTEM: {"driver": measured("570.1", "test")}})
    again = original.model_copy(update={"executor": executor})
    judged = judge_rerun(original, again)
    assert judged.verdict is RerunVerdict.EXECUTOR_DIFFERS
    assert judged.differing == ("system.driver",)
    assert original.contract.owners[Layer.SYSTEM] in render_rerun(original, again, judged)


def test_a_void_run_reproduces_nothing(original: Result) -> None:
    void = original.model_copy(update={"validity": Validity(verdict=ValidityVerdict.VOID)})
    assert judge_rerun(original, void).verdict is RerunVerdict.INCONCLUSIVE
    assert "the original is void" in judge_rerun(void, original).why
