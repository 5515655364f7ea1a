"""Tables of words and figures that come with lynxbench: kept as TOML beside the code that reads them."""

import tomllib
from pathlib import Path
from typing import Any


def read_table(place: str) -> dict[str, Any]:
    """A table by its place in the package, such as `contract/keys.toml`."""
    return tomllib.loads((Path(__file__).parent / place).read_text(encoding="utf-8"))
