"""Kernel names as one H200 showed them (PyTorch 2.11, cuBLAS 13): what each says of its inputs."""

from __future__ import annotations

import pytest

from lynxbench.engines.torch.profiling import describe_kernels, matrix_kernels, names_say
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
    assert names_say(precision, (name,)) is True
    assert matrix_kernels({name: 1.0}) == {name: 1.0}


@pytest.mark.parametrize("precision", list(SEEN))
@pytest.mark.parametrize("other", list(SEEN))
def test_a_name_tells_of_no_other_format(precision: Precision, other: Precision) -> None:
    if precision is not other:
        assert names_say(precision, (SEEN[other],)) is False


def test_silence_is_not_an_answer() -> None:
    assert names_say(Precision.BF16, ()) is None
    assert names_say(Precision.BF16, ("triton_red_fused_add_3",)) is None
    assert names_say(Precision.INT8_WEIGHT_ONLY, (SEEN[Precision.BF16],)) is None


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
