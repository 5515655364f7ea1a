"""A server's own profiler in a pass after the load, against a stand-in that writes a recorded trace."""

from __future__ import annotations

import gzip
import json

import pytest

from command_line import lynxbench_here
from lynxbench.load.load_record import read_record
from profiled_servers import profiled_server
from served import expect_client_kept_up, served_contract

pytestmark = pytest.mark.slow

ENGINE = "dialect: vllm\nprofile: {duration: 1500 ms, wait: 20 s}"


def contract_for(url):
    text = served_contract(url, arrival="{process: closed, concurrency: 2}", restarts=1, engine=ENGINE)
    return text.replace("precisions: [fp32]", "precisions: [bf16]")


def run_profiled(folder, url):
    (folder / "served.yaml").write_text(contract_for(url), encoding="utf-8")
    done = lynxbench_here("run", "served.yaml", "--json", cwd=folder)
    assert done.code in (0, 1), done.err
    return json.loads(done.out), max((folder / "results").iterdir(), key=lambda path: path.stat().st_mtime)


def test_the_kernels_of_the_server_are_judged_joined_and_verified(tmp_path):
    with profiled_server(tmp_path / "traces") as url:
        result, path = run_profiled(tmp_path, url)
    expect_client_kept_up(result)
    load = result["per_precision"][0]["load"]
    kernels = load["kernels"]
    assert kernels["missing"] == ""
    assert kernels["device"] == "NVIDIA H200"
    assert (kernels["attribution"]["bound"], kernels["attribution"]["layer"]) == ("software", "runtime")
    assert kernels["attribution"]["owner"] == "ML platform engineering"
    assert kernels["join"]["outside"] <= 0.1
    assert 0.5 < kernels["join"]["busy"] <= 1
    assert kernels["join"]["requests"] >= 1
    # The pass came after the load: its requests are of a record of their own, and none of them is counted.
    record = read_record(path / "profile" / "record.npz")
    assert len(record) == kernels["offered"]
    measured = [read_record(path / kept["file"]) for kept in load["records"]]
    assert record.start_ns > max(part.end_ns for part in measured)
    assert load["accounting"]["offered"] == sum(len(part) for part in measured)
    shown = lynxbench_here("report", str(path), cwd=tmp_path)
    assert "Kernels of the server" in shown.out
    assert lynxbench_here("verify", str(path), cwd=tmp_path).code == 0
    # Whoever changes the trace changes what it says, and the evidence no longer verifies.
    trace = path / kernels["traces"][0]["file"]
    document = json.loads(gzip.decompress(trace.read_bytes()))
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel":
            event["dur"] /= 2
    trace.write_bytes(gzip.compress(json.dumps(document).encode()))
    assert lynxbench_here("verify", str(path), cwd=tmp_path).code == 5
