"""What every stored document is: strict, frozen, without unknown keys."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from lynxbench.model.interval import Interval


class Document(BaseModel):
    """A frozen record that refuses keys it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, ser_json_inf_nan="null", protected_namespaces=()
    )


def _with_nulls(interval: Interval) -> dict[str, float | None]:
    parts = {"low": interval.low, "estimate": interval.estimate, "high": interval.high}
    return {name: value if math.isfinite(value) else None for name, value in parts.items()}


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: math.nan if part is None else part for name, part in value.items()}
    return value


Bounds = Annotated[Interval, BeforeValidator(_without_nulls), PlainSerializer(_with_nulls)]
"""An interval in a document: what is not known is null there and NaN in memory."""
