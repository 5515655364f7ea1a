"""`contract sign`, `agreement` and `collect` through the command line: one clear line, one documented code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import QUICK_CONTRACT
from lynxbench.contract.loader import parse_contract
from teams import Team, make_team, trusts

TEXT = QUICK_CONTRACT + "teams: [alpha, bravo]\n"
CONTRACT = parse_contract(TEXT)


@pytest.fixture
def alpha(tmp_path: Path) -> Team:
    return asked(tmp_path, "alpha")


@pytest.fixture
def bravo(tmp_path: Path) -> Team:
    return asked(tmp_path, "bravo")


def asked(where: Path, name: str) -> Team:
    team = make_team(name, where / name)
    (team.home / "spin.yaml").write_text(TEXT)
    return team


def test_two_teams_sign_by_file_and_both_see_it(alpha: Team, bravo: Team) -> None:
    trusts(alpha, bravo)
    first = alpha.run("contract", "sign", "spin.yaml")
    assert first.code == 0, first.err
    assert "signed by alpha as entry 1" in first.out
    assert "not agreed (1 of 2; missing: bravo)" in first.out
    assert alpha.ask("contract", "sign", "spin.yaml")["new"] is False
    missing = alpha.run("contract", "agreement", CONTRACT.contract_id[:8])
    assert missing.code == 1
    assert "next: bravo: lynxbench contract sign" in missing.out
    written = bravo.ask("contract", "sign", "spin.yaml", "--out", "signed.jsonl")
    assert written["team"] == "bravo"
    assert not (bravo.home / "ledger").exists(), "nothing but the file"
    taken = alpha.ask("contract", "collect", str(bravo.home / "signed.jsonl"))
    assert taken["collected"][0]["teams"] == ["bravo"]
    assert taken["not_taken"] == []
    whole = alpha.ask("contract", "agreement", "spin.yaml")
    assert whole["agreed"] is True
    assert whole["missing"] == []
    assert [signature["team"] for signature in whole["signatures"]] == ["alpha", "bravo"]
    assert alpha.ask("results", "log", "--verify")["tree_size"] == 3, "the text, and two signatures"


def test_the_signed_file_holds_no_private_key(bravo: Team) -> None:
    bravo.ask("contract", "sign", "spin.yaml", "--out", "signed.jsonl")
    private = (bravo.home / "keys" / "bravo.pem").read_text()
    written = (bravo.home / "signed.jsonl").read_text()
    assert all(line not in written for line in private.splitlines()[1:-1])
    assert len(written.splitlines()) == 2
    assert all(json.loads(line)["payloadType"] == "application/vnd.in-toto+json" for line in written.splitlines())


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("sign", "spin.yaml"), 3, "asks alpha, bravo to sign it, not charlie"),
        (("sign", "quickstart"), 2, "names no teams"),
        (("sign", "nowhere.yaml"), 2, "no such file"),
        (("sign", "abcd"), 2, "no contract in"),
        (("sign", "spin.yaml", "--out", "a", "--server", "http://localhost:1"), 2, "exclude each other"),
        (("sign", "spin.yaml", "--ledger", "none"), 2, "needs a ledger"),
        (("collect",), 2, "give files"),
        (("collect", "nowhere.jsonl"), 2, "no such file"),
        (("collect", "spin.yaml"), 5, "envelope"),
        (("collect", "--contract", "spin.yaml"), 2, "which server"),
        (("agreement", "abcd"), 2, "no contract in"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, arguments: tuple[str, ...], code: int, says: str) -> None:
    charlie = asked(tmp_path, "charlie")
    with charlie.open():
        pass
    done = charlie.run("contract", *arguments)
    assert (done.code, done.out) == (code, "")
    assert says in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_file_is_not_overwritten(bravo: Team) -> None:
    bravo.ask("contract", "sign", "spin.yaml", "--out", "signed.jsonl")
    again = bravo.run("contract", "sign", "spin.yaml", "--out", "signed.jsonl")
    assert again.code == 2
    assert "exists already" in again.err


def test_a_contract_that_asks_nobody_is_as_before(alpha: Team) -> None:
    (alpha.home / "plain.yaml").write_text(QUICK_CONTRACT)
    with alpha.open():
        pass
    done = alpha.run("contract", "agreement", "plain.yaml")
    assert done.code == 0
    assert "names no teams" in done.out
    shown = alpha.run("contract", "show", "plain.yaml")
    assert "teams" not in shown.out
    assert "teams: [alpha, bravo]" in alpha.run("contract", "show", "spin.yaml").out


def test_a_template_shows_how_to_ask(alpha: Team) -> None:
    assert alpha.run("contract", "new", "mine.yaml").code == 0
    text = (alpha.home / "mine.yaml").read_text()
    assert "# teams: [ml-platform, infrastructure-sre]" in text
    asking = text.replace("# teams: [ml-platform, infrastructure-sre]", "teams: [ml-platform, infrastructure-sre]  ")
    (alpha.home / "mine.yaml").write_text(asking)
    assert alpha.run("contract", "check", "mine.yaml").code == 0
