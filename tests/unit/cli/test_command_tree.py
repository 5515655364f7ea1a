"""The command line as other people's scripts know it: no command, option, default or word is lost unnoticed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from command_tree import Described, described_commands, render_commands

STORED = Path(__file__).resolve().parents[2] / "golden" / "command_tree.json"


@pytest.fixture(scope="module")
def commands() -> dict[str, Described]:
    return described_commands()


def test_the_commands_are_the_stored_ones(commands: dict[str, Described]) -> None:
    """LYNXBENCH_UPDATE_GOLDEN=1 writes the file anew, to be read in the diff."""
    if os.environ.get("LYNXBENCH_UPDATE_GOLDEN"):
        STORED.write_text(render_commands(commands), encoding="utf-8")
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    assert list(commands) == list(stored)
    assert commands == stored


STAY = ("lynxbench serve", "lynxbench demo-server", "lynxbench schedule agent")
"""They serve until they are stopped, and answer nothing."""


def test_every_command_that_answers_takes_json_as_the_readme_says(commands: dict[str, Described]) -> None:
    readme = (Path(__file__).resolve().parents[3] / "README.md").read_text(encoding="utf-8")
    (promise,) = [line for line in readme.splitlines() if line.startswith("Every command that answers takes `--json`")]
    assert all(f"`{name.removeprefix('lynxbench ')}`" in promise for name in STAY)
    for name, command in commands.items():
        if command.get("no_args_is_help") or name in STAY:
            continue
        assert any("--json" in parameter["words"] for parameter in command["parameters"]), name
