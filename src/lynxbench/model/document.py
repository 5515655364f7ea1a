"""What every stored document is: strict, frozen, without unknown keys."""

import math
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError

from lynxbench.model.interval import Interval

LARGEST_SHOWN = 1_000_000
"""A version number beyond this is no version, and may be too long to print."""


class Document(BaseModel):
    """A frozen record that refuses keys it does not know.

    It is built when first used, as a command needs few of them. From 2.14 on, pydantic lets one thread alone build it.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, ser_json_inf_nan="null", protected_namespaces=(), defer_build=True
    )


def first_problem(error: ValidationError, whole: str = "document") -> str:
    """The first thing wrong with a document, in one line; what another version would write is told as such."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or whole
    if first["type"] == "literal_error" and first["loc"][-1:] == ("schema_version",):
        number = first["input"]
        version = number if isinstance(number, int) and abs(number) < LARGEST_SHOWN else "another"
        known = first["ctx"]["expected"]
        return f"{where} is {version}, and this lynxbench reads {known}; use the version that wrote it, or a newer one"
    if first["type"] == "extra_forbidden":
        return f"{where}: not a key that this lynxbench knows; where a newer version wrote it, update"
    if first["type"] == "union_tag_invalid":
        tag = str(first["ctx"]["tag"])[:40]
        return f"{where}: {tag!r} is of no kind that this lynxbench knows; where a newer version wrote it, update"
    return f"{where}: {first['msg'].removeprefix('Value error, ')}"


def bounds_document(interval: Interval) -> dict[str, float | None]:
    """An interval as documents write it: what is not known is null."""
    parts = {"low": interval.low, "estimate": interval.estimate, "high": interval.high}
    return {name: value if math.isfinite(value) else None for name, value in parts.items()}


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: math.nan if part is None else part for name, part in value.items()}
    return value


Bounds = Annotated[Interval, BeforeValidator(_without_nulls), PlainSerializer(bounds_document)]
"""An interval in a document: what is not known is null there and NaN in memory."""
