"""What is said of a run where no terminal draws a bar."""

from __future__ import annotations

from typing import Any

import pytest

from lynxbench.cli.progress import TerminalProgress
from lynxbench.contract.loader import read_bundled
from lynxbench.evidence.run_folder import Slot
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.model.precision import Precision


@pytest.mark.parametrize("seen", [True, False])
def test_every_process_is_told_once_even_one_that_ended_before_anybody_looked(
    seen: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    progress: Any = TerminalProgress(read_bundled("quickstart"))
    slot = Slot(index=1, precision=Precision.FP32, restart=1)
    if seen:
        progress.watch(slot, "measure", 3, 0.5)
    progress.end_slot(slot, JobReport(status=JobStatus.DONE), 1.0)
    lines = [line for line in capsys.readouterr().err.splitlines() if "fp32 2/3" in line]
    assert len(lines) == 1
    assert ("measured in 1 s" in lines[0]) is not seen
