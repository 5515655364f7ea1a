"""What a rerun says, from plain results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lynxbench.evidence.documents import read_result
from lynxbench.model.entries import RerunVerdict
from lynxbench.model.executor import measured
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.record.rerunning import judge_ratio, judge_rerun, render_rerun, rerun_document
from lynxbench.stats.intervals import ratio_interval

MEANS = (100.0, 100.2, 99.9, 100.1, 99.8)


@pytest.fixture(scope="module")
def original(spin_run: Path) -> Result:
    return _with(read_result(spin_run), MEANS)


def _with(result: Result, means: Sequence[float]) -> Result:
    one = result.per_precision[0].model_copy(update={"run_means": tuple(means)})
    validity = Validity(verdict=ValidityVerdict.VALID)
    return result.model_copy(update={"per_precision": (one,), "validity": validity})


@pytest.mark.parametrize(
    ("low", "estimate", "high", "verdict"),
    [
        (0.995, 1.0, 1.005, RerunVerdict.REPRODUCED),  # whole within the margin
        (1.005, 1.01, 1.015, RerunVerdict.REPRODUCED),  # excludes one, negligible
        (0.981, 0.985, 0.99, RerunVerdict.REPRODUCED),
        (0.96, 0.99, 1.02, RerunVerdict.INCONCLUSIVE),  # contains one, and a loss of 4 % too
        (0.95, 0.97, 0.99, RerunVerdict.INCONCLUSIVE),  # excludes one, may be negligible
        (1.01, 1.03, 1.05, RerunVerdict.INCONCLUSIVE),
        (0.94, 0.96, 0.979, RerunVerdict.NOT_REPRODUCED),  # whole beyond the margin
        (0.85, 0.9, 0.95, RerunVerdict.NOT_REPRODUCED),
        (0.2, 0.3, 0.45, RerunVerdict.NOT_REPRODUCED),  # wide, and yet clear
        (0.97, 0.985, 0.999, RerunVerdict.INCONCLUSIVE),  # excludes one, estimate negligible, partly outside
        (0.85, 1.0, 1.02, RerunVerdict.INCONCLUSIVE),  # contains one, too wide on one side
        (0.98, 1.0, 1.2, RerunVerdict.INCONCLUSIVE),
        (math.nan, 1.0, math.nan, RerunVerdict.INCONCLUSIVE),
    ],
)
def test_the_rule_of_reproducing(low: float, estimate: float, high: float, verdict: RerunVerdict) -> None:
    assert judge_ratio(Interval(low, estimate, high)) is verdict
    if not math.isnan(low):  # a loss and its undoing count alike
        assert judge_ratio(Interval(1 / high, 1 / estimate, 1 / low)) is verdict


@pytest.mark.parametrize(
    ("factor", "spread", "verdict", "words"),
    [
        (1.0, 1.0, RerunVerdict.REPRODUCED, "within ±2%"),
        (1.01, 1.0, RerunVerdict.REPRODUCED, "within ±2%"),
        (0.9, 1.0, RerunVerdict.NOT_REPRODUCED, "a change beyond ±2%"),
        (1.1, 1.0, RerunVerdict.NOT_REPRODUCED, "a change beyond ±2%"),
        (0.981, 4.0, RerunVerdict.INCONCLUSIVE, "across the edge of ±2%"),
        (1.0, 90.0, RerunVerdict.INCONCLUSIVE, "wider than ±10%"),
    ],
)
def test_each_verdict_is_reached_by_run_means(
    original: Result, factor: float, spread: float, verdict: RerunVerdict, words: str
) -> None:
    again = _with(original, [factor * (100 + spread * (mean - 100)) for mean in MEANS])
    judged = judge_rerun(original, again)
    assert judged.verdict is verdict, judged.why
    assert words in judged.why
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
    assert "1 field differs in system" in judged.why
    assert original.contract.owners[Layer.SYSTEM] in render_rerun(original, again, judged)


def test_without_what_was_left_out_of_the_surroundings_nothing_is_settled(original: Result) -> None:
    for factor in (1.0, 0.9):
        again = _with(original, [factor * mean for mean in MEANS])
        judged = judge_rerun(original, again, ("LD_PRELOAD", "cpus"))
        assert (judged.verdict, judged.outcome) == (RerunVerdict.EXECUTOR_DIFFERS, "undetermined")
        assert judged.why == "the surroundings differ: without LD_PRELOAD, cpus"
        assert judged.differing == ("surroundings.LD_PRELOAD", "surroundings.cpus")
        assert rerun_document(original, again, judged, None)["left_out"] == ["LD_PRELOAD", "cpus"]
        assert render_rerun(original, again, judged).startswith("UNDETERMINED (EXECUTOR DIFFERS): the surroundings")


def test_figures_that_were_not_recomputed_are_not_reproduced_and_may_yet_be_refuted(original: Result) -> None:
    same = judge_rerun(original, _with(original, MEANS), recomputed=False)
    assert (same.verdict, same.outcome) == (RerunVerdict.INCONCLUSIVE, "undetermined")
    assert "verify the original first" in same.why
    slower = judge_rerun(original, _with(original, [0.9 * mean for mean in MEANS]), recomputed=False)
    assert (slower.verdict, slower.outcome) == (RerunVerdict.NOT_REPRODUCED, "not reproduced")


def test_a_void_run_reproduces_nothing(original: Result) -> None:
    void = original.model_copy(update={"validity": Validity(verdict=ValidityVerdict.VOID)})
    assert judge_rerun(original, void).verdict is RerunVerdict.INCONCLUSIVE
    assert "the original is void" in judge_rerun(void, original).why


@pytest.mark.parametrize("factor", [1.0, 0.9])
def test_a_doubtful_run_neither_reproduces_nor_refutes(original: Result, factor: float) -> None:
    busy = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("others used 40 % of the machine",))
    again = _with(original, [factor * mean for mean in MEANS]).model_copy(update={"validity": busy})
    judged = judge_rerun(original, again)
    assert judged.verdict is RerunVerdict.INCONCLUSIVE
    assert "the rerun is doubtful (others used 40 % of the machine)" in judged.why


def test_a_true_loss_of_5_percent_is_not_called_reproduced() -> None:
    rng = np.random.default_rng(16)
    verdicts = []
    for noise in (0.002, 0.01, 0.03):
        for _ in range(60):
            runs = np.exp(rng.normal(0.0, noise, (2, 5))) * [[100.0], [95.0]]
            verdicts.append(judge_ratio(ratio_interval(list(runs[0]), list(runs[1]), 0.95)))
    assert verdicts.count(RerunVerdict.REPRODUCED) == 0
