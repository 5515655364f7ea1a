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
