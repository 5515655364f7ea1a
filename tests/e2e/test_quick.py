"""`lynxbench quick`: from a target to an answer within two minutes, and a contract for more."""

from __future__ import annotations

import json
import time
from pathlib import Path
from unittest import mock

from command_line import PAUSING, CommandRun, lynxbench, lynxbench_here
from lynxbench.contract.loader import read_contract
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.truth_process import running_server
from lynxbench.model.quantities import parse_duration
from lynxbench.run import quick_target

WITHIN_S = 120
SHORT = {"min_duration": "2 s", "limit": "3 s"}
TRACES = Path(__file__).parents[1] / "data" / "traces"


def looked(folder: Path, *arguments: str, spared_s: float = 0.0) -> CommandRun:
    """How it ended; within two minutes with the time that it was spared."""
    begin = time.monotonic() - spared_s
    call = lynxbench if arguments[0] == "pausing:spin" else lynxbench_here
    done = call("quick", *arguments, cwd=folder, LYNXBENCH_HOME=str(folder / "home"))
    assert time.monotonic() - begin < WITHIN_S
    return done


def test_a_function_is_answered_and_its_contract_written(tmp_path: Path) -> None:
    (tmp_path / "pausing.py").write_text(PAUSING)
    done = looked(tmp_path, "pausing:spin", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["contract"]["name"] == "quick-pausing-spin"
    (figures,) = result["per_precision"]
    assert figures["throughput"]["low"] < figures["throughput"]["estimate"] < 100
    assert "a quick look: 3 processes of at most 11 s" in done.err
    assert "heat, power limits and slow drifts do not show in it" in done.err
    short = read_contract(str(tmp_path / "quick-pausing-spin.yaml"))
    assert short.contract_id == result["contract_id"], "what reports tell to run again is what was measured"
    longer = read_contract(str(tmp_path / "pausing-spin.yaml"))
    assert longer.protocol.min_duration_s == 60
    assert "lynxbench run pausing-spin.yaml: 5 processes" in done.err


def test_a_server_is_answered(tmp_path: Path) -> None:
    whole = quick_target.SHORT_PROTOCOL
    spared_s = whole["restarts"] * (parse_duration(whole["limit"]) - parse_duration(SHORT["limit"]))
    with running_server(Behaviour(ttft_ms=20, itl_ms=5)) as server, mock.patch.dict(whole, SHORT):
        done = looked(tmp_path, server.url, spared_s=spared_s)
    assert done.code in (0, 1), done.err  # void where the instrument was late on a busy machine
    assert "ground-truth on the server at" in done.err
    assert "guessed: precision bf16" in done.err
    assert read_contract(str(tmp_path / "ground-truth.yaml")).name == "ground-truth"


def test_a_trace_is_answered(tmp_path: Path) -> None:
    done = looked(tmp_path, str(TRACES / "pageable_h2d.json.gz"), "--json")
    assert done.code == 0, done.err
    assert "attribution" in json.loads(done.out)


def test_what_is_nothing_is_said_in_one_line(tmp_path: Path) -> None:
    done = looked(tmp_path, "nothing-here")
    assert done.code == 2
    assert "name a server" in done.err
    assert len(done.err.splitlines()) == 1
