"""One line on every key of a contract: what editors show, `contract new` comments and the reference page prints."""

from functools import cache
from typing import NamedTuple

from lynxbench.tables import read_table


class Key(NamedTuple):
    """What a key is for, and a value that would be right where the key may be left out."""

    says: str
    example: str = ""


@cache
def explained_keys() -> dict[str, Key]:
    """By the value that holds it and its name, such as `Contract.question`."""
    return {
        f"{holder}.{name}": Key(lines) if isinstance(lines, str) else Key(*lines)
        for holder, keys in read_table("contract/keys.toml").items()
        for name, lines in keys.items()
    }
