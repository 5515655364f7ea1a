"""What nodes cost: from a plan file, from options, or from what the executor's procurement layer declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from lynxbench.decide.tenure import Owning, Terms
from lynxbench.errors import BadInput
from lynxbench.model.executor import Executor
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.quantities import Quantity, parse_quantity, quantity
from lynxbench.model.units import parse_ratio

USUAL_LIFE = "4 years"
"""Where none is stated: the depreciation that most operators of accelerators book."""
_CANDIDATE_KEYS = ("name", "result", "precision", "own", "rent", "energy_price", "pue")
_OWN_KEYS = ("price", "life", "residual", "upkeep")


@dataclass(frozen=True, slots=True)
class Offer:
    """One candidate of a plan: which result, at which precision, for what."""

    name: str
    result: str
    precision: Precision | None
    terms: Terms


def parse_offers(document: Mapping[str, JsonValue], file: str) -> tuple[Offer, ...]:
    """The candidates of a plan file; BadInput says the file, the candidate, the key and what would be right."""
    if document.get("lynxbench") != 1:
        raise BadInput(f"{file}: a plan begins with `lynxbench: 1`")
    _refuse_strange(document, ("lynxbench", "candidates", "energy_price", "pue"), file)
    listed = document.get("candidates")
    if not isinstance(listed, list) or not listed:
        raise BadInput(f"{file}: `candidates` must list at least one result with its prices")
    found = []
    for index, one in enumerate(listed):
        if not isinstance(one, dict):
            raise BadInput(f"{file}: candidates.{index}: must be a mapping of keys")
        where = f"{file}: candidates.{index}"
        _refuse_strange(one, _CANDIDATE_KEYS, where)
        result = one.get("result")
        if not isinstance(result, str) or not result:
            raise BadInput(f"{where}.result: name a result by path or id")
        found.append(
            Offer(
                name=str(one.get("name") or result),
                result=result,
                precision=_precision(one.get("precision"), where),
                terms=_terms({**_shared(document), **one}, where),
            )
        )
    return tuple(found)


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
    own: dict[str, JsonValue] = {
        key: value
        for key, value in {"price": price, "life": life, "residual": residual, "upkeep": upkeep}.items()
        if value is not None
    }
    if own and price is None:
        raise BadInput(f"--{next(iter(own))} needs --price: it is part of owning a node")
    body: dict[str, JsonValue] = {"rent": rent, "energy_price": energy_price, "pue": pue}
    if own:
        body["own"] = own
    return _terms({key: value for key, value in body.items() if value is not None}, "options")


def terms_of_executor(executor: Executor) -> Terms:
    """Prices as the site file declared them; empty where it did not."""
    currency = executor.get(Layer.PROCUREMENT, "currency")
    own, rent = None, None
    if isinstance(currency, str):
        price = _number(executor, Layer.PROCUREMENT, "price")
        years = _number(executor, Layer.PROCUREMENT, "depreciation_years")
        many = _number(executor, Layer.PROCUREMENT, "quantity") or 1
        if price:
            life = quantity(years, "year") if years else parse_quantity(USUAL_LIFE)
            own = Owning(price=quantity(price / many, currency), life=life)
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


def _shared(document: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: document[key] for key in ("energy_price", "pue") if key in document}


def _terms(body: Mapping[str, JsonValue], where: str) -> Terms:
    own = body.get("own")
    if own is not None and not isinstance(own, dict):
        raise BadInput(f"{where}.own: must be a mapping with price and life")
    pue = body.get("pue", 1.0)
    if isinstance(pue, bool) or not isinstance(pue, int | float) or not 1 <= pue <= 5:
        raise BadInput(f"{where}.pue: {pue!r} must be a number from 1 to 5")
    return Terms(
        own=None if own is None else _owning(own, f"{where}.own"),
        rent=_money(body, "rent", "EUR/h", where),
        energy_price=_money(body, "energy_price", "EUR/kWh", where),
        pue=float(pue),
    )


def _owning(body: Mapping[str, JsonValue], where: str) -> Owning:
    _refuse_strange(body, _OWN_KEYS, where)
    price = _money(body, "price", "money", where)
    if price is None:
        raise BadInput(f"{where}.price: is missing; write for example '18000 EUR'")
    residual = body.get("residual", "0 %")
    try:
        left = parse_ratio(residual)
    except ValueError as error:
        raise BadInput(f"{where}.residual: {error}") from None
    life = parse_quantity(str(body.get("life", USUAL_LIFE)), "year", f"{where}.life")
    return Owning(price=price, life=life, residual=left, upkeep=_money(body, "upkeep", "EUR/year", where))


def _money(body: Mapping[str, JsonValue], key: str, like: str, where: str) -> Quantity | None:
    value = body.get(key)
    if value is None:
        return None
    found = parse_quantity(str(value), like, f"{where}.{key}")
    if found.value < 0:
        raise BadInput(f"{where}.{key}: {value!r} is below 0")
    return found


def _precision(value: JsonValue, where: str) -> Precision | None:
    if value is None:
        return None
    try:
        return Precision(str(value))
    except ValueError:
        raise BadInput(f"{where}.precision: {value!r}; choose one of {', '.join(Precision)}") from None


def _number(executor: Executor, layer: Layer, name: str) -> float | None:
    value = executor.get(layer, name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _refuse_strange(body: Mapping[str, JsonValue], known: tuple[str, ...], where: str) -> None:
    strange = sorted(set(body) - set(known))
    if strange:
        raise BadInput(f"{where}: unknown key {strange[0]!r}; known are {', '.join(known)}")
