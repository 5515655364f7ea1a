"""The search from a client: its ceiling, its pair on disk, and what was at its limit."""

from __future__ import annotations

import os
import socket
import time

import numpy as np
import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.engines.asking import TokenCalibration
from lynxbench.engines.served import ask_first, build_exchange
from lynxbench.errors import CannotRun
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.load_record import COLUMNS, LoadRecord, RequestEnd, RowStore, assemble, read_record
from lynxbench.load.plan import LoadPlan, OpenLoop
from lynxbench.load.truth_process import running_server
from lynxbench.model.load_figures import SaturationRecord
from lynxbench.model.samples import Float64
from lynxbench.run.client_job import CEILING_FILE, SATURATION_FILE, ClientJob, plan_of
from lynxbench.run.saturation_client import ServerWatch, describe_refusals, search
from saturations import assert_honest
from served import served_contract

SEARCH = "{{process: saturating, tolerance: 40 %, concurrency: 16, budget: {budget}}}"


def job_of(url: str, budget: str) -> ClientJob:
    text = served_contract(
        url, arrival=SEARCH.format(budget=budget), tokens=1, slo="{metric: latency, percentile: 75, at_most: 150 ms}"
    )
    contract = parse_contract(text)
    return ClientJob(index=0, restart=0, contract=contract, clients=1, search=True, calibration=ask_first(contract))


@pytest.mark.slow
def test_a_search_leaves_its_bounds_and_its_ceiling(tmp_path) -> None:
    # Four slots of 20 ms each: never more than 200 a second, whatever the machine does.
    with running_server(Behaviour(ttft_ms=20, itl_ms=0, slots=4)) as server:
        job = job_of(server.url, budget="8 s")
        record, saturated = search(job, build_exchange(job.contract, run=0, calibration=job.calibration), tmp_path)
    written = SaturationRecord.model_validate_json((tmp_path / SATURATION_FILE).read_bytes())
    assert_honest(written, budget_s=8)
    assert 0 < written.ceiling_per_s <= 210
    assert written.loops[0].in_flight == 16
    assert written.ceiling_per_s == max(loop.rate_per_s for loop in written.loops)
    assert written.passed_per_s is None or written.passed_per_s <= 200
    assert sum(point.requests for point in written.curve) <= len(record)
    assert written.saturated == saturated != ""
    ceiling = read_record(tmp_path / CEILING_FILE)
    assert (ceiling.kind == RequestEnd.OK).sum() > 0


HELD_PER_S = 50.0


class SimulatedProbe:
    """A probe of a simulated server that holds its bound up to HELD_PER_S: the same answer on any machine."""

    def __init__(self, plan: LoadPlan, metrics: object, patience_s: float) -> None:
        assert isinstance(plan.load, OpenLoop)
        self.rate_per_s = 1e9 / float(np.diff(plan.load.offsets_ns).mean())
        self.record: LoadRecord | None = None
        self.rng = np.random.default_rng(7)
        self.taken = 0

    def take(self, requests: int) -> Float64:
        late = min(1.0, 0.25 * (self.rate_per_s / HELD_PER_S) ** 20)
        self.taken += requests
        return np.where(self.rng.random(requests) < late, 1.0, 0.01)[:, None]

    def end(self) -> float:
        rows = RowStore()
        for number in range(self.taken):
            rows.add(tuple((dict.fromkeys(COLUMNS, 0) | {"number": number, "kind": int(RequestEnd.OK)}).values()))
        self.record = assemble(rows, start_ns=0, end_ns=1, stop_reason="done", health=(), notes={})
        return self.taken / self.rate_per_s


def test_a_search_writes_down_the_pair_that_its_probes_decide(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("lynxbench.run.ceiling_loops.SPAN_S", (0.5, 1.0))
    monkeypatch.setattr("lynxbench.run.saturation_client.ProbeStream", SimulatedProbe)
    with running_server(Behaviour(ttft_ms=20, itl_ms=0, slots=4)) as server:  # for the ceiling, and to be seen
        job = job_of(server.url, budget="600 s")
        record, _ = search(job, build_exchange(job.contract, run=0, calibration=job.calibration), tmp_path)
    written = SaturationRecord.model_validate_json((tmp_path / SATURATION_FILE).read_bytes())
    assert_honest(written, budget_s=600)
    assert written.confirmed
    assert written.passed_per_s is not None
    assert written.failed_per_s is not None
    assert HELD_PER_S / 1.45 < written.passed_per_s < HELD_PER_S < written.failed_per_s
    assert written.failed_per_s / written.passed_per_s <= 1.401
    assert sum(point.requests for point in written.curve) <= len(record)


def test_a_server_that_completes_nothing_has_no_ceiling(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("lynxbench.run.ceiling_loops.SPAN_S", (0.5, 1.0))
    with running_server(Behaviour(stall=1.0)) as server:
        contract = parse_contract(served_contract(server.url, arrival=SEARCH.format(budget="15 s"), tokens=1))
        job = ClientJob(index=0, restart=0, contract=contract, clients=1, search=True)
        # Such a server does not answer the first questions either; how it counts is given here.
        exchange = build_exchange(contract, run=0, calibration=TokenCalibration(True, 1.0, 0.0))
        with pytest.raises(CannotRun, match="no request was completed in 1 s at 16 in flight"):
            search(job, exchange, tmp_path)


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [(Behaviour(usage=False), "sends no usage"), (Behaviour(tokens_per_event=50), "come all at once")],
)
def test_a_bound_that_no_answer_could_miss_is_not_searched_by(behaviour, why, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("lynxbench.run.ceiling_loops.SPAN_S", (0.5, 1.0))
    slo = "{metric: time-per-token, percentile: 90, at_most: 1 ms}"
    with running_server(behaviour) as server:
        contract = parse_contract(served_contract(server.url, arrival=SEARCH.format(budget="15 s"), tokens=4, slo=slo))
        job = ClientJob(index=0, restart=0, contract=contract, clients=1, search=True)
        exchange = build_exchange(contract, run=0, calibration=TokenCalibration(True, 1.0, 0.0))
        with pytest.raises(CannotRun, match=f"bounds time-per-token, which 100% of the answers do not show .*{why}"):
            search(job, exchange, tmp_path)


def test_a_server_that_refuses_is_not_said_to_let_wait() -> None:
    """A limiter that lets two in three through: nobody waits, and nothing inside the server is at its limit."""
    with running_server(Behaviour(http500=1 / 3)) as server:
        contract = parse_contract(served_contract(server.url))
        exchange = build_exchange(contract, run=0, calibration=TokenCalibration(True, 1.0, 0.0))
        plan = plan_of(contract, exchange, OpenLoop(np.arange(90, dtype=np.int64) * 5_000_000), 3.0, 1)
        record = run_probe(plan)
    refused = record.counts()["http_error"]
    assert 20 < refused < 40
    assert describe_refusals([record, record], 0.1) == (
        f"what the server lets in: of 180 requests at the highest rates {2 * refused} were refused "
        f"(http error 500: {2 * refused})"
    )
    assert describe_refusals([record], 0.5) == describe_refusals([], 0.1) == ""


def test_where_no_rate_failed_nothing_is_said_to_wait() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        watch = ServerWatch(listening.getsockname()[1])
        watch.begin(10.0)
        time.sleep(0.3)
        said = watch.describe(None)
    assert "no rate was shown to fail, so that nothing is known to be at its limit" in said or "CPUs: the" in said


def test_a_busy_thread_is_named() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        watch = ServerWatch(listening.getsockname()[1])
        watch.begin(10.0)
        until = time.process_time() + 0.4
        while time.process_time() < until:
            os.getpid()
        said = watch.describe(10.0)
    assert "cores" in said
    assert said.startswith(("one thread of the server", "the CPUs", "not the CPUs"))


@pytest.mark.parametrize("port", [1, None])
def test_a_server_that_cannot_be_seen_is_said(port: int | None) -> None:
    watch = ServerWatch(port)  # nobody listens there, or the server is on another machine
    watch.begin(10.0)
    assert watch.describe(None) == "unknown: the server's processes cannot be seen from here"
