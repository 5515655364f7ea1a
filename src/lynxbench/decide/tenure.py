"""What an hour of a node costs, owned or rented, and when one costs as much as the other. Money keeps its currency."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal

from lynxbench.errors import BadInput
from lynxbench.model.figures import Figure
from lynxbench.model.plain_numbers import plain
from lynxbench.model.planning import BreakEven, MoneyFigure, Tenure
from lynxbench.model.quantities import HOUR_S, YEAR_S, Quantity, format_ratio, parse_unit, quantity, rate_unit

MONTH_S = YEAR_S / 12
TOKENS = parse_unit("tokens/s")[1]


@dataclass(frozen=True, slots=True)
class Owning:
    """A node that is bought."""

    price: Quantity
    life: Quantity
    residual: float = 0.0
    """Share of the price that it is worth at the end of its life."""
    upkeep: Quantity | None = None
    """Money for a time: maintenance, space, people."""

    def __post_init__(self) -> None:
        if self.price.value < 0 or self.life.value <= 0:
            raise BadInput("a purchase has a price of at least 0 and a life above 0")
        if not 0 <= self.residual < 1:
            raise BadInput(f"residual value {format_ratio(self.residual)} must be from 0 % to below 100 % of the price")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a node costs under each tenure."""

    own: Owning | None = None
    rent: Quantity | None = None
    """Money for a time; a rented node's energy is the landlord's."""
    energy_price: Quantity | None = None
    pue: float = 1.0

    @property
    def currencies(self) -> frozenset[str]:
        """Every currency that a price is in."""
        prices = [self.rent, self.energy_price]
        if self.own is not None:
            prices += [self.own.price, self.own.upkeep]
        return frozenset(price.currency for price in prices if price is not None and price.currency is not None)


@dataclass(frozen=True, slots=True)
class Rates:
    """What a node does, and how busy it is."""

    work: Figure
    requests_per_s: Figure | None
    utilisation: float
    watts: float | None


def price_tenures(terms: Terms, rates: Rates) -> tuple[Tenure, ...]:
    """Owning and renting, each where it has a price."""
    tenures = []
    if terms.own is not None:
        tenures.append(_tenure("own", own_parts(terms.own, terms, rates.watts, rates.utilisation), rates))
    if terms.rent is not None:
        tenures.append(_tenure("rent", {"rent": terms.rent * quantity(1.0, "h")}, rates))
    return tuple(tenures)


def own_parts(own: Owning, terms: Terms, watts: float | None, utilisation: float) -> dict[str, Quantity]:
    """Money an hour of an owned node by cause; energy only where draw and price are both known."""
    hour = quantity(1.0, "h")
    parts = {"amortisation": own.price * (1 - own.residual) / own.life * hour}
    if own.upkeep is not None:
        parts["upkeep"] = own.upkeep * hour
    if terms.energy_price is not None and watts is not None:
        drawn = Quantity(watts * utilisation, parse_unit("W")[1]) * hour * terms.pue  # an idle node's draw is not in it
        parts["energy"] = drawn * terms.energy_price
    return parts


def break_even(terms: Terms, tenures: Sequence[Tenure], utilisation: float) -> BreakEven | None:
    """The share of all hours, and the months of use, at which owning costs as much as renting; None for one tenure."""
    by_kind = {tenure.kind: tenure for tenure in tenures}
    if terms.own is None or terms.rent is None or len(by_kind) < 2:
        return None
    own, rent = by_kind["own"], by_kind["rent"]
    running = own.parts.get("energy", 0.0)
    fixed = own.per_hour.estimate - running
    saved = rent.per_hour.estimate - running  # an hour of use saves the rent and costs the energy
    if saved <= 0:
        return BreakEven(
            use_share=None, months=None, words="renting is cheaper at any use: an hour's energy alone costs as much"
        )
    share = fixed / saved
    spent = terms.own.price.value * (1 - terms.own.residual)
    upkeep = own.parts.get("upkeep", 0.0)
    gain = saved * utilisation - upkeep  # an hour of calendar time at the stated use
    months = spent / gain * HOUR_S / MONTH_S if gain > 0 else None
    if share > 1:
        words = f"renting is cheaper at any use within {plain(terms.own.life.in_unit('year'), 3)} years of life"
        return BreakEven(use_share=None, months=months, words=words)
    back = f"the price is earned back in {plain(months, 3)} months" if months else ""
    within = f"; at {utilisation:.0%} of all hours {back}" if back else ""
    return BreakEven(use_share=share, months=months, words=f"owning is cheaper above {share:.0%} of all hours{within}")


def _tenure(kind: Literal["own", "rent"], parts: dict[str, Quantity], rates: Rates) -> Tenure:
    total = reduce(add, parts.values())
    currency = total.currency
    assert currency is not None
    tokens = parse_unit(rate_unit(rates.work.unit))[1] == TOKENS
    return Tenure(
        kind=kind,
        per_hour=MoneyFigure(low=total.value, estimate=total.value, high=total.value, currency=currency, per="hour"),
        parts={name: part.value for name, part in parts.items()},
        per_request=_each(total, rates.requests_per_s, rates.utilisation, currency, 1.0, "request"),
        per_million_tokens=(
            _each(total, rates.work, rates.utilisation, currency, 1e6, "million tokens") if tokens else None
        ),
        words=", ".join(f"{name} {plain(part.value)}" for name, part in parts.items()) + f" {currency}/h",
    )


def _each(
    per_hour: Quantity, rate: Figure | None, utilisation: float, currency: str, many: float, per: str
) -> MoneyFigure | None:
    """Money for so many units; a faster bound of the rate is the cheaper bound of the price."""
    if rate is None or rate.estimate is None or rate.estimate <= 0:
        return None
    at = [bound if bound and bound > 0 else rate.estimate for bound in (rate.high, rate.estimate, rate.low)]
    low, middle, high = (per_hour.value / (HOUR_S * bound * utilisation) * many for bound in at)
    if not math.isfinite(high):
        return None
    return MoneyFigure(low=low, estimate=middle, high=high, currency=currency, per=per)
