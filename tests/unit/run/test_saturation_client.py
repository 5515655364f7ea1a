"""The search from a client: its ceiling, its pair on disk, and what was at its limit."""

from __future__ import annotations

import os
import socket
import time

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.engines.asking import TokenCalibration
from lynxbench.engines.served import ask_first, build_exchange
from lynxbench.errors import CannotRun
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.load_record import RequestEnd, read_record
from lynxbench.load.truth_process import running_server
from lynxbench.model.load_figures import SaturationRecord
from lynxbench.run.client_job import CEILING_FILE, SATURATION_FILE, ClientJob
from lynxbench.run.saturation_client import ServerWatch, search
from served import served_contract

SEARCH = "{{process: saturating, tolerance: 40 %, concurrency: 16, budget: {budget}}}"


def job_of(url: str, budget: str = "15 s") -> ClientJob:
    text = served_contract(
        url, arrival=SEARCH.format(budget=budget), tokens=1, slo="{metric: latency, percentile: 75, at_most: 150 ms}"
    )
    contract = parse_contract(text)
    return ClientJob(index=0, restart=0, contract=contract, clients=1, search=True, calibration=ask_first(contract))


@pytest.mark.slow
def test_a_search_leaves_its_pair_and_its_ceiling(tmp_path) -> None:
    # Four slots of 20 ms each: never more than 200 a second, whatever the machine does.
    with running_server(Behaviour(ttft_ms=20, itl_ms=0, slots=4)) as server:
        job = job_of(server.url)
        record, saturated = search(job, build_exchange(job.contract, run=0, calibration=job.calibration), tmp_path)
    found = SaturationRecord.model_validate_json((tmp_path / SATURATION_FILE).read_bytes())
    assert found.passed_per_s is not None
    assert 0 < found.passed_per_s <= 200
    assert 0 < found.ceiling_per_s <= 210
    assert [point.rate_per_s for point in found.curve] == sorted(point.rate_per_s for point in found.curve)
    assert sum(point.requests for point in found.curve) <= len(record)
    assert found.saturated == saturated != ""
    ceiling = read_record(tmp_path / CEILING_FILE)
    assert (ceiling.kind == RequestEnd.OK).sum() > 0


def test_a_server_that_completes_nothing_has_no_ceiling(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("lynxbench.run.saturation_client.CEILING_S", (0.5, 1.0))
    with running_server(Behaviour(stall=1.0)) as server:
        contract = parse_contract(served_contract(server.url, arrival=SEARCH.format(budget="15 s"), tokens=1))
        job = ClientJob(index=0, restart=0, contract=contract, clients=1, search=True)
        # Such a server does not answer the first questions either; how it counts is given here.
        exchange = build_exchange(contract, run=0, calibration=TokenCalibration(True, 1.0, 0.0))
        with pytest.raises(CannotRun, match="no request was completed in 1 s at 16 in flight"):
            search(job, exchange, tmp_path)


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


def test_a_server_that_cannot_be_seen_is_said() -> None:
    watch = ServerWatch(1)  # nobody listens there
    watch.begin(10.0)
    assert watch.describe(None) == "unknown: the server's processes cannot be seen from here"
