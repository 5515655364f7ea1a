"""Samples to figures: known rates, known percentiles, phases excluded, objectives judged."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lynxbench.measure.precision_figures import latencies_ms, measure_precision, measure_precisions
from lynxbench.measure.validity import Doubt, judge_drift, judge_precision, validity_of
from lynxbench.model.contract import Contract
from lynxbench.model.executor import FieldChange, Tier
from lynxbench.model.layers import Layer
from lynxbench.model.result import ValidityVerdict
from lynxbench.model.samples import Iterations, Marks, ProcessSamples
from lynxbench.model.verdicts import SteadyVerdict

TOKENS = 8


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
            "input_tokens": {"distribution": "fixed", "value": 4},
            "output_tokens": {"distribution": "fixed", "value": TOKENS},
        },
        "engine": {"name": "torch"},
        "objective": {
            "slo": [
                {"metric": "time-per-token", "percentile": 90, "at_most": "12 ms"},
                {"metric": "time-to-first-token", "percentile": 90, "at_most": "15 ms"},
                {"metric": "latency", "percentile": 99.9, "at_most": "100 ms"},
            ]
        },
        **changes,
    }
    return Contract.model_validate_json(json.dumps(document))


def _process(index: int, *, rows: int = 1200, speed: float = 1.0, slow_start: int = 40) -> ProcessSamples:
    """Requests of 20 ms to the first token and 10 ms a token after it, with 1 % noise and a slow start."""
    rng = np.random.default_rng(index)
    token_s = np.full((rows, TOKENS), 0.010)
    token_s[:, 0] = 0.020
    token_s *= np.exp(rng.normal(0, 0.01, token_s.shape)) / speed
    token_s[:slow_start] *= 3
    stamps_ns = np.cumsum((token_s * 1e9).astype(np.int64).ravel()).reshape(rows, TOKENS)
    ends_ns = stamps_ns[:, -1]
    starts_ns = np.concatenate(([0], ends_ns[:-1]))
    return ProcessSamples(
        process=index,
        precision="fp32",
        setup_ns=(-3_000_000_000, -1_000_000_000),
        compile_ns=(-1_000_000_000, 0),
        iterations=Iterations(starts_ns, ends_ns, np.full(rows, TOKENS, dtype=np.int64)),
        marks=Marks(np.repeat(np.arange(rows, dtype=np.int64), TOKENS), stamps_ns.ravel()),
    )


PROCESSES = [_process(i, speed=speed) for i, speed in enumerate((1.0, 1.01, 0.99, 1.0, 1.005))]


def test_throughput_is_that_of_the_steady_part() -> None:
    measured = measure_precision(_contract(), PROCESSES, "token")
    truth = TOKENS / (0.020 + 0.010 * (TOKENS - 1))
    assert measured.steady.verdict is SteadyVerdict.STEADY
    assert measured.throughput.interval.inside(truth * 0.98, truth * 1.02)
    assert measured.throughput.interval.estimate == pytest.approx(truth, rel=0.01)
    assert measured.sustained == measured.throughput
    assert measured.peak.estimate is not None
    assert measured.peak.estimate >= measured.throughput.interval.estimate
    assert len(measured.run_means) == 5


def test_token_latencies_are_told_apart() -> None:
    measured = measure_precision(_contract(), PROCESSES, "token")
    median = {metric: rows[0].estimate for metric, rows in measured.latency_ms.items()}
    assert median["time-to-first-token"] == pytest.approx(20, rel=0.02)
    assert median["time-per-token"] == pytest.approx(10, rel=0.02)
    assert median["latency"] == pytest.approx(90, rel=0.02)


def test_objectives_are_met_missed_or_unresolved() -> None:
    verdicts = {o.metric: o.verdict for o in measure_precision(_contract(), PROCESSES, "token").slo}
    assert verdicts == {"time-per-token": "met", "time-to-first-token": "missed", "latency": "met"}
    few = [_process(i, rows=200, slow_start=0) for i in range(5)]
    contract = _contract(objective={"slo": [{"metric": "latency", "percentile": 99.9, "at_most": "100 ms"}]})
    assert [o.verdict for o in measure_precision(contract, few, "token").slo] == ["unresolved"]


def test_executed_is_counted_plus_excluded() -> None:
    steady = measure_precision(_contract(), PROCESSES, "token").steady
    excluded = {e.phase: e for e in steady.excluded}
    assert steady.executed_s == pytest.approx(steady.counted_s + sum(e.seconds for e in steady.excluded))
    assert excluded["setup"].seconds == pytest.approx(10)
    assert excluded["compile"].seconds == pytest.approx(5)
    assert excluded["warm-up"].iterations >= 5 * 30
    total = steady.counted_iterations + sum(e.iterations for e in steady.excluded)
    assert total == sum(len(p.iterations) for p in PROCESSES)


def test_the_worst_process_decides_about_steadiness() -> None:
    drifting = _process(9, slow_start=0)
    stretched = Iterations(
        (drifting.iterations.start_ns * np.linspace(1, 1.1, 1200)).astype(np.int64),
        (drifting.iterations.end_ns * np.linspace(1, 1.1, 1200)).astype(np.int64),
        drifting.iterations.units,
    )
    bad = ProcessSamples(9, "fp32", drifting.setup_ns, None, stretched, Marks(np.empty(0, int), np.empty(0, int)))
    measured = measure_precision(_contract(), [*PROCESSES[:4], bad], "token")
    assert measured.steady.verdict is SteadyVerdict.NOT_STEADY
    assert measured.sustained is None
    findings = judge_precision(measured, _contract().protocol, [])
    assert any("not steady" in f.reason for f in findings)
    assert validity_of(findings).verdict is ValidityVerdict.DOUBTFUL


def test_missing_processes_and_failures_are_reasons() -> None:
    measured = measure_precision(_contract(), PROCESSES[:2], "token")
    reasons = validity_of(judge_precision(measured, _contract().protocol, ["out of memory"])).reasons
    assert "a process failed: out of memory" in reasons
    assert "2 of 5 processes finished" in reasons


@pytest.mark.parametrize("seed", range(8))
def test_tokens_are_told_apart_by_the_iteration_that_they_are_of(seed: int) -> None:
    rng = np.random.default_rng(seed)
    starts = np.cumsum(rng.integers(10**6, 10**9, 12))
    rows = np.repeat(np.arange(12), rng.integers(0, 5, 12))  # some have no mark, some one
    stamps = starts[rows] + np.sort(rng.integers(0, 10**8, len(rows)))
    counted = rng.random(12) < 0.7
    process = ProcessSamples(
        0, "fp32", (0, 0), None, Iterations(starts, starts + 10**9, starts * 0 + 1), Marks(rows, stamps)
    )
    first, between = [], []
    for place, (row, stamp) in enumerate(zip(rows.tolist(), stamps.tolist(), strict=True)):
        if counted[row] and (place == 0 or rows[place - 1] != row):
            first.append((stamp - int(starts[row])) / 1e6)
        elif counted[row]:
            between.append((stamp - int(stamps[place - 1])) / 1e6)
    found = latencies_ms(process, counted)
    assert found["latency"].tolist() == [1e3] * int(counted.sum())
    assert found["time-to-first-token"].tolist() == first
    assert found.get("time-per-token", np.array([])).tolist() == between


def test_several_precisions_together_are_each_alone() -> None:
    many = [_process(7, rows=40, slow_start=2), _process(8, rows=33, slow_start=1)]
    several = [(PROCESSES[:3], "token"), (many, "call"), ([_process(9, rows=5, slow_start=0)], "token")]
    together = measure_precisions(_contract(), several)
    for (samples, unit), measured in zip(several, together, strict=True):
        alone = measure_precision(_contract(), samples, unit)
        for name in ("throughput", "peak", "latency_ms", "steady", "slo", "run_means"):
            assert repr(getattr(measured, name)) == repr(getattr(alone, name))
        assert [p.phase.tolist() for p in measured.processes] == [p.phase.tolist() for p in alone.processes]
    assert measure_precisions(_contract(), []) == []


def test_one_process_gives_an_estimate_without_bounds() -> None:
    figure = measure_precision(_contract(), PROCESSES[:1], "token").throughput
    assert figure.estimate is not None
    assert figure.low is None
    assert figure.high is None


def test_a_changed_executor_voids_the_run() -> None:
    change = FieldChange(layer=Layer.SYSTEM, name="governor", tier=Tier.CONFIGURATION, before="a", after="b")
    validity = validity_of([Doubt("small doubt"), *judge_drift([change])])
    assert validity.verdict is ValidityVerdict.VOID
    assert validity.reasons[0].startswith("executor changed during the run: system.governor")
    assert validity_of([]).verdict is ValidityVerdict.VALID
