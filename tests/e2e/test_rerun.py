"""`lynxbench rerun` of a stranger's result through the real command line: what is asked, and what is never executed."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import PAUSING, CommandRun, lynxbench, lynxbench_here
from lynxbench.evidence.documents import read_result, write_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.model.result import Result

TOUCH = "#!/bin/sh\ntouch {marker}\nexit 0\n"


@pytest.fixture
def theirs(spin_run: Path, tmp_path: Path) -> Path:
    """A stranger's run folder, complete and in order, that a test may make hostile."""
    folder = tmp_path / "theirs" / spin_run.name
    shutil.copytree(spin_run, folder)
    (folder / "entry.dsse.json").unlink(missing_ok=True)
    return folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder of the reader's own, with the function that the contract names."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "spinning.py").write_text(PAUSING)
    return folder


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What the attacks leave behind where they are executed."""
    return tmp_path / "executed"


def _register(folder: Path, **surroundings: object) -> None:
    """The registration with hostile surroundings, and the manifest put in order again."""
    file = folder / "registration.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "surroundings": surroundings}))
    write_manifest(folder)


def _program(path: Path, marker: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TOUCH.format(marker=marker))
    path.chmod(0o755)
    return str(path)


def _rerun(folder: Path, cwd: Path, *more: str) -> CommandRun:
    return _asked(lynxbench, folder, cwd, *more)


def _rerun_here(folder: Path, cwd: Path, *more: str) -> CommandRun:
    """The same in this process, where a test sets no trap for the start of a fresh one."""
    return _asked(lynxbench_here, folder, cwd, *more)


def _asked(command: Callable[..., CommandRun], folder: Path, cwd: Path, *more: str) -> CommandRun:
    return command("rerun", str(folder), "--ledger", "none", *more, cwd=cwd, LYNXBENCH_HOME=str(cwd / "home"))


def test_an_interpreter_in_a_registration_is_never_started(theirs: Path, mine: Path, marker: Path) -> None:
    _register(theirs, interpreter=_program(theirs.parent / "python", marker))
    done = _rerun_here(theirs, mine, "--yes")
    assert done.code == 4, done.err
    assert done.err.count("\n") == 1
    assert "never started" in done.err
    assert not marker.exists()
    assert not (mine / "results").exists(), "nothing was registered either"


def test_variables_of_a_registration_load_no_code_and_are_said_to_be_left_out(
    theirs: Path, mine: Path, marker: Path
) -> None:
    """A program in front of `taskset`, a module in front of the installed ones, and a start-up file."""
    evil = theirs.parent / "evil"
    _program(evil / "taskset", marker)
    for name in ("sitecustomize", "usercustomize", "scipy", "numpy"):
        (evil / f"{name}.py").write_text(f"open({str(marker)!r}, 'w')")
    hostile = {"PATH": str(evil), "PYTHONPATH": str(evil), "LD_PRELOAD": str(evil / "x.so"), "BASH_ENV": str(evil)}
    cpu = min(os.sched_getaffinity(0))
    _register(theirs, environment={**hostile, "MALLOC_ARENA_MAX": "1"}, cpus=[cpu])
    done = _rerun(theirs, mine, "--yes", "--json")
    assert done.code == 6, done.err
    assert not marker.exists()
    said = json.loads(done.out)
    assert (said["outcome"], said["verdict"]) == ("undetermined", "executor differs")
    assert said["left_out"] == sorted(hostile)
    assert "the surroundings differ: without BASH_ENV, LD_PRELOAD, PATH, PYTHONPATH" in said["why"]
    assert "left out: BASH_ENV, LD_PRELOAD, PATH, PYTHONPATH (" in done.err
    (run,) = (mine / "results").iterdir()
    around = RunFolder.open(run).registration.surroundings
    assert around is not None
    assert (around.environment, around.cpus, around.interpreter) == ({"MALLOC_ARENA_MAX": "1"}, (cpu,), None)


def test_code_beside_a_result_is_not_executed(theirs: Path, marker: Path) -> None:
    (theirs / "spinning.py").write_text(f"open({str(marker)!r}, 'w')")
    (theirs / "scipy.py").write_text(f"open({str(marker)!r}, 'w')")
    for what in (".", "result.json", str(theirs)):
        done = lynxbench("rerun", what, "--yes", "--ledger", "none", cwd=theirs)
        assert done.code == 3, done.err
        assert done.err.count("\n") == 1
    renamed = theirs.parent / "bundle"
    theirs.rename(renamed)
    _calling(renamed, "bundle.spinning:spin")
    done = _rerun(renamed, renamed.parent, "--yes")
    assert done.code == 3, done.err
    assert "code of a result is not executed" in done.err
    assert not marker.exists()


def _calling(folder: Path, target: str) -> None:
    """The whole result again under a contract that names another function, in good order."""
    result: Result = read_result(folder)
    model = result.contract.workload.model.model_copy(update={"target": target})
    workload = result.contract.workload.model_copy(update={"model": model})
    contract = result.contract.model_copy(update={"workload": workload})
    changed = result.model_copy(update={"contract": contract, "contract_id": contract.contract_id}).sealed()
    write_result(folder / "result.json", changed)
    file = folder / "registration.json"
    document = {**json.loads(file.read_text()), "contract": contract.canonical(), "contract_id": contract.contract_id}
    file.write_text(json.dumps(document))
    write_manifest(folder)


def test_nobody_to_ask_and_no_yes_is_refused_in_one_line(theirs: Path, mine: Path) -> None:
    done = _rerun_here(theirs, mine)
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert "--show" in done.err
    assert "--yes" in done.err
    assert not (mine / "results").exists()


def test_show_executes_nothing(theirs: Path, mine: Path, marker: Path) -> None:
    (mine / "spinning.py").write_text(f"open({str(marker)!r}, 'w')")
    shown = _rerun(theirs, mine, "--show")
    assert shown.code == 0, shown.err
    assert "spinning:spin from " in shown.out
    document = json.loads(_rerun_here(theirs, mine, "--show", "--json").out)
    assert document["contract"]["engine"]["name"] == "callable"
    assert not marker.exists()
    assert not (mine / "results").exists()


@pytest.mark.parametrize("word", ["n", "", "yess", "\x04"])
def test_on_a_terminal_it_is_shown_and_asked_and_only_yes_executes(
    theirs: Path, mine: Path, marker: Path, word: str
) -> None:
    (mine / "spinning.py").write_text(f"open({str(marker)!r}, 'w')\n{PAUSING}")
    code, shown = _on_terminal(theirs, mine, word + "\n" * 3 + "n\n")
    assert code in (3, 130), shown
    assert "would execute, as you, on this machine" in shown
    assert "Execute this?" in shown
    assert not marker.exists()


def test_on_a_terminal_yes_executes(theirs: Path, mine: Path, marker: Path) -> None:
    (mine / "spinning.py").write_text(f"open({str(marker)!r}, 'w')\n{PAUSING}")
    code, shown = _on_terminal(theirs, mine, "y\n")
    assert code == 6, shown  # another file than the original's: undetermined
    assert marker.exists()


def _on_terminal(folder: Path, cwd: Path, typed: str) -> tuple[int, str]:
    """The command with a terminal for its standard input, and what it said."""
    keyboard, terminal = pty.openpty()
    try:
        os.write(keyboard, typed.encode())
        done = subprocess.run(
            [sys.executable, "-m", "lynxbench", "rerun", str(folder), "--ledger", "none"],
            cwd=cwd,
            env={**os.environ, "LYNXBENCH_HOME": str(cwd / "home")},
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
    finally:
        os.close(keyboard)
        os.close(terminal)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("hostile", [{"interpreter": "{evil}"}, {"environment": {"PATH": "{folder}"}, "cpus": [0]}])
def test_a_strangers_unfinished_run_is_not_gone_on_with(
    theirs: Path, mine: Path, spin_folder: Path, marker: Path, hostile: dict[str, object]
) -> None:
    """`run --resume` takes the newest unfinished run of the contract under `--out`; anybody may have put it there."""
    evil = _program(theirs.parent / "evil" / "taskset", marker)
    text = json.dumps(hostile).replace("{evil}", evil).replace("{folder}", str(Path(evil).parent))
    _register(theirs, **json.loads(text))
    (theirs / "result.json").unlink()
    shutil.rmtree(theirs / "attempts")
    shutil.copy(spin_folder / "spin.yaml", mine)
    done = lynxbench_here(
        "run", "spin.yaml", "--resume", "--out", str(theirs.parent), "--ledger", "none", cwd=mine,
        LYNXBENCH_HOME=str(mine / "home"),
    )  # fmt: skip
    assert done.code == 3, done.err
    assert "not taken from a document" in done.err
    assert not marker.exists()
