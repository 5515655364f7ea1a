"""Sessions: which call is due when, by known truth; and the driver against a server that logs what it was asked."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.load_record import RequestEnd
from lynxbench.load.open_sessions import DueCall, OpenSessions, SessionGraph
from lynxbench.load.plan import ClosedLoop, LoadPlan, OpenLoop, parse_target
from lynxbench.load.truth_process import running_server

MS = 1_000_000
AGENT = SessionGraph.of([(), (0,), (0,), (1, 2), ()], [0, 40 * MS, 10 * MS, 20 * MS, 15 * MS])
"""A plan, two sub-agents beside each other, what joins them, and a call that waits for none of them."""


class Sessions:
    """Five calls a session, each asking for so many tokens that its place can be told."""

    stands_alone = True

    def __init__(self, url: str, graph: SessionGraph = AGENT):
        service = Service(url=url, model="ground-truth")
        self.graph_ = graph
        self.requests = [
            build_request(service, build_body(service, "hi", 1 + place)) for place in range(len(graph.after))
        ]

    def first(self, number):
        return self.call(number, 0)

    def follow(self, number, answers):
        return None

    def graph(self, number):
        return self.graph_

    def call(self, number, place):
        return self.requests[place]


def test_a_call_is_due_its_gap_after_all_that_it_waits_for():
    sessions = OpenSessions(Sessions("http://x"))
    assert sessions.begin(7, 1000) == [DueCall(0, 1000), DueCall(4, 1000 + 15 * MS)]
    assert sessions.end(7, 0, 5000, good=True) == [DueCall(1, 5000 + 40 * MS), DueCall(2, 5000 + 10 * MS)]
    assert sessions.end(7, 2, 90 * MS, good=True) == []
    assert not sessions.is_over(7, 0)
    assert sessions.end(7, 1, 80 * MS, good=True) == [DueCall(3, 90 * MS + 20 * MS)]
    assert sessions.end(7, 3, 200 * MS, good=True) == []
    assert not sessions.is_over(7, 0)
    assert sessions.end(7, 4, 210 * MS, good=True) == []
    assert sessions.is_over(7, 0)


def test_a_failed_call_ends_what_waits_for_it_and_nothing_else():
    sessions = OpenSessions(Sessions("http://x"))
    sessions.begin(0, 0)
    sessions.end(0, 0, 1, good=True)
    assert sessions.end(0, 1, 2, good=False) == []
    assert sessions.end(0, 2, 3, good=True) == []
    assert not sessions.is_over(0, 0)
    sessions.end(0, 4, 4, good=True)
    assert sessions.is_over(0, 0)


@pytest.mark.parametrize(("after", "gaps"), [([], []), ([(0,)], [0]), ([(), (2,), ()], [0, 0, 0])])
def test_a_graph_that_cannot_be_walked_is_refused(after, gaps):
    with pytest.raises(ValueError, match="session"):
        SessionGraph.of(after, gaps)


def plan(url, load, **more):
    return LoadPlan(
        target=parse_target(url),
        script=Sessions(url, more.pop("graph", AGENT)),
        language=OpenAiLanguage(),
        load=load,
        **more,
    )


def test_sessions_are_replayed_with_their_gaps():
    with running_server(Behaviour(ttft_ms=5, itl_ms=1)) as server:
        record = run_probe(plan(server.url, OpenLoop(np.arange(20) * 10 * MS), duration_s=3))
        truth = server.stop()
    assert record.counts()["ok"] == len(record) == 100 == len(truth.arrival_ns)
    assert record.output_tokens.tolist() == (record.turn + 1).tolist()
    due, ended = {}, {}
    for row in range(len(record)):
        key = int(record.number[row]), int(record.turn[row])
        due[key], ended[key] = int(record.scheduled_ns[row]), int(record.last_ns[row])
    for number in range(20):
        assert due[number, 4] - due[number, 0] == 15 * MS
        assert due[number, 1] - ended[number, 0] == 40 * MS
        assert due[number, 2] - ended[number, 0] == 10 * MS
        assert due[number, 3] - max(ended[number, 1], ended[number, 2]) == 20 * MS
    # Nothing was asked before it was due, by the server's own clock.
    order = np.argsort(record.sent_ns)
    assert (np.sort(truth.arrival_ns) >= np.sort(record.scheduled_ns[order])).all()


def test_a_closed_loop_holds_so_many_sessions_and_not_calls():
    with running_server(Behaviour(ttft_ms=2, itl_ms=1)) as server:
        record = run_probe(plan(server.url, ClosedLoop(3, requests=9), duration_s=20))
    assert record.counts()["ok"] == len(record) == 45
    begin = np.array([record.scheduled_ns[record.number == number].min() for number in range(9)])
    end = np.array([record.last_ns[record.number == number].max() for number in range(9)])
    at_once = [(begin <= moment).sum() - (end < moment).sum() for moment in begin]
    assert max(at_once) == 3


def test_calls_that_are_due_after_the_load_are_not_owed():
    graph = SessionGraph.of([(), (0,)], [0, 60_000 * MS])
    with running_server(Behaviour(ttft_ms=1)) as server:
        record = run_probe(plan(server.url, OpenLoop(np.arange(5) * MS), duration_s=0.3, graph=graph))
        closed = run_probe(plan(server.url, ClosedLoop(2), duration_s=0.3, graph=graph))
    assert record.counts()["ok"] == len(record) == 5
    assert record.stop_reason == closed.stop_reason == "done"
    assert closed.counts()["unsent"] == 0


def test_sessions_on_a_server_that_fails_are_all_accounted_for():
    with running_server(Behaviour(ttft_ms=1, http500=0.3, drop=0.2)) as server:
        record = run_probe(plan(server.url, ClosedLoop(4, requests=40), duration_s=20))
    counts = record.counts()
    assert sum(counts.values()) == len(record)
    assert counts["unsent"] == counts["cut_off"] == 0
    assert len(set(record.number.tolist())) == 40
    for number in range(40):  # whoever waited for one that failed was never asked
        good = set(record.turn[(record.number == number) & (record.kind == RequestEnd.OK)].tolist())
        for turn in record.turn[record.number == number].tolist():
            assert set(AGENT.after[turn]) <= good


def test_the_language_of_the_test_is_the_real_one():
    body = json.loads(Sessions("http://x").requests[3].split(b"\r\n\r\n")[1])
    assert body["max_tokens"] == 4
