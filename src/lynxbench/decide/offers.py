"""What nodes cost: from a plan file, from options, or from what the executor's procurement layer declares."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field, PlainValidator, WithJsonSchema

from lynxbench.decide.tenure import Owning, Terms
from lynxbench.errors import BadInput, BadQuantity
from lynxbench.model.document import Document
from lynxbench.model.executor import Executor
from lynxbench.model.fields import One, Ratio, Text
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.quantities import Quantity, parse_quantity, parse_ratio, quantity
from lynxbench.model.strict_file import FileForm, parse_file

USUAL_LIFE = parse_quantity("4 years")
"""Where none is stated: the depreciation that most operators of accelerators book."""
LARGEST_PUE = 5.0


def _amount(value: object, like: str, where: str = "") -> Quantity:
    """A price in any currency, not below 0."""
    amount = parse_quantity(value, like, where)
    if amount.value < 0:
        raise BadQuantity(f"{where}{': ' if where else ''}{value!r} is below 0; write for example '12 {like}'")
    return amount


def _life(value: object) -> Quantity:
    life = parse_quantity(value, "year")
    if life.value <= 0:
        raise BadQuantity(f"{value!r} is no life; write for example '4 years'")
    return life


_AS_TEXT = WithJsonSchema({"type": "string"})
Price = Annotated[Quantity, PlainValidator(partial(_amount, like="EUR")), _AS_TEXT]
Rent = Annotated[Quantity, PlainValidator(partial(_amount, like="EUR/h")), _AS_TEXT]
EnergyPrice = Annotated[Quantity, PlainValidator(partial(_amount, like="EUR/kWh")), _AS_TEXT]
Upkeep = Annotated[Quantity, PlainValidator(partial(_amount, like="EUR/year")), _AS_TEXT]
Life = Annotated[Quantity, PlainValidator(_life), _AS_TEXT]
Pue = Annotated[float, Field(ge=1, le=LARGEST_PUE)]


class OwnedNode(Document):
    """What a node costs that is bought."""

    price: Annotated[Price, Field(description="what the node costs, such as '18000 EUR'")]
    life: Life = USUAL_LIFE
    residual: Annotated[Ratio, Field(ge=0, lt=1)] = 0.0
    upkeep: Upkeep | None = None

    @property
    def owning(self) -> Owning:
        """The same as a value to count with."""
        return Owning(price=self.price, life=self.life, residual=self.residual, upkeep=self.upkeep)


class PlannedCandidate(Document):
    """One candidate of a plan file."""

    name: Text | None = None
    result: Annotated[Text, Field(description="a result by its path, its id or the id's beginning")]
    precision: Precision | None = None
    own: OwnedNode | None = None
    rent: Rent | None = None
    energy_price: EnergyPrice | None = None
    pue: Pue | None = None


class PlanFile(Document):
    """Candidates and their prices, as a person writes them down."""

    lynxbench: One
    candidates: Annotated[
        tuple[PlannedCandidate, ...], Field(min_length=1, description="at least one result with its prices")
    ]
    energy_price: EnergyPrice | None = None
    pue: Pue = 1.0


PLAN = FileForm("a plan", "begin it with `lynxbench: 1` and list `candidates`", PlanFile)


@dataclass(frozen=True, slots=True)
class Offer:
    """One candidate of a plan: which result, at which precision, for what."""

    name: str
    result: str
    precision: Precision | None
    terms: Terms


def parse_offers(text: str, file: str) -> tuple[Offer, ...]:
    """The candidates of a plan file; BadFile says the file, the line, the key and what would be right."""
    plan = parse_file(text, file, PLAN)
    return tuple(
        Offer(
            name=candidate.name or candidate.result,
            result=candidate.result,
            precision=candidate.precision,
            terms=Terms(
                own=None if candidate.own is None else candidate.own.owning,
                rent=candidate.rent,
                energy_price=candidate.energy_price or plan.energy_price,
                pue=plan.pue if candidate.pue is None else candidate.pue,
            ),
        )
        for candidate in plan.candidates
    )


def terms_from_options(
    *,
    price: str | None,
    life: str | None,
    residual: str | None,
    upkeep: str | None,
    rent: str | None,
    energy_price: str | None,
    pue: float | None,
) -> Terms:
    """Prices as options give them."""
    beside = {"--life": life, "--residual": residual, "--upkeep": upkeep}
    option = next((name for name, value in beside.items() if value is not None), None)
    if price is None and option is not None:
        raise BadInput(f"{option} needs --price: it is part of owning a node")
    if pue is not None and not 1 <= pue <= LARGEST_PUE:
        raise BadInput(f"--pue: {pue:g} must be a number from 1 to {LARGEST_PUE:g}")
    own = None
    if price is not None:
        own = Owning(
            price=_amount(price, "EUR", "--price"),
            life=USUAL_LIFE if life is None else parse_quantity(life, "year", "--life"),
            residual=0.0 if residual is None else parse_ratio(residual, where="--residual"),
            upkeep=None if upkeep is None else _amount(upkeep, "EUR/year", "--upkeep"),
        )
    return Terms(
        own=own,
        rent=None if rent is None else _amount(rent, "EUR/h", "--rent"),
        energy_price=None if energy_price is None else _amount(energy_price, "EUR/kWh", "--energy-price"),
        pue=1.0 if pue is None else pue,
    )


def terms_of_executor(executor: Executor) -> Terms:
    """Prices as the site file declared them; empty where it did not."""
    currency = executor.get(Layer.PROCUREMENT, "currency")
    own, rent = None, None
    if isinstance(currency, str):
        price = _number(executor, Layer.PROCUREMENT, "price")
        years = _number(executor, Layer.PROCUREMENT, "depreciation_years")
        nodes = _number(executor, Layer.PROCUREMENT, "quantity") or 1
        if price:
            life = quantity(years, "year") if years else USUAL_LIFE
            own = Owning(price=quantity(price / nodes, currency), life=life)
        hour = _number(executor, Layer.PROCUREMENT, "price_per_hour")
        rent = quantity(hour, f"{currency}/h") if hour else None
    energy = _number(executor, Layer.FACILITY, "power_price_per_kwh")
    unit = executor.get(Layer.FACILITY, "currency") or currency
    pue = _number(executor, Layer.FACILITY, "pue") or 1.0
    price_kwh = quantity(energy, f"{unit}/kWh") if energy and isinstance(unit, str) else None
    return Terms(own=own, rent=rent, energy_price=price_kwh, pue=pue)


def merged_terms(first: Terms, second: Terms) -> Terms:
    """What the first states, and the second where the first says nothing."""
    return Terms(
        own=first.own or second.own,
        rent=first.rent or second.rent,
        energy_price=first.energy_price or second.energy_price,
        pue=first.pue if first.pue != 1.0 else second.pue,
    )


def _number(executor: Executor, layer: Layer, name: str) -> float | None:
    value = executor.get(layer, name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
