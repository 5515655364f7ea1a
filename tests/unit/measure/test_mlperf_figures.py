"""MLPerf's figures from requests whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadFile
from lynxbench.measure.mlperf_figures import mlperf_figures
from lynxbench.measure.served_load import ServedRun, measure_load
from lynxbench.model.contract import Contract
from lynxbench.model.mlperf_forms import MlperfFigures
from lynxbench.model.requests import Requests
from lynxbench.report.documents.mlperf_facts import early_text
from lynxbench.stats.early_stopping import early_estimate
from served import served_contract

CLOSED = "{process: closed, concurrency: 1}"


def contract(form: str, arrival: str = CLOSED, slo: str = "") -> Contract:
    text = served_contract("http://127.0.0.1:8000/v1", arrival=arrival, slo=slo, engine="stream: false")
    return parse_contract(text.replace(f"  slo: [{slo}]", f"  slo: [{slo}]\n  mlperf: {form}"), "served.yaml")


def requests(latency_ms: np.ndarray, every_ms: float = 20.0, failed: int = 0) -> Requests:
    count = len(latency_ms)
    due = 10_000_000_000 + (np.arange(count) * every_ms * 1e6).astype(np.int64)
    ok = np.ones(count, dtype=bool)
    ok[:0] = False
    ok[count - failed :] = False
    nothing = np.zeros(0, dtype=np.int64)
    return Requests(
        start_ns=10_000_000_000, load_end_ns=int(due.max()) + 1, scheduled_ns=due, sent_ns=due,
        first_token_ns=np.zeros(count, dtype=np.int64),
        last_ns=np.where(ok, due + (latency_ms * 1e6).astype(np.int64), 0), ok=ok,
        output_tokens=np.where(ok, 4, -1), input_tokens=np.full(count, 10),
        cached_tokens=np.zeros(count, dtype=np.int64), event_row=nothing, event_ns=nothing, gap_row=nothing,
        gap_s=np.zeros(0),
    )  # fmt: skip


def figures(asked: Contract, *runs: Requests) -> MlperfFigures:
    measured = measure_load(asked, [ServedRun(n, (0, 1), run) for n, run in enumerate(runs)], coalesced=False)
    found = mlperf_figures(asked, list(runs), measured)
    assert found is not None
    return found


def test_single_stream_is_the_90th_percentile_with_its_estimate() -> None:
    latency = np.random.default_rng(1).permutation(np.linspace(5, 15, 400))
    found = figures(contract("single-stream"), requests(latency))
    (rule,) = found.early_stopping
    assert found.metric == "90th percentile latency"
    assert found.value == pytest.approx(14, abs=0.3)
    counted = sorted(latency[-rule.queries :])
    assert rule.estimate_ms == pytest.approx(early_estimate(counted, 90).value, abs=1e-3)
    assert rule.estimate_ms is not None
    assert rule.estimate_ms > found.value > 0
    assert "at 99 % confidence" in early_text(rule)


def test_too_few_queries_are_told_how_many_more() -> None:
    found = figures(contract("single-stream"), requests(np.full(50, 10.0)))
    (rule,) = found.early_stopping
    assert rule.estimate_ms is None
    assert rule.needed == 64 - rule.queries
    assert f"{rule.needed} more are needed" in early_text(rule)


def test_server_counts_those_over_and_failed_against_the_bound() -> None:
    slo = "{metric: latency, percentile: 99, at_most: 20 ms}"
    asked = contract("server", "{process: poisson, rate: 50 /s}", slo)
    good = figures(asked, requests(np.full(700, 10.0)))
    assert good.metric == "scheduled samples per second"
    assert good.value == pytest.approx(50, rel=0.05)
    assert (good.early_stopping[0].over, good.early_stopping[0].needed) == (0, 0)
    bad = figures(asked, requests(np.where(np.arange(700) % 100 == 99, 30.0, 10.0), failed=3))
    (rule,) = bad.early_stopping
    assert rule.over is not None
    assert rule.over >= 3 + 5
    assert rule.needed > 0
    assert "not satisfied" in early_text(rule)


def test_offline_is_what_was_completed_a_second() -> None:
    found = figures(contract("offline", "{process: closed, concurrency: 16}"), requests(np.full(300, 10.0)))
    assert (found.metric, found.early_stopping) == ("samples per second", ())
    assert found.value == pytest.approx(50, rel=0.05)
    assert any("24576" in line for line in found.unlike)


def test_without_a_form_there_are_no_such_figures() -> None:
    asked = parse_contract(served_contract("http://127.0.0.1:8000/v1", engine="stream: false"))
    run = requests(np.full(200, 10.0))
    measured = measure_load(asked, [ServedRun(0, (0, 1), run)], coalesced=False)
    assert mlperf_figures(asked, [run], measured) is None


@pytest.mark.parametrize(
    ("form", "arrival", "says"),
    [
        ("single-stream", "{process: closed, concurrency: 2}", "one query after the other"),
        ("single-stream", "{process: poisson, rate: 5 /s}", "one query after the other"),
        ("multi-stream", CLOSED, "8 samples in one query"),
        ("server", CLOSED, "Poisson moments"),
        ("server", "{process: poisson, rate: 5 /s}", "needs a latency"),
        ("offline", CLOSED, "at once"),
    ],
)
def test_a_form_with_another_load_is_refused(form: str, arrival: str, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        contract(form, arrival)
