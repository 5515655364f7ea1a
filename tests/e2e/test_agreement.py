"""A contract between two teams, from signatures to a run to every place where its result is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import PAUSING, QUICK_CONTRACT
from teams import Team, make_team, trusts

ASKING = QUICK_CONTRACT + "teams: [alpha, bravo]\n"
PARTLY = "not agreed (1 of 2; missing: bravo)"

pytestmark = pytest.mark.usefixtures("forked_functions")


@pytest.fixture(scope="module")
def teams(tmp_path_factory: pytest.TempPathFactory) -> tuple[Team, Team]:
    """Two teams; the first measured once when the other had not signed, once when it had."""
    alpha, bravo = (make_team(name, tmp_path_factory.mktemp(name)) for name in ("alpha", "bravo"))
    trusts(alpha, bravo)
    for team in (alpha, bravo):
        (team.home / "spin.yaml").write_text(ASKING)
        (team.home / "spinning.py").write_text(PAUSING)
    alpha.ask("contract", "sign", "spin.yaml")
    early = alpha.run("run", "spin.yaml", "--out", "early")
    assert early.code == 0, early.err
    assert PARTLY in early.err, "told before the first sample"
    assert "lynxbench contract sign" in early.err
    assert PARTLY in early.out
    bravo.ask("contract", "sign", "spin.yaml", "--out", "signed.jsonl")
    alpha.ask("contract", "collect", str(bravo.home / "signed.jsonl"))
    later = alpha.run("run", "spin.yaml", "--out", "later")
    assert later.code == 0, later.err
    assert "not agreed" not in later.err + later.out
    assert "agreed (2 of 2)" in later.out
    return alpha, bravo


LATE = "agreed after the run (1 of 2 before it; late: bravo)"


def results(alpha: Team) -> tuple[str, str]:
    """The result that was not agreed, and the one that was."""
    later, early = alpha.ask("results", "list")["results"]
    return early["result_id"], later["result_id"]


def test_lists_and_documents_say_it(teams: tuple[Team, Team]) -> None:
    alpha, _ = teams
    later, early = alpha.ask("results", "list")["results"]
    assert early["standing"]["agreement"]["signatures"][1]["in_time"] is False
    assert LATE in early["standing"]["words"]
    assert "agreed (2 of 2)" in later["standing"]["words"]
    listed = alpha.run("results", "list").out
    assert listed.count(LATE) == 1
    for name, words in ((early["result_id"], LATE), (later["result_id"], "agreed (2 of 2)")):
        assert words in alpha.run("results", "show", name[:10]).out
        assert words in alpha.run("report", name[:10]).out
        assert words in alpha.run("report", name[:10], "--format", "md").out
        assert words in alpha.run("report", name[:10], "--format", "html").out
        assert words in alpha.run("report", name[:10], "--json").err
        assert json.loads(alpha.run("report", name[:10], "--json").out)["result_id"] == name


def test_reports_beside_the_run_say_it(teams: tuple[Team, Team]) -> None:
    alpha, _ = teams
    for folder, words in (("early", PARTLY), ("later", "agreed (2 of 2)")):
        (run,) = (alpha.home / folder).iterdir()
        assert words in (run / "report.html").read_text()
        assert words in (run / "report.md").read_text()


def test_comparisons_and_histories_say_it(teams: tuple[Team, Team]) -> None:
    alpha, _ = teams
    early, later = results(alpha)
    compared = json.loads(alpha.run("compare", early[:10], later[:10], "--json").out)
    said = [rule["said"] for rule in compared["rules"] if rule["rule"] == "R16"]
    assert len(said) == 1
    assert LATE in said[0]
    history = alpha.ask("history", "spin.yaml")
    assert [point["agreement"] for point in history["points"]] == [LATE, "agreed (2 of 2)"]
    assert "1 agreed (2 of 2)" in alpha.run("history", "spin.yaml").out


def test_without_the_ledger_nobody_is_shown_to_have_agreed(teams: tuple[Team, Team]) -> None:
    _, bravo = teams
    alpha = teams[0]
    (run,) = (alpha.home / "later").iterdir()
    told = bravo.run("report", str(run)).out
    assert "not agreed (0 of 2; missing: alpha, bravo; no ledger that was asked holds this result)" in told


def test_another_team_reads_the_same_where_it_trusts_the_same(teams: tuple[Team, Team], tmp_path: Path) -> None:
    alpha, bravo = teams
    early, later = results(alpha)
    alpha.ask("results", "export", early, later, "-o", str(tmp_path / "both.lynx"))
    trusts(bravo, alpha)
    bravo.ask("results", "import", str(tmp_path / "both.lynx"))
    words = {row["result_id"]: row["standing"]["words"] for row in bravo.ask("results", "list")["results"]}
    assert LATE in words[early]
    assert "agreed (2 of 2)" in words[later]


def test_a_stranger_to_the_teams_sees_who_is_missing(teams: tuple[Team, Team], tmp_path: Path) -> None:
    alpha, _ = teams
    _, later = results(alpha)
    other = make_team("other", tmp_path / "other")
    trusts(other, alpha)
    alpha.ask("results", "export", later, "-o", str(tmp_path / "later.lynx"))
    refused = other.run("results", "import", str(tmp_path / "later.lynx"))
    assert refused.code == 5, "bravo's signature travels with the result, and its key is not trusted here"
    assert "the bundle says it is bravo's key" in refused.err
