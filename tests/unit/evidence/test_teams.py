"""Team names that cannot be mistaken for one another."""

from __future__ import annotations

import pytest

from lynxbench.evidence.teams import looks_like, team_problem


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
