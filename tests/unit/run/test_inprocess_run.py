"""Ceilings kept by executor id: read back, replaced when measured anew, re-checked and never believed blindly."""

from __future__ import annotations

from pathlib import Path

import pytest

from lynxbench.model.attribution import Ceiling
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.model.precision import Precision
from lynxbench.run.inprocess_run import ceilings_file, ceilings_for, read_ceilings, remember_ceilings

EXECUTOR = "e" * 64


def ceiling(name: str, per_s: float, precision: Precision | None = None) -> Ceiling:
    return Ceiling(name=name, precision=precision, per_s=per_s, unit="x/s", how="measured")


def report(*ceilings: Ceiling, device: str = "cuda:0", status: JobStatus = JobStatus.DONE) -> JobReport:
    return JobReport(status=status, ceilings=ceilings, facts={"runtime.device": device})


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYNXBENCH_CACHE", str(tmp_path / "cache"))


def test_what_a_run_measured_is_known_to_the_next() -> None:
    bf16 = ceiling("matmul", 8e14, Precision.BF16)
    assert read_ceilings(EXECUTOR) == ()
    remember_ceilings(EXECUTOR, [report(bf16, ceiling("copy", 4.1e12)), report(ceiling("copy", 4.2e12))])
    assert set(read_ceilings(EXECUTOR)) == {bf16, ceiling("copy", 4.2e12)}
    assert read_ceilings("f" * 64) == ()


def test_a_ceiling_that_came_down_replaces_the_old_one_and_others_stay() -> None:
    remember_ceilings(EXECUTOR, [report(ceiling("matmul", 8e14, Precision.BF16), ceiling("copy", 4.2e12))])
    remember_ceilings(EXECUTOR, [report(ceiling("copy", 3.0e12))])
    assert set(read_ceilings(EXECUTOR)) == {ceiling("matmul", 8e14, Precision.BF16), ceiling("copy", 3.0e12)}


def test_processors_and_failed_processes_leave_nothing() -> None:
    remember_ceilings(EXECUTOR, [report(ceiling("copy", 1e10), device="cpu")])
    remember_ceilings(EXECUTOR, [report(ceiling("copy", 1e12), status=JobStatus.FAILED)])
    assert not ceilings_file(EXECUTOR).exists()


@pytest.mark.parametrize("text", ["", "{", '{"executor_id": "' + "f" * 64 + '", "ceilings": []}'])
def test_a_damaged_or_foreign_file_is_nothing_known(text: str) -> None:
    ceilings_file(EXECUTOR).parent.mkdir(parents=True)
    ceilings_file(EXECUTOR).write_text(text)
    assert read_ceilings(EXECUTOR) == ()


def test_a_process_gets_its_own_product_and_what_has_no_precision() -> None:
    bf16, fp8, copy = (
        ceiling("matmul", 8e14, Precision.BF16),
        ceiling("matmul", 15e14, Precision.FP8),
        ceiling("copy", 4e12),
    )
    assert ceilings_for([bf16, fp8, copy], Precision.FP8) == (fp8, copy)
    assert ceilings_for([bf16, copy], Precision.FP8) == ()


def test_a_function_on_a_device_is_known_by_its_launches_and_gets_every_format() -> None:
    """Whoever wrote the function named no device; numpy's ceilings beside it are a CPU's."""
    bf16, fp32, launch = (
        ceiling("matmul", 8e14, Precision.BF16),
        ceiling("matmul", 5e13, Precision.FP32),
        ceiling("launch", 1e5),
    )
    unnamed = JobReport(status=JobStatus.DONE, ceilings=(bf16, fp32, launch), facts={})
    remember_ceilings(EXECUTOR, [unnamed.model_copy(update={"ceilings": (bf16, fp32)})])
    assert read_ceilings(EXECUTOR) == ()
    remember_ceilings(EXECUTOR, [unnamed])
    known = read_ceilings(EXECUTOR)
    assert set(ceilings_for(known, Precision.BF16, every=True)) == {bf16, fp32, launch}
    assert set(ceilings_for(known, Precision.BF16)) == {bf16, launch}
    assert ceilings_for(known, Precision.FP16, every=True) == ()
