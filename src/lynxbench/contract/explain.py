"""One line on every key of a contract: what editors show, `contract new` comments and the reference page prints."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Key(NamedTuple):
    """What a key is for, and a value that would be right where the key may be left out."""

    says: str
    example: str = ""


@cache
def explained_keys() -> dict[str, Key]:
    """By the value that holds it and its name, such as `Contract.question`."""
    tables = tomllib.loads((files("lynxbench.contract") / "keys.toml").read_text(encoding="utf-8"))
    return {
        f"{holder}.{name}": Key(lines) if isinstance(lines, str) else Key(*lines)
        for holder, keys in tables.items()
        for name, lines in keys.items()
    }
