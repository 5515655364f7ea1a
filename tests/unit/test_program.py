"""The program as it is installed: what it switches off while it loads is on again when a command runs."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", [["executor", "--json"], ["key", "list"], ["results", "list"], ["contract", "list"]])
def test_garbage_is_collected_again_once_a_command_runs(words: list[str], tmp_path) -> None:
    code = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(gc.isenabled(), file=sys.stderr))\n"
        f"sys.argv = ['lynxbench', *{words!r}]\n"
        "from lynxbench.__main__ import main\n"
        "main()\n"
    )
    environment = {"LYNXBENCH_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stderr.splitlines()[-1] == "True", done.stderr
