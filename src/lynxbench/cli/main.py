"""The command line: verbs that a person remembers, each imported when it is asked for."""

import os
import sys
from contextlib import suppress

import typer
from typer.main import get_command

from lynxbench import __version__
from lynxbench.cli.completing import Shell, complete, completion_script
from lynxbench.cli.lazy_commands import COMMANDS, command_group
from lynxbench.cli.terminal import finish, say, tell
from lynxbench.errors import ExitCode, LynxbenchError, is_disk_full

app = command_group(
    "Measure AI performance under a contract, attribute the time to a layer and its owner, decide from evidence.",
    COMMANDS["lynxbench"],
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(__version__)
        raise typer.Exit


def _print_completion(shell: Shell | None) -> None:
    if shell is not None:
        say(completion_script(shell))
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
    show_completion: Shell | None = typer.Option(
        None,
        "--show-completion",
        callback=_print_completion,
        is_eager=True,
        help="Print what makes a shell complete commands and options; add it to its start-up file.",
    ),
) -> None:
    pass


def main() -> None:
    """Parse, call, and turn every deliberate error into one line and its exit code."""
    try:
        code = _carry_out()
        finish()
    except LynxbenchError as error:
        _fail(str(error), error.exit_code)
    except typer.TyperException as error:
        _fail_usage(error)
    except (KeyboardInterrupt, EOFError, typer.Abort):
        _fail("interrupted", ExitCode.INTERRUPTED)
    except BrokenPipeError:
        _let_go_of_output()
        sys.stderr.close()  # the reader of a pipe left early: nothing is wrong
        sys.exit(ExitCode.DONE)
    except OSError as error:  # a full disk, a file that went away or may not be read
        _let_go_of_output()
        where = f"{error.filename}: " if error.filename else ""
        remedy = "; free some, then do it again: what was written whole is kept" if is_disk_full(error) else ""
        _fail(f"{where}{error.strerror or error}{remedy}", ExitCode.BAD_INPUT)
    else:
        if code is not None:
            sys.exit(code)


def _carry_out() -> int | None:
    """The command that was asked for; the exit code that it chose, if it did."""
    command = get_command(app)
    completed = complete(command)
    if completed is not None:
        return completed
    try:
        with command.make_context("lynxbench", sys.argv[1:]) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return None


def _let_go_of_output() -> None:
    """What could not be written is said once; the interpreter would try again when it ends, and complain."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail_usage(error: typer.TyperException) -> None:
    """What the parser says of wrong usage, in the program's one line; a group without a command shows its help."""
    context, message = getattr(error, "ctx", None), error.format_message()
    if context is not None and message == context.get_help():
        for line in message.splitlines():
            tell(line)
        sys.exit(ExitCode.BAD_INPUT)
    line = " ".join(message.replace("Value error, ", "").split())
    _fail(line if context is None else f"{line.rstrip('.')}; see {context.command_path} --help", ExitCode.BAD_INPUT)


def _fail(line: str, code: ExitCode) -> None:
    with suppress(OSError):  # standard error may be full, too: the exit code says it
        tell(f"lynxbench: {line}")
    sys.exit(code)
