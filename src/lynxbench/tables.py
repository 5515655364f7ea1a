"""Tables of words and figures that come with lynxbench: kept as TOML beside the code that reads them."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def read_table(place: str) -> dict[str, Any]:
    """A table by its place in the package, such as `contract/keys.toml`; do not change it in place."""
    return tomllib.loads((Path(__file__).parent / place).read_text(encoding="utf-8"))
