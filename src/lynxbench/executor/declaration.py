"""What a machine cannot tell about itself: what was paid, how it is cooled, what is asked of it. A strict YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, PrivateAttr, model_validator
from pydantic import Field as Bound

from lynxbench.model.document import Document
from lynxbench.model.executor import Field, Status, Tier
from lynxbench.model.fields import One, Scalar, Sha256, Text, real_day, refuse
from lynxbench.model.layers import Layer
from lynxbench.model.secrets import name_looks_secret, value_is_credential
from lynxbench.model.strict_file import FileForm, parse_file
from lynxbench.reading import read_text

Currency = Annotated[str, Bound(pattern=r"^[A-Z]{3}$")]
Amount = Annotated[float, Bound(ge=0, le=1e12, allow_inf_nan=False)]
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
    invoice_sha256: Sha256 | None = None
    purchased: Annotated[str, AfterValidator(real_day)] | None = None
    depreciation_years: Annotated[float, Bound(gt=0, le=50)] | None = None


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

    lynxbench: One
    procurement: Procurement = Procurement()
    facility: Facility = Facility()
    demand: Demand = Demand()
    declared: dict[Layer, dict[FieldName, Scalar | list[Scalar]]] = Bound(default_factory=dict)
    _source: str = PrivateAttr("declared")

    @model_validator(mode="after")
    def _without_secrets(self) -> Declaration:
        for layer, fields in self.declared.items():
            for name, value in fields.items():
                texts = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
                if name_looks_secret(name) or any(map(value_is_credential, texts)):
                    says = "looks like a secret; leave it out: a declaration is published with every result"
                    refuse(says, f"declared.{layer}.{name}")
        return self

    def fields(self) -> dict[Layer, dict[str, Field]]:
        """Every stated value as a field with status declared."""
        layers: dict[Layer, dict[str, Field]] = {}
        parts = {Layer.PROCUREMENT: self.procurement, Layer.FACILITY: self.facility, Layer.DEMAND: self.demand}
        named = [(layer, part.model_dump(mode="json", exclude_none=True)) for layer, part in parts.items()]
        for layer, values in (*named, *self.declared.items()):
            tier = IN_THE_ID.get(layer, Tier.CONFIGURATION)
            for name, value in values.items():
                field = Field(value=value, source=self._source, status=Status.DECLARED, tier=tier)
                layers.setdefault(layer, {})[name] = field
        return layers


SITE = FileForm("a site file", "begin it with `lynxbench: 1`", Declaration)


def read_declaration(path: Path | str) -> Declaration:
    """The site file at that path; BadFile with file, line and key where it is wrong."""
    return parse_declaration(read_text(path, SITE.noun), str(path))


def parse_declaration(text: str, file: str = "<declaration>") -> Declaration:
    """A site file's text, strictly."""
    declaration = parse_file(text, file, SITE)
    declaration._source = f"declared in {Path(file).name}"
    return declaration
