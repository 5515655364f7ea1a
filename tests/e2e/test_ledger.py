"""The ledger through the real command line: recorded, listed, moved between teams, doubted, re-run, attacked."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import QUICK_CONTRACT, SPINNING, CommandRun, lynxbench
from lynxbench.errors import LynxbenchError
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.bundle import import_bundle, read_bundle
from lynxbench.ledger.location import locate, open_ledger
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.queries import find_run, open_runs
from lynxbench.model.entries import EntryKind, Role
from lynxbench.recalling import ledger_checks, recalled
from lynxbench.recording import record_folder, seal

FLIPS = 10_000
KILLS = 20


@dataclass(frozen=True)
class Team:
    """A person of a team, with keys, trust and ledger of their own."""

    name: str
    home: Path

    def run(self, *arguments: str, cwd: Path | None = None, **more: str) -> CommandRun:
        return lynxbench(*arguments, cwd=cwd or self.home, LYNXBENCH_HOME=str(self.home), **more)

    def ask(self, *arguments: str) -> dict:  # type: ignore[type-arg]
        done = self.run(*arguments, "--json")
        assert done.code == 0, done.err
        found: dict = json.loads(done.out)  # type: ignore[type-arg]
        return found

    @property
    def environment(self) -> dict[str, str]:
        return {"LYNXBENCH_HOME": str(self.home)}

    @property
    def keyring(self) -> Keyring:
        return Keyring(environment=self.environment)

    def open(self):  # type: ignore[no-untyped-def]
        location = locate(None, self.environment)
        assert location is not None
        return open_ledger(location, self.environment, create=True)


def _team(name: str, home: Path) -> Team:
    team = Team(name, home)
    team.keyring.create(name, name, (Role.RUNNER, Role.WITNESS), datetime.now(UTC))
    return team


def _trust(one: Team, other: Team) -> None:
    card = other.keyring.keys.card(other.name)
    one.keyring.change_trust(lambda trust: trust.adding(card, datetime.fromisoformat(card.made_at)))


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory, spin_run: Path) -> Team:
    """The team that measured; the run is recorded from its folder."""
    team = _team("alpha", tmp_path_factory.mktemp("alpha"))
    copy = tmp_path_factory.mktemp("copied") / spin_run.name
    shutil.copytree(spin_run, copy)
    (copy / "entry.dsse.json").unlink(missing_ok=True)
    with team.open() as ledger:
        record_folder(ledger, copy, team.keyring.keys.open("alpha"))
    return team


@pytest.fixture(scope="module")
def result_id(alpha: Team) -> str:
    found: str = alpha.ask("results", "list")["results"][0]["result_id"]
    return found


@pytest.fixture(scope="module")
def bundle(alpha: Team, result_id: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "results.lynx"
    done = alpha.run("results", "export", result_id[:10], "-o", str(path))
    assert done.code == 0, done.err
    return path


# --- recording --------------------------------------------------------------------------------------------------------


def test_a_run_is_announced_recorded_listed_and_shown(spin_folder: Path, tmp_path: Path) -> None:
    team = _team("alpha", tmp_path / "home")
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
    assert "VERDICT" in shown.out
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
    team = _team("alpha", tmp_path / "home")
    done = team.run("run", "spin.yaml", "--out", str(tmp_path / "out"), "--ledger", where, cwd=spin_folder)
    assert done.code == 0, done.err
    assert "not recorded: " in done.err
    (folder,) = (tmp_path / "out").iterdir()
    assert f"lynxbench results import {folder}" in done.err
    assert team.ask("results", "import", str(folder))["new"] == 1


def _long(folder: Path) -> Path:
    folder.mkdir()
    contract = QUICK_CONTRACT.replace("duration: 400 ms", "duration: 3 s").replace("limit: 600 ms", "limit: 4 s")
    (folder / "spin.yaml").write_text(contract)
    (folder / "spinning.py").write_text(SPINNING)
    return folder


def test_an_interrupted_run_is_abandoned_and_may_still_have_its_result(tmp_path: Path) -> None:
    team, folder = _team("alpha", tmp_path / "home"), _long(tmp_path / "work")
    run = subprocess.Popen(
        [sys.executable, "-m", "lynxbench", "run", "spin.yaml"],
        cwd=folder,
        env={**os.environ, **team.environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(folder.glob("results/*/attempts/000-01/iterations.bin")) and time.monotonic() < deadline:
        time.sleep(0.05)
    with team.open() as ledger:
        (announced,) = open_runs(ledger.log)
    os.kill(run.pid, signal.SIGINT)
    run.communicate(timeout=60)
    assert run.returncode == 130
    with team.open() as ledger:
        (left,) = find_run(ledger.log, announced.run_id, EntryKind.ABANDONED)
        assert open_runs(ledger.log) == []
    assert "interrupted" in getattr(left.entry.body, "reason", "")
    assert team.run("run", "spin.yaml", "--resume", cwd=folder).code == 0
    (one,) = team.ask("results", "list")["results"]
    assert one["run_id"] == announced.run_id
    assert one["standing"]["registered"] is True


def test_a_folder_that_changed_or_carries_a_foreign_entry_is_not_recorded(spin_run: Path, tmp_path: Path) -> None:
    team, folder = _team("alpha", tmp_path / "home"), tmp_path / spin_run.name
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
    other = _team("bravo", tmp_path / "bravo")
    forged = seal(entry.entry.body.model_copy(update={"nonce": "another"}), key, entry.entry.blobs)
    (folder / "entry.dsse.json").write_bytes(forged.to_bytes())
    with other.open() as ledger, pytest.raises(LynxbenchError, match="not the entry of this result"):
        record_folder(ledger, folder, other.keyring.keys.open("bravo"))
    (folder / "entry.dsse.json").write_bytes(entry.envelope.to_bytes())
    with other.open() as ledger:
        seq = record_folder(ledger, folder, other.keyring.keys.open("bravo")).seq
        assert ledger.log.read(seq).envelope == entry.envelope, "one result has one entry, whoever records it"


# --- kill -9 ----------------------------------------------------------------------------------------------------------

APPENDER = """
import sys
from ledgers import decision, key_of, sealed
from lynxbench.ledger.log import Ledger
key = key_of("alpha")
with Ledger(sys.argv[1]) as ledger:
    print("ready", flush=True)
    number = 0
    while True:
        envelope = sealed(decision(f"{sys.argv[2]} {number}"), key)
        ledger.append(envelope)
        print(envelope.to_bytes().hex(), flush=True)
        number += 1
"""


def test_kill_minus_nine_loses_no_acknowledged_entry(tmp_path: Path) -> None:
    url, chance = f"sqlite:///{tmp_path / 'ledger.sqlite'}", random.Random(9)
    acknowledged: set[str] = set()
    support = str(Path(__file__).parents[1] / "support")
    for kill in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, "-c", APPENDER, url, str(kill)],
            env={**os.environ, "PYTHONPATH": support},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        with child.stdout:
            assert child.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0, 0.12))
            child.kill()
            lines = child.stdout.read().split("\n")
        child.wait()
        acknowledged |= set(lines[:-1])  # what follows the last line break was cut off in the middle
        with Ledger(url) as ledger:
            assert ledger.recompute() == ledger.head()
            stored = {one.envelope.to_bytes().hex() for one in ledger.read_all(range(ledger.head().size))}
        assert acknowledged <= stored
    assert len(acknowledged) > KILLS


# --- bundles ----------------------------------------------------------------------------------------------------------


def test_a_bundle_moves_a_result_with_everything_said_about_it(
    alpha: Team, bundle: Path, result_id: str, tmp_path: Path
) -> None:
    bravo = _team("bravo", tmp_path / "bravo")
    refused = bravo.run("results", "import", str(bundle))
    assert refused.code == 5
    assert "no trusted signature" in refused.err
    _trust(bravo, alpha)
    assert bravo.ask("results", "import", str(bundle))["new"] == 2
    assert bravo.ask("results", "import", str(bundle))["new"] == 0
    done = bravo.run("contest", result_id[:12], "--reason", "the client shared a core with the server")
    assert done.code == 0, done.err
    refused = bravo.run("retract", result_id[:12], "--reason", "not ours")
    assert refused.code == 3
    assert "only its own team retracts" in refused.err
    back = tmp_path / "back.lynx"
    assert bravo.run("results", "export", result_id, "-o", str(back)).code == 0
    third = _team("charlie", tmp_path / "charlie")
    _trust(third, alpha)
    _trust(third, bravo)
    assert third.ask("results", "import", str(back))["teams"] == ["alpha", "bravo"]
    (one,) = third.ask("results", "list")["results"]
    assert one["standing"]["summary"] == "contested"
    assert one["standing"]["contested"][0]["by"] == "bravo"
    assert "contested by bravo: the client shared a core" in third.run("results", "show", result_id[:12]).out


def test_only_the_own_team_retracts(spin_run: Path, tmp_path: Path) -> None:
    team = _team("alpha", tmp_path / "home")
    folder = tmp_path / spin_run.name
    shutil.copytree(spin_run, folder)
    (folder / "entry.dsse.json").unlink(missing_ok=True)
    result = team.ask("results", "import", str(folder))["results"][0]
    assert team.run("retract", result[:12], "--reason", "the fan was broken").code == 0
    shown = team.run("results", "list")
    assert "retracted" in shown.out
    assert "retracted by alpha: the fan was broken" in team.run("results", "show", result[:12]).out


def test_ten_thousand_flipped_bits_are_all_found(alpha: Team, bundle: Path, tmp_path: Path) -> None:
    data, trust = bytearray(bundle.read_bytes()), alpha.keyring.trust
    assert read_bundle(bundle, trust).manifest.results
    bent = tmp_path / "bent.lynx"
    bent.write_bytes(data)
    chance, missed = random.Random(8785), []
    with bent.open("r+b", buffering=0) as stream:
        for _ in range(FLIPS):
            bit = chance.randrange(len(data) * 8)
            place, was = bit // 8, data[bit // 8]
            os.pwrite(stream.fileno(), bytes([was ^ 1 << bit % 8]), place)
            try:
                read_bundle(bent, trust)
                missed.append(bit)
            except LynxbenchError:  # anything else is a crash, and fails this test
                pass
            os.pwrite(stream.fileno(), bytes([was]), place)
    assert missed == []
    assert read_bundle(bent, trust).manifest.results


@pytest.mark.parametrize("keep", [0, 1, 511, 512, 5000, -512, -1024, -1])
def test_a_truncated_bundle_is_refused(alpha: Team, bundle: Path, tmp_path: Path, keep: int) -> None:
    data = bundle.read_bytes()
    (tmp_path / "cut.lynx").write_bytes(data[:keep])
    _refused(alpha, tmp_path / "cut.lynx")


def _refused(team: Team, path: Path) -> str:
    with team.open() as ledger, contextlib.ExitStack() as stack:
        error = stack.enter_context(pytest.raises(LynxbenchError))
        import_bundle(ledger, path, team.keyring.trust)
    assert error.value.exit_code in (2, 5)
    assert "\n" not in str(error.value)
    return str(error.value)


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], after: bytes = b"") -> Path:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for facts, content in members:
            facts.size = facts.size or len(content)
            archive.addfile(facts, io.BytesIO(content))
    if after:
        path.write_bytes(path.read_bytes() + after)
    return path


def _info(name: str, **facts: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in facts.items():
        setattr(info, key, value)
    return info


def test_hostile_archives_are_refused(alpha: Team, bundle: Path, tmp_path: Path) -> None:
    link = _info("blobs/" + "a" * 64, type=tarfile.SYMTYPE, linkname="/etc/passwd")
    _refused(alpha, _tar(tmp_path / "link.lynx", (link, b"")))
    for number, name in enumerate(("../../etc/passwd", "/etc/passwd", "entries/../manifest.json", "MANIFEST.JSON")):
        _refused(alpha, _tar(tmp_path / f"path{number}.lynx", (_info(name), b"{}")))
    bomb = tmp_path / "bomb.lynx"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", bytes(20_000_000))
    assert "not a bundle" in _refused(alpha, bomb)
    huge = _info("manifest.json", size=7 << 30)
    huge_header = huge.tobuf(tarfile.USTAR_FORMAT)
    (tmp_path / "huge.lynx").write_bytes(huge_header + bytes(2048))
    assert "more than the file holds" in _refused(alpha, tmp_path / "huge.lynx")
    data = bundle.read_bytes()
    (tmp_path / "more.lynx").write_bytes(data + b"hidden")
    _refused(alpha, tmp_path / "more.lynx")
    doubled = data[:-1024] + data[: 512 + (-(-_first_size(data) // 512)) * 512] + data[-1024:]
    (tmp_path / "double.lynx").write_bytes(doubled)
    assert "twice" in _refused(alpha, tmp_path / "double.lynx")
    (tmp_path / "empty.lynx").write_bytes(b"")
    _refused(alpha, tmp_path / "empty.lynx")


def _first_size(data: bytes) -> int:
    return tarfile.TarInfo.frombuf(data[:512], "utf-8", "strict").size


def test_an_entry_left_out_of_a_bundle_is_noticed_by_its_proofs(alpha: Team, bundle: Path, tmp_path: Path) -> None:
    members = []
    with tarfile.open(bundle) as archive:
        for info in archive:
            stream = archive.extractfile(info)
            assert stream is not None
            members.append((info.name, stream.read()))
    kept = [(_info(name), data) for name, data in members if not name.startswith("entries/0000000000")]
    assert len(kept) == len(members) - 1
    _refused(alpha, _tar(tmp_path / "less.lynx", *kept))


# --- the log ----------------------------------------------------------------------------------------------------------


def test_checkpoints_are_written_cosigned_and_proven(alpha: Team, tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.json"
    assert alpha.run("results", "log", "--checkpoint", str(file)).code == 0
    bravo = _team("bravo", tmp_path / "bravo")
    _trust(bravo, alpha)
    ledger = str(alpha.home / "ledger")
    assert bravo.run("results", "log", "--cosign", str(file), "--ledger", ledger).code == 0
    _trust(alpha, bravo)
    document = alpha.ask("results", "log", "--against", str(file), "--verify")
    assert document["checkpoints"][0]["teams"] == ["alpha", "bravo"]
    assert "all as recorded" in document["verified"]


def test_a_ledger_that_was_rolled_back_exits_with_five(spin_run: Path, tmp_path: Path) -> None:
    team = _team("alpha", tmp_path / "home")
    folder = tmp_path / spin_run.name
    shutil.copytree(spin_run, folder)
    (folder / "entry.dsse.json").unlink(missing_ok=True)
    assert team.run("results", "log").code == 2, "there is none yet"
    result = team.ask("results", "import", str(folder))["results"][0]
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


def test_rerun_executes_the_same_contract_and_says_what_came_of_it(spin_folder: Path, tmp_path: Path) -> None:
    team = _team("alpha", tmp_path / "home")
    contract = QUICK_CONTRACT.replace("restarts: 2", "restarts: 3") + "policy: {regression: 60 %}\n"
    (tmp_path / "spin.yaml").write_text(contract)
    (tmp_path / "spinning.py").write_text(SPINNING)
    assert team.run("run", "spin.yaml", cwd=tmp_path).code == 0
    (original,) = team.ask("results", "list")["results"]
    done = team.run("rerun", original["result_id"][:10], "--json", cwd=tmp_path)
    said = json.loads(done.out)
    assert said["verdict"] in ("reproduced", "inconclusive"), said
    assert said["effects"]["fp32"]["estimate"] > 0
    shown = team.ask("results", "show", original["result_id"])
    assert [one["text"] for one in shown["standing"]["reruns"]] == [said["verdict"]]
    slow = SPINNING.replace("1_000_000", "4_000_000")
    (tmp_path / "spinning.py").write_text(slow)
    done = team.run("rerun", original["result_id"][:10], cwd=tmp_path)
    assert "EXECUTOR DIFFERS" in done.out
    assert "application.callable_source_sha256" in done.out
    assert '"the spinners"' in done.out or "(the spinners)" in done.out


@pytest.mark.parametrize(
    "words", [["results", "show", "zzzz"], ["results", "show", "abcd1234"], ["contest", "no/such", "--reason", "x"]]
)
def test_an_unknown_name_is_said(alpha: Team, words: list[str]) -> None:
    done = alpha.run(*words)
    assert done.code == 2
    assert done.err.count("\n") == 1
