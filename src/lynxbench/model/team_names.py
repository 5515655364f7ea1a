"""Names of teams: one alphabet without twins, so that whoever signs is not taken for somebody else."""

import re
import unicodedata
from itertools import combinations
from typing import Annotated, Final

from pydantic import AfterValidator, Field

LOCAL_TEAM: Final = "local"
"""The team of keys that are made where there is none. It is nobody's: two such keys are two owners."""

TEAM_PATTERN: Final = re.compile(r"[a-z][a-z0-9]*(?:[-.][a-z0-9]+)*")
MAX_TEAM: Final = 63
MOST_TEAMS: Final = 64
"""That one contract can ask for."""

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
        letter = unicodedata.name(foreign, f"U+{ord(foreign):04X}")
        return f"{name!r} is no team name: it holds {letter}; use a-z, 0-9, '-' and '.'{hint}"
    return f"{name!r} is no team name: use lower-case words joined by '-' or '.'{hint}"


def looks_like(name: str, other: str) -> bool:
    """Whether two different team names could be read as one."""
    return name != other and _skeleton(name) == _skeleton(other)


def _skeleton(name: str) -> str:
    for seen, taken_for in _ALIKE:
        name = name.replace(seen, taken_for)
    return name


def _as_team(name: str) -> str:
    problem = team_problem(name)
    if problem is not None:
        raise ValueError(problem)
    return name


def _told_apart(teams: tuple[str, ...]) -> tuple[str, ...]:
    """In the order of their names: who is asked does not depend on how the list is written."""
    for team, other in combinations(teams, 2):
        if team == other:
            raise ValueError(f"{team!r} is listed twice")
        if looks_like(team, other):
            raise ValueError(f"{team!r} and {other!r} can be mistaken for one another; rename one")
    return tuple(sorted(teams))


Team = Annotated[str, AfterValidator(_as_team)]
Teams = Annotated[tuple[Team, ...], Field(max_length=MOST_TEAMS), AfterValidator(_told_apart)]
"""Distinct teams, in order."""
