"""The clients beside ours: what each is told, what is read from its report, and what the table says it cannot do."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

FOLDER = str(Path(__file__).parents[3] / "benchmarks")
sys.path.insert(0, FOLDER)
try:
    cases, clients, table, load_peers = (
        import_module(name) for name in ("peers.cases", "peers.clients", "peers.table", "load_peers")
    )
finally:
    sys.path.remove(FOLDER)

NAMES = ("lynxbench", "wrk", "vllm", "aiperf", "guidellm", "endpoints", "inference-perf")


def named(name: str, environments: Path = Path("/nowhere")) -> Any:
    (client,) = (client for client in clients.clients(environments) if client.name == name)
    return client


def order(case: Any, folder: Path, requests: int = 192) -> Any:
    return clients.Order(case, "http://127.0.0.1:8100", 5.0, folder, folder / "tokenizer", requests)


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def written(folder: Path, name: str, document: dict[str, Any]) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(document))


def test_every_client_is_there_and_a_missing_one_says_where_it_is_found() -> None:
    found = clients.clients(Path("/nowhere"))
    assert tuple(client.name for client in found) == NAMES
    assert "github.com/mlcommons/endpoints" in named("endpoints").missing
    assert "PYTHON312" in named("inference-perf").missing
    assert "make bench-peers" in named("guidellm").missing


def test_endpoints_is_told_streams_and_a_single_worker(tmp_path: Path) -> None:
    command = named("endpoints").command(order(cases.STAMPS[-1], tmp_path, 2560))
    assert option(command, "--load-pattern") == "concurrency"
    assert option(command, "--concurrency") == option(command, "--client.warmup-connections") == "512"
    assert option(command, "--num-samples") == "2560"
    assert option(command, "--max-output-tokens") == "32"
    assert option(command, "--workers") == "1"
    assert "--no-cpu-affinity" in command
    prompts = [json.loads(line)["prompt"] for line in Path(option(command, "--dataset")).read_text().splitlines()]
    assert {len(prompt.split()) for prompt in prompts} == {8}
    assert len(prompts) == 1000


def test_endpoints_arrives_by_poisson_alone_and_the_table_says_it(tmp_path: Path) -> None:
    client = named("endpoints")
    command = client.command(order(cases.OPEN, tmp_path, 3000))
    assert option(command, "--load-pattern") == "poisson"
    assert option(command, "--target-qps") == "1000"
    row = {"arrival_rate_per_s": 979.0, "cannot": client.cannot[cases.OPEN.name]}
    assert "| endpoints | 979.0 | – | – | – | Poisson arrivals only" in table.render(
        {cases.OPEN.name: {client.name: row}}, {}
    )


def test_what_endpoints_reports(tmp_path: Path) -> None:
    said = {
        "n_samples_issued": 1000,
        "n_samples_completed": 990,
        "n_samples_failed": 50,
        "ttft": {"avg": 51_500_000.0, "percentiles": {"99.9": 9e7, "99.0": 60_000_000.0}},
        "tpot": {"avg": 10_200_000.0, "median": 10_000_000.0},
    }
    written(tmp_path, "endpoints/performance/result_summary.json", said)
    report = named("endpoints").report(order(cases.FAULTS, tmp_path))
    assert (report.ttft_mean_ms, report.ttft_p99_ms, report.itl_mean_ms) == (51.5, 60.0, 10.2)
    assert report.itl_median_ms is None, "the median of means is no median of gaps"
    assert (report.ok, report.failed) == (940, 50)
    assert report.extra["counts"] == {"ok": 940, "failed": 50, "not ended": 10}


def test_endpoints_without_tokens_after_the_first_reports_no_gap(tmp_path: Path) -> None:
    said = {"n_samples_issued": 5, "n_samples_completed": 5, "n_samples_failed": 0, "ttft": {"avg": 1e6}, "tpot": {}}
    written(tmp_path, "endpoints/performance/result_summary.json", said)
    report = named("endpoints").report(order(cases.ONE_TOKEN, tmp_path))
    assert (report.ttft_mean_ms, report.ttft_p99_ms, report.itl_mean_ms, report.ok) == (1.0, None, None, 5)


def settings(case: Any, folder: Path, requests: int) -> dict[str, Any]:
    command = named("inference-perf").command(order(case, folder, requests))
    told: dict[str, Any] = json.loads(Path(option(command, "--config_file")).read_text())
    return told


def test_inference_perf_is_told_streams_or_a_constant_rate(tmp_path: Path) -> None:
    closed = settings(cases.STAMPS[1], tmp_path, 192)
    assert closed["api"] == {"type": "chat", "streaming": True}
    assert closed["load"] == {
        "type": "concurrent",
        "stages": [{"num_requests": 192, "concurrency_level": 32}],
        "num_workers": 1,
    }
    assert closed["server"]["base_url"] == "http://127.0.0.1:8100"
    opened = settings(cases.OPEN, tmp_path, 3000)["load"]
    assert (opened["type"], opened["stages"]) == ("constant", [{"rate": 1000.0, "duration": 3}])
    assert "request_timeout" not in opened


LATENCY = {
    "time_to_first_token": {"mean": 0.0541, "median": 0.054, "p99": 0.0692},
    "inter_token_latency": {"mean": 0.01009, "median": 0.01, "p99": 0.012},
}


@pytest.mark.parametrize(("case", "extra"), [(cases.OPEN, {"late_mean_ms": 4627.0}), (cases.FAULTS, {})])
def test_what_inference_perf_reports(case: Any, extra: dict[str, float], tmp_path: Path) -> None:
    said = {
        "load_summary": {"count": 1000, "schedule_delay": {"mean": 4.627}},
        "successes": {"count": 890, "latency": LATENCY},
        "failures": {"count": 110},
    }
    written(tmp_path, "inference-perf/summary_lifecycle_metrics.json", said)
    report = named("inference-perf").report(order(case, tmp_path))
    assert (report.ttft_mean_ms, report.ttft_p99_ms) == (pytest.approx(54.1), pytest.approx(69.2))
    assert (report.itl_mean_ms, report.itl_median_ms) == (pytest.approx(10.09), pytest.approx(10.0))
    assert (report.ok, report.failed) == (890, 110)
    assert report.extra == {name: pytest.approx(value) for name, value in extra.items()}


def test_inference_perf_with_a_single_token_reports_no_stamps(tmp_path: Path) -> None:
    latency = {"time_to_first_token": None, "inter_token_latency": None}
    said = {"load_summary": {}, "successes": {"count": 7, "latency": latency}, "failures": {"count": 0}}
    written(tmp_path, "inference-perf/summary_lifecycle_metrics.json", said)
    report = named("inference-perf").report(order(cases.ONE_TOKEN, tmp_path))
    assert (report.ttft_mean_ms, report.itl_mean_ms, report.ok, report.failed) == (None, None, 7, 0)


def test_who_can_be_told_a_limit_for_stalled_answers_is_told_ours(tmp_path: Path) -> None:
    limit = f"{cases.IDLE_LIMIT_S:g}"
    assert option(named("aiperf").command(order(cases.FAULTS, tmp_path)), "--request-timeout-seconds") == limit
    assert option(named("guidellm").command(order(cases.FAULTS, tmp_path)), "--backend").endswith(f",timeout={limit}")
    assert option(named("endpoints").command(order(cases.FAULTS, tmp_path)), "--performance-drain-timeout") == limit
    assert settings(cases.FAULTS, tmp_path, 1000)["load"]["request_timeout"] == cases.IDLE_LIMIT_S
    assert "--request-timeout-seconds" not in named("aiperf").command(order(cases.ONE_TOKEN, tmp_path))


def test_slow_clients_are_asked_the_smaller_streams_after_everything_else() -> None:
    chosen = [named(name) for name in NAMES]
    asked = [(case.name, client.name) for case, client in load_peers.in_order(cases.ALL, chosen)]
    assert asked[:3] == [("one_token", "lynxbench"), ("one_token", "wrk"), ("one_token", "vllm")]
    assert ("64_tokens", "wrk") not in asked
    assert len(asked) == len(set(asked)) == len(cases.ALL) * 6 + 1
    slow = ("aiperf", "guidellm", "inference-perf")
    assert asked[-9:] == [(f"stamps_{streams}", name) for streams in (1, 32, 128) for name in slow]


def test_what_was_left_out_stands_in_the_table() -> None:
    left = {"failure": "left out: the sitting's 1080 s were spent"}
    shown = table.render({"stamps_32": {"aiperf": left}, "one_token": {"aiperf": left}}, {"aiperf": 50.0})
    assert shown.count("left out: the sitting's 1080 s were spent") == 2
