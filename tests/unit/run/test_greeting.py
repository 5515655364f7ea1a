"""The first word to a server: who is asked, what is said when nobody answers, and what is not loaded for it."""

import subprocess
import sys

import pytest

from lynxbench.contract.loader import parse_contract, read_contract
from lynxbench.errors import BadInput, CannotRun
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.truth_process import running_server
from lynxbench.run.greeting import greet
from served import served_contract

LATER = ("lynxbench.run.pipeline", "lynxbench.report", "lynxbench.ledger", "lynxbench.measure", "rich", "psutil")
"""What only a run needs that has begun."""


def test_an_engine_in_process_has_nobody_to_greet() -> None:
    assert greet(read_contract("quickstart")) is None


def test_a_server_tells_how_it_counts_words() -> None:
    with running_server(Behaviour()) as server:
        greeting = greet(parse_contract(served_contract(server.url)))
        asked = len(server.stop().arrival_ns)
    assert greeting is not None
    assert greeting.calibration is not None
    assert greeting.calibration.has_usage
    assert asked == 2


def test_a_server_that_is_not_there_is_one_line() -> None:
    with pytest.raises(CannotRun, match=r"http://127\.0\.0\.1:9/v1: .*; is the server running\?"):
        greet(parse_contract(served_contract("http://127.0.0.1:9/v1")))


def test_a_trace_that_cannot_be_read_is_said_before_anything_is_asked(tmp_path) -> None:
    text = served_contract("http://127.0.0.1:9/v1", arrival=f"{{process: replay, path: {tmp_path / 'absent.jsonl'}}}")
    text = "\n".join(line for line in text.splitlines() if "_tokens:" not in line)
    with pytest.raises(BadInput, match=r"absent\.jsonl"):
        greet(parse_contract(text))


def test_nothing_that_only_a_run_needs_is_loaded_to_ask() -> None:
    program = (
        "import sys, lynxbench.cli.main, lynxbench.cli.run_command, lynxbench.contract.loader, lynxbench.run.greeting\n"
        f"import lynxbench.engines.served\nprint(*[name for name in {LATER!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
