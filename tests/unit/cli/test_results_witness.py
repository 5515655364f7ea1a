"""`results witness` and the witnesses of `results log`, through the real command line, with files alone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from command_line import CommandRun, lynxbench_here
from ledgers import decision
from lynxbench.record.recording import seal
from recording_teams import Team, make_team


@pytest.fixture
def alpha(tmp_path: Path) -> Team:
    """The keeper of a log of three entries."""
    team = make_team("alpha", tmp_path / "teams")
    append(team, "one", "two", "three")
    return team


@pytest.fixture
def bravo(tmp_path: Path, alpha: Team) -> Team:
    """A team that trusts the keeper, and the other way round."""
    team = make_team("bravo", tmp_path / "teams")
    for here, there in ((alpha, team), (team, alpha)):
        card = tmp_path / f"{there.name}.json"
        card.write_text(run(there, "key", "export", there.name).out)
        assert run(here, "key", "trust", str(card)).code == 0
    return team


def run(team: Team, *words: str) -> CommandRun:
    return lynxbench_here(*words, cwd=team.home, **team.environment)


def append(team: Team, *texts: str) -> None:
    with team.open() as ledger:
        ledger.log.append_all([seal(decision(text), team.key) for text in texts])
        ledger.seen.check(ledger.log)


def checkpoint(team: Team, file: Path, *words: str) -> str:
    done = run(team, "results", "log", "--checkpoint", str(file), *words)
    assert done.code == 0, done.err
    return done.err


def test_a_log_is_witnessed_by_files_and_says_by_whom_and_when(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    assert "no outside witness" in run(alpha, "results", "log", "--verify").out
    file = tmp_path / "monday.note"
    told = checkpoint(alpha, file)
    assert "the log's key, for other programs: lynxbench-ledger-" in told
    done = run(bravo, "results", "witness", str(file), "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert (document["tree_size"], document["seen_before"], document["team"]) == (3, 0, "bravo")
    assert document["verifier_key"].startswith("lynxbench-witness/bravo+")
    kept = run(alpha, "results", "log", "--witnessed", str(file), "--verify")
    assert kept.code == 0, kept.err
    assert "1 outside the keeper's team" in kept.out
    assert "bravo saw 3 entries at 20" in kept.out
    (witness,) = json.loads(run(alpha, "results", "log", "--json").out)["witnesses"]
    assert (witness["team"], witness["tree_size"]) == ("bravo", 3)
    append(alpha, "four", "five")
    checkpoint(alpha, file)
    refused = run(bravo, "results", "witness", str(file))
    assert refused.code == 3
    assert "--since 3" in refused.err
    checkpoint(alpha, file, "--since", "3")
    assert run(bravo, "results", "witness", str(file), "--out", str(tmp_path / "seen.note")).code == 0
    assert run(alpha, "results", "log", "--witnessed", str(tmp_path / "seen.note")).code == 0
    assert "bravo saw 5 entries" in run(alpha, "results", "log").out
    listed = json.loads(run(bravo, "results", "witness", "--json").out)
    assert [(log["tree_size"], log["team"]) for log in listed["logs"]] == [(5, "alpha")]
    assert listed["split_views"] == []


def test_a_rollback_ends_in_five_and_a_fork_is_shown(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    early, late = tmp_path / "early.note", tmp_path / "late.note"
    checkpoint(alpha, early)
    shutil.copytree(alpha.home / "ledger", tmp_path / "copy")
    append(alpha, "four")
    checkpoint(alpha, late)
    assert run(bravo, "results", "witness", str(late)).code == 0
    old = run(bravo, "results", "witness", str(early))
    assert old.code == 5
    assert "rolled back" in old.err
    assert old.err.count("\n") == 1
    # the keeper shows others another fourth entry
    shutil.rmtree(alpha.home / "ledger")
    shutil.copytree(tmp_path / "copy", alpha.home / "ledger")
    assert run(alpha, "results", "log", "--accept").code == 0
    append(alpha, "another four")
    checkpoint(alpha, early)
    lie = run(bravo, "results", "witness", str(early))
    assert lie.code == 5
    assert "two histories of 4 entries" in lie.err
    assert "SPLIT VIEW: ledger lynxbench-ledger-" in run(bravo, "results", "witness").out
    (split,) = json.loads(run(bravo, "results", "witness", "--json").out)["split_views"]
    assert len(split["notes"]) == 2


def test_a_stranger_is_not_witnessed_and_a_log_is_forgotten_on_purpose(
    alpha: Team, bravo: Team, tmp_path: Path
) -> None:
    stranger, file = make_team("stranger", tmp_path / "teams"), tmp_path / "x.note"
    append(stranger, "one")
    checkpoint(stranger, file)
    refused = run(bravo, "results", "witness", str(file))
    assert refused.code == 5
    assert "no trusted signature" in refused.err
    checkpoint(alpha, file)
    assert run(bravo, "results", "witness", str(file)).code == 0
    origin = json.loads(run(bravo, "results", "witness", "--json").out)["logs"][0]["origin"]
    assert run(bravo, "results", "witness", "--forget", origin).out == "no log was witnessed here yet\n"
    assert run(bravo, "results", "witness", "--forget", origin).code == 2


def test_both_forms_are_written_proven_and_cosigned(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    for name in ("state.note", "state.json"):
        file = tmp_path / name
        checkpoint(alpha, file)
        assert file.read_bytes().startswith(b"{") is (name == "state.json")
        assert run(bravo, "results", "log", "--cosign", str(file), "--ledger", str(alpha.home / "ledger")).code == 0
        done = run(alpha, "results", "log", "--against", str(file), "--verify")
        assert done.code == 0, done.err
        assert "begins with the 3 entries of" in done.out
    assert "bravo saw 3 entries" in run(alpha, "results", "log").out, "kept in the ledger that was read"
    text = (tmp_path / "state.note").read_text()
    (tmp_path / "bent.note").write_text(text.replace("\n3\n", "\n2\n"))
    bent = run(alpha, "results", "log", "--against", str(tmp_path / "bent.note"))
    assert bent.code == 5
    assert "does not hold" in bent.err


@pytest.mark.parametrize(
    "words",
    [
        ["results", "witness", "no-such-file"],
        ["results", "log", "--checkpoint", "x.json", "--since", "1"],
        ["results", "log", "--since", "1"],
        ["results", "log", "--checkpoint", "x.note", "--since", "99"],
        ["results", "log", "--checkpoint", "no/such/folder/x.note"],
        ["results", "log", "--witnessed", "no-such-file"],
    ],
)
def test_bad_words_are_said_in_one_line(alpha: Team, words: list[str]) -> None:
    done = run(alpha, *words)
    assert done.code == 2, done.out
    assert done.err.count("\n") == 1


def test_a_pipe_is_not_waited_for(alpha: Team, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for words in (["witness"], ["log", "--witnessed"], ["log", "--against"], ["log", "--cosign"]):
        done = run(alpha, "results", *words, str(tmp_path / "pipe"))
        assert done.code == 2
        assert "not a plain file" in done.err


def test_a_file_that_is_no_checkpoint(alpha: Team, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello\n")
    for words in (["witness", str(tmp_path / "x")], ["log", "--witnessed", str(tmp_path / "x")]):
        done = run(alpha, "results", *words)
        assert done.code == 5
        assert done.err.count("\n") == 1
