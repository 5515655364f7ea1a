"""A stranger with a published bundle and three commands: verify it, see what would run, run it; and forged bundles."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from command_line import QUICK_CONTRACT, CommandRun, lynxbench, lynxbench_here
from lynxbench.evidence.documents import read_result, write_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.record.recording import record_folder
from teams import Team, copied_run, make_team, recorded_run, trusts

PUBLISHED = Path(__file__).parents[2] / "results" / "h200" / "bundles"
PAUSING_PACKAGE = """\
import time
from pathlib import Path

PAUSE_S = float(Path(__file__).with_name("pause.txt").read_text())

def spin():
    time.sleep(PAUSE_S)
    return 1
"""
"""Installed on both machines; how long it pauses is the machine's affair, and the code stays the same."""
CONTRACT = QUICK_CONTRACT.replace("spinning:spin", "pausing_package:spin").replace("restarts: 2", "restarts: 3")


@dataclass(frozen=True)
class Stranger:
    """Somebody with a fresh machine, the workload's package and a bundle: no keys, no trust, no ledger."""

    here: Path
    packages: Path

    def run(self, *arguments: str) -> CommandRun:
        home = str(self.here / "home")
        return lynxbench(*arguments, cwd=self.here, LYNXBENCH_HOME=home, PYTHONPATH=_path(self.packages))

    def read(self, *arguments: str) -> CommandRun:
        return lynxbench_here(*arguments, cwd=self.here, LYNXBENCH_HOME=str(self.here / "home"))


def _path(packages: Path) -> str:
    """The packages in front of what the tests themselves run with."""
    return os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH", ""))))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    (folder / "pausing_package.py").write_text(PAUSING_PACKAGE)
    (folder / "pause.txt").write_text("0.01")
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Path:
    """A bundle of this repository's own making: contract, run, export."""
    home = tmp_path_factory.mktemp("publisher")
    team = make_team("publisher", home)
    (home / "contract.yaml").write_text(CONTRACT)
    done = lynxbench("run", "contract.yaml", cwd=home, **team.environment, PYTHONPATH=_path(packages))
    assert done.code == 0, done.err
    (result,) = team.ask("results", "list")["results"]
    bundle = home / "published.lynx"
    assert team.run("results", "export", result["result_id"], "-o", str(bundle)).code == 0
    return bundle


@pytest.fixture
def stranger(tmp_path: Path, packages: Path) -> Stranger:
    here = tmp_path / "fresh"
    here.mkdir()
    return Stranger(here, packages)


def test_three_commands_on_a_fresh_machine(stranger: Stranger, published: Path) -> None:
    bundle = str(published)
    verified = stranger.run("verify", bundle)
    assert verified.code == 0, verified.out + verified.err
    assert verified.out.startswith("result ")
    assert " holds: " in verified.out.splitlines()[0]
    assert "nobody's signature" in verified.out.splitlines()[0], "the figures need no belief in anybody"
    assert "publisher (runner, witness)" in verified.out
    assert "not in your trust list" in verified.out
    shown = stranger.run("rerun", bundle, "--show")
    assert shown.code == 0, shown.err
    assert f"pausing_package:spin from {stranger.packages / 'pausing_package.py'}, the same file as" in shown.out
    assert "the original holds, computed again from its samples" in shown.out
    assert not (stranger.here / "results").exists()
    done = stranger.run("rerun", bundle, "--yes", "--json")
    said = json.loads(done.out)
    assert said["outcome"] in ("reproduced", "undetermined"), said
    assert done.code == (0 if said["outcome"] == "reproduced" else 6), done.err
    assert (said["outcome"] == "reproduced") == (said["verdict"] == "reproduced")
    assert said["verdict"] != "executor differs", said
    assert said["left_out"] == []
    assert said["effects"]["fp32"]["estimate"] > 0
    (run,) = (stranger.here / "results").iterdir()
    assert read_result(run).result_id == said["rerun_id"]


def test_a_slower_machine_of_the_same_kind_does_not_reproduce_it(stranger: Stranger, published: Path) -> None:
    pause = stranger.packages / "pause.txt"
    pause.write_text("0.02")
    try:
        done = stranger.run("rerun", str(published), "--yes", "--json", "--ledger", "none")
    finally:
        pause.write_text("0.01")
    said = json.loads(done.out)
    assert said["outcome"] in ("not reproduced", "undetermined"), said
    assert done.code == (1 if said["outcome"] == "not reproduced" else 6)
    assert said["effects"]["fp32"]["estimate"] < 0.8


def test_other_code_under_the_same_name_settles_nothing(stranger: Stranger, published: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(stranger.packages, other)
    (other / "pausing_package.py").write_text(PAUSING_PACKAGE + "\n# changed\n")
    done = Stranger(stranger.here, other).run("rerun", str(published), "--yes", "--ledger", "none")
    assert done.code == 6, done.err
    assert done.out.startswith("UNDETERMINED (EXECUTOR DIFFERS): ")
    assert "application.callable_source_sha256" in done.out
    assert "another file than the original's" in done.err


def test_a_team_that_is_trusted_is_said_to_have_signed(stranger: Stranger, published: Path) -> None:
    publisher = Team("publisher", published.parent)
    reader = Team("reader", stranger.here / "home")
    trusts(reader, publisher)
    document = json.loads(stranger.read("verify", str(published), "--json").out)
    (result,) = document["results"]
    assert (document["verdict"], document["holds"], result["signed"]) == ("holds", True, True)
    assert stranger.read("verify", str(published), "--record").code == 3


def test_a_key_that_claims_to_be_a_trusted_team_is_not_that_team(
    stranger: Stranger, spin_run: Path, tmp_path: Path
) -> None:
    reader, real = Team("reader", stranger.here / "home"), make_team("alpha", tmp_path / "real")
    trusts(reader, real)
    forger = recorded_run("alpha", tmp_path / "forger", spin_run, tmp_path / "copied")
    bundle = _exported(forger, tmp_path / "claimed.lynx")
    document = json.loads(stranger.read("verify", str(bundle), "--json").out)
    assert document["results"][0]["signed"] is False


def _exported(team: Team, bundle: Path) -> Path:
    names = [result["result_id"] for result in team.ask("results", "list")["results"]]
    assert team.run("results", "export", *names, "-o", str(bundle)).code == 0
    return bundle


# --- bundles that were made to deceive -------------------------------------------------------------------------------


def _forged(folder: Path, home: Path, bundle: Path) -> Path:
    """A folder that was put in order again, signed by its forger and exported like any other."""
    write_manifest(folder)
    team = make_team("forger", home)
    with team.open() as ledger:
        record_folder(ledger, folder, team.keyring.keys.open("forger"))
    return _exported(team, bundle)


def test_figures_that_their_own_samples_refute_do_not_hold_and_are_not_run(
    stranger: Stranger, spin_run: Path, tmp_path: Path
) -> None:
    folder = copied_run(spin_run, tmp_path / "copied")
    result = read_result(folder)
    (part,) = result.per_precision
    assert part.throughput is not None
    assert part.throughput.estimate is not None
    figure = part.throughput.model_copy(update={"estimate": 10 * part.throughput.estimate})
    lie = result.model_copy(update={"per_precision": (part.model_copy(update={"throughput": figure}),)}).sealed()
    write_result(folder / "result.json", lie)
    bundle = str(_forged(folder, tmp_path / "forger", tmp_path / "forged.lynx"))
    verified = stranger.read("verify", bundle)
    assert verified.code == 5, verified.out
    assert "fp32 throughput: does not hold" in verified.out
    (stranger.here / "spinning.py").write_text("raise SystemExit('executed')")
    for more in (("--show",), ("--yes",)):
        done = stranger.run("rerun", bundle, *more)
        assert done.code == 5, done.out + done.err
        assert "nothing is executed" in done.err
    assert not (stranger.here / "results").exists()


def test_a_bundle_chooses_no_program(stranger: Stranger, spin_run: Path, tmp_path: Path) -> None:
    marker, evil = tmp_path / "executed", tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {marker}\n")
    evil.chmod(0o755)
    folder = copied_run(spin_run, tmp_path / "copied")
    file = folder / "registration.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "surroundings": {"interpreter": str(evil)}}))
    bundle = str(_forged(folder, tmp_path / "forger", tmp_path / "forged.lynx"))
    done = stranger.read("rerun", bundle, "--yes")
    assert done.code == 4, done.err
    assert not marker.exists()


def test_a_flipped_byte_ends_it(stranger: Stranger, published: Path, tmp_path: Path) -> None:
    data = bytearray(published.read_bytes())
    for place in (600, len(data) // 2, len(data) - 2000):
        changed = bytearray(data)
        changed[place] ^= 1
        (tmp_path / "flipped.lynx").write_bytes(changed)
        for verb in (("verify",), ("rerun", "--yes")):
            done = stranger.read(verb[0], str(tmp_path / "flipped.lynx"), *verb[1:])
            assert done.code == 5, done.out + done.err
            assert done.err.count("\n") == 1


def test_contests_and_retractions_travel_with_it(spin_run: Path, stranger: Stranger, tmp_path: Path) -> None:
    team = recorded_run("alpha", tmp_path / "alpha", spin_run, tmp_path / "copied")
    name = read_result(spin_run).result_id
    assert team.run("contest", name, "--reason", "shared cores").code == 0
    contested = stranger.read("verify", str(_exported(team, tmp_path / "contested.lynx")))
    assert contested.code == 0
    assert "shared cores" in contested.out
    assert team.run("retract", name, "--reason", "broken fan").code == 0
    retracted = stranger.read("verify", str(_exported(team, tmp_path / "retracted.lynx")))
    assert retracted.code == 5
    assert "broken fan" in retracted.out


def test_of_several_results_each_is_verified_and_one_has_to_be_named(
    spin_run: Path, published: Path, stranger: Stranger, tmp_path: Path
) -> None:
    team = recorded_run("alpha", tmp_path / "alpha", spin_run, tmp_path / "copied")
    trusts(team, Team("publisher", published.parent))
    assert team.run("results", "import", str(published)).code == 0
    bundle = str(_exported(team, tmp_path / "two.lynx"))
    assert len(json.loads(stranger.read("verify", bundle, "--json").out)["results"]) == 2
    done = stranger.read("rerun", bundle, "--show")
    assert done.code == 2
    assert "holds 2 results" in done.err


@pytest.mark.parametrize("data", [b"", b"\0" * 1024, b"not a bundle\0" * 100])
def test_what_is_no_bundle_is_said_in_one_line(stranger: Stranger, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "odd.lynx").write_bytes(data)
    for verb in ("verify", "rerun"):
        done = stranger.read(verb, str(tmp_path / "odd.lynx"))
        assert done.code in (2, 5), done.out
        assert done.err.count("\n") == 1


def test_a_published_result_of_this_repository_verifies_without_its_keys_and_shows_what_would_run(
    stranger: Stranger,
) -> None:
    bundle = str(PUBLISHED / "llm-decode-8.bundle")
    verified = stranger.read("verify", bundle)
    assert verified.code == 0, verified.out + verified.err
    shown = stranger.read("rerun", bundle, "--show")
    assert shown.code == 0, shown.err
    assert "engine torch of lynxbench, model: source preset" in shown.out
    assert stranger.read("rerun", bundle).code == 3, "nobody to ask"
