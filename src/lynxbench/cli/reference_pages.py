"""The reference pages, made from the code: `python -m lynxbench.cli.reference_pages docs/reference`."""

import sys
from pathlib import Path
from typing import Any

import typer.main

from lynxbench.cli.lazy_commands import LazyCommand
from lynxbench.cli.main import app
from lynxbench.cli.python_reference import render_python
from lynxbench.compare.rules import render_rules
from lynxbench.contract.contract_reference import render_reference
from lynxbench.errors import ExitCode

_EXIT_MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.VERDICT_NO: "a verdict says no: regressed, not reproduced, void, a series that `steady` does not find "
    "steady, contracts that differ, a contract that is not agreed yet, a decision that is held back, a "
    "`bisect` whose bad commit is not slower. A run that is "
    "doubtful or not steady is done (0) and says so",
    ExitCode.BAD_INPUT: "wrong usage or bad input, a function of the user's own that is not there or fails (with "
    "`ci`: at the head), a full disk; one line says what, where and what would be right",
    ExitCode.REFUSED: "refused: the answer would be unsound, such as a comparison of what is not comparable",
    ExitCode.CANNOT_RUN: "this executor cannot run this contract; the line says what is missing",
    ExitCode.EVIDENCE_INVALID: "evidence does not verify",
    ExitCode.UNPROVEN: "unproven: `compare` shows figures that would decide, and a side is doubtful or not shown to be "
    "steady; `rerun` is undetermined; `ci --fail-on doubt` met doubt; `bisect` could not settle on one commit. "
    "Not a pass: *To settle it*, `sound_if` and the line itself say what to do",
    ExitCode.CANNOT_VERIFY: "cannot be verified: `verify` found nothing wrong, and what the figures rest on (samples, "
    "registration, attempts, telemetry) is not all there. Not a pass",
    ExitCode.INTERRUPTED: "interrupted; what was measured is kept and `--resume` goes on",
}


def render_exit_codes() -> str:
    """The page of exit codes."""
    rows = "\n".join(f"| {code.value} | {_EXIT_MEANINGS[code]} |" for code in ExitCode)
    return f"# Exit codes\n\n| code | meaning |\n|---|---|\n{rows}\n"


def render_commands() -> str:
    """The page of commands: every verb with its arguments and options."""
    root = typer.main.get_command(app)
    lines = ["# Commands", "", "Every command takes `--help`. `python -m lynxbench` is the same program.", ""]
    lines += _describe(root, "lynxbench", top=True)
    return "\n".join(lines).rstrip() + "\n"


def _describe(command: Any, path: str, top: bool = False) -> list[str]:
    lines: list[str] = []
    if not top:
        lines += [f"## `{path}`", "", (command.help or "").strip(), ""]
    rows = [_row(parameter) for parameter in command.params]
    if rows:
        lines += ["| parameter | meaning | default |", "|---|---|---|", *rows, ""]
    for name, child in sorted(getattr(command, "commands", {}).items()):
        lines += _describe(child.load() if isinstance(child, LazyCommand) else child, f"{path} {name}")
    return lines


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        shown = f"`{parameter.name.upper()}`"
    else:
        shown = ", ".join(f"`{name}`" for name in parameter.opts)
    meaning = (parameter.help or "").replace("|", "\\|")
    if parameter.type_descriptor.choices:
        meaning += " One of " + ", ".join(f"`{choice.value}`" for choice in parameter.type_descriptor.choices) + "."
    return f"| {shown} | {meaning} | {_default(parameter.default)} |"


def _default(value: Any) -> str:
    if value in (None, False, "", []) or callable(value):
        return ""
    values = value if isinstance(value, list) else [value]
    return ", ".join(f"`{getattr(part, 'value', part)}`" for part in values)


def pages() -> dict[str, str]:
    """Every generated page by its file name."""
    return {
        "commands.md": render_commands(),
        "exit-codes.md": render_exit_codes(),
        "contract.md": render_reference(),
        "comparability-rules.md": render_rules(),
        "python.md": render_python(),
    }


def main(folder: Path) -> None:
    """Write the pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
