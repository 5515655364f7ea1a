"""Kernel names as one H200 showed them (PyTorch 2.11, cuBLAS 13): what each says of its inputs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pytest
import torch

from lynxbench.engines.torch.profiling import (
    NAME_HOLDS,
    describe_kernels,
    matrix_kernels,
    own_times,
    share_of_time,
    with_operands,
)
from lynxbench.model.precision import Precision

SEEN: dict[Precision, str] = {
    Precision.FP32: "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x64x8_stage3_warpsize1x2x1_ffma_kernel__5x_cublas",
    Precision.TF32: "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_kernel__5x_cublas",
    Precision.FP16: "nvjet_sm90_hsh_64x8_64x16_4x2_h_bz_TNT",
    Precision.BF16: "nvjet_sm90_tst_64x16_64x16_2x1_v_bz_TNT",
    Precision.FP8: "nvjet_sm90_qqtst_64x8_128x16_4x2_h_bz_algo2_TNT",
    Precision.INT8: "void cutlass::Kernel2<cutlass_80_tensorop_i16832gemm_s8_64x64_128x6_tn_align16>(Params)",
}
MORE: list[tuple[Precision, str]] = [
    (Precision.FP32, "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>"),
    (Precision.FP32, "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_tn_align1>(Params)"),
    (Precision.TF32, "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_32x6_tn_align4>(Params)"),
    (Precision.BF16, "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize64x64x64__5x_cudnn"),
    (Precision.BF16, "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x64_64x3_nn_align2>(Params)"),
]
OPTIMISER = (
    "void at::native::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>"
)


@pytest.mark.parametrize(("precision", "name"), [*SEEN.items(), *MORE])
def test_a_name_tells_of_its_own_format(precision: Precision, name: str) -> None:
    assert share_of_time(precision, {name: 1.0}) == 1.0
    assert matrix_kernels({name: 1.0}) == {name: 1.0}


@pytest.mark.parametrize("precision", list(SEEN))
@pytest.mark.parametrize("other", list(SEEN))
def test_a_name_tells_of_no_other_format(precision: Precision, other: Precision) -> None:
    if precision is not other:
        assert share_of_time(precision, {SEEN[other]: 1.0}) == 0.0


def test_silence_is_not_an_answer() -> None:
    assert share_of_time(Precision.BF16, {}) is None
    assert share_of_time(Precision.BF16, {"triton_red_fused_add_3": 1.0}) is None
    assert share_of_time(Precision.BF16, {"my_gemm": 5.0, SEEN[Precision.BF16]: 1.0}) == 1.0


def test_an_optimiser_is_no_matrix_kernel() -> None:
    assert matrix_kernels({OPTIMISER: 2.0, SEEN[Precision.BF16]: 1.0}) == {SEEN[Precision.BF16]: 1.0}


def test_what_others_compute_in_is_said_by_time() -> None:
    """ViT-B/16 at fp16 on the H200: its attention fell back to plain operators, which compute in fp32."""
    seen = {
        "nvjet_sm90_hsh_192x192_64x4_2x1_v_bz_coopB_bias_TNN": 3235.0,
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x32x8_stage3_warpsize2x2x1_ffma_kernel__5x_cublas": 2271.0,
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_kernel__5x_cublas": 1603.0,
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_s16816fprop_optimized_f16_128x128_32x5_nhwc>": 380.0,
    }
    assert (
        describe_kernels(Precision.FP16, seen)
        == "2 of 4 matrix kernels seen, 48% of their time; 52% in kernels of fp32"
    )


def test_small_shares_and_silent_names_are_not_named() -> None:
    seen = {SEEN[Precision.TF32]: 97.0, SEEN[Precision.FP32]: 3.0}
    assert describe_kernels(Precision.TF32, seen) == "1 of 2 matrix kernels seen, 97% of their time"
    assert describe_kernels(Precision.FP16, seen) == "0 of 2 matrix kernels seen"
    assert describe_kernels(Precision.TF32, {SEEN[Precision.TF32]: 1.0, "my_gemm": 1.0}) == (
        "1 of 2 matrix kernels seen, 50% of their time"
    )


# --- planted fallbacks: the name that was asked for is not carried ---

WIDENED = "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(TensorIterator&)>"
COMPILED = "triton_red_fused__to_copy_mm_t_view_8"


@pytest.mark.parametrize("precision", list(SEEN))
@pytest.mark.parametrize("other", list(SEEN))
def test_a_few_kernels_of_the_format_do_not_carry_its_name(precision: Precision, other: Precision) -> None:
    """One product in a hundred was of the precision, and the rest fell back."""
    if precision is not other:
        share = share_of_time(precision, {SEEN[precision]: 1.0, SEEN[other]: 99.0})
        assert share == pytest.approx(0.01)
        assert share <= NAME_HOLDS


def test_half_of_the_time_is_not_enough() -> None:
    """ViT-B/16 at fp16, its attention in fp32: 48 % of the time is no native fp16."""
    fp32 = SEEN[Precision.FP32]
    share = share_of_time(Precision.FP16, {SEEN[Precision.FP16]: 48.0, fp32: 52.0})
    assert share is not None
    assert share < NAME_HOLDS


def test_weights_that_a_kernel_of_its_own_widens_are_not_read_narrow() -> None:
    fallen_back = matrix_kernels({SEEN[Precision.BF16]: 9.0, WIDENED: 20.0})
    assert share_of_time(Precision.INT8_WEIGHT_ONLY, fallen_back) == 0.0
    assert share_of_time(Precision.FP8_WEIGHT_ONLY, fallen_back) == 0.0
    assert share_of_time(Precision.INT4_WEIGHT_ONLY, fallen_back) == 0.0


@pytest.mark.parametrize(
    ("operands", "precision"),
    [
        (("*bf16", "*i8"), Precision.INT8_WEIGHT_ONLY),
        (("*bf16", "*fp32", "*fp8e4nv"), Precision.FP8_WEIGHT_ONLY),
        (("*bf16",), Precision.BF16),
        (("*bf16", "*fp32"), Precision.BF16),
        (("*fp16",), Precision.FP16),
        (("*fp32",), Precision.FP32),
    ],
)
def test_a_compiled_kernel_is_known_by_what_it_reads(operands: tuple[str, ...], precision: Precision) -> None:
    seen = matrix_kernels(with_operands({COMPILED: 7.0, "triton_poi_fused_add_1": 3.0}, {COMPILED: operands}))
    assert list(seen.values()) == [7.0]
    assert share_of_time(precision, seen) == 1.0
    narrow = {Precision.INT8_WEIGHT_ONLY, Precision.FP8_WEIGHT_ONLY, Precision.INT4_WEIGHT_ONLY} - {precision}
    assert all(share_of_time(other, seen) == 0.0 for other in narrow)


def test_four_bits_are_known_by_their_kernel() -> None:
    name = "void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::ALayout_RM<(at::native::KReductionType)0>>"
    assert share_of_time(Precision.INT4_WEIGHT_ONLY, matrix_kernels({name: 1.0})) == 1.0


# --- operators of a CPU, by the time that is their own ----------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """An event as the profiler's library hands it out."""

    called: str
    start: int
    took: int
    thread: int = 1

    def name(self) -> str:
        return self.called

    def start_ns(self) -> int:
        return self.start

    def duration_ns(self) -> int:
        return self.took

    def start_thread_id(self) -> int:
        return self.thread


def test_the_time_of_an_operator_is_without_that_of_those_it_calls() -> None:
    spans = [
        Span("aten::linear", 0, 10_000),
        Span("aten::t", 500, 500),
        Span("aten::addmm", 1_000, 8_000),
        Span("aten::linear", 10_000, 3_000),
        Span("aten::addmm", 10_000, 3_000),
        Span("aten::mm", 2_000, 4_000, thread=2),
    ]
    found = own_times(spans)
    assert found == {"aten::addmm": 11.0, "aten::mm": 4.0, "aten::linear": 1.5, "aten::t": 0.5}
    assert list(found) == ["aten::addmm", "aten::mm", "aten::linear", "aten::t"], "longest first"


def test_own_times_are_those_of_the_profilers_own_averages() -> None:
    layer = torch.nn.TransformerEncoderLayer(32, 2, batch_first=True).eval()
    x = torch.randn(2, 8, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler, torch.no_grad():
            layer(x)
            torch.relu(x @ x.transpose(1, 2)).sum()
        averages = {event.key: event.self_cpu_time_total for event in profiler.key_averages()}
    found = own_times(profiler.profiler.kineto_results.events())
    assert set(found) >= {name for name in averages if name.startswith("aten::")}
    for name, us in averages.items():
        assert found[name] == pytest.approx(us, abs=0.01)
    assert "aten::bmm" in found
