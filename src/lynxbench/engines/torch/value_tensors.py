"""Tensors as they are met in a step: those of an argument, where they lie, and how."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import torch

storage_of = torch._C.TensorBase.untyped_storage  # not the one on `Tensor`, whose callers are watched


def whole_of(tensor: torch.Tensor) -> bool:
    """Whether a tensor covers its memory."""
    taken: int = tensor.numel() * tensor.element_size()
    return taken == int(storage_of(tensor).nbytes()) and tensor.is_contiguous()


def geometry_of(tensor: torch.Tensor) -> Hashable:
    """How it lies in its memory."""
    sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
    return tensor.dtype, sizes, strides, tensor.storage_offset(), tensor.is_conj(), tensor.is_neg()


def tensors_in(arguments: Any) -> Iterator[torch.Tensor]:
    """Of an argument or a result: itself, or those of a list."""
    if isinstance(arguments, torch.Tensor):
        yield arguments
    elif isinstance(arguments, (list, tuple)):
        for one in arguments:
            yield from tensors_in(one)
