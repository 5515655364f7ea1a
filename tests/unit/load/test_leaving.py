"""Requests that the client gives up: as many as asked, counted by both sides alike, and no failure of the server."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.engines.openai import OpenAiLanguage, build_probe
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.leaving import ROUND, leaving_rule
from lynxbench.load.load_record import RequestEnd, read_record, requests_of, write_record
from lynxbench.load.load_summary import account
from lynxbench.load.plan import LoadPlan, OpenLoop, parse_target
from lynxbench.load.response_reading import PlainRotation
from lynxbench.load.truth_process import running_server
from lynxbench.measure.served_load import request_latency_ms
from lynxbench.model.asked_work import Cancelling
from lynxbench.model.contract import SloMetric

MS = 1_000_000


def rule(**keys):
    return leaving_rule(Cancelling.model_validate(keys), seed=3)


def probe(url: str, leaving, requests: int = 200, tokens: int = 10):
    plan = LoadPlan(
        target=parse_target(url),
        script=PlainRotation((build_probe(url, tokens),)),
        language=OpenAiLanguage(),
        load=OpenLoop(np.arange(requests) * 5 * MS),
        duration_s=5,
        leaving=leaving,
    )
    return run_probe(plan)


def test_the_share_is_met_exactly_in_a_round_and_drawn_by_the_seed():
    some = rule(share="10 %", after_events=3)
    assert sum(some.is_left(number, 0) for number in range(ROUND)) == round(0.1 * ROUND)
    again = leaving_rule(Cancelling.model_validate({"share": "10 %", "after": "1 s"}), seed=4)
    assert [again.is_left(n, 0) for n in range(ROUND)] != [some.is_left(n, 0) for n in range(ROUND)]
    assert leaving_rule(None, 0) is None


def test_after_some_output_both_sides_count_the_same():
    # Two seconds an answer: of one that came whole while the machine held the client up, nothing is left to leave.
    with running_server(Behaviour(ttft_ms=5, itl_ms=20)) as server:
        record = probe(server.url, rule(share="25 %", after_events=4), tokens=100)
        truth = server.stop()
    counted = account(record)
    left = record.kind == RequestEnd.CANCELLED
    some = rule(share="25 %", after_events=4)
    assert left.tolist() == [some.is_left(int(number), 0) for number in record.number]
    assert counted.cancelled == left.sum() == truth.count(ServedOutcome.CLIENT_CLOSED) > 0
    assert counted.offered == counted.ok + counted.cancelled == 200
    assert (counted.failed, counted.failures) == ({}, 0)
    assert (record.events[left] >= 4).all()
    assert (record.events[~left] == 100).all()
    latency = request_latency_ms(requests_of(record), SloMetric.LATENCY)
    first = request_latency_ms(requests_of(record), SloMetric.TIME_TO_FIRST_TOKEN)
    assert np.isnan(latency[left]).all()
    assert np.isfinite(latency[~left]).all()
    assert (first[left] >= 5).all()


def test_after_some_time_a_silent_server_is_left():
    with running_server(Behaviour(ttft_ms=10_000)) as server:
        record = probe(server.url, rule(share="100 %", after="80 ms"), requests=20)
    assert (record.kind == RequestEnd.CANCELLED).all()
    first = request_latency_ms(requests_of(record), SloMetric.TIME_TO_FIRST_TOKEN)
    assert (first >= 80).all(), "who left without a token waited so long; to forget them would flatter the server"


@pytest.mark.parametrize("keys", [{"share": "5 %"}, {"share": "5 %", "after_events": 2, "after": "1 s"}])
def test_one_moment_is_said(keys):
    with pytest.raises(ValueError, match="one of them"):
        Cancelling.model_validate(keys)


def test_a_record_of_an_earlier_version_knows_no_answers_and_nobody_who_left(tmp_path):
    with running_server(Behaviour()) as server:
        record = probe(server.url, None, requests=5)
    write_record(record, tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as stored:
        older = {name: stored[name] for name in stored.files if name not in ("first_answer_ns", "reasoning_tokens")}
    np.savez(tmp_path / "old.npz", **older)
    old = read_record(tmp_path / "old.npz")
    assert old.first_answer_ns.tolist() == [0] * 5
    assert old.reasoning_tokens.tolist() == [-1] * 5
    assert not requests_of(old).cancelled.any()
    assert account(old).model_dump(mode="json") == account(record).model_dump(mode="json")
    assert "cancelled" not in account(old).model_dump(mode="json")
