from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from lynxbench.engines.torch import TorchAdapter, estimate, torch_session
from lynxbench.engines.torch.estimate import EMULATED_SLOWDOWN, Slowdown, lacking_arithmetic, measure_slowdown
from lynxbench.executor.host import Host
from lynxbench.model.job import Job
from lynxbench.model.precision import Native, Precision


def _load(name: str) -> ModuleType:
    """Builders live in the sibling test file; test folders are no packages."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


make_job = _load("test_torch_engine").make_job
SMOLLM2 = {"source": "preset", "name": "smollm2-135m"}


def job(precision: str, **more: object) -> Job:
    made: Job = make_job("generate", SMOLLM2, precision, tokens=(32, 16), **more)
    return made


@pytest.fixture
def _emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slowdown(few_rows=25.0, many_rows=200.0, fp32_few_s=1e-4, fp32_many_s=1e-3)
    monkeypatch.setattr(estimate, "measure_slowdown", lambda precision: slow)


def test_full_and_eight_bit_precisions_are_not_skipped() -> None:
    assert [TorchAdapter().estimate(job(name)) for name in ("fp32", "int8", "int8-weight-only")] == [None] * 3


@pytest.mark.parametrize("precision", ["fp8", "tf32"])
def test_tensor_core_formats_are_unsupported_on_a_cpu(precision: str) -> None:
    skip = TorchAdapter().estimate(job(precision))
    assert skip is not None
    assert skip.reason.startswith(f"unsupported: {precision} is a format of CUDA tensor cores")
    assert skip.estimated_s is None


@pytest.mark.parametrize("precision", ["int8", "int8-weight-only"])
def test_eight_bits_have_no_training_step_and_no_convolution(precision: str) -> None:
    training = TorchAdapter().estimate(make_job("train-step", SMOLLM2, precision))
    assert "no backward pass" in training.reason
    convolution = TorchAdapter().estimate(make_job("classify", {"source": "preset", "name": "resnet-50"}, precision))
    assert "convolutions" in convolution.reason


@pytest.mark.usefixtures("_emulated")
def test_a_long_emulated_run_is_skipped_with_its_length() -> None:
    skip = TorchAdapter().estimate(job("bf16", reference_step_s=1.0, protocol={"emulated_limit": "120 s"}))
    assert skip is not None
    assert "emulated on this CPU" in skip.reason
    assert "skipped, would take about" in skip.reason
    # 12 steps at the least, each between 25 and 200 times as long as the second it takes in fp32
    assert skip.estimated_s is not None
    assert 12 * 25 <= skip.estimated_s <= 12 * 200


@pytest.mark.usefixtures("_emulated")
def test_a_short_emulated_run_goes_ahead() -> None:
    assert TorchAdapter().estimate(job("bf16", reference_step_s=0.001, protocol={"emulated_limit": "120 s"})) is None


@pytest.mark.usefixtures("_emulated")
def test_without_a_reference_the_shape_tells() -> None:
    small = TorchAdapter().estimate(
        make_job("generate", {**SMOLLM2, "layers": 1}, "bf16", protocol={"emulated_limit": "1 s"})
    )
    large = TorchAdapter().estimate(job("bf16", protocol={"emulated_limit": "1 s"}))
    assert large.estimated_s > small.estimated_s > 1


def test_the_probe_is_quick_and_finds_fp32_level_with_itself() -> None:
    began = time.process_time()
    same = measure_slowdown(Precision.FP32)
    assert time.process_time() - began < 4 * (os.cpu_count() or 1)
    assert min(same.few_rows, same.many_rows) < EMULATED_SLOWDOWN
    assert not same.emulated


@pytest.mark.parametrize(
    ("flags", "lacks"),
    [
        pytest.param("flags : avx2 avx512f avx512_vnni f16c", "widened to fp32", id="x86 without bf16"),
        pytest.param("flags : avx2 avx512f avx512_bf16", None, id="x86 with bf16"),
        pytest.param("flags : avx2 avx512f amx_bf16 amx_tile", None, id="x86 with matrix tiles"),
        pytest.param("Features : fp asimd asimdhp", "bf16", id="arm without bf16"),
        pytest.param("Features : fp asimd bf16", None, id="arm with bf16"),
        pytest.param("", None, id="flags that cannot be read say nothing"),
    ],
)
def test_a_widened_product_is_emulated_however_quick_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: str, lacks: str | None
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text(f"processor : 0\n{flags}\n")
    monkeypatch.setattr(estimate, "Host", lambda: Host(root=tmp_path))
    level = Slowdown(few_rows=1.1, many_rows=1.5, fp32_few_s=1e-4, fp32_many_s=1e-3)
    monkeypatch.setattr(estimate, "measure_slowdown", lambda precision: level)
    found = lacking_arithmetic(Precision.BF16)
    assert found is None if lacks is None else found is not None and lacks in found
    skip = TorchAdapter().estimate(job("bf16", reference_step_s=1.0, protocol={"emulated_limit": "1 s"}))
    assert (skip is not None) is (lacks is not None)
    monkeypatch.setattr(torch_session, "lacking_arithmetic", lacking_arithmetic)
    session = TorchAdapter().open(make_job("generate", {**SMOLLM2, "layers": 1}, "bf16", tokens=(4, 2)))
    monkeypatch.setattr(torch_session, "measure_slowdown", lambda precision: level)
    executed = session.executed()
    session.close()
    assert executed.native is (Native.NATIVE if lacks is None else Native.EMULATED)
    assert lacks is None or lacks in executed.how


def test_a_cpu_without_half_precision_is_found_out_within_seconds() -> None:
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    if "bf16" in flags or "amx" in flags or not flags:
        pytest.skip("this CPU multiplies bf16 itself, or does not tell")
    began = time.process_time()
    skip = TorchAdapter().estimate(job("bf16", reference_step_s=0.9, protocol={"emulated_limit": "60 s"}))
    assert time.process_time() - began < 4 * (os.cpu_count() or 1)
    assert skip is not None
    assert "emulated on this CPU" in skip.reason
