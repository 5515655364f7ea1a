"""Names of teams that cannot be mistaken for one another."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Final

from pydantic import AfterValidator

TEAM_PATTERN: Final = re.compile(r"[a-z][a-z0-9]*(?:[-.][a-z0-9]+)*")
MAX_TEAM: Final = 63

_ALIKE = (("0", "o"), ("1", "l"), ("i", "l"), ("5", "s"), ("rn", "m"), ("vv", "w"), ("cl", "d"), (".", "-"))
"""Letters that people take for one another in common typefaces (after Unicode TR 39, for lower-case ASCII)."""


def team_problem(name: str) -> str | None:
    """Why a text is no team name, or None when it is one. ASCII lower case alone: no alphabet has twins in it."""
    if len(name) <= MAX_TEAM and TEAM_PATTERN.fullmatch(name):
        return None
    folded = unicodedata.normalize("NFKC", name).casefold()
    plain = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")
    hint = f", such as {plain!r}" if folded.isascii() and TEAM_PATTERN.fullmatch(plain) else ", such as 'ml-platform'"
    foreign = next((letter for letter in name if not letter.isascii()), None)
    if foreign is not None:
        told = unicodedata.name(foreign, f"U+{ord(foreign):04X}")
        return f"{name!r} is no team name: it holds {told}; use a-z, 0-9, '-' and '.'{hint}"
    return f"{name!r} is no team name: use lower-case words joined by '-' or '.'{hint}"


def looks_like(one: str, two: str) -> bool:
    """Whether two different team names could be read as one."""
    return one != two and _skeleton(one) == _skeleton(two)


def _skeleton(name: str) -> str:
    for seen, taken_for in _ALIKE:
        name = name.replace(seen, taken_for)
    return name


def _checked(name: str) -> str:
    problem = team_problem(name)
    if problem is not None:
        raise ValueError(problem)
    return name


Team = Annotated[str, AfterValidator(_checked)]
