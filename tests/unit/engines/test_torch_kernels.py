"""Kernel names as one H200 showed them (PyTorch 2.11, cuBLAS 13): what each says of its inputs."""

from __future__ import annotations

import pytest

from lynxbench.engines.torch.profiling import count_telling, matrix_kernels, names_say
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
    assert matrix_kernels((name,)) == (name,)


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
    assert matrix_kernels((OPTIMISER, SEEN[Precision.BF16])) == (SEEN[Precision.BF16],)


def test_telling_kernels_are_counted() -> None:
    assert count_telling(Precision.TF32, (SEEN[Precision.TF32], SEEN[Precision.FP32])) == 1
