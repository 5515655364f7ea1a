"""Linear layers in eight bits: how each precision stores weights, scales activations and multiplies."""

import platform
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from lynxbench.errors import CannotRun

INT8_STEPS = 127
"""Symmetric: -127..127, so that a weight and its negation have the same size."""
FP8_LARGEST = 448.0
"""Largest finite e4m3 value (OCP 8-bit floating point, 2023)."""
INT_MM_ROWS = 32
"""torch._int_mm on CUDA wants more than 16 rows; fewer are padded."""
PACKED_ROWS = 8
"""Up to so many rows torch._weight_int8pack_mm beats dequantising the weight first (docs/methodology/precision.md)."""
SMALLEST = 1e-12
"""A row of zeros has no scale; this one keeps the division finite."""

QUANTISED_ENGINES = {
    "aarch64": ("onednn", "qnnpack"),
    "arm64": ("onednn", "qnnpack"),
    "x86_64": ("x86", "onednn", "fbgemm"),
}
"""Best first: measured on aarch64 (docs/methodology/precision.md), torch's own order on x86."""


def choose_quantised_engine() -> str:
    """Set torch's quantised kernel library to the best one this build has and return its name."""
    supported = torch.backends.quantized.supported_engines
    for name in QUANTISED_ENGINES.get(platform.machine(), ("onednn", "x86", "fbgemm", "qnnpack")):
        if name in supported:
            torch.backends.quantized.engine = name
            return name
    raise CannotRun(f"int8: this torch has no quantised kernels for {platform.machine()} (built with: {supported})")


def reduces_range() -> bool:
    """Whether activations get seven bits: without VNNI the x86 kernels add pairs in 16 bits and saturate."""
    return torch.backends.quantized.engine in ("x86", "fbgemm") and not torch.cpu._is_vnni_supported()


def name_quantised_engine() -> str:
    """PyTorch's library of quantised kernels, and what it cannot do on this machine."""
    engine = str(torch.backends.quantized.engine)
    return f"{engine}, 7-bit activations (no VNNI)" if reduces_range() else engine


def quantise_rows(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight as int8 with one scale per output channel."""
    scale = (weight.abs().amax(dim=1) / INT8_STEPS).clamp_min(SMALLEST)
    return (weight / scale[:, None]).round_().clamp_(-INT8_STEPS, INT8_STEPS).to(torch.int8), scale


def _largest_per_row(x: torch.Tensor) -> torch.Tensor:
    return x.abs().amax(dim=-1, keepdim=True).clamp_min_(SMALLEST)


class QuantisedLinear(nn.Module):  # type: ignore[misc]
    """A linear layer with its weight in eight bits: made of a plain one, for activations of a dtype."""

    def __init__(self, source: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.bias, self.dtype = source.bias, dtype

    def bare(self, x: torch.Tensor) -> Callable[[], object]:
        """The product alone, on inputs of that size in its own format: what its ceiling is measured with."""
        return lambda: self(x)


class Int8DynamicCpu(QuantisedLinear):
    """8-bit weights and activations through torch's quantised CPU kernels.

    The kernels know one scale for the whole weight and one for all activations, which raised SmolLM2's perplexity
    from 30.9 to 57. Weights are therefore scaled by channel, and every row is shifted and scaled to the range from
    nought to one, whose 256 steps the kernel then uses whole: a scale and an offset per token (31.5; with a scale alone
    it was 32.5, both on one x86 CPU).
    """

    def __init__(self, source: Any, dtype: torch.dtype) -> None:
        super().__init__(source, dtype)
        weight = source.weight.detach().float()
        scale = weight.abs().amax(dim=1).clamp_min(SMALLEST)
        self.register_buffer("scale", scale)
        self.bias = None if source.bias is None else nn.Parameter(source.bias.detach().float(), requires_grad=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch announces the end of quantised tensors, not of these kernels
            stored = torch.quantize_per_tensor(weight / scale[:, None], 1 / INT8_STEPS, 0, torch.qint8)
            self.packed = torch.ops.quantized.linear_prepack(stored, None)
            self.register_buffer("sums", torch.dequantize(stored).sum(dim=1))
        self.in_features, self.out_features = source.in_features, source.out_features
        self.reduce_range = reduces_range()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x · Wᵀ + b."""
        x = x.float()
        if x.shape.numel() == x.shape[-1]:  # one row: its own scale is what the kernel finds anyway
            y = torch.ops.quantized.linear_dynamic(x, self.packed, self.reduce_range)
            y *= self.scale
        else:
            least = x.amin(dim=-1, keepdim=True)
            width = (x.amax(dim=-1, keepdim=True) - least).clamp_min(SMALLEST)
            y = torch.ops.quantized.linear_dynamic((x - least) / width, self.packed, self.reduce_range)
            y *= width
            y += least * self.sums  # what was taken off every value of a row, times the weights of each channel
            y *= self.scale
        return y if self.bias is None else y + self.bias

    def bare(self, x: torch.Tensor) -> Callable[[], object]:
        """The kernel scales the inputs itself."""
        return lambda: torch.ops.quantized.linear_dynamic(x, self.packed, self.reduce_range)


class Int8DynamicCuda(QuantisedLinear):
    """8-bit weights (scale per channel) and activations (scale per token) on the integer tensor cores."""

    def __init__(self, source: Any, dtype: torch.dtype) -> None:
        super().__init__(source, dtype)
        stored, scale = quantise_rows(source.weight.detach().float())
        self.register_buffer("stored", stored)
        self.register_buffer("scale", scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x · Wᵀ + b."""
        rows = x.reshape(-1, x.shape[-1])
        largest = _largest_per_row(rows.float())
        quantised = (rows * (INT8_STEPS / largest)).round_().to(torch.int8)
        missing = max(INT_MM_ROWS - quantised.shape[0], 0)
        if missing:
            quantised = nn.functional.pad(quantised, (0, 0, 0, missing))
        product = torch._int_mm(quantised, self.stored.t())[: rows.shape[0]]
        y = (product * (largest / INT8_STEPS) * self.scale).to(x.dtype)
        y = y.reshape(*x.shape[:-1], -1)
        return y if self.bias is None else y + self.bias

    def bare(self, x: torch.Tensor) -> Callable[[], object]:
        """Inputs that are integers already."""
        quantised = torch.randint(-INT8_STEPS, INT8_STEPS + 1, x.shape, device=x.device, dtype=torch.int8)
        return lambda: torch._int_mm(quantised, self.stored.t())


class Int8WeightOnly(QuantisedLinear):
    """8-bit weights with a scale per channel; products in the activations' own format."""

    def __init__(self, source: Any, dtype: torch.dtype) -> None:
        super().__init__(source, dtype)
        stored, scale = quantise_rows(source.weight.detach().float())
        self.register_buffer("stored", stored)
        self.register_buffer("scale", scale.to(dtype))
        self.packs = source.weight.device.type == "cpu" and hasattr(torch, "_weight_int8pack_mm")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x · Wᵀ + b."""
        rows = x.reshape(-1, x.shape[-1])
        if self.packs and rows.shape[0] <= PACKED_ROWS:
            y = torch._weight_int8pack_mm(rows, self.stored, self.scale)
        else:
            y = rows @ self.stored.to(x.dtype).t()
            y *= self.scale
        y = y.reshape(*x.shape[:-1], -1)
        return y if self.bias is None else y + self.bias


class Fp8Dynamic(QuantisedLinear):
    """e4m3 weights and activations, one scale each per tensor, on the 8-bit floating-point tensor cores."""

    def __init__(self, source: Any, dtype: torch.dtype) -> None:
        super().__init__(source, dtype)
        weight = source.weight.detach().float()
        scale = (weight.abs().amax() / FP8_LARGEST).clamp_min(SMALLEST)
        self.register_buffer("stored", (weight / scale).to(torch.float8_e4m3fn))
        self.register_buffer("scale", scale)
        self.bias = None if source.bias is None else nn.Parameter(source.bias.detach().to(dtype), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x · Wᵀ + b."""
        rows = x.reshape(-1, x.shape[-1])
        scale = (rows.abs().amax().float() / FP8_LARGEST).clamp_min(SMALLEST)
        quantised = (rows / scale).clamp(-FP8_LARGEST, FP8_LARGEST).to(torch.float8_e4m3fn)
        y = torch._scaled_mm(
            quantised, self.stored.t(), scale_a=scale, scale_b=self.scale, bias=self.bias, out_dtype=self.dtype
        )
        return y.reshape(*x.shape[:-1], -1)

    def bare(self, x: torch.Tensor) -> Callable[[], object]:
        """Inputs that are e4m3 already, at a scale of one."""
        quantised, weight = x.to(torch.float8_e4m3fn), self.stored.t()
        unit = torch.ones((), device=x.device)
        return lambda: torch._scaled_mm(quantised, weight, scale_a=unit, scale_b=self.scale, out_dtype=self.dtype)
