"""JSON read with suspicion: no key twice, no NaN, no depth bombs. One reader for every stored document."""

import json
import math
from typing import Any, Final, NoReturn

from lynxbench.model.canonical import JsonValue

DEEPEST: Final = 200
"""Levels of nesting that no document of ours comes near; what reads a value recursively stays safe below it."""


class NotStrictJson(ValueError):
    """The text is not unambiguous JSON; `line` says where, when that is known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


def parse_strict_json(text: str) -> JsonValue:
    """The value of a JSON text; NotStrictJson in one line otherwise."""
    try:
        value: JsonValue = json.loads(
            text, object_pairs_hook=_without_twins, parse_constant=_no_constant, parse_float=_finite
        )
    except json.JSONDecodeError as error:
        raise NotStrictJson(f"not JSON: {error.msg} (column {error.colno})", error.lineno) from None
    except RecursionError:
        raise NotStrictJson("not usable JSON: nested too deeply") from None
    except NotStrictJson:
        raise
    except ValueError as error:  # an integer with thousands of digits
        raise NotStrictJson(f"not usable JSON: {str(error).split(';', maxsplit=1)[0]}") from None
    refuse_depth(value)
    return value


def _without_twins(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    values: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in values:
            raise NotStrictJson(f"key {key!r} is written twice in one object; which one holds is anybody's guess")
        values[key] = value
    return values


def _no_constant(name: str) -> NoReturn:
    raise NotStrictJson(f"{name} is not JSON; a missing number is null")


def _finite(text: str) -> float:
    """1e999 would be read as infinity, which canonical bytes write as null: two documents with one id."""
    number = float(text)
    if not math.isfinite(number):
        raise NotStrictJson(f"{text[:20]} is beyond what a number can hold; a missing number is null")
    return number


def refuse_depth(value: JsonValue) -> None:
    """NotStrictJson where something lies DEEPEST levels deep."""
    level: list[Any] = [value] if isinstance(value, (dict, list)) else []
    for _ in range(DEEPEST - 1):
        if not level:
            return
        level = [
            item
            for holder in level
            for item in (holder.values() if type(holder) is dict else holder)
            if type(item) is dict or type(item) is list
        ]
    if any(level):
        raise NotStrictJson(f"not usable JSON: nested more than {DEEPEST} levels deep")
