"""The executor as a value: nine layers, field by field, each with its source and status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from pydantic import JsonValue

from lynxbench.model.canonical import content_id
from lynxbench.model.document import Document
from lynxbench.model.layers import Layer

EXECUTOR_SCHEMA = 1


class Status(StrEnum):
    """How a field came to be known."""

    MEASURED = "measured"
    DECLARED = "declared"
    UNREADABLE = "unreadable"


class Tier(StrEnum):
    """Which hash a field enters: configuration is compared, instance is pseudonymised, state is in no id."""

    CONFIGURATION = "configuration"
    INSTANCE = "instance"
    STATE = "state"


class Field(Document):
    """One fact about one layer. An unreadable one has no value; its source says why."""

    value: JsonValue
    source: str
    status: Status = Status.MEASURED
    tier: Tier = Tier.CONFIGURATION


def measured(value: JsonValue, source: str, tier: Tier = Tier.CONFIGURATION) -> Field:
    """A field read from the machine."""
    return Field(value=value, source=source, status=Status.MEASURED, tier=tier)


def declared(value: JsonValue, source: str) -> Field:
    """A field that a person stated and the machine cannot confirm."""
    return Field(value=value, source=source, status=Status.DECLARED)


def unreadable(why: str, tier: Tier = Tier.CONFIGURATION) -> Field:
    """A field that could not be read; absence carries its reason."""
    return Field(value=None, source=why, status=Status.UNREADABLE, tier=tier)


class Executor(Document):
    """Everything that produced the number."""

    schema_version: int = EXECUTOR_SCHEMA
    layers: dict[Layer, dict[str, Field]]

    def tier_id(self, tier: Tier) -> str:
        """SHA-256 over the fields of one tier."""
        chosen = {
            layer.value: {name: field.value for name, field in sorted(fields.items()) if field.tier is tier}
            for layer, fields in self.layers.items()
        }
        return content_id({layer: fields for layer, fields in chosen.items() if fields})

    @property
    def executor_id(self) -> str:
        """The configuration's hash: equal for machines that should perform alike."""
        return self.tier_id(Tier.CONFIGURATION)

    @property
    def instance_id(self) -> str:
        """The pseudonymised identity of this very machine."""
        return self.tier_id(Tier.INSTANCE)

    def merged(self, more: Mapping[Layer, Mapping[str, Field]]) -> Executor:
        """This executor with further fields; later ones win."""
        layers = {layer: dict(self.layers.get(layer, {})) for layer in Layer}
        for layer, fields in more.items():
            layers[layer].update(fields)
        return Executor(schema_version=self.schema_version, layers=layers)

    def get(self, layer: Layer, name: str) -> JsonValue:
        """A field's value, or None where it is absent or unreadable."""
        field = self.layers.get(layer, {}).get(name)
        return None if field is None else field.value


class FieldChange(Document):
    """One field that differs between two executors."""

    layer: Layer
    name: str
    tier: Tier
    before: JsonValue
    after: JsonValue


def difference(before: Executor, after: Executor, tiers: Iterable[Tier] = tuple(Tier)) -> tuple[FieldChange, ...]:
    """Fields that differ, layer by layer; a field only one side has counts, with None on the other."""
    wanted = set(tiers)
    changes: list[FieldChange] = []
    for layer in Layer:
        left, right = before.layers.get(layer, {}), after.layers.get(layer, {})
        for name in sorted(left.keys() | right.keys()):
            tier = (left.get(name) or right[name]).tier
            old, new = before.get(layer, name), after.get(layer, name)
            if tier in wanted and old != new:
                changes.append(FieldChange(layer=layer, name=name, tier=tier, before=old, after=new))
    return tuple(changes)
