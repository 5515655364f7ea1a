"""`lynxbench selfcheck` and `lynxbench demo-server` as a person starts them."""

import json
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pytest


def start(*arguments):
    return [sys.executable, "-m", "lynxbench", *arguments]


def test_demo_server_answers_and_logs(tmp_path):
    log = tmp_path / "log.npz"
    command = start("demo-server", "--port", "0", "--ttft", "5", "--itl", "1", "--log", str(log))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().split()[1]
        body = json.dumps({"stream": False, "max_tokens": 3, "messages": []}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body)) as answer:
            said = json.load(answer)
        with urllib.request.urlopen(f"{url}/models") as answer:
            assert json.load(answer)["data"][0]["id"] == "ground-truth"
        server.send_signal(signal.SIGINT)
        assert server.wait(600) == 0
    assert said["choices"][0]["message"]["content"] == " the the the"
    assert said["usage"]["completion_tokens"] == 3
    with np.load(log) as stored:
        assert stored["outcome"].tolist() == [1]


def test_demo_server_refuses_nonsense():
    done = subprocess.run(
        start("demo-server", "--drop", "0.8", "--stall", "0.8"),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode != 0
    assert "add up to more than 1" in done.stderr


@pytest.mark.slow
def test_selfcheck_reports_its_ceiling_and_errors():
    done = subprocess.run(
        start("selfcheck", "--quick", "--json"), capture_output=True, text=True, timeout=600, check=False
    )
    check = json.loads(done.stdout)
    assert done.returncode == (0 if check["good"] else 1), done.stderr
    assert bool(check["problems"]) is not check["good"]
    assert [error["streams"] for error in check["stamp_errors"]] == [1, 32, 128, 512]
    one, many = check["ceilings"]
    assert one["requests_per_s"] > 0
    assert many["events_per_s"] > 0
    # However busy this machine is, stamps are never early. Where it calls itself good, no gap is a false 0.01 ms.
    assert all(error["ttft_mean_ms"] > 0 for error in check["stamp_errors"])
    if check["good"]:
        assert all(e["itl_median_ms"] is None or e["itl_median_ms"] > 5 for e in check["stamp_errors"])
    assert check["open_loop"]["achieved_per_s"] > 0
