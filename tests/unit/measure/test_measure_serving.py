"""Figures of a served run, on requests whose truth is known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.contract.loader import parse_contract
from lynxbench.measure.load_context import judge_requests, served_assumptions
from lynxbench.measure.served_load import INTER_EVENT, ServedRun, measure_load, request_latency_ms, within_bounds
from lynxbench.model.contract import SloMetric
from lynxbench.model.load_figures import (
    Accounting,
    CacheRecord,
    InstrumentRecord,
    LoadFigures,
    TokenCount,
)
from lynxbench.model.requests import Requests, tokens_after_first
from lynxbench.model.serving import CacheState
from served import served_contract

TTFT_S, ITL_S, TOKENS = 0.05, 0.01, 5
FIRST_TOKEN = "{metric: time-to-first-token, percentile: 90, at_most: 60 ms}"
SLO = f"{FIRST_TOKEN}, {{metric: time-per-token, percentile: 90, at_most: 9 ms}}"


def contract(slo: str = SLO):
    text = served_contract(
        "http://127.0.0.1:8000/v1", arrival="{process: constant, rate: 50 /s}", slo=slo, tokens=TOKENS
    )
    return parse_contract(text)


def streamed(rate_per_s=50.0, duration_s=4.0, failed=(), start=10_000_000_000) -> Requests:
    count = int(rate_per_s * duration_s)
    due = start + (np.arange(count) / rate_per_s * 1e9).astype(np.int64)
    events = due[:, None] + ((TTFT_S + np.arange(TOKENS) * ITL_S) * 1e9).astype(np.int64)
    ok = np.ones(count, dtype=bool)
    ok[list(failed)] = False
    rows = np.repeat(np.arange(count), TOKENS)
    kept = ok[rows]
    return Requests(
        start_ns=start,
        load_end_ns=int(due.max()),
        scheduled_ns=due,
        sent_ns=due,
        first_token_ns=np.where(ok, events[:, 0], 0),
        last_ns=np.where(ok, events[:, -1] + 2_000_000, 0),  # usage and the end marker follow the last token
        ok=ok,
        output_tokens=np.where(ok, TOKENS, -1),
        input_tokens=np.full(count, 10),
        cached_tokens=np.zeros(count, dtype=np.int64),
        event_row=rows[kept],
        event_ns=events.ravel()[kept],
        gap_row=np.repeat(np.arange(count), TOKENS - 1)[np.repeat(ok, TOKENS - 1)],
        gap_s=np.full(int(ok.sum()) * (TOKENS - 1), ITL_S),
    )


def test_throughput_latencies_and_goodput():
    runs = [ServedRun(i, (0, 1_000_000), streamed()) for i in range(2)]
    found = measure_load(contract(), runs, coalesced=False)
    one = found.measured
    assert one.throughput.unit == "tokens/s"
    assert one.throughput.estimate == pytest.approx(50 * TOKENS, rel=0.04)
    middle = {metric: values[0].estimate for metric, values in one.latency_ms.items()}
    assert middle["time-to-first-token"] == pytest.approx(50)
    assert middle["time-per-token"] == pytest.approx(10)  # what follows the last token is no part of it
    assert middle["latency"] == pytest.approx(92)
    assert middle[INTER_EVENT] == pytest.approx(10)
    assert [outcome.verdict for outcome in one.slo] == ["met", "missed"]
    assert found.goodput_per_s.estimate == 0  # every request misses the time per token
    assert found.requests_per_s.estimate == pytest.approx(50, rel=0.04)
    assert found.in_flight_mean == pytest.approx(50 * 0.092, rel=0.06)
    assert one.steady.counted_iterations > 300
    assert {part.phase for part in one.steady.excluded} == {"setup", "warm-up", "transient", "drain"}
    assert len(one.processes) == 2
    assert len(one.processes[0].samples.marks.at_ns) == 200 * TOKENS


def test_coalesced_events_leave_single_distances_unresolved():
    found = measure_load(contract(), [ServedRun(0, (0, 1), streamed())], coalesced=True)
    assert not any(p.resolved for p in found.measured.latency_ms[INTER_EVENT])
    assert found.measured.latency_ms["time-per-token"][0].resolved


def test_a_failed_request_took_for_ever():
    failed = range(0, 200, 5)  # a fifth: the 90th percentile is out of reach
    slo = "{metric: latency, percentile: 90, at_most: 1 s}, {metric: latency, percentile: 50, at_most: 1 s}"
    found = measure_load(contract(slo), [ServedRun(0, (0, 1), streamed(failed=failed))], coalesced=False)
    high, middle = found.measured.slo
    assert high.verdict == "missed"
    assert high.measured.estimate is None
    assert middle.verdict == "met"
    assert found.goodput_per_s.estimate == pytest.approx(40, rel=0.05)
    assert found.measured.latency_ms["latency"][3].estimate == pytest.approx(92)  # of those that were answered


def test_requests_without_token_counts_are_counted_as_requests():
    unknown = replace(streamed(), output_tokens=np.full(200, -1))
    found = measure_load(
        contract("{metric: latency, percentile: 90, at_most: 1 s}"), [ServedRun(0, (0, 1), unknown)], coalesced=False
    )
    assert found.unit == "request"
    assert found.measured.throughput.estimate == pytest.approx(50, rel=0.04)
    assert "time-per-token" not in found.measured.latency_ms


def test_one_request_meets_its_bounds_by_itself():
    some = streamed(failed=(3,))
    assert not within_bounds(some, contract().objective.slo).any()
    assert within_bounds(some, contract().objective.slo[:1]).sum() == len(some) - 1
    assert np.isinf(request_latency_ms(some, SloMetric.LATENCY)[3])


def test_the_texts_of_a_batch_are_counted_together():
    """Every batch of embeddings was said to have so many times the agreed tokens."""
    text = served_contract("http://127.0.0.1:8000/v1").replace("task: generate", "task: embed\n  batch: 4")
    embed = parse_contract("\n".join(line for line in text.splitlines() if "output_tokens" not in line))
    together = figures(tokens=figures().tokens.model_copy(update={"input_mean": 40.0}))
    assert judge_requests(embed, together) == []
    assert judge_requests(embed, together, rules=10) == [
        "prompts had 40.0 tokens on average by the server's count, the contract asks for 10.0"
    ]
    (doubt,) = judge_requests(embed, figures())
    assert doubt.endswith("the contract asks for 40.0")


def test_answers_that_came_at_once_have_no_time_per_token():
    some = streamed()
    mixed = replace(some, unpaced=np.arange(len(some)) % 2 == 0)
    value = request_latency_ms(mixed, SloMetric.TIME_PER_TOKEN)
    assert np.isnan(value[::2]).all()
    assert value[1::2] == pytest.approx(ITL_S * 1e3)
    none = replace(some, unpaced=np.ones(len(some), dtype=bool))
    measured = measure_load(contract(), [ServedRun(0, (0, 1), none)], coalesced=False).measured
    assert SloMetric.TIME_PER_TOKEN not in measured.latency_ms
    assert [slo.verdict for slo in measured.slo] == ["met", "unresolved"]


def figures(**changes: object) -> LoadFigures:
    values: dict[str, object] = {
        "load": "open loop",
        "budget": (),
        "accounting": Accounting(offered=100, sent=100, ok=100, failed={}, retries=0, said={}),
        "tokens": TokenCount(
            source="usage",
            input_mean=10.0,
            output_mean=5.0,
            asked_output_mean=5.0,
            shorter_share=0.0,
            coalesced_share=0.0,
        ),
        "cache": CacheRecord(regime=CacheState.AVOIDED, distinct_prompts=None, cached_share=0.0, counters={}),
        "instrument": InstrumentRecord(
            verdict="good", reasons=(), cautions=(), processes=1, mean_lateness_ms=0.1, p99_lateness_ms=0.2,
            p99_lag_ms=0.3, busiest_share=0.1, preflight=None,
        ),
    }  # fmt: skip
    return LoadFigures.model_validate(values | changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        (
            {"accounting": Accounting(offered=100, sent=100, ok=95, failed={"reset": 5}, retries=0, said={})},
            "5 of 100 requests failed \\(reset 5\\)",
        ),
        ({"tokens": {"input_mean": 20.0}}, "20.0 tokens on average by the server's count"),
        ({"tokens": {"shorter_share": 0.3}}, "30.0% of the answers ended before"),
        (
            {"tokens": {"longer_share": 0.02, "output_mean": 800.0}},
            r"2.0% .* more output tokens .* \(800.0 on average\)",
        ),
        ({"tokens": {"longer_share": 0.005}}, ""),
        ({"tokens": {"unpaced_share": 0.5}}, "50.0% of the answers show no time per token, which the objective bounds"),
        ({"tokens": {"source": "unknown"}}, "output tokens are unknown"),
        ({"cache": {"cached_share": 0.5}}, "50% of the input tokens came from the prefix cache"),
    ],
)
def test_what_gives_reason_to_doubt(changes, says):
    base = figures()
    for name, value in changes.items():
        update = value if not isinstance(value, dict) else getattr(base, name).model_copy(update=value)
        base = base.model_copy(update={name: update})
    doubts = judge_requests(contract(), base)
    assert bool(doubts) is bool(says)
    assert not says or re.search(says, doubts[0])


def test_assumptions_say_what_a_restart_is():
    lines = " ".join(served_assumptions(contract()))
    assert "the server is not restarted" in lines
    assert "cannot force the length" in lines


def lumped(sizes: Sequence[int], first_share: float) -> Requests:
    """Answers of events that hold so many tokens each, one every 10 ms."""
    whole, tokens = streamed(), sum(sizes)
    events = whole.scheduled_ns[:, None] + ((TTFT_S + np.arange(len(sizes)) * ITL_S) * 1e9).astype(np.int64)
    return replace(
        whole,
        output_tokens=np.full(len(whole), tokens),
        event_row=np.repeat(np.arange(len(whole)), len(sizes)),
        event_ns=events.ravel(),
        first_share=first_share,
    )


@pytest.mark.parametrize(
    ("sizes", "first_share"),
    [
        ([10] * 10, 0.1),  # ten at a time: 90 tokens in 90 ms were called 99
        ([50, 50], 0.5),  # found: half of what it took
        ([90, *[1] * 10], 0.9),  # a large first event before single ones: a ninth of what it took
        ([1, *[3] * 33], 0.01),  # drafted tokens after a first one alone
        ([1, 99], 0.005),  # no less than one token
        ([1] * 100, 0.0),
    ],
)
def test_a_time_per_token_counts_what_came_after_the_first_event(sizes: list[int], first_share: float) -> None:
    after = sum(sizes[1:])
    true_ms = (len(sizes) - 1) * ITL_S * 1e3 / after
    found = request_latency_ms(lumped(sizes, first_share), SloMetric.TIME_PER_TOKEN)
    assert found == pytest.approx(np.full(200, true_ms))
    earlier = request_latency_ms(lumped(sizes, 0.0), SloMetric.TIME_PER_TOKEN)
    assert earlier == pytest.approx(np.full(200, (len(sizes) - 1) * ITL_S * 1e3 / (sum(sizes) - 1)))


@given(tokens=st.integers(2, 5000), events=st.integers(1, 5000), share=st.floats(0, 1, allow_nan=False))
def test_every_later_event_holds_a_token_and_the_first_one_at_least(tokens: int, events: int, share: float) -> None:
    (after,) = tokens_after_first(np.array([tokens]), np.array([events]), share)
    assert after <= tokens - 1
    assert after >= min(max(events - 1, 1), tokens - 1) or events < 2
    if events >= tokens - 1:
        assert after == tokens - 1, "one token an event, as ever"
