"""The kinds of value a contract's keys hold: quantities with units, names, texts, counts."""

import json
from datetime import date
from typing import Annotated, Literal, NoReturn

from pydantic import BeforeValidator, Field, PlainSerializer, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from lynxbench.model.canonical import EXACT_INTEGER
from lynxbench.model.quantities import (
    format_duration,
    format_rate,
    format_ratio,
    parse_duration,
    parse_rate,
    parse_ratio,
)

_NUMBER = r"^[+-]?[0-9.]+([eE][+-]?[0-9]+)? *"

Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": rf"{_NUMBER}(ns|us|µs|ms|s|min|h)$", "examples": ["90 s", "250 ms"]}),
]
Ratio = Annotated[
    float,
    BeforeValidator(parse_ratio),
    PlainSerializer(format_ratio, return_type=str),
    WithJsonSchema({"type": "string", "pattern": rf"{_NUMBER}%$", "examples": ["5 %"]}),
]
RatePerS = Annotated[
    float,
    BeforeValidator(parse_rate),
    PlainSerializer(format_rate, return_type=str),
    WithJsonSchema({"type": "string", "pattern": rf"{_NUMBER}/(s|min|h)$", "examples": ["12 /s"]}),
]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Tags = Annotated[tuple[Name, ...], Field(max_length=32)]
"""Words that a team puts on a result."""
# Control characters are refused because these texts are shown on other people's terminals and pages.
Text = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=2000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$"
    ),
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Scalar = (
    bool
    | Annotated[int, Field(ge=-EXACT_INTEGER, le=EXACT_INTEGER)]
    | Annotated[float, Field(allow_inf_nan=False)]
    | Annotated[str, Field(max_length=2000)]
)


def _whole(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"must be 1, not {json.dumps(value, default=str)}")


One = Annotated[Literal[1], BeforeValidator(_whole)]
"""A version number. Python holds True and 1.0 equal to 1; a contract does not."""


def real_day(text: str) -> str:
    """A day of the calendar as it is written; ValueError for any other text."""
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a day of the calendar; write for example '2026-01-31'") from None
    return text


def refuse(problem: str, key: str) -> NoReturn:
    """Refuse a combination of values, naming the key (from here on) that a person should look at."""
    raise PydanticCustomError("refused", "{problem}", {"problem": problem, "key": key})
