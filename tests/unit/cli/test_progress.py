"""What is said of a run where no terminal draws a bar."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lynxbench.cli.progress import TerminalProgress
from lynxbench.contract.loader import parse_contract, read_bundled
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.model.executor import Executor
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.run.fresh_job import ENDURING, PROBING
from rolled_runs import endurance_contract


@pytest.mark.parametrize(
    ("stages", "seen"),
    [(["setup", "measure"], True), (["measure"], True), (["compile", "warm-up"], False), ([], False)],
)
def test_every_process_is_told_even_one_that_ended_before_anybody_looked(
    stages: list[str], seen: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    progress: Any = TerminalProgress(read_bundled("quickstart"))
    slot = Slot(index=1, precision=Precision.FP32, restart=1)
    for stage in stages:
        progress.watch(slot, stage, 3, 0.5)
    progress.end_slot(slot, JobReport(status=JobStatus.DONE), 1.0)
    lines = [line for line in capsys.readouterr().err.splitlines() if "fp32 2/3" in line]
    assert len(lines) == max(1, len(stages) if seen else 0)
    assert ("measured in 1 s" in lines[-1]) is not seen


SEARCHING = """\
lynxbench: 1
name: searching
question: At which rate does the objective still hold?
regime: latency
workload:
  task: generate
  model: {source: served, name: tiny}
  precisions: [bf16]
  input_tokens: {distribution: fixed, value: 8}
  output_tokens: {distribution: fixed, value: 8}
  arrival: {process: saturating, budget: 300 s}
engine: {name: openai, url: "http://127.0.0.1:9/v1"}
objective: {slo: [{metric: latency, percentile: 99, at_most: 500 ms}]}
protocol: {restarts: 2, min_duration: 10 s, limit: 20 s}
"""


def searching(tmp_path: Path) -> tuple[TerminalProgress, RunFolder]:
    contract = parse_contract(SEARCHING)
    slots = tuple(Slot(index=i, precision=Precision.BF16, restart=max(0, i - 1)) for i in range(3))
    executor = Executor(layers={layer: {} for layer in Layer})
    run = RunFolder.create(tmp_path, contract, executor, 1, slots, datetime(2026, 1, 1, tzinfo=UTC))
    return TerminalProgress(contract), run


def test_a_search_announces_its_budget_and_tells_every_probe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress, run = searching(tmp_path)
    progress.begin(run)
    search, *runs = run.registration.plan
    for place, rate in enumerate((4, 8, 6), start=1):
        for spent_s in (0.5, 1.0):
            progress.watch(search, f"{PROBING}probe {place} at {rate} requests/s", 3, place + spent_s)
    said = capsys.readouterr().err
    first = said.splitlines()[0]
    longest_s = 12 + 30 + 60 + 300 + (12 + 20 + 12) + (12 + 20)
    assert f"at most {longest_s / 60:.1f} min" in first, "the search's budget and its closed loops are part of it"
    assert [f"probe {place} at" in said for place in (1, 2, 3)] == [True] * 3
    assert said.count("probe 2 at 8 requests/s") == 1, "each is told once"
    progress.end_slot(search, JobReport(status=JobStatus.DONE), 290.0)
    progress.watch(runs[0], "setup", 0, 1.0)
    left = capsys.readouterr().err
    assert "about 65 s left" in left, "a run at the rate is not as long as the search for it"


def test_an_endurance_run_is_told_by_the_tenth_with_the_figure_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    progress = TerminalProgress(endurance_contract("10 min"))
    slot = Slot(index=0, precision=Precision.FP32, restart=0)
    progress.watch(slot, "measure", 0, 1.0)
    for second in range(5, 600, 5):
        progress.watch(slot, f"{ENDURING}{second / 60:.1f} of 10 min, {200 + second} calls/s so far", 0, float(second))
    lines = [line for line in capsys.readouterr().err.splitlines() if "so far" in line]
    assert len(lines) == 9
    assert "calls/s so far" in lines[0]
