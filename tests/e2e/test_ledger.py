"""The ledger through the real command line: recorded, listed, moved between teams, doubted, re-run, attacked."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import PAUSING, QUICK_CONTRACT
from killing import acknowledged_before_kill, stored_in
from lynxbench.errors import ExitCode, LynxbenchError
from lynxbench.evidence.documents import read_result
from lynxbench.ledger.queries import find_run, open_runs
from lynxbench.model.entries import EntryKind, Role
from lynxbench.record.recalling import ledger_checks, recalled
from lynxbench.record.recording import record_folder, seal
from lynxbench.report.documents.result_verdict import result_verdict
from teams import Team, make_team, recorded_run, trusts

pytestmark = pytest.mark.usefixtures("forked_functions")

KILLS = 20


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory, spin_run: Path) -> Team:
    """The team that measured; the run is recorded from its folder."""
    return recorded_run("alpha", tmp_path_factory.mktemp("alpha"), spin_run, tmp_path_factory.mktemp("copied"))


@pytest.fixture(scope="module")
def result_id(alpha: Team) -> str:
    found: str = alpha.ask("results", "list")["results"][0]["result_id"]
    return found


# --- recording --------------------------------------------------------------------------------------------------------


def test_a_run_is_announced_recorded_listed_and_shown(spin_folder: Path, tmp_path: Path) -> None:
    team = make_team("alpha", tmp_path / "home")
    done = team.run("run", "spin.yaml", "--out", str(tmp_path / "out"), cwd=spin_folder)
    assert done.code == 0, done.err
    (folder,) = (tmp_path / "out").iterdir()
    listed = team.ask("results", "list", "--precision", "fp32", "--since", "2020-01-01")
    (one,) = listed["results"]
    assert one["run_id"] == folder.name
    assert one["standing"]["registered"] is True
    assert one["standing"]["signed_by"] == ["alpha"]
    assert listed["unfinished"] == []
    assert f"lynxbench verify {one['result_id'][:12]}" in done.out
    assert f"lynxbench contest {one['result_id'][:12]}" in done.out
    shown = team.run("results", "show", one["result_id"][:8])
    assert f"\n{result_verdict(read_result(folder)).mark.upper()}: " in shown.out
    assert "registration: " + folder.name in shown.out
    again = team.ask("results", "import", str(folder))
    assert again["new"] == 0, "recording a folder twice changes nothing"
    assert team.ask("results", "log", "--verify")["tree_size"] == 3, "contract, registration, result"
    for nothing in (["--precision", "int8"], ["--valid", "void"], ["--since", "2999-01-01"]):
        assert team.ask("results", "list", *nothing)["results"] == []


def test_a_result_is_laid_out_again_as_the_run_left_it(alpha: Team, result_id: str, spin_run: Path) -> None:
    with recalled(result_id[:9], None, alpha.environment) as found:
        names = {one.relative_to(found.folder) for one in found.folder.rglob("*") if one.is_file()}
        assert {Path("result.json"), Path("samples.npz"), Path("registration.json")} <= names
        for name in names - {Path("entry.dsse.json")}:
            assert (found.folder / name).read_bytes() == (spin_run / name).read_bytes()
    with alpha.open() as ledger:
        checks = {check.name: check.outcome.value for check in ledger_checks(ledger, result_id, alpha.keyring.trust)}
    assert checks["log inclusion"] == checks["signatures"] == "holds"
    assert checks["registration"] == "cannot be recomputed", "it was recorded from its folder, not announced"


def test_a_broken_ledger_never_costs_a_run(spin_folder: Path, tmp_path: Path) -> None:
    where = "postgresql://nobody@127.0.0.1:1/none"
    team = make_team("alpha", tmp_path / "home")
    done = team.run("run", "spin.yaml", "--out", str(tmp_path / "out"), "--ledger", where, cwd=spin_folder)
    assert done.code == 0, done.err
    assert "not recorded: " in done.err
    (folder,) = (tmp_path / "out").iterdir()
    assert f"lynxbench results import {folder}" in done.err
    assert team.ask("results", "import", str(folder))["new"] == 1


def _long(folder: Path) -> Path:
    folder.mkdir()
    contract = QUICK_CONTRACT.replace("duration: 400 ms", "duration: 1 s").replace("limit: 600 ms", "limit: 1 s")
    (folder / "spin.yaml").write_text(contract)
    (folder / "spinning.py").write_text(PAUSING)
    return folder


def test_an_interrupted_run_is_abandoned_and_may_still_have_its_result(tmp_path: Path) -> None:
    team, folder = make_team("alpha", tmp_path / "home"), _long(tmp_path / "work")
    run = subprocess.Popen(
        [sys.executable, "-m", "lynxbench", "run", "spin.yaml"],
        cwd=folder,
        env={**os.environ, **team.environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 300
    while not list(folder.glob("results/*/attempts/000-01/iterations.bin")) and time.monotonic() < deadline:
        time.sleep(0.05)
    with team.open() as ledger:
        (announced,) = open_runs(ledger.log)
    os.kill(run.pid, signal.SIGINT)
    run.communicate(timeout=600)
    assert run.returncode == 130
    with team.open() as ledger:
        (left,) = find_run(ledger.log, announced.run_id, EntryKind.ABANDONED)
        assert open_runs(ledger.log) == []
    assert "interrupted" in getattr(left.entry.body, "reason", "")
    resumed = team.run("run", "spin.yaml", "--resume", cwd=folder)
    (one,) = team.ask("results", "list")["results"]
    # On a machine that is kept busy too little may be counted in its second: a result all the same, and a void one.
    assert resumed.code == (ExitCode.VERDICT_NO if one["validity"] == "void" else ExitCode.DONE), resumed.err
    assert one["run_id"] == announced.run_id
    assert one["standing"]["registered"] is True


def test_a_folder_that_changed_or_carries_a_foreign_entry_is_not_recorded(spin_run: Path, tmp_path: Path) -> None:
    team, folder = make_team("alpha", tmp_path / "home"), tmp_path / spin_run.name
    shutil.copytree(spin_run, folder)
    (folder / "entry.dsse.json").unlink(missing_ok=True)
    key = team.keyring.keys.open("alpha")
    with team.open() as ledger:
        report = next(iter(sorted(folder.glob("attempts/*/report.json"))))
        kept = report.read_bytes()
        report.write_bytes(kept + b" ")
        with pytest.raises(LynxbenchError, match="when the run ended"):
            record_folder(ledger, folder, key)
        report.write_bytes(kept)
        (folder / "extra.json").symlink_to("/etc/passwd")
        with pytest.raises(LynxbenchError, match="symbolic link"):
            record_folder(ledger, folder, key)
        (folder / "extra.json").unlink()
        assert ledger.log.head().size == 0
        assert record_folder(ledger, folder, key).new
        entry = ledger.log.read(1)
    other = make_team("bravo", tmp_path / "bravo")
    forged = seal(entry.entry.body.model_copy(update={"nonce": "another"}), key, entry.entry.blobs)
    (folder / "entry.dsse.json").write_bytes(forged.to_bytes())
    with other.open() as ledger, pytest.raises(LynxbenchError, match="not the entry of this result"):
        record_folder(ledger, folder, other.keyring.keys.open("bravo"))
    (folder / "entry.dsse.json").write_bytes(entry.envelope.to_bytes())
    with other.open() as ledger:
        seq = record_folder(ledger, folder, other.keyring.keys.open("bravo")).seq
        assert ledger.log.read(seq).envelope == entry.envelope, "one result has one entry, whoever records it"


# --- kill -9 ----------------------------------------------------------------------------------------------------------


def test_kill_minus_nine_loses_no_acknowledged_entry(tmp_path: Path) -> None:
    url, chance = f"sqlite:///{tmp_path / 'ledger.sqlite'}", random.Random(9)
    acknowledged: set[str] = set()
    for kill in range(KILLS):
        acknowledged |= acknowledged_before_kill(url, str(kill), chance.uniform(0, 0.12))
        assert acknowledged <= stored_in(url)
    assert acknowledged, "otherwise no kill came after an acknowledgement"


# --- the log ----------------------------------------------------------------------------------------------------------


def test_checkpoints_are_written_cosigned_and_proven(alpha: Team, tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.json"
    assert alpha.run("results", "log", "--checkpoint", str(file)).code == 0
    bravo = make_team("bravo", tmp_path / "bravo")
    trusts(bravo, alpha)
    ledger = str(alpha.home / "ledger")
    assert bravo.run("results", "log", "--cosign", str(file), "--ledger", ledger).code == 0
    trusts(alpha, bravo)
    document = alpha.ask("results", "log", "--against", str(file), "--verify")
    assert document["checkpoints"][0]["teams"] == ["alpha", "bravo"]
    assert "all as recorded" in document["verified"]


def test_a_ledger_that_was_rolled_back_exits_with_five(spin_run: Path, tmp_path: Path) -> None:
    team = make_team("alpha", tmp_path / "home")
    folder = tmp_path / spin_run.name
    shutil.copytree(spin_run, folder)
    (folder / "entry.dsse.json").unlink(missing_ok=True)
    assert team.run("results", "log").code == 2, "there is none yet"
    result = team.ask("results", "import", str(folder), "--own")["results"][0]
    shutil.copytree(tmp_path / "home" / "ledger", tmp_path / "early")
    assert team.run("contest", result, "--reason", "doubt").code == 0
    shutil.rmtree(tmp_path / "home" / "ledger")
    shutil.copytree(tmp_path / "early", tmp_path / "home" / "ledger")
    for words in (["results", "list"], ["results", "log"], ["results", "show", result]):
        done = team.run(*words)
        assert done.code == 5, done.out + done.err
        assert "entries were taken away" in done.err
    assert team.run("results", "log", "--accept").code == 0
    assert team.run("results", "list").code == 0


# --- rerun ------------------------------------------------------------------------------------------------------------


def test_rerun_executes_the_same_contract_and_says_what_came_of_it(tmp_path: Path) -> None:
    team = make_team("alpha", tmp_path / "home")
    contract = QUICK_CONTRACT.replace("restarts: 2", "restarts: 3") + "policy: {regression: 60 %}\n"
    (tmp_path / "spin.yaml").write_text(contract)
    (tmp_path / "spinning.py").write_text(PAUSING)
    assert team.run("run", "spin.yaml", cwd=tmp_path).code == 0
    original = team.ask("results", "list")["results"][0]["result_id"]
    out = str(tmp_path / "out")
    done = team.run("rerun", original[:10], "--yes", "--out", out, "--json", cwd=tmp_path)
    said = json.loads(done.out)
    assert said["verdict"] in ("reproduced", "inconclusive"), said
    assert done.code == (0 if said["verdict"] == "reproduced" else 6)
    assert said["effects"]["fp32"]["estimate"] > 0
    shown = team.ask("results", "show", original)
    assert [one["text"] for one in shown["standing"]["reruns"]] == [said["verdict"]]
    (tmp_path / "spinning.py").write_text(PAUSING.replace("0.01", "0.04"))
    done = team.run("rerun", original[:10], "--yes", "--out", out, cwd=tmp_path)
    assert "EXECUTOR DIFFERS" in done.out
    assert "application.callable_source_sha256" in done.out
    assert "(the spinners)" in done.out


@pytest.mark.parametrize(
    "words", [["results", "show", "zzzz"], ["results", "show", "abcd1234"], ["contest", "no/such", "--reason", "x"]]
)
def test_an_unknown_name_is_said(alpha: Team, words: list[str]) -> None:
    done = alpha.run(*words)
    assert done.code == 2
    assert done.err.count("\n") == 1


def test_an_unsettled_key_is_said_before_anything_is_measured(spin_folder: Path, tmp_path: Path) -> None:
    """Found: the run measured to its end, and was not recorded: 2 keys."""
    team = make_team("alpha", tmp_path / "home")
    team.keyring.create("second", "bravo", (Role.RUNNER,), datetime.now(UTC))
    out = tmp_path / "out"
    done = team.run("run", "spin.yaml", "--out", str(out), cwd=spin_folder)
    assert done.code == 2, done.err
    assert "lynxbench key use" in done.err
    assert not out.exists(), "nothing was registered, and nothing measured"
    assert team.run("key", "use", "bravo").code == 0
    done = team.run("run", "spin.yaml", "--out", str(out), cwd=spin_folder)
    assert done.code == 0, done.err
    assert "not recorded" not in done.err
