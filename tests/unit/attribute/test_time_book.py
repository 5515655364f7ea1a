from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.roofline import Ceilings
from lynxbench.attribute.judge.time_book import TimeBook, keep_book
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.read.operator_names import OperatorKind, is_skinny, kernel_kind
from lynxbench.attribute.tile.tiling import tile_trace
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]
DATA = Path(__file__).parents[2] / "data" / "traces"
TRUTH = json.loads((DATA / "truth.json").read_text())
CEILINGS = (
    *(
        Ceiling(name="matmul", precision=Precision(name), per_s=rate, unit="operations/s", how="8192³ product")
        for name, rate in TRUTH["ceilings"]["matmul_per_s"].items()
    ),
    Ceiling(name="copy", precision=None, per_s=TRUTH["ceilings"]["copy_bytes_per_s"], unit="bytes/s", how="4 GiB copy"),
)
CASES = {case["case"]: case for case in TRUTH["cases"]}


def book_of(path: Path, ceilings: tuple[Ceiling, ...] = ()) -> TimeBook:
    return keep_book(tile_trace(read_trace(path)), Ceilings(ceilings, Precision.BF16 if ceilings else Precision.FP32))


def attribute(case: dict[str, Any], step_ms: float | None) -> Attribution:
    return attribute_trace(
        DATA / f"{case['case']}.json.gz",
        ceilings=CEILINGS,
        precision=Precision.FP32 if case["case"].startswith("fp32") else Precision.BF16,
        unprofiled_step_ms=step_ms,
        owner=DEFAULT_OWNERS.__getitem__,
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("known", [True, False], ids=["step-known", "step-unknown"])
def test_labelled_traces_of_a_real_gpu(name: str, known: bool) -> None:
    case = CASES[name]
    said = attribute(case, case["step_ms"] if known else None)
    assert said.bottleneck in case.get("accepted", [case["bottleneck"]]), said.sentence
    assert sum(said.shares.values()) == pytest.approx(1.0)
    assert said.evidence[-1].startswith("attributed on NVIDIA H200")
    if case["speedup"] is not None:
        # Never more than twice what the fix measured.
        assert said.gain_if_removed.estimate <= 2.0 * case["speedup"]


def test_predicted_gains_are_near_the_measured_ones() -> None:
    ratios = {}
    for name, case in CASES.items():
        if case["speedup"] is not None:
            ratios[name] = attribute(case, case["step_ms"]).gain_if_removed.estimate / case["speedup"]
    near = [name for name, ratio in ratios.items() if 1 / 1.5 <= ratio <= 1.5]
    assert len(near) >= 0.8 * len(ratios), ratios


def test_the_time_of_the_device_is_conserved() -> None:
    for name in CASES:
        book = book_of(DATA / f"{name}.json.gz", CEILINGS)
        assert np.array_equal(book.spent_ns.sum(axis=1), book.wall_ns)
        assert (book.spent_ns >= 0).all()


def test_a_damaged_gpu_trace_gets_no_verdict(tmp_path: Path) -> None:
    data = (DATA / "pageable_h2d.json.gz").read_bytes()
    path = tmp_path / "cut.json.gz"
    path.write_bytes(data[: len(data) * 3 // 4])
    said = attribute_trace(
        path,
        ceilings=CEILINGS,
        precision=Precision.BF16,
        unprofiled_step_ms=29.9,
        owner=DEFAULT_OWNERS.__getitem__,
    )
    assert (said.bound, said.owner, said.weak) == (Bound.UNDETERMINED, None, True)


def launched(
    make_event: Make, at_us: float, start_us: float, dur_us: float, number: int, name: str = "k"
) -> list[dict[str, Any]]:
    """A launch call on the host, and the kernel it starts on the device."""
    return [
        make_event("cudaLaunchKernel", at_us, 4.0, cat="cuda_runtime", correlation=number),
        make_event(name, start_us, dur_us, cat="kernel", tid=7, stream=7, correlation=number),
    ]


def shares(path: Path) -> dict[Category, int]:
    book = book_of(path)
    return {category: int(book.of(category).sum()) for category in Category if book.of(category).any()}


def test_windows_follow_the_device_not_the_host_range(write_trace: Write, make_event: Make) -> None:
    events = []
    for i in range(4):
        events.append(make_event(f"step#{i}", 100.0 * i, 20.0, cat="user_annotation"))
        events += launched(make_event, 100.0 * i + 2, 100.0 * i + 10, 90.0, i)
    book = book_of(write_trace(events))
    assert book.wall_ns.tolist() == [100_000] * len(book)
    assert book.of(Category.MEMORY_BANDWIDTH).tolist() == [90_000] * len(book)


def test_idle_time_goes_to_what_the_host_does_meanwhile(write_trace: Write, make_event: Make) -> None:
    events = []
    for i in range(4):
        at = 100_000.0 * i
        events.append(make_event(f"step#{i}", at, 99_000.0, cat="user_annotation"))
        events.append(make_event("prepare_input", at, 30_000.0, cat="user_annotation"))
        events += launched(make_event, at + 30_010, at + 30_020, 9_980.0, 10 * i)
        events.append(make_event("cudaMalloc", at + 40_000, 10_000.0, cat="cuda_runtime"))
        events += launched(make_event, at + 50_000, at + 50_010, 9_990.0, 10 * i + 1)
        events.append(make_event("aten::item", at + 60_000, 5_000.0))
        events += launched(make_event, at + 65_000, at + 65_010, 34_990.0, 10 * i + 2)
    spent = shares(write_trace(events))
    steps = 2
    assert spent[Category.INPUT] == steps * 30_000_000
    assert spent[Category.ALLOCATOR] == steps * 10_000_000
    assert spent[Category.SYNCHRONIZATION] == steps * 5_000_000
    assert spent[Category.MEMORY_BANDWIDTH] == steps * (9_980_000 + 9_990_000 + 34_990_000)


def test_a_silent_wait_before_the_first_kernel_is_input(write_trace: Write, make_event: Make) -> None:
    events = []
    for i in range(4):
        events.append(make_event(f"step#{i}", 50_000.0 * i, 49_000.0, cat="user_annotation"))
        events += launched(make_event, 50_000.0 * i + 30_000, 50_000.0 * i + 30_010, 15_000.0, i)
    spent = shares(write_trace(events))
    assert spent[Category.INPUT] > spent[Category.MEMORY_BANDWIDTH]


def test_exposed_communication_only_counts_where_no_kernel_runs(write_trace: Write, make_event: Make) -> None:
    events = []
    for i in range(4):
        at = 100.0 * i
        events.append(make_event(f"step#{i}", at, 99.0, cat="user_annotation"))
        events += launched(make_event, at + 1, at + 10, 40.0, 10 * i)
        talk = make_event(
            "ncclDevKernel_AllReduce_Sum", at + 30, 70.0, cat="kernel", tid=20, stream=20, correlation=10 * i + 1
        )
        events += [make_event("cudaLaunchKernel", at + 6, 2.0, cat="cuda_runtime", correlation=10 * i + 1), talk]
    spent = shares(write_trace(events))
    assert spent[Category.COMMUNICATION] == 2 * 50_000
    assert spent[Category.MEMORY_BANDWIDTH] == 2 * 40_000


def test_duplicate_and_unknown_correlations_do_no_harm(write_trace: Write, make_event: Make) -> None:
    events = []
    for i in range(4):
        events.append(make_event(f"step#{i}", 100.0 * i, 99.0, cat="user_annotation"))
        events += launched(make_event, 100.0 * i + 1, 100.0 * i + 10, 40.0, 5)
        events.append(make_event("orphan", 100.0 * i + 60, 20.0, cat="kernel", tid=7, correlation=999))
    book = book_of(write_trace(events))
    assert np.array_equal(book.spent_ns.sum(axis=1), book.wall_ns)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT", OperatorKind.PRODUCT),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)", OperatorKind.COMMUNICATION),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits>(int)", OperatorKind.PRODUCT),
        ("void at::native::vectorized_elementwise_kernel<4>(int, float)", OperatorKind.ELEMENTWISE),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8>(float*)", OperatorKind.NORMALISATION),
        ("triton_poi_fused_gelu_0", OperatorKind.ELEMENTWISE),
        ("void at::native::reduce_kernel<512, 1>(int)", OperatorKind.REDUCTION),
    ],
)
def test_kernels_by_name(name: str, kind: OperatorKind) -> None:
    assert kernel_kind(name) is kind


def test_skinny_products() -> None:
    assert is_skinny("nvjet_sm90_tst_64x8_64x16_1x4_v_bz_TNT")
    assert is_skinny("void gemv2T_kernel_val<int, int>")
    assert not is_skinny("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT")
