"""The command line as other people's scripts know it: no command, option, default or word is lost unnoticed."""

from __future__ import annotations

import json
import os
from pathlib import Path

from command_tree import described_commands, render_commands

STORED = Path(__file__).resolve().parents[2] / "golden" / "command_tree.json"


def test_the_commands_are_the_stored_ones() -> None:
    """LYNXBENCH_UPDATE_GOLDEN=1 writes the file anew, to be read in the diff."""
    commands = described_commands()
    if os.environ.get("LYNXBENCH_UPDATE_GOLDEN"):
        STORED.write_text(render_commands(commands), encoding="utf-8")
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    assert list(commands) == list(stored)
    assert commands == stored


STAY = ("lynxbench serve", "lynxbench demo-server", "lynxbench schedule agent")
"""They serve until they are stopped, and answer nothing."""


def test_every_command_that_answers_takes_json_as_the_readme_says() -> None:
    readme = (Path(__file__).resolve().parents[3] / "README.md").read_text(encoding="utf-8")
    (promise,) = [line for line in readme.splitlines() if line.startswith("Every command that answers takes `--json`")]
    assert all(f"`{name.removeprefix('lynxbench ')}`" in promise for name in STAY)
    for name, command in described_commands().items():
        if command.get("no_args_is_help") or name in STAY:
            continue
        assert any("--json" in parameter["words"] for parameter in command["parameters"]), name
