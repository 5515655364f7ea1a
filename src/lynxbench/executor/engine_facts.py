"""What an engine says of itself, as fields of the executor."""

from collections.abc import Mapping

from pydantic import JsonValue

from lynxbench.errors import BadInput
from lynxbench.executor.host import exact_json
from lynxbench.model.executor import Field, measured, unreadable
from lynxbench.model.layers import Layer
from lynxbench.model.secrets import value_is_credential


def fields_from_facts(facts: Mapping[str, JsonValue], source: str) -> dict[Layer, dict[str, Field]]:
    """`application.model_sha256` becomes `model_sha256` of the application layer; credentials are withheld."""
    layers: dict[Layer, dict[str, Field]] = {}
    for key, value in facts.items():
        layer, _, name = key.partition(".")
        if not name or layer not in tuple(Layer):
            layers_known = ", ".join(Layer)
            raise BadInput(f"{source}: fact {key!r} names no layer; write it as layer.name with one of {layers_known}")
        withheld = unreadable("withheld: it looks like a credential") if _holds_credential(value) else None
        layers.setdefault(Layer(layer), {})[name] = withheld or measured(exact_json(value), source)
    return layers


def _holds_credential(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_credential, value.values()))
    if isinstance(value, list):
        return any(map(_holds_credential, value))
    return isinstance(value, str) and value_is_credential(value)
