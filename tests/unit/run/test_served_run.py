"""What a server says of itself over a run: kept so that the split of its requests can be made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from compared import make_executor
from lynxbench.attribute.tile.request_split import split_requests
from lynxbench.contract.loader import parse_contract
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.executor.server import counted_between, parse_metrics, sum_counters
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.truth_process import running_server
from lynxbench.model.contract import Contract
from lynxbench.run.served_run import ServedStrategy, _spent, server_drift
from served import served_contract

TGI = """\
# HELP tgi_request_count Total number of requests
# TYPE tgi_request_count counter
tgi_request_count {requests}

# TYPE tgi_queue_size gauge
tgi_queue_size 3

# TYPE tgi_request_duration histogram
tgi_request_duration_bucket{{le="+Inf"}} {requests}
tgi_request_duration_sum {whole}
tgi_request_duration_count {requests}

# TYPE tgi_request_queue_duration histogram
tgi_request_queue_duration_sum {queue}
tgi_request_queue_duration_count {requests}

# TYPE tgi_request_inference_duration histogram
tgi_request_inference_duration_sum {inference}
tgi_request_inference_duration_count {requests}

# HELP tgi_batch_inference_duration Batch inference duration
# TYPE tgi_batch_inference_duration histogram
tgi_batch_inference_duration_bucket{{method="prefill",le="+Inf"}} {requests}
tgi_batch_inference_duration_sum{{method="prefill"}} {prefill}
tgi_batch_inference_duration_count{{method="prefill"}} {requests}
tgi_batch_inference_duration_sum{{method="decode"}} {decode}
tgi_batch_inference_duration_count{{method="decode"}} {requests}
"""
"""TGI's own text, family by family as it writes them: the phases of a batch differ in a label alone."""


def counters(**figures: float) -> dict[str, float]:
    return sum_counters(parse_metrics(TGI.format(**figures)))


def test_tgi_is_split_into_prefill_and_decode_by_what_a_run_keeps() -> None:
    before = counters(requests=7, whole=14.0, queue=4.0, inference=10.0, prefill=2.0, decode=3.0)
    after = counters(requests=107, whole=414.0, queue=104.0, inference=310.0, prefill=32.0, decode=93.0)
    kept = _spent(counted_between(before, after))
    split = split_requests(kept, client_s=4.2, requests=100)
    assert (split.server, split.requests) == ("TGI", 100)
    assert split.seconds["queueing"] == pytest.approx(1.0)
    assert split.seconds["prefill"] == pytest.approx(3.0 * 30 / 120)
    assert split.seconds["decode"] == pytest.approx(3.0 * 90 / 120)
    assert split.seconds["network"] == pytest.approx(0.2)
    assert split.approximate == ("TGI counts inference as one: it is divided as the server's batches were",)


def test_a_resumed_run_tells_that_it_met_another_server_than_it_began_with(tmp_path: Path) -> None:
    with running_server(Behaviour(itl_ms=1)) as first, running_server(Behaviour(itl_ms=2)) as second:
        agreed, other = (parse_contract(served_contract(server.url)) for server in (first, second))

        class Moved(ServedStrategy):
            """What listens at the address of the contract is another server now."""

            def _asked(self, contract: Contract) -> Contract:
                return other

        begun = ServedStrategy(None)
        run = begun.register(agreed, tmp_path)
        unchanged = ServedStrategy(None)
        for strategy, told in ((begun, False), (unchanged, False), (Moved(None), True)):
            if strategy is not begun:
                strategy.resume(RunFolder.open(run.path))
            drift = strategy.observe(RunFolder.open(run.path)).drift
            assert ("server_command" in [change.name for change in drift]) is told
            assert told or drift == ()


def test_what_a_server_finds_at_every_start_is_no_other_server() -> None:
    """A launched server is started again for every restart: vLLM then has some blocks of cache more or fewer."""
    found = {"serving.server_info": {"vllm:cache_config_info": {"num_gpu_blocks": "27301"}}}
    before = make_executor({**found, "serving.server_command": ["vllm", "serve"]})
    again = {"serving.server_info": {"vllm:cache_config_info": {"num_gpu_blocks": "27298"}}}
    after = make_executor({**again, "serving.server_command": ["vllm", "serve"]})
    other = make_executor({**again, "serving.server_command": ["vllm", "serve", "--enforce-eager"]})
    assert [change.name for change in server_drift(before, after)] == ["server_info"], "of one and the same start"
    assert server_drift(before, after, started_again=True) == ()
    assert [change.name for change in server_drift(before, other, started_again=True)] == ["server_command"]
