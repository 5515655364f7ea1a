"""Names of teams: one spelling each, none that can be read as another."""

import pytest
from pydantic import TypeAdapter, ValidationError

from lynxbench.model.team_names import MOST_TEAMS, Teams, looks_like, team_problem

TEAMS: TypeAdapter[tuple[str, ...]] = TypeAdapter(Teams)


@pytest.mark.parametrize("name", ["local", "ml-platform", "infra.sre", "team7", "a"])
def test_plain_names_are_accepted(name: str) -> None:
    assert team_problem(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "", "ML", "ml platform", "ml_platform", "-ml", "ml-", "ml--platform", "7up", "a" * 64, "ml\n",
        "mｌ-platform",  # FULLWIDTH SMALL L, which NFKC would turn into l
        "ml-рlatform",  # CYRILLIC SMALL ER
        "ınfra",  # LATIN SMALL DOTLESS I
        "infra\u200b",  # ZERO WIDTH SPACE
        "infra\u202e",  # RIGHT-TO-LEFT OVERRIDE
        "café",
        "cafe\u0301",  # the same in two code points
    ],
)  # fmt: skip
def test_twins_from_other_alphabets_are_refused(name: str) -> None:
    assert team_problem(name) is not None


def test_the_line_says_what_would_be_right() -> None:
    assert "'ml-platform'" in (team_problem("ML Platform") or "")
    assert "CYRILLIC SMALL LETTER ER" in (team_problem("рlatform") or "")


@pytest.mark.parametrize(
    ("one", "two"), [("infra", "lnfra"), ("platform", "p1atform"), ("ops", "0ps"), ("modern", "modem"), ("a.b", "a-b")]
)
def test_names_that_read_alike_are_told(one: str, two: str) -> None:
    assert looks_like(one, two)
    assert looks_like(two, one)


def test_a_name_is_not_its_own_twin() -> None:
    assert not looks_like("infra", "infra")
    assert not looks_like("infra", "platform")


def test_a_list_of_teams_has_one_order() -> None:
    assert TEAMS.validate_python(("infra", "a.b", "ml-platform")) == ("a.b", "infra", "ml-platform")


@pytest.mark.parametrize(
    ("teams", "says"),
    [
        (("infra", "infra"), "listed twice"),
        (("infra", "lnfra"), "mistaken for one another"),
        (("ml-platform", "ml.platform"), "mistaken for one another"),
        (("Infra",), "no team name"),
        (("infra ",), "no team name"),
        (("in\u0441",), "CYRILLIC"),
        (tuple(f"team-x{number}x" for number in range(MOST_TEAMS + 1)), "at most 64"),
    ],
)
def test_a_list_of_teams_holds_no_twins(teams: tuple[str, ...], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        TEAMS.validate_python(teams)
