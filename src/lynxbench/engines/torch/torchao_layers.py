"""Linear layers that torchao stores and multiplies: what each precision asks of it. Imported where it is installed.

int8 with dynamic activations is not among them: outside a compiler torchao copies the weight in every call, and where
its integer product refuses a shape it goes on in fp32 without a word. `linear.Int8DynamicCuda` does neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from lynxbench.engines.torch.linear import FP8_LARGEST, SMALLEST, QuantisedLinear
from lynxbench.errors import CannotRun

GROUP = 128
"""Weights that share a scale in four bits: torchao's default, and that of most published checkpoints."""
FEW_ROWS = 16
"""Up to so many rows, kernels with tiles of 8 rows (one scale) beat those with tiles of 128 (a scale per row)."""


def torchao_version() -> str | None:
    """The installed version; None where there is none."""
    try:
        return metadata.version("torchao")
    except metadata.PackageNotFoundError:
        return None


def has_one_row_kernel() -> bool:
    """Whether a single row goes through the kernel of one_row.py on a CUDA device."""
    return find_spec("triton") is not None


class TorchaoLinear(QuantisedLinear, ABC):
    """A linear layer whose weight torchao holds."""

    def __init__(self, source: Any, dtype: torch.dtype) -> None:
        super().__init__(source, dtype)
        from torchao import quantization

        plain = nn.Linear(source.in_features, source.out_features, bias=False, device="meta")
        plain.weight = nn.Parameter(source.weight.detach().to(dtype), requires_grad=False)
        quantization.quantize_(plain, self.config(quantization), filter_fn=lambda *_: True)
        if type(plain.weight.data) is torch.Tensor:  # it leaves what it cannot store as it was, without a word
            shape = f"{source.out_features}×{source.in_features}"
            left = f"torchao left a weight of {shape} in {dtype}"
            raise CannotRun(f"{type(self).__name__}: {left}; use another precision")
        self.weight = plain.weight
        self.bias = None if source.bias is None else nn.Parameter(source.bias.detach().to(dtype), requires_grad=False)

    @abstractmethod
    def config(self, quantization: Any) -> Any:
        """What torchao is asked for; its changes of the compiler's settings are never wanted."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x · Wᵀ + b."""
        y: torch.Tensor = nn.functional.linear(x, self.weight, self.bias)
        return y


class TorchaoRowScaled(TorchaoLinear):
    """Eight-bit weights, a scale per output channel; a single row has a kernel of its own."""

    def __init__(self, source: Any, dtype: torch.dtype) -> None:
        super().__init__(source, dtype)
        self.register_buffer("stored", self.weight.qdata)
        self.register_buffer("scales", self.weight.scale.reshape(-1))
        self.has_kernel = source.weight.is_cuda and has_one_row_kernel()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x · Wᵀ + b."""
        if not self.has_kernel or x.shape.numel() != x.shape[-1]:
            return super().forward(x)
        from lynxbench.engines.torch.one_row import multiply_one_row

        y: torch.Tensor = multiply_one_row(x.reshape(1, -1), self.stored, self.scales)
        y = y.reshape(*x.shape[:-1], -1)
        return y if self.bias is None else y + self.bias


class TorchaoInt8Weights(TorchaoRowScaled):
    """int8 weights, a scale per output channel."""

    def config(self, quantization: Any) -> Any:
        """By row."""
        return quantization.Int8WeightOnlyConfig(version=2, set_inductor_config=False)


class TorchaoFp8Weights(TorchaoRowScaled):
    """e4m3 weights, a scale per output channel."""

    def config(self, quantization: Any) -> Any:
        """By row."""
        return quantization.Float8WeightOnlyConfig(set_inductor_config=False)


class TorchaoInt4Weights(TorchaoLinear):
    """Four-bit weights, a scale and a zero point per group, in the layout of PyTorch's own four-bit kernel."""

    def config(self, quantization: Any) -> Any:
        """By group."""
        return quantization.Int4WeightOnlyConfig(
            group_size=GROUP, int4_packing_format="tile_packed_to_4d", set_inductor_config=False
        )


class TorchaoFp8Dynamic(TorchaoLinear):
    """e4m3 weights, a scale per output channel, and e4m3 activations, a scale per token.

    The kernel that scales rows itself works on tiles of many rows, however few there are (on an H200,
    nvjet_sm90_qqtst_128x128). Few rows go through the kernel with one scale, which is one here, and are scaled around
    it.
    """

    def __init__(self, source: Any, dtype: torch.dtype) -> None:
        super().__init__(source, dtype)
        self.register_buffer("stored", self.weight.qdata)
        self.register_buffer("scales", self.weight.scale.reshape(1, -1).float())
        self.register_buffer("one", torch.ones((), device=source.weight.device))

    def config(self, quantization: Any) -> Any:
        """By row on both sides."""
        return quantization.Float8DynamicActivationFloat8WeightConfig(
            granularity=quantization.PerRow(), set_inductor_config=False
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x · Wᵀ + b."""
        rows = x.reshape(-1, x.shape[-1])
        if rows.shape[0] > FEW_ROWS:
            return super().forward(x)
        scale = (rows.abs().amax(dim=-1, keepdim=True).float() / FP8_LARGEST).clamp_min(SMALLEST)
        narrow = (rows / scale).clamp(-FP8_LARGEST, FP8_LARGEST).to(torch.float8_e4m3fn)
        product = torch._scaled_mm(
            narrow, self.stored.t(), scale_a=self.one, scale_b=self.one, out_dtype=self.dtype, use_fast_accum=True
        )
        y = (product * scale * self.scales).to(x.dtype).reshape(*x.shape[:-1], -1)
        return y if self.bias is None else y + self.bias
