"""`lynxbench run` against the bundled server: what is reported is what the server did, or nothing is.

Times are held against the server's own log of the same requests, or against what no machine can undercut; how quick a
command is, `benchmarks/first_request.py` and `benchmarks/command_latency.py` say.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from command_line import lynxbench, lynxbench_here
from lynxbench.contract.loader import read_bundled_text
from lynxbench.evidence.sample_file import hash_file, read_samples
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.truth_process import running_server
from lynxbench.model.load_figures import SaturationRecord
from lynxbench.stats.queues import capacity
from saturations import NOTHING_HELD, assert_honest
from served import STRICT_BOUNDS, served_contract

pytestmark = pytest.mark.usefixtures("one_preflight", "forked_clients")

INSTANT = Path(__file__).parents[1] / "servers" / "instant.py"


def run_json(folder: Path, text: str, *ends: int, **environment: str) -> dict:
    (folder / "served.yaml").write_text(text, encoding="utf-8")
    done = lynxbench_here("run", "served.yaml", "--json", cwd=folder, **environment)
    assert done.code in (ends or (0,)), done.err
    return json.loads(done.out)


def load_of(result: dict) -> dict:
    return result["per_precision"][0]["load"]


def test_the_demonstration_runs_as_its_contract_says(tmp_path):
    with running_server(Behaviour(ttft_ms=50, itl_ms=10)) as server:
        text = read_bundled_text("chat-demo").replace("http://127.0.0.1:8000/v1", server.url)
        text = text.replace("restarts: 3", "restarts: 2").replace("min_duration: 6 s", "min_duration: 2 s")
        text = text.replace("limit: 8 s", "limit: 3 s\n  foreign_load: 100 %").replace("  foreign_load: 25 %  ", "  # ")
        text = text.replace("  timeouts:", "  instrument: {p99_lateness: 1 s, p99_lag: 1 s, busy: 100 %}\n  timeouts:")
        (tmp_path / "demo.yaml").write_text(text, encoding="utf-8")
        done = lynxbench("run", "demo.yaml", cwd=tmp_path)
        truth = server.stop()
    assert done.code in (0, 1), done.err
    # The server is asked before the instrument is tried, which alone takes more than a second.
    first_ns, third_ns = np.sort(truth.arrival_ns)[[0, 2]].tolist()
    assert third_ns - first_ns > 1_000_000_000
    folder = next((tmp_path / "results").iterdir())
    result = json.loads((folder / "result.json").read_text())
    load, one = load_of(result), result["per_precision"][0]
    counted = load["accounting"]
    assert counted["offered"] == counted["ok"] + sum(counted["failed"].values())
    assert truth.count(ServedOutcome.OK) == counted["ok"] + 2  # two questions come first, to see how tokens count
    assert load["tokens"]["source"] == "usage"
    assert load["tokens"]["output_mean"] == 16
    assert load["cache"] == {"regime": "avoided", "distinct_prompts": None, "cached_share": 0.0, "counters": {}}
    assert load["instrument"]["preflight"]["requests_per_s"] > 0
    assert len(load["records"]) == 2
    for kept in load["records"]:
        assert hash_file(folder / kept["file"]) == kept["sha256"]
    if done.code == 0:
        middle = {m: p[0]["estimate"] for m, p in one["latency_ms"].items()}
        served = truth.outcome == ServedOutcome.OK
        first_ms = (truth.first_ns - truth.arrival_ns)[served] / 1e6
        token_ms = (truth.last_ns - truth.first_ns)[served] / 1e6 / (truth.events[served] - 1)
        assert middle["time-to-first-token"] >= 50, "no answer comes before the server gives it"
        assert middle["time-to-first-token"] == pytest.approx(np.median(first_ms), abs=25)
        assert middle["time-per-token"] == pytest.approx(np.median(token_ms), rel=0.15)
        assert one["throughput"]["unit"] == "tokens/s"
        assert "Goodput" in done.out
        assert "open loop, poisson 40 /s" in done.out
    serving = result["executor"]["layers"]["serving"]
    assert serving["server_models"]["value"]["data"][0]["id"] == "ground-truth"
    assert serving["server_version"]["value"]["version"].startswith("lynxbench ")
    assert serving["server_command"]["status"] == "measured"
    assert "client_python_version" in result["executor"]["layers"]["framework"]
    assert "offered =" in (folder / "report.html").read_text()
    assert sum(len(p.samples.iterations) for p in read_samples(folder / "samples.npz")) == counted["ok"]


def test_faults_are_counted_exactly_and_the_run_ends(tmp_path):
    with running_server(Behaviour(ttft_ms=2, itl_ms=1, drop=0.05, http500=0.05, stall=0.01)) as server:
        # The two questions before the run take the first two turns of the server's order of faults: both are good.
        text = served_contract(
            server.url,
            arrival="{process: constant, rate: 200 /s}",
            restarts=1,
            shortest="1990 ms",
            longest="1990 ms",
            idle="2 s",  # a stalled stream is silent for ever; others are not silent so long, however busy the machine
        )
        result = run_json(tmp_path, text)
        truth = server.stop()
    load = load_of(result)
    counted = load["accounting"]
    assert counted["offered"] == 398
    assert counted["sent"] == counted["ok"] + sum(counted["failed"].values()) == 398
    assert counted["failed"] == {
        "http_error": truth.count(ServedOutcome.HTTP500),
        "reset": truth.count(ServedOutcome.DROP),
        "timeout_idle": truth.count(ServedOutcome.STALL),
    }
    assert counted["failed"] == {"http_error": 20, "reset": 20, "timeout_idle": 4}
    assert any("a fault on demand" in said for said in counted["said"])
    assert result["validity"]["verdict"] == "doubtful"
    assert any("44 of 398 requests failed" in reason for reason in result["validity"]["reasons"])


@pytest.mark.slow
def test_a_starved_client_is_void_and_exits_1(tmp_path):
    """A closed loop against a server that costs a small part of its client: what half a core cannot do is not reported.

    Whoever shares the server's core slows it too: with so many events an answer it needs little of that core.
    """
    cores = sorted(os.sched_getaffinity(0))
    on_first, on_last = (["taskset", "-c", str(core)] for core in (cores[0], cores[-1]))
    tokens = 512
    hog = ["sh", "-c", "while :; do :; done"]
    with subprocess.Popen(
        [*on_first, sys.executable, str(INSTANT), str(tokens)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        text = served_contract(
            server.stdout.readline().strip(),
            arrival="{process: closed, concurrency: 64}",
            tokens=tokens,
            restarts=1,
            shortest="1 s",
            longest="1 s",
            instrument=STRICT_BOUNDS,
        )
        (tmp_path / "served.yaml").write_text(text, encoding="utf-8")
        with subprocess.Popen([*on_last, *hog]) as other:  # half a core is left
            try:
                command = [*on_last, sys.executable, "-m", "lynxbench", "run", "served.yaml"]
                done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
            finally:
                other.kill()
        server.stdin.close()
    assert done.returncode == 1, done.stderr
    assert "VOID: no figure of this run may be used" in done.stdout
    assert "the client was the limit" in done.stdout
    assert "tokens/s" not in done.stdout
    result = json.loads(next((tmp_path / "results").glob("*/result.json")).read_text())
    one = result["per_precision"][0]
    assert one["throughput"] is one["sustained"] is one["peak"] is None
    assert one["latency_ms"] == {}
    load = one["load"]
    assert load["instrument"]["verdict"] == "void"
    assert load["instrument"]["busiest_share"] > 0.9
    assert any("the client needed" in reason for reason in load["instrument"]["reasons"])
    assert load["requests_per_s"] is load["goodput_per_s"] is load["saturation"] is None
    assert load["accounting"]["ok"] > 0


def test_tls_and_keys_from_the_environment(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {cert} -days 2 -subj /CN=127.0.0.1 "
        "-addext subjectAltName=IP:127.0.0.1",
        shell=True,
        capture_output=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    secret = "sk-verysecretkey123456"
    with running_server(Behaviour(ttft_ms=2, cert_file=str(cert), key_file=str(key))) as server:
        assert server.url.startswith("https://")
        text = served_contract(
            server.url,
            arrival="{process: closed, concurrency: 4}",
            restarts=1,
            shortest="1 s",
            longest="1 s",
            engine=f"ca_file: {cert}\napi_key_env: SERVED_KEY",
        )
        missing = tmp_path / "missing.yaml"
        missing.write_text(text, encoding="utf-8")
        refused = lynxbench_here("run", str(missing), cwd=tmp_path)
        assert refused.code == 4
        assert "SERVED_KEY is not set" in refused.err
        result = run_json(tmp_path, text, SERVED_KEY=secret)
    assert load_of(result)["accounting"]["failed"] == {}
    assert load_of(result)["accounting"]["ok"] > 0
    for file in (tmp_path / "results").rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_a_kserve_server(tmp_path):
    with running_server(Behaviour(ttft_ms=3)) as server:
        text = served_contract(
            server.url, arrival="{process: closed, concurrency: 2}", restarts=1, shortest="600 ms", longest="600 ms"
        )
        text = text.replace("task: generate", "task: classify").replace("name: openai", "name: kserve")
        lines = [line for line in text.replace("/v1\n", "\n").splitlines() if "_tokens:" not in line]
        inputs = "[{name: x, datatype: FP32, shape: [1, 4]}, {name: t, datatype: BYTES, shape: [2]}]"
        lines.insert(lines.index("engine:") + 1, f"  inputs: {inputs}")
        result = run_json(tmp_path, "\n".join(lines))
    one = result["per_precision"][0]
    assert one["throughput"]["unit"] == "requests/s"
    assert one["load"]["tokens"]["source"] == "none"
    assert one["load"]["accounting"]["failed"] == {}
    assert set(one["latency_ms"]) == {"latency"}
    assert one["latency_ms"]["latency"][0]["estimate"] > 3
    told = one["load"]["server_counters"]
    assert told["triton_inferences"] == one["load"]["accounting"]["ok"]
    assert told["triton_compute_infer_s"] > 0.003 * told["triton_inferences"]
    said = result["attribution"]
    assert said == one["attribution"]
    assert one["attribution_missing"] is None
    assert sum(said["shares"].values()) == pytest.approx(1.0)
    assert said["steps"] == told["triton_inferences"]
    assert any("Triton's own metrics" in line for line in said["evidence"])
    assert result["executor"]["layers"]["serving"]["server_metadata"]["value"]["name"] == "ground-truth"


def test_a_server_whose_slots_are_full_is_named_and_computed_again_from_its_series(tmp_path):
    with running_server(Behaviour(ttft_ms=20, itl_ms=10, slots=3, shows_queue=True)) as server:
        text = served_contract(
            server.url,
            arrival="{process: closed, concurrency: 12}",
            restarts=1,
            shortest="8 s",
            longest="8 s",
            idle="3 s",
        )
        result = run_json(tmp_path, text)
    said = result["attribution"]
    assert (said["bound"], said["layer"], said["bottleneck"]) == ("software", "serving", "queueing"), said["sentence"]
    assert "the batch is full at 3 requests" in said["sentence"]
    assert "--max-num-seqs" in said["next_step"]
    assert said["weak"], "the limit itself was not seen, and nothing was known of a device"
    folder = next((tmp_path / "results").iterdir())
    assert any(file["path"] == "server.csv" for file in json.loads((folder / "manifest.json").read_text())["files"])
    series = folder / "server.csv"
    kept = series.read_bytes()
    rows = [line.split(",") for line in kept.decode().splitlines() if line[0].isdigit()]
    open_requests = [int(running) + int(waiting) for _, _, running, waiting, *_ in rows if running == "3"]
    assert open_requests
    # twelve clients for three slots, unless the machine stood still and a reading met fewer of them
    truth = 4.0 if set(open_requests) == {12} else min(open_requests) / 3
    assert 1.0 <= said["gain_if_removed"]["low"] <= 4.0
    assert truth <= said["gain_if_removed"]["high"] * 1.1
    verified = lynxbench_here("verify", str(folder), cwd=tmp_path)
    assert verified.code == 0, verified.out + verified.err
    series.write_bytes(kept.replace(b",3,9,", b",12,0,"))
    assert series.read_bytes() != kept
    assert lynxbench_here("verify", str(folder), cwd=tmp_path).code == 5


def test_what_cannot_be_asked_is_one_line(tmp_path):
    (tmp_path / "served.yaml").write_text(served_contract("http://127.0.0.1:9/v1"), encoding="utf-8")
    done = lynxbench("run", "served.yaml", cwd=tmp_path)
    assert done.code == 4
    assert "is the server running?" in done.err
    assert len(done.err.strip().splitlines()) == 1
    with running_server(Behaviour(http500=1.0)) as server:
        (tmp_path / "served.yaml").write_text(served_contract(server.url, restarts=1), encoding="utf-8")
        done = lynxbench_here("run", "served.yaml", cwd=tmp_path)
    assert done.code == 4
    assert "the server answers 500" in done.err


@pytest.mark.slow
def test_a_replayed_trace_and_an_interrupted_run_that_goes_on(tmp_path):
    rows = [{"timestamp": 8 * i, "input_length": 10, "output_length": 1 + i % 3} for i in range(200)]
    (tmp_path / "trace.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with running_server(Behaviour(ttft_ms=2, itl_ms=1)) as server:
        replay = "{process: replay, path: trace.jsonl}"
        text = served_contract(server.url, arrival=replay, restarts=2, longest="4 s", idle="3 s")
        text = "\n".join(line for line in text.splitlines() if "_tokens:" not in line)
        (tmp_path / "served.yaml").write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "lynxbench", "run", "served.yaml", "--json"]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            deadline = time.monotonic() + 300
            while not list(tmp_path.glob("results/*/attempts/000-01/report.json")) and time.monotonic() < deadline:
                time.sleep(0.1)
            run.send_signal(signal.SIGINT)
            _, err = run.communicate(timeout=600)
        assert run.returncode == 130, err
        assert "--resume" in err
        done = lynxbench_here("run", "served.yaml", "--json", "--resume", cwd=tmp_path)
    assert done.code == 0, done.err
    load = load_of(json.loads(done.out))
    assert load["accounting"] | {"said": {}} == {
        "offered": 400, "sent": 400, "ok": 400, "failed": {}, "retries": 0, "said": {},
    }  # fmt: skip
    assert load["tokens"]["output_mean"] == pytest.approx(sum(r["output_length"] for r in rows) / 200)


@pytest.mark.slow
def test_saturation_of_a_server_of_known_capacity(tmp_path):
    """No claim beyond what the server can do; a busy machine makes a claim smaller, or none, and never larger.

    Where it leaves the client too little the run is void, and claims nothing.
    """
    true_per_s = capacity(service_s=0.005, servers=8, limit_s=0.011, violations=0.2)
    with running_server(Behaviour(ttft_ms=5, slots=8, service="exponential", tokens=1)) as server:
        text = served_contract(
            server.url,
            arrival="{process: saturating, tolerance: 50 %, concurrency: 32, budget: 20 s}",
            slo="{metric: latency, percentile: 80, at_most: 11 ms}",
            tokens=1,
            restarts=1,
            shortest="1 s",
            longest="1 s",
        )
        result = run_json(tmp_path, text, 0, 1)
    measured, limited = result["per_precision"][0], load_of(result)["instrument"]["verdict"] == "void"
    assert (measured["validity"]["verdict"] == "void") == limited
    if limited:
        assert (measured["throughput"], load_of(result)["saturation"]) == (None, None)
        return
    search = SaturationRecord.model_validate_json(json.dumps(load_of(result)["saturation"]))
    assert_honest(search, budget_s=20)
    assert search.ceiling_per_s <= 1.25 * 1600, "eight slots of 5 ms"
    report = next((tmp_path / "results").glob("*/report.md")).read_text()
    assert "within p80 latency ≤ 11 ms" in report
    if search.passed_per_s is None:
        assert NOTHING_HELD in report
    else:
        assert search.passed_per_s < 1.1 * true_per_s
        assert load_of(result)["requests_per_s"]["estimate"] < 1.2 * search.passed_per_s
        assert "holds" in report
