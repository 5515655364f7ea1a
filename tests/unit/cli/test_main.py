"""The program as a whole: its help without its commands, and wrong usage in one line."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from command_line import CommandRun, lynxbench, lynxbench_here
from lynxbench.cli import main
from lynxbench.cli.lazy_commands import COMMANDS, LazyCommand
from lynxbench.errors import ExitCode

SOURCES = Path(main.__file__).parent
LATE_IMPORTS = {"compare_command.py", "completing.py", "contract_command.py", "run_command.py", "verify_command.py"}
"""Modules that load something after their command has begun; each says why."""


def lazy_commands(group: Any) -> Iterator[LazyCommand]:
    for command in group.commands.values():
        below = command
        if isinstance(command, LazyCommand):
            yield command
            below = command.load()
        if hasattr(below, "commands"):
            yield from lazy_commands(below)


def test_the_tables_say_what_the_commands_say_of_themselves() -> None:
    commands = list(lazy_commands(get_command(main.app)))
    assert len(commands) > 40
    for command in commands:
        loaded = command.load()
        assert loaded.name == command.name
        for limit in (30, 60, 300):
            assert command.get_short_help_str(limit) == loaded.get_short_help_str(limit), command.name


def test_the_help_is_shown_without_loading_a_command() -> None:
    program = (
        "import sys; sys.argv = ['lynxbench', '--help']\n"
        "from lynxbench.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sorted(name for name in sys.modules if name.startswith('lynxbench.')), file=sys.stderr)\n"
        "print(*{'pydantic', 'numpy', 'sqlalchemy', 'rich'} & set(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ours, heavy = done.stderr.splitlines()
    assert ours == (
        "lynxbench.cli lynxbench.cli.completing lynxbench.cli.lazy_commands lynxbench.cli.main lynxbench.cli.terminal "
        "lynxbench.errors lynxbench.public_surface lynxbench.tables lynxbench.visible"
    )
    assert heavy == ""
    listed = [line.split()[0] for line in done.stdout.split("Commands:\n")[1].splitlines() if line]
    assert listed == [key.partition("=")[0] for key in COMMANDS["lynxbench"]]


def test_imports_stand_at_the_top() -> None:
    late = {
        path.name
        for path in SOURCES.glob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        and any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(function))
    }
    assert late == LATE_IMPORTS


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["resluts"], "No such command 'resluts'. Did you mean 'results'?; see lynxbench --help"),
        (["results", "lst"], "No such command 'lst'. Did you mean 'list'?; see lynxbench results --help"),
        (["results", "list", "--limt", "3"], "No such option: --limt (Possible options: --limit,"),
        (["results", "list", "--limit", "0"], "Invalid value for '--limit':"),
        (["results", "list", "--limit", "many"], "Invalid value for '--limit':"),
        (["results", "list", "--precision", "fp7"], "Invalid value for '--precision': 'fp7' is not one of 'fp32',"),
        (["change", "declare", "spin", "--layer", "moon", "--what", "x", "--expect", "1..2"], "'moon' is not one of"),
        (["decide", "whatif", "x", "--fix", "luck"], "'luck' is not one of 'compute', 'memory-bandwidth',"),
        (["key", "new", "x", "--team", "ml", "--role", "boss"], "'boss' is not one of 'runner', 'witness'"),
        (["foreign", "x.json", "--tool", "jmeter"], "'jmeter' is not one of 'auto',"),
        (["compare", "a"], "Missing argument 'b'; see lynxbench compare --help"),
        (["contest", "a"], "Missing option '--reason'; see lynxbench contest --help"),
        (["report", "a", "b"], "Got unexpected extra argument(s) (b); see lynxbench report --help"),
        (["results", "list", "--since", "a\nb"], "--since 'a\\nb': not a time"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path: Path, words: list[str], line: str) -> None:
    done = lynxbench_here(*words, cwd=tmp_path, LYNXBENCH_LEDGER=str(tmp_path))
    assert done.code == ExitCode.BAD_INPUT
    assert done.out == ""
    assert done.err.startswith("lynxbench: ")
    assert done.err.count("\n") == 1
    assert line in done.err


@pytest.mark.parametrize("words", [[], ["results"], ["serve", "user"]])
def test_a_group_without_a_command_shows_its_help(tmp_path: Path, words: list[str]) -> None:
    done = lynxbench_here(*words, cwd=tmp_path)
    assert (done.code, done.out) == (ExitCode.BAD_INPUT, "")
    assert done.err == lynxbench_here(*words, "--help", cwd=tmp_path).out


def test_both_spellings_of_a_category_are_taken(tmp_path: Path) -> None:
    for word in ("memory_bandwidth", "memory-bandwidth"):
        done = lynxbench_here(
            "decide", "whatif", "absent", "--fix", word, cwd=tmp_path, LYNXBENCH_HOME=str(tmp_path / "home")
        )
        # the category is known; the result is what is missing
        assert done.err == "lynxbench: absent: no such file or folder, and no id or name of a result\n"
        assert done.code == 2


def test_the_version(tmp_path: Path) -> None:
    assert lynxbench_here("--version", cwd=tmp_path) == CommandRun(0, f"{main.__version__}\n", "")


def test_an_interrupt_is_one_line_and_a_reader_that_leaves_early_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lynxbench.cli.contract_command.bundled_names", interrupt)
    done = lynxbench_here("contract", "list", cwd=tmp_path)
    assert (done.code, done.err) == (ExitCode.INTERRUPTED, "lynxbench: interrupted\n")
    command = f"set -o pipefail; {sys.executable} -m lynxbench contract schema | head -c 1"
    shell = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (shell.returncode, shell.stderr) == (0, "")


def test_the_module_is_the_same_program(tmp_path: Path) -> None:
    assert lynxbench("--version", cwd=tmp_path).out == f"{main.__version__}\n"


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["contract", "list"], ["contract", "show", "quickstart"]])
def test_a_full_disk_is_said_once_and_with_a_code(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "lynxbench", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("lynxbench: No space left on device; free some, then do it again")
    assert done.stderr.count("\n") == 1


def test_where_nothing_at_all_can_be_written_the_code_says_it() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "lynxbench", "contract", "list"]
        done = subprocess.run(command, stdout=full, stderr=full, check=False)
    assert done.returncode == 2


def test_a_reader_that_leaves_early_is_no_error() -> None:
    shown = subprocess.Popen(
        [sys.executable, "-m", "lynxbench", "contract", "show", "quickstart"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert shown.stdout is not None
    assert shown.stderr is not None
    shown.stdout.close()
    assert shown.stderr.read() == b""
    shown.stderr.close()
    assert shown.wait() == 0
