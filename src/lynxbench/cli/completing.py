"""Shell completion: the script that a shell reads once, and the words that it then asks the program for.

What makes them is loaded when it is asked for: every command comes by here.
"""

import os
from enum import StrEnum
from typing import Any

VARIABLE = "_LYNXBENCH_COMPLETE"
"""Set by the script alone: what is asked for, such as `complete_bash`."""


class Shell(StrEnum):
    """Shells that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion_script(shell: Shell) -> str:
    """What a shell is to read: `lynxbench --show-completion bash >> ~/.bashrc`."""
    from typer._completion_shared import get_completion_script

    return get_completion_script(prog_name="lynxbench", complete_var=VARIABLE, shell=shell.value)


def complete(command: Any) -> int | None:
    """Answer a shell that asks for words, and the exit code; None where nobody asks."""
    asked = os.environ.get(VARIABLE)
    if asked is None:
        return None
    from typer._completion_classes import completion_init
    from typer.completion import shell_complete

    completion_init()
    return shell_complete(command, {}, "lynxbench", VARIABLE, asked)
