"""Random weights that depend on the seed and the parameter's place alone, at any precision, and are never zero."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

LINEAR_STD = 0.02
"""What transformers draws linear layers and embeddings with (initializer_range)."""


@contextlib.contextmanager
def parameters_without_storage() -> Iterator[None]:
    """Inside, new modules get buffers but no memory for parameters: these are drawn once, at their own precision."""
    register = nn.Module.register_parameter

    def register_on_meta(module: Any, name: str, parameter: Any) -> None:
        if parameter is not None and parameter.device.type != "meta":
            parameter = nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    nn.Module.register_parameter = register_on_meta
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def fill_with_seed(model: Any, *, seed: int, device: torch.device, dtype: torch.dtype) -> None:
    """Draw every parameter in fp32 on the device and round it to the dtype, so that precisions share their weights."""
    generator = torch.Generator(device=device)
    drawn: set[str] = set()
    for place, (name, parameter) in enumerate(list(model.named_parameters())):
        generator.manual_seed((seed << 20) + place)
        values = torch.randn(parameter.shape, generator=generator, device=device, dtype=torch.float32)
        values *= _spread(name, parameter.shape)
        if parameter.dim() == 1 and name.endswith("weight"):
            values += 1.0  # the scale of a norm
        _put(model, name, nn.Parameter(values.to(dtype), requires_grad=parameter.requires_grad))
        drawn.add(name)
    for name, buffer in list(model.named_buffers()):
        moved = buffer.to(device)
        floating = buffer.is_floating_point() and "inv_freq" not in name  # rotary frequencies stay in fp32
        owner, _, last = name.rpartition(".")
        model.get_submodule(owner)._buffers[last] = moved.to(dtype) if floating else moved
    model.tie_weights()
    missing = [name for name, parameter in model.named_parameters() if parameter.device.type == "meta"]
    assert not missing, f"parameters without values: {missing}"


def _spread(name: str, shape: tuple[int, ...]) -> float:
    if len(shape) == 4:  # convolutions: variance kept through rectifiers (He et al. 2015)
        return math.sqrt(2.0 / math.prod(shape[1:]))
    return LINEAR_STD


def _put(model: Any, name: str, parameter: Any) -> None:
    owner, _, last = name.rpartition(".")
    model.get_submodule(owner)._parameters[last] = parameter
