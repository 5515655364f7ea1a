"""What an engine says about itself, as fields of the layers it names."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from lynxbench.errors import BadInput
from lynxbench.executor.environment import value_is_credential
from lynxbench.executor.host import exact_json
from lynxbench.model.executor import Field, measured, unreadable
from lynxbench.model.layers import Layer

LAYER_NAMES: tuple[str, ...] = tuple(layer.value for layer in Layer)


def fields_from_facts(facts: Mapping[str, JsonValue], source: str) -> dict[Layer, dict[str, Field]]:
    """`application.model_sha256` becomes `model_sha256` of the application layer; credentials are withheld."""
    layers: dict[Layer, dict[str, Field]] = {}
    for key, value in facts.items():
        named, dot, name = key.partition(".")
        if not dot or not name or named not in LAYER_NAMES:
            known = ", ".join(LAYER_NAMES)
            raise BadInput(f"{source}: fact {key!r} names no layer; write it as layer.name with one of {known}")
        field = unreadable("withheld: it looks like a credential") if _holds_credential(value) else None
        layers.setdefault(Layer(named), {})[name] = field or measured(exact_json(value), source)
    return layers


def _holds_credential(value: JsonValue) -> bool:
    if isinstance(value, str):
        return value_is_credential(value)
    if isinstance(value, Mapping):
        return any(_holds_credential(item) for item in value.values())
    if isinstance(value, list):
        return any(_holds_credential(item) for item in value)
    return False
