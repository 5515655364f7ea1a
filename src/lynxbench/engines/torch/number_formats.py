"""What the engine knows of a precision, in one table: what it computes in, what it needs, how it is quantised.

A new precision is an entry of FORMATS and, where weights are stored in another way, a layer in linear.py.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from lynxbench.engines.torch.device import capability, set_float32_products
from lynxbench.engines.torch.linear import (
    PACKED_ROWS,
    Fp8Dynamic,
    Int8DynamicCpu,
    Int8DynamicCuda,
    Int8WeightOnly,
    QuantisedLinear,
    choose_quantised_engine,
)
from lynxbench.errors import CannotRun
from lynxbench.model.precision import Precision


@dataclass(frozen=True, slots=True)
class Recipe:
    """How linear layers are quantised on one kind of device; `{engine}` is torch's library of quantised kernels."""

    layer: Callable[[Any, torch.dtype], QuantisedLinear]
    words: str
    toolchain: str
    product: str
    """What multiplies, as a ceiling names it."""
    multiple: int = 1
    """Inner and outer sizes that its kernel accepts."""
    head: bool = True
    """Whether the output head is quantised too."""

    def accepts(self, name: str, linear: Any) -> bool:
        """Whether a layer of that name and size can be replaced."""
        fits = linear.in_features % self.multiple == 0 and linear.out_features % self.multiple == 0
        return fits and (self.head or "head" not in name)


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """One precision."""

    dtype: torch.dtype = torch.float32
    """Of activations, and of whatever is not quantised."""
    capability: tuple[int, int] | None = None
    """First compute capability with such tensor-core inputs (CUDA programming guide, arithmetic instructions)."""
    kernels: str | None = None
    """What names of matrix kernels say of such inputs (cuBLAS, CUTLASS; nvjet: t for bf16, h fp16, q e4m3, s fp32)."""
    quantised: Mapping[str, Recipe] = field(default_factory=dict)
    """By kind of device, where linear layers are stored in eight bits."""

    def names(self, kernel: str) -> bool:
        """Whether a matrix kernel's name tells of such inputs."""
        return self.kernels is not None and re.search(self.kernels, kernel, re.IGNORECASE) is not None


_JET = r"nvjet_(?:sm\d+_)?"
_DYNAMIC = "int8 weights (scale per channel) and activations (scale per token)"
_WEIGHT_ONLY = (
    "int8 weights (scale per channel) in all linear layers, output head included, multiplied in the wider format"
)
_DEQUANTISED = "linear on int8 weights, dequantised"
FORMATS: dict[Precision, NumberFormat] = {
    Precision.FP32: NumberFormat(kernels=rf"sgemm|f32f32_f32f32|gemv.*float|simt|{_JET}sss"),
    Precision.TF32: NumberFormat(capability=(8, 0), kernels=rf"tf32|s1688gemm|{_JET}ss[^s]"),
    Precision.FP16: NumberFormat(
        torch.float16, (7, 0), rf"[^b]f16f16|h16(?:88|816)|hgemm|__half|[^b]fp16|(?:gemm|tensorop)_f16|{_JET}h"
    ),
    Precision.BF16: NumberFormat(torch.bfloat16, (8, 0), rf"bf16|bfloat16|{_JET}t"),
    Precision.FP8: NumberFormat(
        capability=(8, 9),
        kernels=rf"e4m3|qmma|f8f8|fp8|float8|{_JET}q",
        quantised={
            "cuda": Recipe(
                Fp8Dynamic,
                "e4m3 weights and activations (scale per tensor) in linear layers except the output head",
                toolchain="torch._scaled_mm",
                product="torch._scaled_mm e4m3",
                multiple=16,
                head=False,
            )
        },
    ),
    Precision.INT8: NumberFormat(
        capability=(7, 5),
        kernels=r"i8i8|imma|s8s8|int8|i16832|i8816|gemm_s8",
        quantised={
            "cpu": Recipe(
                Int8DynamicCpu,
                f"{_DYNAMIC} in all linear layers, output head included",
                toolchain="torch quantized::linear_dynamic, {engine}",
                product="quantized::linear_dynamic ({engine})",
            ),
            "cuda": Recipe(
                Int8DynamicCuda,
                f"{_DYNAMIC} in linear layers, output head included",
                toolchain="torch._int_mm",
                product="torch._int_mm",
                multiple=8,
            ),
        },
    ),
    Precision.INT8_WEIGHT_ONLY: NumberFormat(
        quantised={
            "cpu": Recipe(
                Int8WeightOnly,
                _WEIGHT_ONLY,
                toolchain=f"torch._weight_int8pack_mm up to {PACKED_ROWS} rows, else dequantised",
                product=_DEQUANTISED,
            ),
            "cuda": Recipe(Int8WeightOnly, _WEIGHT_ONLY, toolchain="dequantised per call", product=_DEQUANTISED),
        }
    ),
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was done to the model, in words and in numbers."""

    compute_dtype: torch.dtype
    quantisation: str
    toolchain: str
    float32_products: str
    quantised_parameters: int
    total_parameters: int


def compute_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """The format of activations, and of whatever is not quantised."""
    if FORMATS[precision].quantised and device.type == "cuda":
        return torch.bfloat16  # what tensor cores pair with 8-bit inputs; fp32 would hide the gain
    return FORMATS[precision].dtype


def recipe_for(precision: Precision, device: torch.device) -> Recipe | None:
    """How linear layers are quantised on the device; None for precisions that are no matter of storage."""
    recipes = FORMATS[precision].quantised
    if recipes and device.type not in recipes:
        raise CannotRun(f"{precision} has no kernels for {device.type} here (only for {', '.join(recipes)})")
    recipe = recipes.get(device.type)
    if recipe is not None and recipe.layer is Int8DynamicCpu:
        choose_quantised_engine()
    return recipe


def supports(device: torch.device, precision: Precision) -> bool | None:
    """Whether the device's matrix units take such inputs; None where that is not a matter of the capability."""
    needed = FORMATS[precision].capability
    return None if device.type != "cuda" or needed is None else capability(device) >= needed


def prepare(model: Any, precision: Precision, device: torch.device) -> Prepared:
    """Quantise the model in place where the precision asks for it, and set the flags it runs under."""
    dtype = compute_dtype(precision, device)
    products = set_float32_products(device, precision)
    total = sum(parameter.numel() for parameter in model.parameters())
    recipe = recipe_for(precision, device)
    if recipe is None:
        return Prepared(dtype, "none", "", products, 0, total)
    quantised, left = _replace_linears(model, recipe, dtype)
    others = f"embeddings, norms and attention products in {str(dtype).removeprefix('torch.')}"
    words = f"{recipe.words}; {others}" + (f"; left as they were: {', '.join(left)}" if left else "")
    toolchain = recipe.toolchain.format(engine=torch.backends.quantized.engine)
    return Prepared(dtype, words, toolchain, products, quantised, total)


def _replace_linears(model: Any, recipe: Recipe, dtype: torch.dtype) -> tuple[int, list[str]]:
    """How many parameters are quantised now, and the layers that were left as they were."""
    quantised, left = 0, set()
    for name, parent in list(model.named_modules()):
        for child_name, child in list(parent.named_children()):
            if type(child) is not nn.Linear:
                continue
            if recipe.accepts(f"{name}.{child_name}", child):
                setattr(parent, child_name, recipe.layer(child, dtype))
                quantised += child.weight.numel()
            else:
                left.add(child_name)
    return quantised, sorted(left)
