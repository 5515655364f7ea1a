"""A folder is recorded in one's own name only where a key of one's own announced or signed the run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lynxbench.errors import EvidenceInvalid, ExitCode, Refused
from lynxbench.evidence.manifest import REGISTERED_FILE
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.record.owning import is_own, refuse_strangers
from lynxbench.record.recording import leave_announcement, record_folder, register_run
from teams import Team, copied_run, make_team, trusts


@pytest.fixture
def me(tmp_path: Path) -> Team:
    return make_team("alpha", tmp_path / "me")


@pytest.fixture
def stranger(tmp_path: Path) -> Team:
    return make_team("rival", tmp_path / "rival")


@pytest.fixture
def folder(spin_run: Path, tmp_path: Path) -> Path:
    """A run of somebody's: nothing in it is signed."""
    return copied_run(spin_run, tmp_path / "runs")


def test_a_strangers_folder_is_recomputed_and_recorded_as_foreign_alone(me: Team, folder: Path) -> None:
    done = me.run("results", "import", str(folder))
    assert done.code == ExitCode.DONE, done.err
    assert "foreign result" in done.out
    assert "--own" in done.out
    assert me.ask("results", "list")["results"] == [], "never beside ours, never `valid` in our name"
    (listed,) = me.ask("results", "foreign")["foreign"]
    assert listed["body"]["tool"] == "lynxbench"
    assert "who measured it" in listed["body"]["missing"]
    assert me.ask("results", "import", str(folder))["new"] == 0, "the same folder again changes nothing"
    document = me.run("results", "import", str(folder / "result.json"))
    assert "foreign result" in document.out, "naming the document is the same as naming its folder"


def test_a_strangers_changed_figures_are_not_recorded_at_all(me: Team, folder: Path) -> None:
    samples = folder / "samples.npz"
    data = bytearray(samples.read_bytes())
    data[len(data) // 2] ^= 1
    samples.write_bytes(data)
    done = me.run("results", "import", str(folder))
    assert done.code == ExitCode.EVIDENCE_INVALID
    assert done.err.count("\n") == 1
    with me.open() as ledger:
        assert ledger.log.head().size == 0


def test_a_strangers_folder_without_samples_is_not_recorded_at_all(me: Team, folder: Path) -> None:
    for name in ("samples.npz", "manifest.json"):
        (folder / name).unlink()
    done = me.run("results", "import", str(folder))
    assert done.code == ExitCode.BAD_INPUT
    assert "samples" in done.err
    with me.open() as ledger:
        assert ledger.log.head().size == 0


def test_whoever_measured_it_says_so(me: Team, folder: Path) -> None:
    assert me.ask("results", "import", str(folder), "--own")["new"] == 1
    assert len(me.ask("results", "list")["results"]) == 1


def test_an_announcement_beside_the_run_shows_that_it_is_ours(me: Team, folder: Path) -> None:
    leave_announcement(RunFolder.open(folder), me.keyring.keys.open("alpha"))
    assert me.ask("results", "import", str(folder))["results"]


def test_an_announcement_in_the_ledger_shows_it_too(me: Team, folder: Path) -> None:
    with me.open() as ledger:
        assert not is_own(ledger, folder, me.keyring)
        register_run(ledger, RunFolder.open(folder), me.keyring.keys.open("alpha"))
        assert is_own(ledger, folder, me.keyring)


@pytest.mark.parametrize("trusted", [False, True])
def test_a_strangers_announcement_is_not_ours(me: Team, stranger: Team, folder: Path, trusted: bool) -> None:
    if trusted:
        trusts(me, stranger)
    leave_announcement(RunFolder.open(folder), stranger.keyring.keys.open("rival"))
    with me.open() as ledger:
        assert not is_own(ledger, folder, me.keyring)
        register_run(ledger, RunFolder.open(folder), stranger.keyring.keys.open("rival"))
        assert not is_own(ledger, folder, me.keyring), "squatting on a run's id in our ledger is no proof"
        with pytest.raises(Refused, match="--own"):
            refuse_strangers(ledger, [folder], me.keyring)


def test_our_announcement_of_another_run_shows_nothing(me: Team, folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(folder, mine)
    registration = mine / "registration.json"
    registration.write_text(registration.read_text().replace(folder.name, "another-run"))
    leave_announcement(RunFolder.open(mine), me.keyring.keys.open("alpha"))
    shutil.copy(mine / REGISTERED_FILE, folder / REGISTERED_FILE)
    with me.open() as ledger:
        assert not is_own(ledger, folder, me.keyring)


def test_an_entry_beside_the_run_counts_in_its_signers_name(
    me: Team, stranger: Team, folder: Path, tmp_path: Path
) -> None:
    with stranger.open() as ledger:
        record_folder(ledger, folder, stranger.keyring.keys.open("rival"))
    with me.open() as ledger, pytest.raises(EvidenceInvalid, match="no key that you trust"):
        is_own(ledger, folder, me.keyring)
    assert me.run("results", "import", str(folder)).code == ExitCode.EVIDENCE_INVALID
    trusts(me, stranger)
    assert me.ask("results", "import", str(folder))["new"] == 1
    (listed,) = me.ask("results", "list")["results"]
    assert listed["standing"]["signed_by"] == ["rival"]
