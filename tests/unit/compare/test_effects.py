"""Effects and verdicts: direction, budget, doubt, and what would settle it."""

from __future__ import annotations

import math

import pytest

from compared import make_contract, make_load, make_precision, make_result, make_slo
from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.effects import (
    BY_BOUNDS,
    BY_RUN_PERCENTILES,
    TOO_FEW_CALLS,
    WITHOUT_SAMPLES,
    decide,
    leading_figure,
    restarts_needed,
)
from lynxbench.compare.pair import ComparedPair, ComparedSide, LatencyRuns
from lynxbench.model.comparison import EffectVerdict
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.precision import Precision

SAME = (100.0, 101.0, 99.0, 100.5, 99.5)
FASTER = tuple(x * 1.1 for x in SAME)
SLOWER = tuple(x * 0.9 for x in SAME)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.90, 0.94, EffectVerdict.REGRESSED),
        (0.94, 0.96, EffectVerdict.INCONCLUSIVE),
        (0.96, 1.01, EffectVerdict.WITHIN_BUDGET),
        (1.01, 1.04, EffectVerdict.WITHIN_BUDGET),
        (1.06, 1.20, EffectVerdict.IMPROVED),
        (1.01, 1.20, EffectVerdict.WITHIN_BUDGET),
    ],
)
def test_throughput_against_a_budget_of_5_percent(low: float, high: float, verdict: EffectVerdict) -> None:
    assert decide(Interval(low, (low + high) / 2, high), 0.05, higher_is_better=True) is verdict
    mirrored = Interval(2 - high, 2 - (low + high) / 2, 2 - low)
    assert decide(mirrored, 0.05, higher_is_better=False) is verdict, "a latency is its mirror image"


def test_what_is_not_known_is_inconclusive() -> None:
    assert decide(UNKNOWN_INTERVAL, 0.05, higher_is_better=True) is EffectVerdict.INCONCLUSIVE
    half = Interval(math.nan, 0.5, math.nan)
    assert decide(half, 0.05, higher_is_better=True) is EffectVerdict.INCONCLUSIVE


def test_a_regression_is_called_and_quantified() -> None:
    found = compare_pair(ComparedPair(ComparedSide(make_result()), ComparedSide(make_result(run_means=SLOWER))))
    assert found.verdict is EffectVerdict.REGRESSED
    assert found.effect is not None
    assert found.effect.low < 0.9 < found.effect.high
    assert found.figure == "throughput"
    assert found.precision is Precision.FP32


def test_the_worst_precision_decides() -> None:
    a = make_result(per_precision=(make_precision(), make_precision(Precision.INT8)))
    b = make_result(per_precision=(make_precision(), make_precision(Precision.INT8, run_means=SLOWER)))
    found = compare_pair(ComparedPair(ComparedSide(a), ComparedSide(b)))
    assert (found.verdict, found.precision) == (EffectVerdict.REGRESSED, Precision.INT8)


def test_the_regime_and_the_load_choose_the_leading_figure() -> None:
    slo = {"objective": {"slo": [{"metric": "latency", "percentile": 99, "at_most": "11 ms"}]}}
    assert leading_figure(make_contract()) == "throughput"
    assert leading_figure(make_contract(regime="latency")) == "latency p50"
    assert leading_figure(make_contract(regime="latency", **slo)) == "latency p99"
    workload = make_contract().canonical()["workload"]
    assert isinstance(workload, dict)
    arriving = workload | {"arrival": {"process": "poisson", "rate": "5 /s"}}
    assert leading_figure(make_contract(workload=arriving)) == "latency p50"


def test_latencies_need_the_processes_for_a_verdict() -> None:
    a, b = make_result(), make_result()
    bare = compare_pair(ComparedPair(ComparedSide(a), ComparedSide(b)))
    latency = next(e for e in bare.per_precision[0].effects if e.figure == "latency p50")
    assert latency.basis == BY_BOUNDS
    assert (latency.verdict, latency.why) == (EffectVerdict.INCONCLUSIVE, WITHOUT_SAMPLES)
    few: LatencyRuns = {Precision.FP32: {}}
    short = compare_pair(ComparedPair(ComparedSide(a, latency_runs=few), ComparedSide(b, latency_runs=few)))
    latency = next(e for e in short.per_precision[0].effects if e.figure == "latency p50")
    assert (latency.verdict, latency.why) == (EffectVerdict.INCONCLUSIVE, TOO_FEW_CALLS)
    runs = [{Precision.FP32: {("latency", 50.0): tuple(f * x for x in (10.0, 10.1, 9.9, 10.0, 10.05))}} for f in (1, 2)]
    full = compare_pair(ComparedPair(ComparedSide(a, latency_runs=runs[0]), ComparedSide(b, latency_runs=runs[1])))
    latency = next(e for e in full.per_precision[0].effects if e.figure == "latency p50")
    assert latency.basis == BY_RUN_PERCENTILES
    assert latency.ratio.estimate == pytest.approx(2.0)
    assert latency.verdict is EffectVerdict.REGRESSED


TOO_FEW: LatencyRuns = {Precision.FP32: {}}
ARRIVING = {"process": "poisson", "rate": "5 /s"}


@pytest.mark.parametrize(
    ("percentile", "arrival", "means", "leading", "verdict"),
    [
        (None, None, SLOWER, "throughput", EffectVerdict.REGRESSED),
        (None, None, FASTER, "throughput", EffectVerdict.IMPROVED),
        (99, None, SLOWER, "latency p99", EffectVerdict.INCONCLUSIVE),  # of a tail the rate says nothing
        (None, ARRIVING, SLOWER, "latency p50", EffectVerdict.INCONCLUSIVE),  # who sends fixes the rate
    ],
)
def test_few_calls_one_after_the_other_are_judged_by_their_rate(
    percentile: int | None,
    arrival: dict[str, str] | None,
    means: tuple[float, ...],
    leading: str,
    verdict: EffectVerdict,
) -> None:
    slo = [{"metric": "latency", "percentile": percentile, "at_most": "11 ms"}] if percentile else []
    workload = make_contract().canonical()["workload"]
    assert isinstance(workload, dict)
    wanted = {"workload": workload | {"arrival": arrival}} if arrival else {}
    contract = make_contract(regime="latency", objective={"slo": slo}, **wanted)
    a, b = (make_result(contract=contract, run_means=runs) for runs in (SAME, means))
    found = compare_pair(ComparedPair(ComparedSide(a, latency_runs=TOO_FEW), ComparedSide(b, latency_runs=TOO_FEW)))
    assert (found.per_precision[0].leading, found.verdict) == (leading, verdict)
    assert found.figure == (leading if leading == "throughput" else found.figure)


def test_a_saturation_search_that_ends_elsewhere_gives_no_latency_ratio() -> None:
    served = {
        "regime": "throughput",
        "objective": {"slo": [{"metric": "latency", "percentile": 99, "at_most": "1 s"}]},
        "workload": {
            "task": "embed",
            "model": {"source": "served", "name": "m"},
            "precisions": ["fp32"],
            "input_tokens": {"distribution": "fixed", "value": 8},
            "arrival": {"process": "saturating"},
        },
        "engine": {"name": "openai", "url": "http://127.0.0.1:8000/v1"},
    }
    it = make_contract(**served)
    a, b = (
        make_result(contract=it, per_precision=(make_precision(load=make_load(offered=rate), slo=(make_slo("met"),)),))
        for rate in (10.0, 20.0)
    )
    found = compare_pair(ComparedPair(ComparedSide(a), ComparedSide(b)))
    assert not found.refused
    assert [effect.figure for effect in found.per_precision[0].effects] == ["throughput"]


def test_it_says_how_many_restarts_would_settle_it() -> None:
    straddling = Interval(0.97, 0.985, 1.0)
    needed = restarts_needed(straddling, 0.005, 5, higher_is_better=True)
    assert needed is not None
    assert 6 <= needed <= 20
    assert restarts_needed(Interval(0.9, 0.995, 1.1), 0.005, 5, higher_is_better=True) is None
