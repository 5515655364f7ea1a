"""Random numbers: whether an operator draws some, and where the generators stand that it draws from."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Any

import torch

from lynxbench.engines.torch.value_schema import OperatorSchema


def draws(schema: OperatorSchema, values: dict[int, Any]) -> bool:
    """Whether random numbers play a part: of an operator that may leave values out, where it does."""
    rates = [place for word, place in schema.places.items() if word in ("dropout", "dropout_p")]
    if rates:
        return any(values.get(place, 0.0) != 0 for place in rates)
    return schema.seeded


def generators(values: dict[int, Any]) -> Hashable:
    """Where the generators stand that an operator may draw from: the same numbers come from the same place."""
    given = [value for value in values.values() if isinstance(value, torch.Generator)]
    usual = [torch.default_generator]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        usual += torch.cuda.default_generators
    states = (generator.get_state() for generator in given or usual)
    return tuple(hashlib.sha256(bytes(torch._C.TensorBase.numpy(state))).digest() for state in states)
