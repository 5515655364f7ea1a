"""`results tag` and `note` on a result that an earlier version exported: put, shown, found, taken off, exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from teams import Team, kept_bundle, make_team


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> tuple[Team, str]:
    where = tmp_path_factory.mktemp("crew")
    team = make_team("crew", where)
    bundle, card = kept_bundle(where)
    team.ask("key", "trust", str(card))
    (result,) = team.ask("results", "import", str(bundle))["results"]
    return team, result


def names(team: Team, *options: str) -> list[list[str]]:
    return [[tag["tag"] for tag in row["tags"]] for row in team.ask("results", "list", *options)["results"]]


def test_tags_and_notes_by_the_command_line(crew: tuple[Team, str], tmp_path: Path) -> None:
    team, result = crew
    assert names(team) == [[]]
    assert "Tags" not in team.run("results", "list").out, "no column for nothing"
    done = team.ask("results", "tag", result[:12], "golden", "release-7")
    assert done["team"] == "crew"
    assert done["entry"]["put"] == ["golden", "release-7"]
    said = team.run("results", "note", "last", "--text", "  measured beside a backup\x1b[2J ")
    assert said.code == 0
    assert f"{result[:12]} noted by crew as entry {done['seq'] + 1}" in said.out
    assert names(team, "--tag", "golden") == [["golden", "release-7"]]
    assert names(team, "--tag", "gold") == []
    assert "golden release-7" in team.run("results", "list").out
    shown = team.run("results", "show", "last").out
    assert "measured beside a backup" in shown
    assert "\x1b[2J" not in shown
    document = team.ask("results", "show", "last")
    assert [tag["team"] for tag in document["tags"]] == ["crew", "crew"]
    assert [note["team"] for note in document["notes"]] == ["crew"]
    assert team.ask("results", "tag", "last", "--remove", "golden")["entry"]["taken"] == ["golden"]
    assert names(team, "--tag", "golden") == []
    bundle = tmp_path / "out.lynx"
    assert team.run("results", "export", "last", "--output", str(bundle)).code == 0
    other = make_team("other", tmp_path)
    _, card = kept_bundle(tmp_path)
    other.ask("key", "trust", str(card))
    mine = tmp_path / "crew.card"
    mine.write_text(team.run("key", "export", "crew").out)
    other.ask("key", "trust", str(mine))
    other.ask("results", "import", str(bundle))
    assert names(other) == [["release-7"]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("tag", "last"), "give a tag, or --remove one"),
        (("tag", "last", "Golden"), "a tag is lower-case letters"),
        (("tag", "last", "a b"), "a tag is lower-case letters"),
        (("tag", "last", *(f"t{n}" for n in range(33))), "32 of them at once"),
        (("tag", "last", "a", "--remove", "a"), "a: put on and taken off at once"),
        (("tag", "nothing", "a"), "nothing"),
        (("note", "last", "--text", "  "), "--text: give 1 to"),
        (("note", "last", "--text", "x" * 4001), "--text: give 1 to"),
    ],
)
def test_what_cannot_be_said_is_one_line(crew: tuple[Team, str], words: tuple[str, ...], says: str) -> None:
    done = crew[0].run("results", *words)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert says in done.err
