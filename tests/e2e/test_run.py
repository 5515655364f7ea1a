"""The main job through the real command line: a run, an interruption, a kill, and what is left of each."""

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

from command_line import PAUSING, QUICK_CONTRACT, SPINNING, CommandRun, lynxbench, lynxbench_here
from lynxbench.evidence.documents import check_samples, read_result
from lynxbench.evidence.sample_file import read_samples
from lynxbench.load.journal import count_journal
from lynxbench.model.evidence_gate import carried_attribution
from lynxbench.report.documents.attribution_blocks import mark_of

KEYS = {"contract_id", "executor_id", "result_id", "per_precision", "attribution", "validity"}
PER_PRECISION = {
    "precision",
    "throughput",
    "latency_ms",
    "peak",
    "sustained",
    "steady",
    "accuracy",
    "native",
    "validity",
}


def test_a_run_leaves_a_result_that_fits_together(spin_run: Path) -> None:
    result = read_result(spin_run)
    samples = read_samples(check_samples(result, spin_run))
    (one,) = result.per_precision
    assert one.throughput is not None
    assert one.throughput.unit == "calls/s"
    assert 0 < (one.throughput.estimate or 0) <= 1001, "a call takes a millisecond or, disturbed, longer"
    assert one.restarts == len(samples) == 2
    assert result.samples.rows == sum(len(process.samples.iterations) for process in samples)
    assert one.steady is not None
    assert one.steady.counted_iterations <= result.samples.rows
    assert "2 restarts instead of 5" in result.conditions.loosened
    assert (spin_run / "report.html").read_text().startswith("<!doctype html>")
    assert "spin" in (spin_run / "report.md").read_text()


def test_the_documented_keys_are_there(spin_run: Path) -> None:
    document = json.loads((spin_run / "result.json").read_text())
    assert document.keys() >= KEYS
    (one,) = document["per_precision"]
    assert one.keys() >= PER_PRECISION
    assert one["throughput"].keys() == {"low", "estimate", "high", "unit"}
    assert one["steady"].keys() >= {"verdict", "counted_s", "excluded"}


def test_nine_layers_are_captured(spin_run: Path) -> None:
    layers = json.loads((spin_run / "result.json").read_text())["executor"]["layers"]
    assert len(layers) == 9
    assert any("spinning:spin" in json.dumps(field) for field in layers["application"].values())
    libraries = json.dumps(layers["runtime"]) + json.dumps(layers["system"])
    assert "libc.so" in libraries, "native libraries are read from the process map"


@pytest.mark.parametrize("form", ["terminal", "html", "md", "json"])
def test_a_result_is_reported_again_in_every_form(form: str, spin_run: Path) -> None:
    done = lynxbench_here("report", str(spin_run), "--format", form, cwd=spin_run)
    assert done.code == 0, done.err
    assert "spin" in done.out


def test_json_alone_goes_to_standard_output(spin_command: CommandRun, spin_run: Path) -> None:
    assert json.loads(spin_command.out) == json.loads((spin_run / "result.json").read_text())
    assert "fp32 2/2" in spin_command.err


def _long_folder(tmp_path: Path) -> Path:
    contract = QUICK_CONTRACT.replace("duration: 400 ms", "duration: 2 s").replace("limit: 600 ms", "limit: 2 s")
    (tmp_path / "spin.yaml").write_text(contract)
    (tmp_path / "spinning.py").write_text(PAUSING)
    return tmp_path


def _started(folder: Path, enough: int = 20) -> tuple[subprocess.Popen[str], Path]:
    """A run whose second process has measured a little."""
    run = subprocess.Popen(
        [sys.executable, "-m", "lynxbench", "run", "spin.yaml"], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        attempts = sorted(folder.glob("results/*/attempts/001-*"))
        if attempts and count_journal(attempts[0]) > enough:
            return run, attempts[0]
        time.sleep(0.05)
    run.kill()
    raise AssertionError("the run did not get going")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_was_measured_survives_and_resume_goes_on(how: signal.Signals, tmp_path: Path) -> None:
    folder = _long_folder(tmp_path)
    run, attempt = _started(folder)
    seen = count_journal(attempt)
    os.kill(run.pid, how)
    _, err = run.communicate(timeout=600)
    if how is signal.SIGINT:
        assert run.returncode == 130
        assert "samples kept" in err
        assert "--resume" in err
    assert count_journal(attempt) >= seen
    (run_folder,) = (folder / "results").iterdir()
    first = run_folder / "attempts" / "000-01"
    before = (first / "iterations.bin").read_bytes()
    done = lynxbench("run", "spin.yaml", "--resume", cwd=folder)
    assert done.code == 0, done.err
    assert (first / "iterations.bin").read_bytes() == before, "a finished process is not measured again"
    assert (run_folder / "attempts" / "001-02").exists(), "the interrupted one is, as a second attempt"
    assert count_journal(attempt) >= seen, "and its first attempt is kept"
    result = read_result(run_folder)
    assert result.per_precision[0].restarts == 2
    assert lynxbench_here("run", "spin.yaml", "--resume", cwd=folder).code == 2, "nothing is left to resume"


def _variant(tmp_path: Path, function: str) -> Path:
    (tmp_path / "spin.yaml").write_text(QUICK_CONTRACT)
    (tmp_path / "spinning.py").write_text(function)
    return tmp_path


def test_a_function_that_raises_ends_in_one_line(tmp_path: Path) -> None:
    folder = _variant(tmp_path, "def spin():\n    raise RuntimeError('no such table\\nsecond line')\n")
    done = lynxbench("run", "spin.yaml", cwd=folder)
    assert done.code == 2, "the function is the user's to mend"
    assert "no such table" in done.err
    assert "Traceback" not in done.err
    assert list(folder.glob("results/*/attempts/*/traceback.txt"))


def test_a_process_that_dies_is_reported(tmp_path: Path) -> None:
    done = lynxbench("run", "spin.yaml", cwd=_variant(tmp_path, "import os\ndef spin():\n    os._exit(7)\n"))
    assert done.code == 4
    assert "ended with code 7" in done.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "nothing.yaml"), 2),
        (("run", "spin.yaml", "--declare", "nothing.yaml"), 2),
        (("report", "nothing.json"), 2),
        (("steady", "nothing.csv"), 2),
        (("changepoints", "nothing.csv"), 2),
        (("executor", "diff", "nothing.json", "here"), 2),
        (("contract", "check", "nothing.yaml"), 2),
        (("fly",), 2),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], code: int, spin_folder: Path) -> None:
    done = lynxbench_here(*arguments, cwd=spin_folder)
    assert done.code == code
    assert "Traceback" not in done.err
    assert done.err.strip()


def test_an_open_loop_is_refused_by_an_in_process_engine(tmp_path: Path) -> None:
    folder = _variant(tmp_path, SPINNING)
    arrival = "  arrival: {process: poisson, rate: 5 /s}"
    contract = QUICK_CONTRACT.replace("  precisions: [fp32]", f"  precisions: [fp32]\n{arrival}")
    (folder / "spin.yaml").write_text(contract)
    done = lynxbench_here("run", "spin.yaml", cwd=folder)
    assert done.code == 4
    assert "concurrency 1" in done.err


SMOL = """\
lynxbench: 1
name: smol
question: Does the whole chain work with a real language model?
regime: throughput
workload:
  task: generate
  model: {source: package, name: smollm2-135m-instruct}
  precisions: [fp32, int8]
  input_tokens: {distribution: fixed, value: 8}
  output_tokens: {distribution: fixed, value: 2}
engine: {name: torch, threads: 1}
protocol:
  {restarts: 1, steady: {drift: 20 %, window: 150 ms}, min_duration: 1200 ms, limit: 1200 ms, foreign_load: 100 %}
policy: {accuracy: {metric: perplexity, largest_loss: 20 %}}
owners: {runtime: the kernel people, accelerator: the metal people}
"""


@pytest.mark.slow
def test_a_real_language_model_is_measured_explained_and_compared(tmp_path: Path) -> None:
    (tmp_path / "smol.yaml").write_text(SMOL)
    done = lynxbench("run", "smol.yaml", cwd=tmp_path, timeout_s=1800)
    assert done.code == 0, done.err
    (folder,) = (tmp_path / "results").iterdir()
    result = read_result(folder)
    for one in result.per_precision:
        assert one.throughput is not None
        assert (one.throughput.estimate or 0) > 0
        assert {"latency", "time-to-first-token", "time-per-token"} == set(one.latency_ms)
        assert one.accuracy is not None
        assert one.accuracy.metrics["perplexity"] == pytest.approx(30, rel=0.6)
        assert one.attribution is not None
        assert sum(one.attribution.shares.values()) == pytest.approx(1)
    int8 = result.per_precision[1].accuracy
    assert int8 is not None
    assert int8.verdict == "go"
    assert {ceiling.name for ceiling in result.ceilings} >= {"matmul", "copy"}
    shown = carried_attribution(result)
    assert shown is not None
    assert f"\n{mark_of(shown).upper()}: " in done.out
    samples = read_samples(folder / "samples.npz")
    assert all(np.all(process.samples.iterations.units == 2) for process in samples)


@pytest.mark.parametrize(
    ("code", "says"),
    [("", "has no 'spin'"), ("import nowhere_at_all\n", "nowhere_at_all"), ("spin = 3\n", "not a function")],
)
def test_a_function_that_is_not_there_is_the_users_to_mend(tmp_path: Path, code: str, says: str) -> None:
    done = lynxbench_here("run", "spin.yaml", cwd=_variant(tmp_path, code))
    assert done.code == 2, done.err
    assert says in done.err
    assert "nothing could be measured here" not in done.err, "it is not this executor that lacks something"
