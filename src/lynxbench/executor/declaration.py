"""What a machine cannot tell about itself: what was paid, how it is cooled, what is asked of it. A strict YAML file."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field as Bound
from pydantic import JsonValue, ValidationError, field_validator

from lynxbench.errors import BadInput
from lynxbench.executor.environment import name_looks_secret, value_is_credential
from lynxbench.executor.host import LARGEST_EXACT_INTEGER
from lynxbench.executor.site_file import LinedYaml, parse_lined_yaml
from lynxbench.model.document import Document
from lynxbench.model.executor import Field, Status, Tier
from lynxbench.model.layers import Layer

Text = Annotated[str, Bound(min_length=1, max_length=2000)]
Currency = Annotated[str, Bound(pattern=r"^[A-Z]{3}$")]
Amount = Annotated[float, Bound(ge=0, le=1e12, allow_inf_nan=False)]
Scalar: TypeAlias = bool | int | float | str
FieldName = Annotated[str, Bound(pattern=r"^[a-z][a-z0-9_]{0,62}$")]

IN_THE_ID: dict[Layer, Tier] = {Layer.PROCUREMENT: Tier.STATE, Layer.DEMAND: Tier.STATE}
"""A price or a forecast does not change what a machine does: it is recorded and compared, but enters no id."""


class Procurement(Document):
    """What was bought and for how much."""

    item: Text | None = None
    price: Amount | None = None
    currency: Currency | None = None
    quantity: Annotated[int, Bound(ge=1, le=1_000_000)] | None = None
    price_per_hour: Amount | None = None
    supplier: Text | None = None
    contract: Text | None = None
    invoice_sha256: Annotated[str, Bound(pattern=r"^[0-9a-f]{64}$")] | None = None
    purchased: str | None = None
    depreciation_years: Annotated[float, Bound(gt=0, le=50)] | None = None

    @field_validator("purchased")
    @classmethod
    def _is_a_day(cls, value: str | None) -> str | None:
        if value is not None:
            _parse_day(value)
        return value


class Facility(Document):
    """Where it stands and how it is cooled and powered."""

    site: Text | None = None
    cooling: Literal["air", "liquid", "rear-door", "immersion", "hybrid"] | None = None
    inlet_c: Annotated[float, Bound(ge=-20, le=60)] | None = None
    power_price_per_kwh: Amount | None = None
    currency: Currency | None = None
    pue: Annotated[float, Bound(ge=1, le=5)] | None = None
    rack_limit_kw: Annotated[float, Bound(gt=0, le=10_000)] | None = None
    carbon_g_per_kwh: Annotated[float, Bound(ge=0, le=5_000)] | None = None


class Demand(Document):
    """What is asked of it, by whom it matters."""

    forecast: Text | None = None
    slo: Text | None = None
    seasonality: Text | None = None
    peak_requests_per_s: Annotated[float, Bound(ge=0, le=1e9)] | None = None
    users: Annotated[int, Bound(ge=0, le=10_000_000_000)] | None = None
    growth_percent_per_year: Annotated[float, Bound(ge=-100, le=10_000)] | None = None


class Declaration(Document):
    """A site file: procurement, facility, demand, and anything else a layer's owner states."""

    lynxbench: Literal[1]
    procurement: Procurement = Procurement()
    facility: Facility = Facility()
    demand: Demand = Demand()
    declared: dict[Layer, dict[FieldName, Scalar | list[Scalar]]] = Bound(default_factory=dict)
    source: Annotated[str, Bound(exclude=True)] = "declared"

    @field_validator("declared")
    @classmethod
    def _recordable(
        cls, layers: dict[Layer, dict[str, Scalar | list[Scalar]]]
    ) -> dict[Layer, dict[str, Scalar | list[Scalar]]]:
        for layer, fields in layers.items():
            for name, value in fields.items():
                for item in value if isinstance(value, list) else [value]:
                    _refuse_unrecordable(f"{layer.value}.{name}", name, item)
        return layers

    def fields(self) -> dict[Layer, dict[str, Field]]:
        """Every stated value as a field with status declared."""
        layers: dict[Layer, dict[str, Field]] = {}
        stated: dict[Layer, Document] = {
            Layer.PROCUREMENT: self.procurement,
            Layer.FACILITY: self.facility,
            Layer.DEMAND: self.demand,
        }
        for layer, part in stated.items():
            for name, value in part.model_dump(mode="json", exclude_none=True).items():
                layers.setdefault(layer, {})[name] = self._field(layer, value)
        for layer, free in self.declared.items():
            for name, item in free.items():
                layers.setdefault(layer, {})[name] = self._field(layer, item)  # type: ignore[arg-type]
        return layers

    def _field(self, layer: Layer, value: JsonValue) -> Field:
        tier = IN_THE_ID.get(layer, Tier.CONFIGURATION)
        return Field(value=value, source=self.source, status=Status.DECLARED, tier=tier)


def _parse_day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a day; write it as 2026-03-31") from None


def _refuse_unrecordable(key: str, name: str, value: Scalar) -> None:
    if isinstance(value, int) and abs(value) > LARGEST_EXACT_INTEGER:
        raise ValueError(f"{key} is beyond 2**53; quote it as text")
    if name_looks_secret(name) or (isinstance(value, str) and value_is_credential(value)):
        raise ValueError(f"{key} looks like a secret; a declaration is published with every result")


def _refuse_unrecordable_at(lined: LinedYaml, layer: str, file: str) -> None:
    """The same refusal with the line of the very key, which the whole mapping's validator cannot know."""
    for path, line in lined.lines.items():
        if path[:2] != ("declared", layer) or len(path) < 3:
            continue
        value: JsonValue = lined.value
        for part in path:
            value = value[part]  # type: ignore[index]
        try:
            if isinstance(value, (bool, int, float, str)):
                _refuse_unrecordable(".".join(map(str, path[1:])), str(path[2]), value)
        except ValueError as problem:
            raise BadInput(f"{file}:{line}: declared: {problem}") from None


def read_declaration(path: Path | str) -> Declaration:
    """The site file at that path; BadInput with file, line and key where it is wrong."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as problem:
        raise BadInput(f"{file}: cannot be read: {problem.strerror or problem}; give the path of a site file") from None
    except UnicodeDecodeError:
        raise BadInput(f"{file}: not UTF-8 text; save it as UTF-8") from None
    return parse_declaration(text, str(file))


def parse_declaration(text: str, file: str = "<declaration>") -> Declaration:
    """A site file's text, strictly."""
    lined = parse_lined_yaml(text, file)
    if not isinstance(lined.value, dict):
        raise BadInput(f"{file}:1: must be keys with values; begin it with `lynxbench: 1`")
    if "source" in lined.value:
        raise BadInput(f"{file}:{lined.line_of(('source',))}: source: unknown key; {_known_keys(())}")
    layers = lined.value.get("declared")
    for layer in layers if isinstance(layers, dict) else ():
        if layer not in {known.value for known in Layer}:
            line = lined.line_of(("declared", layer))
            said = ", ".join(known.value for known in Layer)
            raise BadInput(f"{file}:{line}: declared.{layer}: not a layer; use one of {said}")
        _refuse_unrecordable_at(lined, layer, file)
    try:
        parsed = Declaration.model_validate_json(json.dumps(lined.value))
    except ValidationError as problem:
        first = problem.errors()[0]
        # Pydantic marks keys and union branches inside the path; only what was written is shown.
        path = tuple(part for part in first["loc"] if part != "[key]")
        while path and path not in lined.lines and first["type"] != "missing":
            path = path[:-1]
        key = ".".join(str(part) for part in path)
        line = lined.line_of(path)
        raise BadInput(f"{file}:{line}: {key + ': ' if key else ''}{_what_is_wrong(first, path)}") from None
    return parsed.model_copy(update={"source": f"declared in {Path(file).name}"})


def _what_is_wrong(error: object, path: tuple[str | int, ...]) -> str:
    assert isinstance(error, dict)
    kind, said = str(error["type"]), str(error["msg"])
    if kind == "extra_forbidden":
        return f"unknown key; {_known_keys(path[:-1])}"
    if kind == "missing":
        return "missing; write `lynxbench: 1`" if path == ("lynxbench",) else "missing"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(str(path[-1]) if path else "", f"{said}; it is {error.get('input')!r}")
    return f"{said.removeprefix('Value error, ')}" + (
        "" if kind == "value_error" else f"; it is {error.get('input')!r}"
    )


_PATTERNS: dict[str, str] = {
    "currency": "must be three capital letters of ISO 4217, such as EUR",
    "invoice_sha256": "must be 64 lower-case hex digits, as `sha256sum invoice.pdf` prints them",
}


def _known_keys(path: tuple[str | int, ...]) -> str:
    parts: dict[str, type[Document]] = {"procurement": Procurement, "facility": Facility, "demand": Demand}
    part = parts.get(str(path[0]) if path else "")
    names = part.model_fields if part else [name for name in Declaration.model_fields if name != "source"]
    return "known here: " + ", ".join(names)
