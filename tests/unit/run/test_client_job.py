"""What a client is told survives its file, and becomes the probe that the contract describes."""

from __future__ import annotations

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.engines.asking import TokenCalibration
from lynxbench.engines.served import build_exchange
from lynxbench.errors import BadInput
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.load.send_schedule import constant
from lynxbench.run.client_job import ClientJob, plan_of, read_trace, seed_of
from served import served_contract

KNOWN = TokenCalibration(has_usage=True, tokens_a_word=1.5, overhead=4.0)


@pytest.fixture(scope="module")
def contract():
    return parse_contract(served_contract("http://127.0.0.1:8000/v1"))


@pytest.fixture(scope="module")
def exchange(contract):
    return build_exchange(contract, run=0, calibration=KNOWN)


def test_a_job_survives_its_file(contract) -> None:
    job = ClientJob(index=1, restart=0, contract=contract, clients=2, salt=7, rate_per_s=12.5, calibration=KNOWN)
    again = ClientJob.model_validate_json(job.model_dump_json(by_alias=True))
    assert again == job
    assert again.calibration == KNOWN
    assert again.contract.contract_id == contract.contract_id


def test_a_plan_carries_the_contracts_patience(contract, exchange) -> None:
    plan = plan_of(contract, exchange, OpenLoop(constant(10.0, 2.0)), 2.0, 3)
    assert (plan.target.host, plan.target.port) == ("127.0.0.1", 8000)
    assert plan.drain_s == 3.0
    waits = plan.timeouts
    assert (waits.connect_ns, waits.first_byte_ns, waits.idle_ns, waits.total_ns) == (
        2_000_000_000,
        3_000_000_000,
        400_000_000,
        8_000_000_000,
    )
    assert plan.processes == 3


def test_a_closed_loop_has_no_more_processes_than_requests_in_flight(contract, exchange) -> None:
    assert plan_of(contract, exchange, ClosedLoop(2), 1.0, 4).processes == 2


def test_every_run_has_a_seed_of_its_own(contract) -> None:
    seeds = {seed_of(contract, run) for run in range(2000)}
    assert len(seeds) == 2000
    assert seed_of(contract, 5) == seed_of(contract, 5)


def test_only_a_replay_reads_a_trace(contract, tmp_path) -> None:
    assert read_trace(contract) is None
    text = served_contract("http://127.0.0.1:8000/v1", arrival=f'{{process: replay, path: "{tmp_path}/absent.jsonl"}}')
    with pytest.raises(BadInput, match=r"absent\.jsonl"):
        read_trace(parse_contract(text))
