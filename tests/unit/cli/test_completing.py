"""A shell completes commands, options and words to choose from, without loading more than it asks for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from command_line import lynxbench_here


def words(line: str, tmp_path: Path) -> list[str]:
    """What bash is offered at the end of a line."""
    place = len(line.split()) - (0 if line.endswith(" ") else 1)
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(place), "_LYNXBENCH_COMPLETE": "complete_bash"}
    done = lynxbench_here(cwd=tmp_path, **asked)
    assert done.code == 0, done.err
    return done.out.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("lynxbench re", {"report", "rerun", "retract", "results"}),
        ("lynxbench results ex", {"export"}),
        ("lynxbench results export --without", {"--without-traces"}),
        ("lynxbench results export --format ", {"bundle", "openmetrics", "csv", "parquet", "mlflow", "otlp"}),
    ],
)
def test_words_are_those_of_the_place(line: str, offered: set[str], tmp_path: Path) -> None:
    assert set(words(line, tmp_path)) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell: str, tmp_path: Path) -> None:
    done = lynxbench_here("--show-completion", shell, cwd=tmp_path)
    assert done.code == 0
    assert f"_LYNXBENCH_COMPLETE=complete_{shell}" in done.out
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=done.out, text=True, check=True)


def test_a_shell_that_is_not_known_is_one_line(tmp_path: Path) -> None:
    done = lynxbench_here("--show-completion", "tcsh", cwd=tmp_path)
    assert done.code == 2
    assert "is not one of 'bash', 'zsh', 'fish'" in done.err
    assert done.err.count("\n") == 1
