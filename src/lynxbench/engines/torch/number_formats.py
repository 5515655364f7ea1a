"""A model at a stated precision: what is cast, what is quantised, what stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from lynxbench.engines.torch.device import set_float32_products
from lynxbench.engines.torch.linear import (
    FP8_MULTIPLE,
    INT_MM_MULTIPLE,
    PACKED_ROWS,
    Fp8Dynamic,
    Int8DynamicCpu,
    Int8DynamicCuda,
    Int8WeightOnly,
    choose_quantised_engine,
)
from lynxbench.model.precision import Precision

EIGHT_BIT = (Precision.INT8, Precision.INT8_WEIGHT_ONLY, Precision.FP8)
_DYNAMIC = "int8 weights (scale per channel) and activations (scale per token)"

Convert = Callable[[Any], Any]


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
    if precision is Precision.FP16:
        return torch.float16
    if precision is Precision.BF16:
        return torch.bfloat16
    if precision in EIGHT_BIT and device.type == "cuda":
        return torch.bfloat16  # what tensor cores pair with 8-bit inputs; fp32 would hide the gain
    return torch.float32


def prepare(model: Any, precision: Precision, device: torch.device) -> Prepared:
    """Quantise the model in place where the precision asks for it, and set the flags it runs under."""
    dtype = compute_dtype(precision, device)
    products = set_float32_products(device, precision)
    total = sum(parameter.numel() for parameter in model.parameters())
    if precision not in EIGHT_BIT:
        return Prepared(dtype, "none", "", products, 0, total)
    convert, fits, words, toolchain = _recipe(precision, device, dtype)
    done, left = _replace_linears(model, convert, fits)
    kept = f"; left as they were: {', '.join(left)}" if left else ""
    said = f"{words}; embeddings, norms and attention products in {str(dtype).removeprefix('torch.')}{kept}"
    return Prepared(dtype, said, toolchain, products, done, total)


def _recipe(
    precision: Precision, device: torch.device, dtype: torch.dtype
) -> tuple[Convert, Callable[[str, Any], bool], str, str]:
    if precision is Precision.INT8 and device.type == "cpu":
        engine = choose_quantised_engine()
        words = f"{_DYNAMIC} in all linear layers, output head included"
        return Int8DynamicCpu, _always, words, f"torch quantized::linear_dynamic, {engine}"
    if precision is Precision.INT8:
        words = f"{_DYNAMIC} in linear layers, output head included"
        return Int8DynamicCuda, _multiple_of(INT_MM_MULTIPLE), words, "torch._int_mm"
    if precision is Precision.FP8:
        words = "e4m3 weights and activations (scale per tensor) in linear layers except the output head"
        fits = _multiple_of(FP8_MULTIPLE)
        return (
            lambda linear: Fp8Dynamic(linear, dtype),
            lambda name, linear: "head" not in name and fits(name, linear),
            words,
            "torch._scaled_mm",
        )
    words = (
        "int8 weights (scale per channel) in all linear layers, output head included, multiplied in the wider format"
    )
    packed = f"torch._weight_int8pack_mm up to {PACKED_ROWS} rows, else dequantised"
    toolchain = packed if device.type == "cpu" else "dequantised per call"
    return lambda linear: Int8WeightOnly(linear, dtype), _always, words, toolchain


def _always(name: str, linear: Any) -> bool:
    return True


def _multiple_of(size: int) -> Callable[[str, Any], bool]:
    return lambda name, linear: linear.in_features % size == 0 and linear.out_features % size == 0


def _replace_linears(model: Any, convert: Convert, fits: Callable[[str, Any], bool]) -> tuple[int, list[str]]:
    done, left = 0, []
    for name, parent in list(model.named_modules()):
        for child_name, child in list(parent.named_children()):
            if type(child) is not nn.Linear:
                continue
            full = f"{name}.{child_name}" if name else child_name
            if not fits(full, child):
                left.append(child_name)
                continue
            setattr(parent, child_name, convert(child))
            done += child.weight.numel()
    return done, sorted(set(left))
